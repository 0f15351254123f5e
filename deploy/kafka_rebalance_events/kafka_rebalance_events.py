# ruff: noqa: INP001 - one module, no package
"""Reports a Kafka consumer's rebalances to a kafka-rebalance-agent, and never stands in its way.

One call each for confluent-kafka, kafka-python and aiokafka (`confluent`, `kafka_python`,
`aiokafka`); `Reporter.report` for anything else. An event is put into a bounded queue and posted by
a background thread: where the agent is slow, refuses or is not there, events are dropped and
counted, and the consumer goes on as if nothing had been asked of it. No dependencies.
"""

from __future__ import annotations

import atexit
import json
import os
import queue
import re
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from itertools import count
from typing import Any

__all__ = ["Reporter", "aiokafka", "confluent", "kafka_python", "reporter"]
__version__ = "0.1.0"

DEFAULT_URL = "http://127.0.0.1:12472"
URL_VARIABLE = "KAFKA_REBALANCE_EVENTS_URL"
TOKEN_VARIABLE = "KAFKA_REBALANCE_EVENTS_TOKEN"  # noqa: S105 - its name
QUEUE_EVENTS = 1_000
BATCH_EVENTS = 200
ALIVE_S = 30.0
"""How often a living consumer says so, where it has nothing else to say."""
_TIMEOUT_S = 5.0
_RETRIES_S = (0.5, 2.0, 5.0)
_FLUSH_S = 1.0
"""How long the end of the process waits for the last events."""
_MAX_REASON = 1_000
_MAX_PARTITIONS = 1_000
_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")

Event = dict[str, Any]
Facts = Callable[[], Event]


class Reporter:
    """Takes events and posts them from a thread of its own, which starts with the first one."""

    def __init__(self, url: str | None = None, token: str | None = None) -> None:
        """``url`` and ``token`` default to the environment's."""
        base = url or os.environ.get(URL_VARIABLE) or DEFAULT_URL
        self._url = base.rstrip("/") + "/api/v1/events"
        self._token = token or os.environ.get(TOKEN_VARIABLE)
        self.sent = 0
        """Events that the agent has taken."""
        self.dropped = 0
        """Events that found the queue full, or no agent."""
        self.refused = 0
        """Events that the agent would not take: `last_error` says why."""
        self.last_error: str | None = None
        self._lock = threading.Lock()
        self._start_afresh()
        if hasattr(os, "register_at_fork"):  # a child has our memory and not our thread
            os.register_at_fork(after_in_child=self._start_afresh)

    def report(self, event: Event) -> None:
        """Take an event; never blocks, never raises. The time is now where it has none."""
        try:
            now = datetime.now(timezone.utc).isoformat()  # noqa: UP017 - for 3.9
            line = json.dumps({"ts": now, **event}, default=str).encode()
            self._queue.put_nowait(line)
            self._start()
        except Exception:  # noqa: BLE001 - the user's consumer goes on, whatever we have done
            self.dropped += 1

    def watch(self, facts: Facts) -> Callable[[], None]:
        """Say now and then that a consumer lives; returns what ends that."""
        self._living.append(facts)

        def forget() -> None:
            if facts in self._living:
                self._living.remove(facts)

        return forget

    def flush(self, timeout_s: float = _FLUSH_S) -> bool:
        """Wait until the queue is empty; tell whether it is."""
        deadline_s = time.monotonic() + timeout_s
        while self._queue.unfinished_tasks and time.monotonic() < deadline_s:
            time.sleep(0.01)
        return not self._queue.unfinished_tasks

    def _start_afresh(self) -> None:
        self._queue: queue.Queue[bytes] = queue.Queue(maxsize=QUEUE_EVENTS)
        self._living: list[Facts] = []
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def _start(self) -> None:
        if self._thread is not None:
            return
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="kafka-rebalance-events", daemon=True
                )
                self._thread.start()
                atexit.register(self.flush)

    def _run(self) -> None:
        while True:
            batch = self._batch()
            try:
                self._post(batch)
            except Exception as error:  # noqa: BLE001 - nobody is there to hear it
                self._give_up(batch, repr(error))
            for _ in batch:
                self._queue.task_done()

    def _batch(self) -> list[bytes]:
        """Wait for events; say who lives where none come."""
        while True:
            try:
                batch = [self._queue.get(timeout=ALIVE_S)]
                break
            except queue.Empty:
                for facts in list(self._living):
                    self.report({**_known(facts), "event": "alive"})
        while len(batch) < BATCH_EVENTS and not self._queue.empty():
            batch.append(self._queue.get_nowait())
        return batch

    def _post(self, batch: list[bytes]) -> None:
        body = b"\n".join(batch)
        for pause_s in (*_RETRIES_S, None):
            answer = self._try(body)
            if answer == "":
                self.sent += len(batch)
                return
            if answer is not None:
                self.refused += len(batch)
                self.last_error = answer
                return
            if pause_s is not None:
                time.sleep(pause_s)
        self._give_up(batch, f"no agent at {self._url}")

    def _try(self, body: bytes) -> str | None:
        """Post once; return why it was refused, nothing for taken, None for try again."""
        headers = {"Content-Type": "application/x-ndjson"}
        if self._token:
            headers["Authorization"] = "Bearer " + self._token
        request = urllib.request.Request(self._url, body, headers, method="POST")  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S):  # noqa: S310
                return ""
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 429 or error.code >= 500:
                    return None
                text = error.read(_MAX_REASON).decode(errors="replace")
                return f"HTTP {error.code}: {text}"
        except OSError:
            return None

    def _give_up(self, batch: list[bytes], error: str) -> None:
        self.dropped += len(batch)
        self.last_error = error


