"""The proxy between a client and a broker that are sockets of the test."""

import asyncio
import contextlib
import gc
import socket
import ssl
import struct
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Self

import pytest
import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PrivateFormat

from agent.errors import ConfigError
from agent.sources.proxy import listener
from agent.sources.proxy import source as source_module
from agent.sources.proxy.config import ListenTls, ProxyConfig, TlsConfig, UpstreamTls
from agent.sources.proxy.connection import ProxiedConnection
from agent.sources.proxy.dialer import Resolver
from agent.sources.proxy.handshake import Handshake
from agent.sources.proxy.listener import AGAIN_S
from agent.sources.proxy.relay import Relay
from agent.sources.proxy.socket_endpoint import PlainEndpoint, TlsEndpoint
from agent.sources.proxy.source import ProxySource
from agent.wire.codec.messages import HostPort
from agent.wire.connection import ConnectionDecoder
from agent.wire.members.group_decoder import GroupDecoder
from agent.wire.proxying.frame_forwarder import FrameForwarder, FrameSplitter
from metrics.model.signals import Signal
from tests.agent.wire.frames import FETCH, HEARTBEAT, JOIN_GROUP, METADATA, answer, opaque, request

WITHIN_S = 30.0
FAR = ("kafka-far.example", 9092)
HELLO = bytes.fromhex("16030100f0") + bytes(300)
"""How TLS begins."""
pytestmark = pytest.mark.timeout(60)


class Wire:
    """One side: exact reads, with a deadline."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer

    async def take(self, size: int) -> bytes:
        return await asyncio.wait_for(self._reader.readexactly(size), WITHIN_S)

    async def rest(self) -> bytes:
        """Return all bytes until the end."""
        with contextlib.suppress(ConnectionResetError):
            return await asyncio.wait_for(self._reader.read(), WITHIN_S)
        return b""

    async def give(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()


class Stage:
    """A broker that does nothing by itself, and clients that reach it through the proxy."""

    def __init__(
        self,
        server_tls: ssl.SSLContext | None = None,
        client_tls: ssl.SSLContext | None = None,
        upstream_host: str = "localhost",
        **config: Any,
    ) -> None:
        self.signals = list[Signal]()
        self.ended = list[bool]()
        """For each stream that has ended, whether it was cut."""
        self._upstream_host = upstream_host
        self._server_tls, self._client_tls = server_tls, client_tls
        self._config, self._exits = config, contextlib.AsyncExitStack()
        self._arrived: asyncio.Queue[Wire] = asyncio.Queue()

    async def __aenter__(self) -> Self:
        server = await asyncio.start_server(self._arrive, "127.0.0.1", 0, ssl=self._server_tls)
        self.server = await self._exits.enter_async_context(server)
        self.broker_port: int = server.sockets[0].getsockname()[1]
        named: dict[str, Any] = {
            "listen": "127.0.0.1:0",
            "upstream": (f"{self._upstream_host}:{self.broker_port}",),
            "drain_s": 0.05,
        }
        self.source = ProxySource(ProxyConfig(**named | self._config))
        self.running = asyncio.create_task(self.source.run(self.signals.extend, self._detach))
        await until(lambda: self.source.address is not None)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
        await self._exits.aclose()

    def _detach(self, _stream: str, _at: float, *, is_cut: bool) -> None:
        self.ended.append(is_cut)

    async def stop(self) -> None:
        self.running.cancel()
        await asyncio.wait([self.running])

    async def dial(self, port: int = 0) -> Wire:
        assert self.source.address is not None
        host, own = self.source.address
        name = "localhost" if self._client_tls else None
        wire = Wire(
            *await asyncio.open_connection(
                host, port or own, ssl=self._client_tls, server_hostname=name
            )
        )
        self._exits.callback(wire.writer.close)
        return wire

    async def connect(self) -> tuple[Wire, Wire]:
        """Return a client and the broker's side of its connection."""
        client = await self.dial()
        return client, await self._arrival()

    async def reach(self) -> tuple[Wire, Wire]:
        """Connect as `connect` does, and accept the proxy's own dial of the broker as well."""
        client, data = await self.dial(), opaque(0, 1, "c", 40)
        await client.give(data)
        while True:
            broker = await self._arrival()
            with contextlib.suppress(asyncio.IncompleteReadError):
                assert await broker.take(len(data)) == data
                return client, broker

    async def until_refused(self, *, refused: bool) -> None:
        """Dial until it is refused, or no more."""
        async with asyncio.timeout(WITHIN_S):
            while True:
                try:
                    (await self.dial()).writer.close()
                except ConnectionRefusedError:
                    if refused:
                        return
                else:
                    if not refused:
                        return
                await asyncio.sleep(0.01)

    async def assert_rewritten(self, client: Wire, version: int, number: int = 2) -> None:
        """The answer with that correlation id names our port instead of the far broker."""
        await until(lambda: bool(self.source.checkpoint()["ports"]))
        (port,) = self.source.checkpoint()["ports"].values()
        wanted = metadata(version, number, ("127.0.0.1", port))
        assert await client.take(len(wanted)) == wanted

    async def _arrival(self) -> Wire:
        return await asyncio.wait_for(self._arrived.get(), WITHIN_S)

    def _arrive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._arrived.put_nowait(Wire(reader, writer))
        self._exits.callback(writer.close)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not true():  # noqa: ASYNC110 - another thread makes it true
            await asyncio.sleep(0.001)


