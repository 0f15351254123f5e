"""Both directions of a proxied connection, in any pieces."""

from collections import Counter
from itertools import accumulate, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.wire.passage import Passage
from agent.wire.rewrite import FETCH, METADATA, SHARE_ACKNOWLEDGE, SHARE_FETCH
from tests.agent.wire import frames

FAR, HERE = ("kafka-far.example", 9092), ("127.0.0.1", 19093)


def _passage(*asked: tuple[int, int]) -> tuple[Passage, Counter[str]]:
    """Return the passage after some requests; their correlation ids count from 1."""
    counts: Counter[str] = Counter()
    passage = Passage(lambda host, port: HERE if (host, port) == FAR else None, counts)
    for correlation_id, (api_key, version) in enumerate(asked, start=1):
        data = frames.request(api_key, version, correlation_id, "c")
        assert passage.sent(data) == data
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

    assert b"".join(map(passage.received, pieces)) == answers(HERE)
    assert passage.at_rest


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
            passage.requests.follow(request)
            read += 1
        if passage.rewrites or passage.answers.held:
            got += passage.received(data[a:b])
        else:
            got += data[a:b]
            passage.answers.follow(data[a:b])

    assert got == b"".join(answers(HERE))


def test_an_answer_that_is_too_long_to_withhold_passes_and_is_counted() -> None:
    passage, counts = _passage((SHARE_FETCH, 1), (METADATA, 12))
    data = _share_fetch(1, FAR, records=5 << 20)

    assert passage.received(data[:100]) == data[:100]
    assert passage.received(data[100:]) == data[100:]
    assert counts == {"addresses_unread": 1}
    assert passage.received(_metadata(2, FAR)) == _metadata(2, HERE)


@pytest.mark.parametrize("api_key", [SHARE_FETCH, SHARE_ACKNOWLEDGE])
def test_an_answer_without_a_new_leader_passes_unread(api_key: int) -> None:
    passage, counts = _passage((api_key, 1))
    data = frames.answer(api_key, 1, 1, responses=[], node_endpoints=[])

    assert passage.received(data[:9]) == b""
    assert passage.received(data[9:]) == data
    assert not counts
