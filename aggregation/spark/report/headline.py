"""The headline of the report: the verdict, then results in a few sentences and figures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from aggregation.spark.report.news import FELL, NEW, ROSE, VANISHED, News
from aggregation.spark.report.plot import format_seconds, readable
from aggregation.spark.report.quality import FUTURE, LATE
from aggregation.spark.report.quality import SECTION as _QUALITY
from aggregation.spark.report.section import Row, Rows, member_in_words, subject
from aggregation.spark.report.share import format_share
from aggregation.spark.tables.period import Period

Tables = Mapping[str, Rows]
"""The rows of each section by its name."""
_NAMED = {LATE, FUTURE}
WORST = 3
"""Groups on the first screen."""
_MANY_TRIGGERED = 2
"""A member that triggered one rebalance has no place in the headline."""
_COMINGS_SHOWN = 3
"""New or vanished groups with their rates."""
_ENOUGH_FOR_HALF = 5
"""Of fewer rebalances half is no figure."""


class Direction(StrEnum):
    """The answer of a report: is it better or worse?"""

    WORSE = "worse"
    BETTER = "better"
    SAME = "same"
    QUIET = "quiet"


@dataclass(frozen=True, slots=True)
class Figure:
    """One number with its label and its section."""

    value: str
    label: str
    section: str


@dataclass(frozen=True, slots=True)
class Sentence:
    """One result in words, and the section that has its rows."""

    text: str
    section: str


def verdict(tables: Tables, news: Sequence[News]) -> Direction:
    """Return whether unplanned incidents became more or fewer, by more than noise."""
    first = _first_change(news)
    if first is not None:
        return Direction.WORSE if first.what == ROSE else Direction.BETTER
    return Direction.SAME if count_incidents(tables) else Direction.QUIET


def title(tables: Tables, period: Period, by: str, news: Sequence[News]) -> str:
    """Return the verdict in one sentence."""
    first = _first_change(news)
    if first is not None:
        return _describe(first)
    unplanned, all_of = count_incidents(tables, "unplanned"), count_incidents(tables)
    groups = count(sum(1 for row in tables["groups"] if row["incidents"]), by)
    if not all_of:
        return f"No incident {format_days(period)}; {count(len(tables['share']), by)} observed."
    if not unplanned:
        return f"Nothing unplanned {format_days(period)}; {all_of:,} planned in {groups}."
    is_other = any(each.what == NEW and each.after for each in news)
    before = "As before: " if len(tables["trend"]) > 1 and not is_other else ""
    found = f"{count(unplanned, 'unplanned incident')} and {all_of - unplanned:,} planned"
    return f"{before}{found} in {groups} {format_days(period)}."


def _first_change(news: Sequence[News]) -> News | None:
    return next(
        (each for each in news if each.what in {ROSE, FELL} and each.plan == "unplanned"), None
    )


def _describe(news: News) -> str:
    """Write a change of a rate: group, date, the rates before and after."""
    who = "" if news.name is None else f" in {readable(subject_of(news))}"
    what = "unplanned incidents" if news.kind is None else news.kind
    word = "Worse" if news.what == ROSE else "Better"
    return (
        f"{word} since {news.since.day} {news.since:%B}{who}: "
        f"{_rate(news.after)} {what} a day, {_rate(news.before)} before."
    )


def subject_of(news: News) -> str:
    """Name the group or application of a change, with its cluster if it has one."""
    return "/".join(part for part in (news.cluster, news.name) if part) or "(no name)"


def _rate(value: float | None) -> str:
    return "0" if not value else f"{value:.2g}" if value < 100 else f"{value:,.0f}"


def sentences(
    tables: Tables, period: Period, by: str, news: Sequence[News], days_without: int = 0
) -> list[Sentence]:
    """Return the most important results as sentences; empty results are left out.

    ``days_without`` is the number of days without a record of any agent.
    """
    candidates = [
        (_totals(tables, period), "groups"),
        *((text, "news") for text in _other_changes(news)),
        *((_came_or_went(news, what, by), "news") for what in (NEW, VANISHED)),
        (_causes(tables), "kinds"),
        (_durations(tables), "durations"),
        (_share(tables), "share"),
        (_triggers(tables), "triggers"),
        (_storms(tables), "storms"),
        (_comparison(tables), "compare"),
        (_faults(tables), _QUALITY.name),
        (_missing_days(period, days_without), _QUALITY.name),
    ]
    return [Sentence(text, section) for text, section in candidates if text]


def worst_groups(tables: Tables) -> Rows:
    """Return the groups that cost most."""
    return [row for row in tables["groups"] if row["incidents"] or row["rebalances"]][:WORST]


def cost_of(row: Row) -> str:
    """Return the cost of incidents: the unread time, and if it may be more, the members' time."""
    lost = f"{format_seconds(row['lost_s'])} lost by members"
    if row["unread_s"] is None:
        return lost
    unread = f"{format_unread(row)} unread"
    return f"{unread}, {lost}" if row["unread_at_least"] else unread


