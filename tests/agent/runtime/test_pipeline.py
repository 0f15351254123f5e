import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from agent.errors import OutputError
from agent.hub.recent_records import RecentRecords
from agent.outputs.spool.spool import JsonlSpool, SpoolConfig
from agent.runtime.checkpoint import Checkpoint
from agent.runtime.pipeline import Pipeline
from metrics.model.sample import Sample, SampleKind
from metrics.model.snapshot import InspectedGroup
from metrics.model.status import RebalanceStatus as Status
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker
from tests.agent.observed import ScriptedSource, member, raised, synced
from tests.metrics.given import run

INTERVAL_S = 15.0


class Clock:
    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Bench:
    """A pipeline over a real spool, with a clock and a record of the saved checkpoints."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = Clock(1000.0)
        self.source = ScriptedSource()
        self.saved: list[dict[str, object]] = []
        self.refuses, self.save_s = False, 0.0
        sink = JsonlSpool(SpoolConfig(dir=folder), agent="a", now=1000.0)
        self.history = RecentRecords()
        self.pipeline = Pipeline(
            spool=sink,
            save=self._save,
            recent=self.history,
            clock=self.clock,
            monotonic=self.clock,
        )
        self.attach(self.source)

    def attach(self, source: ScriptedSource) -> None:
        self.pipeline.attach(
            Tracker(StatusConfig()), [source], lambda group: group != "hidden", INTERVAL_S
        )

    def _save(self, checkpoint: Checkpoint) -> None:
        if self.refuses:
            raise OutputError("no space left")
        self.clock.now += self.save_s
        self.saved.append({"positions": checkpoint.sources, "on_disk": len(self.on_disk())})

    def on_disk(self) -> list[Sample]:
        files = sorted(self.folder.glob(".*.part")) + sorted(self.folder.glob("*.jsonl"))
        lines = [line for file in files for line in file.read_bytes().splitlines()]
        return [msgspec.json.decode(line, type=Sample) for line in lines]

    def tick(self, now: float) -> None:
        self.clock.now = now
        self.pipeline.tick()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path / "spool")
    yield bench
    bench.pipeline.close()


def test_samples_are_on_disk_before_the_checkpoint_is_saved(bench: Bench) -> None:
    bench.pipeline.emit([raised(Status.NEW_MEMBER, 1000.0), synced(1000.5)])

    bench.tick(1001.0)

    assert [(s.from_, s.to, s.agent) for s in bench.on_disk()] == [(0, 2, "a"), (2, 0, "a")]
    assert bench.saved == [{"positions": {"scripted": {"said": 0}}, "on_disk": 2}]


def test_records_in_memory_are_those_on_disk(bench: Bench) -> None:
    """A restart reads them from the disk: of another agent, each member would be seen by two."""
    bench.pipeline.emit([raised(Status.NEW_MEMBER, 1000.0), synced(1000.5)])

    bench.tick(1001.0)

    assert bench.history.records() == bench.on_disk()


def test_a_group_that_is_not_watched_leaves_no_trace(bench: Bench) -> None:
    bench.pipeline.emit([raised(Status.NEW_MEMBER, 1000.0, member(group="hidden"))])

    assert bench.pipeline.tracker.snapshot(1000.0).groups == ()


def test_many_unsaved_records_do_not_wait_for_a_slow_save_s_pause(bench: Bench) -> None:
    """The next start knows 50,000 records when they come again, and no more."""
    (record,) = run(Tracker(StatusConfig()), raised(Status.NEW_MEMBER, 1000.0))

    def record_many(count: int) -> None:
        bench.pipeline.record(
            [msgspec.structs.replace(record, id=f"{bench.clock.now}-{n}") for n in range(count)]
        )

    bench.save_s = 10.0
    record_many(1)
    bench.tick(1001.0)
    record_many(1_000)
    bench.tick(1012.0)
    before = len(bench.saved)
    record_many(20_000)
    bench.tick(1013.0)

    assert (before, len(bench.saved)) == (1, 2)


class Inspector(ScriptedSource):
    """One that also finds something in groups, once."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = ""
        self.found = run(Tracker(StatusConfig()), raised(Status.NEW_MEMBER, 1000.0))

    def group_states(self) -> tuple[InspectedGroup, ...]:
        return ()

    def findings(self) -> list[Sample]:
        found, self.found = self.found, []
        return found


def test_what_a_source_finds_in_groups_is_recorded(bench: Bench) -> None:
    bench.attach(Inspector())

    bench.tick(1001.0)
    bench.tick(1002.0)

    assert [record.to for record in bench.on_disk()] == [2]


def test_the_inspected_cluster_is_every_source_s(bench: Bench) -> None:
    inspector = Inspector()
    inspector.found = []
    bench.attach(inspector)
    bench.pipeline.emit([raised(Status.NEW_MEMBER, 1000.0), synced(1000.5)])
    bench.tick(1001.0)
    inspector.cluster = "id-of-cluster"

    bench.tick(1002.0)
    bench.pipeline.emit([raised(Status.METADATA_CHANGED, 1003.0)])
    bench.pipeline.emit([raised(Status.NEW_MEMBER, 1003.0, member(client_id="late"))])
    other = msgspec.structs.replace(member(client_id="x"), cluster="other")
    bench.pipeline.emit([raised(Status.NEW_MEMBER, 1003.0, other)])
    bench.tick(1004.0)

    rows = bench.pipeline.tracker.snapshot(1004.0).consumers
    assert sorted((row.client_id, row.cluster) for row in rows) == [
        ("c1", "id-of-cluster"),
        ("late", "id-of-cluster"),
        ("x", "other"),
    ]
    assert [(r.from_, r.to, r.cluster) for r in bench.on_disk()][-3:] == [
        (0, 7, "id-of-cluster"),
        (0, 2, "id-of-cluster"),
        (0, 2, "other"),
    ]
    groups = bench.pipeline.tracker.snapshot(1004.0).groups
    assert {key.cluster for key in groups} == {"id-of-cluster", "other"}