_reporters: dict[Any, Reporter] = {}
_numbers = count(1)


def reporter(url: str | None = None, token: str | None = None) -> Reporter:
    """Return the process's reporter for an agent; it is made once."""
    key = (url, token)
    if key not in _reporters:
        _reporters[key] = Reporter(url, token)
    return _reporters[key]


class _Teller:
    """What one consumer tells, with what is known of it."""

    def __init__(self, target: Reporter, library: str, facts: Facts) -> None:
        self._reporter, self._facts = target, facts
        self._own: Event = {
            "library": library,
            "host": socket.gethostname(),
            "process": f"{socket.gethostname()}:{os.getpid()}:{next(_numbers)}",
        }
        self._forget = target.watch(self._known)

    def tell(self, event: str, **more: Any) -> None:
        """Report an event; never raises."""
        self._reporter.report({**self._known(), **more, "event": event})

    def moved(self, event: str, partitions: Iterable[Any]) -> None:
        """Report partitions that came or went; never raises."""
        try:
            names = [f"{one.topic}-{one.partition}" for one in partitions]
        except Exception:  # noqa: BLE001 - then without
            names = []
        self.tell(event, partitions=names[:_MAX_PARTITIONS])

    def error(self, error: Any) -> None:
        """Report an error by Kafka's own name for it; never raises."""
        try:
            self.tell("error", code=_code(error), reason=str(error)[:_MAX_REASON])
        except Exception:  # noqa: BLE001 - an error that cannot be written is none of ours
            self._reporter.dropped += 1

    def closed(self) -> None:
        """Report that the consumer has left by its user's will."""
        self._forget()
        self.tell("closed")

    def _known(self) -> Event:
        """Return what is known of the consumer: one that has closed has forgotten who it was."""
        self._own = {**self._own, **_known(self._facts)}
        return self._own


def _known(facts: Facts) -> Event:
    """Return what a consumer knows of itself; what it does not is left out."""
    try:
        return {name: value for name, value in facts().items() if value not in (None, "", -1)}
    except Exception:  # noqa: BLE001 - a closed consumer knows nothing any more
        return {}


def _code(error: Any) -> str:
    """Return ``UNKNOWN_MEMBER_ID`` for librdkafka's errors and for ``UnknownMemberIdError``."""
    name = getattr(error, "name", None)
    if callable(name):
        return str(name())
    words = _WORD.sub("_", re.sub("Error$", "", type(error).__name__))
    return words.upper()