async def exchange(sender: Wire, receiver: Wire, data: bytes, wanted: bytes | None = None) -> None:
    wanted = data if wanted is None else wanted
    await sender.give(data)
    assert await receiver.take(len(wanted)) == wanted


def on_stage(test: Callable[[Stage], Awaitable[None]], **config: Any) -> None:
    async def play() -> None:
        async with Stage(**config) as stage:
            await test(stage)

    asyncio.run(play())


def metadata(version: int, correlation_id: int, *addresses: tuple[str, int]) -> bytes:
    nodes = [
        {"node_id": number, "host": host, "port": port, "rack": None}
        for number, (host, port) in enumerate(addresses)
    ]
    return answer(METADATA, version, correlation_id, brokers=nodes, cluster_id=None, topics=[])


@pytest.mark.parametrize("version", [0, 9, 13])
def test_each_broker_is_reached_through_a_port_of_its_own(version: int) -> None:
    async def test(stage: Stage) -> None:
        client, broker = await stage.connect()
        await exchange(client, broker, request(METADATA, version, 1, "c"))
        here = ("127.0.0.1", stage.broker_port)
        await broker.give(metadata(version, 1, FAR, here))
        await until(lambda: len(stage.source.checkpoint()["ports"]) == 2)
        ports = stage.source.checkpoint()["ports"]
        ours = [("127.0.0.1", ports[f"{host}:{port}"]) for host, port in (FAR, here)]
        wanted = metadata(version, 1, *ours)
        assert await client.take(len(wanted)) == wanted

        second = await stage.dial(ours[1][1])
        third = await asyncio.wait_for(stage._arrived.get(), WITHIN_S)
        await exchange(second, third, request(METADATA, version, 1, "c"))
        await exchange(third, second, metadata(version, 1, FAR, here), wanted)

    on_stage(test)


def test_a_new_broker_is_reached_through_a_new_port() -> None:
    async def test(stage: Stage) -> None:
        client, broker = await stage.connect()
        await exchange(client, broker, request(METADATA, 1, 2, "c"))
        await broker.give(metadata(1, 2, FAR))
        await stage.assert_rewritten(client, 1)
        (known,) = stage.source.checkpoint()["ports"].values()

        await exchange(client, broker, request(METADATA, 1, 3, "c"))
        await broker.give(metadata(1, 3, FAR, ("127.0.0.1", stage.broker_port)))
        await until(lambda: len(stage.source.checkpoint()["ports"]) == 2)
        new = stage.source.checkpoint()["ports"][f"127.0.0.1:{stage.broker_port}"]
        wanted = metadata(1, 3, ("127.0.0.1", known), ("127.0.0.1", new))
        assert await client.take(len(wanted)) == wanted
        second = await stage.dial(new)
        third = await asyncio.wait_for(stage._arrived.get(), WITHIN_S)
        await exchange(second, third, request(METADATA, 1, 1, "c"))

    on_stage(test)


def test_pieces_of_one_byte_are_rewritten_alike() -> None:
    async def test(stage: Stage) -> None:
        client, broker = await stage.connect()
        asked, data = request(METADATA, 12, 2, "c"), metadata(12, 2, FAR)
        for each in asked:
            await client.give(bytes([each]))
        assert await broker.take(len(asked)) == asked
        for each in data:
            await broker.give(bytes([each]))
        await stage.assert_rewritten(client, 12)

    on_stage(test)


def test_a_large_body_passes_spliced_and_is_still_in_step_behind() -> None:
    async def test(stage: Stage) -> None:
        client, broker = await stage.connect()
        await exchange(client, broker, opaque(FETCH, 1, "c", 40) + request(METADATA, 1, 2, "c"))
        large = struct.pack(">ii", 4 + (5 << 20), 1) + bytes(range(256)) * (5 << 12)
        sending = asyncio.create_task(broker.give(large + metadata(1, 2, FAR)))
        assert await client.take(len(large)) == large
        await sending
        await stage.assert_rewritten(client, 1)

    on_stage(test)


def test_a_body_that_breaks_off_passes_as_far_as_it_came() -> None:
    async def test(stage: Stage) -> None:
        client, broker = await stage.connect()
        await exchange(client, broker, opaque(FETCH, 1, "c", 40))
        part = struct.pack(">ii", 4 + (5 << 20), 1) + bytes(range(256)) * 10_001
        await broker.give(part)
        broker.writer.close()
        assert await client.rest() == part

    on_stage(test)


