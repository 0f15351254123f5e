"""News: date, group and causes of a change; none without a change. Without Spark."""

from datetime import date, timedelta
from random import Random
from typing import Any

import pytest

from aggregation.spark.report.headline import sentences, title
from aggregation.spark.report.news import Series, count_testable, find_news, what_changed
from aggregation.spark.tables.period import Period
from tests.aggregation.spark.test_change_points import poisson

FIRST = date(2026, 1, 1)
DAYS = [FIRST + timedelta(days=n) for n in range(63)]
LAST_WEEKS = Period(DAYS[35], DAYS[-1])


def row(day: date, group: str | None, what: str = "incident", **fields: Any) -> dict[str, Any]:
    given = {
        "day": day,
        "cluster": "eu",
        "group": group,
        "what": what,
        "kind": "poll_timeout" if what == "incident" else None,
        "plan": "unplanned" if what == "incident" else None,
        "times": 1,
        "unread_s": None,
        "lost_s": 10.0,
        "last_at": None,
        "last_reason": None,
    }
    return given | fields


def observed(group: str, first: date = FIRST, last: date = DAYS[-1]) -> list[dict[str, Any]]:
    return [row(first, group, "observed", times=(last - first).days + 1)]


def fleet(rng: Random, groups: int, rate: float) -> list[dict[str, Any]]:
    rows = []
    for n in range(groups):
        rows += observed(f"g{n}")
        rows += [row(day, f"g{n}", times=times) for day in DAYS if (times := poisson(rng, rate))]
    return rows


@pytest.mark.parametrize(("groups", "rate"), [(1, 6.0), (10, 0.5), (40, 0.2)])
def test_constant_rate_gives_no_news_in_95_percent_of_titles(groups: int, rate: float) -> None:
    rng = Random(groups)
    titles = []
    tables: dict[str, Any] = {
        "trend": [{}, {}],
        "share": [],
        "groups": [GROUP],
        "kinds": [KIND],
    }
    for _ in range(25):
        news = find_news(fleet(rng, groups, rate), DAYS, LAST_WEEKS, "group")
        titles.append(title(tables, LAST_WEEKS, "group", news))
    assert sum("since" in text for text in titles) <= 1
    assert titles[0].startswith("As before: 9 unplanned incidents and 0 planned in 1 group")


def test_doubled_rate_is_in_the_title_within_a_week() -> None:
    rng = Random(4)
    found = 0
    for _ in range(10):
        rows = fleet(rng, 5, 1.0)
        rows += [row(day, "g1", times=poisson(rng, 10.0)) for day in DAYS[56:]]
        (first, *_) = find_news(rows, DAYS, LAST_WEEKS, "group")
        found += abs((first.since - DAYS[56]).days) <= 2 and first.what == "rose"
    assert found >= 9


def test_change_of_one_group_has_its_own_date_beside_noise_of_the_others() -> None:
    """The sum of all changes at another group's burst: without the one group it has no change."""
    found = 0
    for seed in range(10):
        rows = fleet(Random(seed), 10, 0.25)
        rows += [row(day, "g5", times=6, kind="fenced") for day in DAYS[36:39]]
        rows += [row(day, "g3", times=3) for day in DAYS[45:]]
        (first, *_) = find_news(rows, DAYS, LAST_WEEKS, "group")
        found += first.what == "rose" and abs((first.since - DAYS[45]).days) <= 2
    assert found == 10


def test_groups_that_cannot_have_a_change_hide_none() -> None:
    """Each of 60 groups started once: their series have no orders that a test could tell apart."""
    rng = Random(5)
    found = {0: 0, 60: 0}
    for _ in range(10):
        rows = [*observed("g"), *(row(day, "g", times=poisson(rng, 1.0)) for day in DAYS[:49])]
        rows += [row(day, "g", times=poisson(rng, 3.0)) for day in DAYS[49:]]
        for groups in found:
            starts = [row(DAYS[n % 30], f"s{n}", kind="member_joined") for n in range(groups)]
            seen = [each for n in range(groups) for each in observed(f"s{n}")]
            given = [*rows, *seen, *(each | {"plan": "planned"} for each in starts)]
            news = find_news(given, DAYS, LAST_WEEKS, "group")
            found[groups] += any(each.name == "g" and each.what == "rose" for each in news)
    assert found[60] == found[0] >= 7


def test_series_count_once_if_a_change_is_possible() -> None:
    days = DAYS[:28]
    often = {day: 1 + day.day % 3 for day in days}
    series: dict[tuple[tuple[str, str] | None, str | None, str], Series] = {
        (("eu", "g"), None, "unplanned"): Series(days, often, {}),
        (("eu", "g"), "poll_timeout", "unplanned"): Series(days, dict(often), {}),
        (("eu", "h"), "poll_timeout", "unplanned"): Series(days, dict(often), {}),
        (("eu", "i"), "member_joined", "planned"): Series(days, {days[3]: 1}, {}),
        (("eu", "j"), "member_joined", "planned"): Series(days, {days[3]: 1, days[9]: 1}, {}),
    }
    assert count_testable(series) == 3  # two days of 28 have 378 orders: enough for so few tests
    assert count_testable(dict(list(series.items())[:4])) == 2
    assert count_testable({}) == 1


