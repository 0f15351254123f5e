"""Whole rebalances of groups, and the incidents they belong to: DataFrame to DataFrame.

Theory of operation. Rules and code are those of `explain` (`aggregation.incidents.incidents`). A
Python worker gets each group's events as one Arrow table and analyzes them: once
(`group_rebalances`), or day by day for rollups (`explain_by_day`). What is open at midnight waits
for the next day (`GroupDays`), so a day costs only its own events. Periodic samples are most of the
data and stay outside. They give each agent's watermark and silences (`agents_last_seen`,
`agents_silences`), and the status of a member whose episode has no end or whose agent was silent
(`last_samples`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema

from aggregation.incidents.incidents import Analysis
from aggregation.incidents.model import Incident
from aggregation.rebalances.rebalances import ExplainedRebalance
from aggregation.rebalances.root_cause import Certainty, Trigger
from aggregation.rebalances.silences import NO_SILENCES, Silences, find_silences
from aggregation.rebalances.slots import SLOTS_OF_A_DAY
from aggregation.spark.rollups.clock_offsets import (
    NO_OFFSETS,
    NO_STEPS,
    Offsets,
    Steps,
    by_member,
    clock_offsets,
    measure_offsets,
    span,
    steady_offsets,
)
from aggregation.spark.rollups.daily_rebalances import (
    Carried,
    GroupDays,
    analyze_records,
    day_after,
    last_seen_by,
)
from aggregation.spark.rollups.group_changes import CHANGE, find_group_changes
from aggregation.spark.rollups.group_shape import change_rows_of
from aggregation.spark.rollups.incident_rows import INCIDENT, incident_row, plan_of
from aggregation.spark.rollups.rollups import SLOT_COLUMNS, SLOTS_OF_A_COLUMN
from aggregation.spark.session.workers import map_groups, map_pairs
from metrics.model.sample import Outcome, Sample, SampleKind, Scope, parse_time

GROUP = ("cluster", "group")
LastSeen = Mapping[str, Sequence[tuple[date, str]]]
"""Each agent's last time on each day, in order of days."""

_DEPARTURE = T.StructType(
    [
        T.StructField("client_id", T.StringType()),
        T.StructField("host", T.StringType()),
        T.StructField("kind", T.StringType()),
    ]
)
_OFFSET = T.StructType(
    [T.StructField("agent", T.StringType()), T.StructField("seconds", T.DoubleType())]
)
REBALANCES = T.StructType(
    [
        T.StructField("batch", T.DateType()),
        T.StructField("day", T.DateType()),
        T.StructField("cluster", T.StringType()),
        T.StructField("app", T.StringType()),
        T.StructField("group", T.StringType()),
        T.StructField("group_type", T.StringType()),
        T.StructField("id", T.StringType()),
        T.StructField("started_at", T.TimestampType()),
        T.StructField("ended_at", T.TimestampType()),
        T.StructField("seconds", T.DoubleType()),
        T.StructField("member_seconds", T.DoubleType()),
        T.StructField("is_open", T.BooleanType()),
        T.StructField("is_end", T.BooleanType()),
        T.StructField("cause", T.LongType()),
        T.StructField("certainty", T.StringType()),
        T.StructField("client_id", T.StringType()),
        T.StructField("host", T.StringType()),
        T.StructField("reason", T.StringType()),
        T.StructField("gravest", T.LongType()),
        T.StructField("members", T.LongType()),
        T.StructField("straggler", T.StringType()),
        T.StructField("straggler_host", T.StringType()),
        T.StructField("waited_seconds", T.DoubleType()),
        T.StructField("departures", T.ArrayType(_DEPARTURE)),
        T.StructField("caused_by", T.StringType()),
        T.StructField("offsets", T.ArrayType(_OFFSET)),
        T.StructField("partitions_moved", T.LongType()),
        T.StructField("lag", T.LongType()),
        T.StructField("incident", T.StringType()),
        T.StructField("incident_kind", T.StringType()),
        T.StructField("plan", T.StringType()),
    ]
)
"""``day`` is the day of the start, ``batch`` the day with which the rebalance was over.

``is_end``: the last members left, which is nobody's rebalance. ``partitions_moved`` and ``lag`` are
known where members or inspection report them. ``offsets`` are the agents' clock offsets, measured
at the ends of a generation (`clock_offsets`). ``incident`` is the id of the incident that it is
part of, and ``plan`` is whether somebody wanted that: planned or unplanned.
"""

