"""Both directions of a proxied connection, in any pieces."""

import struct
from collections import Counter
from collections.abc import Callable
from itertools import accumulate, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.wire.byte_budget import ByteBudget
from agent.wire.codec.framing import FRAME_LIMIT
from agent.wire.codec.messages import HostPort
from agent.wire.connection import ConnectionDecoder
from agent.wire.proxying.address_rewriter import FETCH, METADATA, SHARE_ACKNOWLEDGE, SHARE_FETCH
from agent.wire.proxying.frame_forwarder import FrameForwarder
from tests.agent.wire import frames

HEARTBEAT = 12
FAR, HERE = ("kafka-far.example", 9092), ("127.0.0.1", 19093)


def _route(host: str, port: int) -> tuple[str, int] | None:
    return HERE if (host, port) == FAR else None


def _unread(data: bytes) -> None:
    """Nobody decodes."""


def _passage(*asked: tuple[int, int]) -> tuple[FrameForwarder, Counter[str]]:
    """Return the passage after some requests; their correlation ids count from 1."""
    counts: Counter[str] = Counter()
    passage = FrameForwarder(_route, counts, _unread, _unread)
    for correlation_id, (api_key, version) in enumerate(asked, start=1):
        data = frames.request(api_key, version, correlation_id, "c")
        assert passage.feed_client(data) == data
    return passage, counts


def _share_fetch(correlation_id: int, address: tuple[str, int], records: int = 1_000) -> bytes:
    leader = {"leader_id": 1, "leader_epoch": 2}
    part = {"partition_index": 1, "records": b"r" * records, "current_leader": leader}
    return frames.answer(
        SHARE_FETCH,
        1,
        correlation_id,
        responses=[{"partitions": [part]}],
        node_endpoints=_nodes(address),
    )


def _nodes(address: tuple[str, int]) -> list[dict[str, Any]]:
    return [{"node_id": 1, "host": address[0], "port": address[1], "rack": None}]


def _metadata(correlation_id: int, address: tuple[str, int]) -> bytes:
    return frames.answer(METADATA, 12, correlation_id, brokers=_nodes(address), topics=[])


@given(st.lists(st.integers(1, 3_000), max_size=20))
def test_any_pieces_give_the_same_bytes(cuts: list[int]) -> None:
    asked = [(SHARE_FETCH, 1), (METADATA, 12), (FETCH, 4), (SHARE_FETCH, 1)]
    passage, _ = _passage(*asked)
    fetched = frames.answer(FETCH, 4, 3, responses=[])

    def answers(address: tuple[str, int]) -> bytes:
        first, last = _share_fetch(1, address), _share_fetch(4, address, records=0)
        return first + _metadata(2, address) + fetched + last

    data = answers(FAR)
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[a:b] for a, b in pairwise(places)]

    assert b"".join(map(passage.feed_broker, pieces)) == answers(HERE)
    assert passage.is_idle


@given(st.lists(st.booleans(), max_size=6), st.lists(st.integers(1, 300), max_size=20))
def test_what_nobody_changes_may_pass_first(named: list[bool], cuts: list[int]) -> None:
    """Each request is asked when the answer before it has begun: a client that pipelines."""
    passage, _ = _passage()
    asked = [(METADATA, 12) if each else (FETCH, 4) for each in named]

    def answers(address: tuple[str, int]) -> list[bytes]:
        return [
            _metadata(n, address) if each else frames.answer(FETCH, 4, n, responses=[])
            for n, each in enumerate(named)
        ]

    got, read, unread = b"", 0, iter(enumerate(asked))
    due = [0, *accumulate(map(len, answers(FAR)))]
    data = b"".join(answers(FAR))
    for a, b in pairwise([0, *sorted({min(cut, len(data)) for cut in cuts}), len(data)]):
        while read < len(asked) and due[max(0, read - 1)] < b:
            n, (api_key, version) = next(unread)
            request = frames.request(api_key, version, n, "c")
            passage.requests.track(request)
            read += 1
        if passage.responses.rewrites or passage.responses.pending:
            got += passage.feed_broker(data[a:b])
        else:
            got += data[a:b]
            passage.responses.track(data[a:b])

    assert got == b"".join(answers(HERE))


