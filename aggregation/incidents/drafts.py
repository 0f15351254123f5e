"""Incidents while they are collected: mutable, inside this package alone."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from aggregation.incidents.causes import Cause
from aggregation.incidents.model import (
    DepartureMode,
    IncidentKind,
    MemberDeparture,
    RelatedCause,
    Wait,
)
from aggregation.rebalances.rebalances import ExplainedRebalance
from aggregation.rebalances.root_cause import Certainty
from aggregation.rebalances.segments import MemberRef

_MODES = list(DepartureMode)
"""The strongest evidence first."""


@dataclass(slots=True, eq=False)
class Draft:
    """One incident so far. Instants are Unix seconds."""

    kind: IncidentKind
    started_at: float
    certainty: Certainty = Certainty.SEEN
    reason: str | None = None
    members: dict[MemberRef, None] = field(default_factory=dict)
    rebalances: list[ExplainedRebalance] = field(default_factory=list)
    departures: dict[MemberRef, MemberDeparture] = field(default_factory=dict)
    departed_earlier: list[MemberDeparture] = field(default_factory=list)
    """Of members that went more than once."""
    also: list[RelatedCause] = field(default_factory=list)
    detail: dict[str, object] = field(default_factory=dict)
    waits: list[Wait] = field(default_factory=list)
    errors: list[Cause] = field(default_factory=list)
    """Joins that were refused."""
    until: float = 0.0
    """End of what belongs to it, rebalances aside."""
    is_pending: bool = False
    """Its member is still out, or its join still fails."""
    sources: set[str] = field(default_factory=set)
    refused_seconds: float = 0.0
    """Time of its members' episodes that ended with a refused join."""
    last_step_at: float = 0.0
    """Begin of the latest departure of a rollout."""

    @property
    def ended_at(self) -> float:
        """End of its last rebalance, or of what else belongs to it."""
        ends = [rebalance.round.ended_at for rebalance in self.rebalances]
        return max([self.started_at, self.until, *ends])

    @property
    def is_ongoing(self) -> bool:
        return self.is_pending or any(rebalance.round.is_open for rebalance in self.rebalances)

    @property
    def all_departures(self) -> list[MemberDeparture]:
        """Departures in the order of time."""
        return sorted([*self.departed_earlier, *self.departures.values()], key=lambda each: each.at)

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
        self.rebalances += other.rebalances  # a rebalance is in one incident alone
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
        self.last_step_at = max(self.last_step_at, other.last_step_at)
