"""The last release as a program; the agent of this release continues from its state."""

import os
import subprocess
import sys
import tarfile
from pathlib import Path

from tests.faults.agent_process import AGENT

_LAST_RELEASE = Path(__file__).parent / "releases" / "f36c958.tar.xz"


def unpack_release(folder: Path) -> tuple[str, ...]:
    """Unpack the last release's sources, without its lab and its report; return its program.

    They are a file and not taken from the history, as a clone may be shallow.
    """
    with tarfile.open(_LAST_RELEASE) as archive:
        archive.extractall(folder, filter="data")
    shown = subprocess.run(
        [sys.executable, "-P", "-c", "import agent; print(agent.__file__)"],
        env=os.environ | {"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(shown.stdout.strip()).is_relative_to(folder)
    return ("env", f"PYTHONPATH={folder}", *AGENT)
