"""Verdicts on signals: the state machine of one member that several sources report.

Theory of operation. `judge` looks at a member's state and a signal, changes nothing, and returns
the first rule of `RULES` that applies. `metrics.tracking.merge` acts on it; no other module decides
about a second source. Policy by kind of source is in `metrics.tracking.source_traits`.

States. A RAISE takes STABLE, LEFT and LOST to REBALANCING, a SYNC or FAIL takes that to STABLE, a
LEAVE to LEFT. A status that nothing confirms in time takes REBALANCING to LOST, and the next signal
takes LOST to STABLE. AWAITED lasts until the member's own source reports, or for a few seconds.
"""

from collections.abc import Callable, Container, Sequence
from enum import Enum, auto
from typing import NamedTuple

from metrics.model.signals import Signal, SignalKind
from metrics.model.status import RebalanceStatus
from metrics.tracking.consumer import NEUTRAL_KINDS, Consumer
from metrics.tracking.duplicates import (
    SAME_EVENT_S,
    find_duplicate,
    reporter_name,
    split_signal,
)
from metrics.tracking.ordering import (
    earliest_at,
    ends_own_rebalance,
    is_late,
    is_of_ended_rebalance,
    is_response_after_leave,
    outstanding_ends,
)
from metrics.tracking.source_traits import TRAITS, SourceTraits

NONE = RebalanceStatus.NONE
_WITH_OWNERS = {"classic", "consumer", "streams"}
"""Types of groups whose partitions have owners."""

PENDING_S = 5.0
"""Time that an ambiguous leave or end waits: a log is read within a second, but some come late."""


class MemberState(Enum):
    """State of one member. Exactly one holds."""

    AWAITED = auto()
    """Only brokers report it, and its own source may still report the same events."""
    STABLE = auto()
    """Its status is 0."""
    REBALANCING = auto()
    """Its status is 1 to 13."""
    LEFT = auto()
    """It left by itself: its status is 0, and no later signal has brought it back."""
    LOST = auto()
    """Nothing confirmed its status in time: it has no series until the next signal."""


class Verdict(Enum):
    """Effect of a signal on a member."""

    APPLY = auto()
    """The member moves as the signal requires."""
    CONFIRM = auto()
    """Another source has reported the event: it confirms the status and may improve the reason."""
    REFRESH = auto()
    """It moves nothing, but the status is confirmed."""
    HOLD = auto()
    """It waits for a source that knows the member better."""
    RELEASE = auto()
    """Pending signals come first; then the signal is judged again."""
    BACKFILL = auto()
    """The cause of a rebalance that is over: an episode of its own, in the past."""
    NOTE = auto()
    """It moves nothing, and is recorded as a sample of kind ``signal``."""
    IGNORE = auto()
    """It moves nothing and leaves no record."""


