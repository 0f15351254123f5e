"""A small separate disk for a process, and a way to fill it."""

import os
import subprocess
from pathlib import Path

import pytest

_SIZE = "8m"
_OWN_FOLDER = ["unshare", "--mount", "--propagation", "private"]
_AS_ROOT = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
_UNSHARE = [*_OWN_FOLDER, *_AS_ROOT]


def needs_mounts() -> None:
    """Skip if no disk can be mounted; in CI that is an error."""
    command = [*_UNSHARE, "mount", "-t", "tmpfs", "none", "/mnt"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        if os.environ.get("CI") == "true":
            pytest.fail(f"a full disk cannot be made: {done.stderr}")
        pytest.skip(f"no mount namespace: {done.stderr}")


def in_small_disk(folder: Path) -> list[str]:
    """Return the command that runs another one with a small disk at ``folder``."""
    mounted = f'mount -t tmpfs -o size={_SIZE} disk {folder} && exec "$@"'
    return [*_UNSHARE, "sh", "-c", mounted, "sh"]


def fill(path: Path) -> None:
    """Write until the disk is full."""
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:  # full
            return
