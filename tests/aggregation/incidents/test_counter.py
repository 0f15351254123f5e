"""Metrics of incidents: costs that grow, failed joins, the end of the last rebalance."""

import dataclasses

import pytest
from msgspec.structs import replace

from aggregation.incidents.amounts import LATE_S, Contribution, GrowingTotals
from aggregation.incidents.counter import MAX_ERRORS, OTHER_ERROR, REFRESH_S, IncidentCounts
from aggregation.incidents.incidents import analyze, split_by_group
from aggregation.incidents.model import RebalanceSpan
from aggregation.incidents.planning import is_planned
from aggregation.incidents.records import IncidentRecord, make_record
from metrics.model.signals import Member, Signal, SignalKind
from metrics.model.snapshot import GroupName, IncidentKey, IncidentTotals
from tests.aggregation.incidents.invented import read
from tests.aggregation.incidents.invented import records as invented
from tests.aggregation.incidents.test_incidents import reads
from tests.aggregation.rebalances.test_rebalances import (
    NEW,
    START,
    A,
    B,
    C,
    left,
    records,
    round_of,
)
from tests.metrics.given import raised, signal

G = GroupName("k", "g")
READS = [reads(1.0, A, "t-0", "t-1"), reads(1.0, B, "t-2")]
STUCK = [
    raised(5, 100.0, A, reason="poll interval expired"),
    raised(1, 100.1, B),
    raised(1, 100.2, C),
]
DONE = [
    signal(SignalKind.SYNC, 110.0, B, generation=2),
    signal(SignalKind.SYNC, 110.0, C, generation=2),
    reads(110.5, B, "t-0", "t-2"),
    reads(110.5, C, "t-1"),
]


def look(counts: IncidentCounts, now: float, *signals: Signal) -> IncidentTotals:
    """Update twice, with enough time between for late records, and return the metrics."""
    for at in (now, now + LATE_S):
        analysis = analyze(records(*START, *signals), lambda _: now, now)
        names = {each.ref.group for each in analysis.incidents}
        counts.update(names, split_by_group(analysis), at)
    return counts.totals()


def test_unread_time_grows_while_nobody_reads_and_then_stops() -> None:
    counts = IncidentCounts(10)

    assert look(counts, 103.0, *READS, *STUCK).unread_s == {G: 2 * 3.0}
    assert look(counts, 109.0, *READS, *STUCK).unread_s == {G: 2 * 9.0}
    assert look(counts, 120.0, *READS, *STUCK, *DONE).unread_s == {G: 2 * 10.5}
    assert look(counts, 9_000.0, *READS, *STUCK, *DONE).unread_s == {G: 2 * 10.5}


def test_totals_are_the_sums_of_what_explain_shows() -> None:
    signals = [
        *READS,
        *STUCK,
        *DONE,
        left(900.0, C),
        *round_of(3, 901.0, A, B),
        reads(902.0, A, "t-1"),
    ]
    found = analyze(records(*START, *signals), None, 5_000.0).incidents
    totals = look(IncidentCounts(10), 5_000.0, *signals)

    assert len(found) >= 3
    assert totals.unread_s[G] == sum(i.cost.unread_partition_seconds or 0 for i in found)
    assert totals.member_s[G] == sum(i.cost.member_seconds for i in found)


def test_group_without_assignments_has_no_unread_time_but_members_time() -> None:
    totals = look(IncidentCounts(10), 105.0, *STUCK)

    assert totals.unread_s == {}
    assert totals.member_s[G] > 0


def test_ongoing_incident_is_due_soon_while_it_is_young() -> None:
    counts = IncidentCounts(10)
    look(counts, 103.0, *STUCK)
    at = 103.0 + LATE_S

    assert counts.due(at + 0.9) == set()
    assert counts.due(at + 1.0) == {"g"}
    look(counts, 9_000.0, *STUCK)
    assert counts.due(9_000.0 + LATE_S + REFRESH_S) == {"g"}


def test_what_an_earlier_run_recorded_is_not_counted_again() -> None:
    signals = [*READS, *STUCK, *DONE, *round_of(3, 120.0, A, B, C, causes={"a": NEW})]
    found, before = records(*START, *signals), IncidentCounts(10)
    new = before.update({"g"}, split_by_group(analyze(found, None, 9_000.0)), 9_000.0)
    after = IncidentCounts(10)
    after.skip(make_record(incident, found[-1]) for incident in new)

    totals = look(after, 9_001.0, *signals)

    assert all(isinstance(make_record(incident, found[-1]), IncidentRecord) for incident in new)
    assert (totals.unread_s.get(G, 0.0), totals.member_s.get(G, 0.0)) == (0.0, 0.0)


def test_recent_incident_has_its_kind_at_once_until_it_is_final() -> None:
    counts, leave = IncidentCounts(10), [left(1_000.0, A), *round_of(2, 1_001.0, B, C)]
    key = IncidentKey("k", "g", "member_left")

    assert look(counts, 1_002.0, *leave).recent[key] == 1
    assert look(counts, 1_500.0, *leave).recent[key] == 1
    assert look(counts, 9_000.0, *leave).recent[key] == 0


def test_recent_incident_that_nobody_wanted_is_unplanned() -> None:
    counts, deploy = IncidentCounts(10), IncidentCounts(10)
    leave = [left(1_000.0, A), *round_of(2, 1_001.0, B, C)]

    assert look(counts, 103.0, *STUCK).unplanned == {G: 1}
    assert look(deploy, 1_002.0, *leave).unplanned == {G: 0}


