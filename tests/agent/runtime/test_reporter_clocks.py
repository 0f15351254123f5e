"""Reporters with another clock than the agent's get its time, once that is proven."""

import os
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from agent.hub.recent_records import RecentRecords
from agent.outputs.spool.spool import JsonlSpool, SpoolConfig
from agent.runtime import reporter_clocks
from agent.runtime.checkpoint import Checkpoint, load, save
from agent.runtime.clock_alignment import shift_signal
from agent.runtime.pipeline import Pipeline
from agent.runtime.reporter_clocks import ReporterClocks
from agent.sources.base import Emit, SourceHealth, Tick
from agent.sources.capture import pcap_file
from agent.sources.lines.times.timestamps import TimestampReader
from agent.sources.lines.whole_files.recordings import recordings
from agent.sources.logs.config import LogConfig
from agent.sources.logs.source import LogSource
from metrics.model.sample import Sample
from metrics.model.signals import Member, Signal, SignalKind, SourceKind
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker
from tests.agent.test_two_sources import FOLDERS, codes, expected
from tests.metrics.given import C1, raised, signal

AT = 1_700_000_000.0
LOG = replace(C1, member_id="c1-u")
ADDRESS = replace(LOG, origin="10.0.0.5:40000")
STEP_S = 0.25
recorded = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)


class Traffic:
    """The traffic of a recording: its signals are passed on by the test."""

    name = kind = "capture"

    def __init__(self) -> None:
        self.health = SourceHealth(up=True)

    async def run(self, emit: Emit, detach: object) -> None:
        raise NotImplementedError

    def watermark(self, now: float) -> float:
        return now

    def checkpoint(self) -> dict[str, object]:
        return {}


