"""Topics that grew during a rebalance, from the members' partitions before and after it. Pure.

The new protocols have no code for changed metadata: the coordinator computes another assignment,
and its members see only that. If the known members own all partitions of each topic before and
after a rebalance, no unknown member owns any, so an additional partition is new.

Source: incidents.md 1a.9.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from aggregation.incidents.attributes import Attributes
from aggregation.rebalances.segments import is_static

_AFTER_S = 1.0
"""A member reports its partitions a little after the end of the rebalance.

One that gives all up within this leaves, or begins the next rebalance.
"""

_STAMP_S = 0.001
"""Logs have milliseconds, traffic microseconds: the partitions in the log may have a time before
the response on the wire, which is the begin of a join without a visible cause."""

_GIVEN_UP_S = 5.0
"""A leader that rejoins for a topic revokes all; the others learn of it by a heartbeat (3 s)."""

_SESSION_S = 60.0
"""The partitions of a static member that left stay its own until its session ends: 45 s, or what
the group takes to notice."""

_Topics = dict[str, set[int]]


class TopicGrowth(NamedTuple):
    """Numbers of a topic's partitions; ``before`` is None for a new topic."""

    topic: str
    before: int | None
    after: int


def find_growth(attributes: Attributes, since: float, until: float) -> list[TopicGrowth]:
    """Return the topics that grew in a rebalance between two instants (Unix seconds), by name.

    Empty if members that no source sees may own partitions.
    """
    since -= _STAMP_S
    before = _topics_at(attributes, since, given_up_since=since - _GIVEN_UP_S)
    after = _topics_at(attributes, until + _AFTER_S, given_up_since=until)
    for partition in _owned_by_closed(attributes, since):
        topic, number = _split(partition)
        if number in after.get(topic, ()):
            before.setdefault(topic, set()).add(number)
    is_whole = before and all(map(_is_whole, (*before.values(), *after.values())))
    if not is_whole or any(not before[topic] <= after.get(topic, set()) for topic in before):
        return []
    return [
        TopicGrowth(topic, len(before[topic]) if topic in before else None, len(numbers))
        for topic, numbers in sorted(after.items())
        if _is_new(topic, numbers - before.get(topic, set()), attributes, since)
    ]


def _is_new(topic: str, numbers: set[int], attributes: Attributes, since: float) -> bool:
    """Check for a partition that nobody had before; an owner may be gone, or not know of it yet."""
    firsts = (attributes.first_owned.get(f"{topic}-{number}", since) for number in numbers)
    return any(first >= since - _AFTER_S for first in firsts)


def find_kept(attributes: Attributes, since: float, until: float) -> tuple[set[str], bool]:
    """Return the topics with the same partitions before and after a rebalance.

    The flag is true if these are all topics with all their partitions, as far as sources show.
    """
    before = _topics_at(attributes, since, given_up_since=since - _GIVEN_UP_S)
    after = _topics_at(attributes, until + _AFTER_S)
    kept = {topic for topic, numbers in before.items() if after.get(topic) == numbers}
    return kept, before == after and all(map(_is_whole, before.values()))


def _topics_at(attributes: Attributes, at: float, given_up_since: float = float("inf")) -> _Topics:
    """Return the numbers of the partitions of all members before an instant, by topic.

    If a member has given up all its partitions after ``given_up_since``, they still count.
    """
    found: _Topics = defaultdict(set)
    for changes in attributes.changes_of_member.values():
        index = bisect_left(changes, at, key=lambda each: each.at) - 1
        if index > 0 and not changes[index].owned and changes[index].at >= given_up_since:
            index -= 1
        for partition in changes[index].owned if index >= 0 else ():
            topic, number = _split(partition)
            found[topic].add(number)
    return dict(found)


def _owned_by_closed(attributes: Attributes, at: float) -> Iterator[str]:
    """Yield the partitions of the static members that left in the session before an instant."""
    for member, changes in attributes.changes_of_member.items():
        index = bisect_left(changes, at, key=lambda each: each.at) - 1
        if is_static(member) and index > 0 and not changes[index].owned:
            yield from changes[index - 1].owned if changes[index].at >= at - _SESSION_S else ()


def _split(partition: str) -> tuple[str, int]:
    topic, _, number = partition.rpartition("-")
    return topic, int(number)


def _is_whole(numbers: set[int]) -> bool:
    return numbers == set(range(len(numbers)))
