"""Partitions of a member as one text: `orders:0-3,7 payments:1`.

A record of a changed assignment holds it before and after; a member of a large group has hundreds.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator


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
    """Yield the names of a text that `format_partitions` has made; what is none is left out."""
    for part in (text or "").split():
        topic, _, ranges = part.rpartition(":")
        for numbers in ranges.split(","):
            first, _, last = numbers.partition("-")
            if first.isdigit() and (last.isdigit() or not last):
                for number in range(int(first), int(last or first) + 1):
                    yield f"{topic}-{number}"


def is_partition(name: str) -> bool:
    """Check that a text names a partition."""
    topic, _, number = name.rpartition("-")
    return bool(topic) and number.isdecimal()


def _ranges(numbers: list[int]) -> str:
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in found)
