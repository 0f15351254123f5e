"""Each record reaches the tables once, whatever the spool looks like."""

import gzip
import itertools
from collections import Counter
from datetime import UTC, date, datetime
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import Row, SparkSession

from aggregation.spark.errors import SparkJobError, SparkSetupError
from aggregation.spark.ingest.job import IngestConfig, TableIngest
from aggregation.spark.ingest.spool_reader import LINKED
from aggregation.spark.ingest.spool_source import SpoolSource
from aggregation.spark.tables.lock import table_lock
from aggregation.spark.tables.maintenance import Maintenance
from aggregation.spark.tables.schema import Table, read_table
from aggregation.spark.tables.table_place import TableFormat
from aggregation.spark.tables.tables import Tables, drop_known, open_tables
from metrics.model.sample import Sample, SampleKind, Scope, encode, format_time
from metrics.model.status import RebalanceStatus as S
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker
from tests.aggregation.spark.conftest import Frame
from tests.aggregation.spark.histories import (
    DAY_S,
    START_AT,
    Client,
    chunks,
    rebalance,
    write_lines,
    write_spool,
)
from tests.metrics.given import raised, run, synced

pytestmark = pytest.mark.spark
QUARANTINE = Table.QUARANTINE


class Ingest:
    """Runs an ingest to its end, in the tests' session."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.spool, self.tables = spark, folder / "spool", folder / "tables"
        self.said: list[str] = []
        self.spool.mkdir()

    def job(self, *spools: Path | str, keep_days: int | None = None) -> TableIngest:
        config = IngestConfig(
            sources=[SpoolSource(str(spool)) for spool in spools or (self.spool,)],
            tables=self.tables,
            once=True,
            keep_days=keep_days,
        )
        return TableIngest(self.spark, config, self.said.append)

    def run(self, *spools: Path | str, keep_days: int | None = None) -> TableIngest:
        job = self.job(*spools, keep_days=keep_days)
        job.wait(job.start(), lambda: False)
        return job

    def rows(self, table: Table) -> list[Row]:
        return read_table(self.spark, self.tables, table).collect()

    def ids(self, table: Table) -> list[str]:
        return [row.id for row in read_table(self.spark, self.tables, table).collect()]


@pytest.fixture
def ingest(spark: SparkSession, tmp_path: Path) -> Ingest:
    return Ingest(spark, tmp_path)


def history() -> list[Sample]:
    """Write records of every kind, on two days."""
    members = [Client(group="g", client_id=f"c{n}") for n in range(3)]
    for at in (START_AT + 10, START_AT + DAY_S - 1, START_AT + DAY_S + 50):
        rebalance(members, at, S.NEW_MEMBER, 4.0)
    first = members[0]
    first.sample(START_AT + 100)
    first.sample(START_AT + DAY_S + 100)
    first.record(START_AT + 101, kind=SampleKind.SIGNAL, from_=0, to=1)
    first.record(START_AT + 102, kind=SampleKind.LOST, from_=1, to=None)
    first.record(START_AT + 103, kind=SampleKind.EPISODE, scope=Scope.GROUP, client_id=None)
    return [sample for member in members for sample in member.written]


def test_every_id_is_there_once_over_runs_files_and_copies(ingest: Ingest) -> None:
    samples = history()
    for number, part in enumerate(chunks(samples, 5)):
        write_spool(ingest.spool, part * 2, name=f"a{number}", compress=number % 2 == 0)
    ingest.run()
    write_spool(ingest.spool, samples, name="copy of all", compress=True)
    last = ingest.run()
    wanted = {kind: [s.id for s in samples if s.kind is kind] for kind in SampleKind}
    assert sorted(wanted.pop(SampleKind.SAMPLE)) == sorted(ingest.ids(Table.SAMPLES))
    assert sorted(itertools.chain(*wanted.values())) == sorted(ingest.ids(Table.TRANSITIONS))
    assert (len(samples), 1) == (last.done.duplicates, last.done.batches)


def test_values_arrive_unchanged_and_partitioned_by_day(ingest: Ingest) -> None:
    samples = history()
    write_spool(ingest.spool, samples)
    ingest.run()
    found = [
        row.asDict()
        for table in (Table.TRANSITIONS, Table.SAMPLES)
        for row in read_table(ingest.spark, ingest.tables, table).collect()
    ]
    written = {sample.id: msgspec.to_builtins(sample) for sample in samples}
    for row in found:
        row["ts"] = format_time(row["ts"].timestamp())
        assert written[row["id"]] | {"extra": None, "day": row["day"]} == row
        assert row["ts"].startswith(str(row["day"]))
    folders = {path.name for path in (ingest.tables / Table.TRANSITIONS).iterdir()}
    assert {"day=2025-11-24", "day=2025-11-25"} == folders


def test_malformed_lines_are_quarantined_once_with_file_offset_and_reason(ingest: Ingest) -> None:
    body = b"".join(map(encode, history()))
    bad = b'{"torn\n\n\xff\n{"torn\n'
    plain = write_lines(ingest.spool, body + bad, name="a b%20")
    packed = write_lines(ingest.spool, bad, name="c", compress=True)
    ingest.run()
    (ingest.tables / "_checkpoints").rename(ingest.tables / "_forgotten")
    again = ingest.run()
    found = sorted((r.file, r.offset, r.reason, r.text, r.lines) for r in ingest.rows(QUARANTINE))
    assert found == [
        (str(path), start + offset, reason, text, 1)
        for path, start in ((plain, len(body)), (packed, 0))
        for offset, reason, text in (
            (0, "Input data was truncated", '{"torn'),
            (8, "not UTF-8 at byte 0", "�"),
            (10, "Input data was truncated", '{"torn'),
        )
    ]
    assert len(history()) == len(ingest.ids(Table.TRANSITIONS) + ingest.ids(Table.SAMPLES))
    assert again.done.malformed == 6


def test_unknown_fields_are_kept(ingest: Ingest) -> None:
    line = encode(Client(group="g", client_id="c").move(START_AT, 2)).rstrip()
    write_lines(ingest.spool, line[:-1] + b',"cost":{"s":1.5}}\n', name="new")
    ingest.run()
    (row,) = read_table(ingest.spark, ingest.tables, Table.TRANSITIONS).collect()
    assert row.extra == '{"cost":{"s":1.5}}'


def test_broken_gz_is_taken_as_far_as_it_goes_and_told(ingest: Ingest) -> None:
    samples = [Client(group="g", client_id=f"c{n}").move(START_AT, 2) for n in range(5000)]
    whole = gzip.compress(b"".join(map(encode, samples)))
    cut, junk = ingest.spool / "cut.jsonl.gz", ingest.spool / "junk.jsonl.gz"
    cut.write_bytes(whole[: len(whole) // 2])
    junk.write_bytes(b"junk")
    write_spool(ingest.spool, history())
    job = ingest.run()
    rows = [row for row in ingest.rows(QUARANTINE) if row.offset is None]
    assert {str(cut), str(junk)} == {row.file for row in rows}
    assert 100 < job.done.appended[Table.TRANSITIONS] < 5000
    assert any(f"{cut}: the compressed file is broken" in said for said in ingest.said)


def test_file_that_went_before_it_was_read_is_told_and_kept_in_mind(ingest: Ingest) -> None:
    write_spool(ingest.spool, history(), name="stays")
    gone = write_spool(ingest.spool, history(), name="goes")
    job = ingest.job()
    take, job._write_batch = job._write_batch, lambda *batch: (gone.unlink(), take(*batch))[1]  # type: ignore[method-assign, func-returns-value]
    job.wait(job.start(), lambda: False)
    assert f"{gone}: was removed from the spool before it was read" in ingest.said
    (row,) = ingest.rows(QUARANTINE)
    assert (row.file, row.reason) == (str(gone), "was removed from the spool before it was read")
    assert job.done.lines == len(history())


def test_two_agents_two_spools_and_late_days_make_each_id_once(ingest: Ingest) -> None:
    samples, other = history(), ingest.spool.with_name("other")
    late = Client(group="g", client_id="late").move(START_AT - 9 * DAY_S, 2)
    both = samples[: len(samples) // 2]
    write_spool(ingest.spool, samples, name="same name")
    write_spool(other, [*both, late], name="same name", compress=True)
    ingest.run(ingest.spool, other.as_uri())
    write_spool(other, [late, *both], name="again")
    ingest.run(ingest.spool, other.as_uri())
    found = Counter(ingest.ids(Table.TRANSITIONS) + ingest.ids(Table.SAMPLES))
    assert Counter(s.id for s in [*samples, late]) == found


def test_event_of_two_agents_is_there_once_though_their_periodic_samples_differ(
    ingest: Ingest,
) -> None:
    """A record after a periodic sample has at least its ``ts``; the id has the event's time."""
    at = START_AT + DAY_S - 10
    sampled, alone = Tracker(StatusConfig()), Tracker(StatusConfig())
    begun, same = run(sampled, raised(1, at)), run(alone, raised(1, at))
    periodic = sampled.sample(START_AT + DAY_S + 60, 15.0)
    events, again = [*begun, *run(sampled, synced(at + 5))], [*same, *run(alone, synced(at + 5))]
    assert [s.id for s in events] == [s.id for s in again]
    assert events[-1].ts[:10] > again[-1].ts[:10]
    write_spool(ingest.spool, events + periodic, name="one")
    ingest.run()
    write_spool(ingest.spool, again, name="two")
    assert ingest.run().done.duplicates == 2
    assert sorted(ingest.ids(Table.TRANSITIONS)) == sorted(s.id for s in events)


