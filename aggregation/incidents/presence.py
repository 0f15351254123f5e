"""Present and absent members of one group, between two of its rebalances. Pure.

Theory of operation. A member is present from its first assignment until it departs. A departed
member is away until it returns, or until a successor takes its place
(`aggregation.incidents.places`).
"""

from collections import Counter, deque
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from aggregation.incidents.causes import Cause
from aggregation.incidents.drafts import Draft
from aggregation.incidents.model import DepartureMode, IncidentKind
from aggregation.incidents.places import replaces
from aggregation.incidents.restarts import RESTART_S
from aggregation.rebalances.rebalances import RETURN_S, ExplainedRebalance
from aggregation.rebalances.root_cause import Certainty, shows_errors_alone
from aggregation.rebalances.segments import MemberRef, Segment
from metrics.model.sample import Outcome
from metrics.model.signals import streams_thread
from metrics.tracking.source_traits import BROKER_SOURCES

REJOIN_S = 2.0
"""A member that joins as new within this after its assignment is the same process."""

_RETURNS = {
    IncidentKind.MEMBER_JOINED,
    IncidentKind.SESSION_EXPIRED,
    IncidentKind.STALE_MEMBER,
    IncidentKind.POLL_TIMEOUT,
    IncidentKind.SUBSCRIPTION_CHANGED,
}
_ENDS = {IncidentKind.POLL_TIMEOUT, IncidentKind.MEMBER_LEFT}


@dataclass(frozen=True, slots=True, kw_only=True)
class AwayMember:
    """A departed member that has not returned."""

    member: MemberRef
    how: DepartureMode
    at: float
    draft: Draft
    is_closed: bool = False
    """Its consumer was closed, so another process comes back."""

    def may_return(self, at: float) -> bool:
        """Check that a member that is back at this time (Unix seconds) ends its departure.

        A dropped member is out until it is back, however long that takes: it has not gone.
        """
        if self.how is DepartureMode.DROPPED:
            return True
        return at <= self.at + (RESTART_S if self.how is DepartureMode.LEFT else RETURN_S)


