"""Steps of clocks are taken out day by day as in a whole history."""

from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from random import Random
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.sources.lines.parsing.origin_streams import OriginStream
from agent.sources.logs.client_interpreter import ClientInterpreter
from aggregation.incidents.incidents import Analysis, analyze
from aggregation.rebalances.silences import read_silences
from aggregation.spark.rollups.clock_offsets import by_member
from aggregation.spark.rollups.daily_rebalances import Carried, GroupDays, last_seen_by
from aggregation.spark.rollups.group_rebalances import row_of
from aggregation.spark.rollups.incident_rows import incident_row
from metrics.model.sample import Outcome, Sample, SampleKind, format_time, parse_time
from metrics.model.status import RebalanceStatus as S
from tests.aggregation.rebalances.test_clock_steps import by_log_and_wire
from tests.aggregation.rebalances.test_rebalances import A
from tests.aggregation.rebalances.test_rebalances import records as track
from tests.aggregation.spark.histories import DAY_S, START_AT, Client, rebalance
from tests.aggregation.spark.rollups.test_daily_rebalances import day_of, seen, shifted

DAYS = 6
FIRST = date(2025, 11, 24)


class Step(NamedTuple):
    """A clock that is set. ``at`` is in seconds since the first midnight."""

    member: int
    at: float
    seconds: float


def world(seed: int, members: int = 4, steps: Sequence[Step] = (), days: int = 3) -> list[Sample]:
    """Invent some days of a group with logs, each read by an agent of its own."""
    rng = Random(seed)
    clients = [Client(group="g", client_id=f"c-{n}", host=f"pod-{n}") for n in range(members)]
    at = START_AT + rng.uniform(0, DAY_S / 4)
    order = list(clients)
    while at < START_AT + days * DAY_S:
        rng.shuffle(order)
        generation = max(each.generation for each in order)
        for each in order:
            each.generation = generation
        cause = rng.choice([S.SUBSCRIPTION_CHANGED, S.METADATA_CHANGED, S.USER_REQUESTED])
        rebalance(order, at, cause, 4.0)
        if cause is S.USER_REQUESTED:
            at += rng.choice((5.0, 90.0, 900.0))
            order[0].generation = order[1].generation
            rebalance(order, at, S.NEW_MEMBER, 4.0)
        at += rng.choice((60.0, 700.0, 5_000.0, 20_000.0, 40_000.0))
    found = []
    for number, client in enumerate(clients):
        own = [each for each in steps if each.member == number]
        found += [replace(r, agent=f"agent-{number}") for r in on_clock(client.written, own)]
    return found


def on_clock(records: Iterable[Sample], steps: Sequence[Step]) -> list[Sample]:
    """Return the records of a log with joins; its times never run back."""
    found, began = list[Sample](), 0.0
    stream = OriginStream(interpreter=ClientInterpreter(stream="log"))
    for record in records:
        true = parse_time(record.ts)
        ahead_s = next((s.seconds for s in reversed(steps) if true >= START_AT + s.at), 0.0)
        stream.last_at = at = stream.continue_from(true + ahead_s)
        if record.from_ == 0:
            began = at
        joined = format_time(began + 0.05) if record.outcome is Outcome.SYNCED else None
        found.append(replace(record, ts=format_time(at), joined_ts=joined))
    return found


def as_a_whole(records: Iterable[Sample]) -> Analysis:
    return analyze(sorted(records, key=lambda record: (record.ts, record.seq, record.id)))


def by_day(records: Sequence[Sample]) -> Analysis:
    """Analyze a group a day at a time, each time from what was written down."""
    days = [FIRST + timedelta(n) for n in range(DAYS)]
    heard: dict[str, list[tuple[date, str]]] = {}
    for record in sorted(records, key=lambda record: record.ts):
        heard.setdefault(record.agent, []).append((day_of(record), record.ts))
    group, found, silences = GroupDays(Carried()), Analysis([], []), read_silences(records)
    for day in days:
        group = GroupDays(Carried.decode(group.carried.encode()))
        of_day = [r for r in records if day_of(r) == day]
        over = group.day(day, of_day, last_seen_by(day, heard), silences)
        found = Analysis(found.rebalances + over.rebalances, found.incidents + over.incidents)
    return Analysis(
        [*found.rebalances, *group.pending], [*found.incidents, *group.pending_incidents]
    )


def alive(records: list[Sample]) -> list[Sample]:
    """Return the records, and a periodic sample of each agent at each day's end."""
    last = {record.agent: record for record in records}
    return records + [
        replace(
            record,
            id=f"{agent}-{day}",
            kind=SampleKind.SAMPLE,
            ts=format_time(START_AT + (day + 1) * DAY_S - 1),
            joined_ts=None,
            to=0,
            episode=None,
            outcome=None,
        )
        for agent, record in last.items()
        for day in range(DAYS)
    ]


def outlines(found: Analysis) -> list[tuple[object, ...]]:
    return sorted(
        (i.started_at, i.id, i.kind, [s.id for s in i.rebalances], str(i.cost), str(i.detail))
        for i in found.incidents
    )


steps = st.builds(
    Step,
    st.integers(0, 3),
    st.one_of(st.floats(0, 3 * DAY_S), st.floats(DAY_S - 300, DAY_S + 300)),
    st.sampled_from([120.0, -120.0, 30.0, -30.0, 250.0, -250.0]),
)


