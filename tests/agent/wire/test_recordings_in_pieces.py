"""Recorded connections of real clients, cut, mixed up and repeated as TCP may: the same codes."""

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.runtime.replay import replay
from agent.sources.capture.pcap_file import Packet, packets
from agent.wire.members.group_decoder import GroupDecoder
from agent.wire.tcp.packets import SYN, TcpSegment, read_segment
from agent.wire.tcp.sessions import TcpSessions
from metrics.model.sample import SampleKind
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker
from tests.agent.wire.captures import Timed

pytestmark = pytest.mark.slow

_RECORDED = Path(__file__).parents[2] / "golden" / "two_sources"
_NAMES = ("java-2.8-max-poll", "java-4.3-kip848-max-poll", "streams-4.3-start-close")
"""Of the classic protocol, of KIP-848's, and of Streams with its user data."""
_PATIENCE = 64
"""Packets between two that belong together: more than the mixing below needs."""
_WHOLE = 1 << 16

Codes = dict[tuple[str | None, str], list[int | None]]


@cache
def recorded(name: str) -> tuple[Timed, ...]:
    found = ((each.at, read_segment(each.link_type, each.data)) for each in _packets(name))
    return tuple((at, segment) for at, segment in found if segment is not None)


def _packets(name: str) -> Iterator[Packet]:
    return packets(str(_RECORDED / name / "wire.pcap.gz"))


def codes(timed: list[Timed]) -> Codes:
    """Return the codes of each consumer and instance; check that nothing counts as unread."""
    counts = Counter[str]()
    sessions, interpreter = TcpSessions(counts, patience=_PATIENCE), GroupDecoder("", counts)
    events = [event for at, segment in timed for event in sessions.push(segment, at)]
    signals = [s for event in events + sessions.flush() for s in interpreter.decode(event)]
    out: Codes = defaultdict(list)
    for sample in replay([iter(signals)], Tracker(StatusConfig())):
        if sample.kind is SampleKind.TRANSITION:
            out[sample.client_id, sample.scope].append(sample.to)
    assert not counts
    return dict(out)


@cache
def wanted(name: str) -> Codes:
    return codes([*recorded(name)])


def _cut(segment: TcpSegment, size: int) -> list[TcpSegment]:
    """Return a segment in pieces of ``size`` bytes; SYN and FIN keep their place."""
    if segment.flags & SYN or len(segment.data) <= size:
        return [segment]
    last = (len(segment.data) - 1) // size * size
    return [
        segment._replace(
            seq=(segment.seq + at) % 2**32,
            data=segment.data[at : at + size],
            flags=segment.flags if at == last else segment.flags & ~0b101,  # RST and FIN
            missing=segment.missing if at == last else 0,
        )
        for at in range(0, last + size, size)
    ]


def _mixed(run: list[Timed], rng: random.Random, window: int) -> list[Timed]:
    """Return segments of one connection out of order; the clock still runs."""
    begins = [bool(segment.flags & SYN) for _, segment in run]
    order = sorted(range(len(run)), key=lambda i: i if begins[i] else i + rng.uniform(0, window))
    return [(at, run[i][1]) for (at, _), i in zip(run, order, strict=True)]


def _runs(timed: list[Timed]) -> list[list[Timed]]:
    """Return the runs of segments of one connection: between connections the order is open."""
    ends = groupby(timed, lambda each: frozenset((each[1].source, each[1].target)))
    return [[*run] for _, run in ends]


@pytest.mark.parametrize("name", _NAMES)
def test_whole_it_tells_something(name: str) -> None:
    assert len(wanted(name)) >= 2
    assert all(each[-1] == 0 and len(each) >= 2 for each in wanted(name).values())


@pytest.mark.parametrize("name", _NAMES)
def test_byte_by_byte(name: str) -> None:
    assert codes([(at, part) for at, s in recorded(name) for part in _cut(s, 1)]) == wanted(name)


@given(
    st.sampled_from(_NAMES),
    st.sampled_from((7, 40, 100, 536, _WHOLE)),
    st.integers(0, 12),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_pieces_order_and_duplicates_do_not_matter(
    name: str, size: int, window: int, twice: bool, seed: int
) -> None:
    rng, out = random.Random(seed), list[Timed]()
    for run in _runs([(at, part) for at, s in recorded(name) for part in _cut(s, size)]):
        for each in _mixed(run, rng, window):
            out.append(each)
            if twice and rng.random() < 0.3:
                out.append((each[0], out[-rng.randint(1, min(len(out), 9))][1]))

    assert codes(out) == wanted(name)
