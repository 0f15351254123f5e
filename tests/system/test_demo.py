"""The demo as a user runs it: one whole show, one without Java, one that is interrupted."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import psutil
import pytest

from agent.demo.outcome import analyze_spool
from aggregation.incidents.model import DepartureMode, IncidentKind
from kafka_rebalance_agent import PACKAGES
from tests.walks import MAX_STEPS, SIZES, WIDTHS, running_demo, walk_all

_DEMO = [sys.executable, "-P", "-m", "kafka_rebalance_agent", "demo"]


def _path_without_java(folder: Path) -> str:
    """Return a PATH with everything of the usual one but Java."""
    folder.mkdir()
    for place in reversed(os.environ["PATH"].split(os.pathsep)):
        for program in Path(place).glob("*"):
            link = folder / program.name
            if not program.name.startswith(("java", "jdk")) and not os.path.lexists(link):
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


def assert_incidents_are_those_of_the_play(output: Path) -> None:
    """Compare with the script: the stuck member, the frozen member, the one with other topics.

    On a busy machine another consumer may miss its poll interval as well. Such a consumer logs
    that, and must be named, too.
    """
    late = {
        log.stem
        for log in (output / "logs").glob("*.log")
        if b"Application maximum poll interval" in log.read_bytes()
    }
    assert "payments-1" in late
    spool = output / "spool"
    incidents = analyze_spool(spool).incidents
    by_kind = [
        (incident.ref.group, incident.kind, member.client_id)
        for incident in incidents
        for member in incident.members
    ]
    expired = [
        (incident.ref.group, departure.member.client_id)
        for incident in incidents
        for departure in incident.departures
        if departure.how is DepartureMode.EXPIRED
    ]
    dropped = {row for row in by_kind if row[1] is IncidentKind.POLL_TIMEOUT}
    assert {client_id for _, _, client_id in dropped} == late
    assert ("payments", IncidentKind.POLL_TIMEOUT, "payments-1") in dropped
    assert ("orders", "orders-1") in expired
    assert ("orders", IncidentKind.SUBSCRIPTION_CHANGED, "orders-2") in by_kind
    assert ("audit", IncidentKind.SUBSCRIPTION_CHANGED, "audit-1") in by_kind
    assert ("returns", IncidentKind.MEMBER_JOINED, "returns-1") in by_kind


@pytest.mark.spark
@pytest.mark.kafka
def test_the_demo_shows_its_causes_and_a_report_without_java(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environment["PATH"] = _path_without_java(tmp_path / "bin")

    printed = _run(tmp_path / "out", "--report", "--keep", environment=environment)

    assert len(_codes(printed)) >= 6
    assert _sources(tmp_path / "out" / "spool") >= {"wire", "logs"}
    assert_incidents_are_those_of_the_play(tmp_path / "out")
    assert re.search(r"^watch it: http://127\.0\.0\.1:\d+/$", printed, re.MULTILINE)
    assert "The worst of " in printed
    assert "Next, for your own cluster" in printed
    assert "<svg" in (tmp_path / "out" / "report" / "report.html").read_text()


@pytest.mark.kafka
@pytest.mark.jvm
@pytest.mark.usefixtures("cache")
def test_with_a_real_broker_the_demo_shows_every_code(tmp_path: Path) -> None:
    printed = _run(tmp_path / "out", "--broker", "kafka")

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


@pytest.mark.kafka
@pytest.mark.field
def test_a_demo_that_keeps_running_shows_the_stuck_consumer_in_four_steps(tmp_path: Path) -> None:
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    with running_demo(tmp_path / "out", "--seconds", "0") as demo:
        with urllib.request.urlopen(f"{demo.address}/group?group=payments", timeout=30) as page:
            served = page.read().decode()
        steps = walk_all(demo.address, tmp_path, pictures)

    assert "payments-1" in served
    assert len(steps) == len(WIDTHS) + len(SIZES)
    assert all(0 < len(made) <= MAX_STEPS for made in steps.values()), steps
    assert len(list(pictures.iterdir())) == 2 * len(WIDTHS) + 3 * len(SIZES)
    assert demo.code == 0
    assert "The worst of " in demo.printed
