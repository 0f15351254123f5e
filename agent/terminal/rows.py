"""Rows of the terminal's tables, from answers of the API. Pure.

Columns have priorities: a terminal that is too narrow drops the least important first.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from aggregation.explain.incident_words import duration, is_at_least, names, summarize, waiting
from aggregation.incidents.answers import IncidentAnswer
from aggregation.incidents.planning import PLANNED_KINDS
from metrics.model.names import printable
from metrics.model.sample import parse_time
from metrics.model.status import RebalanceStatus

SPAN_S = 3600.0
"""The sparkline shows this long before now."""
_RECENT_S = 600.0
_PLANNED = {kind.value for kind in PLANNED_KINDS}
_BARS = "▁▂▃▄▅▆▇█"
_BINS = 12
_GAP = 2


class Column(NamedTuple):
    """A column of groups: its head, its width in cells, its rank, and the order by it.

    Rank 0 is always shown.
    """

    key: str
    head: str
    width: int
    rank: int
    sort: str = ""


COLUMNS = (
    Column("group", "GROUP", 24, 0, "group"),
    Column("status", "STATUS", 22, 0, "status"),
    Column("incident", "INCIDENT", 24, 0, "when"),
    Column("spark", "UNREAD, 1 h", _BINS, 2, "cost"),
    Column("when", "WHEN", 11, 1, "when"),
    Column("members", "MEMBERS", 7, 3, "members"),
    Column("cost", "COST", 9, 4, "cost"),
    Column("state", "STATE", 19, 5),
    Column("type", "TYPE", 9, 6),
    Column("waiting", "WAITS FOR", 28, 7),
)
_LEAST_GROUP, _MORE_INCIDENT = 8, 16
"""Cells that GROUP has at least, and that INCIDENT gains before columns after the first join."""
SORTS = ("status", "group", "when", "cost", "members")


class ListedGroup(NamedTuple):
    """A group with its last incident."""

    cluster: str
    group: str
    status: int | None
    ongoing: bool
    cells: dict[str, str]
    order: dict[str, Any]


def group_rows(
    groups: Iterable[dict[str, Any]], incidents: Iterable[IncidentAnswer], now: float
) -> list[ListedGroup]:
    """Return a row for each group of ``/api/v1/groups``; ``now`` in Unix seconds."""
    by_group: dict[str, list[IncidentAnswer]] = {}
    for incident in sorted(incidents, key=lambda each: each.started_at):
        by_group.setdefault(incident.group, []).append(incident)
    return [
        _group_row(group, [i for i in by_group.get(group["group"], []) if is_of(group, i)], now)
        for group in groups
    ]


def source_notes(sources: Iterable[dict[str, Any]]) -> list[str]:
    """Return the faults of the sources in ``/api/v1/sources``: down, or without a file."""
    notes = []
    for source in sources:
        if not source["up"]:
            notes.append(printable(f"{source['name']} is down"))
        elif source.get("files") == []:
            notes.append(printable(f"{source['name']}: nothing read yet: no file matches"))
    return notes


def is_of(group: dict[str, Any], incident: IncidentAnswer) -> bool:
    """Check that an incident may be of a group: not every source knows the cluster."""
    clusters = {group["cluster"], incident.cluster} - {""}
    return group["group"] == incident.group and len(clusters) < 2


def _group_row(
    group: dict[str, Any], incidents: Sequence[IncidentAnswer], now: float
) -> ListedGroup:
    ongoing = [each for each in incidents if each.ongoing]
    last = next(reversed(ongoing or list(incidents)), None)
    unread = [amount for _, amount in _unread(incidents, now)]
    cells = {
        "group": printable(group["group"]),
        "status": status_text(group["status"], group["name"]),
        "incident": "" if last is None else printable(summarize(last)),
        "spark": sparkline(incidents, now),
        "when": "" if last is None else age(last, now),
        "members": str(group["members"]),
        "cost": f"{_bound(incidents, now)}{sum(unread):.0f}" if unread else "",
        "state": printable(group.get("state") or ""),
        "type": printable(group["group_type"]),
        "waiting": "" if last is None or not last.ongoing else printable(waiting(last.waiting_for)),
    }
    status = -1 if group["status"] is None else group["status"]
    order = {
        "status": (
            bool(ongoing),
            status,
            any(_is_trouble(each, now) for each in incidents),
            last.started_at if last else "",
        ),
        "group": group["group"],
        "when": last.started_at if last else "",
        "cost": sum(unread),
        "members": group["members"],
    }
    return ListedGroup(
        group["cluster"], group["group"], group["status"], bool(ongoing), cells, order
    )


def _is_trouble(incident: IncidentAnswer, now: float) -> bool:
    """Check that an incident is recent, and of an unplanned kind."""
    ended_at = now if incident.ended_at is None else parse_time(incident.ended_at)
    return incident.kind not in _PLANNED and ended_at >= now - _RECENT_S


def sort_rows(rows: Iterable[ListedGroup], by: str, *, backwards: bool) -> list[ListedGroup]:
    """Return rows in order; equal ones by their name."""
    by_name = sorted(rows, key=lambda row: (row.group, row.cluster))
    return sorted(by_name, key=lambda row: row.order[by], reverse=backwards)


def fit(width: int, rows: Iterable[ListedGroup]) -> list[Column]:
    """Return the columns that fit ``width`` cells, in order; INCIDENT takes the rest.

    GROUP is no wider than the longest name of all ``rows``.
    """
    longest = max([_LEAST_GROUP, *(len(row.cells["group"]) for row in rows)])
    columns = [
        column._replace(width=min(longest, column.width)) if column.key == "group" else column
        for column in COLUMNS
    ]
    left = width - sum(column.width + _GAP for column in columns if column.rank == 0)
    shown = {column.key for column in columns if column.rank == 0}
    for column in sorted(columns, key=lambda column: column.rank):
        room = left - (_MORE_INCIDENT if column.rank > 1 else 0)
        if column.rank and room < column.width + _GAP:
            break
        if column.rank:
            left -= column.width + _GAP
            shown.add(column.key)
    return [
        column._replace(width=column.width + max(0, left)) if column.key == "incident" else column
        for column in columns
        if column.key in shown
    ]


def texts(row: ListedGroup, columns: Sequence[Column]) -> list[str]:
    """Return a row's cells. INCIDENT begins with its time if the column WHEN has no room."""
    has_when = any(column.key == "when" for column in columns)
    incident, when = row.cells["incident"], row.cells["when"]
    own = {"incident": incident if has_when or not when else f"{when}, {incident}"}
    return [own.get(column.key, row.cells[column.key]) for column in columns]


