"""The machine's clock steps by an hour in both directions: nothing is lost, nothing comes twice."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agent.hub.recent_records import RecentRecords
from agent.outputs.spool.spool import JsonlSpool, SpoolConfig
from agent.runtime.checkpoint import Checkpoint
from agent.runtime.pipeline import Pipeline
from agent.sources.lines.following.tail import SCAN_S
from agent.sources.logs.config import LogConfig
from agent.sources.logs.source import LogSource
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker
from tests.faults.loaded_log import a_round

_HOUR_S = 3600.0
_START_AT = 1_800_000_000.0
_ROUNDS = 5


class _Stage:
    """A source, the pipeline and the spool, all by one clock."""

    def __init__(self, folder: Path) -> None:
        self.now, self._steady = _START_AT, 0.0
        self.log, self.spool = folder / "app.log", folder / "spool"
        self.log.touch()
        config = SpoolConfig(dir=self.spool, roll_s=10.0)
        self._sink = JsonlSpool(config, agent="a", now=self.now)
        self._pipeline = Pipeline(
            spool=self._sink,
            save=self._save,
            recent=RecentRecords([]),
            clock=lambda: self.now,
            monotonic=lambda: self._steady,
        )
        self.source = LogSource(
            LogConfig(paths=(str(folder / "*.log"),)), timezone="UTC", clock=lambda: self.now
        )
        self._pipeline.attach(Tracker(StatusConfig()), [self.source], lambda _: True, 15.0)
        self.saves = 0

    def _save(self, _checkpoint: Checkpoint) -> None:
        self.saves += 1

    def rebalance(self, generation: int) -> None:
        with self.log.open("ab") as file:
            file.write(a_round("c1", generation, _utc(self.now)))
        self.live(2)

    def live(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now += 1
            self._steady += 1
            self.source.step(self._pipeline.emit, self._pipeline.detach)
            self._pipeline.tick()

    def drain(self) -> None:
        """Publish all samples."""
        self._sink._roll()

    def let_go(self) -> None:
        self._pipeline.close()
        for tail in self.source._tails.values():
            tail.follower.close()

    def rows(self) -> list[dict[str, object]]:
        texts = [path.read_text() for path in sorted(self.spool.glob("*.jsonl"))]
        return [json.loads(line) for text in texts for line in text.splitlines()]


def _utc(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[_Stage]:
    stage = _Stage(tmp_path)
    yield stage
    stage.let_go()


@pytest.mark.parametrize("step_s", [_HOUR_S, -_HOUR_S])
def test_each_transition_is_recorded_once_and_in_order(stage: _Stage, step_s: float) -> None:
    for number in range(_ROUNDS):
        stage.rebalance(number + 1)
        stage.now += step_s if number == _ROUNDS // 2 else 0.0
    stage.drain()

    rows = stage.rows()
    assert [row["to"] for row in rows if row["kind"] == "transition"] == [2, 0] * _ROUNDS
    assert len({row["id"] for row in rows}) == len(rows)
    times = [str(row["ts"]) for row in rows]
    assert times == sorted(times)


def test_a_file_is_still_published_after_a_step_back(stage: _Stage) -> None:
    stage.rebalance(1)
    stage.now -= _HOUR_S
    stage.live(12)

    assert len(list(stage.spool.glob("*.jsonl"))) == 1


def test_a_log_that_was_unreadable_is_read_after_a_step_back(stage: _Stage) -> None:
    stage.live(1)
    content = a_round("c1", 1, _utc(stage.now))
    stage.log.unlink()
    stage.log.mkdir()  # no file: refused, and tried again
    stage.live(1)
    assert stage.source.health.errors["not_a_file"] == 1
    stage.now -= _HOUR_S
    stage.log.rmdir()
    stage.log.write_bytes(content)

    stage.live(int(SCAN_S) + 2)

    assert stage.source.health.signals > 0
