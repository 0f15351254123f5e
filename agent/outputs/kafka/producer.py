"""Output of the spool's records to a Kafka topic, in order; the spool is the buffer.

Theory of operation. A batch goes to an idempotent producer that never drops a record. When all of
it is acknowledged (acks=all), its last number is saved, and the next batch follows. After a crash
in between the batch is sent again: readers recognise duplicates by number and id. Records of a
group have one key, so they stay in one partition, in their agent's order. A producer that would
leave a gap there stops instead, and another one sends the batch again.
"""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
from confluent_kafka import KafkaError, KafkaException, Producer

from agent.config.kafka import KafkaAccess
from agent.errors import OutputError
from agent.files import replace_file
from agent.outputs.kafka.client_config import client_properties
from agent.outputs.spool.identity import spool_id
from agent.outputs.spool.reader import SpoolBatch, batch_after
from agent.processes.daemon_thread import call_in_daemon
from agent.small_files import read_bytes
from metrics.exporters.exposition import OutputStats
from metrics.model.sample import MALFORMED

log = logging.getLogger(__name__)

SPOOL_HEADER = "spool"
"""Header with the spool's id: a record's ``seq`` counts within it."""
_MAX_LINES, _MAX_BYTES = 5_000, 2 << 20
_INTERVAL_S = 1.0
_SLICE_S = 0.5
_ACK_TIMEOUT_S = 5.0
_MAX_WAIT_S = 60.0
_PURGED = {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}  # noqa: SLF001 - their names
_RESPONSE_MAX_BYTES = 4 << 20
"""A topic of 10,000 partitions takes 1 MiB; librdkafka takes 100 MB of each broker."""
_PRODUCER = {
    "enable.idempotence": True,  # brings acks=all
    "enable.gapless.guarantee": True,
    "message.timeout.ms": 0,
    "partitioner": "murmur2_random",  # as Java's
    "compression.type": "lz4",
    "linger.ms": 20,
    "receive.message.max.bytes": _RESPONSE_MAX_BYTES,
}


class _RecordKey(msgspec.Struct):
    cluster: str
    group: str

    @property
    def key(self) -> str:
        return f"{self.cluster}/{self.group}"


_decode = msgspec.json.Decoder(_RecordKey).decode


def _key(line: bytes) -> str | None:
    """Return the key that keeps a group's records in one partition; None for a damaged record."""
    try:
        return _decode(line).key
    except MALFORMED:
        return None


class _TopicProgress(msgspec.Struct):
    spool: str
    seq: int


@dataclass(slots=True)
class _InFlightBatch:
    """A batch that awaits acknowledgements."""

    batch: SpoolBatch
    sent_s: float
    waiting: int
    failed: bool = False
    fault: str = ""

    def on_delivery(self, error: KafkaError | None, _: object) -> None:
        self.waiting -= 1
        if error is not None:
            self.failed = True
            if error.code() not in _PURGED:  # a purge only follows another error
                self.fault = self.fault or error.str()