class Case(NamedTuple):
    """One signal of one member, and the conditions of the rules."""

    consumer: Consumer
    signal: Signal
    traits: SourceTraits
    """Of the signal's source."""
    siblings: Sequence[Consumer] = ()
    """The other threads of a Streams thread's instance."""

    @property
    def state(self) -> MemberState:
        """The member's state."""
        track = self.consumer.track
        if self.consumer.is_awaited:
            return MemberState.AWAITED
        if track.status is not NONE:
            return MemberState.REBALANCING
        if track.left_at is not None:
            return MemberState.LEFT
        return MemberState.STABLE if track.known else MemberState.LOST

    def holds_always(self) -> bool:
        """Match any signal."""
        return True

    def is_removal_by_broker(self) -> bool:
        """Match a broker's removal of a member that a better source reports: it may come back."""
        return self.traits.is_broker and self.consumer.has_better_source(self.signal)

    def is_removal_of_earlier_id(self) -> bool:
        """Match a broker's removal of a member id that the member had before its present one.

        A client whose join failed joins again and gets another id. Its coordinator removes the
        first one when that id's session ends, and the client is there all the time.
        """
        consumer, ids = self.consumer, self.consumer.member_ids
        is_removal = self.signal.kind is SignalKind.FAIL or (
            self.signal.status is RebalanceStatus.UNKNOWN_MEMBER
        )
        is_earlier = self.signal.member.member_id in ids[:-1]
        if not (is_removal and is_earlier and self.traits.is_broker and consumer.has_own_source):
            return False
        moved = consumer.track.moved
        return moved is None or moved.at <= self.signal.at

    def overtakes_pending(self) -> bool:
        """Match an event that is later than the pending signals may wait for."""
        pending = self.consumer.pending
        if not pending:
            return False
        wait_s = PENDING_S if self.is_behind_pending() else SAME_EVENT_S
        return self.signal.at > pending[0].at + wait_s

    def is_behind_pending(self) -> bool:
        """Match a signal after a pending one of the same source and origin."""
        pending = self.consumer.pending
        return bool(pending) and reporter_name(self.signal) in map(reporter_name, pending)

    def is_ambiguous_leave(self) -> bool:
        """Match a leave without a reason: on the wire a close and a drop are the same request."""
        has_better = self.signal.reason is None and self.consumer.has_better_source(self.signal)
        return has_better and not self.is_reported()

    def is_ambiguous_end(self) -> bool:
        """Match a broker's end: another source shows if the assignment requires a follow-up."""
        views = self.consumer.views
        is_ambiguous = self.traits.is_broker and any(
            view.attached and TRAITS[view.source].shows_follow_ups for view in views
        )
        return is_ambiguous and not self.is_reported()

    def is_incomplete_end(self) -> bool:
        """Match an end that lacks its generation or what it gave, where the wire showed the begin.

        A log has no number of partitions that moved. Those of a share group have no owners.
        """
        is_complete = self.signal.generation is not None and self.signal.gained is not None
        if is_complete or self.signal.member.group_type not in _WITH_OWNERS:
            return False
        is_expected = any(
            view.attached and view.is_rebalancing and TRAITS[view.source].sees_protocol
            for view in self.consumer.views
        )
        return is_expected and not self.traits.sees_protocol and not self.is_reported()

    def is_behind_sibling(self) -> bool:
        """Match a thread's cause behind an end of another thread of its instance that is pending.

        The instance is at zero between them: the cause must not join the rebalance before.
        """
        return not (self.consumer.pending or self.traits.sees_protocol) and any(
            has_held_end(sibling) and sibling.pending[0].at <= self.signal.at
            for sibling in self.siblings
        )

    def is_behind_held_cause(self) -> bool:
        """Match a join behind its cause that is pending, by the same source."""
        return has_held_cause(self.consumer) and self.is_behind_pending()

    def is_reported(self) -> bool:
        """Match an event that another source has reported."""
        event = split_signal(self.signal)[:1]
        return any(find_duplicate(self.consumer.observations, o) is not None for o in event)

    def is_duplicate(self) -> bool:
        """Match an event that another source has reported, unless it ends its own rebalance."""
        if len(self.consumer.views) < 2:
            return False
        event = split_signal(self.signal)[:1]  # none, if it raises nothing
        originals = [find_duplicate(self.consumer.observations, o) for o in event]
        return any(
            original is not None and not ends_own_rebalance(self.consumer, self.signal, original)
            for original in originals
        )

    def is_late(self) -> bool:
        """Match a signal that is older than another source's event that it would undo."""
        return is_late(self.consumer, self.signal)

    def is_late_without_end(self) -> bool:
        """Match a late raise without a code, or without an end by another source."""
        if not is_late(self.consumer, self.signal):
            return False
        return not self.signal.status or not outstanding_ends(self.consumer, self.signal)

    def is_late_and_member_moved(self) -> bool:
        """Match a late cause that is older than the member's last move."""
        moved = self.consumer.track.moved
        has_moved = moved is not None and moved.at > earliest_at(self.signal)
        return has_moved and is_late(self.consumer, self.signal)

    def is_of_ended_rebalance(self) -> bool:
        """Match a cause of a rebalance that is over, as its source has still to report."""
        return is_of_ended_rebalance(self.consumer, self.signal)

    def is_response_after_leave(self) -> bool:
        """Match a coordinator's response to a request from before the leave."""
        return is_response_after_leave(self.consumer.track, self.signal)

    def is_second_leave(self) -> bool:
        """Match the leave of a member id that has left: the broker may delay the request."""
        member_id = self.signal.member.member_id
        return member_id is not None and member_id == self.consumer.track.member.member_id

    def is_end_expected_from_client(self) -> bool:
        """Match a broker's end that the member's own source will report as well."""
        return self.traits.is_broker and any(
            view.attached
            and view.reports_ends
            and view.is_rebalancing
            and TRAITS[view.source].shows_follow_ups
            for view in self.consumer.views
        )


