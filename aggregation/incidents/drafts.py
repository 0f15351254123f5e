"""Incidents while they are collected: mutable, inside this package alone."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from aggregation.incidents.causes import Cause
from aggregation.incidents.model import (
    DepartureMode,
    IncidentKind,
    MemberDeparture,
    RelatedCause,
    Wait,
)
from aggregation.incidents.places import place_key
from aggregation.rebalances.rebalances import ExplainedRebalance
from aggregation.rebalances.root_cause import Certainty
from aggregation.rebalances.segments import MemberRef

_MODES = list(DepartureMode)
"""The strongest evidence first."""


class Pause(NamedTuple):
    """Span in which a member of the group could not read. Instants are Unix seconds."""

    member: tuple[str, ...]
    since: float
    until: float | None
    """None: until it gets partitions."""


@dataclass(slots=True, eq=False)
class Draft:
    """One incident so far. Instants are Unix seconds."""

    kind: IncidentKind
    started_at: float
    certainty: Certainty = Certainty.SEEN
    reason: str | None = None
    members: dict[MemberRef, None] = field(default_factory=dict)
    rebalances: list[ExplainedRebalance] = field(default_factory=list)
    participants: set[tuple[str, ...]] = field(default_factory=set)
    """Keys of the members that take part in its rebalances."""
    departures: dict[MemberRef, MemberDeparture] = field(default_factory=dict)
    departed_earlier: list[MemberDeparture] = field(default_factory=list)
    """Of members that went more than once."""
    also: list[RelatedCause] = field(default_factory=list)
    detail: dict[str, object] = field(default_factory=dict)
    waits: list[Wait] = field(default_factory=list)
    errors: list[Cause] = field(default_factory=list)
    """Joins that were refused."""
    until: float = 0.0
    """End of its events other than rebalances: returns of members, refused joins."""
    is_pending: bool = False
    """Its member is still out, or its join still fails."""
    sources: set[str] = field(default_factory=set)
    refused_seconds: float = 0.0
    """Time of its members' episodes that ended with a refused join."""
    pauses: list[Pause] = field(default_factory=list)
    lost_right: str | None = None
    """The right that its members have lost: to the "group", the "cluster" or the "topics"."""
    last_step_at: float = 0.0
    """Begin of the latest departure of a rollout."""
    absorbed_by: "Draft | None" = None
    """The incident that has taken this one over."""

    @property
    def whole(self) -> "Draft":
        """Return the incident that has this one as a part, or itself."""
        return self if self.absorbed_by is None else self.absorbed_by.whole

    @property
    def ended_at(self) -> float:
        """End of its last rebalance, or of its other events if that is later."""
        ends = [rebalance.round.ended_at for rebalance in self.rebalances]
        return max([self.started_at, self.until, *ends])

    @property
    def is_ongoing(self) -> bool:
        return self.is_pending or any(rebalance.round.is_open for rebalance in self.rebalances)

    @property
    def all_departures(self) -> list[MemberDeparture]:
        """Departures in the order of time."""
        return sorted([*self.departed_earlier, *self.departures.values()], key=lambda each: each.at)

    def is_paused(self, departure: MemberDeparture) -> bool:
        """Check that a pause of the member had begun before it departed."""
        key = departure.member.key
        return any(each.member == key and each.since <= departure.at for each in self.pauses)

    def add_rebalances(self, rebalances: Iterable[ExplainedRebalance]) -> None:
        for each in rebalances:
            self.rebalances.append(each)
            self.participants.update([s.member.key for s in each.round.consumers])

    def add_members(self, members: Iterable[MemberRef]) -> None:
        self.members.update(dict.fromkeys(members))

    def depart(self, departure: MemberDeparture) -> None:
        """Add a departure: once for each member, unless it came back in between."""
        known = self.departures.get(departure.member)
        if known is not None and known.returned_at is not None and departure.at > known.returned_at:
            self.departed_earlier.append(known)
        elif known is not None:
            how = min(known.how, departure.how, key=_MODES.index)
            departure = replace(known, how=how, at=min(known.at, departure.at))
        self.departures[departure.member] = departure
        self.last_step_at = max(self.last_step_at, departure.at)

    def bring_back(self, member: MemberRef, at: float, *, as_new: bool = False) -> None:
        """Note that a member, or its successor, is back."""
        departure = self.departures.get(member)
        if departure is not None and departure.returned_at is None:
            self.departures[member] = replace(departure, returned_at=at, returned_as_new=as_new)
            self.until = max(self.until, at)

    def absorb(self, other: "Draft") -> None:
        """Take over an incident that turned out to be part of this one."""
        self.started_at = min(self.started_at, other.started_at)
        self.add_members(other.members)
        self.add_rebalances(other.rebalances)  # a rebalance is in one incident alone
        self.rebalances.sort(key=lambda rebalance: rebalance.round.started_at)
        for departure in other.all_departures:
            self.depart(departure)
            if departure.returned_at is not None:
                self.bring_back(
                    departure.member, departure.returned_at, as_new=departure.returned_as_new
                )
        self.also += other.also
        self.waits += other.waits
        self.sources |= other.sources
        self.until = max(self.until, other.until)
        self.is_pending = self.is_pending or other.is_pending
        self.pauses += other.pauses
        self.refused_seconds += other.refused_seconds
        self.last_step_at = max(self.last_step_at, other.last_step_at)
        other.absorbed_by = self

    def part(self, place: tuple[str, ...]) -> "Draft | None":
        """Split off the rebalances that the processes of one place began, as a draft of their own.

        None: there are no such rebalances, or no others.
        """
        own = [each for each in self.rebalances if _began_at(each, place)]
        others = {member: None for member in self.members if place_key(member) != place}
        if not own or not others or len(own) == len(self.rebalances):
            return None
        taken = Draft(self.kind, own[0].round.started_at, own[0].trigger.certainty)
        taken.reason = own[0].trigger.reason
        taken.add_rebalances(own)
        taken.add_members(member for member in self.members if member not in others)
        taken.sources = set(self.sources)
        departures = self.all_departures
        self.departures, self.departed_earlier = {}, []
        for departure in departures:
            (taken if place_key(departure.member) == place else self).depart(departure)
        is_first = self.rebalances[0] is own[0]
        self.members = others
        left = [each for each in self.rebalances if each not in own]
        self.rebalances, self.participants = [], set()
        self.add_rebalances(left)
        taken.waits = [wait for wait in self.waits if _is_within(wait, own)]
        self.waits = [wait for wait in self.waits if wait not in taken.waits]
        self.also = [each for each in self.also if not _is_all_of(each, place)]
        if is_first:
            first = self.rebalances[0]
            self.started_at, self.reason = first.round.started_at, first.trigger.reason
            self.certainty = first.trigger.certainty
        return taken


def _began_at(rebalance: ExplainedRebalance, place: tuple[str, ...]) -> bool:
    member = rebalance.trigger.member
    return member is not None and place_key(member) == place


def _is_all_of(cause: RelatedCause, place: tuple[str, ...]) -> bool:
    return bool(cause.members) and all(place_key(member) == place for member in cause.members)


def _is_within(wait: Wait, rebalances: Iterable[ExplainedRebalance]) -> bool:
    at = wait.joined_at
    return at is not None and any(
        each.round.started_at <= at <= each.round.ended_at for each in rebalances
    )
