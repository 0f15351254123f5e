"""Topics that grew during a rebalance, from the members' partitions before and after it. Pure.

The new protocols have no code for changed metadata: the coordinator computes another assignment,
and its members see only that. If the known members own all partitions of each topic before and
after a rebalance, no unknown member owns any, so an additional partition is new.

Source: incidents.md 1a.9.
"""

from bisect import bisect_left
from collections import defaultdict
from typing import NamedTuple

from aggregation.incidents.attributes import Attributes
from aggregation.rebalances.segments import is_static

_AFTER_S = 1.0
"""A member reports its partitions a little after the end of the rebalance."""

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
    before = _topics_at(attributes, since, with_given_up=True)
    after = _topics_at(attributes, until + _AFTER_S)
    is_whole = before and all(map(_is_whole, (*before.values(), *after.values())))
    if not is_whole or any(not before[topic] <= after.get(topic, set()) for topic in before):
        return []
    return [
        TopicGrowth(topic, len(before[topic]) if topic in before else None, len(numbers))
        for topic, numbers in sorted(after.items())
        if numbers != before.get(topic)
    ]


def find_kept(attributes: Attributes, since: float, until: float) -> tuple[set[str], bool]:
    """Return the topics with the same partitions before and after a rebalance.

    The flag is true if these are all topics with all their partitions, as far as sources show.
    """
    before = _topics_at(attributes, since, with_given_up=True)
    after = _topics_at(attributes, until + _AFTER_S)
    kept = {topic for topic, numbers in before.items() if after.get(topic) == numbers}
    return kept, before == after and all(map(_is_whole, before.values()))


def _topics_at(attributes: Attributes, at: float, *, with_given_up: bool = False) -> _Topics:
    """Return the numbers of the partitions of all members before an instant, by topic.

    If a member has just given up all its partitions, they still count ``with_given_up``.
    """
    found: _Topics = defaultdict(set)
    for member, changes in attributes.changes_of_member.items():
        index = bisect_left(changes, at, key=lambda each: each.at) - 1
        kept_s = _SESSION_S if is_static(member) else _GIVEN_UP_S
        if with_given_up and index > 0 and not changes[index].owned:
            index -= changes[index].at >= at - kept_s
        for partition in changes[index].owned if index >= 0 else ():
            topic, _, number = partition.rpartition("-")
            found[topic].add(int(number))
    return dict(found)


def _is_whole(numbers: set[int]) -> bool:
    return numbers == set(range(len(numbers)))
