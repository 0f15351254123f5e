"""Records of a topic whose time Spark cannot read: its source computes in microseconds.

A record of a later time than `LAST_MS` ends each query with ``long overflow``, whichever columns it
selects. Kafka refuses such a time since 4.0 (KIP-1030), and before by the topic's setting
``message.timestamp.difference.max.ms`` or ``message.timestamp.after.max.ms`` alone.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LAST_MS = ((1 << 63) - 1) // 1000
"""The year 294,247."""
OVERFLOW = "long overflow"
"""Java's text of the error."""


def find_unreadable(
    spark: "SparkSession", topic: str, properties: Mapping[str, str]
) -> dict[str, int]:
    """Return the first such record's offset by topic-partition; empty, if no broker tells.

    ``properties`` are those of Kafka's client, with the brokers' addresses.
    """
    jvm: Any = spark._jvm  # noqa: SLF001 - PySpark's only way to a class of the JVM
    kafka = jvm.org.apache.kafka
    try:
        admin = kafka.clients.admin.AdminClient.create(dict(properties))
        try:
            described = admin.describeTopics([topic]).allTopicNames().get().get(topic)
            places = [
                kafka.common.TopicPartition(topic, number)
                for number in range(described.partitions().size())
            ]
            since = kafka.clients.admin.OffsetSpec.forTimestamp(LAST_MS + 1)
            found = admin.listOffsets(dict.fromkeys(places, since)).all().get()
            offsets = {place.toString(): found.get(place).offset() for place in places}
        finally:
            admin.close()
    except Py4JJavaError:
        return {}
    return {place: offset for place, offset in offsets.items() if offset >= 0}
