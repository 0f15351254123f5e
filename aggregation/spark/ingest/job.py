"""Ingestion of spools and topics into tables, each record once: Spark Structured Streaming.

Theory of operation. A stream's checkpoint has the files or offsets that were read. After a crash
the unfinished batch is repeated, and the tables accept only ids that they do not hold
(`aggregation.spark.tables.tables`). Each source has its own stream and checkpoint, so sources can
be added. Their batches run one after the other. One ingest at a time writes. The JVM shares its
lock, because the JVM outlives a killed Python process for a moment.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import partial
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import Protocol

from py4j.protocol import Py4JNetworkError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention

from aggregation.spark.errors import SparkJobError
from aggregation.spark.ingest.job_metrics import JobMetrics, serve_metrics, write_metrics
from aggregation.spark.ingest.progress import IngestProgress
from aggregation.spark.ingest.spool_reader import UNREADABLE
from aggregation.spark.ingest.stream import Stream, Take
from aggregation.spark.session.session import spark_session
from aggregation.spark.tables.lock import table_lock
from aggregation.spark.tables.maintenance import EVERY_S, Maintenance
from aggregation.spark.tables.retention import retention_horizon
from aggregation.spark.tables.schema import LATE, RECORD, Table, table_format
from aggregation.spark.tables.table_place import TableFormat
from aggregation.spark.tables.tables import Tables, open_tables, session_settings
from metrics.model.sample import SampleKind

Notify = Callable[[str], None]

_POLL_S = 1


class IngestSource(Protocol):
    """A source of lines."""

    @property
    def name(self) -> str:
        """Identity of the source, the same in a later run."""

    def check(self) -> None:
        """Raise SparkSetupError if the source clearly cannot be read."""

    def has_files(self) -> bool:
        """Return whether there is anything to read, read or not."""

    def start(self, spark: SparkSession, checkpoint: Path, take: Take, *, once: bool) -> Stream:
        """Start a stream of batches: of the present data if ``once``, else until it is stopped."""

    def position(self, checkpoint: Path) -> str:
        """Return up to where it was read; an empty text if there is no such place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestConfig:
    """The sources, the tables and the options of an ingest."""

    sources: Sequence[IngestSource]
    tables: Path
    format: TableFormat | None = None
    """Format of new tables; None means the one that the tables have, or Parquet."""
    stored_in: str | None = None
    """URL, or namespace of a Spark catalog, of the tables' rows; None: known, or the folder."""
    once: bool = False
    keep_days: int | None = None
    metrics_listen: str | None = None
    metrics_file: Path | None = None
    jars: Sequence[Path] = ()

    def open_tables(self) -> Tables:
        """Return the tables.

        Raises:
            SparkSetupError: the folder has others, or cannot be written to.

        """
        tables = open_tables(self.tables, self.format, self.stored_in)
        tables.check()
        return tables

    def checkpoint(self, source: IngestSource) -> Path:
        """Return the source's checkpoint folder; several sources can feed the same tables."""
        name = sha256(source.name.encode()).hexdigest()[:12]
        return self.tables / "_checkpoints" / name


def records(parsed: DataFrame, table: Table) -> DataFrame:
    """Return the records of a table: periodic samples, or every other kind."""
    is_sample = F.col("kind") == SampleKind.SAMPLE.value
    wanted = is_sample if table is Table.SAMPLES else ~is_sample
    return parsed.where(F.col("fault").isNull() & wanted).select(RECORD.fieldNames())


def reject_late(parsed: DataFrame, horizon: date | None) -> DataFrame:
    """Mark records from before the retention horizon as faults, with the day of their arrival."""
    if horizon is None:
        return parsed
    is_late = F.col("fault").isNull() & (F.col("day") < F.lit(horizon))
    fault = F.lit(f"{LATE}records of before {horizon} were removed from the tables")
    return parsed.withColumns(
        {
            "fault": F.when(is_late, fault).otherwise(F.col("fault")),
            "day": F.when(is_late, F.current_date()).otherwise(F.col("day")),
        }
    )


