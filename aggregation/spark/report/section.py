"""A section of the report: its query, its texts and its chart."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from markupsafe import Markup

from aggregation.spark.report.plot import LABEL_MAX_CHARS, PARTS, readable
from aggregation.spark.rollups.preaggregations import PreAggregation
from metrics.model.palette import ON_LIGHT, UNKNOWN
from metrics.model.status import RebalanceStatus

ROWS_SHOWN = 15
_PART_CHARS = (LABEL_MAX_CHARS - 3) // 2
Row = dict[str, Any]
Rows = list[Row]


@dataclass(frozen=True, slots=True)
class Key:
    """An entry of a legend."""

    colour: str
    label: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A plot, its legend, and its content in words for a screen reader."""

    figure: Markup
    alt: str
    legend: tuple[Key, ...] = ()
    notes: tuple[str, ...] = ()
    """Texts below it."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened on a day: a change of a rate or of a setting, an annotation."""

    day: date
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One part of the report: a table, written as CSV and Parquet by its name, and a plot of it."""

    name: str
    title: str
    note: str
    """Explanation for the reader."""
    empty: str
    """Text for a table without rows."""
    query: str
    """SQL over the views of `context.ReportContext`, which fills in ``$keys``, ``$period`` etc."""
    preaggregation: PreAggregation
    """The pre-aggregation that the query needs."""
    chart: Callable[[Rows], Chart | None]
    marked_chart: Callable[[Rows, Sequence[Mark]], Chart | None] | None = None
    """The same chart with marks on its time axis, if it has one."""
    rows_shown: int = ROWS_SHOWN
    """Rows on the page; 0: it has no place there, only files."""
    speaks: Callable[[Row], bool] = bool
    """Check whether a row has content; the files have the others, too."""


def no_chart(rows: Rows) -> Chart | None:
    """Draw nothing: the table is enough."""
    del rows
    return None


def cause_key(code: int | None) -> Key:
    """Return colour and name of a cause; None is an unknown cause."""
    if code is None:
        return Key(UNKNOWN.light, "cause not seen")
    status = RebalanceStatus(code)
    return Key(ON_LIGHT[status], f"{code} {status.label}")


def member(row: Row, rows: Rows) -> str:
    """Name the member and the group of a row in few characters; replicas have their hosts."""
    name = row["host"] if _is_replica(row, rows) else row["client_id"] or "(no client id)"
    return PARTS.join((readable(name, _PART_CHARS), readable(subject(row), _PART_CHARS)))


def member_in_words(row: Row, rows: Rows) -> str:
    """Name the member of a row: by its host too, where another row has its client id."""
    name = row["client_id"] or "a member without client id"
    return f"{name} on {row['host']}" if _is_replica(row, rows) else str(name)


def _is_replica(row: Row, rows: Rows) -> bool:
    """Check for another member of the group with the same client id, on another host."""
    own = subject(row), row["client_id"]
    others = {each["host"] for each in rows if (subject(each), each["client_id"]) == own}
    return len(others) > 1 and bool(row["host"])


def subject(row: Row) -> str:
    """Name the group or application of a row, with its cluster if it has one."""
    name = row["group"] if "group" in row else row["app"]
    return "/".join(part for part in (row["cluster"], name) if part) or "(no name)"