GROUP = {"cluster": "eu", "group": "g", "incidents": 9, "rebalances": 9}
KIND = {"kind": "poll_timeout", "plan": "unplanned", "incidents": 9}


def test_worse_group_is_named_with_its_date_and_what_changed_then() -> None:
    rows = fleet(Random(2), 10, 1.0)
    rows += [row(day, "g3", times=6) for day in DAYS[50:]]
    for member in range(4):
        rows.append(
            row(
                DAYS[49],
                "g3",
                "change",
                kind="max.poll.interval.ms",
                last_reason="300000 → 60000",
                last_at=member,
            )
        )
    rows.append(row(DAYS[50], None, "annotation", last_reason="release 7"))
    rows.append(row(DAYS[20], "g3", "change", kind="assignor", last_reason="range → sticky"))
    found = find_news(rows, DAYS, LAST_WEEKS, "group")
    (own,) = [each for each in found if each.name == "g3"]
    assert (own.what, own.kind, own.since) == ("rose", "poll_timeout", DAYS[50])
    assert own.then == ("max.poll.interval.ms 300000 → 60000 (4 times)", "release 7")
    assert found[0].name is None
    assert found[0].then[0] == "max.poll.interval.ms 300000 → 60000 in g3 (4 times)"
    assert {each.name for each in found} == {None, "g3"}


def test_annotation_of_all_groups_is_no_group() -> None:
    rows = [*observed("g"), row(DAYS[50], None, "annotation", last_reason="release 7")]
    rows.append(row(DAYS[50], None, "observed"))
    assert find_news(rows, DAYS, LAST_WEEKS, "group") == []


def test_annotation_of_a_cluster_is_not_of_another() -> None:
    own = {"last_reason": "release 7"}
    notes = [row(FIRST, None, "annotation", **own) | {"cluster": name} for name in ("eu", "us")]
    for cluster, is_named in (("eu", True), ("us", True), ("ap", False)):
        found = what_changed(notes[:2], FIRST, (cluster, "g"), "group")
        assert found == (["release 7"] if is_named else [])
    everywhere = [notes[0] | {"cluster": ""}]
    assert what_changed(everywhere, FIRST, ("ap", "g"), "group") == ["release 7"]


def test_what_people_did_comes_first_and_the_rest_is_counted() -> None:
    names = ("software", "version", "hosts", "members", "partitions", "assignor", "protocol")
    texts = [(name, f"{name} old → new") for name in (*names, "session.timeout.ms", "x", "y")]
    rows = [*observed("g"), *(row(day, "g", times=6) for day in DAYS[50:])]
    rows += [row(DAYS[50], "g", "change", kind=n, last_reason=text) for n, text in texts]
    rows.append(row(DAYS[50], None, "annotation", last_reason="release 7"))
    (found, *_) = find_news(rows, DAYS, LAST_WEEKS, "group")
    words = [each.split()[0] for each in found.then]
    assert words[:5] == ["release", "session.timeout.ms", "assignor", "protocol", "software"]
    assert found.then[-1] == "3 more"


@pytest.mark.parametrize(
    ("text", "sentence"), [("with n3, n4", "new hosts: n3, n4"), ("n2 → n3", "hosts n2 → n3")]
)
def test_hosts_that_only_came_are_new_ones(text: str, sentence: str) -> None:
    rows = [row(FIRST, "g", "change", kind="hosts", last_reason=text)]
    assert what_changed(rows, FIRST, None, "group") == [f"{sentence} in g"]


def test_change_before_the_period_is_no_news() -> None:
    rows = [*observed("g"), *(row(day, "g", times=9) for day in DAYS[20:])]
    assert find_news(rows, DAYS, LAST_WEEKS, "group") == []


def test_groups_that_came_and_went_are_news() -> None:
    rows = [
        *observed("stays"),
        *observed("new", first=DAYS[45]),
        *observed("gone", last=DAYS[50]),
        *observed("quiet today", last=DAYS[-2]),
    ]
    found = {
        each.name: (each.what, each.since) for each in find_news(rows, DAYS, LAST_WEEKS, "group")
    }
    assert found == {"new": ("new group", DAYS[45]), "gone": ("vanished group", DAYS[50])}


def test_day_without_records_is_no_day_of_a_series() -> None:
    there = [day for n, day in enumerate(DAYS) if not 40 <= n < 50]
    rows = [*observed("g"), *(row(day, "g", times=5) for day in there)]
    assert find_news(rows, there, LAST_WEEKS, "group") == []


