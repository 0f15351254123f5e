"""Order of a recorded stream's signals: by time, with ticks at its watermark."""

import heapq
from collections.abc import Iterable, Iterator

from agent.sources.base import Tick
from agent.sources.lines.parsing.stream_parser import StreamParser
from metrics.model.signals import Signal

Blocks = Iterable[tuple[bytes, float]]
"""Pieces of one stream with their arrival time (Unix seconds)."""


def order_by_time(
    parser: StreamParser, blocks: Blocks, *, is_growing: bool = False
) -> Iterator[Signal | Tick]:
    """Yield a stream's signals in the order of time.

    A file may hold its merged streams one after the other, so its signals are sorted at its end;
    those of a growing one follow its watermark.
    """
    heap: list[tuple[float, int, Signal]] = []
    number = 0
    for data, arrival_at in blocks:
        for signal in parser.feed(data, arrival_at):
            heapq.heappush(heap, (signal.at, number, signal))
            number += 1
        horizon = parser.horizon()
        if horizon is not None and (is_growing or not parser.origins):
            while heap and heap[0][0] < horizon:
                yield heapq.heappop(heap)[2]
            yield Tick(horizon)
    for signal in parser.flush():
        heapq.heappush(heap, (signal.at, number, signal))
        number += 1
    while heap:
        yield heapq.heappop(heap)[2]
