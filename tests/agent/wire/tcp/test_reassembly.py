"""TCP: every byte once, in order, requests before their responses; losses are reported."""

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from agent.runtime.replay import replay
from agent.wire.byte_budget import ByteBudget
from agent.wire.connection import ConnectionClosed, Event
from agent.wire.members.group_decoder import GroupDecoder
from agent.wire.tcp.packets import ACK, RST, SYN, TcpSegment
from agent.wire.tcp.reassembly import (
    LOST_AFTER_S,
    PENDING_BYTES,
    RESENT_WITHIN_S,
    TcpStream,
)
from agent.wire.tcp.sessions import TcpSessions
from metrics.model.sample import SampleKind
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker
from tests.agent.wire.captures import CLIENT, CODES, SERVER, Dialogue, Timed, dialogue
from tests.agent.wire.frames import FETCH, HEARTBEAT, opaque, request


def codes(
    timed: list[Timed], counts: Counter[str] | None = None, patience: int = 0
) -> list[int | None]:
    """Return the codes of a capture, through decoder, interpreter and tracker."""
    counts = Counter() if counts is None else counts
    sessions, interpreter = TcpSessions(counts, patience=patience), GroupDecoder()
    events = [event for at, segment in timed for event in sessions.push(segment, at)]
    signals = [s for event in events + sessions.flush() for s in interpreter.decode(event)]
    samples = replay([iter(signals)], Tracker(StatusConfig()))
    return [sample.to for sample in samples if sample.kind is SampleKind.TRANSITION]


def read(timed: list[Timed]) -> list[Event]:
    sessions = TcpSessions(Counter())
    return [event for at, segment in timed for event in sessions.push(segment, at)]


def shuffled(timed: list[Timed], rng: random.Random, window: int) -> list[Timed]:
    """Return the segments after the handshake out of order; the clock still runs."""
    order = sorted(range(len(timed)), key=lambda i: i if i < 3 else i + rng.uniform(0, window))
    return [(at, timed[i][1]) for (at, _), i in zip(timed, order, strict=True)]


def doubled(timed: list[Timed], rng: random.Random) -> list[Timed]:
    """Return the segments with repetitions: at once, or of one of the last nine segments."""
    out = list[Timed]()
    for at, segment in timed:
        out.append((at, segment))
        if rng.random() < 0.3:
            out.append((at, out[-rng.randint(1, min(len(out), 9))][1]))
    return out


class TestOrder:
    def test_one_piece(self) -> None:
        assert codes(dialogue().segments) == CODES

    def test_byte_by_byte(self) -> None:
        assert codes(dialogue(1).segments) == CODES

    @given(
        st.integers(1, 2_000), st.integers(0, 12), st.booleans(), st.randoms(use_true_random=False)
    )
    def test_sizes_order_and_duplicates_do_not_matter(
        self, size: int, window: int, twice: bool, rng: random.Random
    ) -> None:
        timed = shuffled(dialogue(max(size, 40)).segments, rng, window)

        assert codes(doubled(timed, rng) if twice else timed) == CODES

    def test_overlapping_retransmissions_are_cut(self) -> None:
        timed = dialogue(50).segments
        for number in range(5, len(timed) - 1):
            (at, first), (_, second) = timed[number], timed[number + 1]
            if first.data and first.source == second.source and second.data:
                timed[number + 1] = (at, first._replace(data=first.data + second.data))

        assert codes(timed) == CODES

    def test_two_captures_of_one_connection_are_one(self) -> None:
        timed = [each for each in dialogue().segments for _ in range(2)]

        assert codes(timed) == CODES

    def test_an_answer_waits_for_its_request(self) -> None:
        timed = dialogue().segments
        timed[3], timed[5] = (timed[3][0], timed[5][1]), (timed[5][0], timed[3][1])

        assert codes(timed) == CODES

    def test_a_recording_has_patience_for_packets_however_long_they_took(self) -> None:
        timed = [(at * 1_000, segment) for at, segment in dialogue().segments]
        timed[5:17] = [(at, s) for (at, _), (_, s) in zip(timed[5:17], timed[16:4:-1], strict=True)]

        assert codes(timed, patience=16) == CODES


