"""News: groups that became better or worse, new and vanished groups, and the changes at that time.

Pure. Theory of operation. Incidents of each group and kind are a series of days. Change points are
searched in the sum of all unplanned incidents, then in every series; for these, the level of
significance is divided by the number of series that can have a change at all (Tarone, 1990): those
of equal counts in one group are one, and a series of one start has none. A day without any record
is no day of the series.
Each change point is shown with the changed attributes, annotations and rollouts of the same group,
from two days before to one day after.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from math import factorial, prod
from typing import Any

from aggregation.spark.report.change_points import ChangePoint, latest_change
from aggregation.spark.report.section import Row, Rows
from aggregation.spark.tables.period import Period

ROSE, FELL, NEW, VANISHED = "rose", "fell", "new group", "vanished group"
_BEFORE, _AFTER = timedelta(days=2), timedelta(days=1)
_CHANGES_SHOWN = 8
_COMINGS_SHOWN = 3
_ORDER = (
    *("annotation", "max.poll.interval.ms", "session.timeout.ms", "assignor", "protocol"),
    *("consumer.session.timeout.ms", "share.session.timeout.ms", "streams.session.timeout.ms"),
    *("software", "version", "image", "incident", "members", "partitions", "assignors"),
)
"""Order of changes with equal numbers: people's actions, then their consequences, then others."""
LEVEL_OF_ALL, _LEVEL_OF_GROUPS = 0.03, 0.02
"""Levels of significance. Together, at most 5 % of the reports name a change without one."""
_MIN_VANISHED = timedelta(days=2)
"""A group without a record on the last day alone may only be quiet."""
_Subject = tuple[str, str]
"""Cluster, and group or application."""


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """One change. Rates are incidents a day; times are seconds a day."""

    what: str
    cluster: str | None
    name: str | None
    """Group or application; None: all of them."""
    kind: str | None
    """Kind of incident; None: all unplanned ones."""
    plan: str
    since: date
    before: float | None = None
    after: float | None = None
    lost_before_s: float | None = None
    lost_after_s: float | None = None
    p_value: float | None = None
    then: tuple[str, ...] = ()
    """Other changes at that time."""

    @property
    def weight(self) -> float:
        """How much the cost moved."""
        return abs((self.lost_after_s or 0.0) - (self.lost_before_s or 0.0))


@dataclass(frozen=True, slots=True)
class Series:
    """Incidents of one group, or of all, by day. ``lost_s`` is the time of members, in seconds."""

    days: Sequence[date]
    counts: Mapping[date, int]
    lost_s: Mapping[date, float]

    def change(self, level: float) -> ChangePoint | None:
        counts = [self.counts.get(day, 0) for day in self.days]
        return latest_change(counts, level, [day.weekday() for day in self.days])

    @property
    def least_p(self) -> float:
        """Lower bound of the p-value of any change: few days with incidents have few orders."""
        alike = Counter(self.counts.get(day, 0) for day in self.days)
        return prod(map(factorial, alike.values())) / factorial(len(self.days))

    def lost_a_day(self, days: Sequence[date]) -> float:
        return sum(self.lost_s.get(day, 0.0) for day in days) / len(days) if days else 0.0


def find_news(rows: Rows, days: Sequence[date], period: Period, by: str) -> list[News]:
    """Return the news of a period: the overall change first, then by the change of the cost.

    ``rows`` are those of the section `daily`; ``days`` are all days in the tables.
    """
    known = sorted(day for day in days if day <= period.last)
    seen = find_extents(rows, by)
    series = _series(rows, known, seen, by)
    of_groups = {key: value for key, value in series.items() if key[0] is not None}
    level = _LEVEL_OF_GROUPS / count_testable(of_groups)
    found = []
    for key, value in series.items():
        if key[0] is not None and value.least_p >= level:
            continue
        change = value.change(LEVEL_OF_ALL if key[0] is None else level)
        if change is not None and value.days[change.at] >= period.first:
            news = _news(key, value, change, rows, by)
            came = [] if key[0] is not None else _near_comings(seen, known, news.since)
            found.append(replace(news, then=(*came, *news.then)))
    explained = {(each.cluster, each.name) for each in found if each.kind is not None}
    found = [
        each
        for each in found
        if each.name is None or each.kind is not None or (each.cluster, each.name) not in explained
    ]
    found.sort(key=lambda each: (each.name is not None, each.plan != "unplanned", -each.weight))
    return [*found, *_comings_and_goings(seen, known, period)]


