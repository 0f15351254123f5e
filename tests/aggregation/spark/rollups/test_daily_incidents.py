"""A group's incidents day by day are those of its whole history."""

from collections.abc import Sequence
from datetime import date

import msgspec
import pytest

from aggregation.incidents.incidents import analyze
from aggregation.incidents.model import Incident, IncidentKind
from aggregation.rebalances.grouping import GroupRef
from aggregation.spark.rollups.daily_rebalances import Carried, GroupDays, last_seen_by
from aggregation.spark.rollups.group_rebalances import row_of
from metrics.model.sample import Outcome, Sample, SampleKind, format_time, parse_time
from metrics.model.status import RebalanceStatus as S
from tests.aggregation.spark.histories import DAY_S, START_AT, Client, rebalance
from tests.aggregation.spark.recorded import recorded
from tests.aggregation.spark.rollups.test_daily_rebalances import by_days as rebalances_by_days
from tests.aggregation.spark.rollups.test_daily_rebalances import seen, shifted, whole


def day_of(record: Sample) -> date:
    return date.fromisoformat(record.ts[:10])


def by_days(records: Sequence[Sample]) -> list[Incident]:
    """Analyze all groups a day at a time, each time from what was written down."""
    days = sorted(set(map(day_of, records)))
    heard: dict[str, list[tuple[date, str]]] = {}
    for record in sorted(records, key=lambda record: record.ts):
        heard.setdefault(record.agent, []).append((day_of(record), record.ts))
    found: list[Incident] = []
    for ref in {GroupRef(record.cluster, record.group) for record in records}:
        own = [r for r in records if (r.cluster, r.group) == ref]
        events = [r for r in own if r.kind is not SampleKind.SAMPLE]
        group = GroupDays(Carried())
        for day in days:
            group = GroupDays(Carried.decode(group.carried.encode()))
            of_day = [r for r in events if day_of(r) == day]
            found += group.day(day, of_day, last_seen_by(day, heard)).incidents
        found += group.pending_incidents
    return sorted(found, key=lambda each: (each.started_at, each.ref))


def outline(incident: Incident) -> tuple[object, ...]:
    return (
        incident.id,
        incident.kind,
        incident.members,
        [span.id for span in incident.rebalances],
        incident.cost,
    )


@pytest.mark.slow
@pytest.mark.parametrize("hour", [0, 7, 23.95])
def test_recordings_have_the_same_incidents_wherever_midnight_falls(hour: float) -> None:
    first = min(record.ts for record in recorded())
    apart = [
        msgspec.structs.replace(record, cluster=record.agent, seq=n)
        for n, record in enumerate(recorded())
    ]
    records = shifted(apart, START_AT + hour * 3600 - parse_time(first))
    groups = {(record.cluster, record.group) for record in records}
    whole = [
        incident
        for group in sorted(groups)
        for incident in analyze([r for r in records if (r.cluster, r.group) == group]).incidents
    ]
    found = by_days(records)
    assert sorted(map(str, map(outline, found))) == sorted(map(str, map(outline, whole)))


def trio() -> list[Client]:
    return [Client(group="g", client_id=f"c-{n}", host=f"pod-{n}") for n in range(3)]


def alive(members: Sequence[Client], days: int) -> list[Sample]:
    for member in members:
        for day in range(days):
            member.sample(START_AT + (day + 1) * DAY_S - 1)
    return [record for member in members for record in member.written]


def test_rollout_over_midnight_is_one_incident() -> None:
    members = trio()
    for n, member in enumerate(members):
        at = START_AT + DAY_S - 200 + 150 * n
        others = [each for each in members if each is not member]
        rebalance([member, *others], at, S.USER_REQUESTED, 3.0)
        rebalance([member, *others], at + 30, S.NEW_MEMBER, 3.0)
    (found,) = by_days(alive(members, 3))
    assert found.kind is IncidentKind.ROLLOUT
    assert len(found.rebalances) == 6
    assert format_time(found.started_at).startswith("2025-11-24")