@dataclass(slots=True)
class Presence:
    """The members of a group, and the departed ones that have not returned."""

    present: dict[tuple[str, ...], MemberRef] = field(default_factory=dict)
    present_since: dict[tuple[str, ...], float] = field(default_factory=dict)
    """Time of each one's first record (Unix seconds): rebalances of new protocols overlap."""
    arrived_at: dict[tuple[str, ...], float] = field(default_factory=dict)
    namesakes: dict[tuple[str, ...], tuple[int, int]] = field(default_factory=dict)
    """Members that were there when one of `arrived_at` came: of its client id, of its host too."""
    last_arrival_at: float = float("-inf")
    """Time of the last join of a new member, or of one that came back (Unix seconds)."""
    away: dict[tuple[str, ...], AwayMember] = field(default_factory=dict)
    came_back: dict[tuple[str, ...], tuple[AwayMember, float]] = field(default_factory=dict)
    """The last absence of each member that returned, and when it did (Unix seconds)."""
    synced_at: dict[tuple[str, ...], float] = field(default_factory=dict)
    """Time of each member's last assignment (Unix seconds)."""
    took_part_until: dict[tuple[str, ...], float] = field(default_factory=dict)
    """End of each member's part in its last rebalance (Unix seconds)."""
    member_ids: dict[tuple[str, ...], str] = field(default_factory=dict)
    """The last member id of each member."""
    replaced: set[tuple[str, ...]] = field(default_factory=set)
    """Members that took a departed member's place in this rebalance."""
    _departed: deque[tuple[float, tuple[str, ...]]] = field(default_factory=deque)
    """Times (Unix seconds) and members of the last departures: in a long history few are near."""

    def add_away(self, away: AwayMember) -> None:
        """Add a departed member that has not returned."""
        self.away[away.member.key] = away
        self._departed.append((away.at, away.member.key))

    def find_recent(self, at: float) -> Iterator[AwayMember]:
        """Yield the members that left within `RETURN_S` before Unix seconds ``at``, and are away.

        The times of successive calls may run back by as much.
        """
        while self._departed and self._departed[0][0] < at - 2 * RETURN_S:
            self._departed.popleft()
        for left_at, key in self._departed:
            away = self.away.get(key)
            if away is not None and away.at == left_at >= at - RETURN_S:
                yield away

    def update(self, rebalance: ExplainedRebalance) -> None:
        """Update the present members by the departures, arrivals and ends of a rebalance."""
        for departure in rebalance.departures:
            self.present.pop(departure.member.key, None)
        self._note_arrivals(rebalance)
        for segment in rebalance.round.consumers:
            key, is_synced = segment.member.key, segment.outcome is Outcome.SYNCED
            if segment.member_id is not None:
                self.member_ids[key] = segment.member_id
            self.took_part_until[key] = _end_of_part(segment)
            if is_synced:
                self.synced_at[key] = segment.ended_at
            if segment.is_exit:
                self.present.pop(key, None)
            elif segment.is_open or is_synced:
                if key not in self.present:
                    self.present_since[key] = segment.started_at
                self.present[key] = segment.member

    def _note_arrivals(self, rebalance: ExplainedRebalance) -> None:
        """Note the new members that took nobody's place."""
        names = self.count_names() if rebalance.arrivals else {}
        machines = Counter(m[:2] for m in self.present.values()) if rebalance.arrivals else {}
        for arrival in rebalance.arrivals:
            key = arrival.member.key
            if key in self.replaced:
                self.arrived_at.pop(key, None)  # its place is known: it is nobody else's successor
            elif key not in self.present or arrival.at < self.present_since[key]:
                self.arrived_at[key] = arrival.at  # the rebalance before may show it, but no join
                client_id, is_here = arrival.member.client_id, key in self.present
                others = names[client_id] - is_here, machines[arrival.member[:2]] - is_here
                self.namesakes[key] = others
                self.last_arrival_at = max(self.last_arrival_at, arrival.at)
        self.replaced.clear()

    def infer_joins(
        self, rebalance: ExplainedRebalance, among: Container[tuple[str, ...]] | None
    ) -> list[Cause]:
        """Return the joins that follow only from a member's part in the rebalance.

        They are joins of the members ``among`` these keys, of known members with another id, or,
        if ``among`` is None, of unknown members.
        """
        gone = {segment.member.key for segment in rebalance.round.consumers if segment.is_exit}
        return [
            Cause(
                kind=IncidentKind.MEMBER_JOINED,
                at=min([rebalance.round.started_at, *segment.joins[:1]]),
                member=segment.member,
                reason="it joined without a visible cause",
                certainty=Certainty.INFERRED,
            )
            for segment in rebalance.round.consumers
            if segment.is_round
            and segment.member.key not in gone  # its own return
            and (
                shows_errors_alone(segment) and not self.is_known(segment.member.key)
                if among is None
                else not segment.steps
                and (segment.member.key in among or self._has_new_id(segment))
            )
        ]

    def is_known(self, key: tuple[str, ...]) -> bool:
        """Check for a member that is present, or away."""
        return key in self.present or key in self.away

    def _has_new_id(self, segment: Segment) -> bool:
        """Check that a member has another id than before: it is another process.

        Streams' threads have names of their own, and join again for their instance.
        """
        before = self.member_ids.get(segment.member.key)
        is_other = before is not None and segment.member_id not in {None, before}
        return is_other and streams_thread(segment.member.client_id) is None

    def count_names(self) -> Mapping[str, int]:
        """Return the number of present members by client id."""
        return Counter(member.client_id for member in self.present.values())

    def find_returns(self, causes: Iterable[Cause]) -> dict[Cause, AwayMember]:
        """Return the absent member that each cause brings back; each has one successor at most."""
        found: dict[Cause, AwayMember] = {}
        successors: dict[MemberRef, MemberRef] = {}
        names = self.count_names()
        for cause in causes:
            away = self._find_away(cause, successors, names)
            if away is not None:
                found[cause] = away
                successors[away.member] = cause.member
        return found

    def _find_away(
        self, cause: Cause, successors: Mapping[MemberRef, MemberRef], names: Mapping[str, int]
    ) -> AwayMember | None:
        """Return the absent member that a cause brings back; None if it is no return.

        ``successors`` are by departed member; ``names`` is the number of present members by client
        id.
        """
        if self.ends_absence(cause) or self._is_just_back(cause):
            return self.came_back[cause.member.key][0]
        away = self.away.get(cause.member.key)
        if cause.kind not in _RETURNS and not _is_leave_of_expired(cause, away):
            return None
        if away is None and cause.kind is IncidentKind.MEMBER_JOINED:
            away = self._find_predecessor(cause, successors, names)
        if away is None or not away.at <= cause.at <= away.at + RETURN_S:
            return None
        is_own = away.how is not DepartureMode.LEFT
        return away if is_own or cause.at <= away.at + RESTART_S else None

    def ends_absence(self, cause: Cause) -> bool:
        """Check for the end of a process' membership that the coordinator had ended before.

        A frozen process finds its poll interval expired when it goes on, and then joins again.
        """
        away, returned_at = self.came_back.get(cause.member.key, (None, 0.0))
        return away is not None and cause.kind in _ENDS and away.at <= cause.at <= returned_at

    def _is_just_back(self, cause: Cause) -> bool:
        """Check for the join of a member whose return another cause has shown right before."""
        _, returned_at = self.came_back.get(cause.member.key, (None, float("-inf")))
        is_join = cause.kind is IncidentKind.MEMBER_JOINED
        return is_join and returned_at <= cause.at <= returned_at + REJOIN_S

    def _find_predecessor(
        self, cause: Cause, successors: Mapping[MemberRef, MemberRef], names: Mapping[str, int]
    ) -> AwayMember | None:
        if cause.member.key in self.present:
            return None
        is_shared = names.get(cause.member.client_id, 0) > 0
        for away in self.find_recent(cause.at):
            if away.member[:2] == cause.member[:2] and away.member.twin != cause.member.twin:
                continue  # of several on one machine, each has a place of its own
            in_time = away.at <= cause.at <= away.at + RESTART_S
            is_free = successors.get(away.member, cause.member) == cause.member
            if in_time and is_free and replaces(cause.member, away.member, is_shared=is_shared):
                return away
        return None

    def is_rejoin(self, cause: Cause, noted: Mapping[tuple[str, ...], float]) -> bool:
        """Check that the same process joins again under another member id.

        Either its join was refused within this rebalance, as the broker ``noted``, or it got an
        error right after its assignment: no process restarts that fast.
        """
        if cause.kind is not IncidentKind.MEMBER_JOINED or not self.is_unexpired(cause):
            return False
        key = cause.member.key
        joined_before = noted.get(key, float("inf")) < cause.at
        return not cause.is_first or joined_before or self.is_repeated(cause)

    def is_repeated(self, cause: Cause) -> bool:
        """Check for a join right after an assignment: it belongs to the assignment's incident."""
        synced_at = self.synced_at.get(cause.member.key, float("-inf"))
        return synced_at <= cause.at <= synced_at + REJOIN_S

    def is_unexpired(self, cause: Cause) -> bool:
        """Check for a new process of a member that the coordinator still knows."""
        key = cause.member.key
        is_known = key in self.present and self.present_since[key] <= cause.at
        return is_known and key not in self.away


def _end_of_part(segment: Segment) -> float:
    """Return the last time at which a member's part in a rebalance was seen (Unix seconds).

    A status that is lost is dropped long after that.
    """
    if segment.is_open or segment.outcome is not None:
        return segment.ended_at
    return max([segment.started_at, *(each.at for each in segment.steps), *segment.joins])


def _is_leave_of_expired(cause: Cause, away: AwayMember | None) -> bool:
    """Check that a process whose member was removed leaves, to be back at once."""
    is_inferred = cause.kind is IncidentKind.MEMBER_LEFT and cause.certainty is Certainty.INFERRED
    return is_inferred and away is not None and away.how is DepartureMode.EXPIRED


def find_first_notes(rebalance: ExplainedRebalance) -> dict[tuple[str, ...], float]:
    """Return the time of the broker's first report of each member (Unix seconds)."""
    found: dict[tuple[str, ...], float] = {}
    for segment in rebalance.round.segments:
        for note in segment.notes:
            if note.source in BROKER_SOURCES:
                key = segment.member.key
                found[key] = min(note.at, found.get(key, note.at))
    return found