@pytest.mark.parametrize(("name", "number"), [("restart-before-expiry", 1), ("surge-rollout", 0)])
def test_a_restart_is_planned_as_the_report_has_it(name: str, number: int) -> None:
    """A killed process that is back did not leave by itself."""
    counts, now = IncidentCounts(10), read(name)["now"]
    analysis = analyze(invented(name), now=now)
    counts.update({"g"}, split_by_group(analysis), now)

    assert counts.totals().unplanned[G] == number
    assert sum(not is_planned(each) for each in analysis.incidents) == number


def test_failed_joins_are_counted_by_error_at_once() -> None:
    counts = IncidentCounts(10)
    errors = failures("INCONSISTENT_GROUP_PROTOCOL", 100.0, 105.0)

    totals = look(counts, 106.0, *errors)

    assert {(*key,): n for key, n in totals.join_failures.items()} == {
        ("k", "g", "INCONSISTENT_GROUP_PROTOCOL"): 2
    }
    more = failures("INCONSISTENT_GROUP_PROTOCOL", 100.0, 105.0, 110.0)
    assert list(look(counts, 111.0, *more).join_failures.values()) == [3]


def test_names_of_errors_are_bounded() -> None:
    names = [f"ERROR_{chr(65 + number)}" for number in range(MAX_ERRORS + 3)]
    errors = [each for at, name in enumerate(names) for each in failures(name, 1_000.0 * (at + 1))]

    totals = look(IncidentCounts(10), 99_000.0, *errors)

    counted = {key.error: number for key, number in totals.join_failures.items()}
    assert len(counted) == MAX_ERRORS + 1
    assert counted[OTHER_ERROR] == 3


def test_end_of_the_last_rebalance_is_known_at_once_and_never_falls() -> None:
    counts = IncidentCounts(10)

    assert look(counts, 50.0).last_ends == {G: 0.5}
    leave = [left(100.0, A), *round_of(2, 101.0, B, C)]
    assert look(counts, 102.0, *leave).last_ends == {G: 101.5}
    assert look(counts, 103.0).last_ends == {G: 101.5}


def test_groups_are_bounded_the_longest_quiet_goes() -> None:
    counts = IncidentCounts(1)
    other = round_of(1, 500.0, Member(cluster="k", group="h", client_id="x", origin="x"))
    look(counts, 5_000.0)
    look(counts, 5_000.0, *other)

    totals = counts.totals()
    assert {key.group for key in totals.final} == {"h"}
    assert [name.group for name in totals.last_ends] == ["h"]
    assert IncidentKey("k", "g", "member_joined") not in totals.final


class TestGrowingTotals:
    def test_an_incident_whose_records_are_evicted_stays_counted(self) -> None:
        totals = GrowingTotals[str]()
        _update(totals, 10.0, a=_adds(1.0, 5.0), b=_adds(2.0, 2.0))
        _update(totals, 20.0, oldest=1.5, b=_adds(2.0, 3.0))

        assert totals.totals == {"x": 8.0}

    def test_the_rest_of_a_half_evicted_incident_is_not_counted_twice(self) -> None:
        totals = GrowingTotals[str]()
        _update(totals, 10.0, a=_adds(1.0, 5.0))
        _update(totals, 20.0, oldest=3.0, rest=_adds(4.0, 2.0))
        assert totals.totals == {"x": 5.0}

        _update(totals, 30.0, oldest=3.0, rest=_adds(4.0, 3.0))
        assert totals.totals == {"x": 6.0}

    def test_a_correction_never_lets_a_counter_fall(self) -> None:
        totals = GrowingTotals[str]()
        _update(totals, 10.0, a=_adds(1.0, 5.0))
        _update(totals, 20.0, a=_adds(1.0, 4.0))

        assert totals.totals == {"x": 5.0}

    def test_what_is_corrected_at_once_was_never_shown(self) -> None:
        totals = GrowingTotals[str]()
        totals.update({"guess": _adds(1.0, 50.0)}, 10.0)
        totals.update({"right": _adds(2.0, 1.0)}, 10.0 + LATE_S / 2)
        assert totals.totals == {"x": 0.0}

        totals.update({"right": _adds(2.0, 1.0)}, 10.0 + LATE_S)
        assert totals.totals == {"x": 1.0}

    def test_is_due_as_long_as_more_is_to_be_shown(self) -> None:
        totals = GrowingTotals[str]()
        totals.update({"a": _adds(1.0, 5.0)}, 10.0)
        assert totals.due_at == 10.0 + LATE_S

        totals.update({"a": _adds(1.0, 5.0)}, 10.0 + LATE_S)
        assert totals.due_at == float("inf")


def _update(
    totals: GrowingTotals[str],
    now: float,
    *,
    oldest: float = float("-inf"),
    **found: Contribution[str],
) -> None:
    for at in (now, now + LATE_S):
        totals.update(found, at, oldest)


def _adds(started_at: float, amount: float) -> Contribution[str]:
    return Contribution(started_at, {"x": amount})


def failures(error: str, *times: float) -> list[Signal]:
    d = replace(A, client_id="d", origin="d", host="h-d")
    reason = f"JoinGroup answered {error}"
    return [signal(SignalKind.FAIL, at, d, reason=reason) for at in times]


def test_record_of_a_loop_has_the_rebalances_of_both_ends() -> None:
    """A worker of Connect joins hundreds of times a second; a topic takes a message of 1 MiB."""
    found = records(*START, *READS, *STUCK, *DONE)
    (incident, *_) = analyze(found, None, 9_000.0).incidents
    spans = tuple(
        RebalanceSpan(
            id=str(number),
            started_at=100.0 + number,
            ended_at=100.0 + number,
            is_open=False,
            generations=(number,),
            status=None,
        )
        for number in range(1_200)
    )

    kept = make_record(
        dataclasses.replace(incident, rebalances=spans), found[-1]
    ).incident.rebalances

    assert [each.episode for each in kept] == [str(n) for n in (*range(500), *range(700, 1_200))]
