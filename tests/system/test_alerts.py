"""A real Prometheus, an agent, a broker and clients: a storm is told, a rolling restart is not.

Prometheus scrapes over TLS, as a user.
"""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
from confluent_kafka import Consumer

from agent.lab.clients import Clients
from agent.lab.lab import Lab
from agent.processes.ports import HOST, free_port
from tests.agent.wiring.test_restart import until
from tests.dashboards.scenario import Prometheus, scraped
from tests.dashboards.test_rules import FOLDER, tool

pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.timeout(600)]

ROLLED = 12
"""Members that are restarted one by one: more rebalances than a storm needs."""
_WITHIN_S = 120.0
_STALE_AFTER_S = 25
"""Longer than a hurried alert waits."""
_TOPIC = "alerts"
_QUICK = {
    "session.timeout.ms": 6000,
    "heartbeat.interval.ms": 500,
    "auto.offset.reset": "earliest",
}


@pytest.fixture(scope="module", autouse=True)
def _topic(lab: Lab) -> None:
    lab.admin.do(f"create-topic {_TOPIC} {ROLLED}")


class Members:
    """Consumers by client id, all of them polled in turn."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._consumers: dict[str, Consumer] = {}

    def start(self, group: str, client_id: str, **settings: str) -> None:
        named = {"bootstrap.servers": self._bootstrap, "group.id": group, "client.id": client_id}
        own = {key.replace("_", "."): value for key, value in settings.items()}
        consumer = self._consumers[client_id] = Consumer(_QUICK | named | own)
        consumer.subscribe([_TOPIC])

    def restart(self, group: str, client_id: str) -> None:
        """Close one and start it again; returns when it has its partitions."""
        self._consumers[client_id].close()
        self.start(group, client_id)
        self.until(self._consumers[client_id].assignment)

    def until(self, fact: Callable[[], object]) -> None:
        """Poll everybody until a fact holds."""
        deadline = time.monotonic() + _WITHIN_S
        while not fact():
            assert time.monotonic() < deadline
            for consumer in self._consumers.values():
                consumer.poll(0.02)

    def close(self) -> None:
        for consumer in self._consumers.values():
            consumer.close()


@contextmanager
def played(lab: Lab, folder: Path) -> Iterator[tuple[Members, Prometheus]]:
    """Give members behind the agent's proxy, and the Prometheus that scrapes the agent."""
    listen = f"{HOST}:{free_port()}"
    upstream = lab.cluster.bootstrap
    proxy = f'{{type: proxy, listen: "{listen}", upstream: ["{upstream}"]}}'
    with watched(folder, proxy) as prometheus:
        members = Members(listen)
        try:
            yield members, prometheus
        finally:
            members.close()


@contextmanager
def watched(folder: Path, source: str, more: str = "") -> Iterator[Prometheus]:
    """Give the Prometheus that scrapes an agent with this source, with hurried alerts."""
    rules = folder / "rules.yaml"
    rules.write_text(hurried((FOLDER / "rules.yaml").read_text()))
    config = f"role: standalone\nsources: [{source}]\n{more}"
    with scraped(folder, config, rules) as (_, prometheus):
        yield prometheus


def hurried(rules: str) -> str:
    """Make alerts wait for a tenth of the time only: sooner told, and the harder to keep quiet."""
    wait = r"(?m)^( +(?:keep_firing_)?for: )(\d+)m$"
    return re.sub(wait, lambda match: f"{match[1]}{int(match[2]) * 6}s", rules)


def test_a_storm_is_told_and_a_rolling_restart_is_not(lab: Lab, tmp_path: Path) -> None:
    tool("prometheus")
    storm, rollout = 'group="storm"', 'group="rollout"'
    with played(lab, tmp_path) as (members, prometheus):
        (target,) = prometheus.get("targets")["activeTargets"]
        assert target["scrapeUrl"].startswith("https://")
        for client_id in ("calm", "crashing"):
            members.start("storm", client_id)
        rolled = [f"rolled-{n}" for n in range(ROLLED)]
        for client_id in rolled:
            members.start("rollout", client_id)
        # any status: while a coordinator loads, the first join is a 9 and masks its 2
        joined = "count(count by (client_id) (kafka_consumer_rebalance_transitions_total))"
        members.until(lambda: prometheus.has(f"{joined} == {ROLLED + 2}"))
        members.until(lambda: prometheus.has(f"kafka_group_rebalance_status{{{rollout}}} == 0"))

        for number in count():
            members.restart("storm", "crashing")
            if number < ROLLED:
                members.restart("rollout", rolled[number])
            elif prometheus.has(f'ALERTS{{alertname="KafkaGroupRebalanceStorm",{storm}}} == 1'):
                break
        got = f'ALERTS{{alertname="KafkaGroupRebalanceStorm",alertstate="firing",{storm}}}'
        members.until(lambda: prometheus.has(got))

        many = f"(group:kafka_rebalances:increase10m{{{rollout}}} > 6)"
        members.until(lambda: prometheus.has(f"count_over_time({many}[30s:1s]) > 15"))

        assert prometheus.has(
            f'ALERTS{{alertname="KafkaMemberFlapping",client_id="crashing",{storm}}}'
        )
        assert not prometheus.has(f'max_over_time(ALERTS{{alertstate="firing",{rollout}}}[10m])')


