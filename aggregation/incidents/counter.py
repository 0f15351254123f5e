"""Counts of incidents by group and kind: each final one once, and those that are ongoing.

Theory of operation. Incidents become final in the order of their ends. So a group has a mark, the
latest end that is counted, and an incident that ended no later is not counted again, unless it was
not final when the mark passed it. The ids of counted incidents are kept as well, while their
records are there: the return of a member moves the end of an incident that was counted.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from aggregation.incidents.detection import RESTART_S
from aggregation.incidents.model import Incident
from aggregation.incidents.records import IncidentRecord
from aggregation.rebalances.grouping import GroupRef
from metrics.model.sample import Sample, parse_time
from metrics.model.snapshot import IncidentKey

REFRESH_S = 30.0
"""A group with an ongoing incident is due this often: time alone may end it."""


@dataclass(slots=True)
class _Group:
    """Counts of one group, by kind, and how far it is counted."""

    totals: Counter[str] = field(default_factory=Counter)
    ongoing: Counter[str] = field(default_factory=Counter)
    mark: float = float("-inf")
    counted: set[str] = field(default_factory=set)
    pending: set[str] = field(default_factory=set)
    """Ids of incidents that are not final."""
    due_at: float = float("inf")

    def is_new(self, incident: Incident) -> bool:
        """Check that a final incident is not counted yet."""
        if incident.id in self.counted:
            return False
        return incident.id in self.pending or _end(incident) > self.mark


class IncidentCounts:
    """Incidents of all groups, bounded."""

    def __init__(self, limit: int) -> None:
        """``limit`` groups are kept; the longest quiet goes first."""
        self._limit = limit
        self._groups: dict[GroupRef, _Group] = {}

    def skip(self, records: Iterable[Sample]) -> None:
        """Mark as counted what an earlier run has recorded."""
        for record in records:
            if isinstance(record, IncidentRecord):
                group = self._group(GroupRef(record.cluster, record.group))
                group.counted.add(record.incident.id)
                group.mark = max(group.mark, parse_time(record.ended_ts))

    def update(
        self,
        names: Collection[str],
        incidents: Iterable[Incident],
        now: float,
        awaited: Collection[str] = (),
    ) -> list[Incident]:
        """Take all incidents of the named groups, count the final ones, and return the new ones.

        Nothing is counted of ``awaited`` groups: their records may be on their way. ``now`` is Unix
        seconds.
        """
        by_ref = defaultdict[GroupRef, list[Incident]](list)
        for incident in incidents:
            by_ref[incident.ref].append(incident)
        for ref in self._groups.keys() - by_ref.keys():
            if ref.group in names:
                by_ref[ref] = []
        return [
            new
            for ref, found in by_ref.items()
            for new in self._update(ref, found, now, is_awaited=ref.group in awaited)
        ]

    def due(self, now: float) -> set[str]:
        """Return the groups in which an incident may have ended, or become final, by now."""
        return {ref.group for ref, group in self._groups.items() if group.due_at <= now}

    def totals(self) -> dict[IncidentKey, int]:
        """Return the numbers of final incidents."""
        return {
            IncidentKey(*ref, kind): number
            for ref, group in self._groups.items()
            for kind, number in group.totals.items()
        }

    def ongoing(self) -> dict[IncidentKey, int]:
        """Return the numbers of ongoing incidents; 0 for kinds that were ongoing before."""
        return {
            IncidentKey(*ref, kind): number
            for ref, group in self._groups.items()
            for kind, number in group.ongoing.items()
        }

    def _group(self, ref: GroupRef) -> _Group:
        group = self._groups[ref] = self._groups.pop(ref, _Group())  # the newest is last
        while len(self._groups) > self._limit:
            del self._groups[next(iter(self._groups))]
        return group

    def _update(
        self, ref: GroupRef, found: list[Incident], now: float, *, is_awaited: bool
    ) -> list[Incident]:
        group = self._group(ref)
        new = [] if is_awaited else [i for i in found if i.is_final and group.is_new(i)]
        group.totals.update(incident.kind.value for incident in new)
        for kind in group.ongoing:
            group.ongoing[kind] = 0
        group.ongoing.update(incident.kind.value for incident in found if incident.is_ongoing)
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
    return now + REFRESH_S if incident.ended_at is None else incident.ended_at + RESTART_S
