"""Brokers that respond with the largest values: what each of them costs is bounded."""

import asyncio
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import timedelta

import pytest

from agent.config.security import Mechanism
from agent.inspection.connection import broker_connection, broker_pool, response_room
from agent.inspection.connection.admin_requests import STRUCT_WEIGHT, Api
from agent.inspection.connection.broker_connection import Connection
from agent.inspection.connection.broker_pool import BrokerPool
from agent.inspection.connection.errors import RefusedError, UnreachableError
from agent.inspection.connection.response_room import (
    FRAME_BYTES_MAX,
    SHORT_BYTES,
    ResponseLimits,
)
from agent.inspection.connection.sasl import Exchange
from agent.inspection.connection.security import Login, Security
from agent.inspection.list_groups import list_groups
from agent.inspection.model import Node
from agent.inspection.poller import Poller, PollLimits
from tests.agent.inspection.connection.test_broker_connection import server
from tests.agent.inspection.simulated import HOST, KAFKA_28, Group, Simulated
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


def test_long_responses_of_many_brokers_share_a_bound() -> None:
    """40 brokers with responses of 90 MiB each took 4 GB."""
    limit = 4 * SHORT_BYTES
    limits = ResponseLimits(limit, 1_000)
    most = 0

    async def list_all(addresses: list[tuple[str, int]]) -> int:
        brokers = BrokerPool(addresses, Security, limits=limits)

        async def ask(number: int, address: tuple[str, int]) -> int:
            nonlocal most
            node = Node(number, *address)
            async with brokers.receive(node, Api.LIST_GROUPS, states_filter=()) as got:
                most = max(most, brokers._room._used)
                await asyncio.sleep(0)
                return len(got.frame)

        try:
            return sum(await asyncio.gather(*map(ask, range(len(addresses)), addresses)))
        finally:
            await brokers.close()
            assert not brokers._room._used

    with ExitStack() as stack:
        size = SHORT_BYTES * 3 // 2
        ports = [stack.enter_context(server(responder(size))) for _ in range(7)]
        read = asyncio.run(asyncio.wait_for(list_all([(HOST, port) for port in ports]), 60.0))

    assert read == 7 * size
    assert size <= most <= limit


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (SHORT_BYTES * 2 + 1, r"ListGroups: a response of 524289 bytes, of which 524288 are the"),
        (FRAME_BYTES_MAX + 1, "does not respond like Kafka"),
    ],
)
def test_a_response_beyond_the_limit_is_not_read(size: int, text: str) -> None:
    async def ask(port: int) -> None:
        brokers = BrokerPool([(HOST, port)], Security, limits=ResponseLimits(SHORT_BYTES * 2, 9))
        try:
            await brokers.send(Node(1, HOST, port), Api.LIST_GROUPS)
        finally:
            await brokers.close()

    with server(responder(size, 1 << 16)) as port, pytest.raises(RefusedError, match=text):
        asyncio.run(asyncio.wait_for(ask(port), 60.0))


def responder(size: int, sent: int | None = None) -> Callable[[socket.socket], None]:
    """Respond to two requests; the second response has so many bytes, of which some are sent."""

    def serve(taken: socket.socket) -> None:
        head = taken.recv(1 << 16)
        taken.sendall(offer_versions(int.from_bytes(head[8:12], "big")))
        head = taken.recv(1 << 16)
        body = struct.pack(">i", size) + head[8:12] + bytes((size if sent is None else sent) - 4)
        with suppress(OSError):
            taken.sendall(body)
            taken.recv(1)

    return serve


def test_a_response_that_waits_too_long_for_room_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(response_room, "WAIT_MAX_S", 0.05)
    size = SHORT_BYTES + 1

    async def ask(port: int) -> None:
        brokers = BrokerPool([(HOST, port)], Security, limits=ResponseLimits(size, 1_000))
        await brokers._room.enter(size)
        try:
            await brokers.send(Node(1, HOST, port), Api.LIST_GROUPS)
        finally:
            await brokers.close()

    with server(responder(size)) as port, pytest.raises(UnreachableError, match="all the room"):
        asyncio.run(asyncio.wait_for(ask(port), 60.0))


