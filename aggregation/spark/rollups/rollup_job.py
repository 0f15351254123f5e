"""The computation of several days' rollups: DataFrames to DataFrames."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention

from aggregation.spark.rollups.closed_episodes import sum_episodes
from aggregation.spark.rollups.clusters import add_clusters, known_clusters
from aggregation.spark.rollups.doubled_groups import Groups, find_doubled
from aggregation.spark.rollups.empty_agents import find_empty_hours
from aggregation.spark.rollups.group_rebalances import (
    CARRIED,
    INCIDENTS,
    REBALANCES,
    agents_last_seen,
    agents_silences,
    explain_by_day,
    last_samples,
)
from aggregation.spark.rollups.member_episodes import (
    CHAIN,
    MEMBER,
    merge_aggregates,
    merge_doubles,
    parts,
)
from aggregation.spark.rollups.open_episodes import at_midnights, select_finished, select_open
from aggregation.spark.rollups.rollups import (
    fault_rows,
    in_shape,
    incident_rows,
    length_rows,
    member_rows,
    note_rows,
    observation_rows,
    rebalance_rows,
    seconds_by_code,
    single,
    status_rows,
    timestamps,
    union,
)
from metrics.model.sample import SampleKind, Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class DayRange:
    """The input of several days' rollups."""

    days: tuple[date, ...]
    before: date
    """The batch with the state for the first of them."""
    carried: DataFrame
    parts: DataFrame
    transitions: DataFrame
    samples: DataFrame
    files: Sequence[Path] | None = None
    """Files of the transitions, where they are plain Parquet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RollupRows:
    """The computed rows of all tables."""

    rollups: DataFrame
    rebalances: DataFrame
    incidents: DataFrame
    carried: DataFrame
    parts: DataFrame


@contextmanager
def compute(day_range: DayRange, batches: Sequence[date]) -> Iterator[RollupRows]:
    """Compute the rows of some batches: the days, and one more if they are the last ones.

    Frames that several tables share are cached until the end.
    """
    wanted = F.col("batch").isin(list(batches))
    seen = timestamps(day_range.transitions).unionByName(timestamps(day_range.samples)).persist()
    last_seen = agents_last_seen(seen.withColumnRenamed("last_at", "ts"))
    silences = agents_silences(seen)
    transitions, files, known = day_range.transitions, day_range.files, known_clusters(seen)
    samples = day_range.samples
    if known is not None:
        transitions, files = add_clusters(transitions, known), None
        samples = add_clusters(samples, known)
    doubled = find_doubled(transitions, day_range.files)
    sums = sum_episodes(transitions, files, doubled).persist()
    rest = parts(sums.where(F.col("what") == "rest"))
    older = day_range.parts.drop("batch").withColumn("day", F.lit(day_range.before))
    episodes = at_midnights(rest.unionByName(older), day_range.days, day_range.before).persist()
    events = transitions.unionByName(last_samples(samples, select_open(episodes), silences))
    groups = (
        explain_by_day(events, day_range.carried, day_range.days, last_seen, silences)
        .where(wanted)
        .persist()
    )
    finished = select_finished(episodes, day_range.days[-1]).where(wanted)
    singles = single(_merge(finished, doubled)).persist()
    rebalances = groups.where(F.col("id").isNotNull()).select(REBALANCES.fieldNames())
    empty = find_empty_hours(seen, transitions.unionByName(samples), rebalances)
    found = groups.where(F.col("of_incident").isNotNull())
    incidents = found.select("batch", "of_incident.*").select(INCIDENTS.fieldNames())
    yield RollupRows(
        rollups=union(
            member_rollups(sums, singles),
            rebalance_rows(rebalances),
            incident_rows(incidents),
            observation_rows(seen if known is None else add_clusters(seen, known), empty),
            note_rows(transitions),
            change_rows(groups),
        ),
        rebalances=rebalances,
        incidents=incidents,
        carried=groups.where(F.col("carried").isNotNull()).select(CARRIED.fieldNames()),
        parts=select_open(episodes),
    )
    for frame in (seen, groups, sums, episodes, singles):
        frame.unpersist()


def change_rows(groups: DataFrame) -> DataFrame:
    """Return a row for each value of a setting that is new in a group."""
    found = groups.where(F.col("changed").isNotNull()).select("batch", "changed.*")
    return in_shape(found.withColumn("what", F.lit(SampleKind.CHANGE.value)))


def all_member_rollups(transitions: DataFrame, files: Sequence[Path] | None = None) -> DataFrame:
    """Return the rollups of the episodes of a whole history, each in the batch of its last day."""
    doubled = find_doubled(transitions, files)
    sums = sum_episodes(transitions, files, doubled).persist()
    rest = parts(sums.where(F.col("what") == "rest"))
    names = (*MEMBER, "member_id", "agent", "day")
    labels = [F.max(name).alias(name) for name in names if name not in CHAIN]
    episodes = rest.groupBy(*CHAIN).agg(*labels, *merge_aggregates())
    singles = single(_merge(episodes.withColumnRenamed("day", "batch"), doubled)).persist()
    return member_rollups(sums, singles)


def _merge(episodes: DataFrame, doubled: Groups) -> DataFrame:
    """Merge the episodes of members that several agents saw; a Streams instance has no member id.

    A carried episode can be of a member that only one agent sees today.
    """
    if not doubled:
        return episodes
    names = F.struct("cluster", "group")
    wanted = [F.struct(F.lit(c).alias("cluster"), F.lit(g).alias("group")) for c, g in doubled]
    is_instance = (F.col("scope") == Scope.STREAMS.value) & names.isin(wanted)
    return merge_doubles(episodes, "batch", identity=F.when(is_instance, F.col("client_id")))


def member_rollups(sums: DataFrame, singles: DataFrame) -> DataFrame:
    """Return the rollups of members' episodes: the sums, and the episodes outside of them."""
    is_length = F.col("what") == "duration"
    of_consumers = F.col("scope") == Scope.CONSUMER.value
    wanted = (F.col("what") != "rest") & (~is_length | of_consumers)
    whole = (
        sums.where(wanted)
        .withColumn("batch", F.col("day"))
        .withColumn("scope", F.when(~is_length, F.col("scope")))
    )
    lengths = singles.where(of_consumers & F.col("bucket").isNotNull())
    return union(
        in_shape(whole),
        member_rows(singles),
        length_rows(lengths, "member"),
        status_rows(seconds_by_code(singles)),
        fault_rows(singles),
    )