class KafkaOutput:
    """Sends one spool to one topic."""

    def __init__(
        self,
        topic: str,
        access: KafkaAccess,
        *,
        folder: Path,
        progress: Path,
        newest: Callable[[], int],
    ) -> None:
        """Resume from the number in ``progress``; ``newest`` returns the spool's last number.

        Raises:
            RebalanceAgentError: a secret cannot be read, or the spool cannot be used.

        """
        self.name = f"kafka:{topic}"
        self._topic, self._folder, self._path, self._newest = topic, folder, progress, newest
        self._properties = client_properties(access) | _PRODUCER | {"error_cb": self._on_error}
        self._spool = spool_id(folder)
        self._seq = _read(progress, self._spool)
        self._sent = self._dropped = self._errors = 0
        self._last_error = self._fault = ""
        self._lock = threading.Lock()
        self._producer: Producer | None = None
        self._in_flight: _InFlightBatch | None = None

    async def run(self) -> None:
        """Send until cancelled."""
        wait = _INTERVAL_S
        try:
            while True:
                try:
                    wait = 0.0 if await call_in_daemon(self.step, self.name) else _INTERVAL_S
                except (OSError, OutputError, KafkaException) as error:
                    self._errors += 1
                    wait = min(max(2 * wait, _INTERVAL_S), _MAX_WAIT_S)
                    await call_in_daemon(self.close, self.name)
                    self._log_change(str(error))
                await asyncio.sleep(wait)
        finally:
            await call_in_daemon(self.close, self.name)

    def step(self) -> bool:
        """Send the next batch, or await one in flight; return whether to repeat at once.

        Raises:
            OutputError: the brokers accept no more from this producer.

        """
        with self._lock:
            self._producer = self._producer or Producer(self._properties)
            if self._in_flight is None:
                try:
                    self._in_flight = self._start_batch(self._producer)
                except KafkaException as error:  # it has ended since the last batch
                    raise OutputError(_end_reason(self._producer) or str(error)) from error
            if self._in_flight is None:
                return False
            try:
                self._producer.flush(_SLICE_S)
            except (KafkaException, SystemError) as error:
                fault = self._in_flight.fault or self._last_error
                raise OutputError(fault or _spell_end(error)) from error
            self._finish_batch(self._in_flight)
            return True

    def close(self) -> None:
        """Close the producer; records without acknowledgement will be sent again."""
        with self._lock:
            if self._producer is not None:
                with contextlib.suppress(KafkaException, SystemError):  # it has ended by itself
                    self._producer.purge()
                    self._producer.flush(_SLICE_S)
            self._producer = self._in_flight = None

    @property
    def stats(self) -> OutputStats:
        """Counts of acknowledged records, and of those that wait in the spool."""
        return OutputStats(
            name=self.name,
            written=self._sent,
            buffered=max(0, self._newest() - self._seq),
            dropped=self._dropped,
            errors=self._errors,
        )

    def _start_batch(self, producer: Producer) -> _InFlightBatch | None:
        batch = batch_after(self._folder, self._seq, _MAX_LINES, _MAX_BYTES)
        if batch is None:
            return None
        flight = _InFlightBatch(batch, time.monotonic(), len(batch.lines))
        headers: list[tuple[str, str | bytes | None]] = [(SPOOL_HEADER, self._spool)]
        for line in batch.lines:
            producer.produce(
                self._topic,
                line.rstrip(b"\n"),
                _key(line),
                headers=headers,
                on_delivery=flight.on_delivery,
            )
        return flight

    def _finish_batch(self, flight: _InFlightBatch) -> None:
        if flight.failed:
            raise OutputError(flight.fault or self._last_error or "the producer has ended")
        if flight.waiting:
            if time.monotonic() - flight.sent_s > _ACK_TIMEOUT_S:
                self._log_change(self._last_error or "the brokers acknowledge nothing")
            return
        batch = flight.batch
        progress = msgspec.json.encode(_TopicProgress(self._spool, batch.last))
        replace_file(self._path, [progress])
        self._dropped += batch.first - self._seq - 1  # evicted from the spool before
        self._sent += len(batch.lines)
        self._seq, self._in_flight = batch.last, None
        self._last_error = ""
        self._log_change("")

    def _on_error(self, error: KafkaError) -> None:
        self._errors += 1
        self._last_error = error.str()

    def _log_change(self, fault: str) -> None:
        keys = {"topic": self._topic}
        if fault and not self._fault:
            log.warning("kafka_unreachable", extra=keys | {"error": fault})
        elif self._fault and not fault:
            log.info("kafka_reachable", extra=keys)
        self._fault = fault


def _end_reason(producer: Producer) -> str:
    """Return the error that ended a producer; empty if it has none that is new."""
    try:
        producer.poll(0.0)
    except (KafkaException, SystemError) as error:
        return _spell_end(error)
    return ""


def _spell_end(error: KafkaException | SystemError) -> str:
    """Return a fatal error's text; it arrives as either, depending on the number of callbacks."""
    return str(error.__cause__ or error)


def _read(path: Path, spool: str) -> int:
    """Return the saved number of a spool; 0 for another spool or a damaged file."""
    try:
        progress = msgspec.json.decode(read_bytes(path), type=_TopicProgress)
    except (FileNotFoundError, *MALFORMED):
        return 0
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}") from error
    return progress.seq if progress.spool == spool else 0
