"""Facts of an incident that the rules need, from an `Incident` or a row of the incidents table.

What no source shows is None.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from aggregation.incidents.model import DepartureMode, Incident, IncidentKind
from aggregation.incidents.planning import is_planned
from aggregation.incidents.settings import ClientKind
from metrics.model.sample import parse_time


class Absence(NamedTuple):
    """A member that went, and perhaps came back. Instants are Unix seconds."""

    member: str
    how: DepartureMode
    at: float
    returned_at: float | None

    @property
    def seconds(self) -> float | None:
        """How long it was away; None: it is not back."""
        return None if self.returned_at is None else max(0.0, self.returned_at - self.at)


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentFacts:
    """One incident that is over. Instants are Unix seconds, spans are seconds."""

    id: str
    cluster: str
    group: str
    kind: IncidentKind
    is_planned: bool
    started_at: float
    ended_at: float
    rebalances: int
    member_s: float
    """Seconds that members spent at a status other than 0."""
    unread_s: float | None = None
    moved: int | None = None
    """Partitions that had to move, by the numbers that each member had before and after."""
    moved_s: float | None = None
    """The same in partition seconds: each for the length of its rebalance."""
    handed_over: int | None = None
    """The part of ``moved`` that members which stay give to others."""
    notice_s: float | None = None
    """Until the last of the others had learned of a rebalance, on average."""
    poll_wait_s: float | None = None
    """From there to a member's join, at its next poll, on average."""
    group_size: int | None = None
    """Members that took part in its largest rebalance."""
    joins_without_poll: bool | None = None
    """All its clients are librdkafka, which joins a cooperative group again without a poll."""
    away_s: float | None = None
    """Partition seconds for which members that came back did not read their own."""
    group_type: str | None = None
    client_kind: ClientKind = ClientKind.CONSUMER
    members: tuple[str, ...] = ()
    """One name a member: replicas may have one client id."""
    is_static: bool = False
    """A member has a group.instance.id."""
    absences: tuple[Absence, ...] = ()
    session_timeout_s: float | None = None
    max_poll_interval_s: float | None = None
    between_polls_s: float | None = None
    silent_since: float | None = None
    """The last poll of a dropped member, or the last sign of life of a silent one."""
    returned_as_new: bool = False
    """An expired member came back as a new one, as a process does that started again."""
    assignor: str | None = None
    probes: int = 0
    """Rebalances by which Streams probed for tasks that were warmed up."""
    probing_interval_s: float | None = None


def facts_of_incident(incident: Incident) -> IncidentFacts | None:
    """Return the facts of an incident; None while it goes on."""
    if incident.ended_at is None:
        return None
    cost = incident.cost
    return IncidentFacts(
        id=incident.id,
        cluster=incident.ref.cluster,
        group=incident.ref.group,
        group_type=incident.group_type,
        client_kind=incident.client_kind,
        kind=incident.kind,
        is_planned=is_planned(incident),
        started_at=incident.started_at,
        ended_at=incident.ended_at,
        rebalances=len(incident.rebalances),
        member_s=cost.member_seconds,
        unread_s=cost.unread_partition_seconds,
        moved=cost.partitions_to_move,
        moved_s=cost.moved_partition_seconds,
        handed_over=cost.partitions_handed_over,
        away_s=cost.away_partition_seconds,
        notice_s=incident.notice_s,
        poll_wait_s=incident.poll_wait_s,
        group_size=incident.group_size,
        joins_without_poll=incident.joins_without_poll,
        members=_names(_tell_apart([member._asdict() for member in incident.members])),
        is_static=any(member.group_instance_id for member in incident.members),
        absences=tuple(
            Absence(each.member.client_id, each.how, each.at, each.returned_at)
            for each in incident.departures
        ),
        **_read_detail(incident.detail),
    )


def facts_of_row(row: Mapping[str, Any]) -> IncidentFacts:
    """Return the facts of a row of `aggregation.spark.report.proposals.FACTS`."""
    return IncidentFacts(
        id=row["id"],
        cluster=row["cluster"] or "",
        group=row["group"] or "",
        group_type=row["group_type"] or None,
        client_kind=ClientKind(row["client_kind"] or ClientKind.CONSUMER),
        kind=IncidentKind(row["kind"]),
        is_planned=row["plan"] == "planned",
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        rebalances=row["rebalances"],
        member_s=row["member_s"] or 0.0,
        unread_s=row["unread_s"],
        moved=row["moved"],
        moved_s=row["moved_s"],
        handed_over=row["handed_over"],
        away_s=row["away_s"],
        notice_s=row["notice_s"],
        poll_wait_s=row["poll_wait_s"],
        group_size=row["group_size"],
        joins_without_poll=row["joins_without_poll"],
        members=_names(_tell_apart(row["members"] or ())),
        is_static=bool(row["is_static"]),
        absences=tuple(
            Absence(each["client_id"], DepartureMode(each["how"]), each["at"], each["returned_at"])
            for each in row["absences"] or ()
        ),
        **_read_detail(msgspec.json.decode(row["detail"]) if row["detail"] else {}),
    )


def _tell_apart(members: Sequence[Mapping[str, Any]]) -> Iterator[str | None]:
    """Yield client ids; of several members with one, its instance id or host follows."""
    times = Counter(each["client_id"] for each in members)
    for each in members:
        own = each["group_instance_id"] or each["host"]
        is_clear = times[each["client_id"]] == 1 or not own
        yield each["client_id"] if is_clear else f"{each['client_id']} ({own})"


def _names(names: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(sorted(name for name in names if name))


def _read_detail(detail: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings and spans that an incident's detail holds."""
    found: dict[str, Any] = {
        name: detail[key] / 1000
        for name, key in (
            ("session_timeout_s", "session_timeout_ms"),
            ("max_poll_interval_s", "max_poll_interval_ms"),
            ("between_polls_s", "between_polls_ms"),
            ("probing_interval_s", "probing_interval_ms"),
        )
        if isinstance(detail.get(key), int | float)
    }
    found["returned_as_new"] = bool(detail.get("returned_as_new"))
    found["probes"] = detail.get("probing_rebalances", 0)
    since, after = detail.get("since"), detail.get("after")
    if isinstance(since, str):
        found["silent_since"] = parse_time(since)
    if detail.get("field") == "assignor" and isinstance(after, str):
        found["assignor"] = after
    return found


def latest(facts: Sequence[IncidentFacts], name: str) -> Any:
    """Return the last value of a setting that a group's incidents show; None: they show none."""
    values = (getattr(each, name) for each in reversed(facts))
    return next((value for value in values if value is not None), None)
