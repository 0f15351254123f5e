"""Incidents of whole groups, watched live: ongoing ones are shown, final ones counted and recorded.

For hub and standalone alone: two sidecars would count the same incident twice.

Theory of operation. Only groups with new records, or with an incident that time alone may end, are
analysed, in a thread. The pause after it grows with its duration, so that the watch takes no more
than a twentieth of one core however many records there are.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from agent.hub.rebalance_recorder import Agents
from agent.hub.recent_records import RecentRecords
from aggregation.incidents.counter import IncidentCounts
from aggregation.incidents.incidents import analyze
from aggregation.incidents.model import Incident
from aggregation.incidents.records import make_record
from aggregation.rebalances.counter import SETTLE_S
from metrics.model.sample import Sample
from metrics.model.snapshot import IncidentKey

_CHECK_S = 1.0
_PAUSE_SHARE = 19.0
"""Pause after an analysis, in units of its duration."""


class IncidentRecorder:
    """Counts and records the incidents in the recent records."""

    def __init__(  # noqa: PLR0913 - what it reads, and what it writes to
        self,
        history: RecentRecords,
        spooled: Iterable[Sample],
        limit: int,
        take: Callable[[Sequence[Sample]], None],
        agents: Agents,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """``take`` gets final incidents as records; ``limit`` groups are kept.

        What ``spooled`` holds as an incident is not counted again.
        """
        self._history, self._take, self._agents = history, take, agents
        self._clock, self._monotonic = clock, monotonic
        self._read = 0
        self._changed_at: dict[str, tuple[float, float]] = {}
        self._counts = IncidentCounts(limit)
        self._counts.skip(spooled)

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            started = self._monotonic()
            await self.check()
            await asyncio.sleep(max(_CHECK_S, _PAUSE_SHARE * (self._monotonic() - started)))

    async def check(self) -> None:
        """Analyse the groups that changed or are due; count and record what is final by now."""
        now = self._clock()
        changed = self._history.groups_since(self._read)
        self._read = self._history.added
        names = changed | self._counts.due(now)
        unsettled = self._find_unsettled(changed, now)
        if not names:
            return
        records = [record for record in self._history.records() if record.group in names]
        watermark = self._agents.watermark
        incidents = (await asyncio.to_thread(analyze, records, watermark, now)).incidents
        awaited = unsettled | self._awaited(incidents, records)
        latest = {record.group: record for record in records}
        new = self._counts.update(names, incidents, now, awaited)
        self._take([make_record(each, latest[each.ref.group]) for each in new])

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

    def _awaited(self, incidents: Iterable[Incident], records: Iterable[Sample]) -> set[str]:
        """Return the groups of which an agent's records may still belong to a final incident."""
        agents = defaultdict[str, set[str]](set)
        for record in records:
            agents[record.group].add(record.agent)
        return {
            incident.ref.group
            for incident in incidents
            if incident.is_final and incident.ended_at is not None
            if any(
                self._agents.is_pending(agent, incident.ended_at)
                for agent in agents[incident.ref.group]
            )
        }

    def totals(self) -> dict[IncidentKey, int]:
        """Return the numbers of final incidents."""
        return self._counts.totals()

    def ongoing(self) -> dict[IncidentKey, int]:
        """Return the numbers of ongoing incidents."""
        return self._counts.ongoing()
