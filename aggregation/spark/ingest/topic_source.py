"""A Kafka topic as a stream of Spark's Kafka source.

Spark's checkpoint holds the offsets; there is no consumer group. Records that retention removed
before they were read are counted. They are no error, because the rest must be read. A deleted and
recreated topic is an error: Spark would omit all records that were written before it noticed.
"""

import json
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, NamedTuple, Self

import msgspec
import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention
from pyspark.sql.pandas.types import to_arrow_schema

from aggregation.spark.errors import SparkJobError, SparkSetupError
from aggregation.spark.ingest.record_parser import arrival, read_row
from aggregation.spark.ingest.stream import TRIGGER_S, Take
from aggregation.spark.ingest.topic_admin import (
    OVERFLOW,
    find_log_starts,
    find_topic_id,
    find_unreadable,
)
from aggregation.spark.ingest.topic_identity import KnownTopic
from aggregation.spark.session.workers import map_batches
from aggregation.spark.tables.schema import PARSED
from aggregation.spark.tables.state_file import read_state, write_state
from metrics.model.sample import RECORD_MAX_BYTES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

SCHEME = "kafka://"
_CONNECT_S = 10.0
_NEXT = "next_offsets.json"
_decoder = msgspec.json.Decoder(dict[str, int])
_REMEDY = "remove it: then records that are gone from the topic by now are not counted"
BATCH_RECORDS = 200_000
"""Limit of a batch, and so of the data that is held between two commits."""
_POLL_RECORDS = "50"
"""Kafka's client holds them unpacked, whatever their size; a fetch is bounded in packed bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSource:
    """One topic, and its clients' properties beside the brokers' addresses."""

    brokers: str
    topic: str
    properties: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, url: str, properties: Mapping[str, str]) -> Self:
        """Read ``kafka://HOST:PORT[,HOST:PORT...]/TOPIC``.

        Raises:
            SparkSetupError: the text is no such URL.

        """
        brokers, _, topic = url.removeprefix(SCHEME).partition("/")
        if not brokers or not topic or "/" in topic:
            raise SparkSetupError(f"{url!r} is not {SCHEME}HOST:PORT[,HOST:PORT...]/TOPIC")
        return cls(brokers=brokers, topic=topic, properties=properties)

    @property
    def name(self) -> str:
        """Identity of the topic, with the configured addresses: a cluster's brokers change."""
        return f"{SCHEME}{self.brokers}/{self.topic}"

    def check(self) -> None:
        """Check that a broker accepts connections: Kafka's own client would try for minutes.

        Raises:
            SparkSetupError: no broker accepts connections.

        """
        faults = []
        for broker in self.brokers.split(","):
            host, _, port = broker.rpartition(":")
            try:
                socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
            except (OSError, ValueError, OverflowError) as error:
                faults.append(f"{broker!r}: {error}")
            else:
                return
        raise SparkSetupError(f"no broker of {self.name} takes connections ({'; '.join(faults)})")

    def position(self, checkpoint: Path) -> str:
        """Return the next offset of each partition of which some was read."""
        return str(ReadOffsets(checkpoint, dict))

    def has_files(self) -> bool:
        """Return True: an empty topic is no fault."""
        return True

    def start(
        self, spark: "SparkSession", checkpoint: Path, take: Take, *, once: bool
    ) -> "TopicStream":
        """Start to read new records, batch by batch.

        Raises:
            SparkJobError: the topic was made again; the next ingest reads it from its start.

        """
        known = KnownTopic(checkpoint, partial(find_topic_id, spark, self.topic, self._client))
        if known.is_another_now():
            raise _forget(self.name, checkpoint)
        find_starts = partial(find_log_starts, spark, self.topic, self._client)
        offsets = ReadOffsets(checkpoint, find_starts)

        def process(batch: "DataFrame", number: int) -> None:
            read = partial(read_records, schema=to_arrow_schema(PARSED))
            rows = map_batches(batch, read, PARSED).persist()
            try:
                found = find_offsets(rows)
                take(rows, number, offsets.count_gone(found))
                offsets.keep(found)
            finally:
                rows.unpersist()

        writer = (
            self._stream(spark)
            .writeStream.foreachBatch(process)
            .option("checkpointLocation", str(checkpoint))
        )
        trigger = {"availableNow": True} if once else {"processingTime": f"{TRIGGER_S} seconds"}
        unreadable = partial(find_unreadable, spark, self.topic, self._client)
        query = writer.trigger(**trigger).start()
        return TopicStream(query, self.name, checkpoint, known, unreadable)

    @property
    def _client(self) -> dict[str, str]:
        """All properties of Kafka's client."""
        return {**self.properties, "bootstrap.servers": self.brokers}

    def _stream(self, spark: "SparkSession") -> "DataFrame":
        """Return the records as they appear."""
        return (
            spark.readStream.format("kafka")
            .option("kafka.max.poll.records", _POLL_RECORDS)
            .options(**{f"kafka.{name}": value for name, value in self._client.items()})
            .option("subscribe", self.topic)
            .option("startingOffsets", "earliest")
            .option("failOnDataLoss", "false")
            .option("maxOffsetsPerTrigger", BATCH_RECORDS)
            .load()
            .select(
                F.substring("value", 1, RECORD_MAX_BYTES + 1).alias("value"),
                F.concat_ws("-", "topic", "partition").alias("file"),
                "offset",
                F.to_date(_within_time("timestamp")).alias("arrived_on"),
            )
        )


