"""Spans in which a group, or a topic of it, has members that read. Pure.

Theory of operation. A group lives while one of its members has partitions, or while it rebalances:
in an eager rebalance nobody has any. A group without both for more than `GONE_S` has gone. A topic
is read while a member has one of its partitions: then the coordinator has assigned all of them.

Source: incidents.md 1a.8.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from math import inf
from typing import NamedTuple

from aggregation.incidents.attributes import Ownership

_Key = tuple[str, ...]
GONE_S = 600.0
"""A group without members for longer has ended: its unread partitions cost nothing."""


class LivingSpan(NamedTuple):
    """A span of time, in Unix seconds."""

    since: float
    until: float


class Readers:
    """Owners of a group's partitions over time."""

    def __init__(
        self, changes: Iterable[Ownership], rounds: Iterable[LivingSpan], now: float
    ) -> None:
        """Read the changes of all members, in the order of time, and the spans of rebalances."""
        owned: dict[_Key, frozenset[str]] = {}
        members: dict[str, set[_Key]] = defaultdict(set)
        self._changes: dict[str, list[tuple[float, int]]] = defaultdict(list)
        of_group = self._of_group = list[tuple[float, int]]()
        self._arrivals = list[float]()
        owners = set[_Key]()
        for at, member, partitions, _ in changes:
            topics = frozenset(each.rpartition("-")[0] for each in partitions)
            for topic in owned.get(member, frozenset()) ^ topics:
                _set(members[topic], member, is_in=topic in topics)
                self._changes[topic].append((at, len(members[topic])))
            if member not in owned:
                self._arrivals.append(at)
            owned[member] = topics
            _set(owners, member, is_in=bool(topics))
            of_group.append((at, len(owners)))
        ends = [*(at for at, _ in of_group[1:]), inf]
        lives = [
            LivingSpan(at, until)
            for (at, number), until in zip(of_group, ends, strict=False)
            if number
        ]
        spans = sorted([*lives, *rounds])
        self._gone = [*_find_gone(spans, now)]
        self._begins = [each.since for each in spans]
        self._ends = [*accumulate((each.until for each in spans), max)]

    def has_reader(self, topic: str, at: float) -> bool:
        """Check whether a member has partitions of a topic at an instant."""
        return _is_positive(self._changes.get(topic, []), at)

    def has_owner(self, at: float) -> bool:
        """Check whether a member has partitions at an instant."""
        return _is_positive(self._of_group, at)

    def has_arrival(self, since: float, until: float) -> bool:
        """Check whether a member had partitions for the first time within a span."""
        index = bisect_right(self._arrivals, since)
        return index < len(self._arrivals) and self._arrivals[index] <= until

    def lived_until(self, at: float) -> float:
        """Return the last instant, up to this one, at which the group lived."""
        index = bisect_right(self._begins, at)
        return min(at, self._ends[index - 1]) if index else at

    def gone_at(self, since: float, until: float) -> float | None:
        """Return when the group had gone first within a span; None: it lived on."""
        found = (each.since for each in self._gone if each.until > since and each.since < until)
        return next(found, None)


def _is_positive(changes: Sequence[tuple[float, int]], at: float) -> bool:
    index = bisect_right(changes, at, key=lambda each: each[0])
    return index > 0 and changes[index - 1][1] > 0


def _set(members: set[_Key], member: _Key, *, is_in: bool) -> None:
    (members.add if is_in else members.discard)(member)


def _find_gone(lives: Sequence[LivingSpan], now: float) -> Iterator[LivingSpan]:
    """Yield the spans of more than `GONE_S` in which no member had partitions or rebalanced.

    ``lives`` are in the order of time.
    """
    until = -inf
    for each in lives:
        if each.since - until > GONE_S:
            yield LivingSpan(until, each.since)
        until = max(until, each.until)
    if now - until > GONE_S:
        yield LivingSpan(until, inf)
