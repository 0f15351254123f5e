"""Begins of the revoke callbacks of librdkafka's members in groups with an eager assignor. Pure.

Theory of operation. An application takes librdkafka's revoke callback at its next poll, and reads
its partitions until then. Neither source shows that moment. The client's log shows the heartbeat's
answer before it, at which the fetchers are paused. The traffic shows the join after it. Between
them the member works to its next poll, and then its callback runs.

The other members of the incident run the same program, so they work as long between two polls. What
is longer than the longest of their times counts as callback. A member without others is compared
with itself in the incident's other rebalances. Nothing to compare with: all counts as callback.
Callbacks that all take as long look like work, and their time is not counted.

Source: rd_kafka_rebalance_op (rdkafka_cgrp.c); incidents.md 4 (an owner stops as it revokes).
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from heapq import nlargest
from typing import NamedTuple

from aggregation.incidents.attributes import Attributes, Ownership
from aggregation.incidents.drafts import Draft
from aggregation.rebalances.segments import Segment
from metrics.model.status import RebalanceStatus

_Key = tuple[str, ...]
_LIBRDKAFKA = "rdkafka"
_ASKED = {RebalanceStatus.COORDINATOR_REQUESTED, RebalanceStatus.METADATA_CHANGED}
"""Causes of which the client learns by itself; it asks its application to revoke."""
_SAME_S = 0.1
"""A log's stamps have milliseconds, and the two sources may be milliseconds apart."""


class _Notice(NamedTuple):
    """A member's time from its notice of a rebalance to its join. Instants are Unix seconds."""

    member: _Key
    at: float
    joined_at: float
    """Of an open one without a join: now."""

    @property
    def seconds(self) -> float:
        return max(0.0, self.joined_at - self.at)


class Revocations:
    """Begins of revoke callbacks in the incidents of one group."""

    def __init__(self, drafts: Iterable[Draft], attributes: Attributes) -> None:
        """Collect the times of the members that each incident's rebalances asked to join again."""
        self._software = attributes.software
        self._begins: dict[_Key, list[tuple[_Notice, float]]] = defaultdict(list)
        for draft in drafts:
            notices = [*_list_notices(draft)]
            works = _Works(notices)
            for each in notices:
                begun_at = each.joined_at - max(0.0, each.seconds - works.find_longest(each))
                self._begins[each.member].append((each, begun_at))
        for found in self._begins.values():
            found.sort(key=_notice_at)

    def find_begin(self, change: Ownership) -> float:
        """Return when a member began to give its partitions up (Unix seconds)."""
        begins = self._begins.get(change.member)
        if change.owned or not begins:
            return change.at
        index = bisect_right(begins, change.at + _SAME_S, key=_notice_at) - 1
        if index < 0:
            return change.at
        notice, begun_at = begins[index]
        is_rdkafka = _LIBRDKAFKA in self._software.get(change.member, "")
        is_paused = change.is_paused and change.at - notice.at < _SAME_S
        has_joined = is_rdkafka and abs(change.at - notice.joined_at) < _SAME_S
        return begun_at if is_paused or has_joined else change.at


def _notice_at(begin: tuple[_Notice, float]) -> float:
    return begin[0].at


class _Works:
    """The two longest times of each member, and of all members. A rollout has 100,000 of them."""

    def __init__(self, notices: Iterable[_Notice]) -> None:
        self._of: dict[_Key, list[float]] = defaultdict(list)
        for each in notices:
            self._of[each.member].append(each.seconds)
        self._of = {member: nlargest(2, found) for member, found in self._of.items()}
        self._members = nlargest(2, self._of, key=lambda member: self._of[member][0])

    def find_longest(self, notice: _Notice) -> float:
        """Return the longest time of other members; without any, the member's own other one."""
        other = next((each for each in self._members if each != notice.member), None)
        if other is not None:
            return self._of[other][0]
        first, *second = self._of[notice.member]
        if notice.seconds < first:
            return first
        return second[0] if second else 0.0


def _list_notices(draft: Draft) -> Iterable[_Notice]:
    for rebalance in draft.rebalances:
        if rebalance.round.group_type == "classic":
            for segment in rebalance.round.consumers:
                if _is_asked(segment):
                    joined_at = segment.joins[0] if segment.joins else segment.ended_at
                    yield _Notice(segment.member.key, segment.started_at, joined_at)


def _is_asked(segment: Segment) -> bool:
    has_waited = segment.is_round and (segment.joins or segment.is_open)
    return bool(has_waited and segment.steps and segment.steps[0].code in _ASKED)
