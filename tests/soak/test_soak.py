"""The soak's short form; `make soak` runs the long one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

_MINUTES = os.environ.get("SOAK_MINUTES", "0.5")
_CLIENTS = ("--consumers", "2", "--instances", "2")


@pytest.mark.kafka
@pytest.mark.jvm
@pytest.mark.timeout(900)
def test_every_transition_is_told_and_no_other(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.soak", "--minutes", _MINUTES, *_CLIENTS]
    done = subprocess.run(
        [*command, "--keep", tmp_path / "soak"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr[-5000:]
    found = json.loads(done.stdout)
    assert (found["precision"], found["recall"]) == (1.0, 1.0)
    assert found["wanted"] > 10
