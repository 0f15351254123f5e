import gc
import json

import pytest
from msgspec.structs import replace

from aggregation.rebalances.counter import SETTLE_S, CompletedRebalances, record
from aggregation.rebalances.rebalances import ExplainedRebalance
from metrics.model.sample import EpisodeRecord, Sample, encode
from metrics.model.signals import Member, SignalKind
from metrics.model.snapshot import RebalanceKey
from tests.aggregation.rebalances.test_rebalances import START, A, B, C, left, records, round_of
from tests.metrics.given import raised, signal, synced

LEAVE = [left(100.0, A, "closed"), *round_of(2, 101.0, B, C)]
OPEN = raised(7, 200.0, B)
UNSEEN = round_of(2, 100.0, A, B, C)


def counted(settled: CompletedRebalances, got: list[Sample], now: float) -> list[str | None]:
    found = settled.find_completed(got, now)
    settled.count(found)
    return [record(each).status for each in found]


def test_counts_what_is_over_once() -> None:
    settled, got = CompletedRebalances(10), records(*START, *LEAVE)

    assert counted(settled, got, 1_000.0) == ["NewMember", "UserRequested"]
    assert counted(settled, got, 2_000.0) == []
    assert {key.status: sum(t.durations.buckets) for key, t in settled.totals().items()} == {
        "NewMember": 1,
        "UserRequested": 1,
    }


def test_end_of_a_group_is_no_rebalance() -> None:
    """The last member leaves, and nobody is there who could rebalance because of it."""
    settled = CompletedRebalances(10)
    ends = [left(at, member, "closed") for at, member in ((200.0, B), (300.0, C))]
    got = records(*START, *LEAVE, ends[0], *round_of(3, 201.0, C), ends[1])

    assert counted(settled, got, 1_000.0) == ["NewMember", "UserRequested", "UserRequested"]
    assert counted(settled, got, 2_000.0) == []


def test_waits_for_late_records() -> None:
    settled, got = CompletedRebalances(10), records(*START, *LEAVE)

    assert counted(settled, got, 101.5 + SETTLE_S - 0.1) == ["NewMember"]
    assert counted(settled, got, 101.5 + SETTLE_S) == ["UserRequested"]


@pytest.mark.parametrize("begins_at", [100.0, 99.123456])
@pytest.mark.parametrize("generation", [1, 3])
def test_what_begins_no_later_and_settles_later_is_counted_too(
    begins_at: float, generation: int
) -> None:
    settled = CompletedRebalances(10)
    quick, slow = (replace(member, group_type="consumer") for member in (A, B))
    begun = [
        raised(7, 100.0, quick),
        signal(SignalKind.SYNC, 100.5, quick, generation=2),
        raised(8, begins_at, slow),
    ]
    got = records(*begun, signal(SignalKind.SYNC, 160.0, slow, generation=generation))

    assert counted(settled, records(*begun), 140.0) == ["MetadataChanged"]
    assert counted(settled, records(*begun), 150.0) == []
    assert counted(settled, got, 200.0) == ["SubscriptionChanged"]
    assert counted(settled, got, 300.0) == []


def test_what_was_under_way_and_takes_a_counted_one_in_is_not_counted_again() -> None:
    settled = CompletedRebalances(10)
    begun = [
        raised(8, 99.0, B),
        raised(7, 100.0, A),
        signal(SignalKind.SYNC, 100.5, A, generation=2),
    ]
    got = records(*begun, signal(SignalKind.SYNC, 160.0, B, generation=3))

    assert counted(settled, records(*begun), 140.0) == ["MetadataChanged"]
    assert counted(settled, got, 200.0) == []
    assert len(CompletedRebalances(10).find_completed(got, 200.0)) == 1


def test_what_is_counted_is_remembered_only_while_something_is_under_way() -> None:
    settled = CompletedRebalances(10)
    quick, slow = (replace(member, group_type="consumer") for member in (A, B))
    begun = [
        raised(8, 99.0, slow),
        raised(7, 100.0, quick),
        signal(SignalKind.SYNC, 100.5, quick, generation=2),
    ]
    counted(settled, records(*begun), 140.0)
    assert [len(mark.beside) for mark in settled._marks.values()] == [1]

    ended = [
        signal(SignalKind.SYNC, 160.0, slow, generation=3),
        raised(7, 500.0, quick),
        signal(SignalKind.SYNC, 500.5, quick, generation=4),
    ]
    counted(settled, records(*begun, *ended), 1_000.0)
    assert [len(mark.beside) for mark in settled._marks.values()] == [0]


