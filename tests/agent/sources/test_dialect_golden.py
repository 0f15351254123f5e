"""Every dialect against logs that were recorded from its real clients; `--update-golden` writes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.sources.dialect import built_in, choose, codes
from agent.sources.interpreter import Interpreter
from agent.sources.log_parser import LogParser
from metrics.signals import FollowUp, Signal, SignalKind
from metrics.status import RebalanceStatus

_GOLDEN = Path(__file__).parents[2] / "golden" / "dialects"
_FOLDERS = sorted(path.parent for path in _GOLDEN.glob("*/input.log"))
_ARRIVAL_AT = 1_900_000_000.0
_PIECES = (1 << 20, 997)
"""Bytes at once: whole, and cut within lines."""

Row = dict[str, Any]


def _signals(folder: Path, piece: int = 1 << 20) -> list[Signal]:
    parser = LogParser(choose("auto"), Interpreter(stream="input.log"), "UTC")
    data = (folder / "input.log").read_bytes()
    pieces = (data[start : start + piece] for start in range(0, len(data), piece))
    return [s for part in pieces for s in parser.feed(part, _ARRIVAL_AT)] + parser.flush()


def _rows(signals: list[Signal]) -> Iterator[Row]:
    for signal in signals:
        yield {
            "at": round(signal.at, 3),
            "kind": signal.kind.value,
            "group": signal.member.group,
            "client_id": signal.member.client_id,
            "status": signal.status.label,
            "follow_up": _label(signal.follow_up),
            "generation": signal.generation,
            "reason": signal.reason,
        } | _beyond_classic(signal)


def _beyond_classic(signal: Signal) -> Row:
    extra: Row = {}
    if signal.member.group_type != "classic":
        extra["group_type"] = signal.member.group_type
    if signal.streams_follow_up is not None:
        extra["streams_follow_up"] = _label(signal.streams_follow_up)
        extra["due_at"] = signal.streams_follow_up.due_at
    return extra


def _label(follow_up: FollowUp | None) -> str | None:
    return None if follow_up is None else follow_up.status.label


def _shown(signals: list[Signal]) -> set[RebalanceStatus]:
    follow_ups = [f for s in signals for f in (s.follow_up, s.streams_follow_up) if f is not None]
    left = {RebalanceStatus.USER_REQUESTED for s in signals if s.kind is SignalKind.LEAVE}
    return {s.status for s in signals if s.status} | {f.status for f in follow_ups} | left


@pytest.mark.parametrize("piece", _PIECES)
@pytest.mark.parametrize("folder", _FOLDERS, ids=lambda folder: folder.name)
def test_the_recorded_clients_are_read_as_they_acted(
    folder: Path, piece: int, request: pytest.FixtureRequest
) -> None:
    expected = folder / "expected.jsonl"
    rows = list(_rows(_signals(folder, piece)))

    if request.config.getoption("--update-golden"):
        expected.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))

    assert rows == [json.loads(line) for line in expected.read_text().splitlines()]


@pytest.mark.parametrize("folder", _FOLDERS, ids=lambda folder: folder.name)
def test_a_recording_says_how_it_was_made(folder: Path) -> None:
    assert (folder / "README.md").read_text().startswith("# ")


def test_every_dialect_is_recorded() -> None:
    assert {folder.name for folder in _FOLDERS} == {dialect.name for dialect in built_in()}


@pytest.mark.parametrize("folder", _FOLDERS, ids=lambda folder: folder.name)
def test_no_code_comes_from_a_dialect_that_says_it_cannot_show_it(folder: Path) -> None:
    known = built_in()
    dialect = next(dialect for dialect in known if dialect.name == folder.name)

    shown = _shown(_signals(folder))

    assert shown <= codes(dialect, known)
