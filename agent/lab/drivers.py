"""The Java drivers: where their sources are, their compilation, and the command that runs one."""

import hashlib
import subprocess
from collections.abc import Sequence
from pathlib import Path

from agent.lab.artifacts import COMPILER, appear_once, clients, fetch
from agent.lab.errors import LabError
from agent.lab.jvm import LIGHT_FLAGS, find_java

RESOURCES = Path(__file__).parent / "java"
OLDEST_CLIENT = "2.8.2"
"""What the drivers are compiled against; they run unchanged on all later versions."""


def java_command(
    main: str, jars: Sequence[Path], cache: Path, flags: Sequence[str] = ()
) -> list[str | Path]:
    """Return the command that runs a driver on the jars; its own arguments follow."""
    classpath = ":".join(map(str, [classes(cache), *jars]))
    return [find_java(), *LIGHT_FLAGS, *flags, "-cp", classpath, main]


def classes(cache: Path) -> Path:
    """Return the folder of the compiled drivers, compiled where these sources were not yet.

    Raises:
        LabError: they do not compile.

    """
    sources = sorted(RESOURCES.glob("*.java"))
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    target = cache / "classes" / digest
    with appear_once(target) as folder:
        if folder is not None:
            _compile(sources, folder, cache)
    return target


def _compile(sources: Sequence[Path], folder: Path, cache: Path) -> None:
    classpath = ":".join(map(str, fetch(clients(OLDEST_CLIENT), cache)))
    compiler = fetch(COMPILER, cache)[0]
    # Not --release: it reads a file that only a full JDK has.
    options: list[str | Path] = [
        "-source",
        "8",
        "-target",
        "8",
        "-nowarn",
        "-cp",
        classpath,
        "-d",
        folder,
    ]
    done = subprocess.run(  # noqa: S603
        [find_java(), "-jar", compiler, *options, *sources],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise LabError(f"the drivers do not compile:\n{done.stderr}")
