"""Packets: every link layer, both IPs, nothing raises."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.wire.codec.messages import HostPort
from agent.wire.tcp.packets import ACK, TcpSegment, format_endpoint, is_known_link, read_segment
from tests.agent.wire.captures import CLIENT, SERVER, ethernet, packet

V4 = TcpSegment(CLIENT, SERVER, 7, 9, ACK, b"hello", 0)
V6 = V4._replace(
    source=bytes(15) + b"\x01\xc3\x51", target=b"\xfe\x80" + bytes(13) + b"\x02\x23\x84"
)
HEADS = {
    0: b"\x02\0\0\0",
    12: b"",
    14: b"",
    101: b"",
    108: b"\0\0\0\x02",
    228: b"",
    229: b"",
}


@pytest.mark.parametrize("segment", [V4, V6])
@pytest.mark.parametrize("link_type", HEADS)
def test_links_without_a_type(link_type: int, segment: TcpSegment) -> None:
    assert read_segment(link_type, HEADS[link_type] + packet(segment)) == segment


@pytest.mark.parametrize(("segment", "kind"), [(V4, b"\x08\0"), (V6, b"\x86\xdd")])
def test_links_with_a_type(segment: TcpSegment, kind: bytes) -> None:
    ip = packet(segment)
    tag = b"\x81\0\0\x05"

    assert read_segment(1, ethernet(segment)) == segment
    assert read_segment(1, bytes(12) + tag + kind + ip) == segment
    assert read_segment(1, bytes(12) + b"\x88\xa8\0\x01" + tag + kind + ip) == segment
    assert read_segment(113, bytes(14) + kind + ip) == segment
    assert read_segment(276, kind + bytes(18) + ip) == segment


def test_padding_of_a_short_frame_is_no_data() -> None:
    assert read_segment(1, ethernet(V4) + bytes(9)) == V4


def test_what_the_capture_cut_off_is_missing() -> None:
    assert read_segment(101, packet(V4)[:-2]) == V4._replace(data=b"hel", missing=2)


def test_a_header_that_ends_before_its_addresses_is_no_segment() -> None:
    ip = bytearray(packet(V4)[:14])
    ip[0] = 0x40  # a header of no bytes: the ports would stand where the header does

    assert read_segment(101, bytes(ip)) is None


def test_a_length_of_zero_is_the_rest_of_the_packet() -> None:
    ip = bytearray(packet(V4))
    ip[2:4] = b"\0\0"

    assert read_segment(101, bytes(ip)) == V4


def test_extension_headers_are_passed_over() -> None:
    ip = packet(V6)
    size = struct.pack(">H", struct.unpack(">H", ip[4:6])[0] + 16)
    head = ip[:4] + size + b"\0" + ip[7:40]
    extensions = b"\x3c\0" + bytes(6) + b"\x06\0" + bytes(6)

    assert read_segment(101, head + extensions + ip[40:]) == V6


@pytest.mark.parametrize("frag", [b"\x20\0", b"\0\x05"])
def test_fragments_are_no_segments(frag: bytes) -> None:
    ip = packet(V4)

    assert read_segment(101, ip[:6] + frag + ip[8:]) is None


def test_other_protocols_are_no_segments() -> None:
    ip = packet(V4)

    assert read_segment(101, ip[:9] + b"\x11" + ip[10:]) is None
    assert read_segment(1, bytes(12) + b"\x08\x06" + ip) is None
    assert read_segment(999, ip) is None


def test_endpoints_are_addresses() -> None:
    assert format_endpoint(V4.source) == HostPort("10.0.0.1", 50001)
    assert format_endpoint(V6.target) == HostPort("fe80::2", 9092)


@given(st.sampled_from([*HEADS, 1, 113, 276, 999]), st.binary(max_size=120))
def test_nothing_raises(link_type: int, frame: bytes) -> None:
    assert read_segment(link_type, frame) is None or is_known_link(link_type)
