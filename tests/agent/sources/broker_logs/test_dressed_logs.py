"""Brokers' logs as collectors and stores keep them show what they show bare."""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agent.sources.broker_logs.replay import read
from agent.sources.lines.envelopes.envelope import Unwrapper, date_line
from agent.sources.lines.times.timestamps import TimestampReader
from agent.sources.source_type import ReplayOptions
from metrics.model.signals import Signal
from tests.agent.sources.lines.test_envelopes_of_recordings import ENVELOPES

GOLDEN = Path(__file__).parents[3] / "golden" / "broker_log"
RECORDINGS = sorted(path.parent.name for path in GOLDEN.glob("*/input.log"))
ARRIVAL_AT = 1_796_000_000.0
VARIANTS: dict[str, Callable[[list[str]], list[str]]] = {
    "as written": lambda lines: lines,
    "newest first": lambda lines: lines[::-1],
}


def rows(recording: str) -> list[tuple[datetime, str]]:
    """Return the lines that have a time, in its order: a store returns them so."""
    reader, unwrapper, found = TimestampReader("UTC"), Unwrapper("UTC"), []
    for text in (GOLDEN / recording / "input.log").read_text().splitlines():
        at = date_line(text.encode(), reader, unwrapper, ARRIVAL_AT)
        if at is not None:
            found.append((datetime.fromtimestamp(at, UTC), text))
    return sorted(found, key=lambda row: row[0])


def summarise(lines: list[str], path: Path) -> list[tuple[object, ...]]:
    """Return the signals without their stream and host."""
    path.write_text("".join(f"{line}\n" for line in lines))
    os.utime(path, (ARRIVAL_AT, ARRIVAL_AT))
    options = ReplayOptions(
        cluster="",
        host="h",
        timezone="UTC",
        on_unreadable=lambda error: pytest.fail(str(error)),
        on_note=lambda _note: None,
        on_progress=lambda _stream, _size: None,
    )
    return [
        (each.kind, each.status, round(each.at, 2), each.member.group, each.member.member_id)
        for stream in read([str(path)], options)
        for each in stream
        if isinstance(each, Signal)
    ]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("number", range(len(ENVELOPES)))
def test_broker_log_in_an_envelope_shows_what_it_shows_bare(
    number: int, variant: str, tmp_path: Path
) -> None:
    """Each envelope with the next recording."""
    form = list(ENVELOPES.values())[number]
    written = rows(RECORDINGS[number % len(RECORDINGS)])
    wanted = summarise([text for _, text in written], tmp_path / "bare.log")
    assert wanted

    dressed = VARIANTS[variant]([form(at, 0, text) for at, text in written])

    assert summarise(dressed, tmp_path / "server.log") == wanted