def format_unread(row: Row) -> str:
    """Write an unread time that is known; a lower bound is named as one."""
    bound = "at least " if row["unread_at_least"] else ""
    return f"{bound}{format_seconds(row['unread_s'])}"


def sum_known(rows: Rows, name: str) -> float | None:
    """Return the sum of a column; None if no row has a value."""
    known = [row[name] for row in rows if row[name] is not None]
    return sum(known) if known or not rows else None


def figures(tables: Tables) -> list[Figure]:
    """Return the figures on top of the page."""
    top = next((row["share"] for row in tables["share"] if row["share"] is not None), None)
    lost = sum(row["lost_s"] for row in tables["groups"])
    unplanned = count_incidents(tables, "unplanned")
    return [
        _counted(unplanned, "unplanned incident", "incidents"),
        _counted(count_incidents(tables) - unplanned, "planned one", "incidents"),
        _counted(_total(tables), "rebalance", "groups"),
        *_unread(tables["groups"]),
        Figure(format_seconds(lost), "lost by members", "groups"),
        *_longest(tables),
        *([] if top is None else [Figure(format_share(top), "most time rebalancing", "share")]),
        _counted(len(tables["storms"]), "storm", "storms"),
        _counted(faults(tables), "fault", "quality", " in the data"),
    ]


def _unread(groups: Rows) -> list[Figure]:
    unread = sum_known(groups, "unread_s")
    if unread is None:
        return []
    bound = ", at least" if is_at_least(groups) else ""
    return [Figure(format_seconds(unread), f"partitions unread{bound}", "groups")]


def _longest(tables: Tables) -> list[Figure]:
    known = [row["max_s"] for row in tables["durations"] if row["max_s"] is not None]
    if not known and _total(tables):
        return []
    return [Figure(format_seconds(max(known, default=0.0)), "longest rebalance", "durations")]


def is_at_least(rows: Rows) -> bool:
    """Check that more may be unread than the sum of rows shows."""
    return any(row["unread_at_least"] for row in rows)


def _counted(number: int, noun: str, section: str, where: str = "") -> Figure:
    return Figure(f"{number:,}", f"{noun}{'' if number == 1 else 's'}{where}", section)


def format_days(period: Period) -> str:
    """Write the days of a period as people do."""
    first, last = period.first, period.last
    end = f"{last.day} {last:%B %Y}"
    if first == last:
        return f"on {end}"
    if (first.year, first.month) == (last.year, last.month):
        return f"from {first.day} to {end}"
    return f"from {first.day} {first:%B %Y} to {end}"


