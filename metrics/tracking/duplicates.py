"""Observations of a member, and the duplicates among them.

Theory of operation. Two sources of one member report the same history, each in its own order and
with its own delay. The first report of an event moves the status and becomes an observation. A
second source's report matches the nearest observation of the same name within `SAME_EVENT_S` that
this source has not reported yet; the end of a classic rebalance matches the one of the same
generation. The order of arrival does not matter.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache

import msgspec

from metrics.model.sample import clip_reason
from metrics.model.signals import Signal, SignalKind, SourceKind
from metrics.model.status import RebalanceStatus
from metrics.tracking.source_traits import TRAITS

SAME_EVENT_S = 2.0
"""Maximum difference between two sources' times of one event: a client logs a join up to a second
before it sends the request (it connects first), and a busy machine adds to that."""
REMEMBERED_S = 60.0
"""Time that an observation waits for another source; a source that is further behind reports only
events older than the last end, which move nothing anyway."""
_OBSERVATIONS = 32
"""Observations kept of one member."""

RAISES = {code: f"raise {code:d}" for code in RebalanceStatus}
FOLLOW_UPS = {code: f"layer {code:d}" for code in RebalanceStatus}
"""The checkpoint has these names."""
_CAUSES = {RAISES[code] for code in RebalanceStatus if code < RebalanceStatus.REVOCATION_NEEDED}
"""Names that begin a rebalance; a follow-up results from its end, and may have an earlier time."""
DROPPED = RAISES[RebalanceStatus.DROPPED_GROUP]
LEFT = SignalKind.LEAVE.value
ENDS = {kind.value for kind in (SignalKind.SYNC, SignalKind.LEAVE, SignalKind.FAIL)}


class Observation(msgspec.Struct, kw_only=True, omit_defaults=True, rename={"reporters": "by"}):
    """One reported event. ``at`` is Unix seconds, from its first reporter."""

    name: str
    """``raise 2``, ``layer 11``, or the kind of the signal."""
    at: float
    generation: int | None = None
    """Of the end of a classic rebalance."""
    reason: str | None = None
    source: SourceKind
    reporters: tuple[str, ...]
    """Reporters so far (`reporter_name`), the first one first."""

    def is_same(self, other: "Observation") -> bool:
        """Return True if both are the same event."""
        if None not in {self.generation, other.generation}:
            return self.name == other.name and self.generation == other.generation
        names = {self.name, other.name}
        # a leave without a reason may be a drop
        is_drop = names == {DROPPED, LEFT} and (self if self.name == LEFT else other).reason is None
        slack_s = max(TRAITS[self.source].clock_slack_s, TRAITS[other.source].clock_slack_s)
        return (is_drop or len(names) == 1) and abs(self.at - other.at) < SAME_EVENT_S + slack_s

    def is_end_by(self, reporter: str) -> bool:
        """Return True if this is an end of a known generation that a reporter has reported."""
        return reporter in self.reporters and self.generation is not None


def split_signal(signal: Signal) -> list[Observation]:
    """Return a signal's observations: its own event first, then the follow-ups."""
    own, streams, out = signal.follow_up, signal.streams_follow_up, list[Observation]()
    if signal.kind is not SignalKind.RAISE:
        at = signal.at if signal.sent_at is None else signal.sent_at
        out.append(_observation(signal, signal.kind.value, at, signal.reason))
    elif signal.status:
        out.append(_observation(signal, RAISES[signal.status], signal.at, signal.reason))
    if own is not None:
        out.append(_observation(signal, RAISES[own.status], own.at, own.reason))
    if streams is not None:
        out.append(_observation(signal, FOLLOW_UPS[streams.status], streams.at, streams.reason))
    if signal.kind is SignalKind.SYNC and signal.member.group_type == "classic":
        out[0].generation = signal.generation  # an epoch of the new protocols may have two ends
    return out


