import re
from typing import Any

import pytest

from agent.errors import DialectError
from agent.sources.lines.dialects.dialect import Action, LogEvent
from agent.sources.lines.dialects.dialect_loader import (
    choose_dialects,
    list_codes,
    load_broker_dialects,
    load_client_dialects,
    parse_dialect,
)
from agent.sources.lines.dialects.dialect_matcher import Dialects
from metrics.model.status import RebalanceStatus

MINIMAL = {"dialect": "d", "family": "f", "anchor": "[X ", "prefix": r"\[X \] ", "rules": []}
RULE = {"text": "a", "does": "ignore"}
LINE = "2026-11-21 [Consumer clientId=c, groupId=g] "


def read(line: str, extra: list[dict[str, Any]] | None = None) -> LogEvent | None:
    readings = choose_dialects("auto", extra or []).matchers
    return next((event for reading in readings if (event := reading.read(line))), None)


def found(line: str) -> tuple[str, str]:
    event = read(line)
    assert event is not None
    return event.rule.dialect, event.rule.name


WRONG = [
    ([], "d.yaml: found [], wanted a mapping"),
    (
        MINIMAL | {"anchr": 1},
        "d.yaml: unknown key 'anchr'; known: anchor, anchor_after, anonymous, ",
    ),
    ({"dialect": "d", "rules": []}, "d.yaml: missing anchor, family, prefix"),
    (MINIMAL | {"prefix": "("}, "d.yaml: prefix: missing ), unterminated subpattern at position 0"),
    (MINIMAL | {"suffix": "["}, "d.yaml: suffix: unterminated character set at position 0 in '['"),
    (MINIMAL | {"rules": 5}, "d.yaml: rules: found 5, wanted a list"),
    (
        MINIMAL | {"group_type": "clasic"},
        "d.yaml: group_type: found 'clasic', wanted one of classic, consumer, share, streams",
    ),
]
WRONG_RULES = [
    ("text", "found 'text', wanted a mapping"),
    ({"does": "ignore"}, ": missing text"),
    (RULE | {"txt": "b"}, ": unknown key 'txt'; known: "),
    ({"text": "a"}, "found no action, wanted one of raise, follow_up, streams, announce, does"),
    (RULE | {"raise": "NewMember"}, "found raise and does, wanted one of raise, follow_up"),
    ({"text": "a", "does": "fly"}, ".does: found 'fly', wanted one of sync, settle, assigned, "),
    ({"text": "a", "raise": "NewMembr"}, ".raise: found 'NewMembr', wanted one of Coordinator"),
    ({"text": "a", "raise": "None"}, ".raise: found 'None', wanted one of "),
    ({"text": "a", "raise": "VersionProbing"}, ".raise: found 'VersionProbing', wanted one of "),
    (
        {"text": "a", "streams": "NewMember"},
        ".streams: found 'NewMember', wanted one of Revocation",
    ),
    ({"text": "(a", "does": "ignore"}, ".text: missing ), unterminated subpattern at position 0"),
    ({"text": "(" * 3_000 + ")" * 3_000, "does": "ignore"}, ".text: maximum recursion depth"),
    ({"text": "a{99999999999}", "does": "ignore"}, ".text: the repetition number is too large"),
]


@pytest.mark.parametrize(("data", "message"), WRONG)
def test_a_wrong_dialect_says_what_and_where(data: Any, message: str) -> None:
    with pytest.raises(DialectError) as error:
        parse_dialect(data, "d.yaml")

    assert message in str(error.value)


@pytest.mark.parametrize(("rule", "message"), WRONG_RULES)
def test_a_wrong_rule_says_what_and_where(rule: Any, message: str) -> None:
    with pytest.raises(DialectError) as error:
        parse_dialect(MINIMAL | {"rules": [RULE, rule]}, "d.yaml")

    assert str(error.value).startswith("d.yaml: rules[1]")
    assert message in str(error.value)


