"""Reader of all partitions of a topic from given offsets: a consumer outside any group.

Nothing is committed to Kafka and nothing rebalances; librdkafka still requires a ``group.id``.
"""

import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from operator import methodcaller
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from agent.errors import SourceError
from agent.hub.topic_intake import TopicRecord
from agent.outputs.kafka.producer import SPOOL_HEADER

_TIMEOUT_S = 10.0
_READ_S = 0.5
_READ_RECORDS, _READ_BYTES = 1_000, 4 << 20
"""Limits of one read; the last record may exceed them."""
_REFRESH_S = 60.0
"""Interval of the search for new partitions."""
_ALL_DOWN, _NO_LOGIN = KafkaError._ALL_BROKERS_DOWN, KafkaError._AUTHENTICATION  # noqa: SLF001
_EOF = KafkaError._PARTITION_EOF  # noqa: SLF001 - their names
_CONSUMER = {
    "group.id": "rebalance-agent",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "earliest",
    "fetch.wait.max.ms": 200,
    "fetch.message.max.bytes": 16 << 10,
    "fetch.max.bytes": 64 << 10,
    "message.max.bytes": 64 << 10,  # the least of ``fetch.max.bytes``; this client writes nothing
    "receive.message.max.bytes": 32 << 20,
    "fetch.queue.backoff.ms": 10,  # its default of a second is for queues of 100,000 messages
    "queued.min.messages": 1_000,
    "queued.max.messages.kbytes": 16 << 10,
}
"""Small fetches of a batch at least: no partition runs far ahead of another, so duplicates after a
crash arrive while the spool still recognises them. And a fetch is unpacked at once: zstd packs a
text of one letter 10,000 times smaller. ``receive.message.max.bytes`` bounds an unpacked batch."""
_UNREADABLE = {
    KafkaError.INVALID_MSG,
    KafkaError._BAD_COMPRESSION,  # noqa: SLF001 - their names
    KafkaError._BAD_MSG,  # noqa: SLF001
}
"""Errors of a batch that no later fetch reads: damaged, or unpacked too large."""


_call_headers = methodcaller("headers")
"""A plain call may return a list with holes: only a call of a callable checks for the error."""


def _read_headers(message: "Message[Any, Any]") -> dict[str, Any]:
    """Return a message's headers; none, if any producer's key in them is no UTF-8."""
    try:
        return dict(_call_headers(message) or ())
    except SystemError:  # confluent-kafka returns what it has, with an error set
        return {}


