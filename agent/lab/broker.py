"""A real KRaft broker on free loopback ports, in a folder of its own."""

import base64
import socket
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from agent.lab.artifacts import BROKER_VERSION, broker_set, fetch
from agent.lab.drivers import RESOURCES, java_command
from agent.processes.driver import Driver
from agent.processes.errors import ProcessError
from agent.processes.ports import HOST, free_port

_START_TIMEOUT_S = 60.0

# A lab's groups are small and fast: short sessions, few internal partitions, and a short delay of
# the first rebalance.
_SETTINGS = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": (
        "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,PROXIED:PLAINTEXT"
    ),
    "num.partitions": "4",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "share.coordinator.state.topic.num.partitions": "3",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "300",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "3000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "num.network.threads": "2",
    "num.io.threads": "2",
    "log.cleaner.enable": "false",
    "metadata.max.idle.interval.ms": "0",  # no empty record, twice a second
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePorts:
    """One broker's id and ports."""

    node_id: int
    port: int
    controller_port: int
    proxied_port: int
    """A second listener, advertised to clients as ``advertised_port``: the way through a proxy."""
    advertised_port: int


class Broker:
    """One node, broker and controller in one process."""

    def __init__(  # noqa: PLR0913 - what a node consists of
        self,
        node: NodePorts,
        settings: Mapping[str, str],
        cluster_id: str,
        folder: Path,
        cache: Path,
        version: str = BROKER_VERSION,
    ) -> None:
        """Start it; `wait_ready` waits until it serves."""
        self.node = node
        self.log = folder / f"broker-{node.node_id}.log"
        self._cache, self._version = cache, version
        self._cluster_id = cluster_id
        self._properties = folder / f"broker-{node.node_id}.properties"
        lines = {"log.dirs": str(folder / f"data-{node.node_id}")} | dict(settings)
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        self._driver = self._start()

    @property
    def address(self) -> str:
        """The ``host:port`` for clients."""
        return f"{HOST}:{self.node.port}"

    @property
    def pid(self) -> int:
        """The process id."""
        return self._driver.pid

    def wait_ready(self, timeout_s: float = _START_TIMEOUT_S) -> None:
        """Wait until it accepts connections: it does so only when registered and unfenced.

        Raises:
            ProcessError: it did not in time, or it ended.

        """
        self._driver.wait_until(self._listens, "connections", timeout_s)

    def kill(self) -> None:
        """Kill it with SIGKILL, as when a host dies."""
        self._driver.kill()

    def stop(self) -> None:
        """Shut it down cleanly."""
        self._driver.stop()

    def restart(self) -> None:
        """Restart it on its own data, after `kill` or `stop`, and wait until it serves."""
        self._driver.kill()
        self._driver = self._start()
        self.wait_ready()

    def _listens(self) -> bool:
        try:
            socket.create_connection((HOST, self.node.port), timeout=1.0).close()
        except OSError:
            return False
        return True

    def _start(self) -> Driver:
        flags = [
            "-Xmx384m",
            f"-Dlog4j2.configurationFile={RESOURCES / 'log4j2.properties'}",
            f"-Ddriver.log={self.log}",
        ]
        jars = fetch(broker_set(self._version), self._cache)
        command = java_command("BrokerDriver", jars, self._cache, flags)
        command += [self._properties, self._cluster_id]
        return Driver(f"broker {self.node.node_id}", command, self.log)


class Cluster:
    """A cluster of brokers; a context manager that leaves no process behind.

    The folder keeps their data and logs: use a temporary one.
    """

    def __init__(  # noqa: PLR0913 - what a cluster consists of
        self,
        folder: Path,
        cache: Path,
        *,
        brokers: int = 1,
        proxy_port: int | None = None,
        version: str = BROKER_VERSION,
        extra: Callable[[NodePorts], Mapping[str, str]] = lambda _: {},
    ) -> None:
        """Start the brokers and wait until all serve.

        Clients that bootstrap from ``proxy_port`` stay with it: the proxy there leads to the first
        broker's `BrokerPorts.proxied_port`. Settings of ``extra`` override all others of a broker.
        """
        nodes = [_node(node_id, proxy_port) for node_id in range(1, brokers + 1)]
        voters = ",".join(f"{node.node_id}@{HOST}:{node.controller_port}" for node in nodes)
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        folder.mkdir(parents=True, exist_ok=True)
        self.brokers = [
            Broker(
                node,
                _settings(node, voters) | dict(extra(node)),
                cluster_id,
                folder,
                cache,
                version,
            )
            for node in nodes
        ]
        try:
            for broker in self.brokers:
                broker.wait_ready()
        except ProcessError:
            self.kill()
            raise

    @property
    def bootstrap(self) -> str:
        """The clients' ``bootstrap.servers``."""
        return ",".join(broker.address for broker in self.brokers)

    def kill(self) -> None:
        """Kill all brokers at once."""
        for broker in self.brokers:
            broker.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()


def _node(node_id: int, proxy_port: int | None) -> NodePorts:
    proxied_port = free_port()
    return NodePorts(
        node_id=node_id,
        port=free_port(),
        controller_port=free_port(),
        proxied_port=proxied_port,
        advertised_port=proxy_port or proxied_port,
    )


def _settings(node: NodePorts, voters: str) -> dict[str, str]:
    plain = f"PLAINTEXT://{HOST}:{node.port}"
    replicas = str(min(3, voters.count("@")))
    return _SETTINGS | {
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "share.coordinator.state.topic.replication.factor": replicas,
        "node.id": str(node.node_id),
        "controller.quorum.voters": voters,
        "listeners": (
            f"{plain},PROXIED://{HOST}:{node.proxied_port},"
            f"CONTROLLER://{HOST}:{node.controller_port}"
        ),
        "advertised.listeners": f"{plain},PROXIED://{HOST}:{node.advertised_port}",
    }
