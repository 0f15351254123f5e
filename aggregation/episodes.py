"""Group rebalances and their root cause, from the records of any number of agents: pure.

`group_episodes` is the whole of it: rounds (`aggregation.rounds`) in the order of time, each with
its trigger and straggler (`aggregation.root_cause`), its departures (`aggregation.departures`), the
rebalance that caused it, and its cost. What a group's members did before tells who is missing.

Source: semantics.md section 6.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from aggregation.departures import (
    Arrival,
    Departure,
    DepartureKind,
    arrivals,
    departures,
    explained,
)
from aggregation.pieces import MemberRef, Piece
from aggregation.root_cause import Straggler, Trigger, inferred_trigger, seen_trigger, straggler
from aggregation.rounds import GroupRef, Round, rounds
from metrics.sample import Outcome, Sample, parse_time
from metrics.status import RebalanceStatus

RETURN_S = 3600.0
"""A member that comes back later than this begins something new."""

_RETURNS = {RebalanceStatus.NEW_MEMBER, RebalanceStatus.UNKNOWN_MEMBER}
_FOLLOWS = {
    RebalanceStatus.ASSIGNMENT_PROBING,
    RebalanceStatus.VERSION_PROBING,
    RebalanceStatus.ENDPOINT_UPDATE,
}
_GONE_FOR_A_WHILE = {DepartureKind.DROPPED, DepartureKind.EXPIRED, DepartureKind.REMOVED}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEpisode:
    """One rebalance of one group, explained."""

    round: Round
    trigger: Trigger
    straggler: Straggler | None
    departures: tuple[Departure, ...]
    caused_by: str | None = None
    """The id of the rebalance that this one follows from."""

    @property
    def seconds(self) -> float:
        """From the first member's start to the last member's end."""
        return self.round.ended_at - self.round.started_at

    @property
    def member_seconds(self) -> float:
        """What it cost: the seconds of all its members that were not at 0."""
        staying = (p for p in self.round.consumers if not p.is_exit)
        return sum(piece.ended_at - piece.started_at for piece in staying)

    @property
    def gravest(self) -> RebalanceStatus:
        """The highest code that was held."""
        held = (s.code for p in self.round.pieces for s in p.steps if not s.masked)
        return max(held, default=RebalanceStatus.NONE)


@dataclass(slots=True)
class _Group:
    """What is known of one group between two of its rebalances."""

    present: dict[MemberRef, str] = field(default_factory=dict)
    """Members that took part last, and the agent that sees each."""
    away: dict[MemberRef, tuple[float, str]] = field(default_factory=dict)
    """Members that did not go by their own will: when, and in which rebalance."""
    came: list[Arrival] = field(default_factory=list)
    last: str | None = None


def group_episodes(records: Iterable[Sample]) -> list[GroupEpisode]:
    """Return the rebalances of all groups, explained, by their start.

    Records that appear twice count once; their order is all one. Periodic samples tell which
    agents were alive.
    """
    records = list(records)
    heard = _heard(records)
    groups: dict[GroupRef, _Group] = defaultdict(_Group)
    found = [_explain(made, groups[made.ref], heard) for made in rounds(records)]
    return [_in_hindsight(episode, groups[episode.round.ref]) for episode in found]


def _heard(records: Iterable[Sample]) -> dict[str, float]:
    """Return when each agent was last heard of."""
    latest: dict[str, str] = {}
    for record in records:
        latest[record.agent] = max(record.ts, latest.get(record.agent, ""))
    return {agent: parse_time(ts) for agent, ts in latest.items()}


def _explain(made: Round, group: _Group, heard: Mapping[str, float]) -> GroupEpisode:
    absent = _absent(made, group, heard)
    trigger = seen_trigger(made) or inferred_trigger(made, absent)
    went = [d for d in departures(made, absent) if not _is_told(d, group)]
    episode = GroupEpisode(
        round=made,
        trigger=trigger,
        straggler=straggler(made, absent),
        departures=tuple(went),
        caused_by=_caused_by(trigger, group),
    )
    _remember(episode, group)
    return episode


def _absent(made: Round, group: _Group, heard: Mapping[str, float]) -> list[MemberRef]:
    """Return members that were there before and took no part, though their agents live.

    Only the classic protocol makes every member take part.
    """
    if made.group_type != "classic" or made.is_open or not made.generations:
        return []
    took_part = {piece.member for piece in made.pieces}
    return [
        member
        for member, agent in group.present.items()
        if member not in took_part and heard.get(agent, 0.0) > made.ended_at
    ]


def _is_told(departure: Departure, group: _Group) -> bool:
    """Tell whether a member's absence was noticed before it said so itself."""
    return departure.kind is DepartureKind.EXPIRED and departure.member in group.away


def _caused_by(trigger: Trigger, group: _Group) -> str | None:
    if trigger.code in _FOLLOWS:
        return group.last
    if trigger.member is None or trigger.code not in _RETURNS:
        return None
    went_at, rebalance = group.away.get(trigger.member, (0.0, ""))
    return rebalance if trigger.at - went_at <= RETURN_S else None


def _remember(episode: GroupEpisode, group: _Group) -> None:
    made = episode.round
    group.last = made.id
    for piece in made.consumers:
        if _stays(piece):
            group.present[piece.member] = piece.agent
            group.away.pop(piece.member, None)
        else:
            group.present.pop(piece.member, None)
    back = {piece.member for piece in made.consumers if _stays(piece)}
    for departure in episode.departures:
        if departure.member in back:
            continue
        group.present.pop(departure.member, None)
        if departure.kind in _GONE_FOR_A_WHILE:
            group.away[departure.member] = (departure.at, made.id)
    group.came += arrivals(made)


def _stays(piece: Piece) -> bool:
    return not piece.is_exit and (piece.is_open or piece.outcome is Outcome.SYNCED)


def _in_hindsight(episode: GroupEpisode, group: _Group) -> GroupEpisode:
    """Tell rollouts and scale-downs, which only later rebalances show."""
    staying = list(group.present)
    told = tuple(explained(d, group.came, staying) for d in episode.departures)
    return replace(episode, departures=told)
