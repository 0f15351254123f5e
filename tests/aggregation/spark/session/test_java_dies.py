"""Java that ends under a command is one sentence with the reason."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.aggregation.spark.histories import chunks, fleet, write_spool

pytestmark = [pytest.mark.spark, pytest.mark.jvm, pytest.mark.timeout(300)]


def _children(pid: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(child) for child in found.stdout.split()]


def _wait(is_so: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + 120
    while not is_so():
        assert time.monotonic() < ends_at
        time.sleep(0.1)


def test_killed_java_is_named(tmp_path: Path) -> None:
    spool, said = tmp_path / "spool", tmp_path / "said"
    first, second = chunks(fleet(1, days=1, sampled_every_s=7200).samples, 400)
    write_spool(spool, first, name="first")
    command = [sys.executable, "-m", "agent", "ingest", "--from", str(spool)]
    command += ["--tables", str(tmp_path / "tables")]
    with said.open("w") as stderr:
        ingest = subprocess.Popen(command, stderr=stderr)
    try:
        _wait(lambda: "batch 0 done" in said.read_text())
        (java,) = [
            child
            for child in _children(ingest.pid)
            if Path(f"/proc/{child}/comm").read_text().strip() == "java"
        ]
        os.kill(java, signal.SIGKILL)
        write_spool(spool, second, name="second")
        _wait(lambda: ingest.poll() is not None)
    finally:
        ingest.kill()
        ingest.wait()

    assert ingest.returncode == 1
    assert "Error: Spark failed: Java was killed, as the system does where memory is short" in (
        said.read_text()
    )