def _within_time(column: str) -> "Column":
    """Return a producer's time from 1970 to now: Python has no years beyond 9999."""
    return F.greatest(F.least(F.col(column), F.current_timestamp()), F.timestamp_seconds(F.lit(0)))


class TopicStream:
    """A query of Spark's."""

    def __init__(
        self,
        query: "StreamingQuery",
        name: str,
        checkpoint: Path,
        known: KnownTopic,
        find_unreadable: Callable[[], Mapping[str, int]],
    ) -> None:
        """Take a query that runs."""
        self._query, self._name, self._checkpoint = query, name, checkpoint
        self._known, self._checked = known, -1
        self._find_unreadable = find_unreadable

    def wait(self, timeout_s: float) -> bool:
        """Wait for its end; return whether it has ended. Raise the error that ended it.

        Raises:
            SparkJobError: the topic was made again; the next ingest reads it from its start. Or
                it has a record of a time that Spark cannot read.

        """
        try:
            has_ended = bool(self._query.awaitTermination(int(timeout_s)))
        except StreamingQueryException as error:
            if OVERFLOW in str(error) and (places := self._find_unreadable()):
                raise _refuse_times(self._name, places) from error
            raise
        if any(map(is_of_another, self._query.recentProgress)) or self._is_another_now():
            self._query.stop()
            raise _forget(self._name, self._checkpoint)
        return has_ended

    def _is_another_now(self) -> bool:
        """Check the topic's id after each batch: rows of a new topic in it will be read again."""
        latest = self._query.lastProgress
        if latest is None or latest.batchId == self._checked:
            return False
        self._checked = latest.batchId
        return self._known.is_another_now()

    def has_failed(self) -> bool:
        """Return whether an error ended it."""
        return self._query.exception() is not None

    def stop(self) -> None:
        """End it, in the middle of a batch, too."""
        self._query.stop()

    def behind(self) -> int | None:
        """Return how many records the latest batch left; None: there was none."""
        progress = self._query.lastProgress
        return None if progress is None else count_outstanding(progress)


def _refuse_times(name: str, places: Mapping[str, int]) -> SparkJobError:
    """Return the error for records that no query of Spark's passes."""
    found = ", ".join(f"{place} at offset {offset}" for place, offset in sorted(places.items()))
    return SparkJobError(
        f"{name}: Spark cannot read the time of a record ({found}): it is after the year 294246. "
        "Delete the partition's records up to it with kafka-delete-records, and set the topic's "
        "message.timestamp.after.max.ms"
    )