def test_a_body_in_small_pieces_passes_whole() -> None:
    async def test(stage: Stage) -> None:
        client, broker = await stage.connect()
        asked, answered = opaque(FETCH, 1, "c", 40), struct.pack(">ii", 1_000_004, 1)
        for _ in range(2):
            await exchange(client, broker, asked)
            pieces = [answered, *(bytes([number]) * 50_000 for number in range(20))]
            for piece in pieces:
                await broker.give(piece)
            assert await client.take(1_000_008) == b"".join(pieces)
        await exchange(client, broker, request(METADATA, 1, 2, "c"))
        await broker.give(metadata(1, 2, FAR))
        await stage.assert_rewritten(client, 1)

    on_stage(test)


def test_signals_come_from_group_traffic() -> None:
    async def test(stage: Stage) -> None:
        client, broker = await stage.connect()
        names = {"group_id": "g", "member_id": "m-1", "protocol_type": "consumer"}
        await exchange(client, broker, request(JOIN_GROUP, 2, 1, "c", **names, protocols=[]))
        await exchange(
            broker,
            client,
            answer(
                JOIN_GROUP,
                2,
                1,
                error_code=0,
                member_id="m-1",
                generation_id=1,
                leader="x",
                protocol_name="range",
            ),
        )
        beat = {"group_id": "g", "member_id": "m-1", "generation_id": 1}
        await exchange(client, broker, request(HEARTBEAT, 2, 2, "c", **beat))
        await exchange(broker, client, answer(HEARTBEAT, 2, 2, error_code=27))
        await until(lambda: any(signal.status == 1 for signal in stage.signals))

    on_stage(test)


@pytest.mark.parametrize("first", [HELLO, b"\xff" * 40], ids=["tls", "noise"])
def test_what_is_no_kafka_passes_both_ways(first: bytes) -> None:
    async def test(stage: Stage) -> None:
        client, broker = await stage.connect()
        await exchange(client, broker, first)
        await exchange(broker, client, first[::-1])
        await exchange(client, broker, bytes(100_000))

    on_stage(test)


def test_a_fault_of_the_decoder_leaves_the_rewriting() -> None:
    async def test(stage: Stage) -> None:
        client, broker = await stage.connect()
        odd = struct.pack(">ihhih", 13, JOIN_GROUP, 5, 1, 1) + b"cxx"  # ends within its group id
        await exchange(client, broker, odd)
        await exchange(client, broker, request(METADATA, 1, 2, "c"))
        await broker.give(metadata(1, 2, FAR))
        await stage.assert_rewritten(client, 1)
        await until(lambda: stage.source.health.errors["opaque_request"] == 1)

    on_stage(test)


def test_a_fault_that_nobody_thought_of_ends_the_decoding_of_its_connection_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_self: GroupDecoder, _request: object, _join: object) -> list[Signal]:
        raise RuntimeError("nobody thought of this")

    async def test(stage: Stage) -> None:
        client, broker = await stage.connect()
        other, far = await stage.connect()
        names = {"group_id": "g", "member_id": "m-1", "protocol_type": "consumer"}
        await exchange(client, broker, request(JOIN_GROUP, 2, 1, "c", **names, protocols=[]))
        await until(lambda: stage.source.health.errors["decoder_fault"] == 1)
        beat = {"group_id": "g", "member_id": "m-1", "generation_id": 1}
        await exchange(client, broker, request(HEARTBEAT, 2, 2, "c", **beat))
        await exchange(broker, client, answer(HEARTBEAT, 2, 2, error_code=27))
        await exchange(other, far, request(HEARTBEAT, 2, 1, "d", **beat))
        await exchange(far, other, answer(HEARTBEAT, 2, 1, error_code=27))
        await until(lambda: any(signal.status == 1 for signal in stage.signals))
        assert {signal.member.client_id for signal in stage.signals} == {"d"}
        await exchange(client, broker, request(METADATA, 1, 3, "c"))
        await broker.give(metadata(1, 3, FAR))
        await stage.assert_rewritten(client, 1, 3)

    monkeypatch.setattr(GroupDecoder, "_handle_join", fail)
    on_stage(test)


def test_where_memory_is_short_a_long_frame_is_decoded_no_more_and_passes() -> None:
    async def test(stage: Stage) -> None:
        client, broker = await stage.connect()
        short, far = await stage.connect()
        long = request(JOIN_GROUP, 2, 1, "c", group_id="g", member_id="m" * 30_000, protocols=[])
        long = struct.pack(">i", 1 << 20) + long[4:].ljust(1 << 20, b"x")
        await exchange(client, broker, long[:70_000])
        await exchange(short, far, long[:1_000])
        await asyncio.sleep(0.1)  # what has passed is decoded within 10 ms
        stage.source.shrink_buffers()
        await until(lambda: stage.source.health.errors.get("opaque_memory") == 1)
        await exchange(client, broker, long[70_000:])
        await exchange(short, far, long[1_000:])
        await exchange(client, broker, request(METADATA, 1, 2, "c"))
        await broker.give(metadata(1, 2, FAR))
        await stage.assert_rewritten(client, 1)
        assert stage.source.health.errors["opaque_memory"] == 1

    on_stage(test)


