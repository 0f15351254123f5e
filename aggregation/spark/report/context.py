"""The context of the report's sections: the rollups and the requested period."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from string import Template

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention

from aggregation.spark.errors import SparkJobError
from aggregation.spark.report.daily import HISTORY_DAYS
from aggregation.spark.report.section import Section
from aggregation.spark.rollups.group_rebalances import INCIDENTS
from aggregation.spark.rollups.preaggregations import FLAPPING, By, PreAggregation
from aggregation.spark.rollups.rollup_store import RollupStore
from aggregation.spark.rollups.rollup_tables import manifest_of
from aggregation.spark.rollups.rollups import incident_rows, rebalance_rows, union
from aggregation.spark.tables.lock import table_lock
from aggregation.spark.tables.period import Period
from aggregation.spark.tables.schema import LATE, QUARANTINE, Table, empty, read_table
from metrics.model.status import RebalanceStatus

STORM = 5
"""Rebalances of one group within ten minutes."""
_WEEKLY_DAYS = 62
"""A longer period is drawn by weeks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRequest:
    """The period and grouping of a report; without days, all of them."""

    first: date | None = None
    last: date | None = None
    length: int | None = None
    """Number of days up to the last one, in place of the first."""
    by: By = "group"
    compared: Period | bool = False
    """Another period to compare with; True means as many days directly before."""
    zone: str = "UTC"
    """Time zone of the days and hours of rebalances and incidents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportContext:
    """The data of the views that sections query.

    These are ``rollups``, ``incidents``, ``quarantine`` and ``codes``.
    """

    spark: SparkSession
    rollups: Mapping[PreAggregation, DataFrame]
    period: Period
    by: By
    compared: Period | None = None
    days: Sequence[date] = ()
    """All days that the tables hold."""
    zone: str = "UTC"
    check_rollups: Callable[[], None] = lambda: None
    """Raises `SparkJobError` if another report has replaced rollups since this context began."""
    quarantined: str = "true"
    """Condition on days of the quarantine: a malformed line has the day of its file."""

    def query(self, template: str) -> str:
        """Fill in a section's query: the text that runs and that the page prints."""
        other = self.compared or self.period.before
        return (
            Template(template)
            .substitute(
                keys=f"cluster, `{self.by}`",
                first=f"DATE '{self.period.first}'",
                last=f"DATE '{self.period.last}'",
                period=_between(self.period),
                before=_between(other),
                quarantined=self.quarantined,
                step="7" if self.period.days > _WEEKLY_DAYS else "1",
                storm=STORM,
                flapping=FLAPPING,
            )
            .strip()
        )

    def run(self, section: Section) -> DataFrame:
        """Run a section's query on the rollups that it needs."""
        self.rollups[section.preaggregation].createOrReplaceTempView("rollups")
        return self.spark.sql(self.query(section.query))


def load_context(
    spark: SparkSession, tables: Path, request: ReportRequest, notify: Callable[[str], None]
) -> ReportContext:
    """Bring the rollups up to date and register them as views.

    Raises:
        SparkSetupError: there are no tables.
        SparkJobError: there is nothing in the period.

    """
    store = RollupStore(spark, tables)
    with table_lock(manifest_of(tables).folder, notify):
        store.update(notify)
        check_rollups = store.pin()
    days = past_days(store.days(), datetime.now(UTC).date(), notify)
    if request.zone != "UTC":
        days = days_in_zone(store, days, request.zone)
    period = _period(days, request)
    other = _comparison(period, request)
    history = Period(period.first - timedelta(HISTORY_DAYS), period.first - timedelta(1))
    rollups = store.rollups_of(request.by, period, *([] if other is None else [other]))
    rollups = {**rollups, **_with_history(store, request.by, period, history)}
    if request.zone != "UTC":
        rollups = dict.fromkeys(PreAggregation, rollups_in_zone(store, request.zone))
    quarantine = read_table(spark, tables, Table.QUARANTINE)
    late = store.late_records()
    if late:
        quarantine = quarantine.unionByName(_late_rows(spark, late))
    incidents = incidents_in_zone(store.incidents(), request.zone)
    context = build_context(rollups, quarantine, request, period, incidents)
    return replace(context, days=tuple(days), check_rollups=check_rollups)


def _with_history(
    store: RollupStore, by: By, period: Period, history: Period
) -> Mapping[PreAggregation, DataFrame]:
    """Return the daily rows; these also cover the history before the period."""
    daily = PreAggregation.DAILY
    return {daily: store.rollups_of(by, period, history)[daily]}


def days_in_zone(store: RollupStore, days: Sequence[date], zone: str) -> Sequence[date]:
    """Return UTC days, with the zone's days for rebalances and incidents of the first and last."""
    ends = F.col("day").isin(list({*days[:1], *days[-1:]}))
    local = F.to_date(F.from_utc_timestamp("started_at", zone)).alias("day")
    begun = [frame.where(ends).select(local) for frame in (store.rebalances(), store.incidents())]
    found = union(*begun).distinct().collect()
    return sorted({*days, *(row.day for row in found)})


