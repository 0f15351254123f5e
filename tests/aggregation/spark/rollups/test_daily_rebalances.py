"""A group's rebalances day by day are those of its whole history."""

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from itertools import groupby, product
from operator import attrgetter
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from aggregation.incidents.incidents import analyze
from aggregation.incidents.model import Incident
from aggregation.rebalances.grouping import GroupRef
from aggregation.rebalances.rebalances import ExplainedRebalance
from aggregation.rebalances.root_cause import Certainty
from aggregation.rebalances.segments import Segment
from aggregation.spark.rollups.daily_rebalances import Carried, GroupDays, last_seen_by
from metrics.model.sample import Outcome, Sample, SampleKind, Scope, format_time, parse_time
from metrics.model.status import RebalanceStatus as S
from tests.aggregation.spark.histories import DAY_S, REASONS, START_AT, Client, fleet, rebalance
from tests.aggregation.spark.recorded import recorded


def day_of(record: Sample) -> date:
    return date.fromisoformat(record.ts[:10])


def by_days(records: Sequence[Sample]) -> list[ExplainedRebalance]:
    """Explain all groups a day at a time, each time from what was written down."""
    days = sorted(set(map(day_of, records)))
    heard: dict[str, list[tuple[date, str]]] = {}
    for record in sorted(records, key=lambda record: record.ts):
        heard.setdefault(record.agent, []).append((day_of(record), record.ts))
    out: list[ExplainedRebalance] = []
    for ref in {GroupRef(record.cluster, record.group) for record in records}:
        mine = [r for r in records if GroupRef(r.cluster, r.group) == ref]
        out += _one_group([r for r in mine if r.kind is not SampleKind.SAMPLE], days, heard)
    return in_order(out)


def _one_group(
    records: Sequence[Sample], days: Sequence[date], heard: dict[str, list[tuple[date, str]]]
) -> Iterable[ExplainedRebalance]:
    group = GroupDays(Carried())
    for day in days:
        group = GroupDays(Carried.decode(group.carried.encode()))
        over = group.day(day, [r for r in records if day_of(r) == day], last_seen_by(day, heard))
        yield from over.rebalances
    yield from group.pending


def whole(records: Iterable[Sample]) -> list[ExplainedRebalance]:
    """Explain each group's records together: an open rebalance lasts until the last of them."""
    ordered = sorted(records, key=lambda record: (record.ts, record.seq, record.id))
    groups: dict[tuple[str, str], list[Sample]] = defaultdict(list)
    for record in ordered:
        groups[record.cluster, record.group].append(record)
    return in_order(each for group in groups.values() for each in analyze(group).rebalances)


def seen(episode: ExplainedRebalance) -> tuple[object, ...]:
    """Return what was seen of a rebalance: what is inferred from older ones a day may not know."""
    trigger = episode.trigger
    segments = tuple(map(without_end, episode.round.segments))
    round_ = dataclasses.replace(episode.round, segments=segments)
    return round_, trigger if trigger.certainty is Certainty.SEEN else None


def without_end(segment: Segment) -> Segment:
    """Return the segment of a member that is still out without a time: a day ends before it.

    The same of an open one, which is counted after a day.
    """
    if segment.is_open:
        return replace(segment, ended_at=segment.started_at)
    return replace(segment, out_until=None) if segment.is_out else segment


def in_order(episodes: Iterable[ExplainedRebalance]) -> list[ExplainedRebalance]:
    return sorted(episodes, key=lambda each: (each.round.started_at, each.round.ref, each.round.id))


def shifted(records: Iterable[Sample], by_s: float) -> list[Sample]:
    return [
        replace(
            record,
            ts=format_time(parse_time(record.ts) + by_s),
            joined_ts=record.joined_ts and format_time(parse_time(record.joined_ts) + by_s),
        )
        for record in records
    ]


@st.composite
def histories(draw: st.DrawFn) -> list[Sample]:
    """Invent two days of a group: rebalances of every cause, minutes or hours apart."""
    rng = Random(draw(st.integers(0, 10**6)))
    members = [Client(group="g", client_id=f"c-{n}", host=f"pod-{n}") for n in range(4)]
    at = START_AT + draw(st.floats(0, DAY_S))
    causes = st.sampled_from([*REASONS, S.UNKNOWN_MEMBER, S.STALE_MEMBER, S.COORDINATOR_REQUESTED])
    for cause in draw(st.lists(causes, max_size=12)):
        rng.shuffle(members)
        there = members[: rng.randint(2, 4)]
        rebalance(there, at, cause, rng.choice((2.5, 9.0, 45.0)))
        at += rng.choice((120.0, 700.0, 5_000.0, 20_000.0))
    group_type = draw(st.sampled_from(("classic", "consumer")))
    agents = draw(st.integers(1, 3))
    for member, day in product(members, range(5)):
        member.sample(START_AT + (day + 1) * DAY_S - 1)  # every agent lives, and says so
    return [
        replace(record, group_type=group_type, agent=f"agent-{n % agents}")
        for n, member in enumerate(sorted(members, key=attrgetter("host")))
        for record in member.written
    ]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_days_are_the_whole(data: st.DataObject) -> None:
    records = data.draw(histories())
    assert list(map(seen, whole(records))) == list(map(seen, by_days(records)))


