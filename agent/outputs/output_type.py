"""An output, and an output type as the registry lists it.

An output is a folder with a ``registration.py`` that holds its row; `agent.outputs.registry` lists
the rows. A row imports its output only if it is configured.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from agent.config.hub import HubConfig
from agent.config.kafka import KafkaAccess, KafkaConfig
from agent.config.otlp import OtlpConfig
from metrics.exporters.exposition import Exposition, OutputStats

if TYPE_CHECKING:
    from aggregation.rebalances.rebalances import ExplainedRebalance


class AgentOutput(Protocol):
    """Sends records or metrics until it is cancelled."""

    name: str

    async def run(self) -> None: ...

    @property
    def stats(self) -> OutputStats:
        """Counts since the start."""


@runtime_checkable
class SupportsRebalances(Protocol):
    """An output that also sends complete rebalances of whole groups."""

    def enqueue(self, episodes: "Sequence[ExplainedRebalance]") -> None:
        """Queue rebalances."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputContext:
    """The agent's settings and functions, for the factories of outputs."""

    host: str
    version: str
    cluster: KafkaAccess
    kafka: KafkaConfig | None
    hub: HubConfig
    otlp: OtlpConfig | None
    spool_dir: Path
    state_dir: Path
    max_series: int
    last_seq: Callable[[], int]
    """Returns the last sequence number of the spool."""
    expose: Callable[[], Callable[[], tuple[float, Exposition]]]
    """Takes a snapshot, in the event loop; its result builds the rows, in any thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputType:
    """One row of the registry."""

    name: str
    create: Callable[[OutputContext], list[AgentOutput]]
    """Returns the configured outputs; none, unless its section is there."""
