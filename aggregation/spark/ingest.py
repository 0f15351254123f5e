"""The spool into tables, each record once: Spark Structured Streaming.

Theory of operation. The stream's checkpoint knows which files were read; a batch that a crash cut
short is read again. Appending is therefore made idempotent by the records' ids: a batch writes only
what the days that it touches do not hold yet, so it is harmless to run it twice, wholly or in part,
and so are ids that come again in other files. Spark moves finished files into place at a job's end,
one rename each: what a killed job leaves is either a whole file, whose ids count, or under
``_temporary``, which no reader looks into and the next ingest removes. Only one ingest at a time
writes: the lock is shared with the JVM, since that lives on for a moment when its Python process is
killed.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from time import monotonic

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery

from aggregation.spark.batch_files import BatchFiles, inspect
from aggregation.spark.errors import SparkJobError, SparkSetupError
from aggregation.spark.lines import read_batches
from aggregation.spark.lock import table_lock
from aggregation.spark.schema import RECORD, Table, literal_path, read_table
from aggregation.spark.session import spark_session
from metrics.sample import SampleKind

Say = Callable[[str], None]

TRIGGER = "10 seconds"
"""How often a continuous ingest looks for new files; agents roll theirs every minute."""
FILES_PER_BATCH = 1000
# Files whose last change is older than the newest one's by more are passed over without a word.
_MAX_FILE_AGE = "3650d"

PARSED = T.StructType(
    [
        *RECORD.fields,
        T.StructField("file", T.StringType()),
        T.StructField("fault", T.StringType()),
        T.StructField("text", T.StringType()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestConfig:
    """What to read and where to write."""

    spool: Path
    tables: Path
    once: bool = False

    @property
    def checkpoint(self) -> Path:
        """One per spool, so that several spools can feed the same tables."""
        name = sha256(str(self.spool.resolve()).encode()).hexdigest()[:12]
        return self.tables / "_checkpoints" / name


@dataclass(slots=True)
class Ingested:
    """What an ingest has done so far."""

    files: int = 0
    missing: int = 0
    lines: int = 0
    malformed: int = 0
    appended: dict[Table, int] = field(default_factory=lambda: dict.fromkeys(Table, 0))

    @property
    def known(self) -> int:
        """Records that the tables held already, or that came twice in a batch."""
        new = self.appended[Table.TRANSITIONS] + self.appended[Table.SAMPLES]
        return self.lines - self.malformed - new

    def __str__(self) -> str:
        return (
            f"{self.files} files, {self.lines} lines: "
            f"{self.appended[Table.TRANSITIONS]} new transitions, "
            f"{self.appended[Table.SAMPLES]} new samples, {self.known} known already, "
            f"{self.malformed} malformed"
        )


def parse(lines: DataFrame) -> DataFrame:
    """Turn ``value`` (bytes), ``file``, ``changed_on`` into `PARSED` rows."""
    return lines.mapInArrow(partial(read_batches, schema=to_arrow_schema(PARSED)), PARSED)


def records(parsed: DataFrame, table: Table) -> DataFrame:
    """Return the records of a table: periodic samples, or every other kind."""
    is_sample = F.col("kind") == SampleKind.SAMPLE.value
    wanted = is_sample if table is Table.SAMPLES else ~is_sample
    return parsed.where(F.col("fault").isNull() & wanted).select(RECORD.fieldNames())


def malformed(parsed: DataFrame) -> DataFrame:
    """Return the quarantine's rows: equal lines of a file are one, with their number."""
    return (
        parsed.where(F.col("fault").isNotNull())
        .groupBy("file", F.col("fault").alias("reason"), "text", "day")
        .agg(F.count(F.lit(1)).alias("lines"))
        .withColumn("id", F.sha2(F.to_json(F.array("file", "reason", "text")), 256))
    )


def unseen(rows: DataFrame, known: DataFrame) -> DataFrame:
    """Return one row of each ``id`` that ``known`` does not have."""
    return rows.dropDuplicates(["id"]).join(known.select("id"), "id", "left_anti")


def append(rows: DataFrame, tables: Path, table: Table) -> int:
    """Write what the table does not hold yet and return how many rows that was."""
    days = [row.day for row in rows.select("day").distinct().collect()]
    if not days:
        return 0
    known = read_table(rows.sparkSession, tables, table).where(F.col("day").isin(days))
    seen = Observation()
    new = unseen(rows, known).observe(seen, F.count(F.lit(1)).alias("rows"))
    # few files: one per day, more only where a day is large
    new.hint("rebalance", "day").write.mode("append").partitionBy("day").parquet(
        str(tables / table)
    )
    return int(seen.get["rows"])


