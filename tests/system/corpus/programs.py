"""Clients that the lab does not have: Go programs, Python packages, more Java drivers.

Each is built once into the lab's cache, by version.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

from agent.lab.artifacts import COMPILER, Artifact, appear_once, clients, fetch
from agent.lab.drivers import OLDEST_CLIENT, RESOURCES, classes, java_command
from agent.lab.jvm import find_java
from agent.processes.errors import ProcessError

HERE = Path(__file__).parent
GO_MODULES = {"franz": "github.com/twmb/franz-go/pkg/kgo", "sarama": "github.com/IBM/sarama"}
_CONNECT_COMPILED_WITH = "3.9.1"
_SHARE_COMPILED_WITH = "4.1.0"


def go_program(name: str, version: str, cache: Path) -> Path:
    """Return the program of this folder, built with one version of its client."""
    target = cache / "go" / f"{name}-{version}"
    with appear_once(target) as folder:
        if folder is not None:
            source = folder / "source"
            shutil.copytree(HERE / name, source)
            _run("go", "get", f"{GO_MODULES[name]}@v{version}", where=source)
            _run("go", "build", "-o", str(folder / name), ".", where=source)
    return target / name


def python_packages(package: str, version: str, cache: Path) -> Path:
    """Return a folder for ``PYTHONPATH`` that holds one version of a package."""
    target = cache / "python" / f"{package}-{version}"
    with appear_once(target) as folder:
        if folder is not None:
            wanted = f"{package}=={version}"
            _run(sys.executable, "-m", "pip", "install", "-q", "--target", str(folder), wanted)
    return target


def connect_command(version: str, log: Path, cache: Path) -> list[str | Path]:
    """Return the command of a distributed worker; its properties follow."""
    compiled = _compiled("ConnectDriver", connect(_CONNECT_COMPILED_WITH), cache)
    jars = [compiled, *fetch(connect(version), cache)]
    if version in _FILE_CONNECTORS:
        jars.append(_compiled("AppInfoParser", clients(OLDEST_CLIENT), cache))
    return _command("ConnectDriver", jars, log, cache, HERE / "java" / "connect-log4j")


def consumer_command(version: str, log: Path, cache: Path) -> list[str | Path]:
    """Return the command of the lab's own consumer; its properties follow."""
    return _command("ConsumerDriver", fetch(clients(version), cache), log, cache)


def share_command(version: str, log: Path, cache: Path) -> list[str | Path]:
    """Return the command of a share consumer; its properties follow."""
    compiled = _compiled("ShareDriver", clients(_SHARE_COMPILED_WITH), cache)
    return _command("ShareDriver", [compiled, *fetch(clients(version), cache)], log, cache)


def fleet_command(version: str, log: Path, cache: Path) -> list[str | Path]:
    """Return the command of many consumers in one process; their properties follow."""
    compiled = _compiled("FleetDriver", clients(OLDEST_CLIENT), cache)
    return _command("FleetDriver", [compiled, *fetch(clients(version), cache)], log, cache)


def several_command(version: str, log: Path, cache: Path, *, has_threads: bool) -> list[str | Path]:
    """Return the command of several consumers in one process; their properties follow."""
    compiled = _compiled("SeveralDriver", clients(OLDEST_CLIENT), cache)
    layout = HERE / "java" / "thread-log4j" if has_threads else RESOURCES / "log4j"
    jars = [compiled, *fetch(clients(version), cache)]
    return _command("SeveralDriver", jars, log, cache, layout)


def member_command(version: str, log: Path, cache: Path) -> list[str | Path]:
    """Return the command of a consumer that reports its events' times; its properties follow."""
    compiled = _compiled("MemberDriver", clients(OLDEST_CLIENT), cache)
    return _command("MemberDriver", [compiled, *fetch(clients(version), cache)], log, cache)


_FILE_CONNECTORS = {"4.4.0": "4.3.1"}
"""File connectors of an older version, for workers whose own are not on Maven Central."""


def connect(version: str) -> tuple[Artifact, ...]:
    """Return a Connect worker with the file connectors; 4.x brings Log4j 2, 3.x reload4j."""
    log4j2 = (
        Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.1"),
        Artifact("org.apache.logging.log4j", "log4j-core", "2.25.1"),
    )
    return (
        Artifact("org.apache.kafka", "connect-runtime", version),
        Artifact("org.apache.kafka", "connect-file", _FILE_CONNECTORS.get(version, version)),
        Artifact("org.apache.kafka", "connect-json", version),
        *(log4j2 if version.startswith("4.") else clients(version)[1:]),
    )


def _command(
    main: str,
    jars: Sequence[Path],
    log: Path,
    cache: Path,
    layout: Path = RESOURCES / "log4j",
) -> list[str | Path]:
    flags = [
        "-Xmx256m",
        f"-Dlog4j.configuration={Path(f'{layout}.properties').as_uri()}",
        f"-Dlog4j2.configurationFile={layout}2.properties",
        f"-Ddriver.log={log}",
    ]
    return java_command(main, jars, cache, flags)


def _compiled(name: str, artifacts: Sequence[Artifact], cache: Path) -> Path:
    source = HERE / "java" / f"{name}.java"
    target = cache / "classes" / f"{name}-{crc32(source.read_bytes()):08x}"
    with appear_once(target) as folder:
        if folder is not None:
            classpath = ":".join(map(str, [classes(cache), *fetch(artifacts, cache)]))
            options = ["-source", "8", "-target", "8", "-nowarn", "-cp", classpath]
            jar = str(fetch(COMPILER, cache)[0])
            _run(str(find_java()), "-jar", jar, *options, "-d", str(folder), str(source))
    return target


def _run(*command: str, where: Path = HERE) -> None:
    environment = os.environ | {"GOFLAGS": "-mod=mod", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(
        command, cwd=where, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ProcessError(f"{' '.join(command[:4])} failed:\n{done.stdout}{done.stderr}")