_Key = tuple[_Subject | None, str | None, str]


def _series(
    rows: Rows, known: Sequence[date], seen: Mapping[_Subject, tuple[date, date]], by: str
) -> dict[_Key, Series]:
    """Return the series of all groups together, of each group, and of each group and kind."""
    counts: dict[_Key, Counter[date]] = defaultdict(Counter)
    lost: dict[_Key, dict[date, float]] = defaultdict(lambda: defaultdict(float))
    for row in rows:
        if row["what"] != "incident":
            continue
        own, kind, plan = _subject(row, by), row["kind"], row["plan"] or "unplanned"
        keys: list[_Key] = [(own, kind, plan)]
        if plan == "unplanned":
            keys += [(own, None, plan), (None, None, plan)]
        for key in keys:
            counts[key][row["day"]] += row["times"]
            lost[key][row["day"]] += row["lost_s"] or 0.0
    first = min((day for day, _ in seen.values()), default=None)
    oldest = min((row["day"] for row in rows), default=date.max)
    found = {}
    for key, by_day in counts.items():
        since, until = (first, None) if key[0] is None else seen.get(key[0], (None, None))
        # a group of several months is known by each month's first and last day alone
        days = [day for day in known if since is None or day >= min(since, *by_day)]
        if until is not None and days and days[-1] - until >= _MIN_VANISHED:
            days = [day for day in days if day <= max(until, *by_day)]  # it is gone, not better
        found[key] = Series([day for day in days if day >= oldest], by_day, lost[key])
    return found


def count_testable(series: Mapping[_Key, Series]) -> int:
    """Return the number of tests by which the level of significance is divided; at least 1.

    It is the smallest one for which no more series can reach the level.
    """
    unlike = {(key[0], key[2], tuple(each.counts.items())): each for key, each in series.items()}
    least = [each.least_p for each in unlike.values()]
    return next(
        (n for n in range(1, len(least)) if sum(p < _LEVEL_OF_GROUPS / n for p in least) <= n),
        max(1, len(least)),
    )


def _news(key: _Key, series: Series, change: ChangePoint, rows: Rows, by: str) -> News:
    own, kind, plan = key
    since = series.days[change.at]
    before, after = series.days[: change.at], series.days[change.at :]
    return News(
        what=ROSE if change.after > change.before else FELL,
        cluster=None if own is None else own[0],
        name=None if own is None else own[1],
        kind=kind,
        plan=plan,
        since=since,
        before=change.before,
        after=change.after,
        lost_before_s=series.lost_a_day(before),
        lost_after_s=series.lost_a_day(after),
        p_value=change.p_value,
        then=tuple(what_changed(rows, since, own, by)),
    )


def what_changed(rows: Rows, since: date, own: _Subject | None, by: str) -> list[str]:
    """Return the settings, deploys and markers that changed around a day, most frequent first."""
    found: Counter[str] = Counter()
    ranks: dict[str, int] = {}
    owners: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        is_near = since - _BEFORE <= row["day"] <= since + _AFTER
        is_own = own is None or _is_of(row, own, by)
        text = _note(row)
        if is_near and is_own and text is not None:
            found[text] += row["times"]
            ranks[text] = _rank(row)
            owners[text] |= {row[by]} if own is None and row[by] else set()
    in_order = sorted(found.items(), key=lambda pair: (-pair[1], ranks[pair[0]], pair[0]))
    texts = [
        f"{text}{_place(owners[text], by)}" + (f" ({times} times)" if times > 1 else "")
        for text, times in in_order
    ]
    more = len(texts) - _CHANGES_SHOWN
    return [*texts[:_CHANGES_SHOWN], *([f"{more} more"] if more > 0 else [])]


