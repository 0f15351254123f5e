"""Rules of users: an expression that would stop the agent is refused."""

import pytest

from agent.errors import DialectError
from agent.sources.lines.backtracking import find_costly_part
from agent.sources.lines.dialect_loader import choose_dialects, load_client_dialects

COSTLY = [
    "(a+)+$",
    "(?:a*)*b",
    r"(\w+\s?)+$",
    "(a|ab)*c",
    "(?:x|xx)+?y",
    r"(?P<reason>(?:[a-z]+)*)!",
    r"left (?:.*,?){8,}",
    "(?=(a+)+b)c",
]
CHEAP = [
    "rebalance: (?P<reason>.*)",
    r"(?:\w+, )*end",
    r"(?:\w++ ?)*+end",
    r"(?:[^,]+,){1,64}",
    "(?:a|b){1,3}c",
    r"(?>(a+)+)b",
    r"\S+ \S+ \S+ \d{1,9}",
]


@pytest.mark.parametrize("text", COSTLY)
def test_expression_of_exponential_cost_is_found(text: str) -> None:
    assert find_costly_part(text) is not None


@pytest.mark.parametrize("text", CHEAP)
def test_expression_that_tries_once_is_left_alone(text: str) -> None:
    assert find_costly_part(text) is None


def test_rule_of_a_user_cannot_stall_the_agent() -> None:
    rule = {"text": "(a+)+$", "raise": "MetadataChanged", "dialect": "java-consumer-3.0-4.3"}

    with pytest.raises(DialectError, match="a repeat within a repeat"):
        choose_dialects("auto", (rule,))


def test_rules_of_dialects_have_no_such_cost() -> None:
    texts = [rule.text.pattern for each in load_client_dialects() for rule in each.rules]

    assert [text for text in texts if find_costly_part(text) is not None] == []