def test_raw_sasl_tokens_keep_the_frames() -> None:
    """SaslHandshake v0 is followed by tokens that have a length and nothing else."""

    async def test(stage: Stage) -> None:
        client, broker = await stage.connect()
        await exchange(client, broker, request(17, 0, 1, "c", mechanism="PLAIN"))
        await exchange(broker, client, answer(17, 0, 1, error_code=0, mechanisms=[]))
        await exchange(client, broker, b"\0\0\0\x0c\0\x03\0\0\0\0\0\x07\0pwd")
        await exchange(broker, client, b"\0\0\0\0")
        await exchange(client, broker, request(METADATA, 1, 2, "c"))
        await broker.give(metadata(1, 2, FAR))
        await stage.assert_rewritten(client, 1)

    on_stage(test)


@pytest.mark.slow
@pytest.mark.parametrize("slow", ["client", "broker"])
def test_a_slow_side_holds_the_other_back(slow: str) -> None:
    async def test(stage: Stage) -> None:
        client, broker = await stage.connect()
        if slow == "client":
            await exchange(client, broker, opaque(FETCH, 1, "c", 40))
            large = struct.pack(">ii", 4 + (64 << 20), 1) + bytes(64 << 20)
            sender, receiver = broker, client
        else:
            large = opaque(0, 1, "c", 64 << 20)
            sender, receiver = client, broker
        sending = asyncio.create_task(sender.give(large))
        await until(lambda: stage.source.health.read_bytes > 0)
        passed = [-1, stage.source.health.read_bytes]
        while passed[-2] != passed[-1]:
            await asyncio.sleep(0.6)
            passed.append(stage.source.health.read_bytes)
        assert not sending.done()
        assert await receiver.take(len(large)) == large
        await sending

    on_stage(test)


def test_a_client_that_only_writes_needs_no_answers() -> None:
    async def test(stage: Stage) -> None:
        client, broker = await stage.connect()
        for first in range(0, 3_000, 100):
            numbers = range(first, first + 100)
            await exchange(client, broker, b"".join(opaque(0, n, "c", 40) for n in numbers))
        await exchange(client, broker, request(METADATA, 1, 2, "c"))
        await broker.give(metadata(1, 2, FAR))
        await stage.assert_rewritten(client, 1)

    on_stage(test)


def test_a_broker_that_is_down_closes_the_client() -> None:
    async def test(stage: Stage) -> None:
        stage.server.close()
        client = await stage.dial()
        assert await client.rest() == b""
        await until(lambda: stage.source.health.errors["broker_unreachable"] == 1)

    on_stage(test)


def test_a_port_refuses_clients_while_its_broker_does() -> None:
    """Else kafka-python comes back to it at once, and gives up."""

    async def test(stage: Stage) -> None:
        client, broker = await stage.connect()
        stage.server.close()
        broker.writer.close()
        assert await client.rest() == b""
        with pytest.raises(ConnectionRefusedError):
            await stage.dial()

        again = await asyncio.start_server(stage._arrive, "127.0.0.1", stage.broker_port)
        with contextlib.closing(
            again
        ):  # its own context would wait for connections, since Python 3.12
            await stage.until_refused(refused=False)
            await stage.reach()

    on_stage(test, upstream_host="127.0.0.1")


