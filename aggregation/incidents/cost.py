"""Time that partitions could not be read, by the incident that caused it. Pure.

Theory of operation. Records of changed partitions show who reads what. A partition is unread from
the moment at which its owner gives it up or goes until an owner has it again. A dropped member
stops at its drop; a dead one stopped its session timeout before it expired. A partition that nobody
read before costs nothing, nor does one that stays with its owner. Where nobody is seen to take it,
it counts until the rebalance has ended. Each second counts for one incident: the one with the
rebalance in which the partition was given up, or the first after it.

Source: incidents.md sections 4 and 1a.8.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from aggregation.incidents.drafts import Draft
from aggregation.incidents.model import DepartureMode, MemberDeparture
from aggregation.rebalances.segments import MemberRef
from metrics.model.partitions import parse_partitions
from metrics.model.sample import Sample, SampleKind, parse_time

GONE_S = 600.0
"""A group that nobody is in for longer has ended: its partitions are nobody's loss."""
SLACK_S = 1.0
"""A revocation may be dated shortly before the first member's status rose."""


class _Change(NamedTuple):
    """One member's partitions from an instant on. ``at`` is Unix seconds."""

    at: float
    member: tuple[str, ...]
    owned: frozenset[str]


class Gap(NamedTuple):
    """A partition without an owner. Instants are Unix seconds; open: until is None."""

    partition: str
    since: float
    until: float | None
    is_taken: bool = False
    """Of an open one: the group reads its topic on, so a member that nobody sees has it."""


@dataclass(slots=True)
class Assignments:
    """What the records of one group show of its members' partitions."""

    changes: list[_Change] = field(default_factory=list)
    session_timeout_s: dict[tuple[str, ...], float] = field(default_factory=dict)

    def add(self, record: Sample) -> None:
        """Take a record of a changed attribute."""
        member = MemberRef(record.client_id or "", record.host, record.group_instance_id).key
        if record.field == "partitions":
            owned = frozenset(parse_partitions(record.after))
            self.changes.append(_Change(parse_time(record.ts), member, owned))
        elif record.field == "session.timeout.ms" and (record.after or "").isdigit():
            self.session_timeout_s[member] = int(record.after or 0) / 1000

    def stop_of(self, departure: MemberDeparture) -> float:
        """Return when a member that went stopped to read (Unix seconds)."""
        if departure.how is not DepartureMode.EXPIRED or not departure.is_silent:
            return departure.at
        return departure.at - self.session_timeout_s.get(departure.member.key, 0.0)


def read_assignments(records: Iterable[Sample]) -> dict[tuple[str, str], Assignments]:
    """Return the assignments of all groups, by cluster and group."""
    found: dict[tuple[str, str], Assignments] = defaultdict(Assignments)
    seen: set[str] = set()
    for record in records:
        if record.kind is SampleKind.CHANGE and record.id not in seen:
            seen.add(record.id)
            found[record.cluster, record.group].add(record)
    return found


def count_unread(
    drafts: Sequence[Draft], assignments: Assignments | None, now: float
) -> dict[Draft, float]:
    """Return the unread seconds of each incident; nothing where no source shows assignments."""
    if assignments is None or not assignments.changes:
        return {}
    spans = sorted(
        (rebalance.round.started_at, rebalance.round.ended_at, number, draft)
        for number, draft in enumerate(drafts)
        for rebalance in draft.rebalances
    )  # fmt: skip
    starts = [span[0] for span in spans]
    costs = dict.fromkeys(drafts, 0.0)
    for gap in _gaps(assignments, _exits(drafts, assignments), now):
        index = _rebalance_of(gap, spans, starts)
        if index is None:
            continue
        _, ended_at, _, draft = spans[index]
        until = ended_at if gap.until is None else gap.until
        if gap.until is not None or draft.is_ongoing or gap.is_taken:
            costs[draft] += max(0.0, until - gap.since)
    return {draft: seconds for draft, seconds in costs.items() if _has_stayed(draft)}


_Span = tuple[float, float, int, Draft]


def _has_stayed(draft: Draft) -> bool:
    """Check that somebody is left who can read: the last leave of a group has no cost."""
    rounds = [s for each in draft.rebalances for s in each.round.consumers if s.is_round]
    return bool(rounds) or draft.is_ongoing or not draft.rebalances


def _rebalance_of(gap: Gap, spans: Sequence[_Span], starts: Sequence[float]) -> int | None:
    """Return the rebalance in which a partition was given up, or the first one after it."""
    index = bisect_right(starts, gap.since + SLACK_S) - 1
    if index >= 0 and spans[index][1] + SLACK_S >= gap.since:
        while index > 0 and spans[index - 1][1] >= gap.since:
            index -= 1
        return index
    index = bisect_left(starts, gap.since)
    until = float("inf") if gap.until is None else gap.until + SLACK_S
    return index if index < len(starts) and starts[index] <= until else None


def _exits(drafts: Sequence[Draft], assignments: Assignments) -> Iterator[_Change]:
    """Yield that a member that went has nothing any more."""
    for draft in drafts:
        for departure in draft.all_departures:
            at = assignments.stop_of(departure)
            yield _Change(at, departure.member.key, frozenset())


def _gaps(assignments: Assignments, exits: Iterable[_Change], now: float) -> Iterator[Gap]:
    """Yield the times in which a partition that somebody read had no owner."""
    owners: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    owned: dict[tuple[str, ...], frozenset[str]] = {}
    lost_at: dict[str, float] = {}
    gained_at: dict[str, float] = {}
    for change in sorted([*assignments.changes, *exits], key=lambda change: change.at):
        before = owned.get(change.member, frozenset())
        owned[change.member] = change.owned
        for partition in before - change.owned:
            owners[partition].discard(change.member)
            if not owners[partition]:
                lost_at.setdefault(partition, change.at)
        for partition in change.owned - before:
            since = lost_at.pop(partition, None)
            owners[partition].add(change.member)
            gained_at[partition.rpartition("-")[0]] = change.at
            if since is not None and change.at - since <= GONE_S:
                yield Gap(partition, since, change.at)
    for partition, since in lost_at.items():
        is_taken = gained_at.get(partition.rpartition("-")[0], 0.0) >= since
        if is_taken or now - since <= GONE_S:
            yield Gap(partition, since, None, is_taken)
