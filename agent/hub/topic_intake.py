"""The hub's side of a topic: the same records as agents push, applied in each partition's order.

Theory of operation. A group's records of one agent lie in one partition, in the agent's order, and
some twice where it had to send again. So the last number is remembered by spool and partition. The
offsets go into the hub's checkpoint with what was made of the records, and nobody else keeps them:
each hub reads everything. Until the end of the topic is reached once, and again after brokers were
away, nothing is shown: old statuses would pass for new ones.
"""

import asyncio
from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

from agent.hub.push_receiver import PushReceiver, with_spool
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
    """A source whose world is a topic; `TopicFeed` brings it the records."""

    name = "topic"
    kind = "topic"

    def __init__(self, config: StatusConfig, position: dict[str, Any] | None = None) -> None:
        """Go on from `checkpoint`."""
        super().__init__("", config, position)
        self.health.up = False
        found = (position or {}).get("offsets", {})
        self.offsets = {int(partition): offset for partition, offset in found.items()}
        """Where each partition goes on."""
        self.unsaved = 0
        """Records that no checkpoint has seen."""

    async def run(self, emit: Emit, detach: Detach) -> None:
        """Wait: the records come by the feed."""
        del emit, detach
        await asyncio.Event().wait()

    def checkpoint(self) -> dict[str, Any]:
        """Return what `Intake` returns, and the offsets."""
        self.unsaved = 0
        offsets = {str(partition): offset for partition, offset in self.offsets.items()}
        return super().checkpoint() | {"offsets": offsets}

    def rows(self, scope: Scope, now: float) -> tuple[MemberRow, ...]:
        """Return the members that agents see, once all is read."""
        return super().rows(scope, now) if self.health.up else ()

    def is_pending(self, agent: str, until: float, now: float) -> bool:
        """Tell as `Intake` does; before all is read, everybody's records are awaited."""
        return not self.health.up or super().is_pending(agent, until, now)

    def take_records(self, records: Sequence[TopicRecord], now: float) -> list[Sample]:
        """Apply what is new, and return it."""
        taken = list[Sample]()
        for (spool, partition), run in groupby(records, lambda r: (r.spool, r.partition)):
            told = list(run)
            # What lay there before tells that its agent lived then, not that it lives.
            at = now if self.health.up else min(now, told[-1].at)
            lines = b"\n".join(record.line for record in told)
            new = self.apply_lines(f"{spool}/{partition}", lines, at)
            taken += [with_spool(record, spool) for record in new]
            self.offsets[partition] = told[-1].offset + 1
        self.unsaved += len(taken)
        return taken
