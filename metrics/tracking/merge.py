"""Several sources of one member: what another one has told already, what came late, what waits.

Theory of operation. Whoever tells an event first moves the status; another source's telling of it
only confirms, and brings better words where there were none. A cause that only the slower source
saw cannot be put into a round that is over: it becomes an episode of its own where nothing has
moved since, else it is recorded as a ``signal``; so is what an assignment demands, once who told
its round's end has told the next cause: a client may reject an assignment. A leave without a reason
may be a drop (5), which the wire does not tell from a close: while a source that knows better
lives, it waits for that one. So does a broker's end of a round, whose assignment may demand the
next one (10): while the member tells of that round itself, its own end is the end. What a broker
tells of a new member waits too, where clients are heard: a client's new log is found some seconds
after the broker's line.
"""

from collections import Counter

from metrics.model.sample import Sample
from metrics.model.signals import Signal, SignalKind, SourceKind
from metrics.model.status import RebalanceStatus
from metrics.tracking.consumer import RANK, Consumer, Layer, Voice
from metrics.tracking.duplicates import (
    DROPPED,
    LAYERS,
    LEFT,
    RAISES,
    SAME_EVENT_S,
    Fact,
    claim,
    facts,
    has_gone_on,
    remember,
    vagueness_s,
    voice_name,
)
from metrics.tracking.group_durations import GroupLedger
from metrics.tracking.ordering import (
    DEMANDS,
    ends_of_others,
    ends_own,
    is_for_one_that_left,
    is_late,
    is_of_ended_round,
)
from metrics.tracking.streams_instances import Instances
from metrics.tracking.transitions import Moves

NONE = RebalanceStatus.NONE

BYSTANDERS = {SignalKind.SEEN, SignalKind.NOTE}
"""Say nothing of the member's status: they undo, confirm and begin nothing, and are never late."""
HOLD_S = 5.0
"""How long an unclear leave or end waits: a log is read within a second, but some come late."""
MEET_S = 8.0
"""How long a broker's new member waits for its own words: a new log is found within 5 s."""
_HELD = 100
"""What one voice may tell behind an unclear leave or end until that is taken as it is."""


class Merging:
    """Between the signals of all sources and the moves of a member."""

    def __init__(
        self, moves: Moves, instances: Instances, ledger: GroupLedger, counts: Counter[str]
    ) -> None:
        self._moves, self._instances = moves, instances
        self._ledger, self._counts = ledger, counts

    def take(self, entry: Consumer, signal: Signal) -> list[Sample]:
        """Take a signal of whichever source, and return what it changed."""
        if entry.awaited_until is not None:
            if entry.is_told_by_brokers and len(entry.held) < _HELD:
                entry.held.append(signal)
                return []
            entry.awaited_until = None
        if signal.kind in BYSTANDERS:
            return self._do(entry, signal)
        if _is_removal(signal) and _is_known_better(entry, signal):
            return []
        entry.tell(signal)
        out = self.release(entry) if _has_passed(entry, signal) else []
        if _waits(entry, signal):
            entry.held.append(signal)
        else:
            out += self._take(entry, signal)
        if entry.held and (len(entry.held) > _HELD or _is_told(entry, entry.held[0])):
            out += self.release(entry)
        return out

    def release(self, entry: Consumer) -> list[Sample]:
        """Take an unclear leave or end as it is, and what waits behind it."""
        (first, *behind), entry.held, entry.awaited_until = entry.held, [], None
        out = self._do(entry, first) if first.kind in BYSTANDERS else self._take(entry, first)
        for signal in behind:
            out += self.take(entry, signal)
        return out

    def release_due(self, entry: Consumer, now: float) -> list[Sample]:
        """Take what has waited long enough."""
        out: list[Sample] = []
        while entry.held and (entry.awaited_until or entry.held[0].at + HOLD_S) <= now:
            out += self.release(entry)
        return out

    def _take(self, entry: Consumer, signal: Signal) -> list[Sample]:
        told = facts(signal)
        claimed = [claim(entry.told, fact) for fact in told] if len(entry.voices) > 1 else []
        if not claimed or claimed[0] is None or ends_own(entry.track, signal, claimed[0]):
            return self._take_news(entry, signal, told)
        out = self._confirm(entry, signal, told[0], claimed[0])
        new = {fact.name for fact, echo in zip(told, claimed, strict=True) if echo is None}
        rest = _rest(signal, new)
        if rest is None:
            return out
        is_end = signal.kind is SignalKind.SYNC
        if is_end and has_gone_on(entry.told, claimed[0]):  # it may have rejected the assignment
            return out + self._note_demands(entry, rest)
        return out + self._take_news(entry, rest, facts(rest))

    def _take_news(self, entry: Consumer, signal: Signal, told: list[Fact]) -> list[Sample]:
        if is_late(entry, signal):
            self._counts["late"] += 1
            return self._take_late(entry, signal, told)
        if is_of_ended_round(entry, signal):
            self._counts["late"] += 1
            return [self._moves.note(entry.track, signal.status, signal.at, signal.reason)]
        if is_for_one_that_left(entry.track, signal):
            return [self._moves.note(entry.track, signal.status, signal.at, signal.reason)]
        if _is_broker_s_end(signal) and _ends_by_itself(entry):
            entry.track.confirmed_at = max(entry.track.confirmed_at, signal.at)
            return []
        remember(entry.told, told)
        return self._do(entry, signal)

    def _do(self, entry: Consumer, signal: Signal) -> list[Sample]:
        """Take a signal into the track."""
        track, out = entry.track, self._moves.expire(entry, signal.at)
        track.meet(signal.source, signal.member.stream, signal.at)
        if signal.generation is not None:
            track.generation = signal.generation
        if signal.kind not in BYSTANDERS:
            track.confirmed_at = max(track.confirmed_at, signal.at)
            track.left_at = None
        self._instances.meet(entry, signal.at)
        self._ledger.see(track.group_key)
        return out + self._moves.take(entry, signal)

    def _confirm(self, entry: Consumer, signal: Signal, fact: Fact, told: Fact) -> list[Sample]:
        """Take an echo: the same event, perhaps in better words."""
        track = entry.track
        track.confirmed_at = max(track.confirmed_at, signal.at)
        if signal.kind is SignalKind.SYNC:
            entry.joining = False
        if (told.name, fact.name) == (LEFT, DROPPED):  # it was taken for a close
            return [self._moves.note(track, signal.status, signal.at, signal.reason)]
        known, told.reason = told.reason, _better(told, fact)
        if track.status is NONE or track.status is not signal.status or told.reason == known:
            return []
        track.reason = told.reason
        if known is not None:
            return []
        return [self._moves.note(track, signal.status, signal.at, signal.reason)]

    def _note_demands(self, entry: Consumer, rest: Signal) -> list[Sample]:
        """Record what an assignment would have demanded, each of whom it is demanded."""
        layer, instance = rest.streams_follow_up, self._instances.track_of(entry)
        out: list[Sample] = []
        if rest.status:
            out.append(self._moves.note(entry.track, rest.status, rest.at, rest.reason))
        if layer is not None and instance is not None:
            out.append(self._moves.note(instance, layer.status, layer.at, layer.reason))
        return out

    def _take_late(self, entry: Consumer, signal: Signal, told: list[Fact]) -> list[Sample]:
        """Take a cause of a round that another source has ended."""
        track, at = entry.track, signal.at - vagueness_s(signal.source)
        ends = [each for each in ends_of_others(entry, signal) if each.at >= at]
        if signal.kind is not SignalKind.RAISE or not signal.status or not ends:
            return []
        remember(entry.told, told)
        if track.status is not NONE or (track.moved is not None and track.moved.at > at):
            return [self._moves.note(track, signal.status, signal.at, signal.reason)]
        now = track.ended, entry.instance, entry.layer
        if not self._instances.is_at_rest_since(entry, at):
            entry.instance = None  # it has gone on
        entry.layer = Layer()  # of a later assignment
        out = self._do(entry, signal)
        out += self._do(entry, _ending(signal, min(ends, key=lambda each: each.at)))
        track.ended, entry.instance, entry.layer = now
        return out