def _observation(signal: Signal, name: str, at: float, reason: str | None) -> Observation:
    source = signal.source
    return Observation(
        name=name,
        at=at,
        reason=clip_reason(reason),
        source=source,
        reporters=_reporters(source, signal.member.origin),
    )


def reporter_name(signal: Signal) -> str:
    """Return the source and origin of a signal as one name."""
    (name,) = _reporters(signal.source, signal.member.origin)
    return name


@lru_cache(maxsize=1000)
def _reporters(source: SourceKind, origin: str) -> tuple[str]:
    """Return one shared tuple per reporter: 20,000 members have three observations each."""
    return (f"{source} {origin}",)


def find_duplicate(
    observations: Iterable[Observation], observation: Observation
) -> Observation | None:
    """Return the observation that another reporter made of the same event; None: it is new."""
    (reporter,) = observation.reporters
    same = [o for o in observations if reporter not in o.reporters and o.is_same(observation)]
    return min(same, key=lambda o: abs(o.at - observation.at), default=None)


def match_observation(
    observations: Sequence[Observation], observation: Observation
) -> Observation | None:
    """Return the duplicate of an observation, now with this reporter among its reporters."""
    original = find_duplicate(observations, observation)
    if original is not None:
        (reporter,) = observation.reporters
        original.reporters += (reporter,)
        _close(observations, original, reporter)
    return original


def has_later_cause(observations: Sequence[Observation], end: Observation) -> bool:
    """Return True if the first reporter of an end has reported a cause after it."""
    later = observations[observations.index(end) + 1 :]
    return any(o.name in _CAUSES and o.reporters[0] == end.reporters[0] for o in later)


def has_confirmed_since(observations: Iterable[Observation], reporter: str, at: float) -> bool:
    """Return True if a reporter has confirmed another one's cause after an instant."""
    return any(
        o.name in _CAUSES and o.at > at and reporter in o.reporters[1:] for o in observations
    )


def is_end_outstanding(
    observations: Iterable[Observation], reporter: str, begun_at: float, ended_at: float
) -> bool:
    """Return True if a reporter has reported a rebalance's cause, but not its end."""
    of_rebalance = [o for o in observations if begun_at <= o.at]
    knows_cause = any(o.name in _CAUSES and reporter in o.reporters for o in of_rebalance)
    ends = [o for o in of_rebalance if o.name in ENDS and o.at == ended_at]
    is_behind = any(o.generation is not None and reporter not in o.reporters for o in ends)
    return knows_cause and is_behind


def remember(observations: list[Observation], new: Sequence[Observation]) -> None:
    """Add first reports."""
    for observation in new:
        (reporter,) = observation.reporters
        _close(observations, observation, reporter)
        if observation.name in _CAUSES:
            beyond = _reporters_beyond(observations, observation, reporter)
            observation.reporters += tuple(sorted(beyond))
    observations.extend(new)
    del observations[:-_OBSERVATIONS]


def _close(observations: Iterable[Observation], end: Observation, reporter: str) -> None:
    """Mark causes before an end as reported: its reporter's later reports of them are ignored.

    A log has two lines for some responses: the second would match the wire's next cause.
    """
    if end.name in ENDS:
        for o in observations:
            if o.name in _CAUSES and o.at < end.at and reporter not in o.reporters:
                o.reporters += (reporter,)


def _reporters_beyond(
    observations: Iterable[Observation], cause: Observation, reporter: str
) -> set[str]:
    """Return the reporters of ends after a late cause; its own reporter has not reported one."""
    ends = (o for o in observations if o.name in ENDS and o.at > cause.at)
    return {name for end in ends if not end.is_end_by(reporter) for name in end.reporters}


def forget(observations: list[Observation], now: float) -> None:
    """Drop observations that are too old for a duplicate."""
    if observations and observations[0].at < now - REMEMBERED_S:
        observations[:] = [o for o in observations if o.at >= now - REMEMBERED_S]
