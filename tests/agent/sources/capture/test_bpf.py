"""The kernel itself runs the program, on a datagram socket: that needs no privilege."""

import socket
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest

from agent.sources.capture.bpf import (
    CONNECTIONS_LIMIT,
    GROUP_APIS,
    RECORD_APIS,
    SHORT_BYTES,
    ConnectionKey,
    FilterRule,
    attach_program,
    build_program,
)
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

PORTS = (9092, 9093)
BULK = bytes(SHORT_BYTES + 1)


@dataclass(slots=True)
class Gate:
    """Two ends of a socket with a filter: a packet arrives if the filter passes it."""

    outside: socket.socket
    inside: socket.socket

    def set(self, connections: Mapping[ConnectionKey, FilterRule] | None = None) -> None:
        attach_program(self.inside, build_program(PORTS, connections or {}))

    def passes(self, packet: bytes) -> bool:
        self.outside.send(packet)
        try:
            return self.inside.recv(1 << 18) == packet
        except BlockingIOError:
            return False


@pytest.fixture
def gate() -> Iterator[Gate]:
    outside, inside = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with outside, inside:
        inside.setblocking(False)
        gate = Gate(outside, inside)
        gate.set()
        yield gate


def _request(api_key: int, size: int = 40) -> bytes:
    return struct.pack(">ihhih2s", size, api_key, 4, 7, 2, b"m1") + bytes(size - 12)


def _answer(size: int) -> bytes:
    return struct.pack(">i", size - 4) + bytes(size - 4)


@pytest.mark.parametrize("talk", [V4, V6])
@pytest.mark.parametrize("api_key", sorted(GROUP_APIS))
def test_a_group_request_passes_on_any_connection(gate: Gate, talk: Talk, api_key: int) -> None:
    assert gate.passes(to_broker(talk, _request(api_key)))


@pytest.mark.parametrize("talk", [V4, V6])
@pytest.mark.parametrize("api_key", [3, 9, 10, 17, 18, 36])
def test_so_does_a_request_that_may_come_before_one(gate: Gate, talk: Talk, api_key: int) -> None:
    assert gate.passes(to_broker(talk, _request(api_key)))


@pytest.mark.parametrize("talk", [V4, V6])
def test_a_group_request_of_several_segments_passes_by_its_first(gate: Gate, talk: Talk) -> None:
    segments = [_request(11, 2 * SHORT_BYTES)[:1448], _request(3, 2 * SHORT_BYTES)[:1448]]

    assert [gate.passes(to_broker(talk, each)) for each in segments] == [True, False]


@pytest.mark.parametrize("talk", [V4, V6])
@pytest.mark.parametrize("api_key", [*sorted(RECORD_APIS), 268])
def test_requests_for_records_do_not(gate: Gate, talk: Talk, api_key: int) -> None:
    assert not gate.passes(to_broker(talk, _request(api_key)))


def test_a_group_request_to_another_port_does_not(gate: Gate) -> None:
    talk = V4._replace(server=(V4.server[0], 9094))

    assert not gate.passes(to_broker(talk, _request(12)))


@pytest.mark.parametrize(
    "payload",
    [
        struct.pack(">ihhi", 9 << 20, 12, 4, 7),
        struct.pack(">ihhi", -1, 12, 4, 7),
        struct.pack(">ihhi", 40, 12, 99, 7),
        struct.pack(">ihhi", 40, 12, 4, -7),
        struct.pack(">ih", 40, 12),
    ],
)
def test_what_only_looks_like_one_does_not(gate: Gate, payload: bytes) -> None:
    assert not gate.passes(to_broker(V4, payload))


@pytest.mark.parametrize("talk", [V4, V6])
@pytest.mark.parametrize("flags", [SYN, SYN | ACK, FIN | ACK, RST])
def test_beginnings_and_ends_pass(gate: Gate, talk: Talk, flags: int) -> None:
    packets = [to_broker(talk, b"", flags), from_broker(talk, b"", flags)]

    assert [gate.passes(packet) for packet in packets] == [True, True]