def test_an_unknown_dialect_is_answered_with_the_known_ones() -> None:
    with pytest.raises(DialectError, match=r"unknown dialect 'java-9'; known: auto, aiokafka-"):
        choose_dialects("java-9")


def test_a_rule_of_the_configuration_comes_before_all_built_in_ones() -> None:
    mine = {"text": "Attempt to heartbeat failed since group is rebalancing", "does": "ignore"}

    event = read(LINE + "Attempt to heartbeat failed since group is rebalancing", [mine])

    assert event is not None
    assert (event.rule.name, event.rule.action) == ("user-0", Action.IGNORE)


def test_a_rule_of_the_configuration_may_catch_all() -> None:
    mine = {"rule": "mine", "text": "Request joining group due to: (?P<reason>.*)", "does": "fail"}

    event = read(LINE + "Request joining group due to: group is already rebalancing", [mine])

    assert event is not None
    assert (event.rule.name, event.rule.dialect) == ("mine", "config")


@pytest.mark.parametrize("number", ["9" * 19, "9" * 5000, "-", "many", "1.5", "\u0661"])
@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("round (?P<generation>.*)", "round {}"),
        ("of (?P<sent_generation>.*)", "of {}"),
        ("for (?P<due_ms>.*)", "for {}"),
    ],
)
def test_a_number_that_is_none_leaves_its_line_unread(number: str, text: str, numbers: str) -> None:
    """Neither a hostile log nor a careless rule may end the reading."""
    mine = {"text": text, "raise": "UserRequested"}

    assert read(LINE + numbers.format(number), [mine]) is None
    assert read(LINE + numbers.format("17"), [mine]) is not None


def test_a_rule_of_the_configuration_belongs_to_the_dialect_that_it_names() -> None:
    mine = {"dialect": "java-share-consumer-4.0-4.3", "text": "Hello", "raise": "RetryOnError"}

    event = read("[ShareConsumer clientId=c, groupId=g] Hello", [mine])

    assert event is not None
    assert (event.rule.group_type, event.rule.status) == ("share", RebalanceStatus.RETRY_ON_ERROR)
    assert read(LINE + "Hello", [mine]) is None


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("text", "rules[0]: found 'text', wanted a mapping"),
        ({"text": "a"}, "rules[0]: found no action"),
        (RULE | {"dialect": "java-9"}, "rules[0].dialect: unknown dialect 'java-9'; known: ["),
    ],
)
def test_a_wrong_rule_of_the_configuration_says_where(rule: Any, message: str) -> None:
    with pytest.raises(DialectError) as error:
        choose_dialects("auto", [rule])

    assert message in str(error.value)


@pytest.mark.parametrize("tail", ["", " (org.apache.kafka.clients.consumer.internals.Any)"])
def test_a_logger_behind_the_text_is_no_part_of_it(tail: str) -> None:
    line = LINE + "Request joining group due to: group is already rebalancing" + tail

    assert found(line) == ("java-consumer-3.0-4.3", "group-rebalancing")


def test_a_users_parentheses_are_part_of_the_reason() -> None:
    event = read(LINE + "Request joining group due to: deploy (see ops.md)")

    assert event is not None
    assert event.captures["reason"] == "deploy (see ops.md)"


def test_who_speaks_is_read_from_the_prefix() -> None:
    event = read("x [Consumer instanceId=i-1, clientId=a b, groupId=g, 1] (Re-)joining group")

    assert event is not None
    assert event.captures == {"instance_id": "i-1", "client_id": "a b", "group": "g, 1"}


def test_an_empty_capture_is_none() -> None:
    event = read(LINE + "Member  with epoch 0 transitioned from UNSUBSCRIBED to JOINING.")

    assert event is not None
    assert "member_id" not in event.captures