def _forget(name: str, checkpoint: Path) -> SparkJobError:
    """Return the error for a topic that was recreated; delete the offsets read of the old one."""
    rmtree(checkpoint)
    return SparkJobError(
        f"{name} was deleted and made again. Run ingest again: it reads the topic from its start"
    )


def count_outstanding(progress: "StreamingQueryProgress") -> int:
    """Return how many records a batch left for the next one, by Spark's report."""
    latest, end = (_read_offsets(progress, name) for name in ("latestOffset", "endOffset"))
    return sum(latest.values()) - sum(end.values())


def is_of_another(progress: "StreamingQueryProgress") -> bool:
    """Return whether a batch ends before it starts: the topic was deleted and made again."""
    end = _read_offsets(progress, "endOffset")
    starts = _read_offsets(progress, "startOffset").items()
    return any(end.get(partition, start) < start for partition, start in starts)


def _read_offsets(progress: "StreamingQueryProgress", name: str) -> dict[tuple[str, str], int]:
    """Return offsets by topic and partition.

    They are in Spark's JSON alone: pyspark's own fields have Python's text of a dict.
    """
    (source,) = json.loads(progress.json)["sources"]
    topics = (source.get(name) or {}).items()
    return {(topic, number): n for topic, parts in topics for number, n in parts.items()}


class PartitionRange(NamedTuple):
    """The offsets of a batch's records in one partition."""

    first: int
    last: int
    records: int


def find_offsets(rows: "DataFrame") -> dict[str, PartitionRange]:
    """Return the offsets of a batch's rows by topic-partition."""
    offset = F.col("offset")
    found = rows.groupBy("file").agg(F.min(offset), F.max(offset), F.count(offset)).collect()
    return {row[0]: PartitionRange(*row[1:]) for row in found}


class ReadOffsets:
    """The next offset of each partition, in a file beside Spark's checkpoint.

    Spark continues at the first offset that a broker has, and does not report deleted records
    before it.
    """

    def __init__(self, checkpoint: Path, find_starts: Callable[[], Mapping[str, int]]) -> None:
        """Read them; ``find_starts`` asks a broker for the first offset that each partition has."""
        self._path, self._find_starts = checkpoint / _NEXT, find_starts
        self._next = read_state(self._path, _decoder, _REMEDY) or {}

    def __str__(self) -> str:
        """Return them in words."""
        return ", ".join(f"offset {n} of {name}" for name, n in sorted(self._next.items()))

    def count_gone(self, found: Mapping[str, PartitionRange]) -> int:
        """Return the number of records that were removed after those that were read before.

        An offset without a record may be a transaction's marker, too. Only offsets before the first
        that the broker has are removed for certain: markers among them count. Where no broker
        replies, or the topic is compacted, each offset without a record counts.
        """
        without = {name: self._count_without_record(name, part) for name, part in found.items()}
        if not any(without.values()):
            return 0
        starts = self._find_starts()
        if not starts:
            return sum(without.values())
        return sum(
            min(count, max(0, starts.get(name, 0) - self._next.get(name, found[name].first)))
            for name, count in without.items()
        )

    def _count_without_record(self, name: str, part: PartitionRange) -> int:
        return max(0, part.last + 1 - self._next.get(name, part.first) - part.records)

    def keep(self, found: Mapping[str, PartitionRange]) -> None:
        """Keep the end of a batch that is in the tables."""
        for name, part in found.items():
            self._next[name] = max(self._next.get(name, 0), part.last + 1)
        write_state(self._path, self._next)


def read_records(records: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Read the records of a partition, for ``mapInArrow``: each has a row, one of no bytes, too.

    So each offset without a row is one that the topic did not have (`ReadOffsets.count_gone`).
    """
    today = datetime.now(UTC).date()
    for batch in records:
        rows = [
            read_row(line or b"", file=file, offset=offset, day=arrival(day, today))
            for line, file, offset, day in zip(*(c.to_pylist() for c in batch), strict=True)
        ]
        yield pa.RecordBatch.from_pylist(rows, schema=schema)