def test_an_answer_that_is_too_long_to_withhold_passes_and_is_counted() -> None:
    passage, counts = _passage((SHARE_FETCH, 1), (METADATA, 12))
    data = _share_fetch(1, FAR, records=5 << 20)

    assert passage.feed_broker(data[:100]) == data[:100]
    assert passage.feed_broker(data[100:]) == data[100:]
    assert counts == {"addresses_unread": 1}
    assert passage.feed_broker(_metadata(2, FAR)) == _metadata(2, HERE)


def _forwarders(number: int, budget: ByteBudget) -> list[FrameForwarder]:
    """Return connections that each wait for records with addresses behind them."""
    forwarders = []
    for _ in range(number):
        forwarder = FrameForwarder(_route, Counter(), _unread, _unread, withheld=budget)
        forwarder.feed_client(frames.request(SHARE_FETCH, 1, 1, "c"))
        forwarders.append(forwarder)
    return forwarders


def test_withheld_answers_of_all_connections_share_a_bound() -> None:
    """200 brokers stop one byte before the end of a response of 1 MiB."""
    budget, data = ByteBudget(limit_bytes=8 << 20), _share_fetch(1, FAR, records=1 << 20)
    forwarders = _forwarders(200, budget)
    places = [*range(0, len(data) - 1, 100_000), len(data) - 1]

    passed = [
        b"".join(each.feed_broker(data[a:b]) for a, b in pairwise(places)) for each in forwarders
    ]

    held = [len(data) - 1 - len(each) for each in passed]
    assert sum(held) == budget.used_bytes <= (8 << 20) * 3 // 2 + 200 * 4096
    assert held[0] == len(data) - 1
    for forwarder, before in zip(forwarders, passed, strict=True):
        counts = forwarder._counts
        whole = before + forwarder.feed_broker(data[-1:])
        assert whole == (data if counts["addresses_unread"] else _share_fetch(1, HERE, 1 << 20))
        assert forwarder.is_idle
    assert budget.used_bytes == 0
    assert 7 <= sum(not each._counts["addresses_unread"] for each in forwarders) <= 12


def test_short_answers_are_rewritten_beside_long_ones_and_a_closed_connection_holds_none() -> None:
    budget = ByteBudget(limit_bytes=1 << 20)
    data = _share_fetch(1, FAR, records=1 << 20)
    full, far, other = _forwarders(3, budget)
    assert full.feed_broker(data[:-1]) == b""
    short = _metadata(2, FAR)
    other.feed_client(frames.request(METADATA, 12, 2, "c"))

    assert other.feed_broker(short[:20]) == b""
    assert other.feed_broker(short[20:]) == _metadata(2, HERE)
    assert far.feed_broker(data[:-1]) == data[:-1]
    full.close()
    assert budget.used_bytes == 0


@given(st.lists(st.integers(1, 300_000), max_size=20), st.integers(0, 1 << 18))
def test_any_pieces_pass_whole_whatever_room_is_left(cuts: list[int], room: int) -> None:
    """A response is rewritten, or passes as it came: nothing is lost, doubled or mixed."""
    budget = ByteBudget(limit_bytes=room)
    [forwarder] = _forwarders(1, budget)
    forwarder.feed_client(frames.request(METADATA, 12, 2, "c"))
    first, far, here = (_share_fetch(1, each, records=1 << 18) for each in (FAR, FAR, HERE))
    data = first + _metadata(2, FAR)

    got = b"".join(map(forwarder.feed_broker, _pieces(data, cuts)))

    is_unread = forwarder._counts["addresses_unread"]
    assert got == (far if is_unread else here) + _metadata(2, HERE)
    assert budget.used_bytes == 0


