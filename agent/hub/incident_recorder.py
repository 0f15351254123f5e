"""Live analysis of whole groups: it shows ongoing incidents, and counts and records final ones.

It runs only in the roles hub and standalone: two sidecars would count the same incident twice.

Theory of operation. A group is analysed if it has new records, or an incident that ends by time
alone. The analysis runs in a thread, and the pages show its result, too. The pause after an
analysis grows with its CPU time, so that it takes at most a twentieth of one core for any number of
records. The pause does not depend on the duration: on a busy machine it would become so long that
an incident is shown as ongoing for many seconds after its end.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from agent.hub.recorder_io import RecorderIO
from aggregation.counterfactuals.best_changes import BestChanges
from aggregation.incidents.counter import IncidentCounts
from aggregation.incidents.incidents import GroupIncidents
from aggregation.incidents.records import make_record
from aggregation.rebalances.counter import SETTLE_S
from aggregation.rebalances.grouping import GroupRef
from metrics.model.sample import Sample, parse_time
from metrics.model.snapshot import IncidentTotals

_CHECK_S = 1.0
_PAUSE_SHARE = 19.0
"""Pause after an analysis, in units of its CPU time."""


class IncidentRecorder:
    """Counts and records the incidents in the recent records."""

    def __init__(self, io: RecorderIO, cpu_clock: Callable[[], float] = time.thread_time) -> None:
        """Start with the spooled incidents as counted."""
        self._io, self._cpu_clock = io, cpu_clock
        self._read = 0
        self._changed_at: dict[str, tuple[float, float]] = {}
        self._counts, self._best = IncidentCounts(io.limit), BestChanges(io.limit)
        self._counts.skip(io.spooled)

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            cpu_s = await self.check()
            await asyncio.sleep(max(_CHECK_S, _PAUSE_SHARE * cpu_s))

    async def check(self) -> float:
        """Analyse the groups that changed or are due; count and record the final incidents.

        Returns the CPU seconds of the analysis.
        """
        io, now = self._io, self._io.clock()
        changed = io.history.groups_since(self._read)
        self._read = io.history.added
        due = self._counts.due(now)
        names = changed | due
        unsettled = self._find_unsettled(changed, now)
        if not names:
            return 0.0
        all_found, cpu_s = await asyncio.to_thread(self._analyze, names, due, now)
        records = [record for record in io.history.records() if record.group in names]
        latest = {record.group: record for record in records}
        found = {ref: each for ref, each in all_found.items() if ref.group in latest}
        incidents = [incident for each in found.values() for incident in each.incidents]
        ends = [(i.ref.group, i.ended_at) for i in incidents if i.is_final and i.ended_at]
        awaited = unsettled | io.find_awaited(ends, records)
        new = self._counts.update(names, found, now, awaited, _find_oldest(records))
        io.take([make_record(each, latest[each.ref.group]) for each in new])
        return cpu_s

    def _analyze(
        self, names: Collection[str], due: Collection[str], now: float
    ) -> tuple[dict[GroupRef, GroupIncidents], float]:
        """Return the incidents, and the CPU seconds that this thread took for them and changes."""
        started = self._cpu_clock()
        found = self._io.history.incidents.read(now, due)
        self._best.update(names, found)
        return found, self._cpu_clock() - started

    def _find_unsettled(self, changed: Iterable[str], now: float) -> set[str]:
        """Return the groups with more records to come: a source may still read old lines.

        A group that is never quiet counts as settled every 2 x `SETTLE_S`.
        """
        for group in changed:
            first, _ = self._changed_at.get(group, (now, now))
            self._changed_at[group] = (first, now)
        self._changed_at = {
            group: (first, last)
            for group, (first, last) in self._changed_at.items()
            if now - last < SETTLE_S and now - first < 2 * SETTLE_S
        }
        return set(self._changed_at)

    def totals(self) -> IncidentTotals:
        """Return the counts that exporters show."""
        return replace(self._counts.totals(), avoidable=self._best.avoidable())


def _find_oldest(records: Iterable[Sample]) -> dict[str, float]:
    """Return the time of each group's oldest record (Unix seconds)."""
    oldest: dict[str, str] = {}
    for record in records:
        oldest[record.group] = min(record.ts, oldest.get(record.group, record.ts))
    return {group: parse_time(ts) for group, ts in oldest.items()}