def confluent(  # noqa: PLR0913 - librdkafka tells none of it
    consumer: Any,
    *,
    group: str,
    client_id: str = "rdkafka",
    group_instance_id: str | None = None,
    group_type: str = "classic",
    url: str | None = None,
    token: str | None = None,
) -> Any:
    """Return a ``confluent_kafka.Consumer`` that reports; use it in the consumer's place.

    ``group_type`` is ``consumer`` with ``group.protocol=consumer``.
    """

    def facts() -> Event:
        return {
            "group": group,
            "client_id": client_id,
            "group_instance_id": group_instance_id,
            "group_type": group_type,
            "member_id": consumer.memberid(),
        }

    fixed = {"group": group, "client_id": client_id, "group_instance_id": group_instance_id}
    teller = _Teller(reporter(url, token), "confluent-kafka", lambda: {**fixed, **_known(facts)})
    return _Confluent(consumer, teller)


class _Confluent:
    """The consumer with its own methods, but those that tell something."""

    def __init__(self, consumer: Any, teller: _Teller) -> None:
        self._consumer, self._teller = consumer, teller

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)

    def __enter__(self) -> _Confluent:  # noqa: PYI034 - Self is 3.11's
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def subscribe(
        self,
        topics: list[str],
        on_assign: Any = None,
        on_revoke: Any = None,
        on_lost: Any = None,
        **more: Any,
    ) -> Any:
        """Subscribe as before: what is lost is revoked where there is no ``on_lost``."""

        def telling(event: str, inner: Any) -> Callable[[Any, Any], Any]:
            def callback(consumer: Any, partitions: Any) -> Any:
                self._teller.moved(event, partitions)
                return None if inner is None else inner(consumer, partitions)

            return callback

        return self._consumer.subscribe(
            topics,
            on_assign=telling("assigned", on_assign),
            on_revoke=telling("revoked", on_revoke),
            on_lost=telling("lost", on_lost or on_revoke),
            **more,
        )

    def unsubscribe(self) -> Any:
        """Unsubscribe, which leaves the group."""
        result = self._consumer.unsubscribe()
        self._teller.tell("closed")
        return result

    def poll(self, *arguments: Any, **named: Any) -> Any:
        """Poll; an error that a message stands for is reported."""
        message = self._consumer.poll(*arguments, **named)
        if message is not None and message.error() is not None:
            self._teller.error(message.error())
        return message

    def consume(self, *arguments: Any, **named: Any) -> Any:
        """Consume; errors that messages stand for are reported."""
        messages = self._consumer.consume(*arguments, **named)
        for message in messages:
            if message.error() is not None:
                self._teller.error(message.error())
        return messages

    def close(self, *arguments: Any, **named: Any) -> Any:
        """Close; reported when it is done."""
        try:
            return self._consumer.close(*arguments, **named)
        finally:
            self._teller.closed()


def kafka_python(consumer: Any, *, url: str | None = None, token: str | None = None) -> Any:
    """Let a ``kafka.KafkaConsumer`` report, and return it."""
    from kafka.consumer import subscription_state as state  # noqa: PLC0415 - the user's library

    def facts() -> Event:
        config, membership = consumer.config, _membership(consumer)
        return {
            "group": config["group_id"],
            "client_id": config["client_id"],
            "group_instance_id": config.get("group_instance_id"),
            "member_id": getattr(membership, "member_id", None),
            "generation": getattr(membership, "generation_id", None),
        }

    teller = _Teller(reporter(url, token), "kafka-python", facts)
    plain = state.ConsumerRebalanceListener
    waiting = getattr(state, "AsyncConsumerRebalanceListener", plain)

    def listener(inner: Any) -> Any:
        return _listener(waiting if isinstance(inner, waiting) else plain, inner, teller)

    _wrap_subscribe(consumer, listener, teller)
    subscribed = consumer._subscription  # noqa: SLF001 - topics may have come with the constructor
    if subscribed.subscription or getattr(subscribed, "subscribed_pattern", None):
        subscribed.rebalance_listener = listener(subscribed.rebalance_listener)
    _wrap_raising(consumer, "poll", teller)
    close = consumer.close

    def closing(*arguments: Any, **named: Any) -> Any:
        try:
            return close(*arguments, **named)
        finally:
            teller.closed()

    consumer.close = closing
    return consumer


