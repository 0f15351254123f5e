"""Rules of users: an expression that would stop the agent is refused."""

import importlib
import re
from collections.abc import Iterator
from typing import Any

import pytest

from agent.errors import DialectError
from agent.sources.lines.dialects.backtracking import bound_cost
from agent.sources.lines.dialects.dialect_loader import choose_dialects
from agent.sources.lines.dialects.first_characters import first_of_all

COSTLY = [
    "(a+)+$",
    "(?:a*)*b",
    r"(\w+\s?)+$",
    "(?:x|xx)+?y",
    r"(?P<reason>(?:[a-z]+)*)!",
    r"left (?:.*,?){8,}",
    "(?=(a+)+b)c",
    "(?>(a+)+x)",
    r"(?:foo|bar|\d+)*,",
    "(a?){64}b",
    ".*a.*b.*c.*d",
    r"\w+\w+\w+x",
    "(?:a|b)?" * 30 + "a",
    "a{1,100000}b",
]
CHEAP = [
    "rebalance: (?P<reason>.*)",
    r"(?:\w+, )*end",
    r"(?:\w++, )*+end",
    r"(?:[^,]+,){1,64}",
    "(?:a|b){1,3}c",
    "(a|ab)*c",
    "(?:left|lost)+ x",
    r"(?:\w|-)+ x",
    r"(?>(a+)+)b",
    r"\S+ \S+ \S+ \d{1,9}",
    r"lost (?P<member_id>.*) of (?P<group>.*) by (?P<reason>.*)$",
    r"generation \d+ of \S+ by \S+$",
    r"moved (.*) to (.*) via (.*) of group",
    r"\d+\.\d+ (?P<reason>.+)$",
    r"[*+]{2,} \* \d{1,3}",
]
TEXTS = [
    "rebalance: by hand",
    "one, two, three, end",
    "one two end",
    "a,b,c,",
    "abc",
    "ababaac",
    "leftlost x",
    "a-b_c x",
    "aaab",
    "one two three 4",
    "lost c-1 of pay of it by a user (again)",
    "generation 7 of pay by c-1",
    "1.5 lost",
    "moved a to b via c of group",
    "** * 1",
    "",
]


@pytest.mark.parametrize("text", COSTLY)
def test_expression_of_many_ways_has_no_bound(text: str) -> None:
    assert bound_cost(text) is None


@pytest.mark.parametrize("text", CHEAP)
def test_expression_of_few_ways_matches_what_it_matched(text: str) -> None:
    bounded = bound_cost(text)

    assert bounded is not None
    found = [re.match(text, line) for line in TEXTS]
    assert any(found)
    assert [each and each.groups() for each in map(re.compile(bounded).match, TEXTS)] == [
        each and each.groups() for each in found
    ]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("left [^,]+,", "left [^,]{1,1024},"),
        (".*x.*y", ".{0,300}x.{0,300}y"),
        (r"\*+ [*+]{2,}! .*", r"\*{1,1024} [*+]{2,1024}! .*"),
        ("(?P<reason>.+)$", "(?P<reason>.+)$"),
    ],
)
def test_part_of_any_length_has_a_limit_but_at_the_end(text: str, wanted: str) -> None:
    assert bound_cost(text) == wanted


def test_rule_of_a_user_cannot_stall_the_agent() -> None:
    rule = {"text": "(a+)+$", "raise": "MetadataChanged", "dialect": "java-consumer-3.0-4.3"}

    with pytest.raises(DialectError, match="in too many ways"):
        choose_dialects("auto", (rule,))


def test_rule_of_a_user_with_several_parts_is_read() -> None:
    rule = {
        "text": r"My own (?:hook|plug-in)* lost (?P<member_id>.*) of .* by \S+$",
        "raise": "MetadataChanged",
    }

    dialects = choose_dialects("auto", (rule,))

    line = "[Consumer clientId=c, groupId=g] My own hook lost c-1 of all by hand"
    events = [matcher.read(line) for matcher in dialects.matchers]
    assert [event.captures for event in events if event is not None] == [
        {"client_id": "c", "group": "g", "member_id": "c-1"}
    ]


def find_unbounded(items: Any, *, is_end: bool = True) -> Iterator[Any]:
    """Yield the bodies of the repeats without a limit, with text behind them that may lack."""
    for number, (kind, value) in enumerate(items):
        name, is_last = str(kind), is_end and number + 1 == len(items)
        if name in {"MAX_REPEAT", "MIN_REPEAT"}:
            if str(value[1]) == "MAXREPEAT" and not is_last:
                yield value[2]
            yield from find_unbounded(value[2], is_end=False)
        elif name in {"SUBPATTERN", "ATOMIC_GROUP"}:
            inner = value[-1] if name == "SUBPATTERN" else value
            yield from find_unbounded(inner, is_end=is_last)
        elif name == "BRANCH":
            for part in value[1]:
                yield from find_unbounded(part, is_end=is_last)


def test_search_for_a_fixed_begin_does_not_run_over_it_without_a_limit() -> None:
    """A line of such begins would cost the square of its length, from each of them to its end."""
    parser = importlib.import_module("re._parser")
    searched = []
    for matcher in choose_dialects("auto").matchers:
        begin = set(matcher.head.encode())
        if begin and all(each.prefix.pattern == matcher.head for each in matcher.prefixes):
            searched.append(matcher.family)
            for finder in matcher.finders:
                for body in find_unbounded(parser.parse(finder.pattern, finder.flags)):
                    assert not begin <= first_of_all(body)[0], finder.pattern

    assert "sarama" in searched
