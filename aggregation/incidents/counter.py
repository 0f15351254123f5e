"""Counts of incidents by group and kind: each final incident once, and the ongoing ones.

Theory of operation. Incidents become final in the order of their ends. So each group has a mark,
the latest end that is counted. An incident with an end up to the mark is not counted again, unless
it was not final when the mark passed it. The return of a member moves the end of a counted
incident; therefore the ids of counted incidents are kept as long as their records. Costs and
failed joins count before an incident is final (`aggregation.incidents.amounts`).
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from aggregation.incidents.amounts import Contribution, GrowingTotals
from aggregation.incidents.incidents import GroupIncidents
from aggregation.incidents.model import Incident, IncidentKind
from aggregation.incidents.planning import is_planned
from aggregation.incidents.records import IncidentRecord
from aggregation.incidents.restarts import RESTART_S
from aggregation.rebalances.grouping import GroupRef
from metrics.model.sample import Sample, parse_time
from metrics.model.snapshot import GroupName, IncidentKey, IncidentTotals, JoinFailureKey

REFRESH_S = 30.0
"""A group with an ongoing incident is due this often: time alone may end it."""
_REFRESH_MIN_S = 1.0
_REFRESH_SHARE = 0.05
"""A young incident is due earlier: its cost is late by at most this share of its age."""
MAX_ERRORS = 20
"""Names of errors in one group; the others are counted as `OTHER_ERROR`."""
OTHER_ERROR = "other"
UNKNOWN_ERROR = "Unknown"
_REFUSED = {IncidentKind.JOIN_FAILED, IncidentKind.FENCED}


_NOTHING = GroupIncidents([], None)


class _Amount(StrEnum):
    """Sums of incidents."""

    UNREAD = "unread"
    MEMBERS = "members"
    FAILURES = "failures"


class _Key(NamedTuple):
    """A counter of one group; failed joins have one for each error."""

    amount: _Amount
    error: str = ""


_UNREAD, _MEMBERS = _Key(_Amount.UNREAD), _Key(_Amount.MEMBERS)


@dataclass(slots=True)
class _GroupCount:
    """Counts of one group, by kind, and the mark up to which its incidents are counted."""

    totals: Counter[str] = field(default_factory=Counter)
    ongoing: Counter[str] = field(default_factory=Counter)
    recent: Counter[str] = field(default_factory=Counter)
    """Of incidents that are not final."""
    unplanned: int = 0
    """Number of unplanned ones among them."""
    amounts: GrowingTotals[_Key] = field(default_factory=GrowingTotals)
    errors: set[str] = field(default_factory=set)
    last_end: float | None = None
    mark: float = float("-inf")
    earlier: set[str] = field(default_factory=set)
    """Ids that an earlier run has recorded."""
    earlier_until: float = float("-inf")
    counted: set[str] = field(default_factory=set)
    pending: set[str] = field(default_factory=set)
    """Ids of incidents that are not final."""
    due_at: float = float("inf")

    def is_new(self, incident: Incident) -> bool:
        """Check that a final incident is not counted yet."""
        if incident.id in self.counted:
            return False
        return incident.id in self.pending or _end(incident) > self.mark

    def is_of_earlier_run(self, incident: Incident) -> bool:
        """Check that an earlier run has recorded an incident: its cost was shown then."""
        is_before = incident.is_final and _end(incident) <= self.earlier_until
        return is_before or incident.id in self.earlier

    def end(self, at: float | None) -> None:
        """Note the end of a rebalance; the latest one counts."""
        if at is not None:
            self.last_end = at if self.last_end is None else max(at, self.last_end)

    def add_up(self, found: Iterable[Incident], now: float, oldest: float) -> None:
        """Update the costs of all incidents, except those that an earlier run has recorded."""
        own = [incident for incident in found if not self.is_of_earlier_run(incident)]
        self.amounts.update({i.id: _contribution(i, self.label) for i in own}, now, oldest)
        self.due_at = min(self.due_at, self.amounts.due_at)

    def label(self, error: str) -> str:
        """Return the label of an error: its name, or `OTHER_ERROR` beyond `MAX_ERRORS` names."""
        if len(self.errors) < MAX_ERRORS:
            self.errors.add(error)
        return error if error in self.errors else OTHER_ERROR


class IncidentCounts:
    """Incidents of all groups, bounded."""

    def __init__(self, limit: int) -> None:
        """Keep at most ``limit`` groups; evict the one that was updated longest ago."""
        self._limit = limit
        self._groups: dict[GroupRef, _GroupCount] = {}

    def skip(self, records: Iterable[Sample]) -> None:
        """Mark the incidents that an earlier run has recorded as counted."""
        for record in records:
            if isinstance(record, IncidentRecord):
                group = self._group(GroupRef(record.cluster, record.group))
                group.counted.add(record.incident.id)
                group.earlier.add(record.incident.id)
                group.mark = max(group.mark, parse_time(record.ended_ts))
                group.earlier_until = group.mark

    def update(
        self,
        names: Collection[str],
        found: Mapping[GroupRef, GroupIncidents],
        now: float,
        awaited: Collection[str] = (),
        oldest: Mapping[str, float] = MappingProxyType({}),
    ) -> list[Incident]:
        """Count the incidents ``found`` in the named groups; return the final ones that are new.

        No incident of an ``awaited`` group is final: some of its records have not arrived yet.
        ``oldest`` is the time of each group's oldest record; earlier records are evicted. Instants
        are Unix seconds.
        """
        gone = {ref for ref in self._groups.keys() - found.keys() if ref.group in names}
        new = list[Incident]()
        for ref, (incidents, last_end) in (*found.items(), *((ref, _NOTHING) for ref in gone)):
            new += self._update(ref, incidents, now, is_awaited=ref.group in awaited)
            group = self._group(ref)
            group.end(last_end)
            group.add_up(incidents, now, oldest.get(ref.group, float("-inf")))
        return new

    def due(self, now: float) -> set[str]:
        """Return the groups with an incident that may have ended or become final by now."""
        return {ref.group for ref, group in self._groups.items() if group.due_at <= now}

    def totals(self) -> IncidentTotals:
        """Return the totals for the exporters; 0 for kinds that were ongoing before."""
        groups = [(GroupName(*ref), group) for ref, group in self._groups.items()]
        return IncidentTotals(
            final=_by_kind((name, group.totals) for name, group in groups),
            ongoing=_by_kind((name, group.ongoing) for name, group in groups),
            recent=_by_kind((name, group.recent) for name, group in groups),
            unplanned={name: group.unplanned for name, group in groups if group.recent},
            unread_s=_amounts(groups, _UNREAD),
            member_s=_amounts(groups, _MEMBERS),
            join_failures={
                JoinFailureKey(*name, key.error): int(number)
                for name, group in groups
                for key, number in group.amounts.totals.items()
                if key.amount is _Amount.FAILURES
            },
            last_ends={
                name: group.last_end for name, group in groups if group.last_end is not None
            },
        )

    def _group(self, ref: GroupRef) -> _GroupCount:
        group = self._groups[ref] = self._groups.pop(ref, _GroupCount())  # the newest is last
        while len(self._groups) > self._limit:
            del self._groups[next(iter(self._groups))]
        return group

    def _update(
        self, ref: GroupRef, found: list[Incident], now: float, *, is_awaited: bool
    ) -> list[Incident]:
        group = self._group(ref)
        new = [] if is_awaited else [i for i in found if i.is_final and group.is_new(i)]
        group.totals.update(incident.kind.value for incident in new)
        group.ongoing = _recount(group.ongoing, (each for each in found if each.is_ongoing))
        group.recent = _recount(group.recent, (each for each in found if not each.is_final))
        group.unplanned = sum(not (i.is_final or is_planned(i)) for i in found)
        group.mark = max([group.mark, *map(_end, new)])
        group.counted = (group.counted | {i.id for i in new}) & {i.id for i in found}
        if not is_awaited:
            group.pending = {incident.id for incident in found if not incident.is_final}
        is_waiting = is_awaited and any(i.is_final and group.is_new(i) for i in found)
        dues = [_final_at(incident, now) for incident in found if not incident.is_final]
        group.due_at = min([now + REFRESH_S] * is_waiting + dues, default=float("inf"))
        return new


def _end(incident: Incident) -> float:
    return incident.started_at if incident.ended_at is None else incident.ended_at


def _final_at(incident: Incident, now: float) -> float:
    """Return the time at which an incident may be final, or its cost is due (Unix seconds)."""
    if incident.ended_at is not None:
        return incident.ended_at + RESTART_S
    age = now - incident.started_at
    return now + min(REFRESH_S, max(_REFRESH_MIN_S, _REFRESH_SHARE * age))


def _contribution(incident: Incident, label: Callable[[str], str]) -> Contribution[_Key]:
    cost, detail = incident.cost, incident.detail
    amounts = {_MEMBERS: cost.member_seconds}
    if cost.unread_partition_seconds is not None:
        amounts[_UNREAD] = cost.unread_partition_seconds
    if incident.kind in _REFUSED and detail.get("lost_right") != "topics":
        error, number = detail.get("error", UNKNOWN_ERROR), detail.get("errors")
        key = _Key(_Amount.FAILURES, label(str(error)))
        amounts[key] = number if isinstance(number, int) else 1
    return Contribution(incident.started_at, amounts)


def _recount(before: Iterable[str], incidents: Iterable[Incident]) -> Counter[str]:
    """Count incidents by kind; 0 for kinds that were counted ``before``."""
    counts = Counter(dict.fromkeys(before, 0))
    counts.update(incident.kind.value for incident in incidents)
    return counts


def _by_kind(counts: Iterable[tuple[GroupName, Counter[str]]]) -> dict[IncidentKey, int]:
    return {
        IncidentKey(*name, kind): number
        for name, by_kind in counts
        for kind, number in by_kind.items()
    }


def _amounts(
    groups: Iterable[tuple[GroupName, _GroupCount]], wanted: _Key
) -> dict[GroupName, float]:
    return {
        name: group.amounts.totals[wanted]
        for name, group in groups
        if wanted in group.amounts.totals
    }
