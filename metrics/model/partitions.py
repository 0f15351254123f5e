"""Partitions of a member as one text: `orders:0-3,7 payments:1`.

A record of a changed assignment holds it before and after; a member of a large group has hundreds.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice

PARTITIONS_MAX = 100_000
"""Partitions of one member; a cluster has at most some times as many."""
TEXT_MAX_CHARS = 1 << 18
"""Length of a text: some thousand topics."""
_NUMBER = "[0-9]{1,10}"
_PARTITION = re.compile(f".{{1,249}}-{_NUMBER}", re.DOTALL)
"""A topic has at most 249 characters: org.apache.kafka.common.internals.Topic."""
_RANGE = re.compile(f"({_NUMBER})(?:-({_NUMBER}))?")


def format_partitions(partitions: Iterable[str]) -> str:
    """Return names such as ``orders-3`` as ranges by topic, sorted."""
    by_topic: dict[str, list[int]] = defaultdict(list)
    for name in partitions:
        topic, _, number = name.rpartition("-")
        by_topic[topic].append(int(number))
    return " ".join(
        f"{topic}:{_ranges(sorted(numbers))}" for topic, numbers in sorted(by_topic.items())
    )


def parse_partitions(text: str | None) -> Iterator[str]:
    """Yield the partitions in a text of `format_partitions`; other texts are skipped.

    Another agent's text may name a billion: only the first `PARTITIONS_MAX` count.
    """
    return islice(_parse(text or ""), PARTITIONS_MAX)


def count_partitions(text: str) -> int:
    """Return how many names `parse_partitions` yields, without making them."""
    return min(sum(len(numbers) for _, numbers in _parse_ranges(text)), PARTITIONS_MAX)


def clip_partitions(text: str) -> str:
    """Return a text of a bounded length, cut between two topics."""
    if len(text) <= TEXT_MAX_CHARS:
        return text
    return text[:TEXT_MAX_CHARS].rpartition(" ")[0]


def is_partition(name: str) -> bool:
    """Check that a text names a partition."""
    return _PARTITION.fullmatch(name) is not None


def _parse(text: str) -> Iterator[str]:
    for topic, numbers in _parse_ranges(text):
        yield from (f"{topic}-{number}" for number in numbers)


def _parse_ranges(text: str) -> Iterator[tuple[str, range]]:
    for part in text.split():
        topic, _, ranges = part.rpartition(":")
        for found in map(_RANGE.fullmatch, ranges.split(",")):
            if found is not None:
                first, last = int(found[1]), int(found[2] or found[1])
                yield topic, range(first, last + 1)


def _ranges(numbers: list[int]) -> str:
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in found)