def test_times_at_the_ends_of_the_calendar_are_looked_around(frame: Frame, tmp_path: Path) -> None:
    client = Client(group="g", client_id="c")
    rows = frame([client.move(0.0, 2), client.move(1e12, 0)])
    tables = Tables(folder=tmp_path)
    first, second = (tables.append(rows, Table.TRANSITIONS) for _ in range(2))
    assert (first, second) == (2, 0)


def test_table_of_another_format_is_left_alone(ingest: Ingest) -> None:
    write_spool(ingest.spool, history())
    ingest.run()
    with pytest.raises(SparkSetupError, match="of format parquet, wanted delta"):
        open_tables(ingest.tables, TableFormat.DELTA)


def test_other_files_and_folders_are_left_alone(ingest: Ingest) -> None:
    write_lines(ingest.spool, b"x\n", name=".hidden")
    ingest.spool.joinpath("notes.txt").write_text("x\n")
    write_spool(ingest.spool / "_sub", history())
    with pytest.raises(SparkJobError, match=rf"no spool file .* in {ingest.spool}$"):
        ingest.run()
    assert ingest.ids(Table.TRANSITIONS) == []


def test_tree_of_spools_is_read_without_its_links(ingest: Ingest) -> None:
    one, two = history(), [Client(group="g", client_id="two").move(START_AT, 2)]
    write_spool(ingest.spool / "pod-1", one)
    write_spool(ingest.spool / "pods" / "pod-2", two)
    link = ingest.spool / "pod-1" / "x.jsonl"
    link.symlink_to("/etc/passwd")
    linked = ingest.spool / "pods" / "linked"
    linked.symlink_to(ingest.spool / "pod-1")
    ingest.run()
    assert Counter(s.id for s in [*one, *two]) == Counter(
        ingest.ids(Table.TRANSITIONS) + ingest.ids(Table.SAMPLES)
    )
    refused = {(row.file, row.reason, row.text) for row in ingest.rows(QUARANTINE)}
    assert refused == {(str(link), LINKED, None), (str(linked), LINKED, None)}

    again = ingest.run()

    assert again.done.batches == 0
    assert f"{ingest.spool}: nothing new" in ingest.said


