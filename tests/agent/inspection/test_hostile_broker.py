"""Brokers that respond with the largest values: what each of them costs is bounded."""

import asyncio
import socket
import struct
import threading
from datetime import timedelta

import pytest

from agent.config.security import Mechanism
from agent.inspection.connection import broker_connection, broker_pool
from agent.inspection.connection.admin_requests import Api
from agent.inspection.connection.broker_connection import Connection
from agent.inspection.connection.broker_pool import BrokerPool
from agent.inspection.connection.errors import RefusedError, UnreachableError
from agent.inspection.connection.sasl import Exchange
from agent.inspection.connection.security import Login, Security
from agent.inspection.model import Node
from tests.agent.inspection.connection.test_broker_connection import server
from tests.agent.inspection.simulated import HOST, KAFKA_28, Simulated
from tests.agent.wire.frames import answer

_LONGEST = timedelta(milliseconds=(1 << 31) - 1)


def pool(cluster: Simulated) -> BrokerPool:
    return BrokerPool([(HOST, port) for port in cluster.ports.values()], Security)


def test_a_quota_of_weeks_keeps_no_silent_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_connection, "MAX_THROTTLE_S", 0.25)
    done = threading.Event()

    def serve(taken: socket.socket) -> None:
        for respond in (offer_versions, throttle):
            head = taken.recv(1 << 16)
            taken.sendall(respond(int.from_bytes(head[8:12], "big")))
        assert done.wait(60.0)

    async def ask_twice(port: int) -> None:
        connection = await Connection.open(HOST, port, Security(), timeout_s=0.5)
        try:
            for _ in range(2):
                await connection.send(Api.LIST_GROUPS, states_filter=(), types_filter=())
        finally:
            await connection.close()

    with server(serve) as port:
        try:
            with pytest.raises(
                UnreachableError, match=r"in 0\.75 s, of which its quota .* 0\.25 s"
            ):
                asyncio.run(asyncio.wait_for(ask_twice(port), 60.0))
        finally:
            done.set()


def offer_versions(correlation_id: int) -> bytes:
    # KIP-511: the header is the oldest one, without tagged fields
    body = struct.pack(">ih", correlation_id, 0) + b"\x02" + struct.pack(">hhhB", 16, 0, 4, 0)
    body += struct.pack(">iB", 0, 0)
    return struct.pack(">i", len(body)) + body


def throttle(correlation_id: int) -> bytes:
    return answer(Api.LIST_GROUPS, 4, correlation_id, throttle_time=_LONGEST)


def test_more_brokers_than_any_cluster_has_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_pool, "MAX_BROKERS", 2)

    async def refresh(cluster: Simulated) -> None:
        brokers = pool(cluster)
        try:
            await brokers.refresh()
        finally:
            await brokers.close()

    with Simulated(nodes=2) as cluster:
        asyncio.run(refresh(cluster))
    with (
        Simulated(nodes=3) as cluster,
        pytest.raises(RefusedError, match="names 3 brokers, of which 2 are the limit"),
    ):
        asyncio.run(refresh(cluster))


def test_coordinators_without_end_are_no_connections_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(broker_pool, "MAX_BROKERS", 2)

    async def connect(cluster: Simulated) -> None:
        brokers = pool(cluster)
        try:
            for node_id, port in cluster.ports.items():
                await brokers.version(Node(node_id, HOST, port), Api.LIST_GROUPS)
        finally:
            await brokers.close()

    with (
        Simulated(nodes=3) as cluster,
        pytest.raises(UnreachableError, match="2 brokers are connected already"),
    ):
        asyncio.run(connect(cluster))


def test_brokers_that_a_cluster_names_no_more_are_forgotten() -> None:
    async def play(cluster: Simulated) -> tuple[set[int], set[int]]:
        first, second = cluster.ports.values()
        brokers = BrokerPool([(HOST, first)], Security)
        try:
            await brokers.refresh()
            await brokers.version(Node(2, HOST, second), Api.LIST_GROUPS)
            cluster.fenced.add(2)
            await brokers.refresh()
            kept = {port for _, port in brokers._connections}
            return kept - {first}, {port for _, port in brokers._locks} - {first}
        finally:
            await brokers.close()

    with Simulated(nodes=2) as cluster:
        assert asyncio.run(play(cluster)) == (set(), set())


def test_a_login_that_costs_a_second_of_cpu_stops_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker chooses the iterations of SCRAM: a million take most of a second."""
    threads = list[int]()
    begin = Login.exchange

    def exchange(login: Login) -> Exchange:
        real = begin(login)
        received = yield next(real)
        while True:
            threads.append(threading.get_ident())
            try:
                received = yield real.send(received)
            except StopIteration:
                return

    monkeypatch.setattr(Login, "exchange", exchange)
    login = Login(mechanism=Mechanism.PLAIN, username="agent", secret=lambda: "right")

    async def log_in(port: int) -> None:
        connection = await Connection.open(HOST, port, Security(login=login))
        await connection.close()

    with Simulated(passwords={"agent": "right"}, versions=KAFKA_28) as cluster:
        asyncio.run(log_in(cluster.ports[1]))

    assert threads
    assert threading.get_ident() not in threads