class TestLoss:
    def test_a_lost_heartbeat_is_nothing(self) -> None:
        said = Dialogue()
        said.open()
        beats = [_beat(number) for number in range(4)]
        for beat in beats:
            said.say(True, beat)
            said.at += 3.0
        lost = next(i for i, (_, s) in enumerate(said.segments) if s.data == beats[1])
        del said.segments[lost]

        sent_at = [next(at for at, s in said.segments if s.data == beat) for beat in beats[::2]]
        assert [event.at for event in read(said.segments)][:2] == sent_at

    def test_a_hole_that_was_acknowledged_is_given_up_soon(self) -> None:
        stream = TcpStream()
        stream.push(0, _segment(100, b"abc"), 1.0)
        stream.push(1, _segment(500, b"", ack=106), 1.0)
        assert stream.push(0, _segment(106, b"ghi"), 1.0) == []

        assert stream.expire(1.0 + LOST_AFTER_S - 0.01) == []
        assert stream.expire(1.0 + LOST_AFTER_S) == [(0, b"", 3), (0, b"ghi", 0)]

    def test_a_hole_on_the_network_is_waited_for(self) -> None:
        stream = TcpStream()
        stream.push(0, _segment(100, b"abc"), 1.0)
        stream.push(0, _segment(106, b"ghi"), 1.0)
        assert stream.expire(1.0 + LOST_AFTER_S) == []
        assert stream.push(0, _segment(103, b"def"), 30.0) == [(0, b"def", 0), (0, b"ghi", 0)]

        stream.push(0, _segment(112, b"mno"), 40.0)
        assert stream.expire(40.0 + RESENT_WITHIN_S) == [(0, b"", 3), (0, b"mno", 0)]

    def test_what_waits_is_bounded(self) -> None:
        stream = TcpStream()
        stream.push(0, _segment(0, b"a"), 1.0)
        size = 60_000
        count = PENDING_BYTES // size + 1
        pieces = [
            stream.push(0, _segment(2 + number * size, bytes(size)), 1.0) for number in range(count)
        ]

        assert [len(each) for each in pieces] == [0] * (count - 1) + [count + 1]
        assert stream.directions[0].pending == []

    def test_what_waits_in_all_streams_is_bounded_and_a_bystander_is_read(self) -> None:
        budget = ByteBudget(limit_bytes=1 << 20)
        hostile = [TcpStream(budget=budget) for _ in range(200)]
        for stream in hostile:
            stream.push(0, _segment(0, b"a"), 1.0)
        for number in range(40):
            for stream in hostile:
                stream.push(0, _segment(2 + number * 2_000, bytes(1_000)), 1.0)

        assert budget.used_bytes <= budget.limit_bytes * 3 // 2 + len(hostile) * (4 << 10)
        bystander = TcpStream(budget=budget)
        bystander.push(0, _segment(100, b"abc"), 1.0)
        assert bystander.push(0, _segment(106, b"ghi"), 1.0) == []
        assert bystander.push(0, _segment(103, b"def"), 1.0) == [(0, b"def", 0), (0, b"ghi", 0)]
        for stream in hostile:
            stream.flush()
        assert budget.used_bytes == 0

    def test_a_connection_that_ends_frees_what_waited(self) -> None:
        sessions = TcpSessions(Counter(), limit=1)
        for _ in range(3):
            said = Dialogue()
            said.open()
            said.say(True, request(HEARTBEAT, 4, 1, "c", group_id="g", generation_id=1))
            at, last = next(each for each in said.segments if each[1].data)
            late = last._replace(seq=last.seq + 100_000)
            for each in (*said.segments[:3], (at, late)):
                sessions.push(each[1], each[0])
            assert sessions._pending.used_bytes > 0
            sessions.forget(late.source, late.target)
            assert sessions._pending.used_bytes == 0

    def test_what_the_capture_cut_off_is_lost(self) -> None:
        stream = TcpStream()
        segment = _segment(100, b"abc")._replace(missing=7)

        assert stream.push(0, segment, 1.0) == [(0, b"abc", 0), (0, b"", 7)]
        assert stream.push(0, _segment(110, b"k"), 1.0) == [(0, b"k", 0)]

    def test_the_end_of_the_capture_gives_up_all(self) -> None:
        timed = [
            each for each in dialogue().segments if each[1].source == CLIENT or not each[1].data
        ]

        assert codes(timed) == [1, 6, 0]

    @given(st.sets(st.integers(3, 60), max_size=6), st.randoms(use_true_random=False))
    def test_whatever_is_lost_the_status_goes_up_or_to_zero(
        self, lost: set[int], rng: random.Random
    ) -> None:
        timed = shuffled(dialogue(200).segments, rng, 3)
        kept = [each for number, each in enumerate(timed) if number not in lost]

        got = codes(kept)
        assert set(got) <= set(CODES)


