"""Releases of clients and brokers that are newer than the dialects and the recordings.

``python -m tools.check_versions`` asks Maven Central, PyPI, npm and the Go module proxy by their
ordinary clients, one question a package. It prints each release that is newer than the versions
that a dialect names, or than the newest recording of `tests/system/corpus/versions.yaml`, and ends
with 1 if there are any. ruby-kafka and brod are left out: their registries are none of the four.
"""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

import yaml

from aggregation.spark.session.maven import CENTRAL

ROOT = Path(__file__).parent.parent
PLANS = ROOT / "tests" / "system" / "corpus" / "versions.yaml"
_DIALECTS = (
    ROOT / "agent" / "sources" / "logs" / "dialects",
    ROOT / "agent" / "sources" / "broker_logs" / "dialects",
)
_RELEASE = re.compile(r"v?\d+(?:\.\d+)+", re.ASCII)
"""A version without a suffix: candidates and betas are not compared."""
_TIMEOUT_S = 120.0

Version = tuple[int, ...]


class Package(NamedTuple):
    """A package, its registry, and the dialects of its log; a name may be a prefix."""

    registry: str
    name: str
    dialects: tuple[str, ...]


PACKAGES = (
    Package("maven", "org.apache.kafka:kafka-clients", ("java-consumer", "java-share-consumer")),
    Package("maven", "org.apache.kafka:kafka-streams", ("kafka-streams",)),
    Package("maven", "org.apache.kafka:connect-runtime", ("kafka-connect",)),
    Package("maven", "org.apache.kafka:kafka_2.13", ("kafka-broker",)),
    Package("pypi", "kafka-python", ("kafka-python",)),
    Package("pypi", "aiokafka", ("aiokafka",)),
    Package("pypi", "confluent-kafka", ("librdkafka",)),  # it has librdkafka's version
    Package("npm", "kafkajs", ("kafkajs",)),
    Package("go", "github.com/twmb/franz-go", ("franz-go",)),
    Package("go", "github.com/segmentio/kafka-go", ("kafka-go",)),
    Package("go", "github.com/IBM/sarama", ("sarama",)),
)


class Newer(NamedTuple):
    """A release that is newer than what is known of its package."""

    package: str
    release: str
    beyond: str
    """``dialects``, or ``recordings``."""
    known: str


def list_maven(name: str) -> list[str]:
    """Return the releases of an artifact; ``name`` is ``group:artifact``."""
    group, _, artifact = name.partition(":")
    url = f"{CENTRAL}{group.replace('.', '/')}/{artifact}/maven-metadata.xml"
    with urlopen(url, timeout=_TIMEOUT_S) as answer:  # noqa: S310 - a constant of https
        return re.findall(r"<version>([^<]+)</version>", answer.read().decode())


def list_pypi(name: str) -> list[str]:
    """Return the releases of a project."""
    text = _run([sys.executable, "-m", "pip", "index", "versions", name])
    _, _, versions = text.partition("Available versions:")
    return [version.strip() for version in versions.partition("\n")[0].split(",")]


def list_npm(name: str) -> list[str]:
    """Return the releases of a package."""
    return [
        str(version) for version in json.loads(_run(["npm", "view", name, "versions", "--json"]))
    ]


def list_go(name: str) -> list[str]:
    """Return the releases of a module."""
    return _run(["go", "list", "-m", "-versions", name]).split()[1:]


LISTS: dict[str, Callable[[str], list[str]]] = {
    "maven": list_maven,
    "pypi": list_pypi,
    "npm": list_npm,
    "go": list_go,
}


def parse(text: str) -> Version | None:
    """Return a release's numbers; None for a candidate, a beta or a commit."""
    return tuple(map(int, text.removeprefix("v").split("."))) if _RELEASE.fullmatch(text) else None


def read_dialects() -> dict[str, Version]:
    """Return the newest version that each dialect names."""
    files = (path for folder in _DIALECTS for path in folder.glob("*.yaml"))
    loaded = (yaml.safe_load(path.read_text(encoding="utf-8")) for path in files)
    newest = {each["dialect"]: str(each["versions"]).rpartition("- ")[2].strip() for each in loaded}
    return {name: version for name, text in newest.items() if (version := parse(text))}


def read_recordings() -> dict[str, Version]:
    """Return the newest version that each dialect's recording is made of."""
    plans = yaml.safe_load(PLANS.read_text(encoding="utf-8"))
    return {
        name: max(version for take in plan["takes"] if (version := parse(take.split()[0])))
        for name, plan in plans.items()
    }


def find_newer(
    package: Package,
    releases: Sequence[str],
    dialects: dict[str, Version],
    recordings: dict[str, Version],
) -> Iterator[Newer]:
    """Yield the releases beyond what the package's dialects name, or else beyond its recordings."""
    found = sorted({version for text in releases if (version := parse(text))})
    named = _newest(package, dialects)
    recorded = _newest(package, recordings)
    for version in found:
        text = _format(version)
        if named is not None and version[: len(named)] > named:
            yield Newer(package.name, text, "dialects", _format(named))
        elif recorded is not None and version[:2] > recorded[:2]:
            yield Newer(package.name, text, "recordings", _format(recorded))


def main() -> int:
    """Print what is newer; return 1 if there is something, or a registry does not respond."""
    dialects, recordings, is_current = read_dialects(), read_recordings(), True
    for package in PACKAGES:
        try:
            releases = LISTS[package.registry](package.name)
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            print(f"{package.name}: {package.registry} does not respond: {error}")
            is_current = False
            continue
        newer = list(find_newer(package, releases, dialects, recordings))
        for each in newer:
            print(f"{each.package} {each.release}: newer than the {each.beyond} ({each.known})")
        is_current = is_current and not newer
        if not newer:
            print(f"{package.name}: nothing newer")
    return 0 if is_current else 1


def _newest(package: Package, versions: dict[str, Version]) -> Version | None:
    own = [version for name, version in versions.items() if name.startswith(package.dialects)]
    return max(own, default=None)


def _format(version: Version) -> str:
    return ".".join(map(str, version))


def _run(command: list[str]) -> str:
    done = subprocess.run(  # noqa: S603 - the commands above
        command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True
    )
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
