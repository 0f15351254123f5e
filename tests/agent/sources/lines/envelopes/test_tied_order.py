"""Entries of one time, in the orders that stores return them.

The texts are recordings of real clients, with stamps cut to whole seconds. A store sorts by time:
the entries of one second are as they were written, or newest first, whichever way the seconds run.
"""

import json
import re
from collections.abc import Callable
from datetime import datetime
from itertools import groupby
from pathlib import Path

import pytest

from agent.sources.lines.envelopes.tied_order import find_direction, split_entries
from agent.sources.lines.whole_files.exports import normalise
from agent.sources.lines.whole_files.ordered_pieces import UNKNOWN_ORDER
from tests.agent.sources.lines.test_envelopes_of_recordings import GOLDEN, iso, rows, summarise

RECORDINGS = (
    "aiokafka-0.8-0.14@0.14.0",
    "franz-go-1.7-1.22",
    "java-consumer-2.5",
    "java-consumer-3.0-4.3@4.4.0",
    "kafka-python-1.4-2.1",
    "kafka-python-2.2-3.0",
    "kafka-streams-2.6-4.3@4.4.0",
    "librdkafka",
    "kafka-go-0.4@0.4.51",
)
SHORT = (*RECORDINGS, "kafkajs-1-2", "kafka-connect-3.0-4.3@4.4.0", "sarama-1.40-1.61")
FRACTION = re.compile(r"(\d\d:\d\d:\d\d|\|1\d{9})[.,]\d+")
Line = tuple[datetime, str]


def record(name: str) -> list[Line]:
    """Return a recording with its stamps in whole seconds."""
    lines = [(at.replace(microsecond=0), FRACTION.sub(r"\1", text)) for at, text in rows(name)]
    return sorted(lines, key=lambda each: each[0])


def in_one_second(lines: list[Line]) -> list[Line]:
    """Return the lines of the second with the most of them."""
    return max((list(run) for _, run in groupby(lines, lambda each: each[0])), key=len)


def by_second(lines: list[Line]) -> list[list[Line]]:
    return [list(run) for _, run in groupby(lines, lambda each: each[0])]


ORDERS: dict[str, Callable[[list[Line]], list[Line]]] = {
    "newest first": lambda lines: lines[::-1],
    "newest second first": lambda lines: [each for run in by_second(lines)[::-1] for each in run],
    "oldest second first": lambda lines: [each for run in by_second(lines) for each in run[::-1]],
}
FORMS: dict[str, Callable[[list[Line]], str]] = {
    "lines": lambda lines: "".join(f"{text}\n" for _, text in lines),
    "a list of objects": lambda lines: json.dumps(
        [{"timestamp": iso(at), "message": text} for at, text in lines]
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("recording", RECORDINGS)
def test_entries_of_one_second_are_never_inverted(
    recording: str, order: str, form: str, tmp_path: Path
) -> None:
    lines = record(recording)
    wanted = summarise(FORMS[form](lines), tmp_path / "bare.log")
    assert wanted

    assert summarise(FORMS[form](ORDERS[order](lines)), tmp_path / "app.log") == wanted


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("recording", RECORDINGS)
def test_log_of_one_second_is_never_inverted(recording: str, form: str, tmp_path: Path) -> None:
    lines = in_one_second(record(recording))
    wanted = summarise(FORMS[form](lines), tmp_path / "bare.log")

    assert summarise(FORMS[form](lines[::-1]), tmp_path / "app.log") == wanted


@pytest.mark.parametrize("recording", [path.name for path in sorted(GOLDEN.iterdir())])
def test_order_of_writing_is_never_taken_for_the_opposite(recording: str) -> None:
    text = (GOLDEN / recording / "input.log").read_text(encoding="utf-8")
    for shown in (text, FRACTION.sub(r"\1", text)):
        entries = split_entries(shown.encode().splitlines(), "UTC", 1_796_000_000.0)

        assert find_direction(entries) >= 0
        assert find_direction(entries[::-1]) <= 0


def find_notes(text: str) -> list[str]:
    notes: list[str] = []
    list(normalise(iter([(text.encode(), 1_796_000_000.0)]), "UTC", notes.append))
    return notes


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("recording", SHORT)
def test_log_of_one_second_is_in_order_or_has_a_hint(
    recording: str, form: str, tmp_path: Path
) -> None:
    """Also where only the begin of that second is exported."""
    for end in (None, 4, 3, 2):
        lines = in_one_second(record(recording))[:end]
        written = FORMS[form](lines[::-1])
        wanted = summarise(FORMS[form](lines), tmp_path / "bare.log")

        is_equal = summarise(written, tmp_path / "app.log") == wanted
        assert is_equal or UNKNOWN_ORDER in find_notes(written)


@pytest.mark.parametrize("recording", RECORDINGS)
def test_log_of_whole_seconds_that_shows_its_order_has_no_hint(recording: str) -> None:
    for order in (list, *ORDERS.values()):
        assert not find_notes(FORMS["lines"](order(record(recording))))


def test_newest_first_of_whole_seconds_without_a_sign_has_a_hint() -> None:
    """A store that sorts by time may return entries of one time as they were written."""
    texts = [("10:00:05", "left"), ("10:00:03", "leaves"), ("10:00:03", "stays"), ("10:00:01", "a")]
    log = "".join(f"2026-11-20 {at} INFO group pay: member {text}\n" for at, text in texts)

    assert find_notes(log) == [UNKNOWN_ORDER]
    assert not find_notes("\n".join(log.splitlines()[::-1]))
    assert not find_notes(log.replace("group pay: member", "order"))
