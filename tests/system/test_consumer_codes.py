"""Codes 0-10: real Java consumers rebalance for each reason, and the agent shows its code."""

from collections.abc import Mapping

import pytest

from agent.lab.proxy import JOIN_GROUP
from agent.processes.driver import Driver
from tests.system.stage import Stage

pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.timeout(900)]

_COOPERATIVE = {
    "partition.assignment.strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
}
_LOADING = 14  # COORDINATOR_LOAD_IN_PROGRESS


def _start(
    stage: Stage, version: str, client_id: str, properties: Mapping[str, str] | None = None
) -> Driver:
    return stage.clients.consumer(version, client_id, stage.group, [stage.topic], properties)


def _join(
    stage: Stage, version: str, client_id: str, properties: Mapping[str, str] | None = None
) -> Driver:
    client = _start(stage, version, client_id, properties)
    client.wait_for("assigned")
    return client


def _assert_seen(stage: Stage, client_id: str, codes: list[int], label: str) -> None:
    """The metrics count the last episode, and the spool holds exactly these codes."""
    agent = stage.agent
    assert agent.codes(client_id, codes) == codes
    labels = {"group": stage.group, "client_id": client_id}
    entries = agent.counter("kafka_consumer_rebalance_transitions_total", **labels, status=label)
    episodes = agent.counter("kafka_consumer_rebalances_total", **labels, status=label)
    assert (entries, episodes) == (1.0, 1.0)
    peak = float(max(codes))
    assert agent.gauge("kafka_consumer_rebalance_status_peak", peak, **labels) == peak
    agent.stop()
    assert agent.codes(client_id, codes) == codes


def test_0_a_settled_group_shows_zero_everywhere(stage: Stage) -> None:
    _join(stage, "4.3.0", "m1")

    assert stage.agent.codes("m1", [2, 0]) == [2, 0]
    for name in ("consumer", "group"):
        gauge = f"kafka_{name}_rebalance_status"
        assert stage.agent.gauge(gauge, 0.0, group=stage.group) == 0.0
    assert stage.agent.gauge("kafka_app_rebalance_status", 0.0, app=stage.group) == 0.0


def test_0_a_static_member_joins_without_a_code(stage: Stage) -> None:
    _join(stage, "3.9.1", "m1", {"group.instance.id": "i1"})

    assert stage.agent.gauge("kafka_consumer_rebalance_status", 0.0, client_id="m1") == 0.0
    stage.agent.stop()
    assert stage.agent.codes("m1", []) == []


@pytest.mark.parametrize("version", ["2.8.2", "4.3.0"])
def test_1_coordinator_requested_when_another_member_joins(stage: Stage, version: str) -> None:
    first = _join(stage, version, "m1")

    _join(stage, version, "m2")

    first.wait_for("assigned")
    joined = [] if version == "2.8.2" else [2, 0]  # 2.8 logs nothing of a new member id
    _assert_seen(stage, "m1", [*joined, 1, 0], "CoordinatorRequested")


def test_2_new_member(stage: Stage) -> None:
    _join(stage, "3.4.1", "m1")

    _assert_seen(stage, "m1", [2, 0], "NewMember")


def test_3_unknown_member_after_a_freeze_longer_than_the_session(stage: Stage) -> None:
    frozen = _join(stage, "3.9.1", "m1")
    other = _join(stage, "3.9.1", "m2")
    frozen.wait_for("assigned")

    frozen.pause()

    other.wait_for("assigned")
    frozen.resume()
    frozen.wait_for("assigned")
    _assert_seen(stage, "m1", [2, 0, 1, 0, 3, 0], "UnknownMember")


def test_4_stale_member_when_the_group_went_on_without_it(stage: Stage) -> None:
    """A static member that the network holds up keeps its place, but not its generation."""
    hurried = {"session.timeout.ms": "30000", "max.poll.interval.ms": "3000"}
    through_proxy = {"bootstrap.servers": stage.lab.proxy.address, "group.instance.id": "i1"}
    held = _join(stage, "4.3.0", "m1", hurried | through_proxy)
    other = _join(stage, "4.3.0", "m2", hurried)
    held.wait_for("assigned")
    stage.lab.proxy.hold()
    other.do("enforce the held member misses this one")

    other.wait_for("assigned")

    stage.lab.proxy.release()
    held.wait_for("assigned")
    _assert_seen(stage, "m1", [1, 0, 4, 0], "StaleMember")


def test_5_dropped_group_when_the_poll_interval_expires(stage: Stage) -> None:
    slow = _join(stage, "2.8.2", "m1", {"max.poll.interval.ms": "2000"})

    slow.do("stall 4000")

    slow.wait_for("assigned")
    _assert_seen(stage, "m1", [5, 0], "DroppedGroup")


def test_6_user_requested_by_enforce_rebalance(stage: Stage) -> None:
    client = _join(stage, "4.3.0", "m1")

    client.do("enforce new configuration")

    client.wait_for("assigned")
    _assert_seen(stage, "m1", [2, 0, 6, 0], "UserRequested")
    assert stage.agent.reasons("m1", 6) == ["new configuration"]


@pytest.mark.parametrize(("version", "command"), [("2.8.2", "unsubscribe"), ("3.9.1", "close")])
def test_6_user_requested_by_leaving_lingers_in_the_gauge(
    stage: Stage, version: str, command: str
) -> None:
    client = _join(stage, version, "m1")

    client.do(command)

    assert stage.agent.gauge("kafka_consumer_rebalance_status", 6.0, client_id="m1") == 6.0
    assert stage.agent.gauge("kafka_group_rebalance_status", 6.0, group=stage.group) == 6.0
    joined = [] if version == "2.8.2" else [2, 0]
    _assert_seen(stage, "m1", [*joined, 6, 0], "UserRequested")


def test_7_metadata_changed_when_partitions_are_added(stage: Stage) -> None:
    client = _join(stage, "3.4.1", "m1")

    stage.lab.admin.do(f"set-partitions {stage.topic} 8")

    client.wait_for("assigned")
    _assert_seen(stage, "m1", [2, 0, 7, 0], "MetadataChanged")


def test_8_subscription_changed(stage: Stage) -> None:
    more = f"{stage.topic}-more"
    stage.lab.admin.do(f"create-topic {more} 4")
    client = _join(stage, "2.8.2", "m1")

    client.do(f"subscribe {stage.topic} {more}")

    client.wait_for("assigned")
    _assert_seen(stage, "m1", [8, 0], "SubscriptionChanged")


def test_9_retry_on_error_while_the_coordinator_loads(stage: Stage) -> None:
    stage.lab.proxy.fail_next(JOIN_GROUP, _LOADING)

    _join(stage, "3.9.1", "m1", {"bootstrap.servers": stage.lab.proxy.address})

    _assert_seen(stage, "m1", [9, 0], "RetryOnError")


@pytest.mark.parametrize("version", ["3.4.1", "4.3.0"])
def test_10_revocation_needed_holds_the_zero_between_its_two_rounds(
    stage: Stage, version: str
) -> None:
    _join(stage, version, "m1", _COOPERATIVE)

    _start(stage, version, "m2", _COOPERATIVE).wait_for("assigned topic")

    _assert_seen(stage, "m1", [2, 0, 1, 10, 0], "RevocationNeeded")