def test_bare_acknowledgements_do_not_even_on_a_followed_connection(gate: Gate) -> None:
    gate.set({V4.ends: FilterRule.ALL})

    assert not gate.passes(to_broker(V4, b""))


@pytest.mark.parametrize("talk", [V4, V6])
@pytest.mark.parametrize(
    ("payload", "passes"),
    [
        (_answer(20), True),
        (_answer(SHORT_BYTES), True),
        (_answer(SHORT_BYTES + 1), False),
        (_answer(20) + b"more", False),
        (b"the middle of records", False),
    ],
)
def test_short_answers_pass_of_unknown_connections(
    gate: Gate, talk: Talk, payload: bytes, passes: bool
) -> None:
    assert gate.passes(from_broker(talk, payload)) is passes


@pytest.mark.parametrize("talk", [V4, V6])
@pytest.mark.parametrize("options", [b"", bytes(12)])
def test_everything_of_a_group_connection_passes(gate: Gate, talk: Talk, options: bytes) -> None:
    gate.set({talk.ends: FilterRule.ALL})
    packets = [
        to_broker(talk, BULK, options=options),
        from_broker(talk, BULK, options=options),
        to_broker(talk, b"x", options=options),
    ]

    assert [gate.passes(packet) for packet in packets] == [True, True, True]


@pytest.mark.parametrize("talk", [V4, V6])
def test_short_segments_of_an_unproven_connection_pass(gate: Gate, talk: Talk) -> None:
    gate.set({talk.ends: FilterRule.SHORT})
    packets = [from_broker(talk, BULK[:-1]), to_broker(talk, b"x"), from_broker(talk, BULK)]

    assert [gate.passes(packet) for packet in packets] == [True, True, False]


@pytest.mark.parametrize("talk", [V4, V6])
def test_a_dull_connection_shows_group_requests_alone(gate: Gate, talk: Talk) -> None:
    gate.set({talk.ends: FilterRule.REQUESTS})
    packets = [
        to_broker(talk, _request(11)),
        to_broker(talk, _request(1)),
        from_broker(talk, _answer(20)),
    ]

    assert [gate.passes(packet) for packet in packets] == [True, False, False]


@pytest.mark.parametrize("what", list(FilterRule))
def test_connections_are_told_apart_by_all_four_parts(gate: Gate, what: FilterRule) -> None:
    others = [
        V4._replace(client=("10.0.0.3", V4.client[1])),
        V4._replace(client=(V4.client[0], 40_001)),
        V4._replace(server=("10.0.0.8", V4.server[1])),
        V4._replace(server=(V4.server[0], 9093)),
    ]
    before = [gate.passes(from_broker(each, BULK)) for each in others]
    short = [gate.passes(from_broker(each, _answer(20))) for each in others]

    gate.set({V4.ends: what})

    assert [gate.passes(from_broker(each, BULK)) for each in others] == before
    assert [gate.passes(from_broker(each, _answer(20))) for each in others] == short


def test_each_of_as_many_connections_as_there_may_be_is_found(gate: Gate) -> None:
    talks = [V4._replace(client=(V4.client[0], 40_000 + i)) for i in range(CONNECTIONS_LIMIT)]
    kinds = list(FilterRule)
    gate.set({talk.ends: kinds[i % 3] for i, talk in enumerate(talks)})

    seen = [
        (gate.passes(from_broker(talk, BULK)), gate.passes(from_broker(talk, _answer(20))))
        for talk in talks
    ]

    wanted = [(True, True), (False, True), (False, False)]
    assert seen == [wanted[i % 3] for i in range(CONNECTIONS_LIMIT)]


def test_fragments_and_other_protocols_do_not_pass(gate: Gate) -> None:
    packet = bytearray(to_broker(V4, _request(12)))
    fragment, udp, odd = bytearray(packet), bytearray(packet), bytearray(packet)
    fragment[7], udp[9], odd[0] = 1, 17, 0x55

    assert [gate.passes(bytes(each)) for each in (packet, fragment, udp, odd)] == [
        True,
        False,
        False,
        False,
    ]
