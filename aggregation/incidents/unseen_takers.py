"""Partitions that a member took over which no source sees. Pure.

Theory of operation. A complete classic rebalance assigns all partitions of the topics that its
members subscribe to. So a partition that lost its owner before is read again at the end of the next
complete rebalance, also if no source shows its new owner. That is evident only if

- a member that took part has another partition of the topic afterwards: the topic is subscribed to;
- each member of it that a source sees has partitions, or keeps them: one that has not polled yet
  may have got the partition;
- no member was dead or paused then, as the partition may have been assigned to that one;
- the next owner that a source shows got it by a later rebalance.

Source: incidents.md 1a.8. Groups of the new protocols have no complete rebalance.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from aggregation.incidents.attributes import Attributes
from aggregation.incidents.drafts import Draft
from aggregation.rebalances.grouping import RebalanceSegments
from metrics.model.sample import Outcome

_Key = tuple[str, ...]
_CLASSIC = "classic"
SETTLED_S = 1.0
"""Members report their partitions within this after the end of a rebalance, unless they are busy.

The same slack as for revocations that are dated before the rebalance.
"""


class IdleSpan(NamedTuple):
    """Span in which a member had partitions and did not read. Instants are Unix seconds."""

    member: _Key
    since: float
    until: float


class CompleteRebalances:
    """Classic rebalances of one group that are over, in the order of their ends."""

    def __init__(
        self, drafts: Iterable[Draft], attributes: Attributes, idle: Sequence[IdleSpan]
    ) -> None:
        """Read the rebalances of a group's incidents."""
        rounds = [each.round for draft in drafts for each in draft.rebalances if not each.is_end]
        self._rounds = sorted(
            (each for each in rounds if each.group_type == _CLASSIC and not each.is_open),
            key=lambda each: each.ended_at,
        )
        self._ends = [each.ended_at for each in self._rounds]
        self._starts = sorted(each.started_at for each in rounds)
        self._attributes = attributes
        self._idle = idle

    def find_takeover(self, topic: str, loser: _Key, at: float, until: float) -> float | None:
        """Return the end of the rebalance in which an unseen member took a partition; else None.

        ``at`` is the time at which its owner gave it up or departed, ``until`` that at which a
        member has it again that a source sees (Unix seconds).
        """
        for each in self._rounds[bisect_left(self._ends, at) :]:
            if each.ended_at >= until:
                return None
            if self._is_taken(each, topic, loser, at, until):
                return each.ended_at
        return None

    def _is_taken(
        self, round_: RebalanceSegments, topic: str, loser: _Key, at: float, until: float
    ) -> bool:
        """Check that all partitions of a topic had a reading owner after a rebalance."""
        end = round_.ended_at
        index = bisect_left(self._starts, end)
        is_next = index < len(self._starts) and end + SETTLED_S < self._starts[index] < until
        if not is_next or any(each.since <= end < each.until for each in self._idle):
            return False
        synced = [s for s in round_.consumers if s.outcome is Outcome.SYNCED]
        if any(s.member.key == loser and s.ended_at <= at for s in synced):
            return False  # it lost the partition only after its assignment by this rebalance
        owned = [self._attributes.find_owned(s.member.key, end + SETTLED_S) for s in synced]
        return all(owned) and any(
            partition.rpartition("-")[0] == topic for each in owned for partition in each
        )
