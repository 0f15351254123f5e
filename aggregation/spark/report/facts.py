"""What every section of the report starts from: the rollups of one period."""

from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention

from aggregation.spark.errors import SparkJobError, SparkSetupError
from aggregation.spark.group_rebalances import group_rebalances
from aggregation.spark.rollups import Period, episodes, links, observed
from aggregation.spark.schema import Table, read_table

By = Literal["group", "app"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Episodes and group rebalances are those that began within the period."""

    period: Period
    by: By
    records: DataFrame
    """Transitions and other events of the period, as they are in the table."""
    chained: DataFrame
    """`rollups.links`, with a day more on both sides."""
    episodes: DataFrame
    rebalances: DataFrame
    observed: DataFrame
    quarantine: DataFrame

    @property
    def keys(self) -> tuple[str, str]:
        """The columns that name what is reported on."""
        return ("cluster", self.by)


def load_facts(
    spark: SparkSession, tables: Path, first: date | None, last: date | None, by: By
) -> Facts:
    """Read the tables and compute what all sections share.

    Raises:
        SparkSetupError: there are no tables.
        SparkJobError: there is nothing in the period.

    """
    if not any((tables / table).is_dir() for table in (Table.TRANSITIONS, Table.SAMPLES)):
        raise SparkSetupError(f"no tables in {str(tables)!r}; run rebalance-agent ingest first")
    transitions = read_table(spark, tables, Table.TRANSITIONS)
    samples = read_table(spark, tables, Table.SAMPLES)
    period = _period([transitions, samples], first, last)
    wide = _within(transitions, period.margin)
    chained = links(wide).persist()
    members = episodes(chained).persist()
    return Facts(
        period=period,
        by=by,
        records=_within(transitions, period),
        chained=chained,
        episodes=members.where(period.holds("started_at")),
        rebalances=group_rebalances(members, wide).where(period.holds("started_at")).persist(),
        observed=observed([_within(transitions, period), _within(samples, period)]).persist(),
        quarantine=_asked(read_table(spark, tables, Table.QUARANTINE), first, last),
    )


def _within(table: DataFrame, period: Period) -> DataFrame:
    return table.where(F.col("day").between(F.lit(period.first), F.lit(period.last)))


def _asked(quarantine: DataFrame, first: date | None, last: date | None) -> DataFrame:
    """Keep what was written on the asked days: a malformed line has no time of its own."""
    if first is not None:
        quarantine = quarantine.where(F.col("day") >= F.lit(first))
    return quarantine if last is None else quarantine.where(F.col("day") <= F.lit(last))


def _period(tables: list[DataFrame], first: date | None, last: date | None) -> Period:
    """Take the asked days, or all that there are."""
    days = sorted({row.day for t in tables for row in t.select("day").distinct().collect()})
    if not days:
        raise SparkJobError("the tables are empty: there is nothing to report")
    period = Period(first or days[0], last or days[-1])
    if not any(period.first <= day <= period.last for day in days):
        raise SparkJobError(
            f"no records on the asked days: the tables hold {days[0]} to {days[-1]} (UTC)"
        )
    return period