def test_member_that_comes_back_after_midnight_is_in_its_incident() -> None:
    members = trio()
    stuck, *others = members
    rebalance(members, START_AT + 100, S.SUBSCRIPTION_CHANGED, 3.0)
    stuck.move(START_AT + DAY_S - 1_000, S.DROPPED_GROUP, "consumer poll timeout has expired")
    for at in (START_AT + DAY_S - 999, START_AT + DAY_S + 800):
        for member in others:
            member.move(at, S.COORDINATOR_REQUESTED)
            member.settle(at + 2)
    stuck.generation = others[0].generation - 1
    stuck.settle(START_AT + DAY_S + 802)
    found = by_days(alive(members, 2))
    assert [each.kind for each in found][-1] is IncidentKind.POLL_TIMEOUT
    assert len(found[-1].rebalances) == 2
    assert not found[-1].is_ongoing


def test_incident_without_an_end_is_counted_once_and_keeps_few_records() -> None:
    members = trio()
    stuck, *others = members
    rebalance(members, START_AT + 100, S.SUBSCRIPTION_CHANGED, 3.0)
    stuck.move(START_AT + 50_000, S.DROPPED_GROUP, "consumer poll timeout has expired")
    for member in others:
        member.move(START_AT + 50_001, S.COORDINATOR_REQUESTED)
        member.settle(START_AT + 50_003)
    found = by_days(alive(members, 6))
    timeouts = [each for each in found if each.kind is IncidentKind.POLL_TIMEOUT]
    assert [each.is_ongoing for each in timeouts] == [True]


def test_return_of_a_counted_incident_is_no_new_one_on_the_next_day() -> None:
    """The next day knows the last two rebalances, and not who was there before them."""
    members = trio()
    crashed, *others = members
    rebalance(members, START_AT + 100, S.SUBSCRIPTION_CHANGED, 3.0)
    at = START_AT + 50_000
    for n, there in enumerate((others, members)):
        for member in there:
            member.generation = 3 + n
            is_back = member is crashed
            member.move(at + 80 * n, S.NEW_MEMBER if is_back else S.COORDINATOR_REQUESTED)
            member.settle(at + 80 * n + 3)
    found = by_days(alive(members, 3))
    episodes = [span.id for incident in found for span in incident.rebalances]
    assert len(episodes) == len(set(episodes))
    assert [each.kind for each in found][1:] == [IncidentKind.SESSION_EXPIRED]
    assert len(found[-1].rebalances) == 2


def owned(member: Client, at: float, partitions: str) -> None:
    member.record(
        at,
        kind=SampleKind.CHANGE,
        subject="member",
        field="partitions",
        after=partitions,
        episode=None,
    )


def test_partitions_of_weeks_ago_cost_when_their_owner_leaves() -> None:
    stays, leaves = (Client(group="g", client_id=f"c-{n}", host=f"pod-{n}") for n in range(2))
    rebalance([stays, leaves], START_AT + 100, S.SUBSCRIPTION_CHANGED, 3.0)
    owned(stays, START_AT + 103, "t:0")
    owned(leaves, START_AT + 103, "t:1")
    at = START_AT + 20 * DAY_S + 5_000
    leaves.move(at, S.USER_REQUESTED, "the consumer is being closed")
    leaves.settle(at, Outcome.LEFT)
    stays.move(at + 1, S.COORDINATOR_REQUESTED)
    stays.settle(at + 9)
    owned(stays, at + 9, "t:0-1")
    found = by_days(alive([stays], 22) + leaves.written)
    assert format_time(at) == format_time(found[-1].started_at)
    assert found[-1].cost.unread_partition_seconds == pytest.approx(9.0)


@pytest.mark.parametrize("midnight_s", [200.0, 900.0, 5_000.0])
@pytest.mark.parametrize("code", [S.DROPPED_GROUP, S.UNKNOWN_MEMBER])
def test_topic_of_an_only_reader_costs_as_on_one_day(code: S, midnight_s: float) -> None:
    """It is out for 24 minutes, and the others go on: by days as in one analysis."""
    members = trio()
    stuck, *others = members
    at = START_AT + DAY_S - midnight_s
    rebalance(members, START_AT + 100, S.SUBSCRIPTION_CHANGED, 3.0)
    owned(stuck, START_AT + 103, "u:0")
    for n, member in enumerate(others):
        owned(member, START_AT + 103, f"t:{n}")
    stuck.move(at, code, "it went")
    for since in (at + 1, at + 1_440):
        for member in others:
            member.move(since, S.COORDINATOR_REQUESTED)
            member.settle(since + 2)
    stuck.generation = others[0].generation - 1
    stuck.settle(at + 1_442)
    owned(stuck, at + 1_442, "u:0")
    records = [*alive(others, 3), *stuck.written]
    whole = analyze(records).incidents[-1]
    found = by_days(records)[-1]
    assert (found.kind, found.cost) == (whole.kind, whole.cost)
    assert found.cost.unread_partition_seconds == pytest.approx(1_442.0)


