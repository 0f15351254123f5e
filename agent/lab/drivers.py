"""Java drivers: sources, compilation, and the command that runs one."""

import hashlib
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from zipfile import ZipFile

from agent.lab.artifacts import COMPILER, appear_once, clients, fetch
from agent.lab.jvm import LIGHT_FLAGS, find_java
from agent.processes.errors import ProcessError

RESOURCES = Path(__file__).parent / "java"
OLDEST_CLIENT = "2.8.2"
"""The drivers are compiled against it; they run unchanged on all later versions."""
_JAR = "drivers.jar"  # an archive of classes takes none from a folder
_TO_STDERR = ("-Xlog:disable", "-Xlog:all=warning:stderr")  # that one does not fit; events are read


def java_command(
    main: str, jars: Sequence[Path], cache: Path, flags: Sequence[str] = ()
) -> list[str | Path]:
    """Return the command that runs a driver on the jars; its own arguments follow."""
    return [*java_on([classes(cache), *jars], cache), *flags, main]


def java_on(jars: Sequence[Path], cache: Path) -> list[str | Path]:
    """Return the command that runs a main class on the jars; the caller appends the class."""
    java, classpath = find_java(), ":".join(map(str, jars))
    archive = class_archive(java, classpath, cache)
    flags = [*_TO_STDERR, f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []
    return [java, *LIGHT_FLAGS, *flags, "-cp", classpath]


def class_archive(java: Path, classpath: str, cache: Path) -> Path:
    """Return the path of a class path's AppCDS archive for a Java; it may not exist yet."""
    release = java.resolve()
    text = f"{release} {release.stat().st_mtime_ns} {classpath}"
    return cache / "archives" / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.jsa"


def classes(cache: Path) -> Path:
    """Return the jar of the compiled drivers; compile it if these sources have none.

    Raises:
        ProcessError: they do not compile.

    """
    sources = sorted(RESOURCES.glob("*.java"))
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    target = cache / "drivers" / digest
    with appear_once(target) as folder:
        if folder is not None:
            _compile(sources, folder / _JAR, cache)
    return target / _JAR


def _compile(sources: Sequence[Path], jar: Path, cache: Path) -> None:
    classpath = ":".join(map(str, fetch(clients(OLDEST_CLIENT), cache)))
    compiler = fetch(COMPILER, cache)[0]
    # Not --release: it reads a file that only a full JDK has.
    options = ["-source", "8", "-target", "8", "-nowarn", "-cp", classpath]
    with tempfile.TemporaryDirectory() as folder, ZipFile(jar, "w") as out:
        done = subprocess.run(  # noqa: S603
            [find_java(), "-jar", compiler, *options, "-d", folder, *sources],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise ProcessError(f"the drivers do not compile:\n{done.stderr}")
        for path in sorted(Path(folder).glob("*.class")):
            out.write(path, path.name)