def test_a_spool_of_links_alone_is_no_success(ingest: Ingest) -> None:
    ingest.spool.mkdir(exist_ok=True)
    link = ingest.spool / "x.jsonl"
    link.symlink_to("/etc/passwd")
    with pytest.raises(SparkJobError, match="none of its files could be read"):
        ingest.run()
    assert [row.file for row in ingest.rows(QUARANTINE)] == [str(link)]


def test_pattern_names_several_spools(ingest: Ingest) -> None:
    samples = history()
    for name in ("pod-1", "pod-2", "other"):
        write_spool(ingest.spool / name, samples if name == "pod-1" else [])
    write_lines(ingest.spool / "other", b"x\n", name="bad")
    job = ingest.run(ingest.spool / "pod-*")
    assert (job.done.lines, job.done.malformed) == (len(samples), 0)


def test_folder_names_are_not_patterns(spark: SparkSession, tmp_path: Path) -> None:
    odd = tmp_path / "a [x] {b}*?"
    odd.mkdir()
    ingest = Ingest(spark, odd)
    write_spool(ingest.spool, history(), name="2025-11-24T00:00:00Z")
    ingest.run()
    counts = Counter(ingest.ids(Table.TRANSITIONS) + ingest.ids(Table.SAMPLES))
    assert (len(history()), {1}) == (len(counts), set(counts.values()))


