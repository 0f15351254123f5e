"""The pinned jars of Kafka's source, Delta and Iceberg, fetched once from a Maven repository.

``jars.toml`` names each jar and its SHA-256. So nothing has to be resolved, and a mirror can only
deliver the tested files. A jar appears in the cache by a rename, and its digest is checked before
each use.
"""

import hashlib
import os
import tempfile
import tomllib
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from http.client import HTTPException
from importlib.resources import files
from pathlib import Path

from aggregation.spark.errors import SparkSetupError

_TIMEOUT_S = 60.0
_CHUNK_BYTES = 1 << 20


class Need(StrEnum):
    """A feature that needs jars; a table of ``jars.toml``."""

    KAFKA = "kafka"
    DELTA = "delta"
    ICEBERG = "iceberg"


@dataclass(frozen=True, slots=True)
class Jar:
    """One pinned file of a Maven repository."""

    coordinate: str
    sha256: str

    @property
    def file(self) -> str:
        """File name, in the repository and in the cache."""
        _, name, version = self.coordinate.split(":")
        return f"{name}-{version}.jar"

    @property
    def path(self) -> str:
        """Path within a repository."""
        group, name, version = self.coordinate.split(":")
        return f"{group.replace('.', '/')}/{name}/{version}/{self.file}"


@cache
def load_pins() -> dict[Need, tuple[Jar, ...]]:
    """Return the pinned jars of each feature."""
    text = (files(__package__) / "jars.toml").read_text()
    return {
        Need(need): tuple(Jar(*pin) for pin in pins.items())
        for need, pins in tomllib.loads(text).items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class JarStore:
    """A folder of jars, filled from a Maven repository unless ``offline``."""

    folder: Path
    repository: str
    offline: bool = False

    def fetch(self, needs: Iterable[Need], notify: Callable[[str], None]) -> Sequence[Path]:
        """Return the jars, each with the pinned content.

        Raises:
            SparkSetupError: a jar is missing and cannot be fetched, or its content differs.

        """
        return [self._one(jar, notify) for need in sorted(set(needs)) for jar in load_pins()[need]]

    def _one(self, jar: Jar, notify: Callable[[str], None]) -> Path:
        path = self.folder / jar.file
        if path.is_file() and _sha256(path) == jar.sha256:
            return path
        if self.offline:
            found = "another one than the pinned" if path.is_file() else "not there"
            raise SparkSetupError(
                f"{path} is {found}, and --offline forbids to fetch it; run once without "
                f"--offline, or put {jar.coordinate} there"
            )
        notify(f"fetching {jar.file}")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._download(jar, path)
        except urllib.error.HTTPError as error:
            raise SparkSetupError(f"{self.repository}{jar.path}: {error}") from error
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise SparkSetupError(
                f"{jar.coordinate} cannot be fetched from {self.repository} ({reason}); name a "
                f"mirror in MAVEN_MIRROR_URL, or put the jar into {self.folder}"
            ) from error
        return path

    def _download(self, jar: Jar, path: Path) -> None:
        url = self.repository + jar.path
        with (
            tempfile.TemporaryDirectory(prefix=".partial-", dir=self.folder) as folder,
            urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer,  # noqa: S310 - configured
        ):
            partial = Path(folder, jar.file)
            with partial.open("wb") as file:
                while chunk := answer.read(_CHUNK_BYTES):
                    file.write(chunk)
            found = _sha256(partial)
            if found != jar.sha256:
                raise SparkSetupError(f"{url} has the SHA-256 {found}, wanted {jar.sha256}")
            partial.replace(path)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def default_folder() -> Path:
    """Return the user's cache folder for these jars."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "kafka-rebalance-agent" / "spark-jars"