def trio(at: Iterable[float]) -> list[list[Sample]]:
    """Return the records of three members, with a rebalance at each time."""
    clients = [Client(group="g", client_id=f"c-{n}", host=f"pod-{n}") for n in range(3)]
    for each in at:
        rebalance(clients, START_AT + each, S.SUBSCRIPTION_CHANGED, 4.0)
    return [[replace(r, agent=f"agent-{n}") for r in c.written] for n, c in enumerate(clients)]


def answer(found: Analysis) -> list[tuple[object, ...]]:
    """Return what the report shows of incidents, but for the steps of clocks."""
    return [
        (
            *(i.kind, i.members, round(i.started_at), round(i.cost.member_seconds or 0, 1)),
            *((each.member, round(each.seconds)) for each in i.waiting_for),
        )
        for i in found.incidents
    ]


@pytest.mark.parametrize("seconds", [120.0, -120.0, 500.0, -500.0])
@pytest.mark.parametrize("at", [-7_000.0, -130.0, -40.0, -10.0, 10.0, 130.0, 7_000.0])
@pytest.mark.parametrize("member", [0, 1])
def test_step_near_midnight_changes_no_answer(member: int, at: float, seconds: float) -> None:
    """Its proof comes on the next days: what it can move waits for that."""
    records = trio([3_600, DAY_S - 9_000, DAY_S - 20, DAY_S + 20, 2.5 * DAY_S, 4 * DAY_S])
    right = [on_clock(each, []) for each in records]
    wrong = [*right]
    wrong[member] = on_clock(records[member], [Step(member, DAY_S + at, seconds)])

    found = by_day(alive([r for each in wrong for r in each]))

    assert answer(found) == answer(by_day(alive([r for each in right for r in each])))
    rows = (incident_row(each, "")["detail"] for each in found.incidents)
    details = [msgspec.json.decode(row) for row in rows if row is not None]
    named = [row for each in details for row in each.get("clock_steps", ())]
    assert {row["client_id"] for row in named} == {f"c-{member}"}
    assert round(named[-1]["seconds"]) == seconds
    assert len(named) == 1 or seconds < 0  # a log's times wait until the clock has caught up


@pytest.mark.parametrize("midnight", [50, 190, 201, 260, 330])
@pytest.mark.parametrize("seconds", [120.0, -120.0, 400.0])
def test_log_beside_the_wire_is_put_right_wherever_midnight_falls(
    seconds: float, midnight: int
) -> None:
    given = track(*by_log_and_wire(A, 150.0, seconds))
    shown = shifted(given, START_AT + DAY_S - midnight)

    found, whole = by_day(shown), as_a_whole(shown)

    assert list(map(seen, found.rebalances)) == list(map(seen, whole.rebalances))
    assert outlines(found) == outlines(whole)


def test_step_without_a_proof_is_waited_for_a_week_and_no_longer() -> None:
    """A member whose clock is shown once, and is gone then, holds up no report."""
    first, *others = trio([3_600, 7_200, 10_800])
    wrong = on_clock(first, [Step(0, 9_000, 120.0)])
    quiet = [r for each in others for r in on_clock(each, [])]
    group, counted = GroupDays(Carried()), list[int]()
    for n in range(10):
        day = FIRST + timedelta(n)
        over = group.day(day, [r for r in [*wrong, *quiet] if day_of(r) == day], {})
        counted.append(len(over.rebalances))

    assert counted == [2, 0, 0, 0, 0, 0, 0, 1, 0, 0]


def test_state_holds_few_steps_of_clocks() -> None:
    rounds = [3_600 + 900.0 * n for n in range(80)]
    first, *others = trio(rounds)
    steps = [Step(0, 3_500 + 2_700.0 * n, 120.0 * (n % 2)) for n in range(20)]
    records = [*on_clock(first, steps), *(r for each in others for r in on_clock(each, []))]
    group = GroupDays(Carried())
    group.day(FIRST, records, {})
    assert len(group.clock_steps) > 10
    assert len(group.carried.clock_steps) <= 2


def test_clock_that_stepped_is_named_in_data_quality() -> None:
    """Its rebalances are as long as those of a right clock, and the agent has its offset."""
    first, *others = trio([3_600, 7_200, 10_800, 14_400])
    records = [*on_clock(first, [Step(0, 9_000, 120.0)])]
    records += [r for each in others for r in on_clock(each, [])]
    group = GroupDays(Carried())
    over = group.day(FIRST, records, {})

    rows = [row_of(each, steps=by_member(group.clock_steps)) for each in over.rebalances]

    assert [round(row["seconds"]) for row in rows] == [4] * 4
    offsets = [{each["agent"]: round(each["seconds"]) for each in row["offsets"]} for row in rows]
    assert [each["agent-0"] for each in offsets] == [0, 0, 120, 120]
    assert {each["agent-1"] for each in offsets} == {0}


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 4), st.lists(steps, max_size=2))
def test_days_are_the_whole(seed: int, members: int, steps: list[Step]) -> None:
    if members < 4:  # two wrong clocks of three leave no right one
        steps = [each._replace(member=steps[0].member) for each in steps]
    records = world(seed, members, sorted(steps, key=lambda each: each.at))
    whole = as_a_whole(alive(records))
    found = by_day(alive(records))
    assert list(map(seen, found.rebalances)) == list(map(seen, whole.rebalances))
    assert outlines(found) == outlines(whole)