class TestSessions:
    def test_a_start_in_mid_stream_reads_on_from_the_next_request(self) -> None:
        timed = dialogue().segments
        sync = next(i for i, (_, s) in enumerate(timed) if s.data[4:6] == b"\0\x0c")

        assert codes(timed[sync:]) == [1, 0, 3, 0, 6, 0]

    def test_a_known_broker_tells_who_is_the_client(self) -> None:
        timed = dialogue().segments
        other = b"\x0a\0\0\x02\xc3\x51"
        late = Dialogue(client=other, at=timed[-1][0])
        late.say(False, bytes(30))
        late.say(True, b"\0" * 5)
        late.say(True, _beat(5))

        assert len(read(timed + late.segments)) == len(read(timed)) + 1

    def test_ports_that_are_used_again_are_a_new_connection(self) -> None:
        first = dialogue()
        second = dialogue()
        timed = [
            *first.segments,
            *((at + 60, s._replace(seq=s.seq, ack=s.ack)) for at, s in second.segments),
        ]
        moved = [(at, _shift(s, 77_777)) for at, s in timed[len(first.segments) :]]

        assert codes(first.segments + moved) == CODES * 2

    def test_a_repeated_syn_changes_nothing(self) -> None:
        timed = dialogue().segments

        assert codes([timed[0], *timed[:3], timed[1], *timed[3:]]) == CODES

    def test_data_that_was_captured_before_its_syn_belongs_to_it(self) -> None:
        timed = dialogue().segments
        order = [3, 0, 1, 2, *range(4, len(timed))]

        assert codes([(at, timed[i][1]) for (at, _), i in zip(timed, order, strict=True)]) == CODES

    def test_a_reset_ends_a_connection(self) -> None:
        timed = dialogue().segments[:-2]
        last, at = timed[-1][1], timed[-1][0] + 1
        timed.append((at, last._replace(flags=RST | ACK, data=b"")))
        timed.append((at, last._replace(data=_beat(99))))

        assert len(read(timed)) == len(read(timed[:-2])) + 1

    def test_a_clock_that_steps_back_is_held(self) -> None:
        timed = [
            (at - 100 if number % 7 == 6 else at, s)
            for number, (at, s) in enumerate(dialogue().segments)
        ]
        events = read(timed)
        stamps = [event.at for event in events]

        assert stamps == sorted(stamps)

    def test_the_longest_silent_connection_goes_when_there_are_too_many(self) -> None:
        sessions = TcpSessions(Counter(), limit=2)
        clients = [bytes([10, 0, 0, number]) + CLIENT[4:] for number in range(3)]
        timed = [each for client in clients for each in Dialogue(client=client).opened()]
        events = [event for at, segment in timed for event in sessions.push(segment, at)]

        assert [
            event.connection.client.host for event in events if isinstance(event, ConnectionClosed)
        ] == ["10.0.0.0"]
        assert sessions.counts == {"session_evicted": 1}

    def test_what_is_not_kafka_is_counted(self) -> None:
        counts = Counter[str]()
        said = Dialogue()
        said.open()
        said.say(True, b"GET / HTTP/1.1\r\n\r\n")
        said.say(False, b"HTTP/1.1 200 OK\r\n\r\n")

        assert codes(said.segments, counts) == []
        assert counts == {"opaque_foreign": 1}

    @given(
        st.lists(
            st.builds(
                TcpSegment,
                source=st.sampled_from([CLIENT, SERVER]),
                target=st.sampled_from([CLIENT, SERVER]),
                seq=st.integers(0, 2**32 - 1) | st.integers(0, 50),
                ack=st.integers(0, 2**32 - 1) | st.integers(0, 50),
                flags=st.sampled_from([0, ACK, SYN, SYN | ACK, ACK | 1, RST]),
                data=st.binary(max_size=30) | st.just(opaque(FETCH, 1, "c", 3)),
                missing=st.integers(0, 3),
            )
        )
    )
    def test_any_segments_are_read_or_counted(self, segments: list[TcpSegment]) -> None:
        sessions = TcpSessions(Counter())
        for number, segment in enumerate(segments):
            sessions.push(segment, number / 4)
        sessions.flush()


def _segment(seq: int, data: bytes, ack: int = 500) -> TcpSegment:
    return TcpSegment(CLIENT, SERVER, seq, ack, ACK, data, 0)


def _beat(number: int) -> bytes:
    return request(HEARTBEAT, 4, number, "m1", group_id="g", generation_id=1, member_id="m1-a")


def _shift(segment: TcpSegment, by: int) -> TcpSegment:
    seq, ack = (segment.seq + by) % 2**32, (segment.ack + by) % 2**32
    return segment._replace(seq=seq, ack=ack if segment.flags & ACK else 0)