class SpoolIngest:
    """One run over a spool. The tables' lock must be held."""

    def __init__(self, spark: SparkSession, config: IngestConfig, say: Say) -> None:
        self._spark, self._config, self._say = spark, config, say
        self._failure: SparkJobError | None = None
        self.done = Ingested()

    def start(self) -> StreamingQuery:
        """Clean up after a killed run and start the stream."""
        for table in Table:
            shutil.rmtree(self._config.tables / table / "_temporary", ignore_errors=True)
        # `inspect` has looked at the files and tells; a broken one is read as far as it goes
        self._spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
        self._spark.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
        lines = (
            self._spark.readStream.format("text")
            .option("lineSep", "\n")
            .option("pathGlobFilter", "*.{jsonl,jsonl.gz}")
            .option("maxFilesPerTrigger", FILES_PER_BATCH)
            .option("maxFileAge", _MAX_FILE_AGE)
            .load(literal_path(self._config.spool.resolve()))
            .select(
                F.col("value").cast("binary"),
                F.col("_metadata.file_name").alias("file"),
                F.to_date("_metadata.file_modification_time").alias("changed_on"),
            )
        )
        writer = lines.writeStream.foreachBatch(self._guarded).option(
            "checkpointLocation", str(self._config.checkpoint)
        )
        if self._config.once:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=TRIGGER).start()

    def wait(self, query: StreamingQuery, stopping: Callable[[], bool]) -> None:
        """Return when the stream has ended or was stopped.

        Raises:
            SparkJobError: a spool file cannot be read.

        """
        try:
            while not query.awaitTermination(1):
                if stopping():
                    query.stop()
        except Exception:
            if self._failure is not None:
                raise self._failure from None
            raise

    def _guarded(self, lines: DataFrame, batch: int) -> None:
        try:
            self._take(lines, batch)
        except SparkJobError as error:
            self._failure = error
            raise

    def _take(self, lines: DataFrame, batch: int) -> None:
        began_at, done = monotonic(), self.done
        files = inspect(self._config.checkpoint, batch)
        self._report(files)
        parsed = parse(lines).persist()
        try:
            total = parsed.agg(
                F.count(F.lit(1)).alias("lines"), F.count("fault").alias("malformed")
            ).first()
            if total is not None:
                done.lines += total.lines
                done.malformed += total.malformed
            for table, rows in self._rows(parsed, files):
                done.appended[table] += append(rows, self._config.tables, table)
        finally:
            parsed.unpersist()
        self._say(f"batch {batch} done in {monotonic() - began_at:.1f} s; so far {done}")

    def _rows(self, parsed: DataFrame, files: BatchFiles) -> Iterator[tuple[Table, DataFrame]]:
        yield Table.TRANSITIONS, records(parsed, Table.TRANSITIONS)
        yield Table.SAMPLES, records(parsed, Table.SAMPLES)
        yield Table.QUARANTINE, malformed(parsed)
        if files.broken:
            whole = self._spark.createDataFrame(
                [(path.name, reason, None, day, 1) for path, reason, day in files.broken],
                "file string, reason string, text string, day date, lines long",
            )
            named = whole.withColumn("id", F.sha2(F.to_json(F.array("file", "reason")), 256))
            yield Table.QUARANTINE, named

    def _report(self, files: BatchFiles) -> None:
        self.done.files += files.readable
        self.done.missing += len(files.missing)
        for path in files.missing:
            self._say(f"{path.name} was removed from the spool before it was read")
        for path, reason, _ in files.broken:
            self._say(f"{path.name}: {reason}; what could be read of it was taken")


@contextmanager
def ingest_session(config: IngestConfig, say: Say) -> Iterator[SpoolIngest]:
    """Hold the tables' lock and a Spark session for one ingest.

    Raises:
        SparkSetupError: the spool is no folder, or Spark cannot run here.
        SparkJobError: another ingest writes to the tables.

    """
    if not config.spool.is_dir():
        raise SparkSetupError(f"there is no spool folder {str(config.spool)!r}")
    with (
        table_lock(config.tables, say) as lock_fd,
        spark_session("rebalance-agent ingest", say, keep_fds=(lock_fd,)) as spark,
    ):
        yield SpoolIngest(spark, config, say)