def test_a_port_that_another_took_meanwhile_is_ours_again_as_soon_as_it_is_free(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(stage: Stage) -> None:
        assert stage.source.address is not None
        stage.server.close()
        assert await (await stage.dial()).rest() == b""
        await stage.until_refused(refused=True)
        with socket.create_server(stage.source.address):
            again = await asyncio.start_server(stage._arrive, "127.0.0.1", stage.broker_port)
            await until(lambda: stage.source.health.errors["listen"] == 1)
            await asyncio.sleep(3 * AGAIN_S)
        with contextlib.closing(
            again
        ):  # its own context would wait for connections, since Python 3.12
            await stage.until_refused(refused=False)
        got = [record.getMessage() for record in caplog.records]
        assert got == ["proxy_port_shut", "proxy_port_lost", "proxy_port_open"]

    with caplog.at_level("INFO", "agent.sources.proxy.listener"):
        on_stage(test)


def test_a_port_refuses_the_next_client_of_a_broker_that_was_never_there() -> None:
    async def test(stage: Stage) -> None:
        stage.server.close()
        assert await (await stage.dial()).rest() == b""
        await stage.until_refused(refused=True)

    on_stage(test)


@pytest.mark.parametrize("host", ["a..b", "x" * 64, "nobody.invalid"])
def test_a_broker_whose_name_cannot_be_ends_its_client_alone(host: str) -> None:
    async def test(stage: Stage) -> None:
        client, broker = await stage.connect()
        await exchange(client, broker, request(METADATA, 1, 2, "c"))
        await broker.give(metadata(1, 2, (host, 9092)))
        await until(lambda: bool(stage.source.checkpoint()["ports"]))
        (port,) = stage.source.checkpoint()["ports"].values()
        assert await client.take(len(wanted := metadata(1, 2, ("127.0.0.1", port)))) == wanted

        assert await (await stage.dial(port)).rest() == b""
        await exchange(client, broker, request(METADATA, 1, 3, "c"))
        assert stage.source.health.up

    on_stage(test)


def test_a_broker_that_hangs_up_is_still_there() -> None:
    async def test(stage: Stage) -> None:
        for _ in range(20):
            client, broker = await stage.reach()
            broker.writer.close()
            assert await client.rest() == b""
        assert not stage.source.health.errors

    on_stage(test)


def test_bootstrap_goes_on_to_the_next_broker() -> None:
    async def test(stage: Stage) -> None:
        client, broker = await stage.connect()
        await exchange(client, broker, request(METADATA, 1, 1, "c"))

    async def play() -> None:
        with socket.create_server(("127.0.0.1", 0)) as gone:
            down = f"127.0.0.1:{gone.getsockname()[1]}"
        async with Stage() as up:
            upstream = (down, "no-such-host.invalid:1", f"127.0.0.1:{up.broker_port}")
            up.source.reload(replace(up.source._config, upstream=upstream))
            await up.stop()
            up.running = asyncio.create_task(up.source.run(up.signals.extend, lambda *_: None))
            await until(lambda: up.source.address is not None)
            await test(up)

    asyncio.run(play())


def test_more_connections_than_allowed_are_closed() -> None:
    async def test(stage: Stage) -> None:
        await stage.connect()
        assert await (await stage.dial()).rest() == b""
        await until(lambda: stage.source.health.errors["connection_limit"] == 1)

    on_stage(test, max_connections=1)


def test_a_client_whose_descriptor_is_in_the_reserve_is_closed_and_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Pages, spool and checkpoint keep their descriptors, however many clients come."""

    async def test(stage: Stage) -> None:
        client, broker = await stage.connect()
        monkeypatch.setattr(listener, "is_reserved", lambda _descriptor: True)
        for _ in range(3):
            assert await (await stage.dial()).rest() == b""
        await until(lambda: stage.source.health.errors["descriptors"] == 3)
        assert [each.message for each in caplog.records].count("proxy_accept_failed") == 1
        await exchange(client, broker, request(METADATA, 1, 1, "c"))
        monkeypatch.undo()
        await stage.connect()

    on_stage(test)


def test_other_terms_hold_for_connections_to_come() -> None:
    async def test(stage: Stage) -> None:
        before, broker = await stage.connect()
        async with Stage() as other:
            upstream = (f"127.0.0.1:{other.broker_port}",)
            stage.source.reload(replace(stage.source._config, upstream=upstream, max_connections=2))
            after = await stage.dial()
            moved = await asyncio.wait_for(other._arrived.get(), WITHIN_S)

            await exchange(before, broker, request(METADATA, 1, 1, "c"))
            await exchange(after, moved, request(METADATA, 1, 1, "c"))
            assert await (await stage.dial()).rest() == b""

    on_stage(test)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An authority, and its certificates for localhost, for another host and for a client."""
    folder, authority = tmp_path_factory.mktemp("tls"), trustme.CA()
    paths = {name: folder / f"{name}.pem" for name in ("ca", "localhost", "elsewhere", "client")}
    authority.cert_pem.write_to_path(paths["ca"])
    for name in ("localhost", "elsewhere", "client"):
        authority.issue_cert(name).private_key_and_cert_chain_pem.write_to_path(paths[name])
    return paths


def _both_sides(certificates: dict[str, Path]) -> TlsConfig:
    ca_file = certificates["ca"]
    return TlsConfig(
        listen=ListenTls(cert_file=certificates["localhost"], ca_file=ca_file),
        upstream=UpstreamTls(ca_file=ca_file, cert_file=certificates["client"]),
    )


def _server(certificates: dict[str, Path], name: str) -> ssl.SSLContext:
    """Return the TLS context of a broker that requires certificates of its clients."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=certificates["ca"])
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(certificates[name])
    return context


def _client(certificates: dict[str, Path]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=certificates["ca"])
    context.load_cert_chain(certificates["client"])
    return context


def test_tls_and_mutual_tls_on_both_sides(certificates: dict[str, Path]) -> None:
    async def test(stage: Stage) -> None:
        client, broker = await stage.connect()
        await exchange(client, broker, opaque(FETCH, 1, "c", 200_000))
        await exchange(client, broker, request(METADATA, 1, 2, "c"))
        large = struct.pack(">ii", 4 + (5 << 20), 1) + bytes(range(256)) * (5 << 12)
        sending = asyncio.create_task(broker.give(large + metadata(1, 2, FAR)))
        assert await client.take(len(large)) == large
        await sending
        await stage.assert_rewritten(client, 1)
        client.writer.close()
        assert await broker.rest() == b""

    on_stage(
        test,
        server_tls=_server(certificates, "localhost"),
        client_tls=_client(certificates),
        tls=_both_sides(certificates),
    )


def test_a_certificate_of_another_host_is_refused(certificates: dict[str, Path]) -> None:
    async def test(stage: Stage) -> None:
        with contextlib.suppress(OSError):
            assert await (await stage.dial()).rest() == b""
        await until(lambda: stage.source.health.errors["tls_broker"] == 1)

    on_stage(
        test,
        server_tls=_server(certificates, "elsewhere"),
        client_tls=_client(certificates),
        tls=_both_sides(certificates),
    )


def test_a_broker_is_told_its_name(certificates: dict[str, Path]) -> None:
    names: list[str | None] = []
    server = _server(certificates, "localhost")
    server.sni_callback = lambda _sock, name, _context: names.append(name)

    async def test(stage: Stage) -> None:
        await stage.connect()

    on_stage(
        test, server_tls=server, client_tls=_client(certificates), tls=_both_sides(certificates)
    )
    assert names == ["localhost"]


def test_a_broker_that_refuses_our_certificate_is_told(
    certificates: dict[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    """In TLS 1.3 it does so after our handshake."""
    tls, server = _both_sides(certificates), socket.create_server(("127.0.0.1", 0))

    def refuse() -> None:
        with contextlib.suppress(OSError):
            _server(certificates, "localhost").wrap_socket(server.accept()[0], server_side=True)

    async def test(stage: Stage) -> None:
        refusing = asyncio.create_task(asyncio.to_thread(refuse))
        assert await (await stage.dial()).rest() == b""
        await refusing

    with server:
        on_stage(
            test,
            upstream=(f"localhost:{server.getsockname()[1]}",),
            client_tls=_client(certificates),
            tls=replace(tls, upstream=replace(tls.upstream, cert_file=None)),
        )
    (record,) = [each for each in caplog.records if each.levelname == "WARNING"]
    assert record.message == "proxy_handshake_failed"
    assert "certificate required" in record.__dict__["error"]


def test_a_client_without_a_certificate_is_refused(certificates: dict[str, Path]) -> None:
    async def test(stage: Stage) -> None:
        with contextlib.suppress(OSError):
            assert await (await stage.dial()).rest() == b""
        await until(lambda: stage.source.health.errors["tls_client"] == 1)

    on_stage(
        test,
        server_tls=_server(certificates, "localhost"),
        client_tls=ssl.create_default_context(cafile=certificates["ca"]),
        tls=_both_sides(certificates),
    )


@pytest.mark.parametrize("said", [b"", HELLO[:9]], ids=["nothing", "half"])
def test_a_client_that_does_not_finish_its_handshake_is_closed(
    certificates: dict[str, Path], said: bytes
) -> None:
    async def test(stage: Stage) -> None:
        client, broker = await stage.connect()
        await client.give(said)
        assert await client.rest() == b""
        assert await broker.rest() == b""
        assert stage.source.health.errors["setup_timeout"] == 1

    listen = ListenTls(cert_file=certificates["localhost"])
    on_stage(test, tls=TlsConfig(listen=listen), setup_s=0.1)


def test_new_connections_see_a_renewed_certificate(
    certificates: dict[str, Path], tmp_path: Path
) -> None:
    file = tmp_path / "listen.pem"

    async def test(stage: Stage) -> None:
        with pytest.raises(ssl.SSLCertVerificationError):
            await stage.dial()
        await asyncio.wait_for(stage._arrived.get(), WITHIN_S)
        file.write_bytes(certificates["localhost"].read_bytes())
        stage.source.reload(stage.source._config)
        client, broker = await stage.connect()
        await exchange(client, broker, request(METADATA, 1, 1, "c"))

    file.write_bytes(certificates["elsewhere"].read_bytes())
    on_stage(
        test,
        client_tls=_client(certificates),
        tls=TlsConfig(listen=ListenTls(cert_file=file)),
    )


@pytest.mark.parametrize(
    ("tls", "got"),
    [
        ({"listen": {"ca_file": "ca"}}, "tls.listen.cert_file: is missing"),
        ({"listen": {"cert_file": "none"}}, "tls.listen.cert_file: .*none.pem: No such file"),
        ({"upstream": {"ca_file": "none"}}, "tls.upstream.ca_file: .*none.pem: No such file"),
        ({"listen": {"cert_file": "ca"}}, "tls.listen: .*wanted certificates in PEM"),
        ({"upstream": {"cert_file": "ca", "key_file": "locked"}}, "tls.upstream: .*a password"),
    ],
)
def test_a_certificate_that_cannot_be_read_is_refused(
    certificates: dict[str, Path], tls: dict[str, dict[str, str]], got: str
) -> None:
    folder = certificates["ca"].parent
    key = ec.generate_private_key(ec.SECP256R1())
    locked = serialization.BestAvailableEncryption(b"secret")
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, locked)
    (folder / "locked.pem").write_bytes(pem)
    paths: dict[str, dict[str, Any]] = {
        side: {key: folder / f"{name}.pem" for key, name in files.items()}
        for side, files in tls.items()
    }
    listen, upstream = paths.get("listen", {}), paths.get("upstream", {})
    both = TlsConfig(listen=ListenTls(**listen), upstream=UpstreamTls(**upstream))

    with pytest.raises(ConfigError, match=got):
        ProxySource(ProxyConfig(listen=":0", upstream=("b:1",), tls=both))


def test_the_end_of_a_side_is_passed_on() -> None:
    async def test(stage: Stage) -> None:
        client, broker = await stage.connect()
        await exchange(client, broker, opaque(FETCH, 1, "c", 40))
        client.writer.write_eof()
        assert await broker.rest() == b""
        await exchange(broker, client, struct.pack(">ii", 4, 1))
        assert await client.rest() == b""

    on_stage(test)


@pytest.mark.parametrize("is_reset", [True, False])
@pytest.mark.parametrize("by_client", [True, False])
def test_who_ends_the_last_connection_of_a_member_is_known(
    monkeypatch: pytest.MonkeyPatch, *, by_client: bool, is_reset: bool
) -> None:
    monkeypatch.setattr("agent.wire.members.disconnects.RECONNECT_S", 0.0)

    async def test(stage: Stage) -> None:
        client, broker = await stage.connect()
        beat = {"group_id": "g", "member_id": "m-1", "generation_id": 1}
        await exchange(client, broker, request(HEARTBEAT, 2, 1, "c", **beat))
        await exchange(broker, client, answer(HEARTBEAT, 2, 1, error_code=0))
        await until(lambda: bool(stage.signals))
        ends = (client if by_client else broker).writer
        if is_reset:  # as of a process that is killed with unread bytes
            sock = ends.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        ends.close()
        await until(lambda: bool(stage.ended))

        assert stage.ended == [not by_client]

    on_stage(test)


def test_what_is_answered_to_a_client_that_has_gone_is_passed_on_and_not_told() -> None:
    async def test(stage: Stage) -> None:
        client, broker = await stage.connect()
        beat = {"group_id": "g", "member_id": "m-1", "generation_id": 1}
        await exchange(client, broker, request(HEARTBEAT, 2, 1, "c", **beat))
        client.writer.write_eof()
        assert await broker.rest() == b""
        unknown = answer(HEARTBEAT, 2, 1, error_code=25)
        broker.writer.write(unknown)
        broker.writer.close()

        assert await client.rest() == unknown
        await asyncio.sleep(0.1)  # what has passed is decoded within 10 ms
        assert [signal for signal in stage.signals if signal.status == 3] == []

    on_stage(test)


@pytest.mark.parametrize("is_tls", [False, True])
def test_of_a_connection_that_has_ended_nothing_waits_for_a_collection(
    certificates: dict[str, Path], *, is_tls: bool
) -> None:
    """With many objects a cycle collection is rare: thousands of connections would wait for it."""
    kinds = (
        ProxiedConnection,
        Handshake,
        Relay,
        PlainEndpoint,
        TlsEndpoint,
        FrameForwarder,
        FrameSplitter,
        ConnectionDecoder,
    )

    def kept() -> list[str]:
        return [type(each).__name__ for each in gc.get_objects() if isinstance(each, kinds)]

    async def test(stage: Stage) -> None:
        client, broker = await stage.connect()
        beat = {"group_id": "g", "member_id": "m-1", "generation_id": 1}
        await exchange(client, broker, request(HEARTBEAT, 2, 1, "c", **beat))
        await exchange(broker, client, answer(HEARTBEAT, 2, 1, error_code=0))
        assert {"ProxiedConnection", "FrameForwarder", "ConnectionDecoder"} <= set(kept())
        gc.disable()
        client.writer.close()
        with contextlib.suppress(TimeoutError):
            await until(lambda: not kept())
        assert kept() == []

    sides = (_server(certificates, "localhost"), _client(certificates)) if is_tls else (None, None)
    tls = {"tls": _both_sides(certificates)} if is_tls else {}
    gc.collect()
    try:
        on_stage(test, server_tls=sides[0], client_tls=sides[1], **tls)
    finally:
        gc.enable()


def test_a_drain_lets_requests_under_way_end() -> None:
    async def test(stage: Stage) -> None:
        idle, _ = await stage.connect()
        client, broker = await stage.connect()
        await exchange(client, broker, opaque(FETCH, 1, "c", 40))
        stopping = asyncio.create_task(stage.stop())
        assert await idle.rest() == b""
        await exchange(broker, client, struct.pack(">ii", 4, 1))
        await stopping
        assert await client.rest() == b""
        assert not stage.source.health.errors["drain_cut"]

    on_stage(test, drain_s=WITHIN_S)


def test_a_drain_cuts_what_takes_too_long() -> None:
    async def test(stage: Stage) -> None:
        client, broker = await stage.connect()
        await exchange(client, broker, opaque(FETCH, 1, "c", 40))
        await stage.stop()
        assert await client.rest() == b""
        assert stage.source.health.errors["drain_cut"] == 1

    on_stage(test, drain_s=0.05)


def test_brokers_keep_their_ports_over_a_restart() -> None:
    async def play() -> None:
        async with Stage() as stage:
            client, broker = await stage.connect()
            await exchange(client, broker, request(METADATA, 1, 1, "c"))
            await broker.give(metadata(1, 1, FAR))
            await until(lambda: bool(stage.source.checkpoint()["ports"]))
            position = stage.source.checkpoint()
            await stage.stop()
            source = ProxySource(stage.source._config, position=position)
            running = asyncio.create_task(source.run(lambda _signals: None, lambda *_: None))
            await until(lambda: source.address is not None)
            assert source.checkpoint() == position
            running.cancel()
            await asyncio.wait([running])

    asyncio.run(play())


def test_a_name_that_is_looked_up_for_long_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    look_up, answers, asked = socket.getaddrinfo, threading.Event(), list[str]()

    def wait(host: str, port: int, **options: Any) -> Any:
        if host != FAR[0] or options["flags"]:
            return look_up(host, port, **options)
        asked.append(host)
        answers.wait()
        return look_up("127.0.0.1", port, **options)

    monkeypatch.setattr(socket, "getaddrinfo", wait)

    async def test(stage: Stage) -> None:
        far = (FAR[0], stage.broker_port)
        client, broker = await stage.connect()
        await exchange(client, broker, request(METADATA, 1, 2, "c"))
        await broker.give(metadata(1, 2, far))
        await until(lambda: bool(stage.source.checkpoint()["ports"]))
        (port,) = stage.source.checkpoint()["ports"].values()
        waiting = [await stage.dial(port) for _ in range(3)]
        await until(lambda: bool(asked))
        try:
            await stage.connect()
        finally:
            answers.set()
        for client in waiting:
            await client.give(opaque(0, 1, "c", 40))
        for _ in waiting:
            await (await stage._arrival()).take(len(opaque(0, 1, "c", 40)))
        assert len(asked) < 1 + len(waiting)  # they wait for the same answer

    on_stage(test)


def test_a_silent_name_of_a_list_holds_up_no_other_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    look_up, asked, ended = socket.getaddrinfo, list[str](), threading.Event()

    def wait(host: str, port: int, **options: Any) -> Any:
        if options["flags"]:
            return look_up(host, port, **options)
        asked.append(host)
        if host == "silent":
            ended.wait()
        if host != "good":
            raise socket.gaierror(socket.EAI_NONAME, "not known")
        return look_up("127.0.0.1", port, **options)

    monkeypatch.setattr(socket, "getaddrinfo", wait)
    resolver = Resolver(lambda ready: ready())
    answers = SimpleQueue[list[str]]()

    def resolve(*hosts: str) -> None:
        nodes = [HostPort(host, 9092) for host in hosts]
        resolver.resolve(nodes, lambda found: answers.put([each.node.host for each in found]))

    try:
        resolve("silent", "unknown", "good")
        resolve("good", "silent")
        assert [answers.get(timeout=30) for _ in range(2)] == [["good"], ["good"]]
        assert asked.count("silent") == 1  # however many lists name it
    finally:
        ended.set()
    resolve("unknown", "silent")
    assert answers.get(timeout=30) == []


def test_brokers_beyond_the_ports_stay_as_they_are() -> None:
    async def test(stage: Stage) -> None:
        client, broker = await stage.connect()
        await exchange(client, broker, request(METADATA, 1, 1, "c"))
        await exchange(broker, client, metadata(1, 1, FAR))
        assert stage.source.health.errors["ports_exhausted"] == 1

    on_stage(test, broker_ports=0)


def test_an_address_that_is_taken_is_tried_again() -> None:
    async def play() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            source = ProxySource(ProxyConfig(listen=f"127.0.0.1:{port}", upstream=("b:1",)))
            running = asyncio.create_task(source.run(lambda _signals: None, lambda *_: None))
            await until(lambda: source.health.errors.get("listen") == 1)
            assert not source.health.up
            running.cancel()
            await asyncio.wait([running])

    asyncio.run(play())


def count_descriptors() -> int:
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))


def test_waiting_for_an_address_takes_no_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "_RETRY_S", 0.001)

    async def play() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            source = ProxySource(ProxyConfig(listen=f"127.0.0.1:{port}", upstream=("b:1",)))
            running = asyncio.create_task(source.run(lambda _signals: None, lambda *_: None))
            await until(lambda: source.health.errors.get("listen", 0) > 1)
            open_at_first = count_descriptors()
            await until(lambda: source.health.errors.get("listen", 0) > 50)
            assert count_descriptors() < open_at_first + 10
            running.cancel()
            await asyncio.wait([running])

    asyncio.run(play())


@pytest.mark.parametrize(
    ("config", "got"),
    [
        ({"listen": "x", "upstream": ("b:1",)}, "listen: found 'x'"),
        ({"listen": ":1", "upstream": ()}, "upstream: wanted at least one broker"),
        ({"listen": ":1", "upstream": (":9092",)}, "upstream[0]: found ':9092'"),
        ({"listen": ":1", "upstream": ("a..b:9092",)}, "upstream[0]: found 'a..b:9092'"),
    ],
)
def test_a_wrong_configuration_is_refused(config: dict[str, Any], got: str) -> None:
    with pytest.raises(ConfigError) as raised:
        ProxyConfig(**config)

    assert str(raised.value).startswith(got)
