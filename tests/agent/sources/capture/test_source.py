"""The connections that a capture follows, and its reading of packets as from a kernel."""

import asyncio
import socket
import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self, cast

import pytest

from agent.errors import SourceError
from agent.sources.capture.bpf import CONNECTIONS_LIMIT, FilterRule, build_program
from agent.sources.capture.config import CaptureConfig
from agent.sources.capture.connection_classifier import (
    UNPROVEN_BYTES,
    ConnectionClassifier,
    PacketAction,
)
from agent.sources.capture.packet_socket import NOT_PERMITTED, CapturedPacket, PacketSocket
from agent.sources.capture.session import CaptureSession
from agent.sources.capture.source import CaptureSource
from agent.wire.connection import ConnectionClosed, DecodedRequest, DecodedResponse
from agent.wire.members.disconnects import RECONNECT_S
from agent.wire.tcp.packets import TcpSegment, read_segment
from metrics.model.signals import Signal
from tests.agent.sources.capture.ip_packets import (
    ACK,
    FIN,
    RST,
    SYN,
    V4,
    V6,
    Talk,
    from_broker,
    to_broker,
)
from tests.agent.wire.frames import (
    FETCH,
    FIND_COORDINATOR,
    HEARTBEAT,
    JOIN_GROUP,
    answer,
    opaque,
    request,
)
from tests.net_raw import needs_net_raw

BEAT = request(HEARTBEAT, 4, 7, "m1", group_id="g", generation_id=3, member_id="m1-a")
GOOD = answer(HEARTBEAT, 4, 7, error_code=0)
FETCHING = opaque(FETCH, 8, "m1", 50)
HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100)


def _segment(packet: bytes) -> TcpSegment:
    segment = read_segment(101, packet)
    assert segment is not None
    return segment


@pytest.fixture
def watch() -> ConnectionClassifier:
    return ConnectionClassifier(frozenset({9092}))


def _show(watch: ConnectionClassifier, *packets: bytes) -> list[PacketAction]:
    return [watch.classify(_segment(packet)) for packet in packets]


def _begin(watch: ConnectionClassifier, talk: Talk = V4) -> None:
    _show(watch, to_broker(talk, b"", SYN), from_broker(talk, b"", SYN | ACK))


@pytest.mark.parametrize("talk", [V4, V6])
def test_a_new_connection_is_read_from_its_beginning(
    watch: ConnectionClassifier, talk: Talk
) -> None:
    find = request(FIND_COORDINATOR, 4, 1, "m1")

    fates = _show(watch, to_broker(talk, b"", SYN), to_broker(talk, find))

    assert (fates, watch.connections) == (
        [PacketAction.READ, PacketAction.READ],
        {talk.ends: FilterRule.SHORT},
    )


def test_its_first_group_request_opens_it_wide(watch: ConnectionClassifier) -> None:
    _begin(watch)

    _show(watch, to_broker(V4, BEAT))

    assert (watch.connections, watch.changed) == ({V4.ends: FilterRule.ALL}, True)


def test_a_fetch_without_a_group_before_ends_it(watch: ConnectionClassifier) -> None:
    _begin(watch)

    fates = _show(watch, to_broker(V4, FETCHING), to_broker(V4, FETCHING))

    assert fates == [PacketAction.FORGET, PacketAction.SKIP]
    assert watch.connections == {V4.ends: FilterRule.REQUESTS}


def test_a_fetch_beside_a_group_leaves_short_segments(watch: ConnectionClassifier) -> None:
    _show(watch, to_broker(V4, BEAT), to_broker(V4, FETCHING), to_broker(V4, BEAT))

    assert watch.connections == {V4.ends: FilterRule.SHORT}
    assert watch.counts["mixed_connection"] == 1


def test_tls_is_not_followed_but_counted(watch: ConnectionClassifier) -> None:
    _begin(watch)

    assert _show(watch, to_broker(V4, HELLO)) == [PacketAction.FORGET]
    assert watch.counts["encrypted"] == 1