@pytest.mark.parametrize("api_key", [SHARE_FETCH, SHARE_ACKNOWLEDGE])
def test_an_answer_without_a_new_leader_passes_unread(api_key: int) -> None:
    passage, counts = _passage((api_key, 1))
    data = frames.answer(api_key, 1, 1, responses=[], node_endpoints=[])

    assert passage.feed_broker(data[:9]) == b""
    assert passage.feed_broker(data[9:]) == data
    assert not counts


@given(
    st.lists(st.sampled_from(["fetch", "heartbeat", "metadata", "find", "commit"]), max_size=8),
    st.lists(st.integers(1, 1_500), max_size=20),
)
def test_the_decoder_is_shown_what_it_reads_and_nothing_else(
    named: list[str], cuts: list[int]
) -> None:
    """The decoded messages of the forwarded frames are those of all bytes."""
    requests, answers = b"", b""
    for n, name in enumerate(["versions", *named]):
        request, answer = _PAIRS[name](n)
        requests += request
        answers += answer
    all_bytes, shown = (
        ConnectionDecoder(HostPort("c", 1), HostPort("b", 2), Counter()) for _ in range(2)
    )
    direct: list[Any] = []
    passed: list[Any] = []
    fetched: list[bytes] = []

    def asks(data: bytes) -> None:
        fetched.append(data)
        passed.extend(each.message for each in shown.feed_client(data, 1.0))

    def tells(data: bytes) -> None:
        fetched.append(data)
        passed.extend(each.message for each in shown.feed_broker(data, 2.0))

    passage = FrameForwarder(_route, Counter(), asks, tells)
    for piece in _pieces(requests, cuts):
        passage.feed_client(piece)
        direct += [each.message for each in all_bytes.feed_client(piece, 1.0)]
    for piece in _pieces(answers, cuts):
        passage.feed_broker(piece)
        direct += [each.message for each in all_bytes.feed_broker(piece, 2.0)]

    assert passed == direct
    assert len(direct) == 1 + 2 * sum(name != "fetch" for name in named)
    assert _OPAQUE not in b"".join(fetched)


@pytest.mark.parametrize(("size", "shown"), [(FRAME_LIMIT - 100, True), (FRAME_LIMIT + 1, False)])
def test_a_frame_that_is_too_long_is_not_shown(size: int, *, shown: bool) -> None:
    seen, counts = bytearray(), Counter[str]()
    passage = FrameForwarder(_route, counts, seen.extend, _unread)
    passage.feed_client(frames.request(METADATA, 12, 1, "c"))
    before = len(seen)

    passage.feed_client(frames.opaque(HEARTBEAT, 2, "c", size))

    assert (len(seen) > before) is shown
    assert counts["oversized"] == (not shown)


def test_what_is_no_kafka_is_shown_once() -> None:
    """The decoder says so too, and nothing of the tunnel is kept for it."""
    seen = bytearray()
    passage = FrameForwarder(_route, Counter(), seen.extend, seen.extend)

    for data in (b"\x16\x03\x01 no Kafka", b"and more"):
        assert passage.feed_client(data) == passage.feed_broker(data) == data

    assert seen == b"\x16\x03\x01 no Kafka"


_OPAQUE = b"\x7f" * 200


def _fetch(n: int) -> tuple[bytes, bytes]:
    answer = struct.pack(">ii", 4 + len(_OPAQUE), n) + _OPAQUE
    return frames.opaque(FETCH, n, "c", len(_OPAQUE)), answer


def _pair(api_key: int, version: int, **got: Any) -> Callable[[int], tuple[bytes, bytes]]:
    def pair(n: int) -> tuple[bytes, bytes]:
        answer = frames.answer(api_key, version, n, **got)
        return frames.request(api_key, version, n, "c"), answer

    return pair


_PAIRS = {
    "versions": _pair(18, 3),
    "fetch": _fetch,
    "heartbeat": _pair(HEARTBEAT, 4, error_code=27),
    "metadata": lambda n: (frames.request(METADATA, 12, n, "c"), _metadata(n, FAR)),
    "find": _pair(10, 4),
    "commit": _pair(8, 8),
}


def _pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted({min(cut, len(data)) for cut in cuts}), len(data)]
    return [data[a:b] for a, b in pairwise(places)]