def count(number: int, noun: str) -> str:
    """Write a number with its noun, in the plural if needed."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def count_incidents(tables: Tables, plan: str | None = None) -> int:
    """Return the number of incidents, all or of one plan."""
    return sum(row["incidents"] for row in tables["kinds"] if plan in {None, row["plan"]})


def faults(tables: Tables) -> int:
    """Return the number of gaps, of quarantined lines, and of agents with an outage."""
    rows = tables["quality"]
    return sum(row["gaps"] + row["quarantined_lines"] + bool(row["outage_h"]) for row in rows)


def _total(tables: Tables) -> int:
    return sum(row["rebalances"] for row in tables["groups"])


def _totals(tables: Tables, period: Period) -> str | None:
    rows = tables["groups"]
    if not rows:
        return None
    lost_s = sum(row["lost_s"] for row in rows)
    lost = f"{format_seconds(lost_s)}{_of_unplanned(tables)}" if lost_s else "no time"
    return f"{count(_total(tables), 'rebalance')} {format_days(period)} cost members {lost}."


def _of_unplanned(tables: Tables) -> str:
    """Return the part of the cost that nobody wanted, for a sentence."""
    number = count_incidents(tables, "unplanned")
    kinds = [row for row in tables["kinds"] if row["plan"] == "unplanned"]
    lost_s = sum_known(kinds, "lost_s")
    if not number or lost_s is None:
        return ""
    return f", {format_seconds(lost_s)} of it in {count(number, 'unplanned incident')}"


def _other_changes(news: Sequence[News]) -> list[str]:
    """Return up to two more changes in words, and how many groups came and went."""
    changes = [each for each in news if each.what in {ROSE, FELL} and each.plan == "unplanned"]
    found = [_describe(each) for each in changes[1:3]]
    if changes and changes[0].then:
        found.insert(0, f"Changed at that time: {'; '.join(changes[0].then)}.")
    return found


def _came_or_went(news: Sequence[News], what: str, by: str) -> str | None:
    """Name the groups that came or went with most unplanned incidents; they are no change."""
    found = [each for each in news if each.what == what]
    found.sort(key=_own_rate, reverse=True)
    rates = [each for each in found if _own_rate(each)][:_COMINGS_SHOWN]
    if not found:
        return None
    had = "had" if what == VANISHED else "with"
    parts = [f"{readable(subject_of(each))} {had} {_rate(_own_rate(each))}" for each in rates]
    of_rates = f": {', '.join(parts)} unplanned incidents a day" if parts else ""
    verb = ("is" if len(found) == 1 else "are") + " new" if what == NEW else "vanished"
    return f"{count(len(found), by)} {verb}{of_rates}."


def _own_rate(news: News) -> float:
    return news.before or news.after or 0.0


def _causes(tables: Tables) -> str | None:
    rows = [row for row in tables["kinds"] if row["plan"] == "unplanned"]
    if not rows:
        return None
    row = rows[0]
    of_all = count_incidents(tables, "unplanned")
    number = f"{row['incidents']:,} of {count(of_all, 'unplanned incident')}"
    found = f"The costliest unplanned cause was {row['kind']}: {number}, {cost_of(row)}"
    return f"{found}{_hidden_cause(rows)}."


def _hidden_cause(rows: Rows) -> str:
    """Name a cause that may cost more than the first one: its unread time is not all known."""
    first = rows[0]
    most = max((row for row in rows if row["unread_at_least"]), key=_lost, default=first)
    if most is first or _lost(most) <= _lost(first):
        return ""
    known = "not known" if most["unread_s"] is None else format_unread(most)
    return (
        f"; {most['kind']} cost members more, {format_seconds(_lost(most))} in "
        f"{count(most['incidents'], 'incident')}, and its unread time is {known}"
    )


def _lost(row: Row) -> float:
    return row["lost_s"] or 0.0


def _durations(tables: Tables) -> str | None:
    rows = [row for row in tables["durations"] if row["max_s"] is not None]
    if not rows:
        return None
    slow = max(rows, key=lambda row: row["max_s"])
    longest, half = format_seconds(slow["max_s"]), format_seconds(slow["p50_s"])
    found = f"The longest rebalance took {longest}, in {readable(subject(slow))}"
    if slow["rebalances"] < _ENOUGH_FOR_HALF or half == longest:
        return f"{found}."
    return f"{found}; half of its {slow['rebalances']:,} took about {half} or less."


def _share(tables: Tables) -> str | None:
    row = next(iter(tables["share"]), None)
    if row is None or not row["share"]:
        return None
    return (
        f"{readable(subject(row))} was rebalancing for {format_share(row['share'])} of the time "
        "that it was observed."
    )


def _triggers(tables: Tables) -> str | None:
    rows = tables["triggers"]
    row = next(iter(rows), None)
    if row is None or row["triggered"] < _MANY_TRIGGERED:
        return None
    return (
        f"{readable(member_in_words(row, rows))} in "
        f"{readable(subject(row))} triggered the most: {row['triggered']:,}, "
        f"mainly {row['main_cause_name']}."
    )


def _storms(tables: Tables) -> str | None:
    rows = tables["storms"]
    if not rows:
        return None
    row = max(rows, key=lambda row: row["rebalances"])
    length = format_seconds((row["until"] - row["since"]).total_seconds())
    return (
        f"{count(len(rows), 'storm')}, {'' if len(rows) == 1 else 'the largest '}"
        f"in {readable(subject(row))}: "
        f"{row['rebalances']:,} rebalances began within {length} on {row['since'].day} "
        f"{row['since']:%B}."
    )


def _comparison(tables: Tables) -> str | None:
    rows = tables.get("compare")
    if rows is None:
        return None
    now = sum(row["rebalances"] for row in rows)
    before = sum(row["rebalances_before"] for row in rows)
    if not rows:
        return "There was no rebalance in this period or the other one."
    first = rows[0]
    if not first["days"] or not first["days_before"]:
        return "The other period, or this one, has no records: there is nothing to compare."
    days, days_before = first["days"], first["days_before"]
    of_day = ("", "")
    if days != days_before:
        of_day = (f" ({_rate(before / days_before)} a day)", f" ({_rate(now / days)} a day)")
    return (
        f"The other period had {count(before, 'rebalance')} in {count(days_before, 'day')}"
        f"{of_day[0]}, this one {now:,} in {days:,}{of_day[1]}{_significant(rows)}."
    )


def _significant(rows: Rows) -> str:
    """Name the groups that differ; the first has the largest difference in cost."""
    found = [row for row in rows if row["is_significant"]]
    noun = "app" if "app" in rows[0] else "group"
    if not found:
        is_tested = any(row["is_significant"] is not None for row in rows)
        return f"; no {noun} differs by more than noise" if is_tested else ""
    first, differ = found[0], "differs" if len(found) == 1 else "differ"
    return (
        f"; {count(len(found), noun)} {differ} by more than noise: {readable(subject(first))} had "
        f"{count(first['unplanned_before'], 'unplanned incident')}, now {first['unplanned']:,}"
    )


def _faults(tables: Tables) -> str | None:
    rows = tables["quality"]
    lines = {row["agent"]: row["quarantined_lines"] for row in rows if row["quarantined_lines"]}
    parts = [
        *_some(sum(row["gaps"] for row in rows), "gap"),
        *_some(lines.get(LATE, 0), "late line"),
        *_some(lines.get(FUTURE, 0), "future line"),
        *_some(
            sum(number for name, number in lines.items() if name not in _NAMED), "quarantined line"
        ),
    ]
    out = [row for row in rows if row["outage_h"]]
    found = [f"the data has {' and '.join(parts)}"] if parts else []
    found += [_outages(sorted(out, key=lambda row: -row["outage_h"]))] if out else []
    unseen = sum(row["causes_not_seen"] for row in rows)
    found += [f"no agent saw the cause of {count(unseen, 'rebalance')}"] if unseen else []
    if not found:
        return None
    text = f"{', and '.join(found)}; see Data quality."
    return text[0].upper() + text[1:]


def _outages(rows: Sequence[Row]) -> str:
    """Return the hours in which agents that had members were silent, the longest first."""
    longest, hours = rows[0], f"{sum(row['outage_h'] for row in rows):,} h"
    if len(rows) == 1:
        return f"agent {readable(longest['agent'])} was silent for {hours}"
    most = f"{longest['outage_h']:,} h of {readable(longest['agent'])}"
    return f"{len(rows):,} agents were silent for {hours} in all ({most})"


def _missing_days(period: Period, days_without: int) -> str | None:
    if not days_without:
        return None
    return f"No agent has a record of {days_without:,} of the {count(period.days, 'day')}."


def _some(number: int, noun: str) -> list[str]:
    return [count(number, noun)] if number else []
