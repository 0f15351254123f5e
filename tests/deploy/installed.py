"""Environments that hold the built wheel, not this checkout."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import click

ROOT = Path(__file__).parent.parent.parent
INSTALL_WITHIN_S = 400.0


def run(*command: str | Path, cwd: Path = Path("/"), **variables: str) -> str:
    """Run a command outside of the checkout: there, Python would find the packages."""
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=INSTALL_WITHIN_S,
        check=False,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | variables,
        cwd=cwd,
    )
    assert done.returncode == 0, f"{command}:\n{done.stderr}\n{done.stdout}"
    return done.stdout


def make_environment(folder: Path, wheel: Path | None = None) -> Path:
    """Return the programs of a new environment: a wheel, and the dependencies of this one.

    A folder that a ``.pth`` file names has its own ``.pth`` files ignored, so the checkout of an
    editable install stays outside.
    """
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    packages = sysconfig.get_path("purelib", "venv", {"base": str(folder)})
    Path(packages, "dependencies.pth").write_text(f"{Path(click.__file__).parent.parent}\n")
    if wheel is not None:
        options = ("--quiet", "--no-deps", "--no-index", "--ignore-installed", "--no-compile")
        run(sys.executable, "-m", "pip", "--python", folder, "install", *options, wheel)
    return folder / "bin"
