"""Figures that hold: no ratio without a denominator, storms at any time, time out of the group."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention

from aggregation.spark.report import (
    departures,
    durations,
    groups,
    quality,
    share,
    status_time,
    storms,
    trend,
    triggers,
)
from aggregation.spark.report.context import (
    ReportContext,
    ReportRequest,
    context_of,
    days_in_zone,
    rollups_in_zone,
)
from aggregation.spark.report.section import Section
from aggregation.spark.rollups.empty_agents import AT_NIGHT
from aggregation.spark.rollups.rollup_store import RollupStore
from aggregation.spark.rollups.rollups import ROLLUPS
from aggregation.spark.tables.schema import QUARANTINE, Table, empty
from metrics.model.sample import Sample, SampleKind, Scope, format_time, parse_time
from metrics.model.status import RebalanceStatus as S
from tests.aggregation.spark.conftest import table_of
from tests.aggregation.spark.histories import DAY_S, START_AT, Client, rebalance

pytestmark = pytest.mark.spark

NOON = START_AT + DAY_S / 2


def by(agent: str, members: Iterable[Client]) -> list[Sample]:
    """Return the members' records as an agent's."""
    written = (sample for member in members for sample in member.written)
    return [msgspec.structs.replace(sample, agent=agent) for sample in written]


def members(group: str, count: int = 2) -> list[Client]:
    return [Client(group=group, client_id=f"{group}-{n}") for n in range(count)]


def history() -> list[Sample]:
    """Write a day of groups; of ``unsampled`` there are events alone."""
    quiet, new, unsampled = members("quiet"), members("new", 1), members("unsampled")
    across, within, midnight = members("across"), members("within"), members("midnight")
    stuck = members("stuck", 1)
    rebalance(quiet, NOON, S.METADATA_CHANGED, 3.0)
    quiet[0].sample(START_AT)
    quiet[0].sample(START_AT + 80_000)
    new[0].sample(START_AT + DAY_S - 10)
    rebalance(unsampled, NOON, S.METADATA_CHANGED, 3.0)
    for n in range(8):
        rebalance(across, START_AT + 14 * 3600 + 330 + 70 * n, S.METADATA_CHANGED, 4.0)
        rebalance(midnight, START_AT + DAY_S - 300 + 70 * n, S.METADATA_CHANGED, 4.0)
    for n in range(5):
        rebalance(within, START_AT + 14 * 3600 + 30 + 110 * n, S.METADATA_CHANGED, 4.0)
    rebalance(within, START_AT + 18 * 3600, S.METADATA_CHANGED, 4.0)
    stuck[0].move(NOON, S.DROPPED_GROUP)
    stuck[0].settle(NOON + 600.7)
    polled, ending = members("polled"), members("ending", 3)
    found_by_inspection(polled)
    for n, member in enumerate(ending):
        member.sample(START_AT)
        rebalance(ending[n:], START_AT + 9 * 3600 + 3600 * n, S.USER_REQUESTED, 4.0)
    stopping = members("stopping", 3)
    for n, member in enumerate(stopping):
        member.sample(START_AT)
        rebalance(stopping[n:], START_AT + 9 * 3600 + 20 * n, S.USER_REQUESTED, 4.0)
    deployed = deploys({NOON: "librdkafka 2.3", START_AT + DAY_S + 10: "librdkafka 2.4"})
    of_sidecar = [
        *quiet,
        *across,
        *within,
        *midnight,
        *stuck,
        *polled,
        *ending,
        *stopping,
        *deployed,
    ]
    storm = by("sidecar", [*of_sidecar, *stopping])
    others = [*by("late starter", new), *by("without samples", unsampled)]
    return [*storm, *others, *seen_by_two()]


def deploys(versions: Mapping[float, str]) -> list[Client]:
    """Show the software and the join of new pods."""
    pods: list[Client] = []
    for at, version in versions.items():
        pods.append(Client(group="deployed", client_id="c", host=f"pod-{len(pods)}"))
        for name, value in (("software", version), ("joined", None)):
            pods[-1].record(at, kind=SampleKind.CHANGE, subject="m", field=name, after=value)
    return pods


def seen_by_two() -> list[Sample]:
    """Rebalance with a proxy, too: it shows addresses, and does not know the cluster."""
    shared = members("shared")
    rebalance(shared, NOON, S.METADATA_CHANGED, 3.0)
    here = by("sidecar", shared)
    there = [
        msgspec.structs.replace(
            record,
            id=f"proxy-{record.id}",
            agent="proxy",
            cluster="",
            host="10.0.0.7",
            episode=f"proxy-{record.episode}",
            ts=format_time(parse_time(record.ts) + 0.004),
        )
        for record in here
    ]
    return [*here, *there]


def found_by_inspection(polled: list[Client]) -> None:
    """Rebalance because of a member that no agent sees, but inspection finds."""
    for member in polled:
        member.move(NOON, S.COORDINATOR_REQUESTED)
    for member in polled:
        member.settle(NOON + 2)
    polled[0].record(
        NOON + 3,
        kind=SampleKind.SIGNAL,
        scope=Scope.GROUP,
        client_id="m9",
        host="/10.0.0.9",
        to=int(S.NEW_MEMBER),
        gained=3,
        lag=5000,
        episode=None,
    )


@pytest.fixture(scope="module")
def store(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> RollupStore:
    tables = tmp_path_factory.mktemp("figures")
    rows = table_of(spark, history()).coalesce(1)
    is_sample = F.col("kind") == SampleKind.SAMPLE.value
    for table, chosen in ((Table.SAMPLES, is_sample), (Table.TRANSITIONS, ~is_sample)):
        rows.where(chosen).write.partitionBy("day").parquet(str(Path(tables, table)))
    store = RollupStore(spark, tables)
    store.update(lambda _: None)
    return store


@pytest.fixture(scope="module")
def context(spark: SparkSession, store: RollupStore) -> ReportContext:
    request = ReportRequest(first=date(2025, 11, 24), last=date(2025, 11, 25))
    return context_of(store.rollups(), empty(spark, QUARANTINE), request)


def by_group(context: ReportContext, section: Section) -> dict[str, Row]:
    return {row["group"]: row for row in context.run(section).collect()}


def test_share_is_unknown_without_observed_time(context: ReportContext) -> None:
    rows = by_group(context, share.SECTION)
    assert (rows["new"].share, rows["new"].observed_s) == (None, 0.0)
    assert (rows["unsampled"].share, rows["unsampled"].worst_day) == (None, None)
    assert rows["quiet"].share == pytest.approx(3.001 / 86_000, rel=0.02)


def test_application_has_the_share_of_the_time_of_its_groups(context: ReportContext) -> None:
    """Both times are sums over groups, each of the days on which it was observed."""
    of_groups = [row for row in context.run(share.SECTION).collect() if row.share is not None]
    (row,) = replace(context, by="app").run(share.SECTION).collect()
    seconds = sum(each.rebalancing_s for each in of_groups)
    observed = sum(each.observed_s for each in of_groups)
    assert (row.rebalancing_s, row.observed_s) == pytest.approx((seconds, observed))
    assert row.share == pytest.approx(seconds / observed)


def test_trend_has_no_share_where_a_group_is_not_observed(context: ReportContext) -> None:
    (row,) = context.run(trend.SECTION).collect()
    assert row.share_of_time is None


def test_storm_is_found_at_any_time_of_the_clock_and_over_midnight(
    context: ReportContext,
) -> None:
    rows = by_group(context, storms.SECTION)
    assert {name: row.rebalances for name, row in rows.items()} == {
        "across": 8,
        "midnight": 8,
        "within": 5,
    }
    assert (rows["across"].until - rows["across"].since).total_seconds() == 490


def test_days_and_hours_are_those_of_the_zone(store: RollupStore) -> None:
    """Eight rebalances begin from 23:55 UTC on, and three of them after midnight."""
    found = {}
    for zone in ("UTC", "Europe/Berlin"):
        rows = rollups_in_zone(store, zone).where("what = 'rebalance' AND group = 'midnight'")
        found[zone] = {row.day.day: row.times for row in rows.collect()}
    assert found == {"UTC": {24: 5, 25: 3}, "Europe/Berlin": {25: 8}}
    hours = rollups_in_zone(store, "Asia/Kolkata").where("what = 'hour'").collect()
    assert {row.bucket for row in hours} >= {5, 14, 19, 23}
    kept = store.rollups().where("what = 'member'")
    assert rollups_in_zone(store, "Asia/Kolkata").where("what = 'member'").count() == kept.count()


def test_days_of_a_zone_reach_beyond_the_first_and_last_of_utc(store: RollupStore) -> None:
    """At midnight of London it is another day elsewhere."""
    before, after = date(2025, 11, 24), date(2025, 11, 25)
    assert days_in_zone(store, [before], "Europe/Berlin") == [before, after]
    assert days_in_zone(store, [after], "America/New_York") == [before, after]
    assert days_in_zone(store, [before], "America/New_York") == [before]


def test_longest_rebalance_is_exact(context: ReportContext) -> None:
    rows = by_group(context, durations.SECTION)
    assert rows["quiet"].max_s == 3.0


def test_percentile_that_only_the_longest_reaches_is_exact(context: ReportContext) -> None:
    """Of fewer than 20 rebalances p95 is the longest, and of one the median is, too."""
    rows = [row for row in by_group(context, durations.SECTION).values() if row.rebalances < 20]
    assert [row.p95_s for row in rows] == [row.max_s for row in rows]
    alone = [row for row in rows if row.rebalances == 1]
    assert alone
    assert [row.p50_s for row in alone] == [row.max_s for row in alone]


def test_no_percentile_is_longer_than_the_longest(context: ReportContext) -> None:
    for row in by_group(context, durations.SECTION).values():
        assert row.p50_s <= row.p95_s <= row.p99_s <= row.max_s


def test_new_software_of_a_group_is_one_change(store: RollupStore) -> None:
    rows = store.rollups().where("what = 'change'").collect()
    assert [(row.group, row.day.day, row.kind, row.last_reason) for row in rows] == [
        ("deployed", 25, "software", "librdkafka 2.3 → librdkafka 2.4")
    ]


def test_member_that_two_agents_see_counts_once(context: ReportContext) -> None:
    sections = (groups.SECTION, durations.SECTION, triggers.SECTION, status_time.SECTION)
    found = [
        [row for row in context.run(section).collect() if row.group == "shared"]
        for section in sections
    ]
    (of_group,), (lengths,), (trigger,), held = found
    assert (of_group.cluster, of_group.rebalances) == ("prod-eu", 1)
    assert of_group.lost_s == pytest.approx(5.8, abs=0.02)
    assert lengths.member_rebalances == 2
    assert (trigger.host, trigger.triggered) == ("pod-1", 1)
    assert {row.status: round(row.seconds, 1) for row in held} == {7: 3.0, 1: 2.8}


def test_time_at_5_is_a_part_of_the_time_lost(context: ReportContext) -> None:
    row = by_group(context, groups.SECTION)["stuck"]
    assert row.out_of_group_s == pytest.approx(600.7)
    assert row.lost_s == pytest.approx(600.7)  # one definition: all time at a status but 0


def test_root_causes_are_those_of_explain(context: ReportContext) -> None:
    rows = by_group(context, triggers.SECTION)
    assert (rows["polled"].client_id, rows["polled"].main_cause) == ("m9", S.NEW_MEMBER)
    assert by_group(context, groups.SECTION)["polled"].partitions_moved == 3


def test_end_of_a_group_is_a_departure_and_no_rebalance(context: ReportContext) -> None:
    assert by_group(context, groups.SECTION)["ending"].rebalances == 2
    row = by_group(context, departures.SECTION)["ending"]
    assert (row.scale_down, row.stops, row.stopped, row.left) == (2, 1, 1, 0)


def test_stop_of_all_members_is_one_event_with_its_members(context: ReportContext) -> None:
    """They left within 40 s: before, it was a scale-down of two, and one that left."""
    row = by_group(context, departures.SECTION)["stopping"]
    assert (row.scale_down, row.stops, row.stopped, row.left) == (0, 1, 3, 0)


def test_an_agent_is_out_between_days_too(spark: SparkSession) -> None:
    """One was away from 18:00 to 8:00, one for whole days; a batch job writes for six hours.

    The members of the last one had left.
    """
    day_hours, batch_hours = (1 << 24) - 1, (1 << 6) - 1
    hours: dict[str, dict[int, int | None]] = {
        "night": {24: (1 << 18) - 1, 25: day_hours ^ 0xFF, 26: day_hours},
        "days": {24: day_hours, 25: None, 28: day_hours ^ (0b111 << 10)},
        "batch": dict.fromkeys(range(24, 29), batch_hours),
        "events": {24: None, 28: None},
        "stopped": {24: (1 << AT_NIGHT + 1) - 1, 25: day_hours ^ 0xFFF, 26: day_hours},
    }
    rows = [
        {"what": "quality", "kind": "records", "host": agent, "times": 9, "bucket": bits}
        | {"day": date(2025, 11, day), "batch": date(2025, 11, day)}
        for agent, days in hours.items()
        for day, bits in days.items()
    ]
    seen = {"what": "observed", "day": date(2025, 11, 24), "batch": date(2025, 11, 24)}
    last = seen | {"day": date(2025, 11, 30)}
    rollups = spark.createDataFrame([*rows, seen, last], ROLLUPS)
    facts = context_of(rollups, empty(spark, QUARANTINE), ReportRequest())
    found = {row.agent: row.outage_h for row in facts.run(quality.SECTION).collect()}
    out = {agent: found[agent] for agent in hours}
    assert out == {"night": 14, "days": 2 * 24 + 3, "batch": 0, "events": 0, "stopped": 0}
