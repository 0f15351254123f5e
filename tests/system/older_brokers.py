"""Real brokers of older versions, one node each: 3.9 in KRaft mode, 2.8 and 2.1 with ZooKeeper."""

import base64
import socket
import uuid
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from agent.lab.artifacts import Artifact, fetch
from agent.lab.drivers import RESOURCES, java_command
from agent.processes.driver import Driver
from agent.processes.ports import HOST, free_port
from tests.system.kafka_tools import write_properties

_READY_S = 120.0
_QUICK = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "300",
    "num.partitions": "4",
    "num.network.threads": "2",
    "num.io.threads": "2",
    "log.cleaner.enable": "false",
}
# Neither class reads our stdin, so a shell does: its end is theirs, however we end.
_UNTIL_STDIN_ENDS = '"$@" >&2 & cat; kill -9 $!'


@contextmanager
def kafka_39(folder: Path, cache: Path) -> Iterator[str]:
    """Run Kafka 3.9.1 with KIP-848 on; give its address."""
    port, controller_port = free_port(), free_port()
    named = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "group.coordinator.rebalance.protocols": "classic,consumer",
        "log.dirs": str(folder / "data"),
    }
    cluster_id = base64.urlsafe_b64encode(uuid.UUID(int=39).bytes).decode().rstrip("=")
    command = _java("BrokerDriver", "3.9.1", folder, cache)
    command += [_properties(folder, named), cluster_id]
    with Driver("kafka 3.9", command, folder / "broker.log") as broker:
        broker.wait_until(lambda: _listens(port), "connections", _READY_S)
        yield f"{HOST}:{port}"


def kafka_28(folder: Path, cache: Path) -> AbstractContextManager[str]:
    """Run Kafka 2.8.2 with ZooKeeper; give its address."""
    return _with_zookeeper("2.8.2", "2.13", folder, cache)


def kafka_21(folder: Path, cache: Path) -> AbstractContextManager[str]:
    """Run Kafka 2.1.1 with ZooKeeper; give its address. This version has no DescribeCluster."""
    return _with_zookeeper("2.1.1", "2.12", folder, cache)


@contextmanager
def _with_zookeeper(version: str, scala: str, folder: Path, cache: Path) -> Iterator[str]:
    port, zookeeper_port = free_port(), free_port()
    named = {
        "broker.id": "1",
        "zookeeper.connect": f"{HOST}:{zookeeper_port}",
        "listeners": f"PLAINTEXT://{HOST}:{port}",
        "log.dirs": str(folder / "data"),
    }
    config = _properties(folder, named)
    main = "org.apache.zookeeper.server.ZooKeeperServerMain"
    keeping = _java(main, version, folder, cache, scala)
    keeping += [str(zookeeper_port), folder / "zookeeper"]
    serving = _until([*_java("kafka.Kafka", version, folder, cache, scala), config])
    with Driver("zookeeper", _until(keeping), folder / "zookeeper.log") as zookeeper:
        # one that is met before it serves does not close the connection, and the broker gives up
        zookeeper.wait_until(lambda: _serves(zookeeper_port), "a version", _READY_S)
        with Driver(f"kafka {version}", serving, folder / "broker.log") as broker:
            broker.wait_until(lambda: _listens(port), "connections", _READY_S)
            yield f"{HOST}:{port}"


def _until(command: list[str | Path]) -> list[str | Path]:
    return ["sh", "-c", _UNTIL_STDIN_ENDS, "sh", *command]


def _java(
    main: str, version: str, folder: Path, cache: Path, scala: str = "2.13"
) -> list[str | Path]:
    jars = (
        Artifact("org.apache.kafka", f"kafka_{scala}", version),
        # the client of 3.4 finds no host on Java 14 and above (ZOOKEEPER-3779)
        *([Artifact("org.apache.zookeeper", "zookeeper", "3.5.9")] if scala == "2.12" else []),
        Artifact("ch.qos.reload4j", "reload4j", "1.2.25"),
        Artifact("org.slf4j", "slf4j-reload4j", "1.7.36"),
    )
    flags = [
        "-Xmx256m",
        "-Dzookeeper.admin.enableServer=false",
        "-Dzookeeper.jmx.log4j.disable=true",  # of ZooKeeper 3.4, a class that reload4j lacks
        f"-Dlog4j.configuration={(RESOURCES / 'log4j.properties').as_uri()}",
        f"-Ddriver.log={folder / 'java.log'}",
    ]
    return java_command(main, fetch(jars, cache), cache, flags)


def _properties(folder: Path, named: Mapping[str, str]) -> Path:
    return write_properties(folder / "server.properties", _QUICK | dict(named))


def _listens(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), timeout=1.0).close()
    except OSError:
        return False
    return True


def _serves(zookeeper_port: int) -> bool:
    try:
        with socket.create_connection((HOST, zookeeper_port), timeout=1.0) as sock:
            sock.sendall(b"srvr")
            return sock.recv(100).startswith(b"Zookeeper version")
    except OSError:
        return False
