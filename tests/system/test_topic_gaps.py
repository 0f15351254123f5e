"""Offsets without a record: removed records count as gone, markers of transactions do not."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from agent.lab.broker import Cluster
from metrics.model.sample import Sample, SampleKind, encode
from tests.aggregation.spark.histories import fleet
from tests.aggregation.spark.test_commands import ids, run

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.jvm,
    pytest.mark.timeout(600),
]


@pytest.fixture
def cluster(cache: Path, tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "lab", cache) as cluster:
        yield cluster


def _write(cluster: Cluster, transactions: Sequence[Sequence[Sample]]) -> None:
    """Write each in a transaction: a marker stands behind its records."""
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": "mirror", "log_level": 2}
    )
    producer.init_transactions(60)
    for samples in transactions:
        producer.begin_transaction()
        for sample in samples:
            producer.produce("samples", encode(sample))
        producer.commit_transaction(60)


def test_marker_of_a_transaction_is_no_record_that_is_gone(
    cluster: Cluster, tmp_path: Path
) -> None:
    samples = [s for s in fleet(2, days=2).samples if s.kind is SampleKind.TRANSITION][:12]
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 2})
    admin.create_topics([NewTopic("samples", 1, 1)])["samples"].result()
    source, tables = f"kafka://{cluster.bootstrap}/samples", tmp_path / "tables"
    take = "ingest", "--from", source, "--tables", tables, "--once"

    _write(cluster, [samples[:2], samples[2:4]])  # offsets 0 to 5
    first = run(*take)
    _write(cluster, [samples[4:6], samples[6:8]])  # 6 to 11
    second = run(*take)
    _write(cluster, [samples[8:10], samples[10:]])  # 12 to 17
    kept = admin.delete_records([TopicPartition("samples", 0, 13)])
    assert kept[TopicPartition("samples", 0)].result().low_watermark == 13
    third = run(*take)

    assert [done.returncode for done in (first, second, third)] == [0, 0, 0], third.stderr
    assert "gone" not in first.stderr + second.stderr
    assert "samples: 2 records were gone" in third.stderr, (
        "12, and the marker behind the last record"
    )
    left = [*samples[:8], *samples[9:]]
    assert sorted(ids(tables / "transitions")) == sorted(sample.id for sample in left)
