"""Whole rebalances of groups in Spark are those of the plain Python rules."""

from collections import Counter
from itertools import groupby
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from aggregation.incidents.incidents import analyze
from aggregation.spark.rollups.clock_offsets import by_member
from aggregation.spark.rollups.group_rebalances import (
    _samples,
    group_rebalances,
    incidents_by_rebalance,
    row_of,
)
from metrics.model.sample import Sample, SampleKind
from metrics.model.status import RebalanceStatus as S
from tests.aggregation.spark.conftest import Frame
from tests.aggregation.spark.histories import DAY_S, START_AT, Client, fleet, rebalance
from tests.aggregation.spark.recorded import recorded

pytestmark = pytest.mark.spark


def got(rows: list[dict[str, Any]]) -> Counter[str]:
    """Bring rows of Spark and of plain Python into one shape."""
    return Counter(
        str(sorted((name, value) for name, value in row.items() if name not in _OTHERWISE))
        for row in rows
    )


_OTHERWISE = {"batch", "day", "started_at", "ended_at"}  # dates, and instants in another zone


def in_spark(frame: Frame, records: list[Sample]) -> list[dict[str, Any]]:
    events = [record for record in records if record.kind is not SampleKind.SAMPLE]
    Random(1).shuffle(events)
    rows = group_rebalances(frame(events)).collect()
    return [row.asDict(recursive=True) for row in rows]


def in_python(records: list[Sample]) -> list[dict[str, Any]]:
    """Return the rows of each group."""
    in_order = sorted(records, key=lambda each: (each.cluster, each.group, each.ts, each.seq))
    rows = []
    for _, group in groupby(in_order, key=lambda each: (each.cluster, each.group)):
        found = analyze(group)
        incidents = incidents_by_rebalance(found)
        steps = by_member(found.clock_steps)
        rows += [
            row_of(each, incidents.get(each.round.id), steps=steps) for each in found.rebalances
        ]
    return rows


def test_invented_days_and_recordings_equal_plain_python(frame: Frame) -> None:
    week = fleet(3, days=3, sampled_every_s=86_400)
    first = min(record.ts for record in recorded())
    assert first > "2026"  # the two do not share a day
    records = week.samples + [
        replace(r, cluster="recorded", seq=n) for n, r in enumerate(recorded())
    ]
    events = [record for record in records if record.kind is not SampleKind.SAMPLE]

    rows = in_spark(frame, records)

    assert got(in_python(events)) == got(rows)
    causes = Counter((row["group"], row["cause"]) for row in rows if row["cluster"] == "prod-eu")
    assert week.causes == causes


def test_rebalance_over_midnight_is_one(frame: Frame) -> None:
    one, other = Client(group="g", client_id="a"), Client(group="g", client_id="b", cluster="us")
    same = Client(group="g", client_id="c")
    rebalance([one, same], START_AT + DAY_S - 2, S.NEW_MEMBER, 5.0)
    other.move(START_AT + DAY_S - 2, S.NEW_MEMBER)
    other.settle(START_AT + DAY_S)
    records = one.written + same.written + other.written

    rows = in_spark(frame, records)

    assert sorted((r["cluster"], r["seconds"]) for r in rows) == [("prod-eu", 5.0), ("us", 2.0)]


def test_clock_of_an_agent_that_is_late_is_seen(frame: Frame) -> None:
    members = [Client(group="g", client_id=f"c{n}") for n in range(3)]
    rebalance(members, START_AT, S.SUBSCRIPTION_CHANGED, 5.0)
    late = [replace(record, agent="late") for record in members[2].written]
    for record in members[2].written:
        late[late.index(replace(record, agent="late"))] = replace(
            record, agent="late", ts=record.ts.replace("00:00:0", "00:00:3")
        )

    (row,) = in_spark(frame, members[0].written + members[1].written + late)

    offsets = {offset["agent"]: round(offset["seconds"]) for offset in row["offsets"]}
    assert offsets == {"agent-1": 0, "late": 30}


def test_a_join_time_that_is_none_is_left_out_of_an_old_table() -> None:
    """Ingest took such records once, and each report of the table failed."""
    member = Client(group="g", client_id="c")
    times = [None, "0000-00-00T00:00:00Z", "2025-11-24T00:00:00.000000Z"]
    records = [member.record(START_AT + n, joined_ts=each) for n, each in enumerate(times)]
    table = pa.Table.from_pylist([{**to_builtins(each), "day": None} for each in records])

    found = _samples(table)

    assert [each.joined_ts for each in found] == [None, None, times[2]]
    assert [each.id for each in found] == [each.id for each in records]
