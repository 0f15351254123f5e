"""Export by OTLP: metrics at a regular interval, whole groups' rebalances once they are complete.

One request at a time, in a separate thread: a slow or unreachable receiver delays nothing else. The
next export holds the metrics that a receiver missed; of rebalances the newest are kept.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan

from agent.config.otlp import OtlpConfig
from agent.errors import ConfigError, OutputError
from agent.outputs.otlp.senders import OtlpSender
from agent.outputs.otlp.spans import spans
from agent.processes.daemon_thread import call_in_daemon
from aggregation.rebalances.rebalances import ExplainedRebalance
from metrics.exporters.exposition import Exposition, OutputStats
from metrics.exporters.otel import metrics_data

log = logging.getLogger(__name__)

MAX_EPISODES = 1_000
"""Rebalances that wait for a receiver."""
_SPANS_AT_ONCE = 500
_LAST_EXPORT_S = 5.0
"""Limit of the export at the agent's end."""


class OtlpOutput:
    """Exports to one receiver."""

    name = "otlp"

    def __init__(
        self,
        config: OtlpConfig,
        resource: dict[str, str],
        max_series: int,
        read: Callable[[], Callable[[], tuple[float, Exposition]]],
    ) -> None:
        """Read certificates and headers. ``read`` runs in the loop, its result in a thread.

        Raises:
            ConfigError: one of them cannot be read.

        """
        self._config, self._max_series, self._read = config, max_series, read
        self._resource = Resource.create(resource)
        self._sender: OtlpSender | None = OtlpSender(config)
        self._queue = deque[ExplainedRebalance](maxlen=MAX_EPISODES)
        self._sent = self._dropped = self._errors = 0
        self._fault = ""
        self._lock = threading.Lock()

    @property
    def stats(self) -> OutputStats:
        """Counts of rebalances, and of failed exports of any kind."""
        return OutputStats(
            name=self.name,
            written=self._sent,
            buffered=len(self._queue),
            dropped=self._dropped,
            errors=self._errors,
        )

    def enqueue(self, episodes: Sequence[ExplainedRebalance]) -> None:
        """Keep rebalances for the next export; the oldest are dropped when there are too many."""
        if self._config.traces:
            self._dropped += max(0, len(self._queue) + len(episodes) - MAX_EPISODES)
            self._queue.extend(episodes)

    async def run(self) -> None:
        """Export until cancelled, and once more at the end."""
        try:
            while True:
                await asyncio.sleep(self._config.interval_s)
                await self.export()
        finally:
            with suppress(TimeoutError):  # the end of the agent waits no longer for a receiver
                async with asyncio.timeout(_LAST_EXPORT_S):
                    await self.export()
                    await call_in_daemon(self._close, self.name)

    async def export(self) -> None:
        """Send everything; count failures, and log each change of state once."""
        expose, episodes = self._read(), list(self._queue)
        self._queue.clear()
        try:
            await call_in_daemon(lambda: self._send_metrics(expose), self.name)
            await call_in_daemon(lambda: self._send_episodes(episodes), self.name)
        except (OutputError, ConfigError) as error:
            self._requeue(episodes)
            self._record_failure(str(error))
        except Exception as error:  # noqa: BLE001 - a bug here is logged, and ends nothing else
            self._record_failure(repr(error), is_bug=True)
        else:
            self._sent += len(episodes)
            if self._fault:
                log.info("otlp_export_restored")
            self._fault = ""

    def _requeue(self, episodes: list[ExplainedRebalance]) -> None:
        newer = [*episodes, *self._queue]
        self._dropped += max(0, len(newer) - MAX_EPISODES)
        self._queue = deque(newer, MAX_EPISODES)

    def _record_failure(self, fault: str, *, is_bug: bool = False) -> None:
        self._errors += 1
        if not self._fault:
            keys = {"endpoint": self._config.endpoint, "error": fault}
            log.error("otlp_export_failed", extra=keys, exc_info=is_bug)
        self._fault = fault
        self._close()  # the next one reads certificates and headers again

    def _close(self) -> None:
        sender, self._sender = self._sender, None
        if sender is not None:
            sender.close()

    def _connect(self) -> OtlpSender:
        self._sender = self._sender or OtlpSender(self._config)
        return self._sender

    def _send_metrics(self, expose: Callable[[], tuple[float, Exposition]]) -> None:
        at, exposition = expose()
        state_sets = self._config.state_sets
        data = metrics_data(exposition, self._resource, at, self._max_series, state_sets=state_sets)
        with self._lock:  # an abandoned request may still be on its way
            self._connect().send(data)

    def _send_episodes(self, episodes: list[ExplainedRebalance]) -> None:
        found = (span for each in episodes for span in spans(each, self._resource))
        for some in _batches(found):
            with self._lock:
                self._connect().send_spans(some)


def _batches(found: Iterator[ReadableSpan]) -> Iterator[list[ReadableSpan]]:
    while some := list(islice(found, _SPANS_AT_ONCE)):
        yield some
