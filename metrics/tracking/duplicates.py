"""What was told of a member: the same fact told by a second source is an echo.

Theory of operation. Two sources of one member tell the same history, each in its own order and with
its own delay. What one of them tells is taken once; when another tells it too, it is claimed: the
nearest fact of the same name within `SAME_EVENT_S` that this voice has not told yet, and for the
end of a classic round the one of the same generation. Order of arrival does not matter.
"""

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from metrics.model.sample import clip_reason
from metrics.model.signals import Signal, SignalKind, SourceKind
from metrics.model.status import RebalanceStatus

SAME_EVENT_S = 2.0
"""How far two sources' times of one event are apart at most: a client logs that it will join up to
a second before it sends the request (it connects first), and a busy machine adds to that."""
_LOOK_S = 10.0
"""The same for a source that looks at a client every now and then, and dates what it finds."""
REMEMBERED_S = 60.0
"""How long a fact waits for another voice; a source that is further behind than that tells only
what is older than the last end, which moves nothing anyway."""
_OBSERVATIONS = 32

RAISES = {code: f"raise {code:d}" for code in RebalanceStatus}
FOLLOW_UPS = {code: f"layer {code:d}" for code in RebalanceStatus}
_CAUSES = {RAISES[code] for code in RebalanceStatus if code < RebalanceStatus.REVOCATION_NEEDED}
"""What begins a round; a demand follows from its end, and may be dated before it."""
DROPPED = RAISES[RebalanceStatus.DROPPED_GROUP]
LEFT = SignalKind.LEAVE.value
ENDS = {kind.value for kind in (SignalKind.SYNC, SignalKind.LEAVE, SignalKind.FAIL)}
"""Names of facts."""


class Observation(msgspec.Struct, kw_only=True, rename={"reporters": "by"}):
    """One thing that was told. ``at`` is Unix seconds, by the voice that told it first."""

    name: str
    """``raise 2``, ``layer 11``, or the kind of the signal."""
    at: float
    generation: int | None = None
    """Of the end of a classic round."""
    reason: str | None = None
    source: SourceKind
    reporters: tuple[str, ...]
    """The streams that have told it."""

    def is_same(self, other: "Observation") -> bool:
        """Tell whether both are the same event."""
        if None not in {self.generation, other.generation}:
            return self.name == other.name and self.generation == other.generation
        names = {self.name, other.name}
        drop = names == {DROPPED, LEFT} and (self if self.name == LEFT else other).reason is None
        apart_s = SAME_EVENT_S + max(clock_slack_s(self.source), clock_slack_s(other.source))
        return (drop or len(names) == 1) and abs(self.at - other.at) < apart_s

    def is_reported_by(self, voice: str) -> bool:
        """Tell whether a voice has surely told this end too: of this generation."""
        return voice in self.reporters and self.generation is not None


def clock_slack_s(source: SourceKind) -> float:
    """Return how far a source's times may be off."""
    return _LOOK_S if source is SourceKind.STATS else 0.0


def split_signal(signal: Signal) -> list[Observation]:
    """Take a signal apart: what it is first, then what follows from it."""
    own, layer, out = signal.follow_up, signal.streams_follow_up, list[Observation]()
    if signal.kind is not SignalKind.RAISE:
        out.append(_observation(signal, signal.kind.value, signal.at, signal.reason))
    elif signal.status:
        out.append(_observation(signal, RAISES[signal.status], signal.at, signal.reason))
    if own is not None:
        out.append(_observation(signal, RAISES[own.status], own.at, own.reason))
    if layer is not None:
        out.append(_observation(signal, FOLLOW_UPS[layer.status], layer.at, layer.reason))
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
    """Return who tells it, in one word."""
    (name,) = _reporters(signal.source, signal.member.origin)
    return name


@lru_cache(maxsize=1000)
def _reporters(source: SourceKind, stream: str) -> tuple[str]:
    """Return one object for all that a voice tells: 20,000 members have three facts each."""
    return (f"{source} {stream}",)


def match_observation(told: Sequence[Observation], fact: Observation) -> Observation | None:
    """Return the fact that ``fact`` repeats, and mark it as told by this voice too."""
    (voice,) = fact.reporters
    same = [each for each in told if voice not in each.reporters and each.is_same(fact)]
    found = min(same, key=lambda each: abs(each.at - fact.at), default=None)
    if found is not None:
        found.reporters += (voice,)
        _close(told, found, voice)
    return found


def has_later_cause(told: Sequence[Observation], end: Observation) -> bool:
    """Tell whether the voice that told an end first has told a cause behind it."""
    behind = told[told.index(end) + 1 :]
    return any(each.name in _CAUSES and each.reporters[0] == end.reporters[0] for each in behind)


def is_end_outstanding(
    told: Sequence[Observation], voice: str, begun_at: float, ended_at: float
) -> bool:
    """Tell whether a voice has told why a round began, but not its end, which another has."""
    of_round = [each for each in told if begun_at <= each.at]
    knows_why = any(each.name in _CAUSES and voice in each.reporters for each in of_round)
    ends = [each for each in of_round if each.name in ENDS and each.at == ended_at]
    is_behind = any(each.generation is not None and voice not in each.reporters for each in ends)
    return knows_why and is_behind


def remember(told: list[Observation], new: Sequence[Observation]) -> None:
    """Keep what was told for the first time."""
    for fact in new:
        (voice,) = fact.reporters
        _close(told, fact, voice)
        if fact.name in _CAUSES:
            fact.reporters += (*_reporters_beyond(told, fact, voice),)
    told.extend(new)
    del told[:-_OBSERVATIONS]


def _close(told: Sequence[Observation], end: Observation, voice: str) -> None:
    """Note that a voice that has told an end tells no cause of before it any more.

    A log has two lines for some answers: the second would be taken for the wire's next cause.
    """
    if end.name in ENDS:
        for each in told:
            if each.name in _CAUSES and each.at < end.at and voice not in each.reporters:
                each.reporters += (voice,)


def _reporters_beyond(told: Sequence[Observation], cause: Observation, voice: str) -> set[str]:
    """Return who has told an end behind a cause that comes late; its own voice has not yet."""
    ends = (each for each in told if each.name in ENDS and each.at > cause.at)
    return {name for end in ends if not end.is_reported_by(voice) for name in end.reporters}


def forget(told: list[Observation], now: float) -> None:
    """Drop what is too old to be told again."""
    if told and told[0].at < now - REMEMBERED_S:
        told[:] = [each for each in told if each.at >= now - REMEMBERED_S]