def test_much_that_is_no_group_is_not_followed(watch: ConnectionClassifier) -> None:
    _begin(watch)
    piece = bytes(1 << 14)

    fates = _show(watch, *[from_broker(V4, piece)] * (UNPROVEN_BYTES // len(piece) + 1))

    assert (fates[-2], fates[-1]) == (PacketAction.READ, PacketAction.FORGET)


@pytest.mark.parametrize("talk", [V4, V6])
def test_a_connection_is_found_in_mid_stream_by_a_group_request(
    watch: ConnectionClassifier, talk: Talk
) -> None:
    fates = _show(watch, from_broker(talk, GOOD), to_broker(talk, BEAT), from_broker(talk, GOOD))

    assert fates == [PacketAction.SKIP, PacketAction.READ, PacketAction.READ]
    assert (watch.connections, watch.joined_mid_stream) == (
        {talk.ends: FilterRule.ALL},
        [talk.ends],
    )


def test_a_dull_connection_that_asks_for_a_group_is_followed(watch: ConnectionClassifier) -> None:
    _begin(watch)
    _show(watch, to_broker(V4, FETCHING))

    assert _show(watch, to_broker(V4, BEAT)) == [PacketAction.READ]
    assert watch.connections == {V4.ends: FilterRule.ALL}


def test_answers_that_nobody_needs_are_stopped(watch: ConnectionClassifier) -> None:
    _show(watch, *[from_broker(V4, GOOD)] * 7)
    before = dict(watch.connections)

    _show(watch, from_broker(V4, GOOD))

    assert (before, watch.connections) == ({}, {V4.ends: FilterRule.REQUESTS})


@pytest.mark.parametrize("packet", [to_broker(V4, b"", FIN | ACK), from_broker(V4, b"", FIN | ACK)])
def test_an_end_is_read_once_and_leaves_nothing(watch: ConnectionClassifier, packet: bytes) -> None:
    _show(watch, to_broker(V4, BEAT))

    assert _show(watch, packet, packet) == [PacketAction.READ, PacketAction.SKIP]
    assert watch.connections == {}


def test_ports_used_again_are_another_connection(watch: ConnectionClassifier) -> None:
    _show(watch, to_broker(V4, BEAT))

    _begin(watch)

    assert watch.connections == {V4.ends: FilterRule.SHORT}


def test_there_is_an_end_to_what_is_followed(watch: ConnectionClassifier) -> None:
    talks = [V4._replace(client=(V4.client[0], 10_000 + i)) for i in range(2 * CONNECTIONS_LIMIT)]

    for talk in talks:
        _begin(watch, talk)
        _show(watch, *[from_broker(talk._replace(server=("10.0.0.7", 9092)), GOOD)] * 8)
        _begin(watch, talk._replace(server=("10.0.0.8", 9092)))
        _show(watch, to_broker(talk._replace(server=("10.0.0.8", 9092)), FETCHING))

    assert len(watch.connections) <= CONNECTIONS_LIMIT
    assert talks[-1].ends in watch.connections
    assert watch.counts["connection_evicted"] > 0


def test_more_groups_than_the_filter_can_list_are_read_all_the_same(
    watch: ConnectionClassifier,
) -> None:
    talks = [V4._replace(client=(V4.client[0], 10_000 + i)) for i in range(CONNECTIONS_LIMIT)]
    for talk in talks:
        assert _show(watch, to_broker(talk, BEAT)) == [PacketAction.READ]
    watch.joined_mid_stream.clear()
    watch.changed = False

    answers = [_show(watch, from_broker(talk, GOOD)) for talk in talks]
    again = [_show(watch, to_broker(talk, BEAT)) for talk in talks]

    assert answers == again == [[PacketAction.READ]] * len(talks)
    assert (watch.joined_mid_stream, watch.changed) == ([], False)


def test_what_the_filter_could_not_list_is_listed_when_there_is_room(
    watch: ConnectionClassifier,
) -> None:
    talks = [V4._replace(client=(V4.client[0], 10_000 + i)) for i in range(CONNECTIONS_LIMIT)]
    for talk in talks:
        _show(watch, to_broker(talk, BEAT))
    assert talks[0].ends not in watch.connections

    _show(watch, to_broker(talks[-1], b"", FIN | ACK), to_broker(talks[0], BEAT))

    assert watch.connections[talks[0].ends] is FilterRule.ALL


class Pipe:
    """A kernel that hands over the packets of a test, and has little room for filters."""

    batch = 4

    def __init__(self, *packets: bytes, room: int = 1 << 20) -> None:
        self.packets = [CapturedPacket(1_000.0 + i, each) for i, each in enumerate(packets)]
        self.room, self.drops, self.code = room, 0, b""

    def set_filter(self, code: bytes) -> bool:
        if len(code) > self.room:
            return False
        self.code = code
        return True

    def read(self) -> list[CapturedPacket]:
        batch, self.packets = self.packets[: self.batch], self.packets[self.batch :]
        return batch

    def take_drops(self) -> int:
        drops, self.drops = self.drops, 0
        return drops

    def fileno(self) -> int:
        return -1

    def close(self) -> None:
        pass


def _reading(pipe: Pipe) -> CaptureSession:
    return CaptureSession(cast("PacketSocket", pipe), [9092], Counter())


def _conversation(talk: Talk) -> list[bytes]:
    """Return a heartbeat that was found in mid-stream, its answer, and the end."""
    return [
        to_broker(talk, BEAT, seq=1, ack=1),
        from_broker(talk, GOOD, seq=1, ack=1 + len(BEAT)),
        to_broker(talk, b"", FIN | ACK, seq=1 + len(BEAT), ack=1 + len(GOOD)),
    ]


@pytest.mark.parametrize(
    ("end", "by_client"),
    [
        (to_broker(V4, b"", FIN | ACK, seq=1 + len(BEAT), ack=1 + len(GOOD)), True),
        (to_broker(V4, b"", RST, seq=1 + len(BEAT)), True),
        (from_broker(V4, b"", FIN | ACK, seq=1 + len(GOOD), ack=1 + len(BEAT)), False),
        (from_broker(V4, b"", RST, seq=1 + len(GOOD)), False),
    ],
)
def test_who_ends_a_connection_is_known(end: bytes, *, by_client: bool) -> None:
    """A client that dies ends its connections, and its broker's end is no sign of a death."""
    *talk, _ = _conversation(V4)

    *_, closed = _reading(Pipe(*talk, end)).read()

    assert isinstance(closed, ConnectionClosed)
    assert closed.by_client == by_client


@pytest.mark.parametrize("talk", [V4, V6])
def test_a_conversation_is_read_and_the_filter_changes_with_it(talk: Talk) -> None:
    pipe = Pipe(*_conversation(talk))
    pipe.batch = 2
    reading = _reading(pipe)

    events = reading.read()

    assert [type(event) for event in events] == [DecodedRequest, DecodedResponse]
    assert (pipe.code, reading.is_behind) == (
        build_program([9092], {talk.ends: FilterRule.ALL}),
        True,
    )
    assert [type(event) for event in reading.read()] == [ConnectionClosed]
    assert (reading.is_behind, reading.watermark) == (False, 1_002.0)
    assert [each.client for each in reading.take_joined()] == [talk.ends.client]
    assert reading.take_joined() == []


def test_brokers_are_followed_to_the_ports_that_answers_name() -> None:
    """Beside those that are configured, and as they change."""
    there = V4._replace(server=(V4.server[0], 9093))
    pipe = Pipe(to_broker(there, BEAT), to_broker(there, BEAT))
    pipe.batch = 1
    reading = _reading(pipe)
    before = reading.read()

    reading.follow([9093])

    assert (before, pipe.code) == ([], build_program([9092, 9093], {}))
    assert [type(event) for event in reading.read()] == [DecodedRequest]
    reading.follow([9094])
    assert pipe.code == build_program([9092, 9094], {there.ends: FilterRule.ALL})


def test_a_source_follows_what_find_coordinator_answers() -> None:
    find = request(FIND_COORDINATOR, 2, 7, "m1", key="g")
    found = answer(FIND_COORDINATOR, 2, 7, host="b2", port=9093)
    pipe = Pipe(
        to_broker(V4, b"", SYN, seq=0),
        to_broker(V4, find, seq=1, ack=1),
        from_broker(V4, found, seq=1, ack=1 + len(find)),
    )
    bench = Bench(pipe)

    bench.step(*bench.start())

    assert pipe.code == build_program([9092, 9093], {V4.ends: FilterRule.SHORT})


def test_what_was_no_group_connection_is_read_anew_when_it_becomes_one() -> None:
    pipe = Pipe(
        to_broker(V4, b"", SYN, seq=0),
        to_broker(V4, FETCHING, seq=1, ack=1),
        to_broker(V4, BEAT, seq=90_000, ack=5_000_000),
        from_broker(V4, GOOD, seq=5_000_000, ack=90_000 + len(BEAT)),
    )
    counts: Counter[str] = Counter()

    events = CaptureSession(cast("PacketSocket", pipe), [9092], counts).read()

    assert [type(event) for event in events] == [ConnectionClosed, DecodedRequest, DecodedResponse]
    assert not +counts


def test_an_answer_that_was_lost_is_given_up_though_nothing_more_comes() -> None:
    lost = request(HEARTBEAT, 4, 8, "m1", group_id="g", generation_id=3, member_id="m1-a")
    pipe = Pipe(
        to_broker(V4, BEAT, seq=1, ack=1),
        to_broker(V4, lost, seq=1 + len(BEAT), ack=1 + len(GOOD)),
    )
    reading = _reading(pipe)
    assert len(reading.read()) == 1

    events = reading.expire(1_010.0)

    assert [type(event) for event in events] == [DecodedRequest]


def test_where_the_kernel_has_little_room_the_newest_connections_are_kept() -> None:
    talks = [V4._replace(client=(V4.client[0], 40_000 + i)) for i in range(4)]
    room = len(build_program([9092], {talk.ends: FilterRule.ALL for talk in talks[:2]}))
    pipe, counts = Pipe(*[to_broker(talk, BEAT) for talk in talks], room=room), Counter[str]()

    CaptureSession(cast("PacketSocket", pipe), [9092], counts).read()

    assert pipe.code == build_program([9092], {talks[3].ends: FilterRule.ALL})
    assert counts["filter_too_long"] == 1


def test_where_there_is_room_for_no_filter_nothing_is_captured() -> None:
    with pytest.raises(SourceError, match="optmem_max"):
        _reading(Pipe(room=8))


def test_lost_packets_are_counted() -> None:
    pipe, counts = Pipe(), Counter[str]()
    reading = CaptureSession(cast("PacketSocket", pipe), [9092], counts)
    pipe.drops = 3

    reading.count_drops()
    reading.count_drops()

    assert counts["lost_packets"] == 3


@pytest.mark.parametrize("packet", [b"", b"\x45", bytes(60), b"\x45" + bytes(19)])
def test_odd_packets_are_passed_over(packet: bytes) -> None:
    assert _reading(Pipe(packet)).read() == []


def _refuse(_: str) -> PacketSocket:
    raise SourceError(NOT_PERMITTED)


def test_without_the_capability_it_says_what_to_do() -> None:
    with pytest.raises(SourceError, match=r"CAP_NET_RAW is missing; in Kubernetes: .*setcap"):
        CaptureSource(CaptureConfig(), open_socket=_refuse)


class Stage:
    """A capture of this machine's loopback, and a server there that only sends given bytes."""

    def __init__(self, host: str) -> None:
        self.host, self.signals, self.pauses = host, list[Signal](), 0
        self.seen = asyncio.Event()

    async def __aenter__(self) -> Self:
        self.server = await asyncio.start_server(self._answer, self.host, 0)
        self.port: int = self.server.sockets[0].getsockname()[1]
        self.source = CaptureSource(CaptureConfig(ports=(self.port,)))
        return self

    async def __aexit__(self, *_: object) -> None:
        self.running.cancel()
        await asyncio.gather(self.running, return_exceptions=True)
        self.server.close()
        await self.server.wait_closed()

    async def capture(self) -> None:
        self.running = asyncio.create_task(self.source.run(self._emit, lambda _stream, _at: None))
        await asyncio.sleep(0)  # it runs up to its first wait
        assert self.source.health.up

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self.host, self.port)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1 << 16):
            writer.write(GOOD)
        writer.close()

    def _emit(self, signals: Sequence[Signal]) -> None:
        self.signals += signals
        self.seen.set()


