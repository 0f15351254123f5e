"""One connection: frames that are read, frames that are skipped, and the effect of faults."""

import random
import struct
from collections import Counter
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import DecodeError
from agent.wire.codec.apis import APIS, UnknownVersionError, read_request, read_response
from agent.wire.codec.correlation import PENDING_LIMIT, Correlation
from agent.wire.codec.framing import FRAME_LIMIT
from agent.wire.codec.messages import HeartbeatRequest, HostPort
from agent.wire.connection import ConnectionDecoder, looks_like_request
from tests.agent.wire.frames import FETCH, HEARTBEAT, JOIN_GROUP, answer, opaque, request


def connect(*, in_step: bool = True) -> ConnectionDecoder:
    return ConnectionDecoder(
        client=HostPort("c", 1), server=HostPort("b", 2), counts=Counter[str](), in_step=in_step
    )


def ask(number: int, client_id: str = "m1") -> bytes:
    return request(HEARTBEAT, 4, number, client_id, group_id="g", generation_id=1, member_id="a")


def tell(number: int, error: int = 27) -> bytes:
    return answer(HEARTBEAT, 4, number, error_code=error)


HELLO = ask(1)


class TestReading:
    def test_an_answer_finds_its_request(self) -> None:
        connection = connect()
        asked = connection.feed_client(HELLO, 1.0)[0]
        got = connection.feed_broker(tell(1), 2.0)[0]

        assert got.correlation_id == asked.correlation_id
        assert asked.message == HeartbeatRequest(
            group="g", generation=1, member_id="a", instance_id=None
        )
        assert (got.message.errors, got.at, connection.client_id) == ({27}, 2.0, "m1")

    def test_a_request_without_an_answer_holds_up_nothing(self) -> None:
        connection = connect()
        connection.feed_client(opaque(0, 1, "m1", 50) + ask(2), 1.0)  # Produce with acks=0

        assert len(connection.feed_broker(tell(2), 1.0)) == 1

    def test_pipelined_requests_are_answered_in_order(self) -> None:
        connection = connect()
        connection.feed_client(b"".join(ask(number) for number in range(20)), 1.0)

        assert (
            len(connection.feed_broker(b"".join(tell(number) for number in range(20)), 1.0)) == 20
        )

    def test_a_null_client_id_is_read(self) -> None:
        frame = struct.pack(">hhih", HEARTBEAT, 0, 1, -1) + b"\0\1g" + bytes(4) + b"\0\1a"

        assert len(connect().feed_client(struct.pack(">i", len(frame)) + frame, 1.0)) == 1

    @given(st.data())
    def test_the_pieces_do_not_matter(self, data: st.DataObject) -> None:
        numbers = range(1, data.draw(st.integers(2, 8)))
        asked = b"".join(ask(number) + opaque(FETCH, 0, "m1", 40) for number in numbers)
        got = b"".join(tell(number) for number in numbers)
        rng = random.Random(data.draw(st.integers()))
        connection = connect()

        for piece in _pieces(asked, rng):
            connection.feed_client(piece, 1.0)

        assert sum(len(connection.feed_broker(piece, 1.0)) for piece in _pieces(got, rng)) == len(
            numbers
        )


class TestFaults:
    def test_an_unknown_version_is_counted_and_passed_over(self) -> None:
        connection = connect()
        frame = HELLO[:6] + struct.pack(">h", 30) + HELLO[8:]

        assert connection.feed_client(frame + ask(2), 1.0)[0].at == 1.0
        assert connection.counts == {"version_12_30": 1}

    def test_a_message_that_cannot_be_read_makes_its_connection_opaque(self) -> None:
        counts = Counter[str]()
        broken, other = (
            ConnectionDecoder(client=HostPort("c", n), server=HostPort("b", 2), counts=counts)
            for n in (1, 2)
        )
        broken.feed_client(HELLO + struct.pack(">ihhih", 10, HEARTBEAT, 4, 2, 500), 1.0)
        other.feed_client(HELLO, 1.0)

        assert counts == {"opaque_request": 1}
        assert broken.feed_client(HELLO, 1.0) == []
        assert broken.feed_broker(tell(1), 1.0) == []
        assert len(other.feed_broker(tell(1), 1.0)) == 1

    def test_an_answer_that_cannot_be_read_does_too(self) -> None:
        connection = connect()
        connection.feed_client(HELLO, 1.0)
        connection.feed_broker(struct.pack(">ii", 5, 1) + b"\0", 1.0)

        assert connection.counts == {"opaque_answer": 1}

    @pytest.mark.parametrize(
        "data",
        [
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x55",
            b"GET / HTTP/1.1\r\n",
            b"SSH-2.0-OpenSSH",
        ],
    )
    def test_what_is_not_kafka_is_foreign(self, data: bytes) -> None:
        for size in (1, len(data)):
            connection = connect()
            for at in range(0, len(data), size):
                connection.feed_client(data[at : at + size], 1.0)

            assert connection.counts == {"opaque_foreign": 1}

    def test_raw_sasl_tokens_pass(self) -> None:
        connection = connect()
        connection.feed_client(opaque(17, 1, "m1", 4), 1.0)
        for token in (b"", b"\xff" * 5, b"\xff" * 50):
            connection.feed_client(struct.pack(">i", len(token)) + token, 1.0)
            connection.feed_broker(bytes(4), 1.0)

        assert len(connection.feed_client(HELLO, 1.0)) == 1

    def test_a_wanted_frame_beyond_the_limit_is_counted_and_passed_over(self) -> None:
        connection = connect()
        connection.feed_client(opaque(JOIN_GROUP, 1, "m1", FRAME_LIMIT) + ask(2), 1.0)

        assert connection.counts == {"oversized": 1}
        assert len(connection.feed_broker(tell(2), 1.0)) == 1

    def test_what_is_never_answered_is_bounded(self) -> None:
        correlation = Correlation[int]()
        for number in range(PENDING_LIMIT + 5):
            correlation.add(number, number)

        assert (4 in correlation, correlation.take(5), correlation.dropped) == (False, 5, 5)