def _is_of(row: Row, own: _Subject, by: str) -> bool:
    """Check whether a row is of a group; without a name it is of all groups of its cluster."""
    if row[by] is None:
        return row["cluster"] in {None, "", own[0]}
    return _subject(row, by) == own


def _place(owners: set[str], by: str) -> str:
    if len(owners) > 1:
        return f" in {len(owners)} {by}s"
    return f" in {next(iter(owners))}" if owners else ""


def _rank(row: Row) -> int:
    name = row["kind"] if row["what"] == "change" else row["what"]
    return _ORDER.index(name) if name in _ORDER else len(_ORDER)


def _note(row: Row) -> str | None:
    match row["what"]:
        case "change":
            return _spell_change(row["kind"], row["last_reason"])
        case "annotation":
            return row["last_reason"] or "an annotation"
        case "incident" if row["kind"] == "rollout":
            return "a rollout"
    return None


def _spell_change(name: str, text: str) -> str:
    """Write a change of a group: hosts that only came are new ones."""
    came = text.removeprefix("with ")
    return f"new {name}: {came}" if came != text else f"{name} {text}"


def find_extents(rows: Rows, by: str) -> dict[_Subject, tuple[date, date]]:
    """Return the first and the last observed day of each group."""
    found: dict[_Subject, tuple[date, date]] = {}
    for row in rows:
        if row["what"] == "observed" and row[by] is not None:
            first, last = found.get(_subject(row, by), (row["day"], row["day"]))
            found[_subject(row, by)] = (min(first, row["day"]), max(last, row["day"]))
    return found


def _comings_and_goings(
    seen: Mapping[_Subject, tuple[date, date]], known: Sequence[date], period: Period
) -> Iterable[News]:
    for (cluster, name), (first, last) in sorted(seen.items(), key=str):
        given: dict[str, Any] = {"cluster": cluster, "name": name, "kind": None, "plan": ""}
        if first >= period.first and any(day < first for day in known):
            yield News(what=NEW, since=first, **given)
        if last >= period.first and period.last - last >= _MIN_VANISHED:
            yield News(what=VANISHED, since=last, **given)


def _near_comings(
    seen: Mapping[_Subject, tuple[date, date]], known: Sequence[date], since: date
) -> list[str]:
    """Return the groups that came or went around a day: the sum of all changes with them."""
    found = []
    for (_, name), (first, last) in sorted(seen.items()):
        if known[0] < first and -_BEFORE <= first - since <= _AFTER:
            found.append(f"{name or '(no name)'} is new")
        if known[-1] - last >= _MIN_VANISHED and -_BEFORE <= last - since <= _AFTER:
            found.append(f"{name or '(no name)'} vanished")
    more = len(found) - _COMINGS_SHOWN
    return [*found[:_COMINGS_SHOWN], *([f"{more} more came or went"] if more > 0 else [])]


def _subject(row: Row, by: str) -> _Subject:
    return row["cluster"] or "", row[by] or ""


def news_rows(news: Sequence[News], by: str) -> Rows:
    """Return news as rows of a table."""
    return [
        {
            "what": each.what,
            "since": each.since,
            "cluster": each.cluster,
            by: each.name,
            "kind": each.kind,
            "plan": each.plan or None,
            "before_a_day": each.before,
            "after_a_day": each.after,
            "lost_before_s": each.lost_before_s,
            "lost_after_s": each.lost_after_s,
            "p_value": each.p_value,
            "changed_then": "; ".join(each.then) or None,
        }
        for each in news
    ]
