"""JVM artifacts from Maven Central, each set once, in a cache folder.

Ivy, in PySpark's jar folder, resolves a Maven artifact with its dependencies, so Maven is not
needed. A set appears by an atomic rename under a lock: a folder that exists is complete.
"""

import fcntl
import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

from agent.lab.jvm import find_java, trust_flags
from agent.processes.errors import ProcessError
from aggregation.spark.session.maven import repository

_FETCH_TIMEOUT_S = 600.0


class Artifact(NamedTuple):
    """One Maven coordinate."""

    organisation: str
    name: str
    revision: str


BROKER_VERSION = "4.3.0"
_LOG4J = (
    Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.1"),
    Artifact("org.apache.logging.log4j", "log4j-core", "2.25.1"),
)
NEWEST_VERSION = "4.4.0"
"""The newest broker and tools, which inspection is compared with."""


def broker_set(version: str) -> tuple[Artifact, ...]:
    """Return Kafka's broker of one version."""
    return (Artifact("org.apache.kafka", "kafka_2.13", version), *_LOG4J)


def tools_set(version: str) -> tuple[Artifact, ...]:
    """Return Kafka's command-line tools and Connect's worker of one version."""
    return (Artifact("org.apache.kafka", "kafka-tools", version), *_LOG4J)


BROKER = broker_set(BROKER_VERSION)
TOOLS = tools_set(BROKER_VERSION)

COMPILER = (Artifact("org.eclipse.jdt", "ecj", "3.33.0"),)
"""Eclipse's compiler needs no JDK, only a Java to run on, such as the one from PyPI."""


def clients(version: str) -> tuple[Artifact, ...]:
    """Return Kafka's consumer and Streams of one version; slf4j 1.7's binding fits 2.8 to 4.3."""
    return (
        Artifact("org.apache.kafka", "kafka-streams", version),
        Artifact("ch.qos.reload4j", "reload4j", "1.2.25"),
        Artifact("org.slf4j", "slf4j-reload4j", "1.7.36"),
    )


def default_cache() -> Path:
    """Return the user's cache folder for this program."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "kafka-rebalance-agent"


def fetch(artifacts: Sequence[Artifact], cache: Path) -> list[Path]:
    """Return the jars of the artifacts and their dependencies; fetch those that are missing.

    Raises:
        ProcessError: an artifact is missing and cannot be fetched.

    """
    first = artifacts[0]
    coordinates = repr([tuple(artifact) for artifact in artifacts])
    digest = hashlib.sha256(coordinates.encode()).hexdigest()[:8]
    name = f"{first.name}-{first.revision}-{digest}"
    with appear_once(cache / "jars" / name) as folder:
        if folder is not None:
            sys.stderr.write(f"fetching {first.name} {first.revision} from {repository()}\n")
            _retrieve(artifacts, folder)
    return sorted((cache / "jars" / name).glob("*.jar"))


def fetch_all(sets: Iterable[Sequence[Artifact]], cache: Path) -> None:
    """Fetch several sets in parallel: each waits mostly for small responses.

    Raises:
        ProcessError: one of them cannot be fetched.

    """
    with ThreadPoolExecutor(max_workers=4) as pool:
        list(pool.map(lambda artifacts: fetch(artifacts, cache), sets))


@contextmanager
def appear_once(target: Path) -> Iterator[Path | None]:
    """Yield a folder to fill; without an error it becomes ``target``. None: that exists already."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / f".{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if target.exists():
            yield None
            return
        with tempfile.TemporaryDirectory(prefix=".partial-", dir=target.parent) as partial:
            folder = Path(partial) / target.name
            folder.mkdir()
            yield folder
            folder.rename(target)


def _retrieve(artifacts: Sequence[Artifact], folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="ivy-") as scratch:
        settings, module = Path(scratch) / "settings.xml", Path(scratch) / "ivy.xml"
        settings.write_text(
            _SETTINGS.format(cache=quoteattr(scratch), root=quoteattr(repository()))
        )
        module.write_text(_MODULE.format(dependencies="\n".join(map(_dependency, artifacts))))
        # fmt: off
        command: list[str | Path] = [
            find_java(), *trust_flags(), "-jar", _ivy(), "-settings", settings, "-ivy", module,
            "-confs", "default", "-types", "jar", "bundle",
            "-retrieve", f"{folder}/[artifact]-[revision](-[classifier]).[ext]",
        ]
        # fmt: on
        try:
            done = subprocess.run(  # noqa: S603
                command, capture_output=True, text=True, timeout=_FETCH_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise ProcessError(
                f"{artifacts[0]} was not fetched in {_FETCH_TIMEOUT_S:.0f} s"
            ) from error
    if done.returncode or not any(folder.iterdir()):
        tail = "\n".join(done.stdout.splitlines()[-15:])
        raise ProcessError(f"{artifacts[0]} cannot be fetched from {repository()}:\n{tail}")


def _dependency(artifact: Artifact) -> str:
    organisation, name, revision = map(quoteattr, artifact)
    return f'<dependency org={organisation} name={name} rev={revision} conf="default->default"/>'


def _ivy() -> Path:
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        raise ProcessError("PySpark brings Ivy, which fetches the jars: pip install pyspark==4.1.3")
    found = sorted((Path(pyspark.origin).parent / "jars").glob("ivy-*.jar"))
    if not found:
        raise ProcessError(f"no ivy-*.jar in {Path(pyspark.origin).parent / 'jars'}")
    return found[-1]


_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="maven"/>
  <caches defaultCacheDir={cache}/>
  <resolvers><ibiblio name="maven" m2compatible="true" root={root}/></resolvers>
</ivysettings>
"""

_MODULE = """\
<ivy-module version="2.0">
  <info organisation="lab" module="lab"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
  {dependencies}
  </dependencies>
</ivy-module>
"""
