"""News: groups that became better or worse, new and vanished groups, and the changes at that time.

Pure. Theory of operation. Incidents of each group and kind are a series of days. Change points are
searched in the sum of all unplanned incidents, then in every series; for these, the level of
significance is divided by the number of series that can have a change at all (Tarone, 1990): those
of equal counts in one group are one, and a series of one start has none. A day on which a group
was not observed is no day of its series. In the sum of all groups such a day counts with the
group's mean, also before it came and behind its last record: an agent that is away makes nothing
better, and one that comes makes nothing worse. New and vanished groups are news of their own, with
their rates.
Each change point is shown with the changed attributes, annotations and rollouts of the same group,
from two days before to one day after.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from math import factorial, prod
from typing import Any, NamedTuple

from aggregation.spark.report.change_points import ChangePoint, latest_change
from aggregation.spark.report.section import Row, Rows
from aggregation.spark.tables.period import Period

ROSE, FELL, NEW, VANISHED = "rose", "fell", "new group", "vanished group"
_BEFORE, _AFTER = timedelta(days=2), timedelta(days=1)
_CHANGES_SHOWN = 8
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
_ALL_OF_GROUP = (None, "unplanned")
"""Kind and plan of the sum of all unplanned incidents."""


class ObservedSpan(NamedTuple):
    """Consecutive days on which a group was observed, or was quiet."""

    first: date
    last: date
    is_sampled: bool
    """Periodic samples show its last day: a later day without a record is none of the group."""


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
    counts: Mapping[date, float]
    lost_s: Mapping[date, float]

    def change(self, level: float) -> ChangePoint | None:
        counts = [self.counts.get(day, 0) for day in self.days]
        return latest_change(counts, level, [day.weekday() for day in self.days])

    @property
    def rate(self) -> float:
        """Incidents a day."""
        return sum(self.counts.values()) / len(self.days) if self.days else 0.0

    @property
    def least_p(self) -> float:
        """Lower bound of the p-value of any change: few days with incidents have few orders."""
        alike = Counter(self.counts.get(day, 0) for day in self.days)
        return prod(map(factorial, alike.values())) / factorial(len(self.days))

    def lost_a_day(self, days: Sequence[date]) -> float:
        return sum(self.lost_s.get(day, 0.0) for day in days) / len(days) if days else 0.0


def find_news(rows: Rows, days: Sequence[date], period: Period, by: str) -> list[News]:
    """Return the news of a period: the overall change first, then by the change of the cost.

    The overall change is last if a group's change explains it, and has another date.

    ``rows`` are those of the section `daily`; ``days`` are all days in the tables.
    """
    known = sorted(day for day in days if day <= period.last)
    spans = find_observed(rows, by)
    seen = {key: (each[0].first, each[-1].last) for key, each in spans.items()}
    series = _series(rows, known, spans, by)
    of_groups = {key: value for key, value in series.items() if key[0] is not None}
    level = _LEVEL_OF_GROUPS / count_testable(of_groups)
    found = []
    for key, value in series.items():
        if key[0] is not None and value.least_p >= level:
            continue
        change = value.change(LEVEL_OF_ALL if key[0] is None else level)
        if change is not None and value.days[change.at] >= period.first:
            found.append(_news(key, value, change, rows, by))
    explained = {(each.cluster, each.name) for each in found if each.kind is not None}
    found = [
        each
        for each in found
        if each.name is None or each.kind is not None or (each.cluster, each.name) not in explained
    ]
    rates = {key[0]: each for key, each in series.items() if key[1:] == _ALL_OF_GROUP}
    blurred = _find_blurred(found, rates)
    found.sort(
        key=lambda each: (
            each is blurred, each.name is not None, each.plan != "unplanned", -each.weight,
        )
    )  # fmt: skip
    return [*found, *_comings_and_goings(seen, known, period, rates)]


def _find_blurred(found: Sequence[News], rates: Mapping[_Subject | None, Series]) -> News | None:
    """Return the overall change if groups explain it, whose own changes have other dates.

    Without these groups the sum of all has no change: the noise of the others moved its date.
    """
    overall = next((each for each in found if each.name is None), None)
    if overall is None:
        return None
    wanted = overall.what, overall.plan
    own = [each for each in found if each.name is not None and (each.what, each.plan) == wanted]
    names = {(each.cluster, each.name) for each in own}
    others = [each for key, each in rates.items() if key is not None and key not in names]
    is_dated = any(abs(each.since - overall.since) <= _BEFORE for each in own)
    if not own or is_dated or not others:
        return None
    rest = _sum_groups(others, rates[None].days).change(LEVEL_OF_ALL)
    return overall if rest is None else None


_Key = tuple[_Subject | None, str | None, str]


def _series(
    rows: Rows, known: Sequence[date], seen: Mapping[_Subject, Sequence[ObservedSpan]], by: str
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
            keys += [(own, None, plan)]
        for key in keys:
            counts[key][row["day"]] += row["times"]
            lost[key][row["day"]] += row["lost_s"] or 0.0
    oldest = min((row["day"] for row in rows), default=date.max)
    since_oldest = [day for day in known if day >= oldest]
    found = {
        key: Series(
            _list_days(seen.get(key[0] or ("", "")), since_oldest, by_day), by_day, lost[key]
        )
        for key, by_day in counts.items()
    }
    own_sums = {key: each for key, each in found.items() if key[1:] == _ALL_OF_GROUP}
    if own_sums:
        found[(None, *_ALL_OF_GROUP)] = _sum_groups(own_sums.values(), since_oldest)
    return found


def _list_days(
    spans: Sequence[ObservedSpan] | None, known: Sequence[date], by_day: Collection[date]
) -> Sequence[date]:
    """Return the days of a group's series: those on which it was observed, or had an incident.

    A group without periodic samples may be quiet behind its last record, until it has vanished.
    """
    if not spans or not known:
        return known
    last = spans[-1]
    if not last.is_sampled and known[-1] - last.last < _MIN_VANISHED:
        spans = [*spans[:-1], last._replace(last=known[-1])]
    return [
        day
        for day in known
        if day in by_day or any(each.first <= day <= each.last for each in spans)
    ]


def _sum_groups(groups: Iterable[Series], known: Sequence[date]) -> Series:
    """Return the sum of all groups; on days of its absence a group counts with its mean."""
    counts: dict[date, float] = defaultdict(float)
    lost: dict[date, float] = defaultdict(float)
    for each in groups:
        own = {*each.days, *each.counts}
        away = [day for day in known if day not in own]
        for sums, values in ((counts, each.counts), (lost, each.lost_s)):
            for day, value in values.items():
                sums[day] += value
            for day in away:
                sums[day] += sum(values.values()) / len(own)
    return Series(known, counts, lost)


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


def find_observed(rows: Rows, by: str) -> dict[_Subject, list[ObservedSpan]]:
    """Return the days on which each group was observed, in order.

    ``times`` of a row is the number of consecutive days. Between two days of events alone, without
    periodic samples, a group was quiet.
    """
    found: dict[_Subject, list[ObservedSpan]] = defaultdict(list)
    for row in sorted(rows, key=lambda each: each["day"]):
        if row["what"] == "observed" and row[by] is not None:
            last = row["day"] + timedelta(days=row["times"] - 1)
            _extend(found[_subject(row, by)], ObservedSpan(row["day"], last, row["kind"] is None))
    return dict(found)


def _extend(spans: list[ObservedSpan], span: ObservedSpan) -> None:
    """Add a span to those before it, or merge it with the last one."""
    before = spans[-1] if spans else None
    is_quiet = before is not None and not (before.is_sampled or span.is_sampled)
    if before is None or not (is_quiet or span.first - before.last <= timedelta(days=1)):
        spans.append(span)
        return
    ends = [each for each in (before, span) if each.last == max(before.last, span.last)]
    spans[-1] = ObservedSpan(before.first, ends[0].last, any(each.is_sampled for each in ends))


def _comings_and_goings(
    seen: Mapping[_Subject, tuple[date, date]],
    known: Sequence[date],
    period: Period,
    series: Mapping[_Subject | None, Series],
) -> Iterable[News]:
    """Yield the groups that came or went, with the rates that they have or had."""
    for key, (first, last) in sorted(seen.items(), key=str):
        (cluster, name), own = key, series.get(key)
        given: dict[str, Any] = {"cluster": cluster, "name": name, "kind": None, "plan": ""}
        rate = own.rate if own is not None else 0.0
        lost_s = own.lost_a_day(own.days) if own is not None else 0.0
        if first >= period.first and any(day < first for day in known):
            yield News(what=NEW, since=first, after=rate, lost_after_s=lost_s, **given)
        if last >= period.first and period.last - last >= _MIN_VANISHED:
            yield News(what=VANISHED, since=last, before=rate, lost_before_s=lost_s, **given)


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