CARRIED = T.StructType(
    [
        T.StructField("batch", T.DateType()),
        *(T.StructField(name, T.StringType()) for name in GROUP),
        T.StructField("carried", T.BinaryType()),
    ]
)
"""State that each day passes to the next day, one row per group."""

INCIDENTS = T.StructType([REBALANCES["batch"], *INCIDENT.fields])
"""``day`` is the day of the start, ``batch`` the day with which the incident was over."""
_BOTH = T.StructType(
    [
        *REBALANCES.fields,
        CARRIED["carried"],
        T.StructField("of_incident", INCIDENT),
        T.StructField("changed", CHANGE),
    ]
)
_COLUMNS = (
    *("id", "kind", "agent", "seq", "cluster", "app", "group", "group_type", "scope", "client_id"),
    *("member_id", "group_instance_id", "host", "log_file", "from", "to", "reason", "generation"),
    "episode",
    *("outcome", "joined_ts", "source", "gained", "lag", "subject", "field", "before", "after"),
)
_COUNTED = (
    *(SampleKind.TRANSITION, SampleKind.LOST, SampleKind.SIGNAL, SampleKind.CHANGE),
    SampleKind.SAMPLE,  # of `last_samples`
)


def group_rebalances(records: DataFrame) -> DataFrame:
    """Return one row per rebalance of a group (`REBALANCES`), from the table ``transitions``.

    ``cause`` is the trigger's code, null if unknown. ``certainty`` is seen, inferred or unknown.
    ``seconds`` is from the first member's start to the last member's end. ``member_seconds`` is
    the cost: the seconds of all members that were not at 0.
    """
    schema = T.StructType([field for field in REBALANCES if field.name != "batch"])
    explain = _explain_all(agents_last_seen(records), to_arrow_schema(schema))
    return map_groups(_events(records).groupBy(*GROUP), explain, schema)


def _explain_all(last_seen: LastSeen, schema: pa.Schema) -> Callable[[pa.Table], pa.Table]:
    latest = last_seen_by(date.max, last_seen)

    def explain(events: pa.Table) -> pa.Table:
        found = analyze_records(_samples(events), latest)
        rows = rows_of(
            found.rebalances,
            incidents_by_rebalance(found),
            by_member(found.clock_steps),
            found.leads,
        )
        return pa.Table.from_pylist(rows, schema=schema)

    return explain


def agents_last_seen(records: DataFrame) -> LastSeen:
    """Return the last time of each agent by day, from transitions and periodic samples alike."""
    found: dict[str, list[tuple[date, str]]] = {}
    rows = records.groupBy("agent", "day").agg(F.max("ts").alias("ts"))
    for row in rows.withColumn("ts", _rfc3339("ts")).orderBy("day").collect():
        found.setdefault(row.agent or "", []).append((row.day, row.ts))
    return found


def agents_silences(seen: DataFrame) -> Silences:
    """Return the silences of agents that write periodic samples, from `rollups.timestamps`.

    An agent whose first record comes later on the first day was silent until then: it may have been
    there before. One that comes on a later day is new.
    """
    sums = [F.bit_or(name).alias(name) for name in SLOT_COLUMNS]
    rows = seen.groupBy("agent", "day").agg(*sums, F.bool_or("is_sampled").alias("is_sampled"))
    slots: dict[str, list[int]] = {}
    sampled: set[str] = set()
    days: set[int] = set()
    for row in rows.collect():
        first = row.day.toordinal() * SLOTS_OF_A_DAY - _EPOCH_SLOT
        days.add(first)
        slots.setdefault(row.agent or "", []).extend(first + each for each in _slots_of(row))
        if row.is_sampled:
            sampled.add(row.agent or "")
    begin = min(days, default=0)
    begin_to = begin + SLOTS_OF_A_DAY
    return {
        agent: silences
        for agent in sampled
        if (
            silences := find_silences(slots[agent], begin if min(slots[agent]) < begin_to else None)
        )
    }


def _slots_of(row: Row) -> Iterator[int]:
    for name, first in SLOT_COLUMNS.items():
        bits = row[name] or 0
        yield from (first + bit for bit in range(SLOTS_OF_A_COLUMN) if bits >> bit & 1)


_EPOCH_SLOT = date(1970, 1, 1).toordinal() * SLOTS_OF_A_DAY


