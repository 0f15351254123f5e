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

from collections import defaultdict
from collections.abc import Iterable
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
            for each in notices:
                begun_at = each.joined_at - _count_callback(each, notices)
                self._begins[each.member].append((each, begun_at))

    def find_begin(self, change: Ownership) -> float:
        """Return when a member began to give its partitions up (Unix seconds)."""
        if change.owned:
            return change.at
        is_rdkafka = _LIBRDKAFKA in self._software.get(change.member, "")
        for notice, begun_at in self._begins.get(change.member, ()):
            is_paused = change.is_paused and abs(change.at - notice.at) < _SAME_S
            if is_paused or (is_rdkafka and abs(change.at - notice.joined_at) < _SAME_S):
                return begun_at
        return change.at


def _count_callback(notice: _Notice, notices: Iterable[_Notice]) -> float:
    """Return the part of a member's time that its work does not explain (seconds)."""
    rest = [each for each in notices if each is not notice]
    others = [each for each in rest if each.member != notice.member]
    longest = max((each.seconds for each in others or rest), default=0.0)
    return max(0.0, notice.seconds - longest)


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
