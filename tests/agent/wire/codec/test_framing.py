"""Frames: in any pieces, with memory for wanted frames only."""

import struct
import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import DecodeError
from agent.wire.codec.framing import Framer

WANTED = b"\0\x01"


def framer() -> Framer:
    return Framer(2)


def feed(reader: Framer, data: bytes) -> list[bytes]:
    return reader.feed(data, lambda head, _size: head == WANTED)


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


BODIES = st.lists(st.binary(max_size=12) | st.binary(max_size=6).map(lambda tail: WANTED + tail))


@given(BODIES, st.lists(st.integers(0, 200)))
def test_the_pieces_do_not_matter(bodies: list[bytes], cuts: list[int]) -> None:
    data = b"".join(map(frame, bodies))
    expected = [body for body in bodies if body.startswith(WANTED)]
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    reader = framer()

    got = [f for start, end in pairwise(edges) for f in feed(reader, data[start:end])]

    assert (got, feed(framer(), data)) == (expected, expected)
    reader = framer()
    assert [f for byte in data for f in feed(reader, bytes([byte]))] == expected


@given(st.lists(st.binary(max_size=40)))
def test_any_bytes_are_frames_or_a_decode_error(pieces: list[bytes]) -> None:
    reader = framer()
    try:
        for piece in pieces:
            feed(reader, piece)
    except DecodeError:
        return


def test_an_opaque_body_of_two_gibibytes_costs_nothing() -> None:
    reader = framer()
    piece = b"\x7f" * 65_536
    tracemalloc.start()
    feed(reader, struct.pack(">i", 2**31 - 1) + b"\0\0")
    for _ in range(2**31 // len(piece) - 1):
        assert feed(reader, piece) == []
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    feed(reader, piece[: 2**31 - 1 - 2 - len(piece) * (2**31 // len(piece) - 1)])

    assert peak < len(piece)  # other threads of the test run are counted too
    assert feed(reader, frame(WANTED)) == [WANTED]


def test_a_claim_of_two_gibibytes_of_a_wanted_frame_stores_what_came() -> None:
    reader = framer()
    feed(reader, struct.pack(">i", 2**31 - 1) + WANTED)

    assert len(reader._buffer) == 6


def test_a_negative_length_is_a_decode_error() -> None:
    with pytest.raises(DecodeError, match="-1 bytes"):
        feed(framer(), b"\xff\xff\xff\xff\0\0")


def test_a_loss_within_an_opaque_body_loses_nothing_else() -> None:
    reader = framer()
    feed(reader, struct.pack(">i", 100) + b"\0\0" + b"x" * 10)

    assert reader.skip_lost(80)
    assert feed(reader, b"x" * 8 + frame(WANTED)) == [WANTED]


@pytest.mark.parametrize("seen", [b"", frame(WANTED)[:5], struct.pack(">i", 100) + b"\0\0"])
def test_any_other_loss_loses_the_place(seen: bytes) -> None:
    reader = framer()
    feed(reader, seen)

    assert not reader.skip_lost(99)
    assert feed(reader, frame(WANTED)) == [WANTED]