@pytest.mark.field
def test_a_member_that_cannot_join_is_reported_with_its_incident(lab: Lab, tmp_path: Path) -> None:
    """Its assignor is another one than the group's."""
    tool("prometheus")
    with played(lab, tmp_path) as (members, prometheus):
        members.start("refused", "m1", partition_assignment_strategy="range")
        members.until(lambda: prometheus.has('kafka_group_rebalance_status{group="refused"} == 0'))
        members.start("refused", "m2", partition_assignment_strategy="roundrobin")
        fires = 'ALERTS{alertname="KafkaGroupIncident",alertstate="firing",kind="join_failed"}'
        members.until(lambda: prometheus.has(fires))

        alerts = prometheus.get("alerts")["alerts"]

        (alert,) = [each for each in alerts if each["labels"]["group"] == "refused"]
        got = alert["annotations"]
        assert got["summary"] == "Group refused has an incident: join_failed"
        assert "1 join_failed" in got["incidents"]
        url = "https://rebalances.example.org"
        linked = urlsplit(got["incident_url"])
        assert f"{linked.scheme}://{linked.netloc}{linked.path}" == f"{url}/incident"
        query = dict(parse_qsl(linked.query))
        assert query.pop("cluster")
        assert query == {"group": "refused", "kind": "join_failed"}
        assert got["explain"] == f"rebalance-agent explain 'refused' --from {url}"
        failed = 'kafka_group_join_failures_total{group="refused"} > 0'
        members.until(lambda: prometheus.has(failed))


@pytest.mark.field
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_drop_of_a_muted_client_is_shown_counted_and_over(
    lab: Lab, cache: Path, tmp_path: Path, protocol: str
) -> None:
    """Its loggers are at WARN, so no line shows that it joined, returned or left."""
    tool("prometheus")
    group, topic, logs = f"muted-{protocol}", f"muted-{protocol}", tmp_path / "clients"
    lab.admin.do(f"create-topic {topic} 2")
    source = f'{{type: logs, paths: ["{logs}/*.log"]}}'
    stale = f"status: {{stale_after: {_STALE_AFTER_S}s}}\n"
    settings = {"group.protocol": protocol, "max.poll.interval.ms": "4000"}
    member = f'group="{group}",client_id="muted-1"'
    status = f"kafka_consumer_rebalance_status{{{member}}}"
    fires = _firing("KafkaGroupIncident", f'group="{group}",kind="poll_timeout"')
    dropped = f'kafka_consumer_rebalance_transitions_total{{status="DroppedGroup",{member}}}'
    with (
        watched(tmp_path, source, stale) as prometheus,
        Clients(lab.cluster.bootstrap, logs, cache, "WARN") as clients,
    ):
        client = clients.consumer("4.3.0", "muted-1", group, [topic], settings)
        client.wait_for("assigned")
        for drops in (1, 2):
            client.do("stall 6000")
            client.wait_for("assigned")

            until(lambda: prometheus.has(f"{status} == 5"))
            until(partial(prometheus.has, f"{dropped} == {drops}"))
            until(lambda: prometheus.has(fires))

            until(lambda: not prometheus.has(status))
            until(lambda: not prometheus.has(fires))
        # increase() sees the second one of a target that is new
        assert prometheus.has(_firing("KafkaMemberDroppedByPollInterval", member))
        client.close()
    text = (logs / "muted-1.log").read_text()
    assert " INFO " not in text


def _firing(alert: str, labels: str) -> str:
    return f'ALERTS{{alertname="{alert}",alertstate="firing",{labels}}}'