def has_held_end(consumer: Consumer) -> bool:
    """Check for a member whose end waits for another source."""
    return bool(consumer.pending) and consumer.pending[0].kind is SignalKind.SYNC


def has_held_cause(consumer: Consumer) -> bool:
    """Check for a thread whose cause waits for the end of another thread."""
    return bool(consumer.pending) and consumer.pending[0].kind is SignalKind.RAISE


class Decision(NamedTuple):
    """A verdict, and the bookkeeping that goes with it."""

    verdict: Verdict
    is_late: bool = False
    """It is counted as late."""
    is_remembered: bool = False
    """Its observations are kept, to find other sources' duplicates of them."""


class VerdictRow(NamedTuple):
    """One row of the table: states, kinds, a condition and the decision."""

    states: Container[MemberState]
    kinds: Container[SignalKind]
    applies: Callable[[Case], bool]
    decision: Decision


_ANY_STATE, _ANY_KIND = frozenset(MemberState), frozenset(SignalKind)
_MOVING = _ANY_KIND - NEUTRAL_KINDS
_SETTLED = frozenset({MemberState.STABLE, MemberState.LEFT, MemberState.LOST})
_RAISE, _SYNC, _NOTES = {SignalKind.RAISE}, {SignalKind.SYNC}, {SignalKind.NOTE}
_REMOVALS = {SignalKind.RAISE, SignalKind.FAIL}
_HOLD, _IGNORE, _NOTE = Decision(Verdict.HOLD), Decision(Verdict.IGNORE), Decision(Verdict.NOTE)
_APPLY = Decision(Verdict.APPLY, is_remembered=True)
_LATE_NOTE = Decision(Verdict.NOTE, is_late=True)
_LATE_KEPT = Decision(Verdict.NOTE, is_late=True, is_remembered=True)
_LATE_IGNORED = Decision(Verdict.IGNORE, is_late=True)
_BACKFILL = Decision(Verdict.BACKFILL, is_late=True, is_remembered=True)

