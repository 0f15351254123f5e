"""The report in a few sentences and figures, for who reads no further."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from aggregation.spark.report.plot import readable, say_seconds
from aggregation.spark.report.quality import GAPS, QUARANTINED
from aggregation.spark.report.section import Rows, subject
from aggregation.spark.report.share import say_share, shares
from aggregation.spark.rollups import Period
from metrics.status import RebalanceStatus

Tables = Mapping[str, Rows]
"""The rows of each section by its name."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One number with what it counts."""

    value: str
    label: str


def title(tables: Tables, period: Period, by: str) -> str:
    """Say in one sentence what happened."""
    observed, total = len(shares(tables["share"])), _total(tables)
    if not total:
        return f"No rebalance {say_days(period)}; {count(observed, by)} observed."
    busy = len({subject(row) for row in tables["rebalances"]})
    return f"{count(total, 'rebalance')} in {count(busy, by)} {say_days(period)}."


def sentences(tables: Tables) -> list[str]:
    """Say what matters most, each in a sentence; what was not seen is left out."""
    said = [_causes(tables), _durations(tables), _share(tables), _triggers(tables), _faults(tables)]
    return [sentence for sentence in said if sentence]


def figures(tables: Tables) -> list[Figure]:
    """Return the figures on top of the page."""
    top = next(iter(shares(tables["share"]).values()), 0.0)
    longest = max((row["max_s"] for row in tables["durations"]), default=0.0)
    seen = sum(row["triggered"] for row in tables["triggers"])
    return [
        Figure(f"{_total(tables):,}", "rebalances"),
        Figure(f"{seen:,}", "with a known trigger"),
        Figure(say_seconds(longest), "the longest"),
        Figure(say_share(top), "most time rebalancing"),
        Figure(f"{_found(tables, GAPS) + _found(tables, QUARANTINED):,}", "faults in the data"),
    ]


def say_days(period: Period) -> str:
    """Write the days of a period as people do."""
    first, last = period.first, period.last
    end = f"{last.day} {last:%B %Y}"
    if first == last:
        return f"on {end} (UTC)"
    if (first.year, first.month) == (last.year, last.month):
        return f"from {first.day} to {end} (UTC)"
    return f"from {first.day} {first:%B %Y} to {end} (UTC)"


def count(number: int, noun: str) -> str:
    """Write a number with its noun in the plural where due."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _total(tables: Tables) -> int:
    return sum(row["rebalances"] for row in tables["rebalances"])


def _causes(tables: Tables) -> str | None:
    causes = Counter[int]()
    for row in tables["rebalances"]:
        if row["cause"] is not None:
            causes[row["cause"]] += row["rebalances"]
    total = _total(tables)
    unseen = total - causes.total()
    if not causes:
        return f"No agent saw what caused {'it' if unseen == 1 else 'them'}." if unseen else None
    code, times = max(causes.items(), key=lambda item: (item[1], item[0]))
    status = RebalanceStatus(code)
    hidden = f"; {unseen:,} had a cause that no agent saw" if unseen else ""
    return (
        f"The most frequent cause was {status.label} ({times:,} of {total:,}): "
        f"{status.help}{hidden}."
    )


def _durations(tables: Tables) -> str | None:
    rows = tables["durations"]
    if not rows:
        return None
    slow = max(rows, key=lambda row: row["max_s"])
    return (
        f"The longest took {say_seconds(slow['max_s'])}, in {readable(subject(slow))}, "
        f"where half of them took {say_seconds(slow['p50_s'])} or less."
    )


def _share(tables: Tables) -> str | None:
    name, most = next(iter(shares(tables["share"]).items()), ("", 0.0))
    if not most:
        return None
    return (
        f"{readable(name)} was rebalancing for {say_share(most)} of the time that it was observed."
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


def _faults(tables: Tables) -> str | None:
    gaps, lines = _found(tables, GAPS), _found(tables, QUARANTINED)
    if not gaps and not lines:
        return None
    found = f"{count(gaps, 'gap')} and {count(lines, 'quarantined line')}"
    return f"The data has {found}; see Data quality."


def _found(tables: Tables, check: str) -> int:
    return sum(row["found"] for row in tables["quality"] if row["check"] == check)
