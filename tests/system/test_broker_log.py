"""Broker's log and wire agree on the trigger of each rebalance, and the log names every group."""

import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import Consumer

from agent.lab.clients import Clients
from agent.lab.lab import Lab
from agent.lab.proxy import JOIN_GROUP
from agent.processes.driver import Driver
from aggregation.rebalances.rebalances import ExplainedRebalance, explain_rebalances
from metrics.model.sample import Sample
from tests.net_raw import needs_net_raw
from tests.system.observer import STREAMS, Observer

pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.timeout(900), needs_net_raw]

_WITHIN_S = 30.0
_LOADING = 14  # COORDINATOR_LOAD_IN_PROGRESS
_HURRIED = {"max_poll_interval_ms": "3000", "session_timeout_ms": "2500"}
_STALLING = _HURRIED | {"metadata_max_age_ms": "300000"}
"""A client whose metadata is due keeps its leave back until its next poll."""
_COOPERATIVE = {
    "partition_assignment_strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
}
Named = list[tuple[int, str | None]]
"""Each rebalance by the first generation that it made, and who began it."""


class Scene:
    """Two agents beside one broker: one captures its clients' traffic, one reads its log."""

    def __init__(self, lab: Lab, clients: Clients, wire: Observer, broker_log: Observer) -> None:
        self.lab, self.clients = lab, clients
        self.wire, self.broker_log = wire, broker_log

    def topic(self, name: str) -> str:
        self.lab.admin.do(f"create-topic {name} 4")
        return name

    def start(self, version: str, client_id: str, group: str, **properties: str) -> Driver:
        more = {key.replace("_", "."): value for key, value in properties.items()}
        return self.clients.consumer(version, client_id, group, [f"{group}-in"], more)

    def join(self, version: str, client_id: str, group: str, **properties: str) -> Driver:
        client = self.start(version, client_id, group, **properties)
        client.wait_for("assigned")
        return client

    def run(self, version: str, client_id: str, group: str, **properties: str) -> Driver:
        """Start an instance of a Streams application, and wait until it runs."""
        more = {key.replace("_", "."): value for key, value in properties.items()}
        instance = self.clients.streams(version, client_id, group, f"{group}-in", more)
        instance.wait_for("state RUNNING", 60.0)
        return instance

    def noted(self, group: str, wanted: tuple[str, str]) -> set[tuple[str, str]]:
        """Return pairs of member and text that the broker's log noted for a group."""
        return self.broker_log.poll(
            lambda: {
                (row["client_id"], row["reason"])
                for row in self.broker_log._rows()
                if (row["group"], row["kind"]) == (group, "signal")
            },
            lambda seen: wanted in seen,
        )


@pytest.fixture(scope="module")
def agents(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Observer]]:
    folder, broker = tmp_path_factory.mktemp("broker_log"), lab.cluster.brokers[0]
    ports = [broker.node.port, broker.node.proxied_port]
    sources = {
        "wire": f"{{type: capture, interface: any, ports: {ports}}}",
        "broker_log": f"{{type: broker_log, paths: [{str(broker.log)!r}]}}",
    }
    observers = [
        Observer(folder / "none", folder / name, source) for name, source in sources.items()
    ]
    with observers[0], observers[1]:
        for agent in observers:
            agent.wait_ready()
        yield observers


@pytest.fixture
def scene(lab: Lab, agents: list[Observer], tmp_path: Path) -> Iterator[Scene]:
    with lab.clients(tmp_path) as clients:
        yield Scene(lab, clients, *agents)


def _episodes(agent: Observer, groups: set[str]) -> list[ExplainedRebalance]:
    lines = [
        line for path in agent._spool.glob("*.jsonl") for line in path.read_text().splitlines()
    ]
    records = [msgspec.json.decode(line, type=Sample) for line in lines]
    return [e for e in explain_rebalances(records) if e.round.ref.group in groups]


def _named(episodes: list[ExplainedRebalance], follow_ups: set[int]) -> Named:
    """Leave out rebalances that follow an assignment at once: only the wire shows that relation."""
    return [
        (episode.round.generations[0], _name(episode))
        for episode in episodes
        if episode.round.generations and episode.round.generations[0] not in follow_ups
    ]


def _name(episode: ExplainedRebalance) -> str | None:
    member = episode.trigger.member
    return None if member is None else member.group_instance_id or member.client_id


