"""A topic that was deleted and made again under an ingest: no record is left out in silence."""

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from agent.lab.broker import Cluster
from metrics.model.sample import Sample, encode
from tests.agent.wiring.test_restart import until
from tests.aggregation.spark.histories import fleet
from tests.aggregation.spark.test_commands import command, ids, run

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.jvm,
    pytest.mark.timeout(600),
]

OLD, NEW = 40, 60
"""The new topic has more records than were read of the old one."""


@pytest.fixture
def cluster(cache: Path, tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "lab", cache) as cluster:
        yield cluster


@pytest.fixture
def samples() -> Sequence[Sample]:
    return [s for s in fleet(2, days=2, sampled_every_s=7200).samples if s.kind != "sample"]


def fill(cluster: Cluster, samples: Sequence[Sample], *, again: bool) -> None:
    """Write records to a new topic, after the old one was deleted."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 2})
    if again:
        admin.delete_topics(["samples"])["samples"].result()
    until(lambda: _made(admin))
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for sample in samples:
        producer.produce("samples", encode(sample))
    assert producer.flush(60) == 0


def _made(admin: AdminClient) -> bool:
    try:
        admin.create_topics([NewTopic("samples", 1, 1)])["samples"].result()
    except Exception:  # noqa: BLE001 - the old one is still there
        return False
    return True


@pytest.mark.field
def test_topic_that_has_outgrown_the_old_one_is_read_from_its_start(
    cluster: Cluster, samples: Sequence[Sample], tmp_path: Path
) -> None:
    tables = tmp_path / "tables"
    take = "ingest", "--from", f"kafka://{cluster.bootstrap}/samples", "--tables", tables, "--once"
    fill(cluster, samples[:OLD], again=False)
    first = run(*take)
    assert first.returncode == 0, first.stderr

    fill(cluster, samples[OLD : OLD + NEW], again=True)
    second, third = run(*take), run(*take)

    assert second.returncode == 1
    assert "was deleted and made again" in second.stderr
    assert third.returncode == 0, third.stderr
    assert sorted(ids(tables / "transitions")) == sorted(s.id for s in samples[: OLD + NEW])


@pytest.mark.field
def test_ingest_that_runs_notices_it(
    cluster: Cluster, samples: Sequence[Sample], tmp_path: Path
) -> None:
    tables = tmp_path / "tables"
    take = "ingest", "--from", f"kafka://{cluster.bootstrap}/samples", "--tables", tables
    fill(cluster, samples[:OLD], again=False)
    with (tmp_path / "stderr").open("w") as log:
        running = subprocess.Popen(command(*take), stderr=log)
    try:
        until(lambda: f"{OLD} new transitions" in (tmp_path / "stderr").read_text())
        fill(cluster, samples[OLD : OLD + NEW], again=True)
        assert running.wait(120) == 1, (tmp_path / "stderr").read_text()
    finally:
        running.kill()
        running.wait()
    again = run(*take, "--once")

    assert "was deleted and made again" in (tmp_path / "stderr").read_text()
    assert again.returncode == 0, again.stderr
    assert sorted(ids(tables / "transitions")) == sorted(s.id for s in samples[: OLD + NEW])
