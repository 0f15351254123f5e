"""The unit, by systemd's own checks; there is no systemd to run it on here."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

UNIT = Path(__file__).parent.parent.parent / "deploy" / "systemd" / "kafka-rebalance-agent.service"
EXPOSURE_MAX = 15
"""In tenths, of 100: what systemd calls OK ends at 50."""


def analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    program = shutil.which("systemd-analyze")
    if program is None:
        assert os.environ.get("CI") != "true", "systemd-analyze (Debian's systemd) is missing"
        pytest.skip("systemd-analyze is missing (Debian: apt-get install systemd)")
    command = (program, "--no-pager", *arguments)
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    program = Path(sys.executable).with_name("rebalance-agent")
    unit.write_text(
        UNIT.read_text().replace("/opt/kafka-rebalance-agent/bin/rebalance-agent", str(program))
    )

    done = analyze("verify", "--man=no", unit)

    assert (done.returncode, done.stderr) == (0, "")


def test_systemd_finds_little_exposed() -> None:
    done = analyze("security", "--offline=true", f"--threshold={EXPOSURE_MAX}", UNIT)

    assert done.returncode == 0, done.stdout


def test_what_the_unit_starts_is_a_command_with_that_flag() -> None:
    (started,) = re.findall(r"^ExecStart=\S+/rebalance-agent (.*)$", UNIT.read_text(), re.MULTILINE)

    assert started == "run --config.file /etc/kafka-rebalance-agent/agent.yaml"