def _assert_agree(scene: Scene, group: str, wanted: list[str]) -> None:
    """Both agents name the same, in every rebalance, and among them all that were made to begin."""
    seen: dict[str, Named] = {}
    end_s = time.monotonic() + _WITHIN_S
    while time.monotonic() < end_s:
        on_wire = _episodes(scene.wire, {group})
        follow_ups = {later for e in on_wire for later in e.round.generations[1:]}
        logged = _episodes(scene.broker_log, {group})
        seen = {
            "wire": _named(on_wire, follow_ups),
            "broker_log": _named(logged, follow_ups),
        }
        if seen["wire"] == seen["broker_log"] and _holds(seen["wire"], wanted):
            return
        time.sleep(0.2)
    pytest.fail(f"wanted {wanted} of both, found\n{seen['wire']}\n{seen['broker_log']}")


def _holds(named: Named, wanted: list[str]) -> bool:
    """Tell whether the wanted names stand there, in their order."""
    rest = iter(who for _, who in named)
    return all(who in rest for who in wanted)


def _wait_for_share(client: Driver, partitions: int) -> None:
    """Wait until the client's assignment has so many partitions: the rebalance is over."""
    while len(client.wait_for("assigned").split()) != 1 + partitions:
        continue


def _wait_for_shares(*clients: Driver) -> None:
    """Wait until each of two members has its half: enforcing does nothing during a rebalance."""
    for client in clients:
        _wait_for_share(client, 2)


def test_both_name_who_joined_froze_changed_stalled_and_left(scene: Scene) -> None:
    topic, more = scene.topic("pay-in"), scene.topic("pay-more")
    first = scene.join("3.9.1", "p1", "pay", **_STALLING)
    second = scene.join("4.3.0", "p2", "pay", **_HURRIED)
    _wait_for_share(first, 2)
    first.pause()
    _wait_for_share(second, 4)
    first.resume()
    _wait_for_shares(first, second)
    first.do("enforce new fraud rules")
    _wait_for_shares(first, second)
    first.do("stall 5000")
    _wait_for_shares(first, second)
    first.do("unsubscribe")
    _wait_for_share(second, 4)
    second.do(f"subscribe {topic} {more}")

    _assert_agree(scene, "pay", ["p1", "p2", "p1", "p1", "p1", "p1", "p1", "p1", "p2"])


def test_both_name_whose_topics_have_grown(scene: Scene) -> None:
    topic = scene.topic("grow-in")
    leader = scene.join("2.8.2", "g1", "grow")
    other = scene.join("3.4.1", "g2", "grow")
    leader.wait_for("assigned")
    leader.close()
    _wait_for_share(other, 4)  # else it may learn of both in one rebalance

    scene.lab.admin.do(f"set-partitions {topic} 6")

    _assert_agree(scene, "grow", ["g1", "g2", "g1", "g2"])


def test_both_name_a_member_behind_a_coordinator_that_loads(scene: Scene) -> None:
    scene.topic("load-in")
    scene.lab.proxy.fail_next(JOIN_GROUP, _LOADING)

    scene.join("3.9.1", "l1", "load", bootstrap_servers=scene.lab.proxy.address)

    _assert_agree(scene, "load", ["l1"])


def test_both_name_a_static_member_that_the_network_held_up(scene: Scene) -> None:
    scene.topic("held-in")
    patient = {"session_timeout_ms": "30000", "max_poll_interval_ms": "3000"}
    remote = {"bootstrap_servers": scene.lab.proxy.address, "group_instance_id": "i1"}
    held = scene.join("4.3.0", "h1", "held", **patient, **remote)
    other = scene.join("4.3.0", "h2", "held", **patient)
    held.wait_for("assigned")
    scene.lab.proxy.hold()
    other.do("enforce the held member misses this one")
    other.wait_for("assigned")

    scene.lab.proxy.release()

    held.wait_for("assigned")
    _assert_agree(scene, "held", ["h2", "h2", "i1"])


def test_both_name_who_moved_partitions_cooperatively(scene: Scene) -> None:
    scene.topic("move-in")
    scene.join("3.4.1", "c1", "move", **_COOPERATIVE)

    second = scene.start("3.4.1", "c2", "move", **_COOPERATIVE)

    second.wait_for("assigned move")  # at once, if its first sync crosses what the leader gives up
    _assert_agree(scene, "move", ["c1", "c2"])


