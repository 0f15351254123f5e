"""A topic with messages of anybody, through a real broker: ingest and hub take each good record."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
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

_MAX_BYTES = 8 << 20
_ANY_TIME = str((1 << 63) - 1)
_YEAR_10000_MS = 253_402_300_800_000


@pytest.fixture
def cluster(cache: Path, tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "lab", cache) as cluster:
        config = {
            "max.message.bytes": str(2 * _MAX_BYTES),
            "message.timestamp.after.max.ms": _ANY_TIME,  # the default before Kafka 4.0
        }
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 2})
        admin.create_topics([NewTopic("samples", 1, 1, config=config)])["samples"].result()
        yield cluster


@pytest.fixture
def samples() -> Sequence[Sample]:
    moves = [s for s in fleet(2, days=2).samples if s.kind is SampleKind.TRANSITION]
    return moves[:40]


def _hostile(good: bytes) -> list[tuple[dict[str, Any], str | None]]:
    """Return messages, each with a part of the reason in the quarantine; None: a known record."""

    def changed(**fields: object) -> dict[str, Any]:
        return {"value": json.dumps(json.loads(good) | {"id": "hostile"} | fields).encode()}

    deep = good[:-1] + b',"x":' + b"[" * 5_000 + b"]" * 5_000 + b"}"
    headers = [("spool", b"x" * 1_000_000), *(("h" * 100, b"y" * 100_000) for _ in range(30))]
    return [
        ({"value": None}, "empty"),
        ({"value": b""}, "empty"),
        ({"value": b" \n"}, "empty"),
        ({"value": b"no JSON"}, "JSON is malformed"),
        ({"value": b"null"}, "Expected `object`"),
        ({"value": b"\xff\xfe" + good}, "not UTF-8 at byte 0"),
        ({"value": b"[" * 100_000}, "Expected `object`"),
        ({"value": deep}, "nested too deeply"),
        ({"value": b"x" * _MAX_BYTES}, "longer than 2,097,152 bytes"),
        ({"value": good + b"\n" + good}, "JSON is malformed"),
        (changed(schema="1"), "Expected `int`"),
        (changed(to=99), "to 99 is no status code"),
        (changed(generation=1 << 70), "$.generation"),
        (changed(joined_ts="no"), "'no' is no time"),
        (changed(ts="0000-00-00T00:00:00Z"), "is no time"),
        (changed(ts="2038-01-19T03:14:07Z"), "future: 2038-01-19"),
        (changed(ts="9999-12-31T23:59:59Z"), "future: 9999-12-31"),
        ({"value": good, "headers": headers}, None),
        ({"value": good, "timestamp": _YEAR_10000_MS}, None),
        ({"value": b"no JSON", "timestamp": _YEAR_10000_MS}, "JSON is malformed"),
    ]


def _fill(cluster: Cluster, samples: Sequence[Sample], hostile: Sequence[dict[str, Any]]) -> None:
    """Write a hostile message after each good one; the last of all is none that has a value."""
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "message.max.bytes": 2 * _MAX_BYTES}
    )
    failures = list[str]()

    def note(error: object, _: object) -> None:
        failures.extend([] if error is None else [str(error)])

    for sample, message in zip_longest(samples, hostile):
        producer.produce("samples", encode(sample), on_delivery=note)
        if message is not None:
            producer.produce("samples", **message, on_delivery=note)
    producer.produce("samples", None, on_delivery=note)
    assert producer.flush(60) == 0
    assert failures == []


def test_ingest_takes_each_good_record_and_names_each_other(
    cluster: Cluster, samples: Sequence[Sample], tmp_path: Path
) -> None:
    hostile = _hostile(encode(samples[0]).rstrip())
    tables, metrics = tmp_path / "tables", tmp_path / "metrics"
    _fill(cluster, samples, [message for message, _ in hostile])
    source = f"kafka://{cluster.bootstrap}/samples"

    taken = run(
        *("ingest", "--from", source, "--tables", tables, "--once", "--metrics-file", metrics)
    )

    assert taken.returncode == 0, taken.stderr
    assert sorted(ids(tables / "transitions")) == sorted(s.id for s in samples)
    found = ds.dataset(tables / "quarantine", partitioning="hive").to_table().to_pylist()
    reasons = {row["offset"]: row["reason"] for row in found}
    named = {2 * n + 1: reason for n, (_, reason) in enumerate(hostile) if reason is not None}
    last = len(samples) + len(hostile)
    assert sorted(reasons) == [*named, last]
    assert [n for n, reason in named.items() if reason not in reasons[n]] == []
    assert {row["file"] for row in found} == {"samples-0"}
    assert f"{len(named) + 1} malformed" in taken.stderr
    assert "gone" not in taken.stderr
    assert "rebalance_ingest_records_gone_total 0" in metrics.read_text()


def test_hub_takes_each_good_record_and_counts_each_other(
    cluster: Cluster, samples: Sequence[Sample], tmp_path: Path
) -> None:
    hostile = _hostile(encode(samples[0]).rstrip())
    strange = ["-m", "tests.system.strange_header", cluster.bootstrap, "samples"]
    for value in ("no JSON", encode(samples[0]).decode()):
        subprocess.run([sys.executable, *strange, value], check=True, timeout=60)
    _fill(cluster, samples, [message for message, _ in hostile])
    address = f"cluster: {{bootstrap_servers: [{cluster.bootstrap}]}}\n"
    hub = Process(tmp_path / "hub", f"{address}role: hub\nhub: {{topic: samples}}\n")

    unread = [reason for _, reason in hostile if reason and not reason.startswith("future: ")]
    count = f'signals_unparsed_total{{source="topic"}} {len(unread) + 2:.1f}'

    with running(hub):
        until(lambda: {s.id for s in samples} <= {*hub.ids()} and count in hub.get("metrics"))

    assert {*hub.ids()} - {s.id for s in samples} == {"hostile"}, (
        "a hub corrects its agents' clocks"
    )


def test_time_that_spark_cannot_read_is_named_with_its_remedy(
    cluster: Cluster, samples: Sequence[Sample], tmp_path: Path
) -> None:
    """Its source ends with an overflow at such a record, whatever is read of it."""
    source = f"kafka://{cluster.bootstrap}/samples"
    take = "ingest", "--from", source, "--tables", tmp_path / "tables", "--once"
    far = {"value": encode(samples[0]), "timestamp": (1 << 63) - 1}
    _fill(cluster, samples, [far])

    refused = run(*take)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 2})
    place = TopicPartition("samples", 0, 2)
    assert admin.delete_records([place])[place].result().low_watermark == 2
    again = run(*take)

    assert refused.returncode == 1
    assert "cannot read the time of a record (samples-0 at offset 1)" in refused.stderr
    assert again.returncode == 0, again.stderr
    assert sorted(ids(tmp_path / "tables" / "transitions")) == sorted(s.id for s in samples[1:])
