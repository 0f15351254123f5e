"""Inspection as a source, against simulated brokers."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from agent.config.security import Mechanism
from agent.errors import ConfigError
from agent.inspection import group_configs
from agent.inspection.connection.admin_requests import Api
from agent.inspection.connection.broker_pool import BrokerPool
from agent.inspection.connection.security import Login, Security
from agent.sources.inspection.config import GroupsSourceConfig
from agent.sources.inspection.source import _MAX_LAGS, GroupsSource
from metrics.model.sample import Sample
from metrics.model.snapshot import InspectedGroup, TopicLag
from tests.agent.inspection.simulated import CLUSTER_ID, HOST, KAFKA_28, Group, Simulated

DEADLINE_S = 90.0
INTERVAL_S = 0.05
TOPIC_DENIED, GROUP_DENIED = 29, 30
Rows = dict[str, InspectedGroup]


class Running:
    """A source that polls far more often than a configuration allows."""

    def __init__(
        self,
        cluster: Simulated,
        *,
        watched: Callable[[str], bool] = lambda _: True,
        security: Callable[[], Security] = Security,
        name: str = "",
        lag: bool = False,
        lag_by_partition: bool = False,
    ) -> None:
        config = GroupsSourceConfig(lag=lag, lag_by_partition=lag_by_partition)
        object.__setattr__(config, "interval_s", INTERVAL_S)
        nodes = [(HOST, port) for port in cluster.ports.values()]
        self.cluster = cluster
        self.source = GroupsSource(
            config, cluster=name, brokers=lambda: BrokerPool(nodes, security), is_watched=watched
        )

    @property
    def rows(self) -> Rows:
        return {row.group: row for row in self.source.group_states()}

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not holds():  # noqa: ASYNC110 - what is waited for has no event
                await asyncio.sleep(0.01)

    async def polled(self, times: int = 1) -> None:
        """Wait for polls that begin after now."""
        before = self.cluster.asked[1, Api.DESCRIBE_CLUSTER]
        await self.until(lambda: self.cluster.asked[1, Api.DESCRIBE_CLUSTER] > before + times)


def play(running: Running, scene: Callable[[], Any]) -> None:
    """Run the scene beside the source."""

    async def run() -> None:
        task = asyncio.create_task(
            running.source.run(lambda _: None, lambda _, __: None), name="source"
        )
        try:
            await scene()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())


def members(count: int) -> dict[str, dict[str, list[int]]]:
    return {f"m-{n}": {"t": [n]} for n in range(count)}


def test_every_group_is_shown_with_state_members_and_epoch() -> None:
    groups = {
        "classic": Group(members=members(2)),
        "consumer": Group(type="consumer", epoch=7, state="Reconciling", members=members(3)),
        "share": Group(type="share", protocol="share", epoch=2, members=members(1)),
        "streams": Group(type="streams", protocol="streams", state="NotReady", node_id=2),
    }
    with Simulated(groups, nodes=2) as cluster:
        running = Running(cluster)

        async def scene() -> None:
            await running.until(lambda: len(running.rows) == 4)
            assert running.source.health.up

        play(running, scene)
        assert cluster.most_at_once == 1

    assert [
        (row.group, row.group_type, row.state, row.members, row.generation)
        for row in sorted(running.rows.values(), key=lambda row: row.group)
    ] == [
        ("classic", "classic", "Stable", 2, None),
        ("consumer", "consumer", "Reconciling", 3, 7),
        ("share", "share", "Stable", 1, 2),
        ("streams", "streams", "NotReady", 0, 1),
    ]
    assert {row.cluster for row in running.rows.values()} == {CLUSTER_ID}


def test_session_timeout_at_the_broker_is_recorded_once_and_again_when_it_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_configs, "POLLS_BETWEEN", 2)
    groups = {
        "classic": Group(members=members(1)),
        "c": Group(type="consumer", members=members(1)),
        "s": Group(type="share", protocol="share", session_ms="50000", members=members(1)),
        "denied": Group(type="streams", protocol="streams"),
    }
    found: list[Sample] = []
    with Simulated(groups) as cluster:
        cluster.errors[Api.DESCRIBE_CONFIGS, "denied"] = [GROUP_DENIED] * 99
        running = Running(cluster)

        def look() -> list[Sample]:
            found.extend(each for each in running.source.findings() if each.kind == "change")
            return found

        async def scene() -> None:
            await running.until(lambda: len(look()) == 2)
            await running.polled(4)
            cluster.groups["c"].session_ms = "60000"
            await running.until(lambda: len(look()) == 3)
            await running.polled(4)

        play(running, scene)

    assert {
        (each.group, each.group_type, each.field, each.before, each.after) for each in found
    } == {
        ("c", "consumer", "consumer.session.timeout.ms", None, "45000"),
        ("s", "share", "share.session.timeout.ms", None, "50000"),
        ("c", "consumer", "consumer.session.timeout.ms", "45000", "60000"),
    }
    assert len(look()) == 3


def test_a_group_that_empties_stays_at_0_and_a_deleted_one_goes() -> None:
    with Simulated({"a": Group(members=members(2)), "b": Group()}) as cluster:
        running = Running(cluster, name="prod")

        async def scene() -> None:
            await running.until(lambda: len(running.rows) == 2)
            cluster.groups["a"] = Group(state="Empty")
            del cluster.groups["b"]
            await running.until(lambda: "b" not in running.rows)
            await running.polled()

        play(running, scene)

    row = running.rows["a"]
    assert (row.cluster, row.state, row.members, row.changes) == ("prod", "Empty", 0, 1)


def test_a_rebalance_between_two_polls_is_counted() -> None:
    with Simulated({"g": Group(type="consumer", members=members(2))}) as cluster:
        running = Running(cluster)

        async def scene() -> None:
            await running.until(lambda: "g" in running.rows)
            cluster.groups["g"].epoch += 4
            await running.until(lambda: running.rows["g"].changes > 0)
            await running.polled()

        play(running, scene)

    assert (running.rows["g"].changes, running.rows["g"].generation) == (1, 5)


def test_groups_that_are_not_watched_are_not_described() -> None:
    with Simulated({"payments": Group(), "_internal": Group()}) as cluster:
        running = Running(cluster, watched=lambda name: not name.startswith("_"))

        play(running, running.polled)

    assert list(running.rows) == ["payments"]


@pytest.mark.slow
def test_groups_of_a_broker_that_is_down_stay_as_they_were_and_it_is_counted() -> None:
    groups = {"here": Group(members=members(1)), "there": Group(node_id=2, members=members(2))}
    with Simulated(groups, nodes=2) as cluster:
        running = Running(cluster)

        async def scene() -> None:
            await running.until(lambda: len(running.rows) == 2)
            cluster.kill(2)
            errors = running.source.health.errors
            await running.until(lambda: errors.get("unreachable", 0) > 0)

        play(running, scene)

    assert running.rows["there"].members == 2
    assert running.source.health.up


def test_an_older_brokers_groups_are_described_without_a_listed_type() -> None:
    with Simulated({"g": Group(members=members(2))}, versions=KAFKA_28) as cluster:
        running = Running(cluster)

        async def scene() -> None:
            await running.until(lambda: "g" in running.rows)
            del cluster.groups["g"]
            await running.until(lambda: not running.rows)

        play(running, scene)


def test_a_wrong_password_is_shown_ever_more_rarely(caplog: pytest.LogCaptureFixture) -> None:
    wrong = Login(mechanism=Mechanism.PLAIN, username="agent", secret=lambda: "wrong")
    with Simulated(passwords={"agent": "right"}) as cluster:
        running = Running(cluster, security=lambda: Security(login=wrong))

        async def scene() -> None:
            health = running.source.health
            await running.until(lambda: health.errors.get("password", 0) == 3)
            assert not health.up

        play(running, scene)

    got = [record for record in caplog.records if record.message == "groups_not_inspected"]
    assert len(got) == 1
    assert running.source._pause_s(3) > 4 * INTERVAL_S
    assert running.source._pause_s(99) <= 330.0


def test_a_cluster_that_comes_back_is_inspected_again() -> None:
    known = {"agent": "right"}
    passwords = {"agent": "not yet"}
    secret = Login(mechanism=Mechanism.PLAIN, username="agent", secret=lambda: "right")
    with Simulated({"g": Group()}, passwords=passwords) as cluster:
        running = Running(cluster, security=lambda: Security(login=secret))

        async def scene() -> None:
            await running.until(lambda: bool(running.source.health.errors))
            passwords.update(known)
            await running.until(lambda: running.source.health.up)

        play(running, scene)

    assert list(running.rows) == ["g"]


def test_the_pause_between_polls_jitters() -> None:
    with Simulated() as cluster:
        pauses = {Running(cluster).source._pause_s(0) for _ in range(20)}

    assert len(pauses) > 1
    assert all(0.9 * INTERVAL_S <= pause <= 1.1 * INTERVAL_S for pause in pauses)


def test_a_change_is_recorded_with_what_moved_and_the_lag() -> None:
    group = Group(type="consumer", members=members(2), committed={("t", 0): 5, ("t", 1): 7})
    with Simulated({"g": group}, ends={("t", 0): 10, ("t", 1): 10}) as cluster:
        running = Running(cluster, name="prod")

        async def scene() -> None:
            await running.until(lambda: "g" in running.rows)
            group.members = {"m-0": {"t": [0, 1]}}
            group.epoch = 9
            await running.until(lambda: running.rows["g"].changes == 1)
            await running.polled()

        play(running, scene)

    _, found = running.source.findings()  # the first is of its session timeout
    assert (found.kind, found.scope, found.source) == ("signal", "group", "admin")
    assert (found.cluster, found.group, found.app, found.generation) == ("prod", "g", "g", 9)
    assert (found.reason, found.gained, found.lag) == ("0 joined, 1 left", 1, 8)
    assert (found.client_id, found.host, found.to) == ("m", "10.0.0.1", None)
    assert running.source.findings() == []


def test_lag_is_looked_at_for_some_groups_of_a_poll_alone() -> None:
    groups = {
        f"g-{n:02}": Group(members=members(1), committed={("t", 0): 1})
        for n in range(_MAX_LAGS + 5)
    }
    with Simulated(groups, ends={("t", 0): 4}) as cluster:
        running = Running(cluster)

        async def scene() -> None:
            await running.until(lambda: len(running.rows) == len(groups))
            for group in groups.values():
                group.members = members(2)
            await running.until(lambda: all(row.changes for row in running.rows.values()))
            await running.polled(2)

        play(running, scene)

    got = [each.lag for each in running.source.findings()]
    assert len(got) == len(groups)
    assert None in got
    assert 3 in got


def test_a_group_that_is_listed_and_not_described_keeps_its_type_and_state() -> None:
    groups = {
        "a": Group(type="consumer", state="Reconciling", members=members(2)),
        "b": Group(type="consumer", members=members(1)),
    }
    with Simulated(groups) as cluster:
        cluster.errors[Api.CONSUMER_GROUP_DESCRIBE, "a"] = [TOPIC_DENIED] * 99
        running = Running(cluster)

        async def scene() -> None:
            await running.until(lambda: len(running.rows) == 2)
            cluster.errors[Api.CONSUMER_GROUP_DESCRIBE, "b"] = [TOPIC_DENIED] * 99
            cluster.groups["b"].state = "Assigning"
            await running.until(lambda: running.rows["b"].state == "Assigning")
            await running.polled()

        play(running, scene)

    rows = [(row.group_type, row.state, row.members) for row in running.rows.values()]
    assert sorted(rows, key=str) == [
        ("consumer", "Assigning", 1),
        ("consumer", "Reconciling", None),
    ]
    assert running.source.health.errors["topic_authorization_failed"] >= 2


@pytest.mark.parametrize("by_partition", [False, True])
def test_lag_is_exported_by_topic_and_on_request_by_partition(by_partition: bool) -> None:
    group = Group(members=members(1), committed={("t", 0): 90, ("t", 1): 200})
    share = Group(type="share", committed={("t", 0): 1}, lags={("t", 0): 4})
    ends = {("t", 0): 100, ("t", 1): 250}
    with Simulated({"g": group, "share": share}, ends=ends) as cluster:
        running = Running(cluster, lag=True, lag_by_partition=by_partition)

        async def scene() -> None:
            await running.until(lambda: len(running.rows) == 2 and bool(running.rows["g"].lags))
            cluster.ends["t", 1] = 260
            await running.until(lambda: running.rows["g"].lags[0].total == 70)

        play(running, scene)

    partitions = ((0, 10), (1, 60)) if by_partition else ()
    assert running.rows["g"].lags == (TopicLag("t", 70, partitions),)
    assert running.rows["share"].lags == (TopicLag("t", 4, partitions and ((0, 4),)),)


def test_lag_that_grows_with_a_rebalance_is_recorded_until_it_is_as_before() -> None:
    group = Group(members=members(2), committed={("t", 0): 90})
    found: list[tuple[str | None, str | None]] = []
    with Simulated({"g": group}, ends={("t", 0): 100}) as cluster:
        running = Running(cluster, lag=True)

        def lags() -> list[tuple[str | None, str | None]]:
            news = running.source.findings()
            found.extend((each.before, each.after) for each in news if each.field == "lag")
            return found

        async def scene() -> None:
            await running.until(lambda: bool(running.rows and running.rows["g"].lags))
            cluster.ends["t", 0] = 900
            group.members.pop("m-1")
            await running.until(lambda: len(lags()) == 1)
            group.committed["t", 0] = 895
            await running.until(lambda: len(lags()) == 2)

        play(running, scene)

    assert found == [("10", "810"), ("810", "5")]


def test_lag_of_a_group_that_denies_its_offsets_is_no_series_and_an_error() -> None:
    groups = {"g": Group(committed={("t", 0): 1}), "denied": Group()}
    with Simulated(groups, ends={("t", 0): 5}) as cluster:
        cluster.errors[Api.OFFSET_FETCH, "denied"] = [TOPIC_DENIED] * 99
        running = Running(cluster, lag=True)

        async def scene() -> None:
            await running.until(lambda: bool(running.rows and running.rows["g"].lags))
            await running.polled()

        play(running, scene)

    assert running.rows["denied"].lags == ()
    assert running.source.health.errors["topic_authorization_failed"] >= 1
    assert running.source.health.up


def test_lag_by_partition_without_lag_is_refused() -> None:
    with pytest.raises(ConfigError, match="lag_by_partition: wanted lag: true, too"):
        GroupsSourceConfig(lag_by_partition=True)


def test_an_upgrade_of_the_assignor_is_recorded_at_its_end() -> None:
    with Simulated({"g": Group(members=members(2))}) as cluster:
        running = Running(cluster)

        async def scene() -> None:
            await running.until(lambda: len(running.rows) == 1)
            cluster.groups["g"].assignor = "cooperative-sticky"
            await running.until(lambda: running.rows["g"].changes == 1)
            await running.polled()

        play(running, scene)

    record, change = running.source.findings()
    assert record.reason == "0 joined, 0 left; assignor cooperative-sticky, before range"
    assert (change.kind, change.scope, change.subject) == ("change", "group", "group")
    assert (change.field, change.before, change.after) == (
        "assignor",
        "range",
        "cooperative-sticky",
    )
