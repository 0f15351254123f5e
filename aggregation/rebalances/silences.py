"""Silences of agents: what an agent did not see proves nothing about its members. Pure.

Theory of operation. An agent that writes periodic samples writes them as long as it has members. A
hole between its records is an outage, or a time without members. The members distinguish the two. A
member that is there behind the hole without a join was there all the time, as far as anybody
knows: it left and joined again unseen, or it took part unseen. One that joins as new was away.
Times count in slots of ten minutes, so that a table's counts of them give the same silences as the
records do.

Source: semantics.md section 3 (a source that falls silent is no end).
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from statistics import median
from types import MappingProxyType
from typing import NamedTuple

from aggregation.rebalances.grouping import GroupRef
from aggregation.rebalances.segments import MemberRef, member_of
from aggregation.rebalances.slots import SLOT_CHARS, SLOT_S, slot_of
from metrics.model.sample import Sample, SampleKind, Scope, format_time, parse_time
from metrics.model.status import RebalanceStatus

_HOLE = 2
"""Distance of two slots with records, in the usual one, from which on a silence lies between."""
_MOVES = {SampleKind.TRANSITION, SampleKind.LOST}
_AS_NEW = {None, RebalanceStatus.NONE, RebalanceStatus.NEW_MEMBER, RebalanceStatus.UNKNOWN_MEMBER}
"""Codes of a member that joins: it may have been away. None is the end of an episode."""


class SilentSpan(NamedTuple):
    """A span (Unix seconds) without a record of an agent, between two slots that have some."""

    since: float
    """Start of the last slot before it: the agent may have gone right then."""
    until: float
    """Start of the first slot behind it."""

    def covers(self, at: float) -> bool:
        """Check that an instant (Unix seconds) may be in it."""
        return self.since <= at < self.until + SLOT_S


Silences = Mapping[str, Sequence[SilentSpan]]
"""By agent, in the order of time."""
NO_SILENCES: Silences = MappingProxyType({})


def find_silences(slots: Iterable[int], begin: int | None = None) -> list[SilentSpan]:
    """Return the silences between slots, which are numbers of `SLOT_S` since the epoch.

    An agent's usual distance of slots is the median one, so one that samples hourly is not silent
    in between. With ``begin``, the time from that slot to the first one counts, too.
    """
    ordered = sorted(slots)
    gaps = list(pairwise(ordered))
    holes = [(before, after) for before, after in gaps if after - before > 1]
    first = [(begin, ordered[0])] if begin is not None and ordered else []
    return select_silences(holes, len(gaps) - len(holes), first)


def select_silences(
    holes: Sequence[tuple[int, int]], regular: int, first: Sequence[tuple[int, int]] = ()
) -> list[SilentSpan]:
    """Return the long ones of an agent's holes, which are pairs of slots with none between.

    There are ``regular`` pairs without a hole. ``first`` are holes that prove nothing of its usual
    distance of slots, which is the median one.
    """
    usual = median([*[1] * min(regular, len(holes) + 1), *(b - a for a, b in holes)] or [1])
    return [
        SilentSpan(before * SLOT_S, after * SLOT_S)
        for before, after in [*first, *holes]
        if after - before >= _HOLE * usual
    ]


def read_silences(records: Iterable[Sample]) -> Silences:
    """Return the silences of the agents that write periodic samples, from all their records."""
    slots: dict[str, set[str]] = defaultdict(set)
    sampled: set[str] = set()
    for record in records:
        slots[record.agent].add(record.ts[:SLOT_CHARS])
        if record.kind is SampleKind.SAMPLE:
            sampled.add(record.agent)
    return {
        agent: found
        for agent in sampled
        if (found := find_silences({slot_of(text) for text in slots[agent]}))
    }


_Owner = tuple[GroupRef, tuple[str, ...]]


class Witnesses:
    """What members' later records show about rebalances that they took no part in."""

    def __init__(self, records: Sequence[Sample], silences: Silences) -> None:
        """``records`` are those of all groups, in any order."""
        self._records, self._silences = records, silences

    def was_there(self, ref: GroupRef, member: MemberRef, agent: str, at: float) -> bool:
        """Check that a member was in its group behind an instant (Unix seconds), unseen.

        A member that its coordinator asks to join (1) is in the group. If no join of it was seen
        since, its agent has missed that, and all else of it. Behind an agent's silence any other
        code proves so, but those of a member that joins, and so does a periodic sample at 0.
        """
        owner = ref, member.key
        after = _first_after(self._moves.get(owner, ()), at)
        is_on = after is not None and after.from_ == 0 and after.to not in _AS_NEW
        if after is not None and is_on and after.to == RebalanceStatus.COORDINATOR_REQUESTED:
            return True
        silence = self._silence_at(agent, at)
        if silence is None:
            return False
        shown = _first_after(self._samples.get(owner, ()), silence.until)
        return is_on or (shown is not None and (after is None or shown.ts < after.ts))

    def went_unseen(
        self, ref: GroupRef, member: MemberRef, agent: str, since: float, until: float
    ) -> bool:
        """Check that an agent was silent between two instants, and did not see the member again."""
        for silence in self._silences.get(agent, ()):
            if since <= silence.until and silence.since < until:
                shown = _first_after(self._samples.get((ref, member.key), ()), silence.until)
                return shown is None or parse_time(shown.ts) > until
        return False

    def _silence_at(self, agent: str, at: float) -> SilentSpan | None:
        return next((each for each in self._silences.get(agent, ()) if each.covers(at)), None)

    @cached_property
    def _moves(self) -> dict[_Owner, list[Sample]]:
        """Return the changes of each member's status, and its joins, in the order of time."""
        found: dict[_Owner, list[Sample]] = defaultdict(list)
        for record in self._records:
            is_join = record.kind is SampleKind.CHANGE and record.field == "joined"
            if record.scope is Scope.CONSUMER and (record.kind in _MOVES or is_join):
                found[_owner_of(record)].append(record)
        for moves in found.values():
            moves.sort(key=lambda each: (each.ts, each.seq))
        return found

    @cached_property
    def _samples(self) -> dict[_Owner, list[Sample]]:
        """Return the periodic samples of each member at 0, in the order of time."""
        found: dict[_Owner, list[Sample]] = defaultdict(list)
        for record in self._records if self._silences else ():
            if record.kind is SampleKind.SAMPLE and record.client_id and record.to == 0:
                found[_owner_of(record)].append(record)
        for samples in found.values():
            samples.sort(key=lambda each: each.ts)
        return found


def _owner_of(record: Sample) -> _Owner:
    return GroupRef(record.cluster, record.group), member_of(record).key


def _first_after(records: Sequence[Sample], at: float) -> Sample | None:
    index = bisect_right(records, format_time(at), key=lambda each: each.ts)
    return records[index] if index < len(records) else None