def rollups_in_zone(store: RollupStore, zone: str) -> DataFrame:
    """Return rollups with days and hours of a time zone for rebalances and incidents.

    Members' episodes, observation and quality stay with their UTC day.
    """
    rebalances, incidents = store.rebalances(), incidents_in_zone(store.incidents(), zone)
    local = rebalances.withColumn("day", F.to_date(F.from_utc_timestamp("started_at", zone)))
    made_of_rows = ("rebalance", "hour", "storm", "moved", "follow_up", "trigger", "straggler")
    replaced = (*made_of_rows, "departure", "stop", "skew", "incident")
    of_groups = (F.col("what") == "duration") & (F.col("kind") == "group")
    kept = store.rollups().where(~F.col("what").isin(*replaced) & ~of_groups)
    return union(kept, rebalance_rows(local, zone), incident_rows(incidents))


def incidents_in_zone(incidents: DataFrame, zone: str) -> DataFrame:
    """Return incidents with days of a time zone."""
    return incidents.withColumn("day", F.to_date(F.from_utc_timestamp("started_at", zone)))


def _late_rows(spark: SparkSession, records: Mapping[date, int]) -> DataFrame:
    """Return the late records in the tables as rows of the quarantine, one a day."""
    values = ", ".join(f"(DATE '{day}', {count}L)" for day, count in records.items())
    columns = {"reason": F.lit(f"{LATE}the sums of their day are final"), "lines": F.col("lines")}
    rows = spark.sql(f"VALUES {values} AS (day, lines)")
    return rows.select(
        *(
            columns.get(field.name, F.col("day") if field.name == "day" else F.lit(None))
            .cast(field.dataType)
            .alias(field.name)
            for field in QUARANTINE
        )
    )


def context_of(
    rollups: DataFrame,
    quarantine: DataFrame,
    request: ReportRequest,
    incidents: DataFrame | None = None,
) -> ReportContext:
    """Register rollups, incidents and quarantine as views.

    Raises:
        SparkJobError: there is nothing in the period.

    """
    seen = rollups.where(F.col("what") == "observed").select("day").distinct()
    days = [row.day for row in seen.collect()]
    period, spark = _period(days, request), rollups.sparkSession
    cuts = dict.fromkeys(PreAggregation, rollups)
    found = empty(spark, INCIDENTS) if incidents is None else incidents
    context = build_context(cuts, quarantine, request, period, found)
    return replace(context, days=tuple(sorted(days)))


def build_context(
    rollups: Mapping[PreAggregation, DataFrame],
    quarantine: DataFrame,
    request: ReportRequest,
    period: Period,
    incidents: DataFrame,
) -> ReportContext:
    """Register the views of a period; each section uses one of the pre-aggregations."""
    spark = quarantine.sparkSession
    incidents.createOrReplaceTempView("incidents")
    quarantine.createOrReplaceTempView("quarantine")
    names = ", ".join(f"({status.value}, '{status.label}')" for status in RebalanceStatus)
    spark.sql(f"VALUES {names} AS (code, name)").createOrReplaceTempView("codes")
    other = _comparison(period, request)
    return ReportContext(
        spark=spark,
        rollups=rollups,
        period=period,
        by=request.by,
        compared=other,
        zone=request.zone,
        quarantined=_quarantine_days(request, period),
    )


def _between(period: Period) -> str:
    return f"day BETWEEN DATE '{period.first}' AND DATE '{period.last}'"


def _quarantine_days(request: ReportRequest, period: Period) -> str:
    """Leave an end open that was not given: files may be written on days without records."""
    since = request.first if request.length is None else period.first
    first = [] if since is None else [f"day >= DATE '{since}'"]
    last = [] if request.last is None else [f"day <= DATE '{request.last}'"]
    return " AND ".join(first + last) or "true"


def past_days(days: Sequence[date], today: date, notify: Callable[[str], None]) -> Sequence[date]:
    """Return the days without those in the future: a wrong clock would extend the report."""
    future = [day for day in days if day > today + timedelta(days=1)]
    if not future or len(future) == len(days):
        return days
    notify(f"left out, since the clock of their host was wrong: records of {future[0]} and later")
    return [day for day in days if day < future[0]]


def _period(seen: Sequence[date], request: ReportRequest) -> Period:
    """Return the requested days, or all days with records."""
    days = sorted(seen)
    if not days:
        raise SparkJobError("the tables are empty: there is nothing to report")
    last = request.last or days[-1]
    first = request.first or days[0]
    if request.length is not None:
        first = last - timedelta(days=request.length - 1)
    period = Period(first, last)
    if not any(period.first <= day <= period.last for day in days):
        held = f"{days[0]} to {days[-1]} ({request.zone})"
        raise SparkJobError(f"no records on the asked days: the tables hold {held}")
    return period


def _comparison(period: Period, request: ReportRequest) -> Period | None:
    given = request.compared
    return (period.before if given else None) if isinstance(given, bool) else given
