"""Recorded logs and recorded traffic of the same clients, together in one tracker."""

import heapq
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from operator import attrgetter
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.cli.replay import replay
from agent.sources.base import Tick
from agent.sources.capture import pcap_file
from agent.sources.lines.dialects.dialect_loader import choose_dialects
from agent.sources.lines.parsing.ordering import order_by_time
from agent.sources.lines.whole_files.recordings import recordings
from agent.sources.logs.client_interpreter import ClientInterpreter
from agent.sources.logs.client_parser import create_parser
from metrics.model.sample import Sample, SampleKind
from metrics.model.signals import Signal
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker

FOLDERS = sorted(
    path.parent
    for path in (Path(__file__).parent.parent / "golden" / "two_sources").glob("*/expected.json")
)
recorded = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
LAGS_S = st.lists(st.floats(0.0, 5.0), min_size=1, max_size=8)


@cache
def logged(folder: Path) -> list[list[Signal]]:
    """Return the signals of each client's log."""
    dialects, files = choose_dialects("auto", []), [str(path) for path in folder.glob("*.log.gz")]
    return [
        _signals(
            order_by_time(
                create_parser(dialects, ClientInterpreter(stream=log.stream), "UTC"), log.blocks()
            )
        )
        for log in recordings(files)
    ]


@cache
def captured(folder: Path) -> list[Signal]:
    """Return the signals of the traffic."""
    return _signals(pcap_file.signals([str(folder / "wire.pcap.gz")], "", Counter()))


def _signals(stream: Iterator[Signal | Tick]) -> list[Signal]:
    return [each for each in stream if isinstance(each, Signal)]


def arriving(signals: Iterable[Signal], lags_s: list[float]) -> Iterator[tuple[float, Signal]]:
    """Yield the signals of one source in their order, each with the time of its reading."""
    at = 0.0
    for number, each in enumerate(signals):
        at = max(at, each.at + lags_s[number % len(lags_s)])
        yield at, each


def play(folder: Path, lags_s: list[float]) -> tuple[Tracker, list[Sample]]:
    """Feed a tracker with the traffic at once and with each log as far behind as given."""
    tracker, samples, ticked_at = Tracker(StatusConfig()), list[Sample](), 0.0
    streams = [arriving(each, lags_s) for each in logged(folder)]
    streams.append(arriving(captured(folder), [0.0]))
    for at, signal in heapq.merge(*streams, key=lambda row: row[0]):
        if at >= ticked_at + 1.0:
            samples, ticked_at = samples + tracker.advance(at), at
        samples += tracker.apply(signal)
    return tracker, samples + tracker.flush()


def codes(samples: Iterable[Sample]) -> dict[str, list[int | None]]:
    found = defaultdict[str, list[int | None]](list)
    for each in sorted(samples, key=attrgetter("ts")):
        if each.kind in {SampleKind.TRANSITION, SampleKind.LOST}:
            found[f"{each.scope} {each.client_id}"].append(each.to)
    return dict(found)


def expected(folder: Path) -> dict[str, list[int | None]]:
    found: dict[str, list[int | None]] = json.loads((folder / "expected.json").read_bytes())
    return found


@recorded
@settings(max_examples=15)
@given(LAGS_S)
def test_transitions_are_the_truth_however_far_the_logs_are_behind(
    folder: Path, lags_s: list[float]
) -> None:
    tracker, samples = play(folder, lags_s)

    assert codes(samples) == expected(folder)
    assert len({each.id for each in samples}) == len(samples)
    names = [row.client_id for row in tracker.snapshot(0.0).consumers]
    assert len(names) == len(set(names))


@recorded
def test_labels_of_a_member_are_one_source_s(folder: Path) -> None:
    tracker, _ = play(folder, [0.3])

    rows = tracker.snapshot(0.0).consumers
    assert {row.host for row in rows} == {"127.0.0.1"}  # these logs name no host
    assert "" not in {row.cluster for row in rows}
    assert all(row.software for row in rows)


@recorded
def test_command_reads_both(folder: Path) -> None:
    files = [str(path) for path in folder.glob("*.gz")]

    result = CliRunner().invoke(
        replay, ["--source", "logs,pcap", "--timezone", "UTC", *files], catch_exceptions=False
    )

    found = defaultdict[str, list[int | None]](list)
    for row in map(json.loads, result.stdout.splitlines()):
        found[f"{row['scope']} {row['client_id']}"].append(row["to"])
    assert found == expected(folder)
