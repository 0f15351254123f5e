"""Incidents of whole groups, watched live: ongoing ones are shown, final ones counted and recorded.

For hub and standalone alone: two sidecars would count the same incident twice.

Theory of operation. Only groups with new records, or with an incident that time alone may end, are
analysed, in a thread. The pause after it grows with its duration, so that the watch takes no more
than a twentieth of one core however many records there are.
"""

import asyncio
import time
from collections.abc import Callable, Iterable

from agent.hub.recorder_io import RecorderIO
from aggregation.incidents.counter import IncidentCounts
from aggregation.incidents.incidents import analyze
from aggregation.incidents.records import make_record
from aggregation.rebalances.counter import SETTLE_S
from metrics.model.snapshot import IncidentTotals

_CHECK_S = 1.0
_PAUSE_SHARE = 19.0
"""Pause after an analysis, in units of its duration."""


class IncidentRecorder:
    """Counts and records the incidents in the recent records."""

    def __init__(self, io: RecorderIO, monotonic: Callable[[], float] = time.monotonic) -> None:
        """What is spooled as an incident is not counted again."""
        self._io, self._monotonic = io, monotonic
        self._read = 0
        self._changed_at: dict[str, tuple[float, float]] = {}
        self._counts = IncidentCounts(io.limit)
        self._counts.skip(io.spooled)

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            started = self._monotonic()
            await self.check()
            await asyncio.sleep(max(_CHECK_S, _PAUSE_SHARE * (self._monotonic() - started)))

    async def check(self) -> None:
        """Analyse the groups that changed or are due; count and record what is final by now."""
        io, now = self._io, self._io.clock()
        changed = io.history.groups_since(self._read)
        self._read = io.history.added
        names = changed | self._counts.due(now)
        unsettled = self._find_unsettled(changed, now)
        if not names:
            return
        records = [record for record in io.history.records() if record.group in names]
        analysis = await asyncio.to_thread(analyze, records, io.agents.watermark, now)
        ends = [(i.ref.group, i.ended_at) for i in analysis.incidents if i.is_final and i.ended_at]
        awaited = unsettled | io.find_awaited(ends, records)
        latest = {record.group: record for record in records}
        new = self._counts.update(names, analysis, now, awaited)
        io.take([make_record(each, latest[each.ref.group]) for each in new])

    def _find_unsettled(self, changed: Iterable[str], now: float) -> set[str]:
        """Return the groups of which more records are likely: a source may read old ones.

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
        """Return what exporters show."""
        return self._counts.totals()
