"""The hub's receiver of a topic: the same records as pushes, applied in each partition's order.

Theory of operation. A group's records of one agent lie in one partition, in the agent's order, with
duplicates after a repeated send. So the hub remembers the last number by spool, partition and
agent. Two agents may write under one spool's id, if its folder was copied. If their names are
equal, too, the ids of the latest records distinguish them. The offsets go into the hub's checkpoint
with the state of the members, and nowhere else: each hub reads everything. Until the end of the
topic is reached once, and again after brokers were unreachable, the hub shows no members: old
statuses would pass for new ones.
"""

import asyncio
import logging
from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

import msgspec

from agent.hub.push_receiver import MAX_SPOOLS, Position, PushedBatch, PushReceiver, with_spool
from agent.sources.base import Detach, Emit
from metrics.model.names import clip_name
from metrics.model.sample import MALFORMED, Sample, Scope
from metrics.model.snapshot import MemberRow
from metrics.tracking.status_track import StatusConfig

_log = logging.getLogger(__name__)

_KNOWN_IDS = 50_000
"""Latest records with a known id, some 10 MiB: ten whole batches of an agent."""


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
        self._known: dict[tuple[str, int], tuple[str, ...]] = {}
        """Ids of the latest records, by spool with partition and agent, and by number."""
        self._copied = set[str]()
        """Spools, with partition and agent, that two agents of one name write."""

    def _restore(self, config: StatusConfig, position: Position) -> None:
        super()._restore(config, position)
        self.offsets = dict(position.offsets)
        """Next offset of each partition."""
        self._floors = dict(position.seqs)
        """Numbers up to here have no known ids any more, by spool with partition and agent."""

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

    def _is_new(self, spool: str, record: Sample, batch: PushedBatch) -> bool:
        """Whether a record was not received before.

        One agent's numbers rise within a partition, so an unknown one behind the last is another's.
        """
        numbered = spool, record.seq
        ids = self._known.get(numbered, ())
        is_known, is_behind = record.id in ids, record.seq <= batch.last
        if is_behind and not is_known and record.seq > self._floors.get(spool, 0):
            self._count_copy(spool)
        if is_known or (is_behind and spool not in self._copied):
            return False
        self._known.pop(numbered, None)
        self._known[numbered] = (*ids, record.id)  # the latest is last
        self._forget_oldest()
        return True

    def _forget_oldest(self) -> None:
        while len(self._known) > _KNOWN_IDS:
            spool, number = next(iter(self._known))
            del self._known[spool, number]
            self._floors[spool] = max(number, self._floors.pop(spool, 0))
        while len(self._floors) > 2 * MAX_SPOOLS:
            del self._floors[next(iter(self._floors))]

    def _count_copy(self, spool: str) -> None:
        errors = self.health.errors
        errors["spool_copied"] = errors.get("spool_copied", 0) + 1
        if spool not in self._copied and len(self._copied) < MAX_SPOOLS:
            self._copied.add(spool)
            _log.warning("spool_copied", extra={"spool": spool})

    def take_records(self, records: Sequence[TopicRecord], now: float) -> list[Sample]:
        """Apply and return the new records."""
        taken = list[Sample]()
        for (spool, partition, agent), run in groupby(records, _origin_of):
            batch = list(run)
            # An old record shows that its agent was alive then, not that it is alive now.
            at = now if self.health.up else min(now, batch[-1].at)
            lines = b"\n".join(record.line.translate(_ONE_LINE) or b" " for record in batch)
            new = self.apply_lines(f"{spool}/{partition}/{agent}", lines, at)
            self._ids.clear()  # those of pushes: a topic has no sender that requests them
            taken += [with_spool(record, spool) for record in new]
            self.offsets[partition] = batch[-1].offset + 1
        self.unsaved += len(taken)
        return taken


class _Named(msgspec.Struct):
    agent: str = ""


_decode_agent = msgspec.json.Decoder(_Named).decode
_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")
"""A message is one record, as for ingest; JSON may have ends of lines between its parts. One
without a value is a blank line, and so no record."""


def _origin_of(record: TopicRecord) -> tuple[str, int, str]:
    """Return a record's spool, its partition, and its agent's name; empty if it cannot be read.

    Names are clipped: a header may have as many bytes as a message, and 10,000 spools are kept.
    """
    try:
        agent = clip_name(_decode_agent(record.line).agent)
    except MALFORMED:
        agent = ""
    return clip_name(record.spool), record.partition, agent
