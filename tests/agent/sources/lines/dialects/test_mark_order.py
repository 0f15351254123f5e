"""The order of the marks in the search."""

import pytest

from agent.sources.lines.dialects.dialect_loader import choose_dialects, load_broker_dialects
from agent.sources.lines.dialects.dialect_matcher import Dialects
from agent.sources.lines.dialects.mark_order import MARKS_AT_ONCE, order_marks

_CLIENTS, _BROKERS = choose_dialects("auto"), Dialects(all=load_broker_dialects())


@pytest.mark.parametrize("dialects", [_CLIENTS, _BROKERS])
def test_every_mark_is_searched_once(dialects: Dialects) -> None:
    marks = {mark for matcher in dialects.matchers for mark in matcher.marks}

    assert sorted(order_marks(list(marks))) == sorted(marks)


def test_the_marks_of_all_clients_are_few_enough_for_the_wide_search() -> None:
    """One more halves the speed for each log: choose a mark that several dialects share."""
    marks = {mark for matcher in _CLIENTS.matchers for mark in matcher.marks}

    assert len(marks) <= MARKS_AT_ONCE


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 33, 64])
def test_any_number_of_marks_has_an_order(count: int) -> None:
    marks = [f"mark {number:02}".encode() for number in range(count)]

    assert sorted(order_marks(marks)) == marks


def _count_candidates(marks: list[bytes], text: bytes) -> int:
    """Return how many places of a text match a bucket, in each half of each byte."""
    count = 0
    for number in range(8):
        begins = [mark[:4] for mark in marks[number::8]]
        low = [{begin[place] & 15 for begin in begins} for place in range(4)]
        high = [{begin[place] >> 4 for begin in begins} for place in range(4)]
        count += sum(
            all(text[at + p] & 15 in low[p] and text[at + p] >> 4 in high[p] for p in range(4))
            for at in range(len(text) - 3)
        )
    return count


def test_everyday_lines_have_fewer_candidates_in_this_order() -> None:
    marks = sorted({mark for matcher in _CLIENTS.matchers for mark in matcher.marks})
    text = b"".join(
        b"INFO Order %d of group %d moved to topic orders (com.example.orders.OrderService)\n"
        b"DEBUG consumer offset %d of partition %d is stored (com.example.cache.OffsetStore)\n"
        b"WARN Slow query took %d ms: select id from partition %d (com.example.Pool)\n"
        b"INFO The rebalance of shelf %d is over: %d items a group (com.example.shelf.Rebalancer)\n"
        % (number, 7, number, 7, 7, number, 7, number)
        for number in range(5)
    )

    ordered, sorted_only = (_count_candidates(each, text) for each in (order_marks(marks), marks))

    assert ordered < sorted_only / 2
