"""Prometheus metrics of an ingest: on a port, or in a file for node_exporter."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry, start_http_server, write_to_textfile
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from aggregation.spark.errors import SparkSetupError
from aggregation.spark.ingest.progress import IngestProgress


@dataclass(frozen=True, eq=False)  # registries distinguish collectors by identity
class JobMetrics(Collector):
    """Metrics of one ingest."""

    done: IngestProgress
    behind: Callable[[], Mapping[str, int]]
    """Backlog after the latest batch of each source."""

    def collect(self) -> Iterator[Metric]:
        """Return the current values."""
        done = self.done
        for name, text, value in (
            ("lines", "Lines and records that were read", done.lines),
            ("lines_malformed", "Lines that went to the quarantine", done.malformed),
            ("records_late", "Records of days that --keep-days has removed", done.late),
            ("records_known", "Records that the tables had already", done.duplicates),
            ("records_gone", "Offsets of topics whose records went unread", done.gone),
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
        for source, count in self.behind().items():
            behind.add_metric([source], count)
        yield behind

    def registry(self) -> CollectorRegistry:
        """Return a registry that holds only these metrics."""
        registry = CollectorRegistry()
        registry.register(self)
        return registry


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
        SparkSetupError: the file cannot be written, or is a device, a pipe or a folder.

    """
    try:
        if path.exists() and not path.is_file():
            raise SparkSetupError(f"{str(path)!r} is no file that can be replaced")
        write_to_textfile(str(path), metrics.registry())
    except OSError as error:
        raise SparkSetupError(f"cannot write {str(path)!r}: {error.strerror}") from error
