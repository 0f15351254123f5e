"""Order of the marks that gives the search the fewest false candidates.

Theory of operation. `ahocorasick_rs` searches for marks with SIMD. It distributes them to buckets
in their order, and compares the first four bytes of each place, half byte by half byte, with the
union of a bucket's marks. A bucket with dissimilar marks therefore also matches common words, and
each such place needs a second, slow comparison. The order here distributes the marks so that the
words below match as rarely as possible. It affects the speed only: any order finds all marks.
"""

from collections.abc import Iterable, Sequence

MARKS_AT_ONCE = 32
"""With more, the search takes twice the buckets and half of the bytes at once."""
_BUCKETS, _MANY_BUCKETS = 8, 16
_COMPARED_BYTES = 4

_EVERYDAY = (
    b" the consumer group moved to topic partition offset is stored lag request response took"
    b" select id from where handed batch of records to the rebalance of is over items a group"
    b" (com.example.orders.Order) INFO DEBUG WARN ERROR org.apache.kafka GET /api/v1/a HTTP/1.1"
    b" client member members connection timed out failed retrying number message messages user"
    b' session started stopped closed loading assigned [main] thread service created for order "ms"'
    b' {"level":"info","msg":"done","group":"consumer"} '
)
"""Words of an application's log."""


def order_marks(marks: Sequence[bytes]) -> list[bytes]:
    """Return the marks in an order for the search."""
    count = _BUCKETS if len(marks) <= MARKS_AT_ONCE else _MANY_BUCKETS
    buckets = [_Bucket(len(marks[number::count])) for number in range(count)]
    for mark in sorted(marks):
        free = (bucket for bucket in buckets if len(bucket.marks) < bucket.size)
        min(free, key=lambda each: (each.count_with(mark) - each.count, len(each.marks))).add(mark)
    rows = range(buckets[0].size)
    return [bucket.marks[row] for row in rows for bucket in buckets if row < bucket.size]


class _Bucket:
    """Marks that are compared together, and the places in the words that match them."""

    def __init__(self, size: int) -> None:
        self.size, self.count = size, 0
        self.marks: list[bytes] = []
        self._low, self._high = [0] * _COMPARED_BYTES, [0] * _COMPARED_BYTES

    def count_with(self, mark: bytes) -> int:
        """Return how many places match with one mark more."""
        matching = -1
        for place, byte in enumerate(mark[:_COMPARED_BYTES]):
            low, high = self._low[place] | _LOW[byte & 15], self._high[place] | _HIGH[byte >> 4]
            matching &= (low & high) >> place
        return matching.bit_count()

    def add(self, mark: bytes) -> None:
        """Add a mark."""
        self.count = self.count_with(mark)
        self.marks.append(mark)
        for place, byte in enumerate(mark[:_COMPARED_BYTES]):
            self._low[place] |= _LOW[byte & 15]
            self._high[place] |= _HIGH[byte >> 4]


def _index(halves: Iterable[int]) -> list[int]:
    """Return for each half byte a bit set of its places."""
    found = [0] * 16
    for place, half in enumerate(halves):
        found[half] |= 1 << place
    return found


_LOW, _HIGH = _index(byte & 15 for byte in _EVERYDAY), _index(byte >> 4 for byte in _EVERYDAY)
