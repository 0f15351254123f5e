"""Whole groups, watched live: their rebalances are counted and recorded when they are over.

For hub and standalone alone: two sidecars would count the same rebalance twice.
"""

import asyncio
import time
from collections.abc import Callable, Sequence

from agent.history import History
from aggregation.settled import SETTLE_S, Settled, record
from metrics.sample import Sample
from metrics.snapshot import RebalanceKey, Rebalances

_CHECK_S = 5.0


class GroupWatch:
    """Explains the history's news, once they are quiet."""

    def __init__(
        self,
        history: History,
        limit: int,
        take: Callable[[Sequence[Sample]], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``take`` gets the episodes as records; ``limit`` groups are kept."""
        self._history, self._take, self._clock = history, take, clock
        self._settled = Settled(limit)
        self._settled.skip(self._settled.over(history.records(), clock()))

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            await asyncio.sleep(_CHECK_S)
            await self.check()

    async def check(self) -> None:
        """Count and record what is over by now."""
        now = self._clock()
        records = self._history.due(now, SETTLE_S)
        if not records:
            return
        found = await asyncio.to_thread(self._settled.over, records, now)
        self._settled.count(found)
        self._take([record(episode) for episode in found])

    def totals(self) -> dict[RebalanceKey, Rebalances]:
        """Return what exporters show."""
        return self._settled.totals()
