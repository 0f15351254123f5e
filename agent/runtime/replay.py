"""Replay of recorded files through the live path, with the recorded times as the clock.

Theory of operation. Each stream yields its signals in the order of time (a held sync delays later
ones), streams are merged by time, and the tracker's samples are sorted once more, because a sync
carries follow-ups that are a little later than itself. Time passes without signals too: a reader of
a growing stream must not wait for the next signal.
"""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter

from agent.sources.base import TICK_S, Tick
from metrics.model.names import printable
from metrics.model.sample import Sample, SampleKind, Scope, digest, format_time
from metrics.model.signals import Signal
from metrics.tracking.merge import PLACEHOLDER_S
from metrics.tracking.tracker import Tracker

_REORDER_S = PLACEHOLDER_S + 2.0
"""Delay of a sample behind the clock: the tracker's for members of several sources, a tick, and a
follow-up's."""


def replay(streams: Iterable[Iterator[Signal | Tick]], tracker: Tracker) -> Iterator[Sample]:
    """Merge streams by time, apply them to the tracker, and yield its samples by time."""
    pending: list[tuple[str, int, Sample]] = []
    number, ticked_at = 0, 0.0
    for event in heapq.merge(*streams, key=attrgetter("at")):
        samples: list[Sample] = []
        if event.at >= ticked_at + TICK_S:
            samples, ticked_at = tracker.advance(event.at), event.at
        samples += _apply(event, tracker)
        for sample in samples:
            heapq.heappush(pending, (sample.ts, number, sample))
            number += 1
        ripe = format_time(event.at - _REORDER_S)
        while pending and pending[0][0] <= ripe:
            yield heapq.heappop(pending)[2]
    for sample in tracker.flush():
        heapq.heappush(pending, (sample.ts, number, sample))
        number += 1
    while pending:
        yield heapq.heappop(pending)[2]


def _apply(event: Signal | Tick, tracker: Tracker) -> list[Sample]:
    if isinstance(event, Signal):
        return tracker.apply(event)
    ended = [sample for each in event.ended for sample in tracker.detach(each, event.at)]
    cut = [sample for each in event.cut for sample in tracker.detach(each, event.at, is_cut=True)]
    return ended + cut


@dataclass(slots=True)
class Watermark:
    """Latest time in any input: an open rebalance lasts until then."""

    at: float | None = None
    """Unix seconds."""

    def follow(self, stream: Iterator[Signal | Tick]) -> Iterator[Signal | Tick]:
        """Yield a stream's events, and note how far they go."""
        for event in stream:
            self.at = event.at if self.at is None else max(self.at, event.at)
            yield event

    @staticmethod
    def record(at: float) -> Sample:
        """Return the record of an agent that has read up to ``at``."""
        ts = format_time(at)
        return Sample(
            id=digest(SampleKind.AGENT, "replay", ts),
            kind=SampleKind.AGENT,
            ts=ts,
            cluster="",
            app="",
            group="",
            scope=Scope.APP,
            source="replay",
        )


def format_text(sample: Sample) -> str:
    """Return a sample as one line of text."""
    reason = f"  {sample.reason}" if sample.reason else ""
    return printable(
        f"{sample.ts}  {sample.scope:<8}  {sample.group}  {sample.client_id}  "
        f"{_describe_move(sample)}{reason}"
    )


def _describe_move(sample: Sample) -> str:
    to = f"{sample.to} {sample.status}"
    if sample.kind is SampleKind.CHANGE:
        return " ".join(word for word in (sample.field, sample.after) if word)
    if sample.kind is SampleKind.SIGNAL:  # moved nothing
        return f"at {sample.from_}: noted" if sample.to is None else f"at {sample.from_}: {to}"
    before = "-" if sample.from_ is None else sample.from_
    return f"{before} -> {'lost' if sample.to is None else to}"
