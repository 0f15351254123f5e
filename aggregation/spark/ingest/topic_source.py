"""A Kafka topic as a stream of Spark's Kafka source.

Spark's checkpoint holds the offsets, and no consumer group commits anything. Records that retention
removed before they were read are no error, because the rest must go on.
"""

import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention
from pyspark.sql.pandas.types import to_arrow_schema

from aggregation.spark.errors import SparkSetupError
from aggregation.spark.ingest.record_parser import arrival, row_of
from aggregation.spark.session.workers import map_batches
from aggregation.spark.tables.schema import PARSED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEME = "kafka://"
_CONNECT_S = 10.0
BATCH_RECORDS = 200_000
"""Limit of a batch, and so of the data that is held between two commits."""


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
        """Identity of the topic; brokers change, so the given addresses stand for the cluster."""
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

    def has_files(self) -> bool:
        """Return True: an empty topic is no fault."""
        return True

    def stream(self, spark: "SparkSession") -> "DataFrame":
        """Return the records as they appear."""
        options = {f"kafka.{name}": value for name, value in self.properties.items()}
        return (
            spark.readStream.format("kafka")
            .options(**options)
            .option("kafka.bootstrap.servers", self.brokers)
            .option("subscribe", self.topic)
            .option("startingOffsets", "earliest")
            .option("failOnDataLoss", "false")
            .option("maxOffsetsPerTrigger", BATCH_RECORDS)
            .load()
            .select(
                "value",
                F.concat_ws("-", "topic", "partition").alias("file"),
                "offset",
                F.to_date("timestamp").alias("arrived_on"),
            )
        )

    def rows(self, batch: "DataFrame", _checkpoint: Path, _number: int) -> "DataFrame":
        """Turn records into `PARSED` rows."""
        read = partial(read_records, schema=to_arrow_schema(PARSED))
        return map_batches(batch, read, PARSED)


def read_records(records: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Read the records of a partition, for ``mapInArrow``."""
    today = datetime.now(UTC).date()
    for batch in records:
        rows = (
            row_of(line or b"", file=file, offset=offset, day=arrival(day, today))
            for line, file, offset, day in zip(*(c.to_pylist() for c in batch), strict=True)
        )
        yield pa.RecordBatch.from_pylist([row for row in rows if row is not None], schema=schema)
