"""Ages of unread records, from leaders that know the timestamp of each offset."""

import asyncio
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate

from hypothesis import example, given
from hypothesis import strategies as st

from agent.inspection.end_offsets import TimedOffset, TimedOffsets, Times
from agent.inspection.time_lag import ROUNDS, Unread, read_time_lags

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


class Leaders:
    """Leaders of the topic `t`; each partition has timestamps from the offset `start` on."""

    def __init__(self, times: Mapping[int, Sequence[int]], start: int = 0) -> None:
        self._times, self._start = times, start
        self.requests = 0

    async def find(self, wanted: Times) -> TimedOffsets:
        self.requests += 1
        return {
            topic: {
                number: self._first(self._times[number], at)
                for number, at in times.items()
                if number in self._times
            }
            for topic, times in wanted.items()
        }

    def _first(self, times: Sequence[int], at: int) -> TimedOffset:
        place = bisect_left(times, at)
        if place == len(times):
            return TimedOffset(-1, -1)
        return TimedOffset(self._start + place, times[place])


def ages(leaders: Leaders, *unread: Unread) -> list[float | None]:
    found = asyncio.run(read_time_lags(leaders, unread, NOW_MS))  # type: ignore[arg-type]
    return [found.get(each) for each in unread]


def steady(count: int) -> list[int]:
    """Return the times of a stream that began an hour ago."""
    return [NOW_MS - HOUR_MS + n * HOUR_MS // count for n in range(count)]


@given(
    gaps=st.lists(st.integers(min_value=0, max_value=50_000_000), min_size=1, max_size=200),
    chosen=st.integers(min_value=0),
)
@example(gaps=[0] * 50, chosen=20)
@example(gaps=[1] * 199 + [50_000_000], chosen=100)
def test_it_is_the_age_of_the_first_unread_record_or_a_little_more(
    gaps: list[int], chosen: int
) -> None:
    after = list(accumulate(reversed(gaps)))
    times = [NOW_MS - age for age in reversed(after)]
    offset = chosen % len(times)
    leaders = Leaders({0: times})

    (age_s,) = ages(leaders, Unread("g", "t", 0, offset, len(times)))

    true_s = (NOW_MS - times[offset]) / 1000
    assert age_s is not None
    assert true_s <= age_s <= max(true_s + 1, true_s / 0.95)
    assert leaders.requests <= ROUNDS


def test_a_steady_stream_needs_few_requests() -> None:
    leaders = Leaders({0: steady(10_000)})

    (age_s,) = ages(leaders, Unread("g", "t", 0, 5_000, 10_000))

    assert age_s is not None
    assert abs(age_s - 1800) <= 90
    assert leaders.requests <= 4


def test_records_that_are_deleted_do_not_count() -> None:
    leaders = Leaders({0: [NOW_MS - 5_000]}, start=100)

    assert ages(leaders, Unread("g", "t", 0, 7, 101)) == [5.0]


def test_a_partition_without_timestamps_or_without_a_leader_is_left_out() -> None:
    leaders = Leaders({0: []})

    unread = (Unread("g", "t", 0, 0, 3), Unread("g", "t", 1, 0, 3))
    assert ages(leaders, *unread) == [None, None]


def test_a_request_has_each_partition_of_several_groups_once() -> None:
    leaders = Leaders({0: [NOW_MS - 9_000, NOW_MS - 5_000]})

    unread = (Unread("a", "t", 0, 0, 2), Unread("b", "t", 0, 1, 2))
    found = ages(leaders, *unread)
    assert found[0] == 9.0
    assert found[1] == 5.0


def test_a_record_of_the_future_has_no_age() -> None:
    leaders = Leaders({0: [NOW_MS - 9_000, NOW_MS + 5_000]})

    assert ages(leaders, Unread("g", "t", 0, 1, 2)) == [0.0]
