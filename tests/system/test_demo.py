"""The demo as a user runs it: one whole show, one without Java, one that is interrupted."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from kafka_rebalance_agent import PACKAGES

_DEMO = [sys.executable, "-P", "-m", "kafka_rebalance_agent", "demo"]


def _path_without_java(folder: Path) -> str:
    """Return a PATH with everything of the usual one but Java."""
    folder.mkdir()
    for place in reversed(os.environ["PATH"].split(os.pathsep)):
        for program in Path(place).glob("*"):
            link = folder / program.name
            if not program.name.startswith(("java", "jdk")) and not link.exists():
                link.symlink_to(program)
    return str(folder)


def _codes(output: str) -> set[int]:
    return {int(code) for code in re.findall(r"^ *\d+ +(\d+) [A-Z]\w+$", output, re.MULTILINE)}


def _sources(spool: Path) -> set[str]:
    lines = [line for path in spool.glob("*.jsonl") for line in path.read_text().splitlines()]
    return {json.loads(line)["source"] for line in lines}


def _run(output: Path, *options: str, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [*_DEMO, "--output", output, *options],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.spark
@pytest.mark.kafka
def test_the_demo_shows_its_causes_and_a_report_without_java(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environment["PATH"] = _path_without_java(tmp_path / "bin")

    printed = _run(tmp_path / "out", environment=environment)

    assert len(_codes(printed)) >= 6
    assert _sources(tmp_path / "out" / "spool") == {"wire"}
    assert "<svg" in (tmp_path / "out" / "report" / "report.html").read_text()


@pytest.mark.kafka
@pytest.mark.jvm
@pytest.mark.usefixtures("cache")
def test_with_a_real_broker_the_demo_shows_every_code(tmp_path: Path) -> None:
    printed = _run(tmp_path / "out", "--broker", "kafka", "--no-report")

    assert _codes(printed) == set(range(1, 14))


@pytest.mark.kafka
def test_an_interrupted_demo_leaves_nothing(tmp_path: Path) -> None:
    application, scratch = tmp_path / "application", tmp_path / "scratch"
    for name in PACKAGES:  # its children find ours all the same
        (application / name).mkdir(parents=True)
        (application / name / "__init__.py").touch()
    scratch.mkdir()
    environment = os.environ | {"TMPDIR": str(scratch), "PYTHONPATH": str(application)}
    with subprocess.Popen(_DEMO, stdout=subprocess.PIPE, text=True, env=environment) as demo:
        assert demo.stdout is not None
        next(line for line in demo.stdout if "another consumer joins" in line)
        children = psutil.Process(demo.pid).children(recursive=True)

        demo.send_signal(signal.SIGINT)
        demo.communicate(timeout=120)

    assert len(children) >= 4
    assert demo.returncode == 130
    assert psutil.wait_procs(children, timeout=5)[1] == []
    assert list(scratch.iterdir()) == []
