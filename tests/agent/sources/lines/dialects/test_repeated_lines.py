"""Lines that repeat an earlier one: known by their bytes, and the same as if they were read."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent.sources.lines.dialects.dialect_loader import choose_dialects
from agent.sources.lines.dialects.dialect_matcher import DialectMatcher, Dialects
from agent.sources.lines.dialects.line_finder import MarkFinder
from agent.sources.lines.dialects.repeated_lines import Matchers, RepeatedLines
from agent.sources.lines.parsing.line_parser import LineParser, ParsedLine
from agent.sources.logs.client_interpreter import ClientInterpreter
from agent.sources.logs.client_parser import create_parser
from metrics.model.signals import Signal

if os.environ.get("CI") != "true":  # there a missing package is a failure
    pytest.importorskip("ahocorasick_rs")

_LOGS = sorted((Path(__file__).parents[4] / "golden" / "dialects").glob("*/input.log"))
_AT = 1_900_000_000.0
_CLIENT = "INFO [Consumer clientId=c, groupId=g]"
_CONFIG = (
    "INFO ConsumerConfig values: \n\tclient.id = c\n\tgroup.id = g\n\tgroup.instance.id = null"
)
_JOINS = f"{_CLIENT} (Re-)joining group"

_TWICE = (f"2026-11-21 10:00:01,000 {_JOINS}", f"2026-11-21 10:00:01,001 {_JOINS}")
"""A text is known from its second line on."""


def _parser() -> LineParser:
    dialects = Dialects(all=choose_dialects("auto").all)  # with caches of its own
    return create_parser(dialects, ClientInterpreter(stream="s"), "UTC")


def _find_none(*_: object) -> None:
    """Know no line."""


def _signals(log: bytes) -> list[Signal]:
    parser = _parser()
    return [s for _ in range(3) for s in parser.feed(log, _AT)] + parser.flush()


@pytest.mark.parametrize("log", _LOGS, ids=lambda path: path.parent.name)
def test_a_log_that_is_read_again_gives_what_it_gives_without_the_cache(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = log.read_bytes()
    with_cache = _signals(block)
    monkeypatch.setattr(RepeatedLines, "find", _find_none)
    monkeypatch.setattr(RepeatedLines, "find_by_head", _find_none)

    assert with_cache == _signals(block)


def _read(lines: Sequence[str]) -> tuple[int, list[ParsedLine]]:
    """Return how many lines a dialect has read from their begin, and all lines."""
    parser, number = _parser(), 0
    read = DialectMatcher.read

    def count(matcher: DialectMatcher, entry: str) -> object:
        nonlocal number
        number += 1
        return read(matcher, entry)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DialectMatcher, "read", count)
        found = list(parser.lines("".join(f"{line}\n" for line in lines).encode(), _AT))
    return number, found


def _read_counts(*lines: str) -> tuple[int, list[tuple[float, str]]]:
    """Return how many lines a dialect has read, and the time and the origin of each."""
    number, found = _read(lines)
    assert [line.event.rule.name for line in found if line.event] == ["joining"] * len(lines)
    assert [line.text.partition("INFO")[2] for line in found] == [_JOINS[4:]] * len(lines)
    return number, [(line.at % 60, line.origin) for line in found]


def test_a_repeated_line_is_not_matched_again_and_has_its_own_time() -> None:
    number, found = _read_counts(
        *_TWICE, f"2026-11-21 10:00:02,500 {_JOINS}", f"2026-11-21 10:00:03,25 {_JOINS}"
    )

    assert number == 2
    assert found[2:] == [(2.5, ""), (3.25, "")]


@pytest.mark.parametrize(
    ("second", "at", "origin"),
    [
        pytest.param(f"2026-11-21 10:01:02,000 {_JOINS}", 2.0, "", id="another-minute"),
        pytest.param(f"[2026-11-21 10:00:02,000 {_JOINS}", 2.0, "", id="another-layout"),
        pytest.param(f"2026-11-21 10:00:02 {_JOINS}", 2.0, "", id="no-fraction"),
        pytest.param(f"2026-11-21 10:00:02,000Z {_JOINS}", 2.0, "", id="a-zone"),
        pytest.param(
            f"payments-1  | 2026-11-21 10:00:02,000 {_JOINS}", 2.0, "payments-1", id="an-origin"
        ),
        pytest.param(f"\x1b[32m2026-11-21 10:00:02,000\x1b[0m {_JOINS}", 2.0, "", id="colours"),
    ],
)
def test_a_line_that_begins_in_another_way_is_read(second: str, at: float, origin: str) -> None:
    number, found = _read_counts(*_TWICE, second)

    assert number == 3
    assert found[2] == (at, origin)


def _synced(second: int, generation: int, name: str = "c") -> str:
    return (
        f"2026-11-21 10:00:0{second},000 INFO [Consumer clientId={name}, groupId=g] Successfully"
        f" synced group in generation Generation{{generationId={generation}, memberId='{name}-1',"
        " protocol='range'}}"
    )


def _events(*lines: str) -> tuple[int, list[tuple[str, str, float]]]:
    """Return the number of lines that a dialect has read from their begin, and their events."""
    number, found = _read(lines)
    events = [(line.event, line.at % 60) for line in found if line.event]
    return number, [(e.captures["client_id"], e.captures["generation"], at) for e, at in events]


def test_the_message_alone_is_matched_behind_a_begin_that_is_known() -> None:
    others = "".join(f"2026-11-21 10:00:02,000 INFO other {number}\n" for number in range(3))
    number, found = _events(
        _synced(1, 1), _synced(2, 2), others + _synced(3, 3), _synced(4, 4, "d"), _synced(5, 5)
    )

    assert number == 2
    assert found == [
        ("c", "1", 1.0),
        ("c", "2", 2.0),
        ("c", "3", 3.0),
        ("d", "4", 4.0),
        ("c", "5", 5.0),
    ]


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(_synced(2, 2) + " more", id="another-message"),
        pytest.param(_synced(2, 2).replace("=2", "=x"), id="no-number"),
    ],
)
def test_a_message_that_no_rule_matches_is_none_behind_a_begin_that_is_known(second: str) -> None:
    _, alone = _events(second)
    _, found = _events(_synced(1, 1), second, _synced(3, 3))

    assert found == [("c", "1", 1.0), *alone, ("c", "3", 3.0)]


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(_synced(2, 2).replace("range", "r\u00e4nge"), id="not-ascii"),
        pytest.param(_synced(2, 2).replace("range", "\x1b[1mrange\x1b[0m"), id="colours"),
        pytest.param(_synced(2, 2) + "\r", id="carriage-return"),
        pytest.param(_synced(2, 2).replace("10:00", "10:01"), id="another-minute"),
        pytest.param(_synced(2, 2).replace(",000", ",000Z"), id="a-zone"),
    ],
)
def test_a_line_that_is_not_plain_is_read_as_ever(second: str) -> None:
    number, found = _events(_synced(1, 1), second)

    assert number == 2
    assert [generation for _, generation, _ in found] == ["1", "2"]


def test_a_text_that_no_expression_finds_is_searched_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    searched = 0
    search = MarkFinder._search_ahead

    def count(finder: MarkFinder, matchers: Matchers, start: int) -> int:
        nonlocal searched
        searched += 1
        return search(finder, matchers, start)

    monkeypatch.setattr(MarkFinder, "_search_ahead", count)
    parser, lines = _parser(), [_synced(1, 1)]
    lines += [f"2026-11-21 10:00:02,00{n} {_CLIENT} Discovered coordinator" for n in range(6)]

    found = [line for text in lines for line in parser.lines(f"{text}\n".encode(), _AT)]

    assert len(found) == 1
    assert searched == 3


def test_a_client_has_the_settings_above_its_own_line_however_many_lines_come_at_once() -> None:
    log = "".join(
        f"2026-11-21 10:00:0{number},000 {line}\n"
        for number, milliseconds in enumerate((300_000, 100_000, 200_000))
        for line in (
            f"{_CONFIG}\n\tmax.poll.interval.ms = {milliseconds}",
            f"{_CLIENT} Subscribed to topic(s): orders",
            _JOINS,
        )
    ).encode()
    parser, pieces = _parser(), _parser()

    signals = parser.feed(log, _AT)

    assert [signal.member.max_poll_interval_s for signal in signals] == [300.0, 100.0, 200.0]
    assert signals == [s for line in log.splitlines(True) for s in pieces.feed(line, _AT)]
