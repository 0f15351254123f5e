"""Whole groups, watched live: their rebalances are counted and recorded when they are over.

For hub and standalone alone: two sidecars would count the same rebalance twice.
"""

import asyncio
from collections.abc import Callable, Sequence

from agent.hub.recorder_io import RecorderIO
from aggregation.rebalances.counter import SETTLE_S, CompletedRebalances, record
from aggregation.rebalances.rebalances import ExplainedRebalance
from metrics.model.snapshot import RebalanceKey, Rebalances

_CHECK_S = 5.0


class RebalanceRecorder:
    """Explains groups with new records, when these are quiet and no agent's records are awaited."""

    def __init__(
        self, io: RecorderIO, tell: Callable[[Sequence[ExplainedRebalance]], None] = lambda _: None
    ) -> None:
        """``tell`` gets the rebalances that are over, in addition to their records.

        Rebalances with a spooled record of kind `episode` count as counted. Others that ended
        before this start are counted at the next check.
        """
        self._io, self._tell = io, tell
        self._settled = CompletedRebalances(io.limit)
        self._settled.skip(io.spooled)
        io.history.requeue({each.group for each in io.history.records()}, io.clock())

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            await asyncio.sleep(_CHECK_S)
            await self.check()

    async def check(self) -> None:
        """Count and record the rebalances that are over."""
        io, now = self._io, self._io.clock()
        records = io.history.take_quiet(now, SETTLE_S)
        if not records:
            return
        over = self._settled.find_completed
        found = await asyncio.to_thread(
            over, records, now, io.agents.watermark, io.history.silences
        )
        ends = [(each.round.ref.group, each.round.ended_at) for each in found]
        awaited = io.find_awaited(ends, records)
        io.history.requeue(awaited, now)
        found = [each for each in found if each.round.ref.group not in awaited]
        self._settled.count(found)
        io.take([record(episode) for episode in found])
        self._tell(found)

    def totals(self) -> dict[RebalanceKey, Rebalances]:
        """Return the counts that exporters show."""
        return self._settled.totals()