def test_what_begins_at_once_is_counted_once_each() -> None:
    """One is over by midnight, and the other, of a later generation, is not."""
    at = START_AT + DAY_S - 3_600
    over, late = (
        Client(group="g", client_id=f"c-{n}", host=f"pod-{n}", generation=generation)
        for n, generation in ((0, 3), (1, 8))
    )
    for member in (over, late):
        member.move(at, S.SUBSCRIPTION_CHANGED)
    over.settle(at + 0.5)
    late.settle(at + 3_500)
    records = [*over.written, *late.written]
    records += [over.sample(START_AT + day * DAY_S - 1) for day in (1, 2, 3)]
    assert list(map(seen, by_days(records))) == list(map(seen, whole(records)))
    assert len({each.round.started_at for each in whole(records)}) < len(whole(records))


@pytest.mark.slow
@pytest.mark.parametrize("hour", [0, 7, 23.95])
def test_recordings_are_the_same_wherever_midnight_falls(hour: float) -> None:
    # each recording is a history of its own: their years and clusters differ
    by_agent = attrgetter("agent")
    for _, recording in groupby(sorted(recorded(), key=by_agent), by_agent):
        history = list(recording)
        first = min(record.ts for record in history)
        records = shifted(history, START_AT + hour * 3600 - parse_time(first))
        records += [
            replace(
                records[0],
                kind=SampleKind.SAMPLE,
                ts=format_time(START_AT + (day + 1) * DAY_S - 1),
            )
            for day in range(3)
        ]
        assert list(map(seen, whole(records))) == list(map(seen, by_days(records)))


@pytest.mark.parametrize("seed", [1, 2])
def test_fleet_is_explained_alike_by_days_and_as_a_whole(seed: int) -> None:
    records = fleet(seed, days=4, sampled_every_s=14_400).samples
    assert whole(records) == by_days(records)


def test_rebalance_over_midnight_is_one_of_the_day_on_which_it_ended() -> None:
    members = [Client(group="g", client_id=f"c-{n}") for n in range(2)]
    rebalance(members, START_AT + DAY_S - 2, S.SUBSCRIPTION_CHANGED, 5.0)
    records = [record for member in members for record in member.written]
    group = GroupDays(Carried())

    first = group.day(date(2025, 11, 24), [r for r in records if day_of(r).day == 24], {})
    second = group.day(date(2025, 11, 25), [r for r in records if day_of(r).day == 25], {})

    assert not first.rebalances
    assert [each.seconds for each in second.rebalances] == [5.0]


@pytest.mark.parametrize("back_after_s", [5_000.0, 40_000.0])
def test_time_of_a_dropped_member_after_midnight_is_part_of_the_cost(back_after_s: float) -> None:
    members = [Client(group="g", client_id=f"c-{n}", host=f"pod-{n}") for n in range(3)]
    rebalance(members, START_AT + 40_000, S.SUBSCRIPTION_CHANGED, 3.0)
    dropped, *others = members
    dropped_at = START_AT + DAY_S - 3_000
    back_at = dropped_at + back_after_s
    dropped.move(dropped_at, S.DROPPED_GROUP)
    dropped.generation += 1
    for at in (dropped_at, back_at - 3.0):
        for member in others:
            member.move(at + 1.0, S.COORDINATOR_REQUESTED)
        for member in others:
            member.settle(at + 3.0)
    dropped.settle(back_at)
    rebalance(members, START_AT + DAY_S * 1.6, S.SUBSCRIPTION_CHANGED, 3.0)
    records = [record for member in members for record in member.written]
    records += [members[0].sample(START_AT + day * DAY_S - 1) for day in (1, 2, 3, 4)]

    found = by_days(records)

    assert [each.member_seconds for each in found] == [
        pytest.approx(each.member_seconds) for each in whole(records)
    ]
    assert sum(each.member_seconds for each in found) > back_after_s


def test_what_is_open_is_pending_until_its_end_is_seen() -> None:
    member = Client(group="g", client_id="c")
    member.move(START_AT + DAY_S - 60, S.SUBSCRIPTION_CHANGED)
    group = GroupDays(Carried())

    found = group.day(date(2025, 11, 24), member.written, {})

    assert not found.rebalances
    assert [each.round.is_open for each in group.pending] == [True]