@pytest.mark.parametrize("before_s", [0.0, 0.003])
def test_partitions_of_a_rollout_over_midnight_cost_as_on_one_day(before_s: float) -> None:
    """The first pod gave its partitions up before it left, and had them for weeks."""
    found = [
        incident.cost.unread_partition_seconds
        for at in (START_AT + 20 * DAY_S - 120.0, START_AT + 20 * DAY_S - 7_200.0)
        for incident in by_days(cooperative_rollout(at, before_s))
        if incident.kind is IncidentKind.ROLLOUT
    ]

    assert found == [pytest.approx(3 * 2 * (9.0 + before_s))] * 2


def cooperative_rollout(since: float, before_s: float) -> list[Sample]:
    """Restart three members, two partitions each, 80 s apart: each leaves and joins."""
    members = trio()
    rebalance(members, START_AT + 100, S.SUBSCRIPTION_CHANGED, 3.0)
    for n, member in enumerate(members):
        owned(member, START_AT + 104, f"t:{2 * n}-{2 * n + 1}")
    for n in range(3):  # nobody's partitions change in these
        rebalance(members, START_AT + 5_000 + 500 * n, S.METADATA_CHANGED, 3.0)
    for n, member in enumerate(members):
        at, first = since + 80.0 * n, next(each for each in members if each is not member)
        owned(member, at - before_s, "")
        rebalance(
            [member, *(each for each in members if each is not member)], at, S.USER_REQUESTED, 8.9
        )
        mine = f"t:{2 * n}-{2 * n + 1}"
        theirs = f"t:{2 * members.index(first)}-{2 * members.index(first) + 1}"
        owned(first, at + 9.0, f"{theirs} {mine}")
        rebalance(
            [member, *(each for each in members if each is not member)], at + 40, S.NEW_MEMBER, 3.0
        )
        owned(first, at + 45.0, theirs)
        owned(member, at + 45.0, mine)
    return alive(members, 22)


def test_rebalance_of_an_incident_with_a_cause_has_one() -> None:
    """What only an incident shows (an added partition on the wire) is inferred for its rounds."""
    groups = {(record.agent, record.group) for record in recorded()}
    inferred = 0
    for agent, group in groups:
        own = [r for r in recorded() if (r.agent, r.group) == (agent, group)]
        found = analyze(own)
        spans = {span.id: (span, each) for each in found.incidents for span in each.rebalances}
        for each in found.rebalances:
            span, incident = spans.get(each.round.id, (None, None))
            if span is None or incident is None or incident.kind.status is None:
                continue
            row = row_of(each, incident)
            assert (span.status, row["cause"]) == (span.status or incident.kind.status, span.status)
            inferred += each.trigger.code is None and row["certainty"] == "inferred"
    assert inferred


@pytest.mark.parametrize("silent_days", [1, 3])
@pytest.mark.parametrize("is_known_to_others", [False, True])
def test_episode_before_whole_days_of_silence_ends_as_in_a_whole_history(
    silent_days: int, is_known_to_others: bool
) -> None:
    """The agent of the group is away from 23:40 on; another group's agent may write meanwhile."""
    members = trio()
    stuck, *others = members
    rebalance(members, START_AT + 100, S.NEW_MEMBER, 3.0)
    at = START_AT + DAY_S - 1_200
    stuck.move(at, S.SUBSCRIPTION_CHANGED)
    for member in others:
        member.move(at + 1, S.COORDINATOR_REQUESTED)
        member.settle(at + 5)
    stuck.status, stuck.episode, stuck.generation = 0, None, others[0].generation
    rebalance(members, START_AT + (silent_days + 1) * DAY_S + 3_600, S.METADATA_CHANGED, 4.0)
    other = Client(group="other", client_id="o")
    for day in range(silent_days + 2):
        if is_known_to_others or day in {0, silent_days + 1}:
            other.record(START_AT + day * DAY_S + 80_000, agent="agent-2", kind=SampleKind.SAMPLE)
    own = [record for member in members for record in member.written]
    found = by_days([*own, *other.written])
    assert [*map(outline, found)] == [*map(outline, analyze(own).incidents)]


