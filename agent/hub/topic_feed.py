"""Feed of a topic's records to the hub, with a new reader after each fault."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from agent.errors import SourceError
from agent.hub.topic_intake import TopicReceiver, TopicRecord
from agent.processes.daemon_thread import call_in_daemon
from metrics.model.sample import Sample

log = logging.getLogger(__name__)

_RETRY_S = 2.0
_CLOSE_S = 3.0
_PAUSE_S = 0.2
_UNSAVED = 10_000
"""Limit of records without a checkpoint: after a crash the spool recognises 50,000 duplicates."""


class RecordReader(Protocol):
    """Reads a topic from given offsets; every call blocks, or raises SourceError."""

    @property
    def at_end(self) -> bool:
        """Whether every partition has been read to its end once."""

    def read(self) -> list[TopicRecord]:
        """Return the records of the next moment."""

    def take_unread(self) -> Mapping[str, int]:
        """Return how many records were passed over since the last call, by reason.

        ``expired``: the topic no longer holds them. ``unreadable``: their batch is damaged, or too
        large when unpacked.
        """

    def has_grown(self) -> bool:
        """Whether the topic has partitions that are not read."""

    def close(self) -> None:
        """Close the connections to brokers."""


class TopicFeed:
    """Feeds the current receiver; each step calls ``receiver``, as a reload makes a new one."""

    def __init__(
        self,
        topic: str,
        open_reader: Callable[[Mapping[int, int]], RecordReader],
        intake: Callable[[], TopicReceiver],
        take: Callable[[Sequence[Sample]], None],
        clock: Callable[[], float],
    ) -> None:
        """``open_reader`` raises SourceError if the topic cannot be read."""
        self.name = f"kafka:{topic}"
        self._topic, self._open, self._receiver = topic, open_reader, intake
        self._record, self._clock = take, clock
        self._fault = ""

    async def run(self) -> None:
        """Feed until cancelled."""
        while True:
            try:
                await self._follow()
            except SourceError as error:
                health = self._receiver().health
                health.up = False
                health.errors["kafka"] = health.errors.get("kafka", 0) + 1
                self._log_change(str(error))
                await asyncio.sleep(_RETRY_S)

    async def _follow(self) -> None:
        """Read until a fault, or until the topic has a new partition."""
        reader = await call_in_daemon(lambda: self._open(self._receiver().offsets), self.name)
        try:
            self._log_change("")
            self._note_unread(reader.take_unread())
            while not await call_in_daemon(reader.has_grown, self.name):
                if self._receiver().unsaved > _UNSAVED:
                    await asyncio.sleep(_PAUSE_S)
                    continue
                records = await call_in_daemon(reader.read, self.name)
                self._note_unread(reader.take_unread())
                intake = self._receiver()
                self._record(intake.take_records(records, self._clock()))
                intake.health.up = reader.at_end
        finally:
            with suppress(TimeoutError):  # the end of the agent waits no longer for brokers
                async with asyncio.timeout(_CLOSE_S):
                    await call_in_daemon(reader.close, self.name)

    def _note_unread(self, unread: Mapping[str, int]) -> None:
        errors = self._receiver().health.errors
        for reason, records in unread.items():
            if records:
                errors[reason] = errors.get(reason, 0) + records
                event = f"records_{reason}"
                log.warning(event, extra={"topic": self._topic, "records": records})

    def _log_change(self, fault: str) -> None:
        keys = {"topic": self._topic}
        if fault and not self._fault:
            log.warning("kafka_unreachable", extra=keys | {"error": fault})
        elif self._fault and not fault:
            log.info("kafka_reachable", extra=keys)
        self._fault = fault
