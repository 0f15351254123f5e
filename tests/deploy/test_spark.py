"""Ingest and report on a real standalone cluster, and what deploy/spark starts elsewhere."""

import csv
import os
import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.dataset as ds
import pyspark
import pytest
import yaml

from agent.cli.ingest import ingest
from agent.cli.report import report
from agent.processes.ports import free_port
from aggregation.spark.session.jars import load_pins
from aggregation.spark.session.java_home import java_environment
from kafka_rebalance_agent import PACKAGES
from tests.aggregation.spark.conftest import QUICK_JVM
from tests.aggregation.spark.histories import fleet, write_lines, write_spool
from tests.deploy.installed import make_environment
from tests.spark_start import shared_classes, submit_arguments

if TYPE_CHECKING:
    import click

DEPLOY = Path(__file__).parents[2] / "deploy" / "spark"
SPARK = Path(pyspark.__file__).parent
DEADLINE_S = 1000.0
MASTER, WORKER = (f"org.apache.spark.deploy.{kind}" for kind in ("master.Master", "worker.Worker"))


def arguments(text: str) -> Iterator[list[str]]:
    """Return the arguments of the pods."""
    for line in re.findall(r"args: \[(.+)\]", text):
        yield [word.strip() for word in line.split(",")]
    if "arguments" in text:
        yield yaml.safe_load(text)["spec"]["arguments"]


@pytest.mark.parametrize("name", ["spark-application.yaml", "cronjob.yaml"])
def test_manifests_call_commands_as_they_are(name: str) -> None:
    commands: dict[str, click.Command] = {"ingest": ingest, "report": report}
    found = list(arguments((DEPLOY / name).read_text()))
    assert found
    for command, *options in found:
        commands[command].make_context(command, options)


def test_versions_are_those_that_are_pinned() -> None:
    ours = {jar.coordinate for jars in load_pins().values() for jar in jars}
    for path in DEPLOY.iterdir():
        text = path.read_text()
        named = re.findall(r"[\w.]+:(?:spark-sql-kafka|delta-spark|iceberg)[\w.-]+:[\d.]+", text)
        assert set(named) <= ours
        assert set(re.findall(r"spark:(4[\d.]+)|sparkVersion: ([\d.]+)", text)) <= {
            (pyspark.__version__, ""),
            ("", pyspark.__version__),
        }


@contextmanager
def node(folder: Path, environment: dict[str, str], *words: str) -> Iterator[None]:
    """Run a master or a worker."""
    command: list[str | Path] = [SPARK / "bin" / "spark-class", *words]  # becomes the JVM
    with (
        (folder / f"{words[0].rpartition('.')[2]}-{time.monotonic_ns()}.log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log, env=environment) as process,
    ):
        try:
            yield
        finally:
            process.kill()


def registered(folder: Path) -> int:
    return sum(
        log.read_text().count("Successfully registered with master")
        for log in folder.glob("Worker-*.log")
    )


@pytest.fixture
def application(tmp_path: Path) -> Path:
    """Make a folder of packages that are called as ours are."""
    folder = tmp_path / "application"
    for name in PACKAGES:
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").touch()
    return folder


@pytest.fixture
def cluster(tmp_path: Path, wheel: Path, application: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """A master and two workers with one core each, of which no Python has our packages."""
    python = make_environment(tmp_path / "environment") / "python"
    logs = tmp_path / "cluster"
    logs.mkdir()
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    with java_environment(os.environ, lambda _: None) as environment:
        own = environment | {
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_HOME": str(SPARK),
            "PYSPARK_PYTHON": str(python),
            "PYTHONPATH": str(application),
            "WHEEL": str(wheel),
            "JAVA_TOOL_OPTIONS": QUICK_JVM,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": shared_classes(),
        }
        web = ("--host", "127.0.0.1", "--webui-port", "0")
        worker = (WORKER, *web, "--cores", "1", "--memory", "700M", "-d", str(logs), url)
        with (
            node(logs, own, MASTER, *web, "--port", str(port)),
            node(logs, own, *worker),
            node(logs, own, *worker),
        ):
            deadline = time.monotonic() + DEADLINE_S
            while registered(logs) < 2:
                assert time.monotonic() < deadline, "the workers found no master"
                time.sleep(0.1)
            yield url, own


def submit(cluster: tuple[str, dict[str, str]], *words: str | Path) -> str:
    """Run a command there as deploy/spark/spark-submit.sh does; return all that it says."""
    url, environment = cluster
    given = environment | {
        "MASTER": url,
        "SPARK_SUBMIT": str(SPARK / "bin" / "spark-submit"),
        "SUBMIT_OPTIONS": "--conf spark.driver.host=127.0.0.1 --conf spark.ui.enabled=false"
        " --driver-memory 700m --executor-memory 600m --conf spark.sql.shuffle.partitions=2"
        f" --conf spark.executor.extraJavaOptions={shared_classes()} {submit_arguments()}",
    }
    done = subprocess.run(
        [DEPLOY / "spark-submit.sh", *words],
        env=given,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.mark.spark
@pytest.mark.timeout(2 * DEADLINE_S + 200)
def test_cluster_of_two_workers_ingests_each_id_once_and_reports(
    cluster: tuple[str, dict[str, str]], tmp_path: Path
) -> None:
    spool, tables, output = tmp_path / "spool", tmp_path / "tables", tmp_path / "report"
    history = fleet(3, days=1, sampled_every_s=3600)
    samples = history.samples
    write_spool(spool, samples)
    write_spool(spool, samples[::2], name="again", compress=True)
    write_lines(spool, b'{"torn\n', name="torn")
    submit(cluster, "ingest", "--from", spool, "--tables", tables, "--once")
    rows = [ds.dataset(tables / name, partitioning="hive") for name in ("transitions", "samples")]
    ids = [row["id"] for table in rows for row in table.to_table(["id"]).to_pylist()]
    assert sorted(ids) == sorted(sample.id for sample in samples)
    quarantine = ds.dataset(tables / "quarantine", partitioning="hive").to_table()
    assert quarantine.select(["file", "offset"]).to_pylist() == [
        {"file": str(spool / "torn.jsonl"), "offset": 0}
    ]
    *_, page = submit(cluster, "report", "--tables", tables, "--output", output).splitlines()
    assert page == str(output / "report.html")
    assert "The data has 1 quarantined line; see" in Path(page).read_text()
    with (output / "groups.csv").open(newline="") as file:
        found = {row["group"]: int(row["rebalances"]) for row in csv.DictReader(file)}
    truth = Counter[str]()
    for (group, _), times in history.causes.items():
        truth[group] += times
    assert found == truth