RULES = (
    VerdictRow({MemberState.AWAITED}, _ANY_KIND, Case.holds_always, _HOLD),
    VerdictRow(_ANY_STATE, _NOTES, Case.overtakes_pending, Decision(Verdict.RELEASE)),
    VerdictRow(_ANY_STATE, _NOTES, Case.is_behind_pending, _HOLD),
    VerdictRow(_ANY_STATE, {SignalKind.JOIN}, Case.is_behind_held_cause, _HOLD),
    VerdictRow(_ANY_STATE, NEUTRAL_KINDS, Case.holds_always, Decision(Verdict.APPLY)),
    VerdictRow(_ANY_STATE, _REMOVALS, Case.is_removal_of_earlier_id, _IGNORE),
    VerdictRow(_ANY_STATE, {SignalKind.FAIL}, Case.is_removal_by_broker, _IGNORE),
    VerdictRow(_ANY_STATE, _MOVING, Case.overtakes_pending, Decision(Verdict.RELEASE)),
    VerdictRow(_ANY_STATE, _MOVING, Case.is_behind_pending, _HOLD),
    VerdictRow(_ANY_STATE, _RAISE, Case.is_behind_sibling, _HOLD),
    VerdictRow(_ANY_STATE, {SignalKind.LEAVE}, Case.is_ambiguous_leave, _HOLD),
    VerdictRow(_ANY_STATE, _SYNC, Case.is_ambiguous_end, _HOLD),
    VerdictRow(_ANY_STATE, _SYNC, Case.is_incomplete_end, _HOLD),
    VerdictRow(_ANY_STATE, _MOVING, Case.is_duplicate, Decision(Verdict.CONFIRM)),
    VerdictRow({MemberState.LEFT}, {SignalKind.LEAVE}, Case.is_second_leave, _IGNORE),
    VerdictRow(_ANY_STATE, _MOVING - _RAISE, Case.is_late, _LATE_IGNORED),
    VerdictRow(_ANY_STATE, _RAISE, Case.is_late_without_end, _LATE_IGNORED),
    VerdictRow({MemberState.REBALANCING}, _RAISE, Case.is_late, _LATE_KEPT),
    VerdictRow(_ANY_STATE, _RAISE, Case.is_late_and_member_moved, _LATE_KEPT),
    VerdictRow(_ANY_STATE, _RAISE, Case.is_late, _BACKFILL),
    VerdictRow(_SETTLED, _RAISE, Case.is_of_ended_rebalance, _LATE_NOTE),
    VerdictRow({MemberState.LEFT}, _RAISE, Case.is_response_after_leave, _NOTE),
    VerdictRow(_ANY_STATE, _SYNC, Case.is_end_expected_from_client, Decision(Verdict.REFRESH)),
    VerdictRow(_ANY_STATE, _MOVING, Case.holds_always, _APPLY),
)
"""The first rule that applies decides; `judge` has the table in words."""

_RULES_OF = {
    (state, kind): [(r.applies, r.decision) for r in RULES if state in r.states and kind in r.kinds]
    for state in MemberState
    for kind in SignalKind
}


def judge(
    consumer: Consumer,
    signal: Signal,
    traits: SourceTraits,
    passed_over: Container[Verdict] = (),
    siblings: Sequence[Consumer] = (),
) -> Decision:
    """Return the decision of the first rule that applies; change nothing.

    ======================  ===========  ========================================  ===============
    state                   signal       condition                                 verdict
    ======================  ===========  ========================================  ===============
    AWAITED                 any          always                                    HOLD
    any                     NOTE         later than what pending signals wait for  RELEASE
    any                     NOTE         an earlier one of its source is pending   HOLD
    any                     JOIN         its cause is pending                      HOLD
    any                     neutral      always                                    APPLY
    any                     RAISE, FAIL  a broker removes an earlier member id     IGNORE
    any                     FAIL         a broker's; a better source is attached   IGNORE
    any                     moving       later than what pending signals wait for  RELEASE
    any                     moving       an earlier one of its source is pending   HOLD
    any                     RAISE        behind a pending end of another thread    HOLD
    any                     LEAVE        no reason; a better source is attached    HOLD
    any                     SYNC         a broker's; another shows follow-ups      HOLD
    any                     SYNC         incomplete; the wire will show the rest   HOLD
    any                     moving       another source has reported the event     CONFIRM
    LEFT                    LEAVE        the same member id has left               IGNORE
    any                     not RAISE    late                                      IGNORE, late
    any                     RAISE        late; no code or no end by another        IGNORE, late
    REBALANCING             RAISE        late                                      NOTE, late
    any                     RAISE        late; the member has moved since          NOTE, late
    any                     RAISE        late                                      BACKFILL, late
    STABLE, LEFT, LOST      RAISE        its source still has to report the end    NOTE, late
    LEFT                    RAISE        a response to a request before the leave  NOTE
    any                     SYNC         a broker's; the client's own is expected  REFRESH
    any                     moving       always                                    APPLY
    ======================  ===========  ========================================  ===============

    "Moving" is any kind but SEEN and NOTE; "late" is older than another source's event that the
    signal would undo. A pending signal that is released is not held again: ``passed_over``.
    """
    case = Case(consumer, signal, traits, siblings)
    for applies, decision in _RULES_OF[case.state, signal.kind]:  # pragma: no branch
        if decision.verdict not in passed_over and applies(case):
            break
    return decision  # the last rule has no condition
