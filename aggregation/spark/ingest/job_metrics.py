"""Prometheus metrics of an ingest: on a port, or in a file for node_exporter."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, start_http_server, write_to_textfile
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from aggregation.spark.errors import SparkSetupError
from aggregation.spark.ingest.progress import IngestProgress

Progress = Mapping[str, Any]
"""Spark's report of a stream's latest batch."""


@dataclass(frozen=True, eq=False)  # registries tell collectors apart by identity
class JobMetrics(Collector):
    """Metrics of one ingest."""

    done: IngestProgress
    progress: Callable[[], Mapping[str, Progress]]
    """By source."""

    def collect(self) -> Iterator[Metric]:
        """Return the current values."""
        done = self.done
        for name, text, value in (
            ("lines", "Lines and records that were read", done.lines),
            ("lines_malformed", "Lines that went to the quarantine", done.malformed),
            ("records_late", "Records of days that --keep-days has removed", done.late),
            ("records_known", "Records that the tables had already", done.duplicates),
            ("batches", "Batches that were done", done.batches),
            ("batch_seconds", "Time that batches took", done.batch_s),
        ):
            yield CounterMetricFamily(f"rebalance_ingest_{name}", text, value=value)
        rows = CounterMetricFamily(
            "rebalance_ingest_rows_appended", "Rows that tables took", labels=["table"]
        )
        for table, count in done.appended.items():
            rows.add_metric([table], count)
        yield rows
        if done.latest_at is not None:
            yield GaugeMetricFamily(
                "rebalance_ingest_last_batch_timestamp_seconds",
                "When the latest batch was done",
                value=done.latest_at,
            )
        behind = GaugeMetricFamily(
            "rebalance_ingest_behind",
            "Files of a spool, or records of a topic, that the latest batch left for the next",
            labels=["source"],
        )
        for source, progress in self.progress().items():
            behind.add_metric([source], count_outstanding(progress))
        yield behind

    def registry(self) -> CollectorRegistry:
        """Return a registry that holds only these metrics."""
        registry = CollectorRegistry()
        registry.register(self)
        return registry


def count_outstanding(progress: Progress) -> int:
    """Return how many files or records a batch left for the next one."""
    (source,) = progress["sources"]
    outstanding = (source.get("metrics") or {}).get("numFilesOutstanding")
    if outstanding is not None:
        return int(outstanding)
    return _offsets(source.get("latestOffset")) - _offsets(source.get("endOffset"))


def _offsets(text: str | Mapping[str, Any] | None) -> int:
    """Sum the offsets of a topic's partitions, in Spark's form: {topic: {number: n}}.

    For a folder with files that are not listed yet, Spark writes a text that is not JSON.
    """
    try:
        topics = json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return 0
    parts = topics.values() if isinstance(topics, dict) else ()
    return sum(sum(part.values()) for part in parts if isinstance(part, dict))


@contextmanager
def serve_metrics(metrics: JobMetrics, address: str | None) -> Iterator[None]:
    """Serve the metrics at ``[HOST]:PORT``, if an address is given.

    Raises:
        SparkSetupError: the address is invalid or in use.

    """
    if address is None:
        yield
        return
    host, _, port = address.rpartition(":")
    try:
        server, thread = start_http_server(int(port), host or "0.0.0.0", metrics.registry())  # noqa: S104
    except (ValueError, OverflowError) as error:
        raise SparkSetupError(f"found {address!r}, wanted HOST:PORT to serve metrics at") from error
    except OSError as error:
        raise SparkSetupError(f"cannot serve metrics at {address!r}: {error.strerror}") from error
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def write_metrics(metrics: JobMetrics, path: Path) -> None:
    """Write the metrics for node_exporter's textfile collector.

    Raises:
        SparkSetupError: the file cannot be written.

    """
    try:
        write_to_textfile(str(path), metrics.registry())
    except OSError as error:
        raise SparkSetupError(f"cannot write {str(path)!r}: {error.strerror}") from error