def _better(told: Fact, fact: Fact) -> str | None:
    if fact.reason is None or (
        told.reason is not None and RANK.index(told.source) <= RANK.index(fact.source)
    ):
        return told.reason
    return fact.reason


def _rest(signal: Signal, new: set[str]) -> Signal | None:
    """Return what a signal tells beside an echo: the follow-ups that nobody has told."""
    own, layer = signal.follow_up, signal.streams_follow_up
    if own is not None and RAISES[own.status] not in new:
        own = None
    if layer is not None and LAYERS[layer.status] not in new:
        layer = None
    first = own or layer
    if first is None:
        return None
    return Signal(
        kind=SignalKind.RAISE,
        at=first.at,
        member=signal.member,
        source=signal.source,
        status=NONE if own is None else own.status,
        reason=first.reason,
        generation=signal.generation,
        streams_follow_up=layer,
    )


def _ending(signal: Signal, end: Fact) -> Signal:
    return Signal(
        kind=SignalKind(end.name),
        at=end.at,
        member=signal.member,
        source=signal.source,
        reason=end.reason,
    )


def _waits(entry: Consumer, signal: Signal) -> bool:
    """Tell whether a signal is an unclear leave or end, or comes behind one."""
    if entry.held and voice_name(signal) in map(voice_name, entry.held):
        return True
    is_leave = signal.kind is SignalKind.LEAVE and signal.reason is None
    return (
        (is_leave and _is_known_better(entry, signal))
        or (_is_broker_s_end(signal) and any(map(_shows_demands, entry.voices)))
    ) and not _is_told(entry, signal)


def _is_removal(signal: Signal) -> bool:
    """Tell whether a broker has only done with a member, which may yet come back."""
    return signal.kind is SignalKind.FAIL and signal.source is SourceKind.BROKER_LOG


def _is_broker_s_end(signal: Signal) -> bool:
    """Tell whether a round seems to be over; the assignment may demand the next one."""
    return signal.kind is SignalKind.SYNC and signal.source is SourceKind.BROKER_LOG


def _shows_demands(voice: Voice) -> bool:
    return voice.attached and voice.source in DEMANDS


def _ends_by_itself(entry: Consumer) -> bool:
    """Tell whether the member is under way by its own words, and will tell the end as well."""
    return any(_shows_demands(v) and v.ends and v.under_way for v in entry.voices)


def _is_known_better(entry: Consumer, signal: Signal) -> bool:
    """Tell whether a source lives that knows the member better."""
    rank = RANK.index(signal.source)
    return any(voice.attached and voice.rank < rank for voice in entry.voices)


def _is_told(entry: Consumer, signal: Signal) -> bool:
    return any(
        each.is_same(fact)
        for fact in facts(signal)[:1]  # none, if it raises nothing
        for each in entry.told
        if fact.by[0] not in each.by
    )


def _has_passed(entry: Consumer, signal: Signal) -> bool:
    """Tell whether the one who was waited for tells of what came after the leave."""
    if not entry.held:
        return False
    behind = voice_name(signal) in map(voice_name, entry.held)
    return signal.at > entry.held[0].at + (HOLD_S if behind else SAME_EVENT_S)