def test_open_one_is_not_over() -> None:
    assert counted(CompletedRebalances(10), records(*START, OPEN), 1e6) == ["NewMember"]


def test_what_an_earlier_run_has_counted_is_skipped() -> None:
    settled, got = CompletedRebalances(10), records(*START, *LEAVE)
    settled.skip(record(each) for each in CompletedRebalances(10).find_completed(got, 50.0))

    assert counted(settled, got, 1_000.0) == ["UserRequested"]


def test_unseen_trigger_is_counted_as_unknown() -> None:
    settled = CompletedRebalances(10)
    counted(settled, records(*START, *UNSEEN), 1_000.0)

    total = settled.totals()[RebalanceKey("k", "g", "Unknown")]
    assert total.durations.sum_s == pytest.approx(0.4)
    assert total.last_s == pytest.approx(0.4)
    assert total.last_at == 100.5


def test_the_slowest_member_of_the_last_one_is_told() -> None:
    settled = CompletedRebalances(10)
    first, second = (
        (raised(2, 100.0, A), synced(100.25, A)),
        (raised(2, 100.125, B), synced(100.5, B)),
    )
    counted(settled, records(*first, *second), 1_000.0)

    (total,) = settled.totals().values()
    assert (total.last_s, total.last_at) == (0.5, 100.5)
    assert (total.last_member_s, total.last_member_at) == (0.375, 100.5)


def test_of_what_is_counted_only_figures_are_kept() -> None:
    """A rebalance holds the records of all its members, and each group has one for each cause."""
    settled = CompletedRebalances(10)
    counted(settled, records(*START, *LEAVE), 1_000.0)

    reached: dict[int, object] = {}
    waiting: list[object] = [settled]
    while waiting:
        found = gc.get_referents(*(each for each in waiting if not isinstance(each, type)))
        waiting = [each for each in found if id(each) not in reached]
        reached |= {id(each): each for each in waiting}
    assert not [each for each in reached.values() if isinstance(each, ExplainedRebalance | Sample)]


def test_groups_are_bounded_the_longest_quiet_goes() -> None:
    settled = CompletedRebalances(1)
    counted(settled, records(*START), 1_000.0)

    other = records(*round_of(1, 500.0, Member(group="h", client_id="x", origin="x")))
    counted(settled, other, 1_000.0)

    assert {key.group for key in settled.totals()} == {"h"}


def test_record_tells_all_of_it() -> None:
    settled = CompletedRebalances(10)
    (found,) = settled.find_completed(records(*START, *LEAVE), 1_000.0)[1:]

    got = record(found)

    assert (got.kind, got.scope, got.client_id, got.to) == ("episode", "group", "a", 6)
    assert (got.ts, got.ended_ts) == (
        "1970-01-01T00:01:40.000000Z",
        "1970-01-01T00:01:41.500000Z",
    )
    assert (got.certainty, got.departures, got.members) == ("seen", ["a: left"], 3)
    assert got.id == record(found).id
    assert json.loads(encode(got))["seconds"] == 1.5
    assert isinstance(got, EpisodeRecord)


def test_record_of_an_unseen_trigger_says_what_is_missing() -> None:
    (found,) = CompletedRebalances(10).find_completed(records(*START, *UNSEEN), 1_000.0)[1:]

    got = record(found)

    assert (got.status, got.to, got.client_id) == (None, 0, None)
    assert got.reason == "the member that began it: no agent sees it"


def test_joins_without_a_visible_cause_are_rebalances_of_unknown_status() -> None:
    settled = CompletedRebalances(10)
    loop = [
        each
        for number in range(2, 6)
        for each in (
            signal(SignalKind.JOIN, number * 100.0, A),
            signal(SignalKind.SYNC, number * 100.0 + 0.5, A, generation=number),
        )
    ]
    counted(settled, records(*START, *loop), 1_000.0)

    total = settled.totals()[RebalanceKey("k", "g", "Unknown")]
    assert sum(total.durations.buckets) == 4
