"""The order in which the search takes marks."""

import pytest

from agent.sources.lines.dialect_loader import choose_dialects, load_broker_dialects
from agent.sources.lines.dialect_matcher import Dialects
from agent.sources.lines.mark_order import MARKS_AT_ONCE, order_marks

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


def test_everyday_lines_have_hardly_any_candidates() -> None:
    marks = sorted({mark for matcher in _CLIENTS.matchers for mark in matcher.marks})
    text = (
        b"INFO the consumer group payments reads topic orders, partition 3 of 6, offset 4711\n"
        b"WARN a rebalance of the group took 3 s; consumers of the topic wait for partitions\n"
        b'INFO {"topic": "orders", "partition": 3, "offset": 1, "consumer": "c", "state": "ok"}\n'
    )

    assert _count_candidates(order_marks(marks), text) <= 2
    assert _count_candidates(marks, text) > 2