@pytest.mark.parametrize(
    "line",
    [
        "Request joining group due to: deploy",
        "[Producer clientId=c] Cluster ID: x",
        LINE,
        LINE + "Discovered group coordinator 127.0.0.1:9092 (id: 1 rack: null)",
        "[Consumer clientId=c] (Re-)joining group",
        "",
    ],
)
def test_a_line_that_no_rule_knows_is_not_read(line: str) -> None:
    assert read(line) is None


@pytest.mark.parametrize(
    "layout",
    [
        "{}",
        "2026-11-21 INFO {}",
        "INFO:kafka.coordinator:{}",
        '{{"message":"{}"}}',
        "<6>app[1]: {}",
    ],
)
def test_pythons_messages_are_read_in_any_layout(layout: str) -> None:
    line = layout.format("Group orders is rebalancing; rejoining.")

    assert found(line) == ("kafka-python-2.2-3.0", "heartbeat-rebalancing")


def test_a_text_within_another_word_is_not_read() -> None:
    assert read("TheGroup orders is rebalancing; rejoining.") is None


def test_codes_count_a_leave_and_what_stands_beside() -> None:
    base: dict[str, Any] = MINIMAL | {
        "rules": [
            {"rule": "gone", "text": "a", "does": "leave"},
            {"rule": "new", "text": "b", "raise": "NewMember"},
        ]
    }
    first, one, both = (
        parse_dialect(base, "a"),
        parse_dialect(MINIMAL | {"beside": ["d/new"]}, "b"),
        parse_dialect(MINIMAL | {"beside": ["d"]}, "c"),
    )

    shown = [{int(code) for code in list_codes(dialect, [first])} for dialect in (first, one, both)]

    assert shown == [{2, 6}, {2}, {2, 6}]


def test_the_catch_all_of_one_dialect_hides_no_text_of_another() -> None:
    catches: dict[str, Any] = {"rule": "any", "text": "a: (?P<reason>.*)", "does": "fail"}
    first = parse_dialect(MINIMAL | {"rules": [catches]}, "a")
    second = parse_dialect(
        MINIMAL | {"rules": [{"rule": "b", "text": "a: b", "does": "join"}]}, "b"
    )

    (reading,) = Dialects(all=(first, second)).matchers
    events = [reading.read(f"[X ] a: {text}") for text in "bc"]

    assert [event.rule.name for event in events if event is not None] == ["b", "any"]


def test_all_shipped_dialects_are_loaded_in_the_order_of_their_names() -> None:
    names = [dialect.name for dialect in load_client_dialects()]

    assert names == sorted(names)
    assert "java-consumer-3.0-4.3" in names


def test_the_texts_of_shipped_dialects_compile_and_name_their_captures() -> None:
    rules = [rule for dialect in load_client_dialects() for rule in dialect.rules]
    rules += [rule for dialect in load_broker_dialects() for rule in dialect.rules]

    assert len(rules) > 200
    for rule in rules:
        assert rule.captures == tuple(re.compile(rule.text).groupindex), rule.name


def test_nothing_but_the_end_of_a_text_may_be_any_text_of_any_length() -> None:
    anything = re.compile(r"(?<!\\)\.[+*](?!\??[)?$]*$)")
    for dialect in (*choose_dialects("auto").all, *load_broker_dialects()):
        assert not re.search(r"(?<!\\)(?:\.|\[\^[^\]]*\])[+*]", dialect.prefix.pattern), (
            dialect.name
        )
        for rule in dialect.rules:
            assert not anything.search(rule.text), (dialect.name, rule.name)


def test_a_dot_in_a_class_or_behind_a_backslash_is_a_dot() -> None:
    event = read(LINE + "at a.*+ b", [{"text": r"at a[.*]+\.?\+ (?P<reason>b.*)", "does": "leave"}])

    assert event is not None
    assert event.captures["reason"] == "b"


def test_every_rule_of_a_dialect_has_a_name_of_its_own() -> None:
    for dialect in load_client_dialects():
        names = [rule.name for rule in dialect.rules]
        assert len(names) == len(set(names)), dialect.name
