"""A tape of the signals of an agent's sources, to apply them to a tracker in other orders.

The order within a log, and within all of the wire, stays the same; the delay of each of them is
random. Every order must give the transitions of the oracle.
"""

import random
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from operator import itemgetter
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec

from agent.runtime.pipeline import Pipeline
from metrics.model.sample import Sample
from metrics.model.signals import Signal, SourceKind
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker

_LATE_S = (0.0, 0.02, 0.06, 0.3, 1.0, 2.0)
"""Possible limits of the additional delay of the logs and of the wire."""
_TICK_S = 1.0

Row = dict[str, Any]


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """Signals that arrived together at Unix seconds ``at``, or the end of a stream."""

    at: float
    signals: tuple[Signal, ...] = ()
    stream: str = ""
    ended_at: float = 0.0


@contextmanager
def recording(path: Path) -> Iterator[None]:
    """Record the signals and ends of streams of every pipeline in this process."""
    emit, detach, encode = Pipeline.emit, Pipeline.detach, msgspec.json.encode

    with ExitStack() as stack:
        file = stack.enter_context(path.open("ab"))

        def taped_emit(self: Pipeline, signals: Sequence[Signal]) -> None:
            file.write(encode(Entry(time.time(), tuple(signals))) + b"\n")
            emit(self, signals)

        def taped_detach(self: Pipeline, stream: str, at: float) -> None:
            file.write(encode(Entry(time.time(), (), stream, at)) + b"\n")
            detach(self, stream, at)

        stack.enter_context(patch.object(Pipeline, "emit", taped_emit))
        stack.enter_context(patch.object(Pipeline, "detach", taped_detach))
        yield


def read(path: Path, but_of: str) -> list[Entry]:
    """Return the entries of a tape, without those with signals of one client."""
    with path.open("rb") as file:
        entries = [msgspec.json.decode(line, type=Entry) for line in file]
    return [
        each
        for each in entries
        if not any(signal.member.client_id == but_of for signal in each.signals)
    ]


def retold(entries: Sequence[Entry], seed: int) -> list[Row]:
    """Return the records of a tracker that gets the entries in another order.

    The order depends on the seed; 0 is the order of the tape.
    """
    chance = random.Random(seed)
    logs_s = chance.choice(_LATE_S)
    late_s = defaultdict[str, float](lambda: logs_s, {SourceKind.WIRE: chance.choice(_LATE_S)})
    due, voices = defaultdict[str, float](float), dict[str, str]()
    arriving = list[tuple[float, Entry]]()
    for entry in entries:
        voices |= {each.member.origin: _voice(each) for each in entry.signals}
        voice = _voice(entry.signals[0]) if entry.signals else voices.get(entry.stream, "")
        after_s = chance.uniform(0.0, late_s[voice]) if seed else 0.0
        due[voice] = max(due[voice], entry.at + after_s)
        arriving.append((due[voice], entry))
    samples = _got(sorted(arriving, key=itemgetter(0)), 2 * max(_LATE_S))
    return [msgspec.to_builtins(each) for each in samples]


def _voice(signal: Signal) -> str:
    """Return the name of the sequence with a fixed order: the signal's log, or the whole wire."""
    return signal.member.origin if signal.source is SourceKind.LOGS else signal.source


def _got(arriving: Iterable[tuple[float, Entry]], behind_s: float) -> Iterator[Sample]:
    tracker, ticked_at = Tracker(StatusConfig()), 0.0
    for at, entry in arriving:
        if at >= ticked_at + _TICK_S:
            ticked_at = at
            yield from tracker.advance(at - behind_s)
        for signal in entry.signals:
            yield from tracker.apply(signal)
        if entry.stream:
            yield from tracker.detach(entry.stream, entry.ended_at)
    yield from tracker.flush()
