"""A topic of small batches that are large when unpacked: hub and ingest hold a part at a time."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from agent.lab.broker import Cluster
from metrics.model.sample import Sample, SampleKind, encode
from tests.agent.hub.test_hub import Process, running
from tests.agent.wiring.test_restart import until
from tests.aggregation.spark.histories import fleet
from tests.aggregation.spark.test_commands import ids, run

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.jvm,
    pytest.mark.timeout(600),
]

_LARGE = b"x" * (1 << 20)
_HUGE = b"x" * (300 << 20)
"""Some 10 KiB in a batch; one of it fills the memory of Spark's Java."""


@pytest.fixture
def cluster(cache: Path, tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "lab", cache) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 2})
        admin.create_topics([NewTopic("samples", 1, 1)])["samples"].result()
        yield cluster


@pytest.fixture
def samples() -> Sequence[Sample]:
    return [s for s in fleet(2, days=2).samples if s.kind is SampleKind.TRANSITION][:20]


def _write(cluster: Cluster, values: Sequence[bytes], batch_records: int = 1) -> None:
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "compression.type": "zstd",
            "message.max.bytes": 1_000_000_000,
            "batch.size": 1_000_000_000,
            "batch.num.messages": batch_records,
            "linger.ms": 0 if batch_records == 1 else 500,
        }
    )
    for value in values:
        producer.produce("samples", value)
        if len(value) >= len(_LARGE):
            producer.flush(60)  # its queue holds 1 GiB
    assert producer.flush(60) == 0


def _peak_mib(hub: Process) -> int:
    status = Path(f"/proc/{hub.process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) >> 10


def test_hub_passes_batches_that_it_cannot_hold(
    cluster: Cluster, samples: Sequence[Sample], tmp_path: Path
) -> None:
    """A batch of one record, and one of 300 that are 150 MiB together."""
    good = [encode(sample) for sample in samples]
    _write(cluster, [*good[:5], _HUGE, *good[5:10]])
    _write(cluster, [b"y" * (512 << 10)] * 300, batch_records=300)
    _write(cluster, good[10:])
    _write(cluster, [_LARGE] * 400)
    address = f"cluster: {{bootstrap_servers: [{cluster.bootstrap}]}}\n"
    hub = Process(tmp_path / "hub", f"{address}role: hub\nhub: {{topic: samples}}\n")

    with running(hub):
        until(lambda: 'signals_unparsed_total{source="topic"} 400.0' in hub.get("metrics"))
        until(lambda: len(hub.ids()) >= len(samples))  # a file of the spool takes a second
        page, peak = hub.get("metrics"), _peak_mib(hub)

    assert sorted(hub.ids()) == sorted(sample.id for sample in samples)
    assert 'source_errors_total{reason="unreadable",source="topic"} 301.0' in page
    assert peak < 400


def test_ingest_holds_a_part_of_large_messages(
    cluster: Cluster, samples: Sequence[Sample], tmp_path: Path
) -> None:
    good = [encode(sample) for sample in samples]
    _write(cluster, [*good[:10], *[_LARGE + b"x"] * 1_500, *good[10:]])

    taken = run(
        *("ingest", "--from", f"kafka://{cluster.bootstrap}/samples"),
        *("--tables", tmp_path / "tables", "--once"),
    )

    assert taken.returncode == 0, taken.stderr
    assert "1500 malformed" in taken.stderr
    assert sorted(ids(tmp_path / "tables" / "transitions")) == sorted(s.id for s in samples)


def test_message_that_fills_javas_memory_is_one_sentence(
    cluster: Cluster, samples: Sequence[Sample], tmp_path: Path
) -> None:
    good = [encode(sample) for sample in samples]
    take = (
        *("ingest", "--from", f"kafka://{cluster.bootstrap}/samples"),
        *("--tables", tmp_path / "tables", "--once"),
    )
    _write(cluster, good[:10])
    first = run(*take)
    _write(cluster, [_HUGE, *good[10:]])

    refused = run(*take)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 2})
    place = TopicPartition("samples", 0, 11)
    assert admin.delete_records([place])[place].result().low_watermark == 11
    again = run(*take)

    assert (first.returncode, again.returncode) == (0, 0), again.stderr
    assert refused.returncode == 1
    assert "Traceback" not in refused.stderr
    assert "samples is in the tables up to offset 10 of samples-0" in refused.stderr
    assert "Java ran out of memory" in refused.stderr
    assert sorted(ids(tmp_path / "tables" / "transitions")) == sorted(s.id for s in samples)
