"""Faults of a real broker, as `groups` and its client meet them: loading, silence, a quota."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from agent.inspection.connection.admin_requests import Api
from agent.inspection.connection.broker_connection import Connection
from agent.inspection.connection.security import CLIENT_ID, Security
from agent.lab.broker import Cluster
from agent.lab.proxy import LIST_GROUPS, FaultProxy
from agent.processes.ports import HOST
from tests.system.inspected import ours
from tests.system.kafka_tools import KafkaTools

pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.timeout(300)]

LOADING, NOT_AVAILABLE, UNKNOWN_SERVER_ERROR = 14, 15, -1
WINDOW_S, LIMIT_S = 12, 6.0
"""A broker throttles for at most one window of its quota: longer than the client's limit."""


class Faulty(NamedTuple):
    """A broker behind a proxy that injects faults."""

    cluster: Cluster
    proxy: FaultProxy
    tools: KafkaTools


@pytest.fixture(scope="module")
def faulty(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Faulty]:
    folder = tmp_path_factory.mktemp("faulty")
    with ExitStack() as stack:
        proxy = stack.enter_context(FaultProxy())
        cluster = stack.enter_context(
            Cluster(
                folder / "lab",
                cache,
                proxy_port=proxy.port,
                extra=lambda _: {"quota.window.size.seconds": str(WINDOW_S)},
            )
        )
        proxy.upstream = cluster.brokers[0].node.proxied_port
        yield Faulty(cluster, proxy, KafkaTools(cluster.bootstrap, folder / "tools", cache))


@pytest.mark.parametrize("code", [LOADING, NOT_AVAILABLE])
def test_a_coordinator_that_loads_is_retried(faulty: Faulty, code: int) -> None:
    faulty.proxy.fail_next(LIST_GROUPS, code)

    done = ours(faulty.proxy.address, "list")

    assert (done.returncode, done.stderr) == (0, "")


def test_a_fault_of_one_broker_is_one_warning_with_its_name(faulty: Faulty) -> None:
    faulty.proxy.fail_next(LIST_GROUPS, UNKNOWN_SERVER_ERROR)

    done = ours(faulty.proxy.address, "list")

    assert done.returncode == 1
    assert done.stderr == (
        f"Warning: partial: broker 1 is missing: {faulty.proxy.address}: "
        "ListGroups: UNKNOWN_SERVER_ERROR\n"
    )


def test_a_broker_that_hangs_is_named_with_the_time_limit(faulty: Faulty) -> None:
    faulty.proxy.hold()
    try:
        done = ours(faulty.proxy.address, "list", "--timeout", "5")
    finally:
        faulty.proxy.release()

    assert done.returncode == 1
    assert f"{faulty.proxy.address}: accepted the connection and has not responded" in done.stderr


def test_a_throttled_client_waits_for_its_quota(faulty: Faulty) -> None:
    quota = ("--alter", "--entity-type", "clients", "--entity-name", CLIENT_ID)
    limited = ("--add-config", "request_percentage=0.001")
    unlimited = ("--delete-config", "request_percentage")

    async def send_throttled() -> tuple[float, int]:
        port = faulty.cluster.brokers[0].node.port
        connection = await Connection.open(HOST, port, Security(), timeout_s=LIMIT_S)
        faulty.tools.run("kafka.admin.ConfigCommand", *quota, *limited)
        try:
            while connection._throttle_s <= LIMIT_S:
                await connection.send(Api.LIST_GROUPS, states_filter=(), types_filter=())
            throttle_s = connection._throttle_s
            response = await connection.send(Api.LIST_GROUPS, states_filter=(), types_filter=())
            return throttle_s, response.read()["error_code"]
        finally:
            faulty.tools.run("kafka.admin.ConfigCommand", *quota, *unlimited)
            await connection.close()

    throttle_s, error = asyncio.run(send_throttled())
    assert throttle_s > LIMIT_S
    assert error == 0
