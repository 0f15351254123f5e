"""A live log of another zone has the wall clock's times."""

import logging
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from agent.sources.lines.envelopes.clock_shift import ClockShifts, Shift
from agent.sources.logs.config import LogConfig
from agent.sources.logs.source import LogSource
from metrics.model.sample import Sample
from metrics.model.signals import Signal
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker

NOW = datetime(2026, 11, 21, 6, 0, tzinfo=UTC).timestamp()
HOUR_S = 3600.0
CAUSE = "Request joining group due to: group is already rebalancing"
SYNC = (
    "Successfully synced group in generation Generation{generationId=7, "
    "memberId='m1-661a2cd0-b254-4e0f-ae78-32a4221ec9bd', protocol='range'}"
)
ASSIGNED = "Adding newly assigned partitions: t-0"


def line(at: float, text: str = CAUSE, prefix: str = "", suffix: str = "") -> str:
    stamp = f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S},{int(at * 1000 % 1000):03}"
    return f"{prefix}{stamp}{suffix} INFO [Consumer clientId=m1, groupId=g] {text}\n"


class Live:
    """A growing log, its source, and a clock that only the test moves."""

    def __init__(self, folder: Path, name: str = "app.log") -> None:
        self.path = folder / name
        self.config = LogConfig(paths=(str(self.path),))
        self.now = NOW
        self.signals: list[Signal] = []
        self.source = self.create(None)

    def create(self, position: dict[str, Any] | None) -> LogSource:
        return LogSource(
            self.config, timezone="UTC", position=position, clock=lambda: self.now, host="h"
        )

    def restart(self) -> None:
        self.close()
        self.source = self.create(
            msgspec.json.decode(msgspec.json.encode(self.source.checkpoint()))
        )

    def close(self) -> None:
        for tail in self.source._tails.values():
            tail.follower.close()

    def poll(self, pass_s: float = 0.25) -> list[float]:
        """Pass some time, and poll; return the times of new signals, from NOW on."""
        self.now += pass_s
        before = len(self.signals)
        self.source.step(self.signals.extend, lambda *_: None)
        return [round(signal.at - NOW, 3) for signal in self.signals[before:]]

    def write(self, *lines: str) -> None:
        with self.path.open("a") as file:
            file.writelines(lines)
        os.utime(self.path, (self.now, self.now))


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Live]:
    """A source that has not read yet."""
    bench = Live(tmp_path)
    yield bench
    bench.close()


@pytest.fixture
def live(fresh: Live) -> Live:
    """A source that has read to the end of the file."""
    fresh.write("begin\n")
    fresh.poll()
    return fresh


