"""Questions about a topic, by the admin client of Spark's own Kafka source.

Each takes the properties of Kafka's client, with the brokers' addresses, and has an answer for
brokers that do not reply: an ingest goes on without.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LAST_MS = ((1 << 63) - 1) // 1000
"""The year 294,247. Spark computes in microseconds: a record of a later time ends each query with
`OVERFLOW`, whichever columns it selects. Kafka refuses such a time since 4.0 (KIP-1030), and before
by the topic's setting ``message.timestamp.difference.max.ms`` or
``message.timestamp.after.max.ms`` alone."""
OVERFLOW = "long overflow"
"""Java's text of the error."""
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""Kafka's ZERO_UUID."""
_COMPACT = "compact"
"""In ``cleanup.policy``: of records with one key the last stays."""


def find_topic_id(spark: "SparkSession", topic: str, properties: Mapping[str, str]) -> str | None:
    """Return a topic's id; None: no broker replies, or it is before 2.8 (KIP-516)."""
    try:
        with _connect(spark, properties) as (_, admin):
            found = _describe(admin, topic).topicId().toString()
    except Py4JJavaError:
        return None
    return None if found == _NO_ID else str(found)


def find_unreadable(
    spark: "SparkSession", topic: str, properties: Mapping[str, str]
) -> dict[str, int]:
    """Return the first record after `LAST_MS` by topic-partition; empty, if no broker replies."""
    try:
        with _connect(spark, properties) as (kafka, admin):
            since = kafka.clients.admin.OffsetSpec.forTimestamp(LAST_MS + 1)
            found = _list_offsets(kafka, admin, topic, since)
    except Py4JJavaError:
        return {}
    return {place: offset for place, offset in found.items() if offset >= 0}


def find_log_starts(
    spark: "SparkSession", topic: str, properties: Mapping[str, str]
) -> dict[str, int]:
    """Return the first offset that is kept by topic-partition.

    Empty, if no broker replies, or if the topic is compacted: then records are removed behind it,
    too.
    """
    try:
        with _connect(spark, properties) as (kafka, admin):
            if _COMPACT in _find_setting(kafka, admin, topic, "cleanup.policy"):
                return {}
            return _list_offsets(kafka, admin, topic, kafka.clients.admin.OffsetSpec.earliest())
    except Py4JJavaError:
        return {}


@contextmanager
def _connect(spark: "SparkSession", properties: Mapping[str, str]) -> Iterator[Sequence[Any]]:
    """Give Kafka's package and an admin client."""
    jvm: Any = spark._jvm  # noqa: SLF001 - PySpark's only way to a class of the JVM
    kafka = jvm.org.apache.kafka
    admin = kafka.clients.admin.AdminClient.create(dict(properties))
    try:
        yield kafka, admin
    finally:
        admin.close()


def _describe(admin: Any, topic: str) -> Any:
    return admin.describeTopics([topic]).allTopicNames().get().get(topic)


def _list_offsets(kafka: Any, admin: Any, topic: str, which: Any) -> dict[str, int]:
    places = [
        kafka.common.TopicPartition(topic, number)
        for number in range(_describe(admin, topic).partitions().size())
    ]
    found = admin.listOffsets(dict.fromkeys(places, which)).all().get()
    return {place.toString(): found.get(place).offset() for place in places}


def _find_setting(kafka: Any, admin: Any, topic: str, name: str) -> str:
    resource = kafka.common.config.ConfigResource
    place = resource(resource.Type.TOPIC, topic)
    return str(admin.describeConfigs([place]).all().get().get(place).get(name).value())
