"""Recorded files through the same path as live ones, with the recorded times as the clock.

Theory of operation. Each stream yields its signals in the order of time (a held sync holds back
what comes after it), streams are merged by time, and what the tracker returns is put in order once
more, because a sync carries follow-ups that are a little later than itself. Time passes without
signals too: who follows a stream that is still being written must not wait for the next one.
"""

import heapq
from collections.abc import Iterable, Iterator
from operator import attrgetter

from agent.sources.base import TICK_S, Tick
from agent.sources.lines.stream_parser import StreamParser
from metrics.exporters.points import printable
from metrics.model.sample import Sample, SampleKind, format_time
from metrics.model.signals import Signal
from metrics.tracking.merge import MEET_S
from metrics.tracking.tracker import Tracker

_REORDER_S = MEET_S + 2.0
"""How far a sample may lie behind the clock when it is made: what the tracker holds back where
several sources tell of a member, a tick, and a follow-up's delay."""

Blocks = Iterable[tuple[bytes, float]]
"""Pieces of one stream with the Unix seconds that stand for their arrival."""


def order_by_time(parser: StreamParser, blocks: Blocks) -> Iterator[Signal | Tick]:
    """Yield a stream's signals in the order of time."""
    heap: list[tuple[float, int, Signal]] = []
    number = 0
    for data, arrival_at in blocks:
        for signal in parser.feed(data, arrival_at):
            heapq.heappush(heap, (signal.at, number, signal))
            number += 1
        horizon = parser.horizon()
        if horizon is not None:
            while heap and heap[0][0] < horizon:
                yield heapq.heappop(heap)[2]
            yield Tick(horizon)
    for signal in parser.flush():
        heapq.heappush(heap, (signal.at, number, signal))
        number += 1
    while heap:
        yield heapq.heappop(heap)[2]


def replay(streams: Iterable[Iterator[Signal | Tick]], tracker: Tracker) -> Iterator[Sample]:
    """Merge streams by time, run them through the tracker, and yield what it says by time."""
    made: list[tuple[str, int, Sample]] = []
    number, ticked_at = 0, 0.0
    for event in heapq.merge(*streams, key=attrgetter("at")):
        samples: list[Sample] = []
        if event.at >= ticked_at + TICK_S:
            samples, ticked_at = tracker.advance(event.at), event.at
        if isinstance(event, Signal):
            samples += tracker.apply(event)
        for sample in samples:
            heapq.heappush(made, (sample.ts, number, sample))
            number += 1
        ripe = format_time(event.at - _REORDER_S)
        while made and made[0][0] <= ripe:
            yield heapq.heappop(made)[2]
    for sample in tracker.flush():
        heapq.heappush(made, (sample.ts, number, sample))
        number += 1
    while made:
        yield heapq.heappop(made)[2]


def format_text(sample: Sample) -> str:
    """Write one line for people."""
    reason = f"  {sample.reason}" if sample.reason else ""
    return printable(
        f"{sample.ts}  {sample.scope:<8}  {sample.group}  {sample.client_id}  "
        f"{_describe_move(sample)}{reason}"
    )


def _describe_move(sample: Sample) -> str:
    to = f"{sample.to} {sample.status}"
    if sample.kind is SampleKind.SIGNAL:  # moved nothing
        return f"at {sample.from_}: noted" if sample.to is None else f"at {sample.from_}: {to}"
    before = "-" if sample.from_ is None else sample.from_
    return f"{before} -> {'lost' if sample.to is None else to}"