def _membership(consumer: Any) -> Any:
    """Return kafka-python's generation, whatever its version calls it."""
    if hasattr(consumer, "group_metadata"):
        return consumer.group_metadata()
    return consumer._coordinator.generation()  # noqa: SLF001 - 2.x has no other way


def aiokafka(consumer: Any, *, url: str | None = None, token: str | None = None) -> Any:
    """Let an ``aiokafka.AIOKafkaConsumer`` report, and return it."""
    from aiokafka.abc import ConsumerRebalanceListener  # noqa: PLC0415 - the user's library

    def facts() -> Event:
        coordinator = consumer._coordinator  # noqa: SLF001 - aiokafka has no other way
        return {
            "group": consumer._group_id,  # noqa: SLF001
            "client_id": consumer._client._client_id,  # noqa: SLF001
            "group_instance_id": getattr(coordinator, "_group_instance_id", None),
            "member_id": getattr(coordinator, "member_id", None),
            "generation": getattr(coordinator, "generation", None),
        }

    teller = _Teller(reporter(url, token), "aiokafka", facts)

    def listener(inner: Any) -> Any:
        return _listener(ConsumerRebalanceListener, inner, teller)

    _wrap_subscribe(consumer, listener, teller)
    subscribed = consumer._subscription  # noqa: SLF001 - topics may have come with the constructor
    if subscribed.subscription is not None or subscribed.subscribed_pattern is not None:
        subscribed._listener = listener(subscribed.listener)  # noqa: SLF001
    for name in ("getone", "getmany"):
        _wrap_awaited(consumer, name, teller)
    stop = consumer.stop

    async def stopping() -> Any:
        try:
            return await stop()
        finally:
            teller.closed()

    consumer.stop = stopping
    return consumer


def _listener(base: Any, inner: Any, teller: _Teller) -> Any:
    """Return a listener of the library's own type that tells, then asks the user's."""

    def passed(name: str, partitions: Any) -> Any:
        method = None if inner is None else getattr(inner, name, None)
        return None if method is None else method(partitions)

    class Listener(base):  # type: ignore[misc]
        def on_partitions_assigned(self, assigned: Any) -> Any:
            teller.moved("assigned", assigned)
            return passed("on_partitions_assigned", assigned)

        def on_partitions_revoked(self, revoked: Any) -> Any:
            teller.moved("revoked", revoked)
            return passed("on_partitions_revoked", revoked)

        def on_partitions_lost(self, lost: Any) -> Any:
            teller.moved("lost", lost)
            own = hasattr(inner, "on_partitions_lost")
            return passed("on_partitions_lost" if own else "on_partitions_revoked", lost)

    return Listener()


def _wrap_subscribe(consumer: Any, listener: Callable[[Any], Any], teller: _Teller) -> None:
    subscribe, unsubscribe = consumer.subscribe, consumer.unsubscribe

    def subscribing(
        topics: list[str] | tuple[str, ...] = (), pattern: Any = None, **more: Any
    ) -> Any:
        inner = more.pop("listener", None)
        return subscribe(topics, pattern=pattern, listener=listener(inner), **more)

    def unsubscribing() -> Any:
        result = unsubscribe()
        teller.tell("closed")
        return result

    consumer.subscribe, consumer.unsubscribe = subscribing, unsubscribing


def _wrap_raising(consumer: Any, name: str, teller: _Teller) -> None:
    method = getattr(consumer, name)

    def calling(*arguments: Any, **named: Any) -> Any:
        try:
            return method(*arguments, **named)
        except Exception as error:
            teller.error(error)
            raise

    setattr(consumer, name, calling)


def _wrap_awaited(consumer: Any, name: str, teller: _Teller) -> None:
    method = getattr(consumer, name)

    async def awaiting(*arguments: Any, **named: Any) -> Any:
        try:
            return await method(*arguments, **named)
        except Exception as error:
            teller.error(error)
            raise

    setattr(consumer, name, awaiting)