def last_samples(
    samples: DataFrame, open_episodes: DataFrame, silences: Silences = NO_SILENCES
) -> DataFrame:
    """Return a member's last periodic sample of a day at whose end it has an open episode.

    Of the day on which an agent's silence ends those of all its members are returned: they show
    who was there all the time.
    """
    names = ("day", "agent", "cluster", "group", "scope", "client_id")
    wanted = open_episodes.withColumnRenamed("batch", "day").select(*names).distinct()
    of_members = samples.withColumn("agent", F.coalesce("agent", F.lit("")))
    found = of_members.join(F.broadcast(wanted), list(names), "left_semi")
    ends = {
        (agent, datetime.fromtimestamp(each.until, UTC).date())
        for agent, own in silences.items()
        for each in own
    }
    if ends:
        wanted = samples.sparkSession.createDataFrame(sorted(ends), "agent string, day date")
        of_silent = of_members.where(F.col("client_id").isNotNull())
        found = found.unionByName(
            of_silent.join(F.broadcast(wanted), ["agent", "day"], "left_semi")
        )
    last = found.groupBy(*names, "host", "group_instance_id").agg(
        F.max_by(F.struct(*found.columns), "ts").alias("last")
    )
    return last.select("last.*")


def explain_by_day(
    records: DataFrame,
    carried: DataFrame,
    days: Sequence[date],
    last_seen: LastSeen,
    silences: Silences = NO_SILENCES,
) -> DataFrame:
    """Return the rebalances of some days, incidents in rows with ``of_incident``, and the state.

    Rows with ``changed`` are new values of settings. Rows with none of them have the state after
    each day.

    ``carried`` is the state of the day before the first one. A rebalance that is open at the last
    day's end is in both: in the state, and as a row of the batch after that day.
    """
    events = _events(records.where(F.col("day").isin(list(days))))
    before = carried.select(*GROUP, "carried")
    pairs = before.groupBy(*GROUP).cogroup(events.groupBy(*GROUP))
    return map_pairs(pairs, _explain_days(tuple(days), last_seen, silences), _BOTH)


def _events(records: DataFrame) -> DataFrame:
    kinds = [kind.value for kind in _COUNTED]
    scopes = (Scope.CONSUMER.value, Scope.STREAMS.value)
    notes = (SampleKind.SIGNAL.value, SampleKind.CHANGE.value)
    finding = (F.col("scope") == Scope.GROUP.value) & F.col("kind").isin(*notes)
    known = F.col("outcome").isin([outcome.value for outcome in Outcome])
    return (
        records.where(F.col("kind").isin(*kinds) & (F.col("scope").isin(*scopes) | finding))
        .withColumn("outcome", F.when(known, F.col("outcome")))
        .withColumn("agent", F.coalesce("agent", F.lit("")))
        .withColumn("host", F.coalesce("host", F.lit("")))
        .select(*_COLUMNS, "day", _rfc3339("ts").alias("ts"))
    )


def _rfc3339(column: str) -> Column:
    return F.date_format(column, "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'")


def _explain_days(
    days: Sequence[date], last_seen: LastSeen, silences: Silences
) -> Callable[[pa.Table, pa.Table], pa.Table]:
    schema = to_arrow_schema(_BOTH)
    told_by_day = {day: last_seen_by(day, last_seen) for day in days}

    def explain(before: pa.Table, events: pa.Table) -> pa.Table:
        names = (before if before.num_rows else events).slice(0, 1).select(GROUP).to_pylist()[0]
        written = before["carried"].to_pylist() if before.num_rows else [None]
        group = GroupDays(Carried.decode(written[0]))
        rows: list[dict[str, Any]] = []
        for day in days:
            # one day at a time: a record takes 1 KiB as an object, and a group can have a million
            of_day = _samples(events.filter(pc.equal(events["day"], day)))
            changed = find_group_changes(day, group.carried.records, of_day)
            shapes = group.carried.shapes
            over = group.day(day, of_day, told_by_day[day], silences)
            if group.shape is not None:
                changed += change_rows_of(day, group.shape, shapes, names | {"app": group.app})
            rows += [{"batch": day, "changed": each} for each in changed]
            rows += _rows_of_batch(day, over, group)
            rows.append(names | {"batch": day, "carried": group.carried.encode()})
        open_ones = Analysis([*group.pending], [*group.pending_incidents])
        rows += _rows_of_batch(day_after(days[-1]), open_ones, group)
        return pa.Table.from_pylist(rows, schema=schema)

    return explain


