"""Incidents as rows of the table ``incidents``: pure, but for the types of its columns.

The columns are those of incidents.md section 5, flat where one value is enough.
"""

from datetime import UTC, datetime
from typing import Any

import msgspec
from pyspark.sql import types as T  # noqa: N812 - pyspark's own convention

from aggregation.incidents.answers import answer_of
from aggregation.incidents.model import Incident
from aggregation.incidents.planning import is_planned
from aggregation.rebalances.segments import MemberRef

PLANNED, UNPLANNED = "planned", "unplanned"

_MEMBER = T.StructType(
    [T.StructField(name, T.StringType()) for name in ("client_id", "host", "group_instance_id")]
)
_DEPARTED = T.StructType(
    [
        *_MEMBER.fields,
        T.StructField("how", T.StringType()),
        T.StructField("at", T.TimestampType()),
        T.StructField("returned_at", T.TimestampType()),
    ]
)
_WAITED = T.StructType([*_MEMBER.fields, T.StructField("seconds", T.DoubleType())])
INCIDENT = T.StructType(
    [
        T.StructField("day", T.DateType()),
        T.StructField("cluster", T.StringType()),
        T.StructField("app", T.StringType()),
        T.StructField("group", T.StringType()),
        T.StructField("group_type", T.StringType()),
        T.StructField("id", T.StringType()),
        T.StructField("kind", T.StringType()),
        T.StructField("plan", T.StringType()),
        T.StructField("status", T.LongType()),
        T.StructField("certainty", T.StringType()),
        T.StructField("started_at", T.TimestampType()),
        T.StructField("ended_at", T.TimestampType()),
        T.StructField("is_ongoing", T.BooleanType()),
        T.StructField("rebalances", T.LongType()),
        T.StructField("unread_partition_seconds", T.DoubleType()),
        T.StructField("unread_at_least", T.BooleanType()),
        T.StructField("member_seconds", T.DoubleType()),
        T.StructField("partitions_moved", T.LongType()),
        T.StructField("lag", T.LongType()),
        T.StructField("client_id", T.StringType()),
        T.StructField("host", T.StringType()),
        T.StructField("reason", T.StringType()),
        T.StructField("members", T.ArrayType(_MEMBER)),
        T.StructField("waiting_for", T.ArrayType(_WAITED)),
        T.StructField("departures", T.ArrayType(_DEPARTED)),
        T.StructField("episodes", T.ArrayType(T.StringType())),
        T.StructField("detail", T.StringType()),
        T.StructField("also", T.StringType()),
        T.StructField("sources", T.ArrayType(T.StringType())),
        T.StructField("missing", T.ArrayType(T.StringType())),
        T.StructField("away_partition_seconds", T.DoubleType()),
        T.StructField("partitions_to_move", T.LongType()),
        T.StructField("moved_partition_seconds", T.DoubleType()),
        T.StructField("partitions_handed_over", T.LongType()),
        T.StructField("client_kind", T.StringType()),
        T.StructField("notice_seconds", T.DoubleType()),
        T.StructField("poll_wait_seconds", T.DoubleType()),
        T.StructField("group_size", T.LongType()),
        T.StructField("joins_without_poll", T.BooleanType()),
    ]
)
"""``client_id`` and ``host`` are of the first of ``members``; ``detail`` and ``also`` are JSON."""


def plan_of(incident: Incident) -> str:
    """Return whether somebody wanted an incident."""
    return PLANNED if is_planned(incident) else UNPLANNED


def incident_row(incident: Incident, app: str) -> dict[str, Any]:
    """Return an incident as a row, without its batch."""
    first = next(iter(incident.members), None)
    started_at = datetime.fromtimestamp(incident.started_at, UTC)
    status, cost = incident.kind.status, incident.cost
    return {
        "day": started_at.date(),
        "cluster": incident.ref.cluster,
        "app": app,
        "group": incident.ref.group,
        "group_type": incident.group_type,
        "id": incident.id,
        "kind": incident.kind.value,
        "plan": plan_of(incident),
        "status": None if status is None else status.value,
        "certainty": incident.certainty.value,
        "started_at": started_at,
        "ended_at": _instant(incident.ended_at),
        "is_ongoing": incident.is_ongoing,
        "rebalances": len(incident.rebalances),
        "unread_partition_seconds": _rounded(cost.unread_partition_seconds),
        "unread_at_least": incident.unread_at_least,
        "member_seconds": _rounded(cost.member_seconds),
        "partitions_moved": cost.partitions_moved,
        "lag": cost.lag,
        "client_id": None if first is None else first.client_id,
        "host": None if first is None else first.host,
        "reason": incident.reason,
        "members": [_member(each) for each in incident.members],
        "waiting_for": [
            _member(each.member) | {"seconds": _rounded(each.seconds)}
            for each in incident.waiting_for
        ],
        "departures": [
            _member(each.member)
            | {
                "how": each.how.value,
                "at": _instant(each.at),
                "returned_at": _instant(each.returned_at),
            }
            for each in incident.departures
        ],
        "episodes": [span.id for span in incident.rebalances],
        "detail": _json(incident.detail),
        "also": _json(answer_of(incident).also) if incident.also else None,
        "sources": list(incident.sources),
        "missing": list(incident.missing),
        "away_partition_seconds": _rounded(cost.away_partition_seconds),
        "partitions_to_move": cost.partitions_to_move,
        "moved_partition_seconds": _rounded(cost.moved_partition_seconds),
        "partitions_handed_over": cost.partitions_handed_over,
        "client_kind": incident.client_kind.value,
        "notice_seconds": _rounded(incident.notice_s),
        "poll_wait_seconds": _rounded(incident.poll_wait_s),
        "group_size": incident.group_size,
        "joins_without_poll": incident.joins_without_poll,
    }


def _member(member: MemberRef) -> dict[str, str | None]:
    return {
        "client_id": member.client_id,
        "host": member.host,
        "group_instance_id": member.group_instance_id,
    }


def _instant(at: float | None) -> datetime | None:
    return None if at is None else datetime.fromtimestamp(at, UTC)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)


def _json(value: object) -> str | None:
    return msgspec.json.encode(value).decode() if value else None