def sparkline(incidents: Iterable[IncidentAnswer], now: float) -> str:
    """Draw unread partition-seconds of the last hour, a bar for each five minutes."""
    sums = [0.0] * _BINS
    for at, amount in _unread(incidents, now):
        sums[min(_BINS - 1, int((at - now + SPAN_S) / SPAN_S * _BINS))] += amount
    most = max(sums)
    if not most:
        return ""
    return "".join(
        _BARS[min(len(_BARS) - 1, int(each / most * len(_BARS)))] if each else " " for each in sums
    )


def _unread(incidents: Iterable[IncidentAnswer], now: float) -> list[tuple[float, float]]:
    """Return start and unread partition-seconds of the incidents of the last hour."""
    costs = [(parse_time(i.started_at), i.cost.unread_partition_seconds or 0.0) for i in incidents]
    return [(max(at, now - SPAN_S), cost) for at, cost in costs if cost and at > now - SPAN_S]


def _bound(incidents: Iterable[IncidentAnswer], now: float) -> str:
    """Return the mark of a sum with a lower bound: no source shows a timeout."""
    recent = (each for each in incidents if parse_time(each.started_at) > now - SPAN_S)
    return "≥ " if any(map(is_at_least, recent)) else ""


def age(incident: IncidentAnswer, now: float) -> str:
    """Return how long an incident lasts, or how long ago it ended."""
    if incident.ongoing or incident.ended_at is None:
        return f"for {_rounded(now - parse_time(incident.started_at))}"
    return f"{_rounded(now - parse_time(incident.ended_at))} ago"


def _rounded(seconds: float) -> str:
    """Return a time since; the screen is seconds old itself."""
    return duration(seconds) if seconds >= 120 else f"{max(0.0, seconds):.0f} s"


def status_text(status: int | None, name: str | None) -> str:
    """Return code and name; empty for a group that only inspection knows."""
    return "" if status is None else printable(f"{status} {name}")


class TableLayout(NamedTuple):
    """Heads of a table, the column that takes the rest, and those that go first."""

    heads: tuple[str, ...]
    flexible: int
    spare: tuple[int, ...]


_LEAST_FLEXIBLE = 16


def fit_table(
    table: TableLayout, rows: Sequence[Sequence[str]], width: int
) -> list[tuple[int, int]]:
    """Return number and width of the columns that fit ``width`` cells."""
    widths = [
        max([len(head), *(len(cells[number]) for cells in rows)])
        for number, head in enumerate(table.heads)
    ]
    shown = list(range(len(widths)))
    for spare in table.spare:
        if sum(widths[number] + _GAP for number in shown) <= width:
            break
        shown.remove(spare)
    over = sum(widths[number] + _GAP for number in shown) - width
    widths[table.flexible] -= max(0, min(over, widths[table.flexible] - _LEAST_FLEXIBLE))
    return [(number, widths[number]) for number in shown]


MEMBERS = TableLayout(("MEMBER", "HOST", "STATUS", "FOR", "PEAK", "REASON"), flexible=5, spare=(4,))


def member_rows(members: Iterable[dict[str, Any]], now: float) -> list[tuple[str, ...]]:
    """Return the cells of each member of ``/api/v1/members``."""
    return [
        (
            printable(member["client_id"] or member["member_id"] or ""),
            printable(member["host"] or ""),
            status_text(member["status"], member["name"]),
            _rounded(now - parse_time(member["since"])),
            status_text(member["peak"], member["peak_name"]),
            printable(member["reason"] or ""),
        )
        for member in members
    ]


INCIDENTS = TableLayout(
    ("BEGAN, UTC", "WHEN", "INCIDENT", "UNREAD", "MEMBERS", "REBALANCES"), flexible=2, spare=(5, 4)
)


def incident_rows(incidents: Iterable[IncidentAnswer], now: float) -> list[tuple[str, ...]]:
    """Return the cells of each incident, as given."""
    return [
        (
            incident.started_at[11:19],
            age(incident, now),
            printable(summarize(incident)),
            _unread_text(incident),
            printable(names(incident.members)),
            str(len(incident.rebalances)),
        )
        for incident in incidents
    ]


def _unread_text(incident: IncidentAnswer) -> str:
    unread = incident.cost.unread_partition_seconds
    at_least = "≥ " if unread and is_at_least(incident) else ""
    return "" if unread is None else f"{at_least}{unread:.1f} s"


def status_of(value: int | None) -> RebalanceStatus | None:
    """Return the status of a code that an agent of another release may not share."""
    known = {status.value for status in RebalanceStatus}
    return RebalanceStatus(value) if value in known else None