def test_what_is_open_lasts_to_its_last_record_before_days_without_any() -> None:
    member = Client(group="g", client_id="c")
    begun = member.move(START_AT + 20 * 3_600, S.SUBSCRIPTION_CHANGED)
    later = member.move(START_AT + 9 * DAY_S, S.NONE)
    first, last = date(2025, 11, 24), date(2025, 12, 3)
    seen = {record.agent: f"{last}T23:00:00.000000Z" for record in member.written}
    group = GroupDays(Carried())

    group.day(first, [begun], dict.fromkeys(seen, f"{first}T23:00:00.000000Z"))
    group = GroupDays(Carried.decode(group.carried.encode()))
    found = group.day(last, [later], seen)

    assert [each.seconds for each in found.rebalances] == [0]
    assert {each.round.id for each in found.rebalances} <= group.incident_of.keys()


def test_lost_end_before_days_without_records_is_that_of_the_whole_history() -> None:
    member = Client(group="g", client_id="c")
    begun = member.move(START_AT + 20 * 3_600, S.SUBSCRIPTION_CHANGED)
    member.move(START_AT + 20 * 3_600 + 5, S.NONE)  # a record that is missing
    again = START_AT + 2 * DAY_S
    later = [member.move(again, S.SUBSCRIPTION_CHANGED), member.move(again + 3, S.NONE)]
    records = [begun, *later]

    assert [each.seconds for each in by_days(records)] == [600, 3]
    assert [each.seconds for each in whole(records)] == [600, 3]


def test_agent_that_never_came_back_ends_what_was_open_before_days_without_records() -> None:
    begun = Client(group="g", client_id="c").move(START_AT + 20 * 3_600, S.SUBSCRIPTION_CHANGED)
    other = Client(group="g", client_id="d", host="other", generation=2)
    again = START_AT + 2 * DAY_S
    later = [
        other.move(again, S.SUBSCRIPTION_CHANGED, agent="agent-2"),
        other.move(again + 3, S.NONE, agent="agent-2"),
    ]
    sign = other.record(START_AT + 20 * 3_600 + 240, kind=SampleKind.SAMPLE)
    records = [begun, sign, *later]

    assert [each.seconds for each in by_days(records)] == [240, 3]
    assert [each.seconds for each in whole(records)] == [240, 3]


def test_quiet_group_carries_on_the_same_few_records() -> None:
    member = Client(group="g", client_id="c")
    member.move(START_AT, S.DROPPED_GROUP)
    days = [date(2025, 11, 24) + timedelta(days=n) for n in range(10)]
    group = GroupDays(Carried())
    kept = []
    for day, events in zip(days, [member.written, *([] for _ in days[1:])], strict=True):
        group.day(day, events, {})
        kept.append(len(group.carried.records))

    assert kept == [1] * 10


@pytest.mark.parametrize("comes_back", [True, False])
def test_state_does_not_grow_behind_an_episode_whose_end_was_lost(comes_back: bool) -> None:
    members = [Client(group="g", client_id=f"c-{n}", host=f"pod-{n}") for n in range(4)]
    *others, last = members
    rebalance(members, START_AT + 3_600, S.SUBSCRIPTION_CHANGED, 3.0)
    last.written.pop()
    days = [date(2025, 11, 24) + timedelta(days=n) for n in range(5)]
    for hour in range(2, 24 * len(days)):
        there = members if comes_back else others
        rebalance(there, START_AT + hour * 3_600, S.SUBSCRIPTION_CHANGED, 3.0)
    records = [record for member in members for record in member.written]
    group, counted, kept = GroupDays(Carried()), list[ExplainedRebalance](), list[int]()
    for day in days:
        midnight = format_time(START_AT + (day - days[0]).days * DAY_S + DAY_S)
        over = group.day(day, [r for r in records if day_of(r) == day], {"agent-1": midnight})
        counted += over.rebalances
        kept.append(len(group.carried.records))

    starts = [each.round.started_at for each in [*counted, *group.pending]]
    assert starts == [START_AT + hour * 3_600 for hour in range(1, 24 * len(days))]
    assert max(kept[1:]) < 60  # a day has 190 records
    assert not group.pending


