"""What every section of the report starts from: the rollups, and the period that is asked for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from string import Template

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention

from aggregation.spark.errors import SparkJobError
from aggregation.spark.report.section import Section
from aggregation.spark.rollups.preaggregations import FLAPPING, By, Cut
from aggregation.spark.rollups.rollup_store import RollupStore
from aggregation.spark.tables.lock import table_lock
from aggregation.spark.tables.period import Period
from aggregation.spark.tables.schema import Table, read_table
from metrics.model.status import RebalanceStatus

STORM = 5
"""Rebalances of one group within ten minutes."""
_WEEKLY_DAYS = 62
"""A longer period is drawn by weeks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a report is to be of; without days, of all that there are."""

    first: date | None = None
    last: date | None = None
    by: By = "group"
    compared: Period | bool = False
    """Another period to set beside this one; True are as many days right before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The views ``rollups``, ``quarantine`` and ``codes`` hold what queries ask."""

    spark: SparkSession
    rollups: Mapping[Cut, DataFrame]
    period: Period
    by: By
    compared: Period | None = None
    quarantined: str = "true"
    """Which days of the quarantine: a line that is no record has the day of its file."""

    def query(self, template: str) -> str:
        """Fill a section's query in: the very text that runs and that the page prints."""
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
        """Return what a section's query says of the rollups that it needs."""
        self.rollups[section.cut].createOrReplaceTempView("rollups")
        return self.spark.sql(self.query(section.query))


def load_facts(
    spark: SparkSession, tables: Path, asked: Asked, say: Callable[[str], None]
) -> Facts:
    """Bring the rollups up to date and make them known to queries.

    Raises:
        SparkSetupError: there are no tables.
        SparkJobError: there is nothing in the period.

    """
    store = RollupStore(spark, tables)
    with table_lock(tables / "rollups", say):
        store.update(say)
    period = _period(store.days(), asked)
    other = _compared(period, asked)
    rollups = store.rollups_of(asked.by, period, *([] if other is None else [other]))
    return facts_from(spark, rollups, read_table(spark, tables, Table.QUARANTINE), asked, period)


def facts_of(rollups: DataFrame, quarantine: DataFrame, asked: Asked) -> Facts:
    """Make rollups and quarantine known to queries as views.

    Raises:
        SparkJobError: there is nothing in the period.

    """
    seen = rollups.where(F.col("what") == "observed").select("day").distinct()
    period = _period([row.day for row in seen.collect()], asked)
    return facts_from(rollups.sparkSession, dict.fromkeys(Cut, rollups), quarantine, asked, period)


def facts_from(
    spark: SparkSession,
    rollups: Mapping[Cut, DataFrame],
    quarantine: DataFrame,
    asked: Asked,
    period: Period,
) -> Facts:
    """Make the rollups of a period known to queries, which need one cut or another of them."""
    quarantine.createOrReplaceTempView("quarantine")
    names = ", ".join(f"({status.value}, '{status.label}')" for status in RebalanceStatus)
    spark.sql(f"VALUES {names} AS (code, name)").createOrReplaceTempView("codes")
    other = _compared(period, asked)
    return Facts(
        spark=spark,
        rollups=rollups,
        period=period,
        by=asked.by,
        compared=other,
        quarantined=_asked_days(asked),
    )


def _between(period: Period) -> str:
    return f"day BETWEEN DATE '{period.first}' AND DATE '{period.last}'"


def _asked_days(asked: Asked) -> str:
    """Leave an end open that was not asked for: files may be written on days without records."""
    first = [] if asked.first is None else [f"day >= DATE '{asked.first}'"]
    last = [] if asked.last is None else [f"day <= DATE '{asked.last}'"]
    return " AND ".join(first + last) or "true"


def _period(seen: Sequence[date], asked: Asked) -> Period:
    """Take the asked days, or all that there are."""
    days = sorted(seen)
    if not days:
        raise SparkJobError("the tables are empty: there is nothing to report")
    period = Period(asked.first or days[0], asked.last or days[-1])
    if not any(period.first <= day <= period.last for day in days):
        raise SparkJobError(
            f"no records on the asked days: the tables hold {days[0]} to {days[-1]} (UTC)"
        )
    return period


def _compared(period: Period, asked: Asked) -> Period | None:
    given = asked.compared
    return (period.before if given else None) if isinstance(given, bool) else given
