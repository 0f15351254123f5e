"""Partitions that a member takes while another one has them, in groups of new protocols. Pure.

The coordinator gives a partition away only after its owner has given it up, or is no member any
more. So an owner that has not given it up was removed: its session expired, unless an admin was
seen to remove it. In the classic protocol every member takes part in a rebalance, so there an
absence shows the same.

Source: incidents.md section 2; KIP-848, "Assignment Process".
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from aggregation.rebalances.grouping import GroupRef
from aggregation.rebalances.segments import member_of
from metrics.model.partitions import parse_partitions
from metrics.model.sample import Outcome, Sample, SampleKind, parse_time
from metrics.model.status import RebalanceStatus

SLACK_S = 5.0
"""An owner that gives it up so soon after is a member: its clock differs."""
_WITH_OWNERS = {"consumer", "streams"}

_CAUSES = {SampleKind.TRANSITION, SampleKind.SIGNAL}
_REMOVED = {
    RebalanceStatus.NEW_MEMBER,
    RebalanceStatus.UNKNOWN_MEMBER,
    RebalanceStatus.STALE_MEMBER,
}
"""An owner with one of these soon after was removed: it may already be back as a new process."""

_Key = tuple[str, ...]


class Takeover(NamedTuple):
    """A member, by its key, and when another one took its partitions (Unix seconds)."""

    at: float
    owner: _Key


class _Owned(NamedTuple):
    at: float
    member: _Key
    owned: frozenset[str]


def find_takeovers(records: Iterable[Sample]) -> dict[GroupRef, list[Takeover]]:
    """Return the takeovers of each group by time."""
    changes: dict[GroupRef, list[_Owned]] = defaultdict(list)
    fenced: dict[GroupRef, set[tuple[_Key, float]]] = defaultdict(set)
    refused: dict[GroupRef, set[tuple[_Key, float]]] = defaultdict(set)
    by_admin: dict[GroupRef, set[tuple[_Key, float]]] = defaultdict(set)
    for record in records:
        if record.group_type not in _WITH_OWNERS:
            continue
        ref = GroupRef(record.cluster, record.group)
        if record.kind is SampleKind.CHANGE and record.field == "partitions":
            owned = frozenset(parse_partitions(record.after))
            changes[ref].append(_Owned(parse_time(record.ts), member_of(record).key, owned))
        elif record.kind is SampleKind.CHANGE and record.field == "removed_by":
            by_admin[ref].add((member_of(record).key, parse_time(record.ts)))
        elif record.to in _REMOVED and record.kind in _CAUSES:
            fenced[ref].add((member_of(record).key, parse_time(record.ts)))
        elif record.outcome is Outcome.FAILED and record.group_instance_id is not None:
            refused[ref].add((member_of(record).key, parse_time(record.ts)))
    return {
        ref: _find_in_group(_drop_refused(sorted(found), refused[ref]), fenced[ref], by_admin[ref])
        for ref, found in changes.items()
    }


def _drop_refused(changes: list[_Owned], refused: AbstractSet[tuple[_Key, float]]) -> list[_Owned]:
    """Return the changes without those of new processes that were refused.

    A static member's predecessor has its partitions until its session expires.
    """
    ends = _by_member(refused)
    return [each for each in changes if each.owned or not _is_soon(ends[each.member], each.at)]


def _by_member(found: Iterable[tuple[_Key, float]]) -> dict[_Key, list[float]]:
    times = defaultdict[_Key, list[float]](list)
    for member, at in sorted(found):
        times[member].append(at)
    return times


def _find_in_group(
    changes: list[_Owned],
    fenced: set[tuple[_Key, float]],
    by_admin: set[tuple[_Key, float]],
) -> list[Takeover]:
    times = _by_member((change.member, change.at) for change in changes)
    ends, removals = _by_member(fenced), _by_member(by_admin)
    owned: dict[_Key, frozenset[str]] = {}
    owners: dict[str, _Key] = {}
    found: list[Takeover] = []
    for at, member, now in changes:
        for partition in owned.get(member, frozenset()) - now:
            if owners.get(partition) == member:
                del owners[partition]
        owned[member] = now
        taken = {owners[each] for each in now if owners.get(each, member) != member}
        found += [
            Takeover(at, each)
            for each in taken
            if _is_gone(times[each], ends[each], at)
            and not _has_learned(removals[each], ends[each], at)
        ]
        owners |= dict.fromkeys(now, member)
    return found


def _is_gone(changes: list[float], ends: list[float], at: float) -> bool:
    """Check that an owner changes nothing soon after, or only as it learns that it was fenced."""
    return _is_soon(ends, at) or not _is_soon(changes, at)


def _has_learned(removals: list[float], ends: list[float], at: float) -> bool:
    """Check that an admin removed an owner shortly before, and that it learns it soon after."""
    before = bisect_right(removals, at)
    is_removed = before > 0 and at - removals[before - 1] <= SLACK_S
    return is_removed and _is_soon(ends, at)


def _is_soon(times: list[float], at: float) -> bool:
    after = bisect_right(times, at)
    return after < len(times) and times[after] <= at + SLACK_S