def test_positions_that_moved_without_a_sample_are_saved_every_few_seconds(bench: Bench) -> None:
    for second in range(1, 15):
        bench.source.position = {"said": min(second, 7)}
        bench.tick(1000.0 + second)

    assert [saved["positions"] for saved in bench.saved] == [
        {"scripted": {"said": said}} for said in (1, 6, 7)
    ]


def test_a_disk_that_refuses_stops_the_checkpoint_and_is_told_once(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    shutil.rmtree(bench.folder)
    bench.folder.touch()  # a folder that is merely gone is made anew
    bench.pipeline.emit([raised(Status.NEW_MEMBER, 1000.0)])
    bench.tick(1001.0)
    bench.tick(1002.0)
    stats, saved = bench.pipeline.spool_stats, list(bench.saved)
    bench.folder.unlink()

    bench.tick(1003.0)

    assert saved == []
    assert (stats.written, stats.buffered, stats.errors >= 2) == (1, 1, True)
    assert [
        record.message for record in caplog.records if record.name == "agent.runtime.pipeline"
    ] == [
        "samples_not_durable",
        "samples_durable_again",
    ]
    assert [sample.to for sample in bench.on_disk()] == [2]
    assert bench.pipeline.spool_stats.buffered == 0
    assert len(bench.saved) == 1


def test_a_checkpoint_that_cannot_be_saved_is_tried_again(bench: Bench) -> None:
    bench.refuses = True
    bench.pipeline.emit([raised(Status.NEW_MEMBER, 1000.0)])
    bench.tick(1001.0)
    bench.refuses = False

    bench.tick(1002.0)

    assert len(bench.saved) == 1
    assert bench.pipeline.spool_stats.errors == 1


def test_periodic_samples_fall_on_multiples_of_the_interval(bench: Bench) -> None:
    bench.pipeline.emit([raised(Status.NEW_MEMBER, 1000.0)])

    for second in range(1, 32):
        bench.tick(1000.0 + second)

    periodic = [sample for sample in bench.on_disk() if sample.kind is SampleKind.SAMPLE]
    assert [(sample.ts, sample.to, sample.peak) for sample in periodic] == [
        ("1970-01-01T00:16:45.000000Z", 2, 2),
        ("1970-01-01T00:17:00.000000Z", 2, 2),
    ]


def test_a_source_that_is_behind_holds_time_back(bench: Bench) -> None:
    bench.source.behind_at = 1001.0
    bench.pipeline.emit([raised(Status.NEW_MEMBER, 1000.0)])

    bench.tick(5000.0)

    tracked = bench.pipeline.tracker.snapshot(5000.0).consumers
    assert [row.status for row in tracked] == [Status.NEW_MEMBER]


def test_closing_publishes_the_spool_and_saves_where_the_source_is(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "spool")
    bench.pipeline.emit([raised(Status.NEW_MEMBER, 1000.0)])
    bench.source.position = {"said": 1}

    bench.pipeline.close()

    assert len(list(bench.folder.glob("*.jsonl"))) == 1
    assert bench.saved == [{"positions": {"scripted": {"said": 1}}, "on_disk": 1}]


def copies(record: Sample, ids: range) -> list[Sample]:
    """Return records that differ by their id alone."""
    return [msgspec.structs.replace(record, id=str(each)) for each in ids]


def test_a_history_that_keeps_its_size_keeps_no_more_than_allowed() -> None:
    (one,) = run(Tracker(StatusConfig()), raised(Status.NEW_MEMBER, 1000.0))
    history = RecentRecords([one], max_records=3)

    history.freeze_limits()
    history.add(copies(one, range(9)), now=1_000.0)

    assert len(history.records()) == 3


def test_where_memory_is_short_nothing_grows(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.pipeline.emit([raised(Status.COORDINATOR_REQUESTED, 1_000.0)])
    (one,) = bench.history.records()
    bench.history.add(copies(one, range(2_000)), now=1_000.0)

    bench.pipeline.shrink_buffers()
    bench.history.add(copies(one, range(2_000, 2_500)), now=1_000.0)
    bench.pipeline.emit([raised(Status.NEW_MEMBER, 1_001.0, member("c9"))])
    assert len(bench.history.records()) == 2_001
    assert len(bench.pipeline.tracker.snapshot(1_002.0).consumers) == 1

    bench.pipeline.restore_limits()
    bench.history.add(copies(one, range(2_500, 3_000)), now=1_000.0)
    bench.pipeline.emit([raised(Status.NEW_MEMBER, 1_003.0)])
    assert len(bench.history.records()) == 2_502
    assert len(bench.pipeline.tracker.snapshot(1_004.0).consumers) == 2