def test_episode_before_more_than_a_week_of_silence_is_counted_once_without_its_end() -> None:
    (stuck,) = members = trio()[:1]
    rebalance(members, START_AT + 100, S.NEW_MEMBER, 3.0)
    stuck.move(START_AT + DAY_S - 1_200, S.SUBSCRIPTION_CHANGED)
    other = Client(group="other", client_id="o")
    for day in range(20):
        other.record(START_AT + day * DAY_S + 80_000, agent="agent-2", kind=SampleKind.SAMPLE)
    records = [*stuck.written, *other.written]
    assert [each.is_ongoing for each in by_days(records)] == [False, True]


@pytest.mark.parametrize("began", [True, False])
@pytest.mark.parametrize("hours", [0.2, 10.0, 20.0])
@pytest.mark.parametrize("back", ["goes on", "joins", "rebalances"])
def test_episode_of_an_agent_that_is_silent_over_midnight_is_as_in_a_whole_history(
    *, began: bool, hours: float, back: str
) -> None:
    """Another agent of the group writes all the time; the member's own is back ``hours`` later."""
    members = trio()
    member, *others = members
    rebalance(members, START_AT + 100, S.NEW_MEMBER, 3.0)
    at = START_AT + DAY_S - 1_200
    first, second = (member, others[0]) if began else (others[0], member)
    first.move(at, S.SUBSCRIPTION_CHANGED)
    for each in (second, others[1]):
        each.move(at + 1, S.COORDINATOR_REQUESTED)
    for each in others:
        each.settle(at + 5)
    end = START_AT + DAY_S + hours * 3_600
    if hours > 1:
        rebalance(others, START_AT + DAY_S + 3_600, S.METADATA_CHANGED, 4.0)
    if back == "goes on":
        member.generation = others[0].generation - 1
        member.settle(end)
    else:
        member.status, member.episode, member.generation = 0, None, others[0].generation
        cause = S.NEW_MEMBER if back == "joins" else S.METADATA_CHANGED
        rebalance([member, *others], end, cause, 4.0)
    for minute in range(0, 3 * 1_440, 5):
        others[0].sample(START_AT + minute * 60)
    records = [
        msgspec.structs.replace(record, agent="agent-2" if each is member else "agent-1")
        for each in members
        for record in each.written
    ]
    assert [*map(outline, by_days(records))] == [*map(outline, analyze(records).incidents)]
    assert [*map(seen, rebalances_by_days(records))] == [*map(seen, whole(records))]


@pytest.mark.parametrize("idle_rounds", [1, 4, 9])
def test_restart_of_a_member_without_part_in_the_last_rebalances_is_one(idle_rounds: int) -> None:
    """A rebalance of a consumer group need not touch all: who is there is known from older ones."""
    idle, *others = members = trio()
    rebalance(members, START_AT + 100, S.NEW_MEMBER, 3.0)
    for n in range(idle_rounds):
        rebalance(others, START_AT + 20_000 + 40_000 * n, S.SUBSCRIPTION_CHANGED, 3.0)
    at = START_AT + 40_000 * idle_rounds + 60_000
    before = {each.id for each in idle.written}
    idle.generation = others[0].generation
    idle.move(at, S.NEW_MEMBER, "transitioned from UNSUBSCRIBED to JOINING")
    idle.settle(at + 1)
    others[0].move(at + 0.5, S.COORDINATOR_REQUESTED)
    others[0].settle(at + 2)
    new = {each.id for each in idle.written} - before
    records = [
        msgspec.structs.replace(
            each,
            group_type="consumer",
            member_id="new" if each.id in new else f"{each.client_id}-old",
        )
        for each in alive(others, 8) + idle.written
    ]
    found, wanted = by_days(records), analyze(records).incidents
    assert [*map(outline, found)] == [*map(outline, wanted)]
    assert found[-1].kind is IncidentKind.RESTART