def away(rng: Random, group: str, rates: list[float]) -> list[dict[str, Any]]:
    """A group with a rate for each day, whose agent is away for up to three weeks and some days."""
    start, length = rng.randrange(len(DAYS)), rng.randrange(22)
    there = [not start <= n < start + length and rng.random() > 0.05 for n in range(len(DAYS))]
    seen = [
        row(day, group, "observed") for day, is_seen in zip(DAYS, there, strict=True) if is_seen
    ]
    counts = [
        poisson(rng, rate) if is_seen else 0 for rate, is_seen in zip(rates, there, strict=True)
    ]
    return [*seen, *(row(day, group, times=n) for day, n in zip(DAYS, counts, strict=True) if n)]


@pytest.mark.parametrize(("groups", "rate"), [(1, 6.0), (2, 3.0), (10, 0.5), (40, 0.2)])
def test_absence_of_agents_is_no_news_in_95_percent_of_titles(groups: int, rate: float) -> None:
    rng, told = Random(groups), 0
    for _ in range(25):
        rows = [each for n in range(groups) for each in away(rng, f"g{n}", [rate] * len(DAYS))]
        news = find_news(rows, DAYS, LAST_WEEKS, "group")
        told += any(each.what in {"rose", "fell"} for each in news)
    assert told <= 2


def test_doubled_rate_of_agents_that_are_away_at_times_is_told_within_a_week() -> None:
    rng, found = Random(8), 0
    for _ in range(20):
        rates = [5.0] * 56 + [10.0] * 7
        rows = [each for n in range(3) for each in away(rng, f"g{n}", rates)]
        news = find_news(rows, DAYS, LAST_WEEKS, "group")
        rose = [each for each in news if each.what == "rose"]
        found += bool(rose) and abs((rose[0].since - DAYS[56]).days) <= 2
    assert found >= 18


def test_quiet_days_of_a_group_count() -> None:
    """Samples show the group: its incidents have ended. Without samples, events show no absence."""
    noisy = [row(day, "g", times=5) for day in DAYS[:50]]
    for seen in (
        observed("g"),
        [
            each | {"kind": "unknown"}
            for each in (*observed("g", last=DAYS[49]), *observed("g", DAYS[-1]))
        ],
    ):
        found = find_news([*seen, *noisy], DAYS, LAST_WEEKS, "group")
        assert {(each.what, each.since) for each in found} == {("fell", DAYS[50])}


def test_day_without_a_record_of_the_group_is_no_day_of_its_series() -> None:
    there = [*DAYS[:40], *DAYS[50:]]
    rows = [*observed("g", last=DAYS[39]), *observed("g", DAYS[50]), *observed("h")]
    rows += [row(day, "g", times=5) for day in there]
    assert find_news(rows, DAYS, LAST_WEEKS, "group") == []


def test_planned_incidents_stand_apart() -> None:
    rows = [
        *observed("g"),
        *(row(day, "g", kind="rollout", plan="planned", times=8) for day in DAYS[50:]),
    ]
    (found,) = find_news(rows, DAYS, LAST_WEEKS, "group")
    assert (found.kind, found.plan) == ("rollout", "planned")


def test_nothing_is_no_news() -> None:
    assert find_news([], [], LAST_WEEKS, "group") == []


@pytest.mark.parametrize("others", [0, 3])
def test_group_that_went_is_no_better_one(others: int) -> None:
    """Nobody mended it, or its agent is away: days after its last record are none of its series."""
    rows = fleet(Random(5), others, 1.0) + observed("g", last=DAYS[44])
    rows += [row(day, "g", times=3) for day in DAYS[:45]]
    found = find_news(rows, DAYS, LAST_WEEKS, "group")
    assert [(each.what, each.name, each.before) for each in found] == [("vanished group", "g", 3.0)]


@pytest.mark.parametrize("others", [1, 3])
def test_group_that_came_makes_nothing_worse(others: int) -> None:
    """It did not exist before, or no agent was beside it: the news names it with its rate."""
    rows = fleet(Random(5), others, 1.0) + observed("g", DAYS[44])
    rows += [row(day, "g", times=3) for day in DAYS[44:]]
    found = find_news(rows, DAYS, LAST_WEEKS, "group")
    assert [(each.what, each.name, each.after) for each in found] == [("new group", "g", 3.0)]
    tables: dict[str, Any] = {
        **{name: [] for name in ("durations", "share", "triggers", "storms", "quality")},
        "trend": [{}, {}],
        "groups": [GROUP | {"lost_s": 1.0}],
        "kinds": [KIND | {"lost_s": 1.0, "unread_s": None, "unread_at_least": False}],
    }
    assert title(tables, LAST_WEEKS, "group", found).startswith("9 unplanned incidents and 0")
    texts = [each.text for each in sentences(tables, LAST_WEEKS, "group", found)]
    assert "1 group is new: eu/g with 3 unplanned incidents a day." in texts
