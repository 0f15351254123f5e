"""The data dictionary: every column of every table with type, unit and source. Without Spark.

Comments in Delta and Iceberg, the reference page and the DDL for other engines are made of it.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Column(NamedTuple):
    """One column. ``unit`` is empty for names and texts."""

    type: str
    unit: str
    text: str
    source: str

    @property
    def comment(self) -> str:
        """The text for catalogues, with the unit."""
        return f"{self.text} ({self.unit})" if self.unit else self.text


Table = Mapping[str, Column]


def _c(kind: str, text: str, unit: str = "", source: str = "agent") -> Column:
    return Column(kind, unit, text, source)


_UTC, _S, _CODE, _N = "UTC", "seconds", "status code 0 to 13", "count"

RECORDS: Table = {
    "schema": _c("bigint", "Version of the sample schema"),
    "id": _c("string", "Digest of the event: the same event has the same id, whoever saw it"),
    "kind": _c("string", "transition, sample, signal, lost, episode, change, incident, ..."),
    "ts": _c("timestamp", "Time of the event", _UTC, "the source's own clock"),
    "agent": _c("string", "Agent that wrote the record"),
    "seq": _c("bigint", "Number of the record at its agent", _N),
    "cluster": _c("string", "Cluster: the configured name, else Kafka's cluster id"),
    "app": _c("string", "Application of the group", source="configuration: apps"),
    "group": _c("string", "Consumer group", source="client or broker"),
    "group_type": _c("string", "classic, consumer, share or streams", source="client or broker"),
    "protocol_type": _c("string", "consumer, connect, ... of a classic group", source="wire"),
    "scope": _c("string", "consumer, streams (an instance), group or app"),
    "client_id": _c("string", "client.id of the member", source="client"),
    "member_id": _c("string", "Member id that the coordinator gave", source="client or broker"),
    "group_instance_id": _c("string", "group.instance.id of a static member", source="client"),
    "host": _c("string", "Configured host, else the log's, else the peer's address"),
    "log_file": _c("string", "The member's own log file, which distinguishes equal names"),
    "from": _c("bigint", "Status before a transition", _CODE),
    "to": _c("bigint", "Status after a transition, or that is held", _CODE),
    "peak": _c("bigint", "Highest status since the last periodic sample", _CODE),
    "status": _c("string", "Name of the status in the column to"),
    "reason": _c("string", "The client's own words, or an annotation's text", source="client"),
    "generation": _c("bigint", "Generation or member epoch", _N, "client or broker"),
    "episode": _c("string", "Id of the member's time above 0"),
    "outcome": _c("string", "End of an episode: synced, left or failed"),
    "joined_ts": _c("string", "Time of the join request", _UTC, "client or wire"),
    "gained": _c("bigint", "Partitions or tasks that moved to the member", _N, "client"),
    "lag": _c("bigint", "Records that a group is behind", _N, "inspection"),
    "subject": _c("string", "Of a change: member or group"),
    "field": _c("string", "Of a change: the attribute or setting", source="client or broker"),
    "before": _c("string", "Of a change: the old value", source="client or broker"),
    "after": _c("string", "Of a change: the new value", source="client or broker"),
    "source": _c("string", "logs, wire, stats, admin, broker_log, http, timer, ..."),
    "extra": _c("string", "Further fields of the line, a JSON object"),
    "day": _c("date", "Day of ts; the partition", _UTC, "ingest"),
}
QUARANTINE: Table = {
    "id": _c("string", "Digest of file, position and text", source="ingest"),
    "file": _c("string", "Path or URL of the file, or topic and partition", source="ingest"),
    "offset": _c("bigint", "Position of the line; null: the whole file", "bytes", "ingest"),
    "reason": _c("string", "Why the line is no record", source="ingest"),
    "text": _c("string", "The line, up to 64 KiB"),
    "lines": _c("bigint", "Lines that the row stands for", _N, "ingest"),
    "day": _c("date", "Day of the file's last change or of arrival; the partition", _UTC, "ingest"),
}
_COUNTED = "report: rules of explain"
_MEMBER = "struct<client_id:string,host:string,group_instance_id:string>"
_DEPARTED = (
    "struct<client_id:string,host:string,group_instance_id:string,how:string,at:timestamp,"
    "returned_at:timestamp>"
)
_GROUP: Table = {
    "cluster": RECORDS["cluster"],
    "app": RECORDS["app"],
    "group": RECORDS["group"],
    "group_type": RECORDS["group_type"],
}
_BATCH = _c("date", "Day with which it was over; the partition", _UTC, "report")
INCIDENTS: Table = {
    "day": _c("date", "Day of the start", _UTC, _COUNTED),
    **_GROUP,
    "id": _c("string", "Id of the incident, as in explain and API", source=_COUNTED),
    "kind": _c("string", "What happened: poll_timeout, rollout, ...", source=_COUNTED),
    "plan": _c("string", "planned or unplanned", source=_COUNTED),
    "status": _c("bigint", "Status of the root cause", _CODE, _COUNTED),
    "certainty": _c("string", "seen, inferred or unknown", source=_COUNTED),
    "started_at": _c("timestamp", "The first member stopped", _UTC, _COUNTED),
    "ended_at": _c("timestamp", "End; null while it goes on", _UTC, _COUNTED),
    "is_ongoing": _c("boolean", "It goes on", source=_COUNTED),
    "rebalances": _c("bigint", "Rebalances that belong to it", _N, _COUNTED),
    "unread_partition_seconds": _c(
        "double", "Time of partitions without a reader; null: not known", _S, _COUNTED
    ),
    "unread_at_least": _c(
        "boolean", "More was unread: a timeout or the assignments are not known", source=_COUNTED
    ),
    "member_seconds": _c("double", "Time of members that were not at 0", _S, _COUNTED),
    "partitions_moved": _c("bigint", "Partitions with another owner", _N, _COUNTED),
    "lag": _c("bigint", "Highest lag that was seen", "records", "inspection"),
    "client_id": _c("string", "First of the members that began it", source=_COUNTED),
    "host": _c("string", "Host of that member", source=_COUNTED),
    "reason": _c("string", "The client's own words", source="client"),
    "members": _c(f"array<{_MEMBER}>", "Members that began it", source=_COUNTED),
    "waiting_for": _c(
        "array<struct<client_id:string,host:string,group_instance_id:string,seconds:double>>",
        "Members that others waited for",
        source=_COUNTED,
    ),
    "departures": _c(f"array<{_DEPARTED}>", "Members that went", source=_COUNTED),
    "episodes": _c("array<string>", "Ids of its rebalances", source=_COUNTED),
    "detail": _c("string", "Numbers of its kind, a JSON object", source=_COUNTED),
    "also": _c("string", "Other causes in the same rebalance, JSON", source=_COUNTED),
    "sources": _c("array<string>", "Sources that saw it", source=_COUNTED),
    "missing": _c("array<string>", "Sources that would show more", source=_COUNTED),
    "away_partition_seconds": _c(
        "double", "Time that members which came back did not read their own", _S, _COUNTED
    ),
    "partitions_to_move": _c("bigint", "Partitions that had to move", _N, _COUNTED),
    "moved_partition_seconds": _c(
        "double", "The same, each for the length of its rebalance", _S, _COUNTED
    ),
    "partitions_handed_over": _c(
        "bigint", "The part of them that a member which stayed gave to another", _N, _COUNTED
    ),
    "client_kind": _c("string", "consumer, streams or connect: whose settings", source=_COUNTED),
    "notice_seconds": _c(
        "double",
        "Until the last of the others had learned of a rebalance, on average",
        _S,
        _COUNTED,
    ),
    "poll_wait_seconds": _c(
        "double", "From there to a member's join, at its next poll, on average", _S, _COUNTED
    ),
    "group_size": _c("bigint", "Members that took part in its largest rebalance", _N, _COUNTED),
    "joins_without_poll": _c(
        "boolean", "All clients are librdkafka: it joins again without a poll", source=_COUNTED
    ),
    "batch": _BATCH,
}
REBALANCES: Table = {
    "day": _c("date", "Day of the start", _UTC, _COUNTED),
    **_GROUP,
    "id": _c("string", "Id of the rebalance", source=_COUNTED),
    "started_at": _c("timestamp", "The first member's start", _UTC, _COUNTED),
    "ended_at": _c("timestamp", "The last member's end", _UTC, _COUNTED),
    "seconds": _c("double", "Length", _S, _COUNTED),
    "member_seconds": _c("double", "Time of members that were not at 0", _S, _COUNTED),
    "is_open": _c("boolean", "Its end was not seen", source=_COUNTED),
    "is_end": _c("boolean", "The last members left: no rebalance", source=_COUNTED),
    "cause": _c("bigint", "Status of its own trigger; null: not known", _CODE, _COUNTED),
    "certainty": _c("string", "seen, inferred or unknown", source=_COUNTED),
    "client_id": _c("string", "Member that triggered it", source=_COUNTED),
    "host": _c("string", "Host of that member", source=_COUNTED),
    "reason": _c("string", "The client's own words, or what is missing", source="client"),
    "gravest": _c("bigint", "Highest status that was held", _CODE, _COUNTED),
    "members": _c("bigint", "Members that took part", _N, _COUNTED),
    "straggler": _c("string", "Member that all others waited for", source=_COUNTED),
    "straggler_host": _c("string", "Host of that member", source=_COUNTED),
    "waited_seconds": _c("double", "How long they waited", _S, _COUNTED),
    "departures": _c(
        "array<struct<client_id:string,host:string,kind:string>>",
        "Members that went, and how",
        source=_COUNTED,
    ),
    "caused_by": _c("string", "Id of the rebalance that it follows from", source=_COUNTED),
    "offsets": _c(
        "array<struct<agent:string,seconds:double>>", "Clock offsets of agents", source=_COUNTED
    ),
    "partitions_moved": _c("bigint", "Partitions with another owner", _N, _COUNTED),
    "lag": _c("bigint", "Records behind afterwards", _N, "inspection"),
    "incident": _c("string", "Id of its incident; null with is_end", source=_COUNTED),
    "incident_kind": _c("string", "Kind of its incident", source=_COUNTED),
    "plan": _c("string", "planned or unplanned", source=_COUNTED),
    "batch": _BATCH,
}
ROLLUPS: Table = {
    "what": _c("string", "What the row counts: rebalance, incident, trigger, ...", source="report"),
    "day": _c("date", "Day of the beginning", _UTC, "report"),
    "cluster": RECORDS["cluster"],
    "app": RECORDS["app"],
    "group": RECORDS["group"],
    "scope": RECORDS["scope"],
    "client_id": RECORDS["client_id"],
    "host": _c("string", "Host of the member; of quality and skew: the agent"),
    "kind": _c("string", "Kind, by what: certainty, state, departure, incident", source="report"),
    "plan": _c("string", "planned or unplanned", source="report"),
    "code": _c("int", "Status", _CODE, "report"),
    "bucket": _c(
        "int", "Bucket b of a length: 2^(b/8) seconds on; hour; bits of hours", "", "report"
    ),
    "times": _c("bigint", "Count; adds up", _N, "report"),
    "seconds": _c(
        "double",
        "Length; of observed, how long the group's agents were present; adds up",
        _S,
        "report",
    ),
    "member_seconds": _c("double", "Time of members above 0; adds up", _S, "report"),
    "unread_seconds": _c("double", "Time of unread partitions; adds up", _S, "report"),
    "unread_at_least": _c(
        "bigint", "Incidents of which more was unread, or it is not known; adds up", _N, "report"
    ),
    "longest": _c("double", "Longest length; a maximum", _S, "report"),
    "last_at": _c("timestamp", "Time of the latest one", _UTC, "report"),
    "last_reason": _c("string", "Words of the latest one", source="client"),
    "batch": _BATCH,
}

TABLES: Mapping[str, Table] = {
    "transitions": RECORDS,
    "samples": RECORDS,
    "quarantine": QUARANTINE,
    "rebalances": REBALANCES,
    "incidents": INCIDENTS,
    "rollups": ROLLUPS,
}
"""Every table, by its folder."""


def partition_of(table: str) -> str:
    """Return the column that a table's folders are named by."""
    return "batch" if "batch" in TABLES[table] else "day"
