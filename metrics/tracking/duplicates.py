"""What was told of a member: the same fact told by a second source is an echo.

Theory of operation. Two sources of one member tell the same history, each in its own order and with
its own delay. What one of them tells is taken once; when another tells it too, it is claimed: the
nearest fact of the same name within `SAME_EVENT_S` that this voice has not told yet, and for the
end of a classic round the one of the same generation. Order of arrival does not matter.
"""

from collections.abc import Sequence
from functools import lru_cache

import msgspec

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
_FACTS = 32

RAISES = {code: f"raise {code:d}" for code in RebalanceStatus}
LAYERS = {code: f"layer {code:d}" for code in RebalanceStatus}
_CAUSES = {RAISES[code] for code in RebalanceStatus if code < RebalanceStatus.REVOCATION_NEEDED}
"""What begins a round; a demand follows from its end, and may be dated before it."""
DROPPED = RAISES[RebalanceStatus.DROPPED_GROUP]
LEFT = SignalKind.LEAVE.value
ENDS = {kind.value for kind in (SignalKind.SYNC, SignalKind.LEAVE, SignalKind.FAIL)}
"""Names of facts."""


class Fact(msgspec.Struct, kw_only=True):
    """One thing that was told. ``at`` is Unix seconds, by the voice that told it first."""

    name: str
    """``raise 2``, ``layer 11``, or the kind of the signal."""
    at: float
    generation: int | None = None
    """Of the end of a classic round."""
    reason: str | None = None
    source: SourceKind
    by: tuple[str, ...]
    """The streams that have told it."""

    def is_same(self, other: "Fact") -> bool:
        """Tell whether both are the same event."""
        if None not in {self.generation, other.generation}:
            return self.name == other.name and self.generation == other.generation
        names = {self.name, other.name}
        drop = names == {DROPPED, LEFT} and (self if self.name == LEFT else other).reason is None
        apart_s = SAME_EVENT_S + max(vagueness_s(self.source), vagueness_s(other.source))
        return (drop or len(names) == 1) and abs(self.at - other.at) < apart_s

    def is_by(self, voice: str) -> bool:
        """Tell whether a voice has surely told this end too: of this generation."""
        return voice in self.by and self.generation is not None


def vagueness_s(source: SourceKind) -> float:
    """Return how far a source's times may be off."""
    return _LOOK_S if source is SourceKind.STATS else 0.0


def facts(signal: Signal) -> list[Fact]:
    """Take a signal apart: what it is first, then what follows from it."""
    own, layer, out = signal.follow_up, signal.streams_follow_up, list[Fact]()
    if signal.kind is not SignalKind.RAISE:
        out.append(_fact(signal, signal.kind.value, signal.at, signal.reason))
    elif signal.status:
        out.append(_fact(signal, RAISES[signal.status], signal.at, signal.reason))
    if own is not None:
        out.append(_fact(signal, RAISES[own.status], own.at, own.reason))
    if layer is not None:
        out.append(_fact(signal, LAYERS[layer.status], layer.at, layer.reason))
    if signal.kind is SignalKind.SYNC and signal.member.group_type == "classic":
        out[0].generation = signal.generation  # an epoch of the new protocols may have two ends
    return out


def _fact(signal: Signal, name: str, at: float, reason: str | None) -> Fact:
    source = signal.source
    return Fact(
        name=name, at=at, reason=reason, source=source, by=_voice(source, signal.member.stream)
    )


def voice_name(signal: Signal) -> str:
    """Return who tells it, in one word."""
    (name,) = _voice(signal.source, signal.member.stream)
    return name


@lru_cache(maxsize=1000)
def _voice(source: SourceKind, stream: str) -> tuple[str]:
    """Return one object for all that a voice tells: 20,000 members have three facts each."""
    return (f"{source} {stream}",)


def claim(told: Sequence[Fact], fact: Fact) -> Fact | None:
    """Return the fact that ``fact`` repeats, and mark it as told by this voice too."""
    (voice,) = fact.by
    same = [each for each in told if voice not in each.by and each.is_same(fact)]
    found = min(same, key=lambda each: abs(each.at - fact.at), default=None)
    if found is not None:
        found.by += (voice,)
        _close(told, found, voice)
    return found


def has_gone_on(told: Sequence[Fact], end: Fact) -> bool:
    """Tell whether the voice that told an end first has told a cause behind it."""
    behind = told[told.index(end) + 1 :]
    return any(each.name in _CAUSES and each.by[0] == end.by[0] for each in behind)


def owes_end(told: Sequence[Fact], voice: str, begun_at: float, ended_at: float) -> bool:
    """Tell whether a voice has told why a round began, but not its end, which another has."""
    of_round = [each for each in told if begun_at <= each.at]
    knows_why = any(each.name in _CAUSES and voice in each.by for each in of_round)
    ends = [each for each in of_round if each.name in ENDS and each.at == ended_at]
    is_behind = any(each.generation is not None and voice not in each.by for each in ends)
    return knows_why and is_behind


def remember(told: list[Fact], new: Sequence[Fact]) -> None:
    """Keep what was told for the first time."""
    for fact in new:
        (voice,) = fact.by
        _close(told, fact, voice)
        if fact.name in _CAUSES:
            fact.by += (*_beyond(told, fact, voice),)
    told.extend(new)
    del told[:-_FACTS]


def _close(told: Sequence[Fact], end: Fact, voice: str) -> None:
    """Note that a voice that has told an end tells no cause of before it any more.

    A log has two lines for some answers: the second would be taken for the wire's next cause.
    """
    if end.name in ENDS:
        for each in told:
            if each.name in _CAUSES and each.at < end.at and voice not in each.by:
                each.by += (voice,)


def _beyond(told: Sequence[Fact], cause: Fact, voice: str) -> set[str]:
    """Return who has told an end behind a cause that comes late; its own voice has not yet."""
    ends = (each for each in told if each.name in ENDS and each.at > cause.at)
    return {name for end in ends if not end.is_by(voice) for name in end.by}


def forget(told: list[Fact], now: float) -> None:
    """Drop what is too old to be told again."""
    if told and told[0].at < now - REMEMBERED_S:
        told[:] = [each for each in told if each.at >= now - REMEMBERED_S]