class TopicReader:
    """One consumer, used by one thread at a time."""

    def __init__(
        self,
        properties: Mapping[str, Any],
        topic: str,
        offsets: Mapping[int, int],
        look_back_s: float,
    ) -> None:
        """Assign all partitions; one without an offset begins ``look_back_s`` ago. Blocks.

        Raises:
            SourceError: the brokers or the topic cannot be reached.

        """
        self._topic, self._properties = topic, properties
        self._fault = self._last_error = ""
        self._lock = threading.Lock()
        try:
            self._consumer = Consumer({**properties, **_CONSUMER, "error_cb": self._on_error})
        except KafkaException as error:
            raise SourceError(f"topic {topic!r}: {error.args[0].str()}") from error
        self._since_ms = int((time.time() - look_back_s) * 1000)
        self._unfinished: set[int] = set()
        self._unread = Counter[str]()
        try:
            self._partitions = self._count()
            starts = [self._start(number, offsets) for number in range(self._partitions)]
            self._unfinished = {start.partition for start in starts}
            self._consumer.assign(starts)
        except KafkaException as error:
            self._consumer.consume(10, 0.1)  # the callback receives the reason
            text = self._last_error or self._fault or error.args[0].str()
            self._consumer.close()
            raise SourceError(f"topic {topic!r}: {text}") from error
        except SourceError:
            self._consumer.close()
            raise
        self._refresh_at_s = time.monotonic() + _REFRESH_S

    @property
    def at_end(self) -> bool:
        """Whether every partition has been read to its end once."""
        return not self._unfinished

    def read(self) -> list[TopicRecord]:
        """Return the records of the next moment. Blocks.

        Raises:
            SourceError: the brokers are unreachable or refuse.

        """
        found, size = list[TopicRecord](), 0
        with self._lock:
            message = self._consumer.poll(_READ_S)
            if self._fault and message is None:
                raise SourceError(f"topic {self._topic!r}: {self._fault}")
            while message is not None:
                if (record := self._record(message)) is not None:
                    found.append(record)
                    size += len(record.line)
                if len(found) >= _READ_RECORDS or size >= _READ_BYTES:
                    break
                message = self._consumer.poll(0)
        return found

    def take_unread(self) -> Mapping[str, int]:
        """Return how many records were passed over since the last call, by reason."""
        with self._lock:
            unread, self._unread = self._unread, Counter()
        return unread

    def has_grown(self) -> bool:
        """Whether the topic has partitions that are not read; checks rarely. Blocks.

        Raises:
            SourceError: as for `read`.

        """
        if time.monotonic() < self._refresh_at_s:
            return False
        self._refresh_at_s = time.monotonic() + _REFRESH_S
        with self._lock:
            try:
                return self._count() != self._partitions
            except KafkaException as error:
                raise SourceError(f"topic {self._topic!r}: {error.args[0].str()}") from error

    def close(self) -> None:
        """Close the connections to brokers, after a read under way."""
        with self._lock:
            self._consumer.close()

    def _count(self) -> int:
        found = self._consumer.list_topics(self._topic, _TIMEOUT_S).topics[self._topic]
        if found.error is not None:
            raise SourceError(f"topic {self._topic!r}: {found.error.str()}")
        return len(found.partitions)

    def _start(self, number: int, offsets: Mapping[int, int]) -> TopicPartition:
        place = TopicPartition(self._topic, number)
        low, high = self._consumer.get_watermark_offsets(place, _TIMEOUT_S)
        offset = offsets.get(number)
        if offset is None:
            asked = TopicPartition(self._topic, number, self._since_ms)
            (since,) = self._consumer.offsets_for_times([asked], _TIMEOUT_S)
            if since.error is not None:
                raise KafkaException(since.error)
            offset = since.offset if since.offset >= 0 else high
        elif offset > high:  # another topic of the same name
            offset = low
        self._unread["expired"] += max(0, low - offset)
        return TopicPartition(self._topic, number, max(low, offset))

    def _record(self, message: "Message[Any, Any]") -> TopicRecord | None:
        error = message.error()
        if error is not None:
            self._take_error(error, message)
            return None
        spool = _read_headers(message).get(SPOOL_HEADER) or b""
        return TopicRecord(
            partition=message.partition() or 0,
            offset=message.offset() or 0,
            spool=spool.decode(errors="replace") if isinstance(spool, bytes) else spool,
            line=message.value() or b"",
            at=message.timestamp()[1] / 1000,
        )

    def _take_error(self, error: KafkaError, message: "Message[Any, Any]") -> None:
        if error.code() == _EOF:
            self._unfinished.discard(message.partition() or 0)
        elif error.code() in _UNREADABLE and message.offset() is not None:
            self._pass_batch(message.partition() or 0, message.offset() or 0)
        elif message.topic() is not None:
            self._fault = error.str()

    def _pass_batch(self, number: int, offset: int) -> None:
        """Continue behind a batch that cannot be read."""
        place = TopicPartition(self._topic, number, offset)
        with closing(Consumer({**self._properties, **_CONSUMER})) as probe:
            try:
                place.offset = _find_end(probe, place)
                self._consumer.seek(place)
            except KafkaException as error:
                raise SourceError(f"topic {self._topic!r}: {error.args[0].str()}") from error
        self._unread["unreadable"] += place.offset - offset

    def _on_error(self, error: KafkaError) -> None:
        if error.code() != _ALL_DOWN:  # it carries no reason
            self._last_error = error.str()
        if error.code() in {_ALL_DOWN, _NO_LOGIN}:
            self._fault = self._last_error or error.str()


def _find_end(probe: Consumer, place: TopicPartition) -> int:
    """Return the first offset behind a batch that cannot be read: it names only its first one.

    Steps double until one can be read, then halve: a batch may have a million records.

    Raises:
        KafkaException: the brokers are unreachable or refuse.

    """
    _, end = probe.get_watermark_offsets(place, _TIMEOUT_S)
    bad, step = place.offset, 1
    while bad + step < end and not _is_readable(probe, place, bad + step):
        bad, step = bad + step, 2 * step
    good = min(bad + step, end)
    while good - bad > 1:
        middle = (bad + good) // 2
        if _is_readable(probe, place, middle):
            good = middle
        else:
            bad = middle
    return good


def _is_readable(probe: Consumer, place: TopicPartition, offset: int) -> bool:
    """Return whether a fetch from an offset returns a record, or the partition's end.

    Raises:
        KafkaException: neither came in time, or another error.

    """
    probe.assign([TopicPartition(place.topic, place.partition, offset)])
    message = probe.poll(_TIMEOUT_S)
    if message is None:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001
    error = message.error()
    if error is None or error.code() == _EOF:
        return True
    if error.code() in _UNREADABLE:
        return False
    raise KafkaException(error)
