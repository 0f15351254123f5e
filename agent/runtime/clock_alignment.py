"""Clock alignment of recorded logs with recorded traffic.

A log without a zone in its times may come from another zone than this machine's. The member id and
generation of a sync name one event in log and traffic, so the difference of its two times is the
log's offset, whatever the clocks show: whole quarters of an hour are a zone, other steady
differences a clock that is wrong. A few seconds are left alone (`metrics.tracking.duplicates`
tolerates them).

In a new protocol only a zone is found. A log prints a stable epoch before the member has the
partitions that others must give up first; traffic shows the acknowledgement after that.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from statistics import median
from typing import TypeAlias

from msgspec.structs import replace

from agent.sources.base import Tick
from metrics.model.signals import FollowUp, Signal, SignalKind, SourceKind

Events: TypeAlias = Iterator[Signal | Tick]

_QUARTER_S = 900.0
_TOLERANCE_S = 5.0
"""Maximum rest of an offset: a client logs a sync soon after the response."""
_SKEW_MIN_S = 10.0
"""Least offset that is corrected: `metrics.tracking.duplicates` tolerates less."""
_PEEKED = 2_000
"""Events at the start of a stream that may hold a common sync: 1 MiB of signals."""

_Key: TypeAlias = tuple[str, str, str, int]
"""Group and its type, member id and generation of a sync."""


def align_clocks(streams: Iterable[Events], on_note: Callable[[str], None]) -> list[Events]:
    """Return the streams with logs of another zone shifted to the time of the traffic."""
    originals = list(streams)
    if len(originals) == 1:
        return originals
    heads = [list(islice(stream, _PEEKED)) for stream in originals]
    traffic: dict[_Key, float] = {}
    for head in heads:
        traffic |= _sync_times(head, SourceKind.WIRE)
    return [
        _align(head, stream, traffic, on_note)
        for head, stream in zip(heads, originals, strict=True)
    ]


def find_offset_s(log: dict[_Key, float], traffic: dict[_Key, float]) -> float:
    """Return how many seconds a log is ahead of the traffic; 0: not at all, or not steadily.

    Near a whole quarter of an hour it is that: a zone.
    """
    common = [key for key in log if key in traffic]
    classic = [key for key in common if key[1] == "classic"]
    found = [log[key] - traffic[key] for key in classic or common]
    if not found or max(found) - min(found) >= _TOLERANCE_S:
        return 0.0
    middle = median(found)
    offset_s = _QUARTER_S * round(middle / _QUARTER_S)
    if abs(middle - offset_s) >= _TOLERANCE_S:
        offset_s = middle if classic else 0.0
    return offset_s if abs(offset_s) >= _SKEW_MIN_S else 0.0


def _align(
    head: list[Signal | Tick],
    rest: Events,
    traffic: dict[_Key, float],
    on_note: Callable[[str], None],
) -> Events:
    events = chain(head, rest)
    offset_s = find_offset_s(_sync_times(head, SourceKind.LOGS), traffic)
    if not offset_s:
        return events
    origin = next(event.member.origin for event in head if isinstance(event, Signal))
    on_note(
        f"{origin}: its times are {_name(offset_s)} from the capture's and are corrected; "
        "--timezone names its zone"
    )
    return (_shift(event, offset_s) for event in events)


def _name(offset_s: float) -> str:
    return f"{offset_s:+.1f} s" if offset_s % _QUARTER_S else f"{offset_s / 3600:+g} h"


def _sync_times(events: Iterable[Signal | Tick], source: SourceKind) -> dict[_Key, float]:
    return {
        (
            event.member.group,
            event.member.group_type,
            event.member.member_id,
            event.generation,
        ): event.at
        for event in events
        if isinstance(event, Signal)
        and event.source is source
        and event.kind is SignalKind.SYNC
        and event.member.member_id
        and event.generation is not None
    }


def shift_signal(signal: Signal, ahead_s: float) -> Signal:
    """Return a signal with the times of a clock that is not ahead."""
    return replace(
        signal,
        at=signal.at - ahead_s,
        follow_up=_shift_follow_up(signal.follow_up, ahead_s),
        streams_follow_up=_shift_follow_up(signal.streams_follow_up, ahead_s),
    )


def _shift(event: Signal | Tick, offset_s: float) -> Signal | Tick:
    if isinstance(event, Tick):
        return event._replace(at=event.at - offset_s)
    return shift_signal(event, offset_s)


def _shift_follow_up(follow_up: FollowUp | None, offset_s: float) -> FollowUp | None:
    if follow_up is None:
        return None
    due_at = None if follow_up.due_at is None else follow_up.due_at - offset_s
    return replace(follow_up, at=follow_up.at - offset_s, due_at=due_at)