async def _beat(ends: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
    reader, writer = ends
    writer.write(BEAT)
    assert await reader.readexactly(len(GOOD)) == GOOD


@needs_net_raw
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
@pytest.mark.parametrize("mid_stream", [False, True])
def test_loopback_shows_each_message_once(host: str, mid_stream: bool) -> None:
    async def play() -> Stage:
        async with Stage(host) as stage:
            if not mid_stream:
                await stage.capture()
            ends = await stage.connect()
            if mid_stream:
                await _beat(ends)
                await stage.capture()
            await _beat(ends)
            await asyncio.wait_for(stage.seen.wait(), 10)
            ends[1].close()
            await ends[1].wait_closed()
        return stage

    stage = asyncio.run(play())

    health = stage.source.health
    assert [(each.member.client_id, each.kind) for each in stage.signals] == [("m1", "seen")]
    assert (stage.signals[0].member.host, health.signals) == (host, 1)
    assert stage.source.checkpoint() == {}
    assert not any(health.errors.values())


@needs_net_raw
def test_an_interface_that_is_not_there_is_waited_for() -> None:
    pauses = asyncio.Event()

    async def pause(_: float) -> None:
        pauses.set()
        await asyncio.Event().wait()

    async def play() -> CaptureSource:
        source = CaptureSource(CaptureConfig(interface="nowhere0"), pause=pause)
        running = asyncio.create_task(source.run(lambda _: None, lambda _stream, _at: None))
        await asyncio.wait_for(pauses.wait(), 10)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return source

    health = asyncio.run(play()).health

    assert (health.up, health.errors) == (False, {"interface": 1})


@dataclass(slots=True)
class Bench:
    """A source with a `Pipe` in place of the kernel, advanced by the test."""

    pipe: Pipe
    now: float = 1_010.0
    signals: list[Signal] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    cut: list[str] = field(default_factory=list)
    """Those of them that their brokers have ended."""

    def start(self) -> tuple[CaptureSource, CaptureSession]:
        opened = cast("PacketSocket", self.pipe)
        source = CaptureSource(
            CaptureConfig(), clock=lambda: self.now, open_socket=lambda _: opened
        )
        source._session = reading = CaptureSession(opened, [9092], source._counts)
        return source, reading

    def _detach(self, stream: str, _at: float, *, is_cut: bool) -> None:
        self.ended.append(stream)
        self.cut += [stream] if is_cut else []

    def step(self, source: CaptureSource, reading: CaptureSession) -> None:
        source._read_packets(reading, self.signals.extend)
        source._tick(reading, self.signals.extend, self._detach)


def test_what_a_person_should_know_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    other = V4._replace(client=(V4.client[0], 40_001))
    tls = [to_broker(other, b"", SYN), to_broker(other, HELLO, seq=1, ack=1)]
    bench = Bench(Pipe(*_conversation(V4)[:2], *tls))
    source, reading = bench.start()
    bench.pipe.drops = 3

    bench.step(source, reading)
    bench.step(source, reading)

    said = ["capture_joined_mid_stream", "capture_lost_packets", "capture_encrypted"]
    assert [record.message for record in caplog.records] == said
    assert source.health.errors == {"lost_packets": 3, "encrypted": 1}
    assert source.health.read_bytes > 0


def test_a_member_whose_connection_ended_for_good_is_let_go() -> None:
    bench = Bench(Pipe(*_conversation(V4)))
    source, reading = bench.start()
    bench.step(source, reading)
    before = list(bench.ended)

    bench.now += RECONNECT_S
    bench.step(source, reading)

    assert (before, bench.ended, bench.cut) == ([], ["10.0.0.2:40000"], [])


def test_a_capture_that_is_behind_says_how_far() -> None:
    bench = Bench(Pipe(*[to_broker(V4, FETCHING)] * 5))
    source, reading = bench.start()

    bench.step(source, reading)

    assert (source.watermark(bench.now), source.health.lag_s) == (1_003.0, 7.0)
    bench.step(source, reading)
    assert (source.watermark(bench.now), source.health.lag_s) == (bench.now, 0.0)


def test_a_fault_of_ours_ends_the_run_and_is_not_swallowed() -> None:
    one, other = socket.socketpair()
    pipe = Pipe()

    def fail() -> list[CapturedPacket]:
        raise AssertionError("a bug")

    async def play() -> None:
        source = CaptureSource(CaptureConfig(), open_socket=lambda _: cast("PacketSocket", pipe))
        other.send(b"x")
        await source.run(lambda _: None, lambda _stream, _at: None)

    pipe.fileno, pipe.read = one.fileno, fail  # type: ignore[method-assign]
    with one, other, pytest.raises(AssertionError, match="a bug"):
        asyncio.run(play())


def test_where_memory_is_short_a_long_frame_is_given_up_and_nothing_waits() -> None:
    begun = struct.pack(">ihhih", 1 << 20, JOIN_GROUP, 5, 9, 2) + b"m1" + bytes(70_000)
    lost = request(HEARTBEAT, 4, 8, "m1", group_id="g", generation_id=3, member_id="m1-a")
    other = V4._replace(client=(V4.client[0], 40_001))
    bench = Bench(
        Pipe(
            to_broker(V4, BEAT, seq=1, ack=1),
            *(
                to_broker(V4, begun[at : at + 1_400], seq=1 + len(BEAT) + at, ack=1)
                for at in range(0, len(begun), 1_400)
            ),
            to_broker(other, BEAT, seq=1, ack=1),
            to_broker(other, lost, seq=1 + len(BEAT), ack=1 + len(GOOD)),
        )
    )
    bench.pipe.batch = 100
    source, reading = bench.start()
    bench.step(source, reading)
    assert not +source._counts

    source.shrink_buffers()
    bench.step(source, reading)

    assert +source._counts == {"opaque_memory": 1, "gap": 1}
    assert reading.expire(1_011.0) == []