@pytest.mark.parametrize("hours", [1, 2, -5, 5.75, -9.5, 13, -11])
def test_stamps_of_another_zone_get_the_time_of_the_wall_clock(
    live: Live, hours: float, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        live.write(line(live.now + hours * HOUR_S))
        assert live.poll() == [0.25]
        live.write(line(live.now + hours * HOUR_S, SYNC), line(live.now + hours * HOUR_S, ASSIGNED))
        assert live.poll() == [0.5, 0.5]
    assert live.source.health.errors == {"zone": 1}
    (record,) = (each for each in caplog.records if each.message == "log_in_another_zone")
    assert record.__dict__["ahead_hours"] == hours


@pytest.mark.parametrize("begin", ["plain\n", "[1] plain\n"])
def test_a_time_in_the_rest_of_a_line_is_no_stamp(fresh: Live, begin: str) -> None:
    """The line was written in two pieces, and its second piece begins with a time."""
    fresh.write(begin)
    fresh.poll()
    fresh.write(line(fresh.now, "Backup waits").rstrip("\n"))
    fresh.poll()
    fresh.write(" until\n")
    fresh.poll()
    fresh.write(line(fresh.now, "Backup is planned for ").rstrip("\n"))
    fresh.poll()
    fresh.write(f"{datetime.fromtimestamp(fresh.now + 4 * HOUR_S, UTC):%H:%M:%S} of today\n")
    fresh.poll()
    assert not fresh.source.health.errors


def test_stamps_of_this_zone_are_kept(live: Live) -> None:
    live.write(line(live.now - 0.2))
    assert live.poll() == [0.05]
    assert not live.source.health.errors


@pytest.mark.parametrize("late_s", [0.5, 40, 400, 880, 3_540])
def test_late_lines_are_kept(live: Live, late_s: float) -> None:
    """A collector that writes late delays all lines, though not by quarters of an hour."""
    live.write(line(live.now - late_s - 2), line(live.now - late_s))
    assert live.poll()[-1] == pytest.approx(0.25 - late_s)
    assert not live.source.health.errors


def test_lines_of_a_buffer_of_hours_are_kept(live: Live) -> None:
    live.write(*(line(live.now - 3 * HOUR_S + 60.0 * i) for i in range(170)))
    assert live.poll()[0] == 0.25 - 3 * HOUR_S
    assert not live.source.health.errors


def test_backlog_is_old_and_not_in_another_zone(fresh: Live) -> None:
    live = fresh
    live.write(line(live.now - HOUR_S))
    assert live.poll() == [-HOUR_S]
    assert not live.source.health.errors


def test_future_times_of_a_backlog_are_another_zones(fresh: Live) -> None:
    live = fresh
    live.write(line(live.now - 50 + HOUR_S), line(live.now + HOUR_S, SYNC))
    assert live.poll() == [-50]
    live.write(line(live.now + HOUR_S, ASSIGNED))
    assert set(live.poll()) == {0, 0.25}


def test_lines_after_a_pause_of_the_agent_prove_nothing(live: Live) -> None:
    live.write(line(live.now - HOUR_S))
    assert live.poll(pass_s=60) == [0.25 - HOUR_S]


def test_correction_is_in_the_checkpoint(live: Live) -> None:
    live.write(line(live.now + HOUR_S))
    live.poll()
    live.now += 100
    live.write(line(live.now + HOUR_S, SYNC), line(live.now + HOUR_S, ASSIGNED))
    live.restart()
    assert set(live.poll(pass_s=200)) == {100.5}


def test_correction_follows_the_zone(live: Live) -> None:
    """Daylight saving, or a restart with another TZ."""
    live.write(line(live.now + HOUR_S))
    assert live.poll() == [0.25]
    live.poll(pass_s=60)
    live.write(line(live.now + 2 * HOUR_S))
    assert live.poll() == [60.5]
    live.poll(pass_s=60)
    live.write(line(live.now))
    assert live.poll() == [120.75]
    assert live.source.health.errors == {"zone": 3}


def test_streams_of_one_file_have_their_own_zones(live: Live) -> None:
    live.write(
        line(live.now + HOUR_S, prefix="web-1  | "),
        line(live.now, prefix="web-2  | "),
        line(live.now - 5 * HOUR_S, prefix="web-3  | "),
    )
    assert live.poll() == [0.25, 0.25, 0.25]


def test_time_of_a_runtime_is_kept_beside_stamps_of_another_zone(live: Live) -> None:
    at = datetime.fromtimestamp(live.now, UTC)
    cri = f"{at:%Y-%m-%dT%H:%M:%S}.250000000Z stdout F "
    live.write(
        line(live.now + HOUR_S, prefix=cri), f"{cri}[Consumer clientId=m1, groupId=g] {CAUSE}\n"
    )
    assert live.poll() == [0.25, 0.25]


def test_times_of_json_are_corrected(live: Live) -> None:
    at = datetime.fromtimestamp(live.now, ZoneInfo("Europe/Berlin"))
    entry = {
        "@timestamp": f"{at:%Y-%m-%dT%H:%M:%S.250}",
        "message": f"[Consumer clientId=m1, groupId=g] {CAUSE}",
    }
    live.write(msgspec.json.encode(entry).decode() + "\n")
    assert live.poll() == [0.25]


def test_ids_use_the_stamp_as_written(live: Live) -> None:
    """A backlog after a crash has no correction: its ids are those of the lines read live."""
    position = live.source.checkpoint()
    lines = [
        line(live.now + HOUR_S),
        line(live.now + HOUR_S, SYNC),
        line(live.now + HOUR_S, ASSIGNED),
    ]
    live.write(*lines)
    live.poll()
    corrected = record(live.signals[:3])
    live.close()
    live.signals, live.source = [], live.create(position)
    live.now += 100
    live.write(line(live.now - 60 + HOUR_S))  # the last line no longer shows the zone
    live.poll()
    again = record(live.signals[:3])[: len(corrected)]
    assert [sample.id for sample in again] == [sample.id for sample in corrected]
    assert [sample.ts for sample in again] != [sample.ts for sample in corrected]


def record(signals: list[Signal]) -> list[Sample]:
    tracker = Tracker(StatusConfig())
    return [sample for signal in signals for sample in tracker.apply(signal)]


def test_state_is_restored() -> None:
    shifts = ClockShifts("UTC")
    data = line(NOW + HOUR_S).encode()
    assert shifts.observe(data, NOW, 0.25) == [Shift("", 0.0, HOUR_S)]
    again = ClockShifts("UTC")
    again.restore(msgspec.json.decode(msgspec.json.encode(shifts.state())))
    assert again.find("", is_own=True) == HOUR_S
    assert again.find("", is_own=False) == 0