def test_both_name_which_streams_threads_came_went_and_died(scene: Scene) -> None:
    scene.topic("count-in")
    scene.run("3.9.1", "s1", "count")
    second = scene.run("3.9.1", "s2", "count")
    wanted = [f"{instance}-StreamThread-1-consumer" for instance in ("s1", "s2")]
    _assert_agree(scene, "count", wanted)

    second.do("add-thread")

    wanted.append("s2-StreamThread-2-consumer")
    _assert_agree(scene, "count", wanted)
    second.do("remove-thread")
    wanted.append("s2-StreamThread-1-consumer")
    _assert_agree(scene, "count", wanted)
    second.kill()
    _assert_agree(scene, "count", [*wanted, "s2-StreamThread-2-consumer"])


def test_both_name_the_streams_instance_that_probes_versions(scene: Scene) -> None:
    scene.topic("probe-in")
    scene.run("2.8.2", "old", "probe")

    scene.run("3.9.1", "new", "probe")

    _assert_agree(scene, "probe", [f"{name}-StreamThread-1-consumer" for name in ("old", "new")])


def test_both_name_the_streams_instance_that_warms_up(scene: Scene) -> None:
    topic, catching_up = scene.topic("warming-up-in"), {"acceptable_recovery_lag": "0"}
    scene.lab.admin.do(f"produce {topic} 1000")
    scene.run("4.3.0", "w1", "warming-up", **catching_up)
    scene.lab.admin.do("await warming-up-counts-changelog 1000")

    scene.run("4.3.0", "w2", "warming-up", **catching_up)

    _assert_agree(scene, "warming-up", [f"{name}-StreamThread-1-consumer" for name in ("w1", "w2")])


def test_the_log_names_whose_endpoint_changed_by_its_words_alone(scene: Scene) -> None:
    """The wire names the cause; a broker does not know it, and so its log makes none up."""
    static = {"group_instance_id": "e1", "consumer_session_timeout_ms": "120000"}
    scene.topic("moved-in")
    scene.run("3.4.1", "e", "moved", **static, application_server="localhost:8001").close()

    scene.run("3.4.1", "e", "moved", **static, application_server="localhost:9001")

    words = ("e1-1", "triggered followup rebalance scheduled for 0")
    assert words in scene.noted("moved", words)
    assert scene.wire.codes("e", [13, 0], STREAMS) == [13, 0]
    named = scene.broker_log.poll(
        lambda: [_name(episode) for episode in _episodes(scene.broker_log, {"moved"})],
        lambda found: len(found) > 1,
    )
    assert named == ["e1-1", None]


def test_both_name_who_died(scene: Scene) -> None:
    scene.topic("dead-in")
    first = scene.join("4.3.0", "d1", "dead")  # a busy machine must not have it expire too
    second = scene.join("4.3.0", "d2", "dead", **_HURRIED)
    first.wait_for("assigned")

    second.kill()

    first.wait_for("assigned")
    _assert_agree(scene, "dead", ["d1", "d2", "d2"])


def test_the_log_names_whom_an_admin_removed_and_with_which_words(scene: Scene) -> None:
    scene.topic("ops-in")
    client = scene.join("4.3.0", "o1", "ops")

    scene.lab.admin.do("remove-members ops")

    client.wait_for("assigned")
    assert scene.broker_log.codes("o1", [2, 0, 3, 0, 2, 0]) == [2, 0, 3, 0, 2, 0]
    assert scene.broker_log.reasons("o1", 3) == ["member was removed by an admin"]
    _assert_agree(scene, "ops", ["o1", "o1"])


def test_the_log_alone_shows_a_group_of_the_new_protocol(scene: Scene) -> None:
    assigned: list[object] = []
    settings = {"group.id": "epoch", "group.protocol": "consumer", "auto.offset.reset": "earliest"}
    client = Consumer(settings | {"bootstrap.servers": scene.lab.cluster.bootstrap})
    client.subscribe([scene.topic("epoch-in")], on_assign=lambda *_: assigned.append(1))
    end_s = time.monotonic() + _WITHIN_S
    while not assigned and time.monotonic() < end_s:
        client.poll(0.1)

    client.close()

    assert scene.broker_log.gauge("kafka_group_rebalance_status", 6.0, group="epoch") == 6.0
