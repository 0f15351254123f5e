"""The metrics of an ingest for Prometheus."""

import os
import urllib.request
from pathlib import Path

import pytest

from agent.processes.ports import free_port
from aggregation.spark.errors import SparkSetupError
from aggregation.spark.ingest.job_metrics import JobMetrics, serve_metrics, write_metrics
from aggregation.spark.ingest.progress import IngestProgress
from aggregation.spark.tables.schema import Table


@pytest.fixture
def metrics() -> JobMetrics:
    done = IngestProgress(
        lines=10, malformed=1, gone=4, batches=2, batch_s=1.5, latest_at=1_800_000_000.0
    )
    done.appended[Table.TRANSITIONS] = 6
    return JobMetrics(done, lambda: {"/spool": 3, "kafka://h/t": 5})


def test_file_has_what_was_done_and_what_is_left(metrics: JobMetrics, tmp_path: Path) -> None:
    write_metrics(metrics, tmp_path / "ingest.prom")
    lines = (tmp_path / "ingest.prom").read_text().splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        "rebalance_ingest_lines_total 10.0",
        "rebalance_ingest_lines_malformed_total 1.0",
        "rebalance_ingest_records_late_total 0.0",
        "rebalance_ingest_records_known_total 3.0",
        "rebalance_ingest_records_gone_total 4.0",
        "rebalance_ingest_batches_total 2.0",
        "rebalance_ingest_batch_seconds_total 1.5",
        'rebalance_ingest_rows_appended_total{table="transitions"} 6.0',
        'rebalance_ingest_rows_appended_total{table="samples"} 0.0',
        'rebalance_ingest_rows_appended_total{table="quarantine"} 0.0',
        "rebalance_ingest_last_batch_timestamp_seconds 1.8e+09",
        'rebalance_ingest_behind{source="/spool"} 3.0',
        'rebalance_ingest_behind{source="kafka://h/t"} 5.0',
    ]


def test_page_is_served_while_the_ingest_runs(metrics: JobMetrics) -> None:
    address = f"127.0.0.1:{free_port()}"
    with serve_metrics(metrics, address):
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=20) as answer:
            page = answer.read().decode()
        with (
            pytest.raises(SparkSetupError, match=f"cannot serve metrics at {address!r}: "),
            serve_metrics(metrics, address),
        ):
            pass
    assert "rebalance_ingest_lines_total 10.0" in page


@pytest.mark.parametrize("address", ["", "host:", "host:x", ":99999"])
def test_no_address_is_told(metrics: JobMetrics, address: str) -> None:
    with (
        pytest.raises(SparkSetupError, match="wanted HOST:PORT to serve metrics at"),
        serve_metrics(metrics, address),
    ):
        pass


def test_file_that_cannot_be_written_is_told(metrics: JobMetrics, tmp_path: Path) -> None:
    with pytest.raises(SparkSetupError, match=r"cannot write '.*': No such file or directory"):
        write_metrics(metrics, tmp_path / "none" / "ingest.prom")


def test_device_pipe_or_link_is_not_replaced(metrics: JobMetrics, tmp_path: Path) -> None:
    """`--metrics-file /dev/stdout` made a file of it, for every program of the machine."""
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for path in (pipe, link, tmp_path):
        with pytest.raises(SparkSetupError, match="is no file that can be replaced"):
            write_metrics(metrics, path)

    assert link.is_symlink()
    assert pipe.is_fifo()
