import asyncio
from contextlib import suppress

import pytest

from agent.inspection.connection.admin_requests import Api
from agent.inspection.connection.broker_pool import BrokerPool
from agent.inspection.connection.security import Security
from agent.inspection.lag import GroupLag, LagReader, total_lag
from agent.inspection.model import Failure, GroupType
from metrics.model.snapshot import TopicLag
from tests.agent.inspection.simulated import HOST, KAFKA_28, KAFKA_43, Group, Simulated
from tests.agent.inspection.simulated_messages import Versions

ENDS = {("t", 0): 100, ("t", 1): 250, ("u", 0): 7}
DENIED, MOVED = 30, 16


def read(
    cluster: Simulated, *names: str, polls: int = 1, by_partition: bool = False
) -> dict[str, GroupLag | Failure]:
    """Return the lag of the cluster's groups, as of the last of some polls."""
    groups = dict[GroupType, list[str]]()
    for name in names or cluster.groups:
        groups.setdefault(GroupType(cluster.groups[name].type.capitalize()), []).append(name)

    async def ask() -> dict[str, GroupLag | Failure]:
        nodes = [(HOST, port) for port in cluster.ports.values()]
        brokers = BrokerPool(nodes, Security)
        reader = LagReader(brokers, 5.0, by_partition=by_partition)
        try:
            await brokers.refresh()
            for _ in range(polls):
                found = await reader.read(groups, {})
            return found
        finally:
            await brokers.close()

    return asyncio.run(ask())


def lag(cluster: Simulated) -> int | None:
    return total_lag(read(cluster)["g"])


@pytest.mark.parametrize("versions", [KAFKA_28, KAFKA_43])
def test_it_is_what_is_not_committed_yet_over_all_leaders(versions: Versions) -> None:
    group = Group(committed={("t", 0): 90, ("t", 1): 200, ("u", 0): 7})
    with Simulated({"g": group}, nodes=2, versions=versions, ends=ENDS) as cluster:
        found = read(cluster)

    assert found == {"g": (TopicLag("t", 60), TopicLag("u", 0))}
    assert total_lag(found["g"]) == 60


def test_it_is_known_by_partition() -> None:
    with Simulated({"g": Group(committed={("t", 1): 200, ("t", 0): 90})}, ends=ENDS) as cluster:
        found = read(cluster, by_partition=True)

    assert found == {"g": (TopicLag("t", 60, ((0, 10), (1, 50))),)}


def test_partitions_without_a_commit_are_not_counted() -> None:
    group = Group(committed={("t", 0): 99, ("t", 1): -1})
    with Simulated({"g": group}, ends=ENDS) as cluster:
        assert lag(cluster) == 1


def test_it_is_not_known_of_a_group_that_has_committed_nothing() -> None:
    with Simulated({"g": Group()}, ends=ENDS) as cluster:
        assert read(cluster) == {"g": ()}
        assert lag(cluster) is None
        assert cluster.asked[1, Api.METADATA] == 0


def test_it_is_not_known_where_one_partitions_end_is_not() -> None:
    group = Group(committed={("t", 0): 99, ("gone", 0): 5})
    with Simulated({"g": group}, ends=ENDS) as cluster:
        assert lag(cluster) is None
        assert read(cluster)["g"] == (TopicLag("t", 1), TopicLag("gone", None))


def test_it_is_not_known_while_a_leader_is_down() -> None:
    group = Group(committed={("t", 0): 99, ("t", 1): 200})
    with Simulated({"g": group}, nodes=2, ends=ENDS) as cluster, suppress(OSError):
        cluster.kill(2)

        assert lag(cluster) is None


def test_a_share_groups_lag_is_its_coordinators() -> None:
    group = Group(type="share", committed={("t", 0): 90, ("t", 1): 200})
    group.lags = {("t", 0): 3, ("t", 1): 4}
    unknown = Group(type="share", committed={("u", 0): 5})
    with Simulated({"g": group, "old": unknown}, ends=ENDS) as cluster:
        found = read(cluster)

    assert found["g"] == (TopicLag("t", 7),)


def test_many_groups_are_one_request_a_coordinator_and_one_a_leader() -> None:
    groups = {f"g{n}": Group(committed={("t", n % 2): n}, node_id=1 + n % 2) for n in range(40)}
    with Simulated(groups, nodes=2, ends=ENDS) as cluster:
        found = read(cluster, polls=2)

        asked = {api: sum(cluster.asked[n, api] for n in (1, 2)) for api in Api}
    assert [total_lag(found[name]) for name in ("g0", "g1", "g39")] == [100, 249, 211]
    assert (asked[Api.OFFSET_FETCH], asked[Api.LIST_OFFSETS], asked[Api.METADATA]) == (4, 4, 1)
    assert asked[Api.FIND_COORDINATOR] == 2  # this reader keeps none; the poll has them


def test_a_leader_that_moves_is_looked_up_again() -> None:
    with Simulated({"g": Group(committed={("t", 1): 200})}, nodes=2, ends=ENDS) as cluster:

        async def ask() -> list[int | None]:
            brokers = BrokerPool([(HOST, port) for port in cluster.ports.values()], Security)
            reader, found = LagReader(brokers, 5.0), list[int | None]()
            try:
                await brokers.refresh()
                for shift in (0, 1):
                    cluster.leader_shift = shift
                    groups = {GroupType.CLASSIC: ["g"]}
                    found.append(total_lag((await reader.read(groups, {}))["g"]))
            finally:
                await brokers.close()
            return found

        assert asyncio.run(ask()) == [50, 50]


def test_a_denied_group_is_a_failure_and_a_moved_one_is_looked_up_again() -> None:
    groups = {"g": Group(committed={("t", 0): 99}), "denied": Group()}
    with Simulated(groups, ends=ENDS) as cluster:
        cluster.errors[Api.OFFSET_FETCH, "g"] = [MOVED]
        cluster.errors[Api.OFFSET_FETCH, "denied"] = [DENIED]
        found = read(cluster)

    denied = found["denied"]
    assert total_lag(found["g"]) == 1
    assert isinstance(denied, Failure)
    assert denied.code == "GROUP_AUTHORIZATION_FAILED"
