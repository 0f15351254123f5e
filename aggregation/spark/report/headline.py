"""The headline of the report: its result in a few sentences and figures."""

from collections.abc import Mapping
from dataclasses import dataclass

from aggregation.spark.report.causes import by_cause
from aggregation.spark.report.plot import format_seconds, readable
from aggregation.spark.report.section import Rows, subject
from aggregation.spark.report.share import format_share
from aggregation.spark.report.significance import is_change
from aggregation.spark.tables.period import Period
from metrics.model.status import RebalanceStatus

Tables = Mapping[str, Rows]
"""The rows of each section by its name."""
_NOTABLE = 0.005
"""A smaller change counts as none."""
_WEEKS = 8
"""Weeks before the last one that a change is measured against."""
_BLAMED = 0.1
"""The title does not name a group with a smaller share of the lost time."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One number with its label and its section."""

    value: str
    label: str
    section: str


def title(tables: Tables, period: Period, by: str) -> str:
    """Return the result of the report in one sentence."""
    news, rows = change_of(tables), tables["groups"]
    if not rows:
        return f"No rebalance {format_days(period)}; {count(len(tables['share']), by)} observed."
    if news is None:
        total = count(_total(tables), "rebalance")
        return f"{total} in {count(len(rows), by)} {format_days(period)}."
    return f"Rebalances {news.text}{_blame(rows)}."


@dataclass(frozen=True, slots=True)
class Trend:
    """A change of the last week's rebalances that is more than noise."""

    share: float
    weeks_before: int

    @property
    def text(self) -> str:
        """The change in words."""
        weeks = self.weeks_before
        base = "the week before" if weeks == 1 else f"the mean of the {weeks} weeks before"
        return f"{_describe_change(self.share)} against {base}"


def change_of(tables: Tables) -> Trend | None:
    """Return the last week's change against up to eight weeks with as many observed days."""
    if not tables["trend"]:
        return None
    last, *earlier = tables["trend"]
    before = [w["rebalances"] for w in earlier[:_WEEKS] if w["days"] == last["days"]]
    if not before and last["rebalances_before"] is not None:
        before = [last["rebalances_before"]]
    if not before or not sum(before) or not is_change(last["rebalances"], sum(before), len(before)):
        return None
    return Trend(last["rebalances"] * len(before) / sum(before) - 1, len(before))


def _describe_change(change: float) -> str:
    if abs(change) < _NOTABLE:
        return "stayed the same"
    return f"{'rose' if change > 0 else 'fell'} {100 * abs(change):,.0f} %"


def _blame(rows: Rows) -> str:
    top = rows[0]
    if len(rows) == 1 or (top["share_of_lost"] or 0.0) < _BLAMED:
        return ""
    share = format_share(top["share_of_lost"])
    return f"; {readable(subject(top))} alone causes {share} of the lost time"


def sentences(tables: Tables, period: Period, by: str) -> list[str]:
    """Return the most important results as sentences; empty results are left out."""
    candidates = [
        _what_was(tables, period, by),
        _causes(tables),
        _durations(tables),
        _share(tables),
        _triggers(tables),
        _comparison(tables),
        _faults(tables),
    ]
    return [sentence for sentence in candidates if sentence]


def figures(tables: Tables) -> list[Figure]:
    """Return the figures on top of the page."""
    top = next((row["share"] for row in tables["share"] if row["share"] is not None), 0.0)
    lost = sum(row["lost_s"] for row in tables["groups"])
    longest = max((row["max_s"] or 0.0 for row in tables["durations"]), default=0.0)
    seen = sum(row["triggered"] for row in tables["triggers"])
    return [
        Figure(f"{_total(tables):,}", "rebalances", "groups"),
        Figure(format_seconds(lost), "lost by members", "groups"),
        Figure(f"{seen:,}", "with a known trigger", "triggers"),
        Figure(format_seconds(longest), "the longest", "durations"),
        Figure(format_share(top), "most time rebalancing", "share"),
        Figure(f"{len(tables['storms']):,}", "storms", "storms"),
        Figure(f"{faults(tables):,}", "faults in the data", "quality"),
    ]


