"""Departures of members, by their own reasons, by later events, and by their successors. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

from aggregation.rebalances.grouping import RebalanceSegments
from aggregation.rebalances.root_cause import removal_of
from aggregation.rebalances.segments import MemberRef
from metrics.model.sample import Outcome
from metrics.model.status import RebalanceStatus

ROLLOUT_S = 600.0
"""A member of the same workload that comes this soon after another has gone takes its place."""
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
    for piece in sorted((p for p in round_.consumers if p.is_exit), key=lambda p: p.ended_at):
        exit_ = _exit(round_, piece.member, piece.ended_at)
        went.setdefault((exit_.member, exit_.kind), exit_)  # of two agents' reports the first
    expired = [
        Departure(member=member, kind=DepartureKind.EXPIRED, at=round_.started_at)
        for member in absent
    ]
    return [*went.values(), *_find_unknown(round_), *expired]


def _exit(round_: RebalanceSegments, member: MemberRef, at: float) -> Departure:
    piece = next(
        p for p in round_.consumers if p.is_exit and p.member == member and p.ended_at == at
    )
    last = piece.steps[-1] if piece.steps else None
    kind = DepartureKind.LEFT if piece.outcome is Outcome.LEFT else DepartureKind.DROPPED
    return Departure(member=member, kind=kind, at=at, reason=None if last is None else last.reason)


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
    """Return who came as new."""
    return [
        Arrival(piece.member, piece.started_at)
        for piece in round_.consumers
        if not piece.is_exit
        and (not piece.steps or any(s.code is RebalanceStatus.NEW_MEMBER for s in piece.steps))
    ]


def classify(
    departure: Departure, came: Sequence[Arrival], staying: Sequence[MemberRef]
) -> Departure:
    """Tell a rollout and a scale-down from a member that just left.

    ``came`` are the group's arrivals, ``staying`` those who are still there afterwards.
    """
    if departure.kind is not DepartureKind.LEFT:
        return departure
    mine = workload(departure.member)
    alike = [arrival for arrival in came if workload(arrival.member) == mine]
    if any(_takes_place(arrival, departure, alike) for arrival in alike):
        return replace(departure, kind=DepartureKind.ROLLOUT)
    others = any(workload(m) == mine for m in staying if m != departure.member)
    if departure.kind is DepartureKind.LEFT and others:
        return replace(departure, kind=DepartureKind.SCALE_DOWN)
    return departure


def _takes_place(arrival: Arrival, departure: Departure, alike: Sequence[Arrival]) -> bool:
    wait = arrival.at - departure.at
    if wait > 0:
        return wait <= ROLLOUT_S
    if arrival.member == departure.member or -wait > SURGE_S:
        return False
    own = (a.at for a in alike if a.member == departure.member and a.at <= departure.at)
    return departure.at - max(own, default=float("-inf")) > ROLLOUT_S


_SAFE = "[bcdfghjklmnpqrstvwxz2456789]"
# Kubernetes: Deployment (template hash and suffix), StatefulSet and Job (ordinal); UUIDs of clients
# https://github.com/kubernetes/apimachinery/blob/v0.30.0/pkg/util/rand/rand.go
_OWN_PART = re.compile(
    rf"(-{_SAFE}{{8,10}}-{_SAFE}{{5}}|-[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}|[-_]?\d+)"
    r"(?=$|-StreamThread-)"
)


@lru_cache(maxsize=4096)  # it is asked for by pairs of members
def workload(member: MemberRef) -> tuple[str, str]:
    """Return host and client id without what tells one instance from the next."""
    return _OWN_PART.sub("", member.host), _OWN_PART.sub("", member.client_id)
