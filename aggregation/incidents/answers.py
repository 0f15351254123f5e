"""Incidents as data: the JSON that `explain`, the API and the records of incidents carry.

Source: incidents.md section 5.
"""

from collections.abc import Collection
from dataclasses import dataclass

from aggregation.incidents.model import Incident, MemberDeparture, RebalanceSpan, Wait
from aggregation.incidents.recommendations import recommend
from aggregation.rebalances.segments import MemberRef
from metrics.model.sample import format_time, parse_time


def _check_times(*times: str | None) -> None:
    """Raise ValueError for a malformed time: the decoder makes an error of the answer of it."""
    for each in times:
        if each is not None:
            parse_time(each)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberAnswer:
    """A member by its names."""

    client_id: str
    member_id: str | None
    group_instance_id: str | None
    host: str
    name: str = ""
    """As people read it: see `member_names`. Empty in records of earlier releases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceAnswer:
    """One rebalance of an incident. Times are RFC 3339 UTC."""

    started_at: str
    ended_at: str | None
    seconds: float
    generations: tuple[int, ...]
    status: str | None
    episode: str

    def __post_init__(self) -> None:
        _check_times(self.started_at, self.ended_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitAnswer:
    """A member that the group waits for, or waited for."""

    client_id: str
    member_id: str | None
    host: str
    seconds: float
    joined_at: str | None
    certainty: str
    """`inferred`: it is one of the members with this value, and no source shows the right one."""
    name: str = ""
    """As that of a `MemberAnswer`."""

    def __post_init__(self) -> None:
        _check_times(self.joined_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class DepartureAnswer:
    """A departed member."""

    client_id: str
    how: str
    at: str
    returned_at: str | None
    name: str = ""
    """As that of a `MemberAnswer`."""

    def __post_init__(self) -> None:
        _check_times(self.at, self.returned_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class CostAnswer:
    """Cost of an incident; null if no source shows it."""

    unread_partition_seconds: float | None
    member_seconds: float
    partitions_moved: int | None
    lag: int | None
    lag_before: int | None = None
    caught_up_at: str | None = None

    def __post_init__(self) -> None:
        _check_times(self.caught_up_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class RelatedCauseAnswer:
    """An independent cause in the same rebalance."""

    kind: str
    members: tuple[MemberAnswer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendationAnswer:
    """A setting to change; null if it is not known."""

    setting: str | None
    now: str | None
    proposed: str | None
    because: str
    price: str | None
    saves: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentAnswer:
    """One incident. Times are RFC 3339 UTC."""

    id: str
    group: str
    cluster: str
    kind: str
    status: str | None
    certainty: str
    started_at: str
    ended_at: str | None
    ongoing: bool
    members: tuple[MemberAnswer, ...]
    reason: str | None
    detail: dict[str, object]
    rebalances: tuple[RebalanceAnswer, ...]
    waiting_for: tuple[WaitAnswer, ...]
    departures: tuple[DepartureAnswer, ...]
    members_out: tuple[MemberAnswer, ...]
    also: tuple[RelatedCauseAnswer, ...]
    cost: CostAnswer
    recommendations: tuple[RecommendationAnswer, ...]
    sources: tuple[str, ...]
    missing: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_times(self.started_at, self.ended_at)


def answer_of(incident: Incident, declined: Collection[str] = frozenset()) -> IncidentAnswer:
    """Return an incident as data; ``declined`` as for `recommend`."""
    status = incident.kind.status
    return IncidentAnswer(
        id=incident.id,
        group=incident.ref.group,
        cluster=incident.ref.cluster,
        kind=incident.kind.value,
        status=None if status is None else status.label,
        certainty=incident.certainty.value,
        started_at=format_time(incident.started_at),
        ended_at=None if incident.ended_at is None else format_time(incident.ended_at),
        ongoing=incident.is_ongoing,
        members=tuple(_member(each, incident) for each in incident.members),
        reason=incident.reason,
        detail=incident.detail,
        rebalances=tuple(_rebalance(each) for each in incident.rebalances),
        waiting_for=tuple(_wait(each, incident) for each in incident.waiting_for),
        departures=tuple(_departure(each, incident) for each in incident.departures),
        members_out=tuple(_member(each, incident) for each in incident.members_out),
        also=tuple(
            RelatedCauseAnswer(
                kind=each.kind.value, members=tuple(_member(m, incident) for m in each.members)
            )
            for each in incident.also
        ),
        cost=_cost(incident),
        recommendations=tuple(
            RecommendationAnswer(**each._asdict()) for each in recommend(incident, declined)
        ),
        sources=incident.sources,
        missing=incident.missing,
    )


def _member(member: MemberRef, incident: Incident) -> MemberAnswer:
    return MemberAnswer(
        client_id=member.client_id,
        member_id=incident.member_ids.get(member),
        group_instance_id=member.group_instance_id,
        host=member.host,
        name=incident.name_of(member),
    )


def _rebalance(span: RebalanceSpan) -> RebalanceAnswer:
    return RebalanceAnswer(
        started_at=format_time(span.started_at),
        ended_at=None if span.is_open else format_time(span.ended_at),
        seconds=round(span.ended_at - span.started_at, 6),
        generations=span.generations,
        status=None if span.status is None else span.status.label,
        episode=span.id,
    )


def _wait(wait: Wait, incident: Incident) -> WaitAnswer:
    return WaitAnswer(
        client_id=wait.member.client_id,
        member_id=wait.member_id or incident.member_ids.get(wait.member),
        host=wait.member.host,
        seconds=round(wait.seconds, 6),
        joined_at=None if wait.joined_at is None else format_time(wait.joined_at),
        certainty=wait.certainty.value,
        name=incident.name_of(wait.member),
    )


def _departure(departure: MemberDeparture, incident: Incident) -> DepartureAnswer:
    back = departure.returned_at
    return DepartureAnswer(
        client_id=departure.member.client_id,
        how=departure.how.value,
        at=format_time(departure.at),
        returned_at=None if back is None else format_time(back),
        name=incident.name_of(departure.member),
    )


def _cost(incident: Incident) -> CostAnswer:
    cost, unread = incident.cost, incident.cost.unread_partition_seconds
    return CostAnswer(
        unread_partition_seconds=None if unread is None else round(unread, 6),
        member_seconds=round(cost.member_seconds, 6),
        partitions_moved=cost.partitions_moved,
        lag=cost.lag,
        lag_before=cost.lag_before,
        caught_up_at=None if cost.caught_up_at is None else format_time(cost.caught_up_at),
    )
