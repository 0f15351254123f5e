"""The outputs' part in the composition: built from their registry, supervised, counted."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agent import VERSION
from agent.outputs.output_type import AgentOutput, OutputContext, SupportsRebalances
from agent.outputs.registry import make_outputs
from agent.runtime.supervisor import supervise
from agent.wiring.agent_config import AgentConfig
from aggregation.live.live import live
from metrics.exporters.exposition import AgentStats, Exposition, OutputStats
from metrics.model.snapshot import Snapshot

if TYPE_CHECKING:
    from aggregation.rebalances.rebalances import ExplainedRebalance

TakeSnapshot = Callable[[], tuple[Snapshot, AgentStats]]


class OutputsWiring:
    """The configured outputs beside the spool."""

    def __init__(
        self, config: AgentConfig, last_seq: Callable[[], int], snapshot: TakeSnapshot
    ) -> None:
        """Build the outputs.

        Raises:
            RebalanceAgentError: a secret cannot be read, or an extra is missing.

        """
        self._outputs = make_outputs(make_context(config, last_seq, snapshot))
        self._failures = Counter[str]()

    def start(self) -> list[asyncio.Task[Any]]:
        """Start every output."""
        return [
            asyncio.create_task(self._supervise(output), name=output.name)
            for output in self._outputs
        ]

    def stats(self) -> tuple[OutputStats, ...]:
        """Return each output's counts."""
        return tuple(
            replace(output.stats, errors=output.stats.errors + self._failures[output.name])
            for output in self._outputs
        )

    def enqueue(self, episodes: "Sequence[ExplainedRebalance]") -> None:
        """Queue complete rebalances of whole groups, for outputs that send them."""
        for output in self._outputs:
            if isinstance(output, SupportsRebalances):
                output.enqueue(episodes)

    async def _supervise(self, output: AgentOutput) -> None:
        def note_failure() -> None:
            self._failures[output.name] += 1

        await supervise("output_failed", {"output": output.name}, output.run, note_failure)


def make_context(
    config: AgentConfig, last_seq: Callable[[], int], snapshot: TakeSnapshot
) -> OutputContext:
    """Return the part of the agent that the factories of outputs read."""

    def expose() -> Callable[[], tuple[float, Exposition]]:
        shown, stats = snapshot()
        return lambda: (shown.at, Exposition(live(shown, members=config.shows_members), stats))

    return OutputContext(
        host=config.host,
        version=VERSION,
        cluster=config.cluster.access,
        kafka=config.samples.kafka,
        hub=config.hub,
        otlp=config.otlp,
        spool_dir=config.samples.spool.dir,
        state_dir=config.state_dir,
        max_series=config.limits.series,
        last_seq=last_seq,
        expose=expose,
    )