def test_unreadable_leftovers_of_a_killed_run_are_removed(ingest: Ingest) -> None:
    left = ingest.tables / Table.TRANSITIONS / "_temporary" / "0"
    left.mkdir(parents=True)
    write_spool(ingest.spool, history())
    ingest.run()
    assert not left.parent.exists()


def test_append_twice_is_append_once(frame: Frame, tmp_path: Path) -> None:
    rows = frame(history())
    tables = Tables(folder=tmp_path)
    first, second = (tables.append(rows, Table.TRANSITIONS) for _ in range(2))
    assert (len(history()), 0) == (first, second)


def test_unseen_keeps_one_row_per_new_id(frame: Frame) -> None:
    samples = history()
    new = drop_known(frame(samples + samples), frame(samples[:4]))
    assert sorted(s.id for s in samples[4:]) == sorted(row.id for row in new.collect())


def test_late_record_of_a_removed_day_is_counted_and_stays_out(ingest: Ingest) -> None:
    late = [sample for sample in history() if sample.ts.startswith("2025-11-24")]
    write_spool(ingest.spool, history(), name="one")
    ingest.run()
    maintenance = Maintenance(tables=Tables(folder=ingest.tables), keep_days=1, notify=print)
    maintenance.run(ingest.spark, date(2025, 11, 26))
    write_spool(ingest.spool, late, name="two")

    job = ingest.run()

    assert {row.day for row in ingest.rows(Table.TRANSITIONS)} == {date(2025, 11, 25)}
    rows = ingest.rows(QUARANTINE)
    assert {row.reason for row in rows} == {
        "late: records of before 2025-11-25 were removed from the tables"
    }
    assert (len(rows), job.done.late) == (len(late), len(late))


def test_late_record_of_a_day_that_the_same_run_removes_is_counted(ingest: Ingest) -> None:
    """The day's rollups stay: without the count, they would lack the record in silence."""
    late = [sample for sample in history() if sample.ts.startswith("2025-11-24")]
    write_spool(ingest.spool, history()[len(late) // 2 :], name="one")
    ingest.run()
    write_spool(ingest.spool, history(), name="two")

    job = ingest.run(keep_days=(datetime.now(UTC).date() - date(2025, 11, 25)).days)

    assert {row.day for row in ingest.rows(Table.TRANSITIONS)} == {date(2025, 11, 25)}
    assert (len(ingest.rows(QUARANTINE)), job.done.late) == (len(late), len(late))


def test_old_records_of_new_tables_are_removed_and_not_late(ingest: Ingest) -> None:
    write_spool(ingest.spool, history(), name="one")

    job = ingest.run(keep_days=1)

    assert (ingest.rows(Table.TRANSITIONS), ingest.rows(QUARANTINE), job.done.late) == ([], [], 0)


def test_lock_is_for_one(tmp_path: Path) -> None:
    said: list[str] = []
    with (
        table_lock(tmp_path, said.append),
        pytest.raises(SparkJobError, match="another ingest is writing"),
        table_lock(tmp_path, said.append, timeout_s=0.0),
    ):
        pass
    assert said == []
