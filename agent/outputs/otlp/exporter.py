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
from dataclasses import dataclass
from itertools import islice

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan

from agent.config.otlp import OtlpConfig
from agent.errors import ConfigError, OutputError
from agent.outputs.otlp.partial_success import Rejected
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


@dataclass(frozen=True, slots=True)
class _Problem:
    """An export that was not accepted, or only a part of it."""

    event: str
    text: str
    rejected: int = 0
    level: int = logging.ERROR
    bug: Exception | None = None
    is_partial: bool = False


def _partial_success(rejected: Rejected) -> _Problem | None:
    if rejected.items:
        event, reason = "otlp_export_rejected", rejected.reason
        return _Problem(event, reason, rejected=rejected.items, is_partial=True)
    if rejected.reason:
        event, level = "otlp_receiver_warning", logging.WARNING
        return _Problem(event, rejected.reason, level=level, is_partial=True)
    return None


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
        self._reported = set[str]()
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
        expose = self._read()
        problems = [await self._attempt(lambda: self._send_metrics(expose))]
        if self._queue:
            problems.append(await self._export_episodes())
        self._report([each for each in problems if each is not None])

    async def _export_episodes(self) -> "_Problem | None":
        """Send the rebalances that wait; those of an export that fails or is cancelled are kept."""
        unsent = list(self._queue)
        self._queue.clear()
        try:
            problem = await self._attempt(lambda: self._send_episodes(unsent))
            if problem is None or problem.is_partial:
                # of the rebalances of the rejected spans no more is known
                lost = min(0 if problem is None else problem.rejected, len(unsent))
                self._dropped += lost
                self._sent += len(unsent) - lost
                unsent = []
        finally:
            self._requeue(unsent)
        return problem

    def _requeue(self, episodes: list[ExplainedRebalance]) -> None:
        newer = [*episodes, *self._queue]
        self._dropped += max(0, len(newer) - MAX_EPISODES)
        self._queue = deque(newer, MAX_EPISODES)

    async def _attempt(self, send: Callable[[], Rejected]) -> "_Problem | None":
        try:
            rejected = await call_in_daemon(send, self.name)
        except (OutputError, ConfigError) as error:
            problem = _Problem("otlp_export_failed", str(error))
        except Exception as error:  # noqa: BLE001 - a bug here is logged, and ends nothing else
            problem = _Problem("otlp_export_failed", repr(error), bug=error)
        else:
            return _partial_success(rejected)
        self._close()  # the next one reads certificates and headers again
        return problem

    def _report(self, problems: list["_Problem"]) -> None:
        """Count an export with a problem once, and log what it has that the last one had not."""
        self._errors += any(each.level == logging.ERROR for each in problems)
        for each in problems:
            if each.event not in self._reported:
                self._reported.add(each.event)
                keys: dict[str, object] = {"endpoint": self._config.endpoint, "error": each.text}
                keys |= {"rejected": each.rejected} if each.rejected else {}
                log.log(each.level, each.event, extra=keys, exc_info=each.bug)
        if self._reported and not problems:
            log.info("otlp_export_restored")
        self._reported = {each.event for each in problems}

    def _close(self) -> None:
        sender, self._sender = self._sender, None
        if sender is not None:
            sender.close()

    def _connect(self) -> OtlpSender:
        self._sender = self._sender or OtlpSender(self._config)
        return self._sender

    def _send_metrics(self, expose: Callable[[], tuple[float, Exposition]]) -> Rejected:
        at, exposition = expose()
        state_sets = self._config.state_sets
        data = metrics_data(exposition, self._resource, at, self._max_series, state_sets=state_sets)
        with self._lock:  # an abandoned request may still be on its way
            return self._connect().send(data)

    def _send_episodes(self, episodes: list[ExplainedRebalance]) -> Rejected:
        found = (span for each in episodes for span in spans(each, self._resource))
        rejected = Rejected()
        for some in _batches(found):
            with self._lock:
                rejected += self._connect().send_spans(some)
        return rejected


def _batches(found: Iterator[ReadableSpan]) -> Iterator[list[ReadableSpan]]:
    while some := list(islice(found, _SPANS_AT_ONCE)):
        yield some
