"""The page of figures: a benchmark that runs again replaces its own section and no other."""

import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"
_BEFORE = """\
# Benchmarks

## Start-up

`benchmarks/startup.py`: old.

## Footprint of an idle sidecar

`benchmarks/footprint.py`: kept.
"""


def test_start_up_is_measured_beside_pythons_own_and_replaces_its_section(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    page.write_text(_BEFORE)

    command = [
        sys.executable,
        str(BENCHMARKS / "page.py"),
        "--short",
        "--page",
        str(page),
        "startup",
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=280)

    text = page.read_text()
    assert text.count("## Start-up") == 1
    assert "run until ready / python -c pass: " in text
    assert "`benchmarks/startup.py`: old." not in text
    assert text.endswith(
        "\n\n## Footprint of an idle sidecar\n\n`benchmarks/footprint.py`: kept.\n"
    )
