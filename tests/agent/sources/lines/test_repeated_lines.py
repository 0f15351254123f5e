"""Lines that repeat an earlier one: known by their bytes, and the same as if they were read."""

import os
from pathlib import Path

import pytest

from agent.sources.lines.dialect_loader import choose_dialects
from agent.sources.lines.dialect_matcher import DialectMatcher, Dialects
from agent.sources.lines.line_parser import LineParser
from agent.sources.lines.repeated_lines import RepeatedLines
from agent.sources.logs.client_interpreter import ClientInterpreter
from agent.sources.logs.client_parser import create_parser
from metrics.model.signals import Signal

if os.environ.get("CI") != "true":  # there a missing package is a failure
    pytest.importorskip("ahocorasick_rs")

_LOGS = sorted((Path(__file__).parents[3] / "golden" / "dialects").glob("*/input.log"))
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

    assert with_cache == _signals(block)


def _read_counts(*lines: str) -> tuple[int, list[tuple[float, str]]]:
    """Return how many lines a dialect has read, and the time and the origin of each."""
    parser, number = _parser(), 0
    read = DialectMatcher.read

    def count(matcher: DialectMatcher, entry: str) -> object:
        nonlocal number
        number += 1
        return read(matcher, entry)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DialectMatcher, "read", count)
        found = list(parser.lines("".join(f"{line}\n" for line in lines).encode(), _AT))
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