def quarantine_rows(parsed: DataFrame) -> DataFrame:
    """Return rows for the quarantine: malformed lines and broken files."""
    return parsed.where(F.col("fault").isNotNull()).select(
        F.sha2(F.to_json(F.struct("file", "offset", "text")), 256).alias("id"),
        "file",
        "offset",
        F.col("fault").alias("reason"),
        "text",
        F.coalesce("lines", F.lit(1)).cast("long").alias("lines"),
        "day",
    )


class TableIngest:
    """One run over some sources. The caller holds the tables' lock."""

    def __init__(self, spark: SparkSession, config: IngestConfig, notify: Notify) -> None:
        self._spark, self._config, self._notify = spark, config, notify
        self._tables = config.open_tables()
        self._maintenance = Maintenance(
            tables=self._tables, keep_days=config.keep_days, notify=notify
        )
        self._maintenance_at = monotonic() + EVERY_S
        self._has_history = table_format(config.tables, Table.TRANSITIONS) is not None
        self._failure: SparkJobError | None = None
        self._turn = threading.Lock()
        self._streams: dict[str, Stream] = {}
        self._read: set[str] = set()
        """Names of sources that had a batch."""
        self._refused: set[str] = set()
        """Names of new sources of which no file could be read so far."""
        self.done = IngestProgress()
        self.metrics = JobMetrics(self.done, self._behind)

    def start(self) -> list[Stream]:
        """Clean up after a killed run and start the streams."""
        self._tables.clean()
        self._tables.create(self._spark)
        if not self._config.once:
            for source in self._empty_sources():
                self._notify(f"there is no spool file in {source} yet")
        self._streams = {source.name: self._start(source) for source in self._config.sources}
        return list(self._streams.values())

    def _behind(self) -> dict[str, int]:
        found = {name: stream.behind() for name, stream in self._streams.items()}
        return {name: count for name, count in found.items() if count is not None}

    def wait(self, streams: Sequence[Stream], stopping: Callable[[], bool]) -> None:
        """Wait until the streams end or are stopped; stop all of them if one fails.

        Raises:
            SparkJobError: a file of a spool cannot be read, or a source has no file at all.

        """
        try:
            for stream in streams:
                self._follow(stream, streams, stopping)
            if self._config.once and not stopping():
                self._maintenance.run(self._spark)
            self._write_metrics()
            if self._config.once and not stopping():
                self._check_reads()
        except Exception as error:
            if self._failure is not None:
                raise self._failure from None
            if isinstance(error, Py4JNetworkError | ConnectionError):  # Java is gone
                self._note_positions()
            raise
        finally:
            for stream in streams:
                stream.stop()

    def _note_positions(self) -> None:
        for source in self._config.sources:
            if place := source.position(self._config.checkpoint(source)):
                self._notify(f"{source.name} is in the tables up to {place}")

    def _check_reads(self) -> None:
        """Report sources without new files: a run that reads nothing is no quiet success."""
        empty = self._empty_sources()
        if empty:
            raise SparkJobError(f"there is no spool file (*.jsonl, *.jsonl.gz) in {empty[0]}")
        if self._refused:
            raise SparkJobError(f"{min(self._refused)}: none of its files could be read")
        for source in self._config.sources:
            if source.name not in self._read:
                self._notify(f"{source.name}: nothing new")

    def _empty_sources(self) -> list[str]:
        unread = (source for source in self._config.sources if source.name not in self._read)
        return [source.name for source in unread if not source.has_files()]

    def _follow(
        self,
        stream: Stream,
        streams: Sequence[Stream],
        stopping: Callable[[], bool],
    ) -> None:
        while not stream.wait(_POLL_S):
            if stopping() or any(other.has_failed() for other in streams):
                stream.stop()

    def _start(self, source: IngestSource) -> Stream:
        return source.start(
            self._spark,
            self._config.checkpoint(source),
            partial(self._process_batch, source),
            once=self._config.once,
        )

    def _process_batch(self, source: IngestSource, rows: DataFrame, number: int, gone: int) -> None:
        with self._turn:
            try:
                self._write_batch(source, rows, number)
                self._report_gone(source, gone)
                if monotonic() >= self._maintenance_at:
                    self._maintenance.run(self._spark)
                    self._maintenance_at = monotonic() + EVERY_S
                self._write_metrics()
            except SparkJobError as error:
                self._failure = error
                raise

    def _report_gone(self, source: IngestSource, gone: int) -> None:
        self.done.gone += gone
        if gone:
            self._notify(f"{source.name}: {gone} records were gone before they were read")

    def _find_horizon(self) -> date | None:
        """Return the first day whose records enter the tables; None: all of them do.

        In tables with a history, a day that this run is about to remove is as good as removed:
        its rollups stay, so a late record of it is counted as late.
        """
        if self._has_history:
            self._maintenance.raise_horizon()
        return retention_horizon(self._config.tables)

    def _write_batch(self, source: IngestSource, rows: DataFrame, number: int) -> None:
        began_at, done = monotonic(), self.done
        parsed = reject_late(rows, self._find_horizon())
        self._check_files(parsed)
        line, is_late = F.col("offset").isNotNull(), F.col("fault").startswith(LATE)
        number_of = F.coalesce("lines", F.lit(1))
        lines, bad, late = parsed.agg(
            F.coalesce(F.sum(F.when(line, number_of)), F.lit(0)),
            F.coalesce(F.sum(F.when(line & F.col("fault").isNotNull(), number_of)), F.lit(0)),
            F.count_if(is_late),
        ).collect()[0]
        done.lines += lines
        done.malformed += bad - late
        done.late += late
        for table in (Table.TRANSITIONS, Table.SAMPLES):
            done.appended[table] += self._tables.append(records(parsed, table), table)
        lost = self._tables.append(quarantine_rows(parsed), Table.QUARANTINE)
        done.appended[Table.QUARANTINE] += lost
        if lines:
            self._refused.discard(source.name)
        elif lost and number == 0:
            self._refused.add(source.name)
        self._read.add(source.name)
        took_s = monotonic() - began_at
        done.end_batch(took_s)
        self._notify(
            f"{source.name}: batch {number} done, {lines} lines in {took_s:.1f} s; so far {done}"
        )

    def _write_metrics(self) -> None:
        if self._config.metrics_file is not None:
            write_metrics(self.metrics, self._config.metrics_file)

    def _check_files(self, parsed: DataFrame) -> None:
        """Report broken and removed files before anything is written."""
        broken = parsed.where(F.col("offset").isNull()).select("file", "fault").collect()
        for file, fault in broken:
            if fault.startswith(UNREADABLE):
                raise SparkJobError(f"{file!r} {fault}")
        for file, fault in broken:
            self._notify(f"{file}: {fault}")


@contextmanager
def ingest_session(config: IngestConfig, notify: Notify) -> Iterator[TableIngest]:
    """Hold the tables' lock and a Spark session for one ingest.

    Raises:
        SparkSetupError: a source does not exist, the tables have another format, or Spark cannot
            run here.
        SparkJobError: another ingest writes to the tables.

    """
    for source in config.sources:
        source.check()
    tables = config.open_tables()
    with (
        table_lock(config.tables, notify) as lock_fd,
        spark_session(
            "rebalance-agent ingest",
            notify,
            keep_fds=(lock_fd,),
            jars=config.jars,
            settings=session_settings([tables.format], tables.place),
        ) as spark,
    ):
        job = TableIngest(spark, config, notify)
        with serve_metrics(job.metrics, config.metrics_listen):
            yield job
