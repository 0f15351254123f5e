"""A page in pieces: each is released when the peer has room for it, and all in one deadline."""

import asyncio
import socket

import pytest
from starlette.types import Message

from agent.web import http_protocol
from agent.web.piece_response import PieceResponse
from agent.web.unsent_pages import READER_BYTES
from tests.agent.web.test_server import DEADLINE_S, Fake, row, served

_ROWS = tuple(row(f"{i:05d}" + "x" * 2000) for i in range(6000))
_REQUEST = b"GET /metrics HTTP/1.1\r\nHost: agent\r\n\r\n"


def test_a_piece_is_released_as_it_is_sent() -> None:
    pieces, sent = [b"one\n", b"two\n", b"three\n"], list[tuple[Message, int]]()

    async def send(message: Message) -> None:
        sent.append((message, len(pieces)))

    async def receive() -> Message:
        raise AssertionError

    asyncio.run(PieceResponse(pieces, "text/plain")({"type": "http"}, receive, send))

    head, *bodies = sent
    assert (b"content-length", b"14") in head[0]["headers"]
    assert [(each["body"], left) for each, left in bodies] == [
        (b"one\n", 2),
        (b"two\n", 1),
        (b"three\n", 0),
        (b"", 0),
    ]


def test_a_piece_of_any_length_is_written_in_parts() -> None:
    piece, sent = bytes(range(256)) * 1000, list[bytes]()

    async def send(message: Message) -> None:
        sent.append(message.get("body", b""))

    async def receive() -> Message:
        raise AssertionError

    asyncio.run(PieceResponse([piece], "text/plain")({"type": "http"}, receive, send))

    assert b"".join(sent) == piece
    assert max(map(len, sent)) == 65_536


def test_a_peer_that_reads_nothing_has_a_part_of_a_piece_pending() -> None:
    async def find_pending(monkeypatch: pytest.MonkeyPatch) -> int:
        paused, pause = asyncio.Queue[int](), http_protocol.HttpConnection.pause_writing

        def noticed(self: http_protocol.HttpConnection) -> None:
            pause(self)
            paused.put_nowait(self.transport.get_write_buffer_size())

        monkeypatch.setattr(http_protocol.HttpConnection, "pause_writing", noticed)
        async with served(Fake(_ROWS)) as (address,):
            with socket.create_connection(address) as slow:
                slow.sendall(_REQUEST)
                return await asyncio.wait_for(paused.get(), DEADLINE_S)

    with pytest.MonkeyPatch.context() as patch:
        assert asyncio.run(find_pending(patch)) <= READER_BYTES  # of 24 MiB, in pieces of 2


def test_a_peer_that_reads_slowly_has_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "RESPONSE_TIMEOUT_S", 3600.0)
    deadlines = list[asyncio.TimerHandle | None]()
    pause = http_protocol.HttpConnection.pause_writing

    def noticed(self: http_protocol.HttpConnection) -> None:
        pause(self)
        deadlines.append(self._response_deadline)

    monkeypatch.setattr(http_protocol.HttpConnection, "pause_writing", noticed)

    async def read_all() -> None:
        async with served(Fake(_ROWS)) as (address,):
            reader, writer = await asyncio.open_connection(*address, limit=1 << 16)
            writer.write(_REQUEST)
            while len(deadlines) < 3:  # the page is larger than all that is between the two
                assert await asyncio.wait_for(reader.read(1 << 16), DEADLINE_S)
            writer.close()

    asyncio.run(read_all())

    assert len({id(deadline) for deadline in deadlines[:3]}) == 1


def test_a_peer_that_has_read_a_page_keeps_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "RESPONSE_TIMEOUT_S", 3600.0)
    made = list[http_protocol.HttpConnection]()
    begin = http_protocol.HttpConnection.connection_made

    def noticed(self: http_protocol.HttpConnection, transport: asyncio.Transport) -> None:
        made.append(self)
        begin(self, transport)

    monkeypatch.setattr(http_protocol.HttpConnection, "connection_made", noticed)

    async def read_twice() -> None:
        async with served(Fake(_ROWS)) as (address,):
            reader, writer = await asyncio.open_connection(*address)
            for _ in range(2):
                writer.write(_REQUEST)
                head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), DEADLINE_S)
                size = int(head.lower().split(b"content-length: ")[1].split()[0])
                await asyncio.wait_for(reader.readexactly(size), DEADLINE_S)
                while made[0]._response_deadline is not None:  # noqa: ASYNC110 - until it is known
                    await asyncio.sleep(0.01)
            writer.close()

    asyncio.run(asyncio.wait_for(read_twice(), DEADLINE_S))

    assert len(made) == 1
