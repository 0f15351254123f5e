"""Agents, a topic and two hubs that read it: both hubs show the same."""

import json
import shutil
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from agent.lab.broker import Cluster
from tests.agent.hub.test_hub import NEW, TOLD, Process, lines, running
from tests.agent.wiring.test_restart import until

pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.timeout(600)]

GROUPS = ("g", "h", "i")
"""They lie in different partitions of four."""


@pytest.fixture
def cluster(cache: Path, tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "lab", cache) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 2})
        admin.create_topics([NewTopic("samples", 4, 1)])["samples"].result()
        yield cluster


def hub(folder: Path, cluster: Cluster) -> Process:
    address = f"cluster: {{bootstrap_servers: [{cluster.bootstrap}]}}\n"
    return Process(folder, f"{address}role: hub\nhub: {{topic: samples}}\n")


def agent(folder: Path, cluster: Cluster) -> Process:
    address = f"cluster: {{bootstrap_servers: [{cluster.bootstrap}]}}\n"
    source = f"sources: [{{type: logs, paths: [{folder}/app.log]}}]\n"
    return Process(folder, address + source, ", kafka: {topic: samples}")


def say(agent: Process, client: str, generation: int, at: datetime, cause: str) -> None:
    for group in GROUPS:
        agent.say(lines(client, generation, at, cause).replace("groupId=g", f"groupId={group}"))


def shown(hub: Process) -> list[str]:
    """Return a hub's explanations and gauges of the groups."""
    got = [hub.get(f"api/v1/explain?group={group}") for group in GROUPS]
    gauges = sorted(
        line
        for line in hub.get("metrics").splitlines()
        if line.startswith(("kafka_group_rebalance_status", "kafka_app_rebalance_status"))
    )
    return [*got, *gauges]


def rounds(hub: Process) -> list[int]:
    pages = [hub.get(f"api/v1/explain?group={group}&last=9") for group in GROUPS]
    return [
        len(found[0]["happened"]) if page and (found := json.loads(page)) else 0 for page in pages
    ]


def buffered(agent: Process) -> float:
    name = 'rebalance_agent_samples_buffered{sink="kafka:samples"} '
    values = [line for line in agent.get("metrics").splitlines() if line.startswith(name)]
    return float(values[0].removeprefix(name)) if values else -1.0


def test_two_hubs_show_the_same_over_kills_and_an_absence(tmp_path: Path, cluster: Cluster) -> None:
    start = datetime.now().astimezone().replace(microsecond=0) - timedelta(minutes=2)
    later = start + timedelta(minutes=1)
    hubs = [hub(tmp_path / name, cluster) for name in ("left", "right")]
    agents = [agent(tmp_path / name, cluster) for name in ("one", "two")]
    (left, right), (one, two) = hubs, agents
    with running(*hubs, *agents):
        say(one, "c1", 1, start, NEW)
        until(lambda: rounds(left) == rounds(right) == [1, 1, 1])

        left.kill()
        cluster.brokers[0].kill()
        say(two, "c2", 2, later, NEW)
        say(one, "c1", 2, later + timedelta(seconds=1), TOLD)
        until(lambda: len(one.ids()) == 12 and len(two.ids()) == 6)
        until(lambda: buffered(one) > 0 and buffered(two) > 0)
        one.kill()
        (tmp_path / "one" / "state" / "kafka-samples.json").unlink()  # it sends all of it again
        cluster.brokers[0].restart()
        left.start()
        one.start()

        until(lambda: len(left.ids()) >= 18 and len(right.ids()) >= 18)
        until(lambda: shown(left) == shown(right) and rounds(left) == [2, 2, 2])
        until(lambda: buffered(one) == buffered(two) == 0)
        late = hub(tmp_path / "late", cluster)
        with running(late):
            until(lambda: len(late.ids()) >= 18 and shown(late) == shown(right))
        explained = json.loads(left.get("api/v1/explain?group=h&last=1"))

    assert left.ids() == right.ids() == late.ids() == sorted(one.ids() + two.ids())
    assert '"client_id":"c2","host":"two"' in json.dumps(explained, separators=(",", ":"))


def test_agents_with_one_spools_id_and_one_host_lose_nothing(
    tmp_path: Path, cluster: Cluster
) -> None:
    """A volume was cloned; nobody can refuse a record on its way into a topic."""
    start = datetime.now().astimezone().replace(microsecond=0) - timedelta(minutes=4)
    reader = hub(tmp_path / "hub", cluster)
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
    one, two = (agent(tmp_path / name / "pod", cluster) for name in ("ours", "theirs"))
    with running(reader, one, two):
        say(one, "c1", 1, start, NEW)
        until(lambda: len(set(reader.ids())) == 6 and buffered(one) == 0)
        one.kill()
        two.kill()
        for name in ("state", "spool"):
            shutil.rmtree(two.folder / name)
            shutil.copytree(one.folder / name, two.folder / name)
        one.start()
        two.start()
        for number in range(2, 8):
            say(one, "c1", number, start + timedelta(seconds=20 * number), NEW)
            if number % 2:
                say(two, "c2", number, start + timedelta(seconds=20 * number + 5), NEW)
        until(lambda: len(one.ids()) == 42 and len(two.ids()) == 24)
        until(lambda: buffered(one) == buffered(two) == 0)

        until(lambda: len(reader.ids()) >= 60)
        copied = reader.get("metrics")

    assert (one.folder / "spool" / ".id").read_text() == (two.folder / "spool" / ".id").read_text()
    assert reader.ids() == sorted({*one.ids(), *two.ids()})
    assert 'rebalance_agent_source_errors_total{reason="spool_copied"' in copied
