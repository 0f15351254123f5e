"""The hub's receiver of a topic: the same records as pushes, applied in each partition's order.

Theory of operation. A group's records of one agent lie in one partition, in the agent's order, with
duplicates after a repeated send. So the hub remembers the last number by spool and partition. The
offsets go into the hub's checkpoint with the state of the members, and nowhere else: each hub reads
everything. Until the end of the topic is reached once, and again after brokers were unreachable,
the hub shows no members: old statuses would pass for new ones.
"""

import asyncio
from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

from agent.hub.push_receiver import Position, PushReceiver, with_spool
from agent.sources.base import Detach, Emit
from metrics.model.sample import Sample, Scope
from metrics.model.snapshot import MemberRow
from metrics.tracking.status_track import StatusConfig


class TopicRecord(NamedTuple):
    """One message. ``at`` is its own time, Unix seconds."""

    partition: int
    offset: int
    spool: str
    line: bytes
    at: float


class TopicReceiver(PushReceiver):
    """A source that reads a topic; `TopicFeed` delivers the records."""

    name = "topic"
    kind = "topic"

    def __init__(self, config: StatusConfig, position: dict[str, Any] | None = None) -> None:
        """Resume from a `checkpoint`."""
        super().__init__("", config, position)
        self.health.up = False
        self.unsaved = 0
        """Records since the last checkpoint."""

    def _restore(self, config: StatusConfig, position: Position) -> None:
        super()._restore(config, position)
        self.offsets = dict(position.offsets)
        """Next offset of each partition."""

    async def run(self, emit: Emit, detach: Detach) -> None:
        """Wait: records arrive from the feed."""
        del emit, detach
        await asyncio.Event().wait()

    def checkpoint(self) -> dict[str, Any]:
        """Return the checkpoint of `PushReceiver`, and the offsets."""
        self.unsaved = 0
        offsets = {str(partition): offset for partition, offset in self.offsets.items()}
        return super().checkpoint() | {"offsets": offsets}

    def rows(self, scope: Scope, now: float) -> tuple[MemberRow, ...]:
        """Return the members that agents see, once the topic is read to its end."""
        return super().rows(scope, now) if self.health.up else ()

    def is_pending(self, agent: str, until: float, now: float) -> bool:
        """Answer as `PushReceiver` does; before the topic's end all agents are pending."""
        return not self.health.up or super().is_pending(agent, until, now)

    def take_records(self, records: Sequence[TopicRecord], now: float) -> list[Sample]:
        """Apply and return the new records."""
        taken = list[Sample]()
        for (spool, partition), run in groupby(records, lambda r: (r.spool, r.partition)):
            batch = list(run)
            # An old record shows that its agent was alive then, not that it is alive now.
            at = now if self.health.up else min(now, batch[-1].at)
            lines = b"\n".join(record.line for record in batch)
            new = self.apply_lines(f"{spool}/{partition}", lines, at)
            taken += [with_spool(record, spool) for record in new]
            self.offsets[partition] = batch[-1].offset + 1
        self.unsaved += len(taken)
        return taken