def _rows_of_batch(batch: date, found: Analysis, group: GroupDays) -> list[dict[str, Any]]:
    rows = [
        row_of(
            each,
            group.incident_of.get(each.round.id),
            corrected=group.corrected,
            steps=by_member(group.clock_steps),
        )
        for each in found.rebalances
    ]
    rows += [{"of_incident": incident_row(each, group.app)} for each in found.incidents]
    return [row | {"batch": batch} for row in rows]


def incidents_by_rebalance(found: Analysis) -> dict[str, Incident]:
    """Return the incident of each rebalance, by its id."""
    return {span.id: each for each in found.incidents for span in each.rebalances}


def _samples(events: pa.Table) -> list[Sample]:
    rows = events.drop_columns(["day"]).to_pylist()
    for row in rows:
        if row["joined_ts"] is not None and not _is_time(row["joined_ts"]):
            row["joined_ts"] = None  # of a table from before ingest refused these
    return msgspec.convert(rows, list[Sample])


def _is_time(text: str) -> bool:
    try:
        parse_time(text)
    except ValueError:
        return False
    return True


def rows_of(
    rebalances: Sequence[ExplainedRebalance],
    incidents: Mapping[str, Incident],
    steps: Steps = NO_STEPS,
    corrected: Offsets = NO_OFFSETS,
) -> list[dict[str, Any]]:
    """Return explained rebalances as rows; steady clock offsets do not lengthen them.

    Offsets that are ``corrected`` are not in the rebalances.
    """
    offsets = steady_offsets(measure_offsets(rebalance.round for rebalance in rebalances))
    return [
        row_of(each, incidents.get(each.round.id), offsets, corrected, steps) for each in rebalances
    ]


def _trigger_of(episode: ExplainedRebalance, incident: Incident | None) -> Trigger:
    """Return a rebalance's trigger; a status that only its incident shows is inferred."""
    trigger = episode.trigger
    if trigger.code is not None or incident is None or incident.kind.status is None:
        return trigger
    member = incident.members[0] if len(incident.members) == 1 else None
    return Trigger(
        certainty=Certainty.INFERRED,
        at=trigger.at,
        member=member,
        code=incident.kind.status,
        reason=incident.reason,
    )


def row_of(
    episode: ExplainedRebalance,
    incident: Incident | None = None,
    offsets: Offsets = NO_OFFSETS,
    corrected: Offsets = NO_OFFSETS,
    steps: Steps = NO_STEPS,
) -> dict[str, Any]:
    """Return an explained rebalance as a row of `REBALANCES`, without its batch.

    ``offsets`` are subtracted from its times; those that are ``corrected`` were before, and so were
    the ``steps`` of its members' clocks.
    """
    round_, slow = episode.round, episode.straggler
    trigger = _trigger_of(episode, incident)
    start, end = span(round_, offsets)
    started_at = datetime.fromtimestamp(start, UTC)
    return {
        "day": started_at.date(),
        "cluster": round_.ref.cluster,
        "app": round_.app,
        "group": round_.ref.group,
        "group_type": round_.group_type,
        "id": round_.id,
        "started_at": started_at,
        "ended_at": datetime.fromtimestamp(end, UTC),
        "seconds": round(end - start, 6),
        "member_seconds": round(episode.member_seconds, 6),
        "is_open": round_.is_open,
        "is_end": episode.is_end,
        "cause": None if trigger.code is None else trigger.code.value,
        "certainty": trigger.certainty.value,
        "client_id": None if trigger.member is None else trigger.member.client_id,
        "host": None if trigger.member is None else trigger.member.host,
        "reason": trigger.reason if trigger.missing is None else trigger.missing,
        "gravest": episode.highest.value,
        "members": len({piece.member for piece in round_.consumers}),
        "straggler": None if slow is None else slow.member.client_id,
        "straggler_host": None if slow is None else slow.member.host,
        "waited_seconds": None if slow is None else round(slow.waited_s, 6),
        "departures": [
            {"client_id": each.member.client_id, "host": each.member.host, "kind": each.kind.value}
            for each in episode.departures
        ],
        "caused_by": episode.caused_by,
        "partitions_moved": episode.partitions_moved,
        "lag": episode.lag,
        "incident": None if incident is None else incident.id,
        "incident_kind": None if incident is None else incident.kind.value,
        "plan": None if incident is None else plan_of(incident),
        "offsets": [
            {"agent": agent, "seconds": round(off + corrected.get(agent, 0.0), 6)}
            for agent, off in clock_offsets(round_, steps).items()
        ],
    }
