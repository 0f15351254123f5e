"""Whole groups, watched live: their rebalances are counted and recorded when they are over.

For hub and standalone alone: two sidecars would count the same rebalance twice.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from agent.hub.recent_records import RecentRecords
from aggregation.rebalances.counter import SETTLE_S, CompletedRebalances, record
from aggregation.rebalances.rebalances import ExplainedRebalance
from metrics.model.sample import Sample
from metrics.model.snapshot import GroupName, RebalanceKey, Rebalances

_CHECK_S = 5.0


class Agents(Protocol):
    """How far those are whose records the history holds."""

    def watermark(self, agent: str) -> float:
        """Return up to when an agent has told all that it saw (Unix seconds)."""

    def is_pending(self, agent: str, until: float) -> bool:
        """Tell whether an agent's records up to an instant may still be on their way."""


class RebalanceRecorder:
    """Explains the history's news, once they are quiet and nobody's records are awaited."""

    def __init__(  # noqa: PLR0913 - what it takes, and what it gives
        self,
        history: RecentRecords,
        spooled: Iterable[Sample],
        limit: int,
        take: Callable[[Sequence[Sample]], None],
        agents: Agents,
        clock: Callable[[], float] = time.time,
        tell: Callable[[Sequence[ExplainedRebalance]], None] = lambda _: None,
    ) -> None:
        """``take`` gets the episodes as records, ``tell`` as they are; ``limit`` groups are kept.

        What ``spooled`` holds as an episode was counted; what an end came before is counted now.
        """
        self._history, self._take, self._agents, self._clock = history, take, agents, clock
        self._tell = tell
        self._settled = CompletedRebalances(limit)
        self._settled.skip(spooled)
        history.requeue({each.group for each in history.records()}, clock())

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            await asyncio.sleep(_CHECK_S)
            await self.check()

    async def check(self) -> None:
        """Count and record what is over by now."""
        now = self._clock()
        records = self._history.take_quiet(now, SETTLE_S)
        if not records:
            return
        over = self._settled.find_completed
        found = await asyncio.to_thread(over, records, now, self._agents.watermark)
        awaited = self._awaited(found, records)
        self._history.requeue(awaited, now)
        found = [each for each in found if each.round.ref.group not in awaited]
        self._settled.count(found)
        self._take([record(episode) for episode in found])
        self._tell(found)

    def _awaited(self, found: Sequence[ExplainedRebalance], records: Sequence[Sample]) -> set[str]:
        """Return the groups of which an agent may still tell what belongs to what is over."""
        agents = defaultdict[str, set[str]](set)
        for each in records:
            agents[each.group].add(each.agent)
        return {
            group
            for group, at in ((each.round.ref.group, each.round.ended_at) for each in found)
            if any(self._agents.is_pending(agent, at) for agent in agents[group])
        }

    def totals(self) -> dict[RebalanceKey, Rebalances]:
        """Return what exporters show."""
        return self._settled.totals()

    def last_ends(self) -> dict[GroupName, float]:
        """Return when each group's last rebalance ended (Unix seconds)."""
        return self._settled.last_ends()
