import os
import socket

import pytest

from agent.sources.proxy.pipe_pool import PipePool
from agent.sources.proxy.relay import REQUESTS, Relay
from agent.sources.proxy.socket_endpoint import PlainEndpoint
from agent.wire.proxying.frame_forwarder import ENDLESS, FRAME_BYTES_MAX

SIZE = 40_000


class Body:
    """A body of some size with irrelevant content."""

    rewrites = pending = ()
    is_decoded = False

    def __init__(self, size: int) -> None:
        self.skip = size

    def feed(self, data: bytes) -> bytes:
        return data

    def track(self, data: bytes) -> None:
        """All is one body."""


@pytest.mark.parametrize(("size", "holds_back"), [(ENDLESS, False), (2 * SIZE, True)])
def test_a_tunnel_holds_nothing_back(
    monkeypatch: pytest.MonkeyPatch, size: int, *, holds_back: bool
) -> None:
    flags: list[int] = []
    splice = os.splice

    def noted(*args: int) -> int:
        flags.append(args[-1])
        return splice(*args)

    client, source = socket.socketpair()
    target, broker = socket.socketpair()
    with client, source, target, broker:
        for sock in (source, target):
            sock.setblocking(False)
        pump = Relay(PlainEndpoint(source), PlainEndpoint(target), Body(size), PipePool(), REQUESTS)
        client.sendall(b"x" * SIZE)
        monkeypatch.setattr(os, "splice", noted)
        pump.run()
        assert broker.recv(SIZE, socket.MSG_WAITALL) == b"x" * SIZE

    assert any(flag & os.SPLICE_F_MORE for flag in flags) is holds_back


def test_a_body_that_becomes_a_tunnel_is_one_to_its_end() -> None:
    """The other direction was no Kafka: that is known while this one's body passes."""
    body = Body(2 * SIZE)
    client, source = socket.socketpair()
    target, broker = socket.socketpair()
    with client, source, target, broker:
        for sock in (source, target):
            sock.setblocking(False)
        pump = Relay(PlainEndpoint(source), PlainEndpoint(target), body, PipePool(), REQUESTS)
        client.sendall(b"x" * SIZE)
        pump.run()
        body.skip = ENDLESS
        client.sendall(b"x" * SIZE)
        pump.run()

    assert pump.total_bytes == 2 * SIZE
    assert body.skip > FRAME_BYTES_MAX
    assert pump.body > FRAME_BYTES_MAX