class TestOutOfStep:
    def test_a_start_in_mid_stream_waits_for_a_request(self) -> None:
        connection = connect(in_step=False)

        assert connection.feed_broker(tell(1), 1.0) == []
        assert connection.feed_client(HELLO[7:], 1.0) == []
        assert len(connection.feed_client(ask(2), 1.0)) == 1
        assert connection.feed_broker(tell(1), 1.0) == []
        assert len(connection.feed_broker(tell(2), 1.0)) == 1
        assert connection.counts == {}

    def test_a_loss_within_a_wanted_frame_is_a_gap(self) -> None:
        connection = connect()
        connection.feed_client(HELLO + HELLO[:20], 1.0)
        connection.skip_client(10)

        assert connection.feed_client(b"\0" * 10, 1.0) == []
        assert (
            connection.feed_client(ask(2, "other"), 1.0)
            == connection.feed_client(HELLO[3:], 1.0)
            == []
        )
        assert len(connection.feed_client(ask(3), 1.0)) == 1
        assert (connection.gaps, connection.counts) == (1, {"gap": 1})

    def test_a_lost_answer_is_forgotten_with_the_next_one(self) -> None:
        connection = connect()
        connection.feed_client(HELLO + ask(2), 1.0)
        connection.skip_broker(len(tell(1)))

        assert connection.feed_broker(tell(2), 1.0)[0].sent_at == 1.0
        assert connection.feed_broker(tell(1), 1.0) == []

    def test_a_loss_within_an_opaque_body_is_none(self) -> None:
        connection = connect()
        frame = opaque(FETCH, 1, "m1", 1000)
        connection.feed_client(frame[:100], 1.0)
        connection.skip_client(500)

        assert len(connection.feed_client(frame[600:] + ask(2), 1.0)) == 1
        assert connection.gaps == 0


@given(
    st.lists(st.tuples(st.booleans(), st.binary(max_size=60) | st.sampled_from([HELLO, tell(1)])))
)
def test_any_bytes_are_read_or_counted(pieces: list[tuple[bool, bytes]]) -> None:
    for in_step in (True, False):
        connection = connect(in_step=in_step)
        for from_client, piece in pieces:
            if from_client:
                connection.feed_client(piece, 1.0)
            else:
                connection.feed_broker(piece, 1.0)


@given(st.sampled_from(sorted(APIS)), st.integers(0, 14), st.binary(max_size=120))
def test_any_message_is_a_value_or_a_decode_error(api_key: int, version: int, body: bytes) -> None:
    with suppress(DecodeError):
        read_request(api_key, version, bytes(8) + b"\0\0" + body)
    with suppress(DecodeError):
        read_response(api_key, version, bytes(4) + body)


@pytest.mark.parametrize("count", [b"\x7f\xff\xff\xff", b"\x00\x0f\xff\xff"])
def test_a_count_that_cannot_be_true_fails_at_once(count: bytes) -> None:
    body = b"\0\1g" + bytes(4) + b"\0\1a\0\0" + count

    with pytest.raises(DecodeError, match="an array of"):
        read_request(JOIN_GROUP, 0, bytes(8) + b"\0\0" + body)


def test_a_version_without_a_schema_is_told_apart() -> None:
    with pytest.raises(UnknownVersionError, match="API 12 in version 99"):
        read_response(HEARTBEAT, 99, bytes(8))


@given(st.binary(max_size=80))
def test_looking_never_fails(data: bytes) -> None:
    assert looks_like_request(data) in {True, False}


def _pieces(data: bytes, rng: random.Random) -> list[bytes]:
    out, at = [], 0
    while at < len(data):
        step = rng.randint(1, 30)
        out.append(data[at : at + step])
        at += step
    return out
