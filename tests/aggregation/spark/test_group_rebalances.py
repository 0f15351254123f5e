"""Whole rebalances of a group and who began them."""

from collections import Counter
from datetime import date

import pytest

from aggregation.spark.group_rebalances import busy_days, group_rebalances
from aggregation.spark.rollups import Period, episodes, links
from metrics.sample import Outcome, Sample, SampleKind, Scope
from metrics.status import RebalanceStatus as S
from tests.aggregation.spark.conftest import Frame
from tests.aggregation.spark.histories import DAY_S, START_AT, Client, fleet, rebalance

pytestmark = pytest.mark.spark

Found = list[tuple[int | None, str | None, int, float]]


def found(frame: Frame, *members: Client) -> Found:
    """Return cause, trigger, number of members and seconds of each rebalance."""
    records = frame([sample for member in members for sample in member.written])
    rows = group_rebalances(episodes(links(records)), records).orderBy("started_at").collect()
    return [(row.cause, row.client_id, row.members, row.seconds) for row in rows]


def two() -> tuple[Client, Client]:
    return Client(group="g", client_id="a"), Client(group="g", client_id="b")


def test_causes_of_a_week_are_what_was_done(frame: Frame) -> None:
    week = fleet(3, sampled_every_s=86_400)
    records = frame([s for s in week.samples if s.kind is not SampleKind.SAMPLE])
    rows = group_rebalances(episodes(links(records)), records).collect()
    assert week.causes == Counter((row.group, row.cause) for row in rows)


def test_leave_and_those_who_notice_it_later_are_one(frame: Frame) -> None:
    leaver, other = two()
    leaver.move(START_AT, S.USER_REQUESTED)
    leaver.settle(START_AT, Outcome.LEFT)
    other.move(START_AT + 2.9, S.COORDINATOR_REQUESTED)
    other.settle(START_AT + 6)
    assert found(frame, leaver, other) == [(6, "a", 2, 6.0)]


def test_dropped_member_does_not_tie_hours_together(frame: Frame) -> None:
    dropped, other = two()
    dropped.move(START_AT, S.DROPPED_GROUP)
    for at in (START_AT + 2, START_AT + 1800):
        other.move(at, S.COORDINATOR_REQUESTED)
        other.settle(at + 3)
    dropped.settle(START_AT + 7200)
    assert found(frame, dropped, other) == [(5, "a", 2, 5.0), (None, None, 1, 3.0)]


def test_masked_cause_can_be_the_trigger(frame: Frame) -> None:
    hidden, other = two()
    hidden.move(START_AT, S.DROPPED_GROUP)
    hidden.record(START_AT + 600, kind=SampleKind.SIGNAL, from_=5, to=S.NEW_MEMBER)
    other.move(START_AT + 602, S.COORDINATOR_REQUESTED)
    other.settle(START_AT + 605)
    assert found(frame, hidden, other)[1] == (S.NEW_MEMBER, "a", 1, 3.0)


def test_masked_cause_alone_is_no_rebalance(frame: Frame) -> None:
    lonely, _ = two()
    lonely.record(START_AT, kind=SampleKind.SIGNAL, from_=0, to=S.NEW_MEMBER)
    assert found(frame, lonely) == []


def test_consequences_alone_leave_the_cause_unseen(frame: Frame) -> None:
    one, other = two()
    one.move(START_AT, S.COORDINATOR_REQUESTED)
    one.move(START_AT + 3, S.REVOCATION_NEEDED)
    other.move(START_AT + 1, S.RETRY_ON_ERROR)
    one.settle(START_AT + 4)
    other.settle(START_AT + 4)
    assert found(frame, one, other) == [(None, None, 2, 4.0)]


def test_probing_rebalance_of_streams_is_eleven_and_names_no_user(frame: Frame) -> None:
    thread = Client(group="g", client_id="a-StreamThread-1-consumer")
    instance = Client(group="g", client_id="a", scope=Scope.STREAMS)
    instance.move(START_AT, S.ASSIGNMENT_PROBING)
    thread.move(START_AT + 600, 6, "triggered followup rebalance scheduled for 1763942400000")
    thread.settle(START_AT + 602)
    instance.settle(START_AT + 602)
    assert [(11, thread.client_id, 1, 2.0)] == found(frame, thread, instance)


def test_immediate_follow_up_belongs_to_what_ran(frame: Frame) -> None:
    thread = Client(group="g", client_id="a-StreamThread-1-consumer")
    instance = Client(group="g", client_id="a", scope=Scope.STREAMS)
    thread.move(START_AT, S.NEW_MEMBER)
    instance.move(START_AT, S.NEW_MEMBER)
    thread.settle(START_AT + 3)
    instance.move(START_AT + 3, S.REVOCATION_NEEDED)
    thread.move(START_AT + 3.2, 6, "triggered followup rebalance scheduled for 0")
    thread.settle(START_AT + 5)
    instance.settle(START_AT + 5)
    assert [(2, thread.client_id, 1, 5.0)] == found(frame, thread, instance)


def test_groups_of_two_clusters_are_two(frame: Frame) -> None:
    one, other = Client(group="g", client_id="a"), Client(group="g", client_id="b", cluster="us")
    for member in (one, other):
        member.move(START_AT, S.NEW_MEMBER)
        member.settle(START_AT + 1)
    assert len(found(frame, one, other)) == 2


def test_midnight_splits_time_but_not_the_rebalance(frame: Frame) -> None:
    one, other = two()
    rebalance([one, other], START_AT + DAY_S - 2, S.NEW_MEMBER, 5.0)
    records = frame(one.written + other.written)
    whole = group_rebalances(episodes(links(records)), records)
    days = busy_days(whole, Period(date(2025, 11, 24), date(2025, 11, 25))).collect()
    assert {date(2025, 11, 24): 2.0, date(2025, 11, 25): 3.0} == {r.day: r.seconds for r in days}
    assert whole.count() == 1


def test_reason_of_the_trigger_is_kept(frame: Frame) -> None:
    one, _ = two()
    written: list[Sample] = [one.move(START_AT, S.UNKNOWN_MEMBER, "expired"), one.settle(START_AT)]
    records = frame(written)
    (row,) = group_rebalances(episodes(links(records)), records).collect()
    assert (row.reason, row.host, row.gravest) == ("expired", "pod-1", 3)
