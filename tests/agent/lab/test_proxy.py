import socket
import struct
from collections.abc import Iterator

import pytest

from agent.lab.proxy import JOIN_GROUP, SYNC_GROUP, FaultProxy
from agent.processes.ports import HOST

HEARTBEAT = 12


@pytest.fixture
def upstream() -> Iterator[socket.socket]:
    with socket.create_server((HOST, 0)) as server:
        yield server


@pytest.fixture
def proxy(upstream: socket.socket) -> Iterator[FaultProxy]:
    with FaultProxy() as proxy:
        proxy.upstream = upstream.getsockname()[1]
        yield proxy


@pytest.fixture
def client(proxy: FaultProxy) -> Iterator[socket.socket]:
    with socket.create_connection((HOST, proxy.port), timeout=10.0) as client:
        yield client


@pytest.fixture
def broker(upstream: socket.socket, client: socket.socket) -> Iterator[socket.socket]:
    del client  # it makes the proxy connect
    upstream.settimeout(10.0)
    connection, _ = upstream.accept()
    with connection:
        connection.settimeout(10.0)
        yield connection


def _send(sender: socket.socket, body: bytes) -> None:
    sender.sendall(struct.pack(">i", len(body)) + body)


def _receive(receiver: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", receiver.recv(4, socket.MSG_WAITALL))
    return receiver.recv(size, socket.MSG_WAITALL)


def _ask(client: socket.socket, broker: socket.socket, api_key: int, version: int) -> None:
    _send(client, struct.pack(">hhi", api_key, version, 7) + b"request")
    _receive(broker)


@pytest.mark.parametrize(
    ("api_key", "version", "tagged_fields"),
    [(JOIN_GROUP, 5, b""), (JOIN_GROUP, 6, b"\0"), (SYNC_GROUP, 3, b""), (SYNC_GROUP, 4, b"\0")],
)
def test_only_the_next_answers_error_code_is_overwritten(
    proxy: FaultProxy,
    client: socket.socket,
    broker: socket.socket,
    api_key: int,
    version: int,
    tagged_fields: bytes,
) -> None:
    head = struct.pack(">i", 7) + tagged_fields + b"\0\0\0\0"
    proxy.fail_next(api_key, 14)
    for expected in (14, 79):
        _ask(client, broker, api_key, version)

        _send(broker, head + struct.pack(">h", 79) + b"rest")

        assert _receive(client) == head + struct.pack(">h", expected) + b"rest"


def test_other_answers_pass_as_they_are(
    proxy: FaultProxy, client: socket.socket, broker: socket.socket
) -> None:
    proxy.fail_next(JOIN_GROUP, 14)
    _ask(client, broker, HEARTBEAT, 4)

    _send(broker, struct.pack(">i", 7) + b"\0\0\0\0\0\0\0")

    assert _receive(client) == struct.pack(">i", 7) + b"\0\0\0\0\0\0\0"


def test_held_requests_come_in_order_once_released(
    proxy: FaultProxy, client: socket.socket, broker: socket.socket
) -> None:
    requests = [struct.pack(">hhi", HEARTBEAT, 4, number) for number in (1, 2)]
    proxy.hold()
    for request in requests:
        _send(client, request)
    broker.settimeout(0.05)
    with pytest.raises(TimeoutError):
        broker.recv(1)
    broker.settimeout(10.0)

    proxy.release()

    assert [_receive(broker), _receive(broker)] == requests


def test_the_end_of_one_side_ends_the_other(client: socket.socket, broker: socket.socket) -> None:
    broker.close()

    assert client.recv(1) == b""


def test_without_a_broker_a_client_is_refused_and_may_come_again(
    proxy: FaultProxy, upstream: socket.socket
) -> None:
    port, proxy.upstream = proxy.upstream, 1
    with socket.create_connection((HOST, proxy.port), timeout=10.0) as refused:
        assert refused.recv(1) == b""

    proxy.upstream = port

    upstream.settimeout(10.0)
    with socket.create_connection((HOST, proxy.port), timeout=10.0):
        upstream.accept()[0].close()
