"""A clock that is steadily wrong lengthens no rebalance; a slow member does."""

from datetime import date, timedelta

import pytest
from msgspec.structs import replace

from aggregation.incidents.incidents import analyze
from aggregation.incidents.model import IncidentKind
from aggregation.rebalances.rebalances import explain_rebalances
from aggregation.rebalances.root_cause import Certainty
from aggregation.spark.rollups.daily_rebalances import Carried, GroupDays
from aggregation.spark.rollups.group_rebalances import row_of, rows_of
from metrics.model.sample import Outcome, Sample, format_time, parse_time
from metrics.model.status import RebalanceStatus as S
from tests.aggregation.spark.histories import DAY_S, START_AT, Client, rebalance


def history(
    times: int, skew_s: float, slow_at: int | None = None, every_s: float = 3600.0
) -> list[Sample]:
    """Return rebalances of 5 s with a member that another agent sees by a clock of its own."""
    members = [Client(group="g", client_id=f"c{n}", host=f"pod-{n}") for n in range(4)]
    for n in range(times):
        rebalance(members, START_AT + 600 + every_s * n, S.METADATA_CHANGED, 5.0)
    records = [sample for member in members[:3] for sample in member.written]
    for n, sample in enumerate(members[3].written):
        is_slow = slow_at is not None and n == 2 * slow_at + 1
        late_s = skew_s + (8.0 if is_slow else 0.0)
        shifted = format_time(parse_time(sample.ts) + late_s)
        records.append(replace(sample, agent="skewed", ts=shifted))
    return records


def seconds(records: list[Sample]) -> list[float]:
    return [round(row["seconds"]) for row in rows_of(explain_rebalances(records), {})]


def test_steady_offset_lengthens_no_rebalance() -> None:
    assert seconds(history(4, skew_s=3.5)) == [5] * 4
    assert seconds(history(4, skew_s=-3.5)) == [5] * 4


def test_one_slow_member_is_no_offset() -> None:
    assert seconds(history(4, skew_s=0.0, slow_at=2)) == [5, 5, 13, 5]


def test_two_rebalances_show_no_offset() -> None:
    assert seconds(history(2, skew_s=3.5)) == [9, 9]


@pytest.mark.parametrize("skew_s", [3.5, -3.5])
def test_rollout_of_three_shows_whose_clock_is_wrong(skew_s: float) -> None:
    """Every second rebalance has two members: which of two clocks is wrong they do not show."""
    members = [Client(group="g", client_id=f"c{n}", host=f"pod-{n}") for n in range(3)]
    rebalance(members, START_AT, S.METADATA_CHANGED, 3.0)
    for n, away in enumerate(members):
        at = START_AT + 600 + 120 * n
        others = [each for each in members if each is not away]
        away.move(at, S.USER_REQUESTED, "the consumer is being closed")
        away.settle(at, Outcome.LEFT)
        for each in others:
            each.move(at + 1.0, S.COORDINATOR_REQUESTED, "group is rebalancing")
            each.settle(at + 2.0)
        away.move(at + 60.0, S.NEW_MEMBER, "need to re-join with the given member-id")
        for each in others:
            each.move(at + 61.0, S.COORDINATOR_REQUESTED, "group is rebalancing")
        for each in members:
            each.settle(at + 63.0)
    records = [
        replace(
            record,
            agent=f"agent-{n}",
            ts=format_time(parse_time(record.ts) + (skew_s if n == 2 else 0.0)),
        )
        for n, member in enumerate(members)
        for record in member.written
    ]
    group = GroupDays(Carried())
    found = group.day(date(2025, 11, 24), records, {})

    assert {agent: round(at, 1) for agent, at in group.offsets.items()} == {"agent-2": skew_s}
    assert [round(each.seconds) for each in found.rebalances] == [3, *[2, 3] * 3]


def test_offsets_stay_in_the_rows() -> None:
    (*_, row) = rows_of(explain_rebalances(history(3, skew_s=3.5)), {})
    offsets = {offset["agent"]: round(offset["seconds"], 1) for offset in row["offsets"]}
    assert offsets == {"agent-1": 0.0, "skewed": 3.5}


def test_clock_that_is_ahead_hides_no_crash() -> None:
    """The others wait for 4 s on each clock, though it is 7.5 s from the first to the last."""
    members = [Client(group="g", client_id=f"c{n}", host=f"pod-{n}") for n in range(4)]
    for n in range(3):
        rebalance(members, START_AT + 3600 * n, S.METADATA_CHANGED, 2.0)
    dead, *rest = members
    for each in rest:
        each.move(START_AT + 20_000, S.COORDINATOR_REQUESTED)
        each.settle(START_AT + 20_004)
    for each in members:
        each.sample(START_AT + 30_000)
    skewed = [
        replace(each, agent="skewed", ts=format_time(parse_time(each.ts) + 3.5))
        for each in members[3].written
    ]

    found = analyze([*(each for m in members[:3] for each in m.written), *skewed])

    crash = found.incidents[-1]
    assert (crash.kind, crash.certainty) == (IncidentKind.SESSION_EXPIRED, Certainty.INFERRED)
    assert [member.client_id for member in crash.members] == [dead.client_id]
    trigger = found.rebalances[-1].trigger
    assert (trigger.code, trigger.member) == (S.UNKNOWN_MEMBER, crash.members[0])


def with_joins(records: list[Sample]) -> list[Sample]:
    """Return the records with joins: all at once by right clocks, a second before the end."""
    return [
        replace(each, joined_ts=format_time(parse_time(each.ts) - 1.0))
        if each.outcome is Outcome.SYNCED
        else each
        for each in records
    ]


@pytest.mark.parametrize("skew_s", [3.5, -3.5])
def test_one_rebalance_a_day_shows_a_steady_offset_after_some_days(skew_s: float) -> None:
    records = with_joins(history(6, skew_s, every_s=DAY_S + 3600))
    group, rows = GroupDays(Carried()), []
    for n in range(8):
        day = date(2025, 11, 24) + timedelta(n)
        group = GroupDays(Carried.decode(group.carried.encode()))
        found = group.day(day, [r for r in records if r.ts[:10] == str(day)], {})
        rows += [row_of(each, corrected=group.offsets) for each in found.rebalances]

    assert [round(row["seconds"]) > 5 for row in rows] == [True] * 2 + [False] * 4
    assert [row["straggler"] for row in rows[2:]] == [None] * 4
    assert [row["straggler"] for row in rows[:2]] == ["c3" if skew_s > 0 else None] * 2
    shown = [{each["agent"]: round(each["seconds"], 1) for each in row["offsets"]} for row in rows]
    assert shown == [{"agent-1": 0.0, "skewed": skew_s}] * 6
