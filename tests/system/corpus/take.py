"""One recording: clients of one version that play one scene, each with a log of its own."""

import json
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agent.lab.clients import Clients
from agent.lab.lab import Lab
from agent.processes.driver import Driver
from agent.processes.errors import ProcessError
from agent.processes.ports import free_port
from tests.system.corpus import programs

_CONSUMER = {"auto.offset.reset": "earliest", "metadata.max.age.ms": "3000"}
_CLASSIC = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "1000"}
_CONNECT = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "offset.storage.replication.factor": "1",
    "config.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "1000",
    "scheduled.rebalance.max.delay.ms": "3000",
}
Settings = Mapping[str, str]


def settle(seconds: float = 2.0) -> None:
    """Let all clients come to rest, so that one step's lines do not mix with the next one's."""
    time.sleep(seconds)


@dataclass(slots=True, kw_only=True)
class Take:
    """The resources of a scene: a topic and a group of its own, and the common lab."""

    lab: Lab
    clients: Clients
    folder: Path
    version: str
    group: str
    started: list[Driver] = field(default_factory=list)

    @property
    def topic(self) -> str:
        return f"{self.group}-in"

    def admin(self, command: str) -> None:
        self.lab.admin.do(command)

    def consumer(self, client_id: str, settings: Settings | None = None) -> Driver:
        log = self._log(client_id)
        chosen = dict(settings or {})
        named = _CONSUMER | {
            "bootstrap.servers": self.lab.cluster.bootstrap,
            "group.id": self.group,
            "client.id": client_id,
            "driver.topics": self.topic,
        }
        classic = {} if "group.protocol" in chosen else _CLASSIC
        command = programs.consumer_command(self.version, log, self.lab.cache)
        return self._start(client_id, command, named | classic | chosen, log)

    def several(self, settings: Settings, *, has_threads: bool) -> Driver:
        """Start several consumers in one process; the settings name client id and group."""
        log = self._log("app")
        named = _CONSUMER | {
            "bootstrap.servers": self.lab.cluster.bootstrap,
            "group.id": self.group,
            "driver.topics": self.topic,
            "driver.members": str(log.with_suffix(".members")),
        }
        classic = {} if "group.protocol" in settings else _CLASSIC
        command = programs.several_command(
            self.version, log, self.lab.cache, has_threads=has_threads
        )
        return self._start("app", command, named | classic | dict(settings), log)

    def streams(
        self, client_id: str, settings: Settings | None = None, version: str = ""
    ) -> Driver:
        return self._keep(
            self.clients.streams(
                version or self.version, client_id, self.group, self.topic, settings
            )
        )

    def share(self, client_id: str, settings: Settings | None = None) -> Driver:
        log = self._log(client_id)
        named = {
            "bootstrap.servers": self.lab.cluster.bootstrap,
            "group.id": self.group,
            "client.id": client_id,
            "driver.topics": self.topic,
            "metadata.max.age.ms": "3000",
        }
        command = programs.share_command(self.version, log, self.lab.cache)
        return self._start(client_id, command, named | dict(settings or {}), log)

    def worker(self, client_id: str, settings: Settings | None = None) -> "Worker":
        """Start a Connect worker, and wait until it serves."""
        log, port = self._log(client_id), free_port()
        topics = {f"{name}.storage.topic": f"{self.group}-{name}" for name in _STORES}
        named = topics | {
            "bootstrap.servers": self.lab.cluster.bootstrap,
            "group.id": self.group,
            "client.id": client_id,
            "listeners": f"http://127.0.0.1:{port}",
        }
        command = programs.connect_command(self.version, log, self.lab.cache)
        driver = self._start(client_id, command, _CONNECT | named | dict(settings or {}), log)
        return Worker(driver, f"http://127.0.0.1:{port}")

    def franz(self, client_id: str, **settings: str) -> Driver:
        return self._go("franz", client_id, settings)

    def sarama(self, client_id: str, **settings: str) -> Driver:
        return self._go("sarama", client_id, settings)

    def python(self, library: str, client_id: str, **settings: str) -> Driver:
        packages = programs.python_packages(library, self.version, self.lab.cache)
        script = programs.HERE / "python_client.py"
        log = self._log(client_id)
        named = {
            "bootstrap_servers": self.lab.cluster.bootstrap,
            "group_id": self.group,
            "client_id": client_id,
            "topic": self.topic,
            "log": str(log),
        }
        command = ["env", f"PYTHONPATH={packages}", sys.executable, "-P", str(script), library]
        return self._start(client_id, command, named | settings, log)

    def _go(self, name: str, client_id: str, settings: Settings) -> Driver:
        log = self._log(client_id)
        named = {
            "bootstrap": self.lab.cluster.bootstrap,
            "group": self.group,
            "client": client_id,
            "topic": self.topic,
            "log": str(log),
        }
        program = programs.go_program(name, self.version, self.lab.cache)
        return self._start(client_id, [program], named | dict(settings), log)

    def _start(
        self, client_id: str, command: Sequence[str | Path], named: Settings, log: Path
    ) -> Driver:
        arguments = [f"{key}={value}" for key, value in named.items()]
        return self._keep(Driver(client_id, [*command, *arguments], log))

    def _keep(self, driver: Driver) -> Driver:
        self.started.append(driver)
        return driver

    def _log(self, client_id: str) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder / f"{client_id}.log"


_STORES = ("offset", "config", "status")


@dataclass(frozen=True, slots=True)
class Worker:
    """A Connect worker and its REST address."""

    driver: Driver
    url: str

    def wait_ready(self, timeout_s: float = 90.0) -> None:
        """Return when it responds: then it is a member of its group."""
        self._poll("/connectors", timeout_s)

    def create(self, name: str, topic: str, tasks: int) -> None:
        """Add a connector that reads an empty file: its configuration changes the assignment."""
        self._add("Source", {"name": name, "topic": topic, "tasks.max": str(tasks)})

    def create_sink(self, name: str, topic: str, tasks: int) -> None:
        """Add a connector that writes nowhere; each of its tasks is a consumer."""
        settings = {"consumer.override.metadata.max.age.ms": "3000"}
        self._add("Sink", settings | {"name": name, "topics": topic, "tasks.max": str(tasks)})

    def delete(self, name: str) -> None:
        self._ask("DELETE", f"/connectors/{name}")

    def _add(self, kind: str, config: Settings) -> None:
        connector = f"org.apache.kafka.connect.file.FileStream{kind}Connector"
        body = {"connector.class": connector, "file": "/dev/null"} | dict(config)
        self._ask("POST", "/connectors", {"name": config["name"], "config": body})

    def _ask(self, method: str, path: str, body: Mapping[str, object] | None = None) -> None:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        urllib.request.urlopen(request, timeout=90.0).close()

    def _poll(self, path: str, timeout_s: float) -> None:
        deadline_s = time.monotonic() + timeout_s
        while self.driver.is_running:
            try:
                urllib.request.urlopen(f"{self.url}{path}", timeout=5.0).close()
            except OSError:
                if time.monotonic() > deadline_s:
                    break
                time.sleep(0.2)
            else:
                return
        raise ProcessError(f"{self.driver.name} does not serve; see {self.driver.log}")