def test_thousands_of_brokers_that_are_not_there_hide_no_bootstrap_server() -> None:
    """Each took its timeout, before the bootstrap server was tried: hours of a poll."""

    async def refresh(cluster: Simulated) -> int:
        brokers = pool(cluster)
        try:
            await brokers.refresh()
            brokers._nodes = tuple(Node(100 + n, HOST, 20 + n % 1_000) for n in range(2_000))
            await brokers._close(list(brokers._connections))
            order = brokers._addresses()
            await brokers.refresh()
            return order.index((HOST, cluster.ports[1])) + len(order)
        finally:
            await brokers.close()

    with Simulated() as cluster:
        assert asyncio.run(refresh(cluster)) == 0 + 1 + broker_pool._OTHERS


def test_names_of_thousands_of_hosts_take_few_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_room, "_LOOKUPS", 2)
    names, most, lock = [f"broker-{n}.invalid" for n in range(20)], 0, threading.Lock()
    running = 0

    def look_up(*_: object, **__: object) -> list[object]:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        threading.Event().wait(0.01)
        with lock:
            running -= 1
        raise socket.gaierror(socket.EAI_NONAME, "no such host")

    async def connect() -> None:
        monkeypatch.setattr(socket, "getaddrinfo", look_up)
        brokers = BrokerPool([(HOST, 9092)], Security)
        nodes = [Node(n, name, 9092) for n, name in enumerate(names)]
        versions = (brokers.version(node, Api.LIST_GROUPS) for node in nodes)
        errors = await asyncio.gather(*versions, return_exceptions=True)
        assert all(isinstance(each, UnreachableError) for each in errors)

    asyncio.run(connect())

    assert most == 2


def test_groups_of_all_brokers_are_bounded() -> None:
    async def list_all(cluster: Simulated) -> tuple[int, list[str]]:
        addresses = [(HOST, port) for port in cluster.ports.values()]
        brokers = BrokerPool(
            addresses, Security, limits=ResponseLimits(1 << 20, 30 * STRUCT_WEIGHT)
        )
        try:
            found = await list_groups(brokers, await brokers.refresh(), 1.0)
        finally:
            await brokers.close()
        return len(found.groups), [each.reason for each in found.down]

    groups = {f"g{n}": Group(node_id=1 + n % 2) for n in range(40)}
    with Simulated(nodes=2, groups=groups) as cluster:
        assert asyncio.run(list_all(cluster)) == (20, ["too_many"])


def test_of_too_many_groups_the_known_ones_are_described() -> None:
    async def polls(cluster: Simulated) -> list[tuple[set[str], int]]:
        brokers = pool(cluster)
        poller = Poller(brokers, lambda _: True, limits=PollLimits(groups=2))
        found = list[tuple[set[str], int]]()
        known = set[str]()
        try:
            for name in ("d", "a"):
                cluster.groups |= {name: Group(), "b" + name: Group()}
                result = await poller.poll(known)
                known = {each.group for each in result.groups}
                found.append((known, result.excess))
        finally:
            await brokers.close()
        return found

    with Simulated() as cluster:
        assert asyncio.run(polls(cluster)) == [({"d", "bd"}, 0), ({"d", "bd"}, 2)]


def test_members_of_all_groups_are_bounded_and_those_of_groups_that_are_gone_are_free() -> None:
    async def polls(cluster: Simulated) -> list[tuple[set[str], set[str]]]:
        brokers = pool(cluster)
        poller = Poller(brokers, lambda _: True, limits=PollLimits(snapshot_bytes=6_000))
        found, known = list[tuple[set[str], set[str]]](), set[str]()
        try:
            for groups in ("ab", "b", "b"):
                cluster.groups = {name: Group(members=members) for name in groups}
                result = await poller.poll(known)
                known = {each.group for each in result.groups}
                failed = {each.code for each in result.failures}
                found.append(({each.group for each in result.groups}, failed))
        finally:
            await brokers.close()
        return found

    members: dict[str, dict[str, list[int]]] = {f"c-{n}": {"t": [n]} for n in range(10)}
    with Simulated() as cluster:
        got = asyncio.run(polls(cluster))

    assert got == [({"a"}, {"TOO_LARGE"}), (set(), {"TOO_LARGE"}), ({"b"}, set())]
