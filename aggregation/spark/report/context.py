"""The context of the report's sections: the rollups and the requested period."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from string import Template

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention

from aggregation.spark.errors import SparkJobError
from aggregation.spark.report.section import Section
from aggregation.spark.rollups.preaggregations import FLAPPING, By, PreAggregation
from aggregation.spark.rollups.rollup_store import RollupStore
from aggregation.spark.tables.lock import table_lock
from aggregation.spark.tables.period import Period
from aggregation.spark.tables.schema import LATE, QUARANTINE, Table, read_table
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
    by: By = "group"
    compared: Period | bool = False
    """Another period to compare with; True means as many days directly before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportContext:
    """The data of the views ``rollups``, ``quarantine`` and ``codes`` that sections query."""

    spark: SparkSession
    rollups: Mapping[PreAggregation, DataFrame]
    period: Period
    by: By
    compared: Period | None = None
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
    with table_lock(tables / "rollups", notify):
        store.update(notify)
    days = past_days(store.days(), datetime.now(UTC).date(), notify)
    period = _period(days, request)
    other = _comparison(period, request)
    rollups = store.rollups_of(request.by, period, *([] if other is None else [other]))
    quarantine = read_table(spark, tables, Table.QUARANTINE)
    late = store.late_records()
    if late:
        quarantine = quarantine.unionByName(_late_rows(spark, late))
    return build_context(spark, rollups, quarantine, request, period)


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


def context_of(rollups: DataFrame, quarantine: DataFrame, request: ReportRequest) -> ReportContext:
    """Register rollups and quarantine as views.

    Raises:
        SparkJobError: there is nothing in the period.

    """
    seen = rollups.where(F.col("what") == "observed").select("day").distinct()
    period = _period([row.day for row in seen.collect()], request)
    return build_context(
        rollups.sparkSession, dict.fromkeys(PreAggregation, rollups), quarantine, request, period
    )


def build_context(
    spark: SparkSession,
    rollups: Mapping[PreAggregation, DataFrame],
    quarantine: DataFrame,
    request: ReportRequest,
    period: Period,
) -> ReportContext:
    """Register the views of a period; each section uses one of the pre-aggregations."""
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
        quarantined=_quarantine_days(request),
    )


def _between(period: Period) -> str:
    return f"day BETWEEN DATE '{period.first}' AND DATE '{period.last}'"


def _quarantine_days(request: ReportRequest) -> str:
    """Leave an end open that was not given: files may be written on days without records."""
    first = [] if request.first is None else [f"day >= DATE '{request.first}'"]
    last = [] if request.last is None else [f"day <= DATE '{request.last}'"]
    return " AND ".join(first + last) or "true"


def past_days(days: Sequence[date], today: date, notify: Callable[[str], None]) -> Sequence[date]:
    """Return the days without those of the future, by which a wrong clock stretches a report."""
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
    period = Period(request.first or days[0], request.last or days[-1])
    if not any(period.first <= day <= period.last for day in days):
        raise SparkJobError(
            f"no records on the asked days: the tables hold {days[0]} to {days[-1]} (UTC)"
        )
    return period


def _comparison(period: Period, request: ReportRequest) -> Period | None:
    given = request.compared
    return (period.before if given else None) if isinstance(given, bool) else given