def damaged(seed: int) -> list[Sample]:
    """Invent a week of a group of which a part of the records was lost, and maybe most."""
    rng = Random(seed)
    members = [Client(group="g", client_id=f"c-{n}", host=f"pod-{n}") for n in range(4)]
    causes, at = [*REASONS, S.UNKNOWN_MEMBER, S.STALE_MEMBER], START_AT + rng.random() * DAY_S
    while at < START_AT + 7 * DAY_S:
        rng.shuffle(members)
        there = members[: rng.randint(2, 4)]
        generation = max(member.generation for member in members)
        for member in there:
            member.generation = generation
        rebalance(there, at, rng.choice(causes), rng.choice((2.5, 9.0, 45.0)))
        at += rng.choice((120.0, 700.0, 5_000.0, 20_000.0, 60_000.0))
    agents, kept = rng.randint(1, 4), rng.choice((1.0, 0.9, 0.6, 0.33))
    written = [
        replace(record, agent=f"agent-{n % agents}")
        for n, member in enumerate(sorted(members, key=attrgetter("host")))
        for record in member.written
    ]
    return [record for record in written if rng.random() < kept]


@pytest.mark.parametrize("seed", [21, 45, 408, 703, *range(20)])
def test_lost_records_count_nothing_twice_and_make_no_rebalance_of_days(seed: int) -> None:
    records = damaged(seed)
    group, found, incidents = GroupDays(Carried()), list[ExplainedRebalance](), list[Incident]()
    for n in range(9):
        day = date(2025, 11, 24) + timedelta(days=n)
        alive = dict.fromkeys((f"agent-{n}" for n in range(4)), f"{day}T23:59:59.000000Z")
        group = GroupDays(Carried.decode(group.carried.encode()))
        over = group.day(day, [r for r in records if day_of(r) == day], alive)
        found += over.rebalances
        incidents += over.incidents
    found += group.pending
    incidents += group.pending_incidents

    ids = [*(each.round.id for each in found), *(f"incident {each.id}" for each in incidents)]
    assert len(ids) == len(set(ids))
    assert all(each.seconds <= DAY_S for each in found if not each.round.is_open)


@pytest.mark.parametrize("name", ["g", "h", "i", "j"])  # ids of what begins at once have any order
def test_lost_end_of_a_quiet_group_is_no_rebalance_of_days(name: str) -> None:
    """Spark hands on the samples of an open episode for seven days; the group keeps the last."""
    members = [Client(group=name, client_id=f"c-{n}", host=f"pod-{n}") for n in range(3)]
    rebalance(members, START_AT + 60.0, S.NEW_MEMBER, 3.0)
    seen = [record for member in members for record in member.written]
    by_proxy = [
        replace(each, id=f"w{each.id}", agent="proxy", host="10.0.0.7", episode=f"w{each.episode}")
        for each in seen[1:]  # it misses the start of the first one
    ]
    first, *_ = members
    lost = first.written[-1]
    assert lost.to == 0
    late = [first.sample(START_AT + n * DAY_S + 40_000.0) for n in range(6)]
    records = [each for each in [*seen, *by_proxy, *late] if each is not lost]
    group, found = GroupDays(Carried()), list[ExplainedRebalance]()
    for n in range(12):
        day = date(2025, 11, 24) + timedelta(days=n)
        alive = dict.fromkeys(("agent-1", "proxy"), f"{day}T23:59:59.000000Z")
        group = GroupDays(Carried.decode(group.carried.encode()))
        found += group.day(day, [r for r in records if day_of(r) == day], alive).rebalances
    found += group.pending

    assert [each.round.is_open for each in found] == [False]
    assert found[0].seconds < 60.0


def test_member_that_was_there_days_ago_is_missed_when_it_crashes() -> None:
    members = [Client(group="g", client_id=f"c-{n}", host=f"pod-{n}") for n in range(3)]
    rebalance(members, START_AT, S.SUBSCRIPTION_CHANGED, 3.0)
    crashed, *others = members
    for member in others:
        member.move(START_AT + 4 * DAY_S, S.COORDINATOR_REQUESTED)
        member.settle(START_AT + 4 * DAY_S + 3, Outcome.SYNCED)
    records = [record for member in members for record in member.written]
    last = replace(crashed.sample(START_AT + 4 * DAY_S + 60), id="alive")

    found = by_days([*records, last])[-1]

    assert found.trigger.member is not None
    assert (crashed.client_id, "expired") == (
        found.trigger.member.client_id,
        found.departures[0].kind,
    )


def test_state_of_a_busy_group_is_small_and_the_plain_one_is_read() -> None:
    """Spark holds the states of all groups, each after each day of a span."""
    records = tuple(
        Sample(
            id=f"{number:032x}",
            kind=SampleKind.TRANSITION,
            ts=format_time(START_AT + number),
            cluster="k",
            app="g",
            group="g",
            scope=Scope.CONSUMER,
            client_id=f"client-{number % 20}",
            episode=f"{number:016x}",
            source="logs",
        )
        for number in range(1_000)
    )
    carried = Carried(records=records)

    assert len(carried.encode()) < 60 * len(records)  # 340 bytes each without compression
    assert Carried.decode(carried.encode()) == carried
    assert Carried.decode(msgspec.msgpack.encode(carried)) == carried
