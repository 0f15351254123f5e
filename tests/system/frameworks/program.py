"""Programs of this folder, each built once into the user's cache, by its sources.

A program is an ordinary one: settings come from the environment, SIGTERM closes it, and its log
goes to its standard output as its framework does it. A record that names a member blocks it.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

import pytest

from agent.lab.artifacts import BROKER, BROKER_VERSION, TOOLS, Artifact, appear_once, fetch
from agent.lab.jvm import LIGHT_FLAGS, find_java
from agent.processes.errors import ProcessError

SOURCES = Path(__file__).parent / "programs"
_BUILD_WITHIN_S = 3000.0
_FILE_CONNECTORS = (Artifact("org.apache.kafka", "connect-file", BROKER_VERSION),)
_CONNECT_WORKER = "org.apache.kafka.connect.cli.ConnectDistributed"
Build = Callable[[Path], None]
"""Builds in a folder that holds the sources."""
Words = Callable[[Path, Path], list[str]]
"""Returns the command, from the folder of what was built and the cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One framework's program, as its user logs it."""

    folder: str
    """Where its sources are."""
    needs: tuple[str, ...]
    """The commands that build and run it."""
    build: Build
    words: Words
    environment: Mapping[str, str] = field(default_factory=dict)
    writes_files: bool = False
    """Whether it logs into files of its own; its standard output is no log then."""
    is_prefixed: bool = False
    """Whether all replicas share one stream, as ``docker compose logs`` prints it."""
    hidden: frozenset[int] = frozenset()
    """Codes that its log never shows."""

    def command(self, cache: Path) -> list[str]:
        """Return its command line; without its tools the test is skipped, but never in CI."""
        try:
            self._assert_tools()
            return self._built(cache)
        except ProcessError as error:
            if os.environ.get("CI") == "true":
                raise
            pytest.skip(str(error))

    def _assert_tools(self) -> None:
        missing = [name for name in self.needs if shutil.which(name) is None]
        if missing:
            raise ProcessError(f"{', '.join(missing)} not found: {self.folder} needs it")

    def _built(self, cache: Path) -> list[str]:
        sources = SOURCES / self.folder
        target = cache / "frameworks" / f"{self.folder}-{_checksum(sources):08x}"
        with appear_once(target) as folder:
            if folder is not None:
                shutil.copytree(sources, folder, dirs_exist_ok=True)
                self.build(folder)
        return self.words(target, cache)


def npm(folder: Path) -> None:
    """Fetch the packages of a Node program."""
    _run(folder, "npm", "ci", "--ignore-scripts", "--silent")


def go(folder: Path) -> None:
    """Build a Go program."""
    _run(folder, "go", "build", "-o", "member", ".")


def cargo(folder: Path) -> None:
    """Build a Rust program, with its librdkafka."""
    _run(folder, "cargo", "build", "--release", "--locked", "--quiet")
    shutil.move(folder / "target" / "release" / "member", folder / "member")
    shutil.rmtree(folder / "target")


def maven(folder: Path) -> None:
    """Build a Java program."""
    _run(folder, "mvn", "-q", "-B", "-DskipTests", "package")


def node(folder: Path, _: Path) -> list[str]:
    """Return the command of a Node program."""
    return ["node", str(folder / "member.js")]


def binary(folder: Path, _: Path) -> list[str]:
    """Return the command of a program that was linked into one file."""
    return [str(folder / "member")]


def jar(name: str) -> Words:
    """Return a function that gives the command of a jar."""

    def words(folder: Path, _: Path) -> list[str]:
        return [str(find_java()), *LIGHT_FLAGS, "-Xmx128m", "-jar", str(folder / "target" / name)]

    return words


def classes(folder: Path, _: Path) -> list[str]:
    """Return the command of a jar beside its libraries."""
    jars = f"{folder / 'target' / 'member.jar'}:{folder / 'target' / 'lib' / '*'}"
    return [str(find_java()), *LIGHT_FLAGS, "-Xmx128m", "-cp", jars, "member.Member"]


def connect_worker(folder: Path, cache: Path) -> list[str]:
    """Return the command of a distributed worker; there is nothing to build."""
    jars = [*fetch(TOOLS, cache), *fetch(BROKER, cache), *fetch(_FILE_CONNECTORS, cache)]
    # fmt: off
    return [
        str(find_java()), *LIGHT_FLAGS, "-Xmx192m", "-cp", ":".join(map(str, jars)),
        f"-Dlog4j2.configurationFile={folder / 'connect-log4j2.yaml'}",
        _CONNECT_WORKER, str(folder / "worker.properties"),
    ]
    # fmt: on


def _run(folder: Path, *command: str) -> None:
    words: Sequence[str] = command
    try:
        done = subprocess.run(
            words,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_BUILD_WITHIN_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ProcessError(f"{words[0]} took too long in {folder.name}") from error
    if done.returncode:
        raise ProcessError(f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}")


def _checksum(sources: Path) -> int:
    checksum = 0
    for path in sorted(sources.rglob("*")):
        if path.is_file():
            checksum = crc32(path.relative_to(sources).as_posix().encode(), checksum)
            checksum = crc32(path.read_bytes(), checksum)
    return checksum


KAFKAJS = Program(
    folder="kafkajs", needs=("node", "npm"), build=npm, words=node, hidden=frozenset({2})
)
FRANZ_GO = Program(folder="franz_go", needs=("go",), build=go, words=binary)
CONFLUENT_GO = Program(folder="confluent_go", needs=("go",), build=go, words=binary)
MICRONAUT = Program(folder="micronaut", needs=("mvn",), build=maven, words=jar("member.jar"))
SPRING_BOOT = Program(
    folder="spring_boot", needs=("mvn",), build=maven, words=jar("member.jar"), is_prefixed=True
)
QUARKUS = Program(
    folder="quarkus", needs=("mvn",), build=maven, words=jar("quarkus-app/quarkus-run.jar")
)
PEKKO = Program(folder="pekko", needs=("mvn",), build=maven, words=classes)
VERTX = Program(
    folder="vertx",
    needs=("mvn",),
    build=maven,
    words=classes,
    hidden=frozenset({6}),  # java.util.logging ends in a shutdown hook, beside the close
)
CAMEL = Program(
    folder="camel",
    needs=("mvn",),
    build=maven,
    words=classes,
    environment={"LOG4J_SHUTDOWN_HOOK_ENABLED": "false"},  # else it ends before the close
)
NESTJS = Program(
    folder="nestjs", needs=("node", "npm"), build=npm, words=node, hidden=frozenset({2})
)
RDKAFKA = Program(
    folder="rdkafka",
    needs=("cargo",),
    build=cargo,
    words=binary,
    environment={"RUST_LOG": "info"},
)
CONNECT = Program(
    folder="connect",
    needs=(),
    build=lambda _: None,
    words=connect_worker,
    hidden=frozenset({1, 2}),  # it prints why it joins at DEBUG
)
