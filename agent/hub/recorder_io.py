"""The input and output that the recorders of rebalances and of incidents share."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from agent.hub.recent_records import RecentRecords
from metrics.model.sample import Sample


class Agents(Protocol):
    """How far those are that send the records."""

    def watermark(self, agent: str) -> float:
        """Return up to when an agent has sent all that it saw (Unix seconds)."""

    def is_pending(self, agent: str, until: float) -> bool:
        """Whether an agent's records up to an instant may still be on their way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderIO:
    """Input and outputs of a recorder."""

    history: RecentRecords
    spooled: Iterable[Sample]
    """Records of an earlier run: it has counted their rebalances and incidents."""
    limit: int
    """Number of groups that are kept."""
    take: Callable[[Sequence[Sample]], None]
    """Called with new records, to write them."""
    agents: Agents
    clock: Callable[[], float] = time.time

    def find_awaited(
        self, ends: Iterable[tuple[str, float]], records: Iterable[Sample]
    ) -> set[str]:
        """Return the groups for which an agent may still send records up to one of the ends.

        ``ends`` are groups and instants (Unix seconds); ``records`` show the agents of each group.
        """
        agents = defaultdict[str, set[str]](set)
        for record in records:
            agents[record.group].add(record.agent)
        return {
            group
            for group, at in ends
            if any(self.agents.is_pending(agent, at) for agent in agents[group])
        }
