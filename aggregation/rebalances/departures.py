"""Departures of members, by their own reasons, by later events, and by their successors. Pure."""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

from aggregation.rebalances.grouping import RebalanceSegments
from aggregation.rebalances.root_cause import removal_of
from aggregation.rebalances.segments import MemberRef, Segment
from metrics.model.sample import Outcome
from metrics.model.status import RebalanceStatus

Workload = tuple[str, str]
"""Host and client id without the parts that differ between instances."""
ROLLOUT_S = 600.0
"""A member of the same workload that comes this soon after another has gone takes its place."""
STOP_S = 60.0
"""Members that leave within this before the last one of their group stop with it."""
SURGE_S = 120.0
"""So does one that came this soon before, if the one that went had been there for long."""


class DepartureKind(StrEnum):
    """Why a member is no longer in its group."""

    LEFT = "left"
    DROPPED = "dropped"
    """Its poll interval expired."""
    EXPIRED = "expired"
    """A crash, a kill or the network."""
    REMOVED = "removed"
    """By an admin."""
    ROLLOUT = "rollout"
    SCALE_DOWN = "scale-down"
    STOPPED = "stop"
    """With all members of the group, within `STOP_S`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """One member that went. ``at`` is Unix seconds."""

    member: MemberRef
    kind: DepartureKind
    at: float
    reason: str | None = None
    source: str = ""


@dataclass(frozen=True, slots=True)
class Arrival:
    """One member that came as new. ``at`` is Unix seconds."""

    member: MemberRef
    at: float


def departures(round_: RebalanceSegments, absent: Sequence[MemberRef]) -> list[Departure]:
    """Return who went in a rebalance, by what was seen of it alone."""
    went: dict[tuple[MemberRef, DepartureKind], Departure] = {}
    exits: dict[tuple[MemberRef, float], Departure] = {}
    for piece in sorted((p for p in round_.consumers if p.is_exit), key=lambda p: p.ended_at):
        exit_ = exits.setdefault((piece.member, piece.ended_at), _exit(piece))
        went.setdefault((exit_.member, exit_.kind), exit_)  # of two agents' reports the first
    expired = [
        Departure(member=member, kind=DepartureKind.EXPIRED, at=round_.started_at)
        for member in absent
    ]
    return [*went.values(), *_find_unknown(round_), *expired]


def _exit(piece: Segment) -> Departure:
    last = piece.steps[-1] if piece.steps else None
    kind = DepartureKind.LEFT if piece.outcome is Outcome.LEFT else DepartureKind.DROPPED
    return Departure(
        member=piece.member,
        kind=kind,
        at=piece.ended_at,
        reason=None if last is None else last.reason,
    )


def _find_unknown(round_: RebalanceSegments) -> list[Departure]:
    """Return those that the coordinator no longer knew: removed by an admin, or expired."""
    found: dict[MemberRef, Departure] = {}
    for piece in round_.consumers:
        for step in piece.steps:
            if step.code is RebalanceStatus.UNKNOWN_MEMBER and piece.member not in found:
                note = removal_of(round_, step.member)
                found[piece.member] = Departure(
                    member=piece.member,
                    kind=DepartureKind.EXPIRED if note is None else DepartureKind.REMOVED,
                    at=step.at if note is None else note.at,
                    reason=step.reason if note is None else note.reason,
                    source=step.source,
                )
    return list(found.values())


def arrivals(round_: RebalanceSegments) -> list[Arrival]:
    """Return the members that came as new."""
    return [
        Arrival(piece.member, piece.started_at)
        for piece in round_.consumers
        if not piece.is_exit
        and (not piece.steps or any(s.code is RebalanceStatus.NEW_MEMBER for s in piece.steps))
    ]


class Successors:
    """Arrivals of a group by workload and time: who came to the place of one that went.

    A deploy replaces all members of a group. So each departure is looked up, not compared with
    every arrival.
    """

    def __init__(self, came: Iterable[Arrival]) -> None:
        self._by_workload: dict[Workload, list[Arrival]] = defaultdict(list)
        self._own: dict[MemberRef, list[float]] = defaultdict(list)
        for arrival in sorted(came, key=_at):
            self._by_workload[workload(arrival.member)].append(arrival)
            self._own[arrival.member].append(arrival.at)

    def has(self, departure: Departure) -> bool:
        """Check that a member of the same workload came soon after, or shortly before."""

        def since(arrival: Arrival) -> float:
            return arrival.at - departure.at

        alike = self._by_workload.get(workload(departure.member), [])
        after = bisect_right(alike, 0.0, key=since)
        if after < len(alike) and since(alike[after]) <= ROLLOUT_S:
            return True
        own = self._own.get(departure.member, [])
        before = bisect_right(own, departure.at)
        if before and departure.at - own[before - 1] <= ROLLOUT_S:
            return False
        first = bisect_left(alike, -SURGE_S, key=since)
        return any(arrival.member != departure.member for arrival in alike[first:after])


def _at(arrival: Arrival) -> float:
    return arrival.at


def classify(
    departures: Iterable[Departure], successors: Successors, staying: Iterable[MemberRef]
) -> list[Departure]:
    """Separate rollouts and scale-downs from members that just left.

    ``staying`` are those who are still there afterwards.
    """
    others: dict[Workload, set[MemberRef]] = defaultdict(set)
    for member in staying:
        others[workload(member)].add(member)
    return [_classify(departure, successors, others) for departure in departures]


def _classify(
    departure: Departure, successors: Successors, staying: Mapping[Workload, Collection[MemberRef]]
) -> Departure:
    if departure.kind is not DepartureKind.LEFT:
        return departure
    if successors.has(departure):
        return replace(departure, kind=DepartureKind.ROLLOUT)
    others = staying.get(workload(departure.member), ())
    if len(others) > (departure.member in others):
        return replace(departure, kind=DepartureKind.SCALE_DOWN)
    return departure


def mark_stopped(
    departures: Iterable[Departure], since: float, until: float
) -> tuple[Departure, ...]:
    """Mark the members that left in the stop of their group, from one instant to another."""
    return tuple(
        replace(each, kind=DepartureKind.STOPPED)
        if each.kind in _OF_A_STOP and since <= each.at <= until
        else each
        for each in departures
    )


_OF_A_STOP = {DepartureKind.LEFT, DepartureKind.SCALE_DOWN}
"""A member with a successor is of a rollout."""
_SAFE = "[bcdfghjklmnpqrstvwxz2456789]"
# Kubernetes: Deployment (template hash and suffix), StatefulSet and Job (ordinal); UUIDs of clients
# https://github.com/kubernetes/apimachinery/blob/v0.30.0/pkg/util/rand/rand.go
_OWN_PART = re.compile(
    rf"(-{_SAFE}{{8,10}}-{_SAFE}{{5}}|-[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}|[-_]?\d+)"
    r"(?=$|-StreamThread-)"
)


@lru_cache(maxsize=4096)  # it is asked for by pairs of members
def workload(member: MemberRef) -> Workload:
    """Return host and client id without the parts that differ between instances."""
    return _OWN_PART.sub("", member.host), _OWN_PART.sub("", member.client_id)
