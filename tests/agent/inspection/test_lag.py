import asyncio
from contextlib import suppress

import pytest

from agent.inspection.admin_requests import Api
from agent.inspection.broker_pool import BrokerPool
from agent.inspection.lag import group_lag
from agent.inspection.model import Node
from agent.inspection.security import Security
from tests.agent.inspection.simulated import HOST, KAFKA_28, KAFKA_43, Group, Simulated
from tests.agent.inspection.simulated_messages import Versions

ENDS = {("t", 0): 100, ("t", 1): 250, ("u", 0): 7}


def lag(cluster: Simulated, group: str = "g") -> int | None:
    async def ask() -> int | None:
        nodes = [(HOST, port) for port in cluster.ports.values()]
        brokers = BrokerPool(nodes, Security)
        try:
            return await group_lag(brokers, group, Node(1, HOST, cluster.ports[1]))
        finally:
            await brokers.close()

    return asyncio.run(ask())


@pytest.mark.parametrize("versions", [KAFKA_28, KAFKA_43])
def test_it_is_what_is_not_committed_yet_over_all_leaders(versions: Versions) -> None:
    group = Group(committed={("t", 0): 90, ("t", 1): 200, ("u", 0): 7})
    with Simulated({"g": group}, nodes=2, versions=versions, ends=ENDS) as cluster:
        assert lag(cluster) == 60


def test_partitions_without_a_commit_are_not_counted() -> None:
    group = Group(committed={("t", 0): 99, ("t", 1): -1})
    with Simulated({"g": group}, ends=ENDS) as cluster:
        assert lag(cluster) == 1


def test_it_is_not_known_of_a_group_that_has_committed_nothing() -> None:
    with Simulated({"g": Group()}, ends=ENDS) as cluster:
        assert lag(cluster) is None
        assert cluster.asked[1, Api.METADATA] == 0


def test_it_is_not_known_where_one_partitions_end_is_not() -> None:
    group = Group(committed={("t", 0): 99, ("gone", 0): 5})
    with Simulated({"g": group}, ends=ENDS) as cluster:
        assert lag(cluster) is None


def test_it_is_not_known_while_a_leader_is_down() -> None:
    group = Group(committed={("t", 0): 99, ("t", 1): 200})
    with Simulated({"g": group}, nodes=2, ends=ENDS) as cluster, suppress(OSError):
        cluster.kill(2)

        assert lag(cluster) is None