def format_days(period: Period) -> str:
    """Write the days of a period as people do."""
    first, last = period.first, period.last
    end = f"{last.day} {last:%B %Y}"
    if first == last:
        return f"on {end} (UTC)"
    if (first.year, first.month) == (last.year, last.month):
        return f"from {first.day} to {end} (UTC)"
    return f"from {first.day} {first:%B %Y} to {end} (UTC)"


def count(number: int, noun: str) -> str:
    """Write a number with its noun, in the plural if needed."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def faults(tables: Tables) -> int:
    """Return the number of gaps and quarantined lines."""
    return sum(row["gaps"] + row["quarantined_lines"] for row in tables["quality"])


def _total(tables: Tables) -> int:
    return sum(row["rebalances"] for row in tables["groups"])


def _what_was(tables: Tables, period: Period, by: str) -> str | None:
    if change_of(tables) is None:
        return None
    rows = tables["groups"]
    found = f"{count(_total(tables), 'rebalance')} in {count(len(rows), by)}"
    lost = format_seconds(sum(row["lost_s"] for row in rows))
    return f"{found} {format_days(period)} cost their members {lost}."


def _causes(tables: Tables) -> str | None:
    totals = by_cause(tables["causes"])
    unseen, total = totals.pop(None, 0), _total(tables)
    causes = {code: times for code, times in totals.items() if code is not None}
    if not causes:
        return f"No agent saw what caused {'it' if unseen == 1 else 'them'}." if unseen else None
    code, times = max(causes.items(), key=lambda item: (item[1], item[0]))
    status = RebalanceStatus(code)
    hidden = f"; {unseen:,} had a cause that nobody knows" if unseen else ""
    return (
        f"The most frequent cause was {status.label} ({times:,} of {total:,}): "
        f"{status.help}{hidden}."
    )


def _durations(tables: Tables) -> str | None:
    rows = [row for row in tables["durations"] if row["max_s"] is not None]
    if not rows:
        return None
    slow = max(rows, key=lambda row: row["max_s"])
    return (
        f"The longest took {format_seconds(slow['max_s'])}, in {readable(subject(slow))}, "
        f"where half of them took {format_seconds(slow['p50_s'])} or less."
    )


def _share(tables: Tables) -> str | None:
    row = next(iter(tables["share"]), None)
    if row is None or not row["share"]:
        return None
    return (
        f"{readable(subject(row))} was rebalancing for {format_share(row['share'])} of the time "
        "that it was observed."
    )


def _triggers(tables: Tables) -> str | None:
    if not tables["triggers"]:
        return None
    row = tables["triggers"][0]
    return (
        f"{readable(row['client_id'] or 'a member without client id')} in "
        f"{readable(subject(row))} triggered the most: {row['triggered']:,}, "
        f"mainly {row['main_cause_name']}."
    )


def _comparison(tables: Tables) -> str | None:
    rows = tables.get("compare")
    if rows is None:
        return None
    now = sum(row["rebalances"] for row in rows)
    before = sum(row["rebalances_before"] for row in rows)
    is_news = before and is_change(now, before, 1)
    moved = f": they {_describe_change(now / before - 1)}" if is_news else ""
    return f"The other period had {count(before, 'rebalance')}, this one {now:,}{moved}."


def _faults(tables: Tables) -> str | None:
    gaps = sum(row["gaps"] for row in tables["quality"])
    lines = sum(row["quarantined_lines"] for row in tables["quality"])
    if not gaps and not lines:
        return None
    found = f"{count(gaps, 'gap')} and {count(lines, 'quarantined line')}"
    return f"The data has {found}; see Data quality."
