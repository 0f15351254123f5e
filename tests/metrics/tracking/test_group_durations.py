from collections import Counter

from metrics.model.snapshot import DURATION_BUCKETS_S, Durations, GroupKey
from metrics.tracking.group_durations import GroupDurations, GroupEntry

A, B, C = (GroupKey("k", "app", name, "classic") for name in "abc")


def filled(*indexes: int) -> tuple[int, ...]:
    buckets = [0] * (len(DURATION_BUCKETS_S) + 1)
    for index in indexes:
        buckets[index] += 1
    return tuple(buckets)


def test_group_stays_with_an_empty_histogram() -> None:
    ledger = GroupDurations(2, [], Counter())

    ledger.touch(A)

    assert ledger.durations() == {A: Durations(filled(), 0.0)}


def test_bound_of_a_bucket_is_inclusive() -> None:
    ledger = GroupDurations(2, [], Counter())

    for duration_s in (0.0, 0.1, 0.100001, 1800.0, 1800.5):
        ledger.observe(A, duration_s)

    last = len(DURATION_BUCKETS_S)
    assert ledger.durations() == {A: Durations(filled(0, 0, 1, last - 1, last), 3600.700001)}


def test_longest_unseen_group_goes_first() -> None:
    counts = Counter[str]()
    ledger = GroupDurations(2, [], counts)

    for key in (A, B, A, C):
        ledger.touch(key)

    assert [entry.key for entry in ledger.entries] == [A, C]
    assert counts["groups_evicted"] == 1


def test_group_that_is_seen_again_keeps_its_histogram() -> None:
    ledger = GroupDurations(2, [], Counter())
    ledger.observe(A, 1.0)

    entry = ledger.touch(A)

    assert entry.sum_s == 1.0


def test_smaller_bound_holds_for_restored_groups() -> None:
    counts = Counter[str]()
    ledger = GroupDurations(1, [GroupEntry(A), GroupEntry(B), GroupEntry(C)], counts)

    ledger.touch(C)

    assert [entry.key for entry in ledger.entries] == [C]
    assert counts["groups_evicted"] == 2


def test_histogram_goes_on_from_a_restored_one() -> None:
    before = GroupDurations(1, [], Counter())
    before.observe(A, 0.05)

    after = GroupDurations(1, before.entries, Counter())
    after.observe(A, 0.2)

    assert after.durations() == {A: Durations(filled(0, 1), 0.25)}
