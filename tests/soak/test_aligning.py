from collections.abc import Sequence
from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from tests.soak.aligning import differences, in_common

_CODES = st.lists(st.sampled_from([0, 1, 2, 10]), max_size=12)


def _by_definition(one: Sequence[int], other: Sequence[int]) -> int:
    @cache
    def longest(i: int, j: int) -> int:
        if i == len(one) or j == len(other):
            return 0
        met = longest(i + 1, j + 1) + 1 if one[i] == other[j] else 0
        return max(met, longest(i + 1, j), longest(i, j + 1))

    return longest(0, 0)


@given(_CODES, _CODES)
def test_as_many_as_by_definition(one: list[int], other: list[int]) -> None:
    assert in_common(one, other) == _by_definition(one, other)


@given(_CODES, _CODES)
def test_without_the_differences_both_are_the_same(one: list[int], other: list[int]) -> None:
    rest, there = [*map(str, one)], [*map(str, other)]
    for part, part_there in reversed([*differences(one, other)]):
        del rest[part], there[part_there]

    assert rest == there
    assert len(rest) == in_common(one, other)


def test_a_difference_among_many_that_look_alike_is_where_it_is() -> None:
    wanted, found = [0, 1] * 50 + [0, 2] + [0, 1] * 50, [0, 1] * 50 + [2] + [0, 1] * 50

    assert [*differences(wanted, found)] == [(slice(100, 101), slice(100, 100))]