class LiveRun:
    """An agent's pipeline that tails logs as they are written, beside the traffic."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.now = folder, 0.0
        (folder / "logs").mkdir()

    def start(self, now: float) -> None:
        """Start, or start again from the checkpoint."""
        self.now = now
        found = load(self.folder / "checkpoint.json") or Checkpoint()
        config = LogConfig(paths=(f"{self.folder}/logs/*.log",), timezone="UTC")
        position = found.sources.get(config.name)
        self.logs = LogSource(config, position=position, clock=self._clock)
        spool = SpoolConfig(dir=self.folder / "spool")
        self.pipeline = Pipeline(
            spool=JsonlSpool(spool, agent="a", now=now, mark=found.spool),
            save=lambda checkpoint: save(self.folder / "checkpoint.json", checkpoint),
            recent=RecentRecords(),
            clock=self._clock,
            monotonic=self._clock,
        )
        self.pipeline.restore(found.held, found.clocks)
        tracker = Tracker(StatusConfig(), state=found.tracker)
        self.pipeline.attach(tracker, [self.logs, Traffic()], lambda _: True, 15.0)

    def stop(self) -> None:
        """Stop as an agent does at SIGTERM."""
        self.pipeline.close()
        for tail in self.logs._tails.values():
            tail.follower.close()

    def write(self, stream: str, line: bytes) -> None:
        path = self.folder / "logs" / f"{stream}.log"
        with path.open("ab") as log:
            log.write(line)
        os.utime(path, (self.now, self.now))

    def look(self) -> None:
        """Read what was written, and commit."""
        while self.logs.step(self.pipeline.emit, self.pipeline.detach):
            pass
        self.pipeline.tick()

    def samples(self) -> list[Sample]:
        self.pipeline.record(self.pipeline.tracker.flush())
        self.stop()
        files = sorted((self.folder / "spool").glob("*.jsonl"))
        lines = [line for file in files for line in file.read_bytes().splitlines()]
        return [msgspec.json.decode(line, type=Sample) for line in lines]

    def _clock(self) -> float:
        return self.now


@cache
def written(folder: Path) -> list[tuple[float, str, bytes]]:
    """Return the lines of each log, with their times."""
    found = []
    for log in recordings([str(path) for path in sorted(folder.glob("*.log.gz"))]):
        at, stream = 0.0, Path(log.stream).name.partition(".")[0]
        reader = TimestampReader("UTC")
        text = b"".join(data for data, _ in log.blocks())
        for line in text.splitlines(keepends=True):
            at = max(at, reader.find(line.decode(), AT) or 0.0)
            found.append((at, stream, line))
    return found


@cache
def captured(folder: Path) -> list[Signal | Tick]:
    return list(pcap_file.signals([str(folder / "wire.pcap.gz")], "", Counter()))


def play(
    folder: Path,
    here: Path,
    ahead_s: float,
    lags_s: tuple[float, float] = (0.0, 0.0),
    restarts_after_s: Sequence[float] = (),
) -> list[Sample]:
    """Play a recording as it happened: logs are ``ahead_s`` of the traffic and of the agent.

    Log and traffic arrive late by ``lags_s``.
    """
    run = LiveRun(here)
    log_lag_s, traffic_lag_s = lags_s
    lines = ((at - ahead_s + log_lag_s, (stream, line)) for at, stream, line in written(folder))
    traffic = ((each.at - ahead_s + traffic_lag_s, each) for each in captured(folder))
    events: list[tuple[float, tuple[str, bytes] | Signal | Tick]] = [*lines, *traffic]
    events.sort(key=lambda row: row[0])
    now = events[0][0] - 10.0
    restarts = [now + after_s for after_s in restarts_after_s]
    for stream in {stream for _, stream, _ in written(folder)}:
        run.write(stream, b"")  # the agent has found the log when its client starts
    run.start(now)
    run.look()
    for arrival_at, event in events:
        while arrival_at > run.now:
            run.now += STEP_S
            run.look()
            if restarts and run.now >= restarts[0]:
                run.stop()
                run.start(restarts.pop(0))
                run.look()
        if isinstance(event, tuple) and not isinstance(event, Tick):
            run.write(*event)
        elif isinstance(event, Tick):
            for stream in event.ended:
                run.pipeline.detach(stream, event.at - ahead_s)
        else:
            run.pipeline.emit([shift_signal(event, ahead_s)])
    run.now += 10.0
    run.look()
    return run.samples()


@recorded
@pytest.mark.parametrize("ahead_s", [-120.0, -30.0, -3.0, 0.0, 3.0, 30.0, 120.0])
def test_each_episode_is_one_whatever_the_clock_of_the_logs(
    folder: Path, tmp_path: Path, ahead_s: float
) -> None:
    """A log that is read before its traffic has no bound yet if its clock is behind."""
    samples = play(folder, tmp_path, ahead_s, (0.5 if ahead_s < 0 else 0.0, 0.0))

    assert codes(samples) == expected(folder)
    assert len({each.id for each in samples}) == len(samples)


@recorded
@pytest.mark.parametrize("ahead_s", [-30.0, 30.0])
@pytest.mark.parametrize("lags_s", [(1.0, 0.25), (0.75, 0.0)])
def test_late_sources_and_restarts_change_nothing(
    folder: Path, tmp_path: Path, ahead_s: float, lags_s: tuple[float, float]
) -> None:
    samples = play(folder, tmp_path, ahead_s, lags_s, restarts_after_s=[14.0, 21.0])

    assert codes(samples) == expected(folder)
    assert len({each.id for each in samples}) == len(samples)


def arrive(
    clocks: ReporterClocks, at: float, now: float, member: Member = LOG, *, is_live: bool = True
) -> float:
    """Return the time that an event of a log gets."""
    event = signal(SignalKind.SEEN, at, member)
    (found,) = clocks.correct([event], now, is_live=is_live)
    assert found.at + found.shift_s == pytest.approx(at)  # ids have the stamps as written
    return found.at


def sync(
    clocks: ReporterClocks, at: float, source: SourceKind, generation: int | None = 3
) -> float:
    member = ADDRESS if source is SourceKind.WIRE else LOG
    event = signal(SignalKind.SYNC, at, member, source=source, generation=generation)
    (found,) = clocks.correct([event], AT + 1_000.0, is_live=False)
    return found.at


@pytest.fixture
def clocks() -> ReporterClocks:
    clocks = ReporterClocks()
    clocks.is_active = True
    return clocks


def test_an_event_of_the_future_shows_a_clock_that_is_ahead(clocks: ReporterClocks) -> None:
    assert arrive(clocks, AT + 30.0, AT) == AT - 1.0
    assert arrive(clocks, AT + 40.0, AT + 11.0) == AT + 9.0
    assert arrive(clocks, AT + 40.0, AT + 40.0, ADDRESS) == AT + 40.0


@pytest.mark.parametrize("late_s", [-0.9, 0.0, 5.0, 120.0])
def test_a_late_event_shows_nothing(clocks: ReporterClocks, late_s: float) -> None:
    assert arrive(clocks, AT, AT + late_s) == AT
    assert clocks.state() == []


def test_a_single_source_keeps_its_times(clocks: ReporterClocks) -> None:
    clocks.is_active = False

    assert arrive(clocks, AT + 30.0, AT) == AT + 30.0


@pytest.mark.parametrize("is_log_first", [True, False])
def test_a_response_before_its_traffic_shows_a_clock_that_is_behind(
    clocks: ReporterClocks, *, is_log_first: bool
) -> None:
    sides = [(AT - 30.0, SourceKind.LOGS), (AT, SourceKind.WIRE)]
    for at, source in sides if is_log_first else sides[::-1]:
        sync(clocks, at, source)

    assert arrive(clocks, AT + 10.0, AT + 41.0) == AT + 40.0
    assert sync(clocks, AT + 50.0, SourceKind.WIRE) == AT + 50.0


def test_a_client_that_polls_slowly_has_its_own_times(clocks: ReporterClocks) -> None:
    sync(clocks, AT, SourceKind.WIRE)

    assert sync(clocks, AT + 20.0, SourceKind.LOGS) == AT + 20.0


def test_a_log_without_generations_has_the_oldest_sync_that_is_left(
    clocks: ReporterClocks,
) -> None:
    for number in range(12):
        sync(clocks, AT + number, SourceKind.WIRE, number)

    assert sync(clocks, AT - 10.0, SourceKind.LOGS, None) == AT + 4.0
    assert sync(clocks, AT - 1.0, SourceKind.LOGS, None) == AT + 13.0
    assert sync(clocks, AT + 90.0, SourceKind.LOGS, None) == AT + 104.0


def test_a_log_without_generations_is_not_compared_with_later_traffic(
    clocks: ReporterClocks,
) -> None:
    sync(clocks, AT, SourceKind.LOGS, None)
    sync(clocks, AT + 60.0, SourceKind.WIRE)

    assert clocks.state() == []


def test_the_response_is_exact_where_the_log_is_buffered(clocks: ReporterClocks) -> None:
    arrive(clocks, AT + 30.0, AT + 5.0)
    sync(clocks, AT, SourceKind.WIRE)

    assert sync(clocks, AT + 30.0, SourceKind.LOGS) == AT
    assert sync(clocks, AT + 31.0, SourceKind.LOGS, 9) == AT + 1.0


def test_a_slow_poll_is_no_bound_of_a_clock_that_is_ahead(clocks: ReporterClocks) -> None:
    arrive(clocks, AT + 30.0, AT)
    sync(clocks, AT, SourceKind.WIRE)

    assert sync(clocks, AT + 60.0, SourceKind.LOGS) == AT + 29.0


def test_a_clock_that_was_set_loses_its_bounds(clocks: ReporterClocks) -> None:
    arrive(clocks, AT + 30.0, AT)
    sync(clocks, AT, SourceKind.WIRE)
    assert sync(clocks, AT, SourceKind.LOGS) == AT  # the clock was put right

    sync(clocks, AT + 90.0, SourceKind.WIRE, 4)
    assert sync(clocks, AT + 30.0, SourceKind.LOGS, 4) == AT + 90.0
    assert arrive(clocks, AT + 100.0, AT + 100.0) == AT + 100.0


def test_without_traffic_a_clock_that_was_set_is_seen_by_live_lines(
    clocks: ReporterClocks,
) -> None:
    arrive(clocks, AT + 90.0, AT)
    assert arrive(clocks, AT - 500.0, AT, is_live=False) == AT - 589.0 - 2.0
    assert arrive(clocks, AT + 5.0, AT + 5.0) == AT + 5.0


def test_garbage_shows_no_clock(clocks: ReporterClocks) -> None:
    far = AT + 10 * 365 * 86_400.0
    assert arrive(clocks, far, AT) == far
    sync(clocks, AT, SourceKind.WIRE)
    assert sync(clocks, AT - 86_400.0 * 3, SourceKind.LOGS) == AT - 86_400.0 * 3


def test_in_a_new_protocol_an_assignment_to_reconcile_is_compared(clocks: ReporterClocks) -> None:
    for at, source, member in ((AT, SourceKind.WIRE, ADDRESS), (AT - 9.0, SourceKind.LOGS, LOG)):
        event = raised(1, at, replace(member, group_type="consumer"), source=source)
        (found,) = clocks.correct([event], AT + 1_000.0, is_live=True)

    assert found.at == AT


def test_clocks_and_members_are_bounded(
    clocks: ReporterClocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporter_clocks, "_CLOCKS_MAX", 3)
    for number in range(5):
        arrive(clocks, AT + 30.0, AT, replace(LOG, origin=f"{number}.log"))

    assert [clock.origin for clock in clocks.state()] == ["2.log", "3.log", "4.log"]


def test_clocks_are_those_of_before_a_restart(clocks: ReporterClocks) -> None:
    arrive(clocks, AT + 30.0, AT)
    after = ReporterClocks()
    after.is_active = True

    after.restore(clocks.state())

    assert arrive(after, AT + 31.0, AT + 9.0) == AT
