"""A real Connect worker, distributed; it needs no connector to be a member of its group."""

import json
import time
import urllib.request
from pathlib import Path
from typing import Any

from agent.lab.artifacts import BROKER_VERSION, Artifact, fetch
from agent.processes.child import Child
from tests.system.kafka_tools import command, write_properties

_MAIN = "org.apache.kafka.connect.cli.ConnectDistributed"
_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
_FILES = (Artifact("org.apache.kafka", "connect-file", BROKER_VERSION),)
_WITHIN_S = 60.0
_STORES = ("config", "offset", "status")


def connect_worker(
    client_id: str, group: str, bootstrap: str, folder: Path, cache: Path, *, rest_port: int = 0
) -> Child:
    """Start a worker; its group keeps its state in topics of its own."""
    properties = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "client.id": client_id,
        "key.converter": _CONVERTER,
        "value.converter": _CONVERTER,
        "listeners": f"http://127.0.0.1:{rest_port}",
        "plugin.discovery": "service_load",
        "plugin.path": ",".join(map(str, fetch(_FILES, cache))),
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "1000",
    }
    for store in _STORES:
        properties[f"{store}.storage.topic"] = f"{group}-{store}"
        properties[f"{store}.storage.replication.factor"] = "1"
    config = write_properties(folder / f"{client_id}.properties", properties)
    log = folder / f"{client_id}.log"
    return Child(client_id, [*command(_MAIN, log, cache), config], folder / f"{client_id}.out")


def has_stopped(worker: Child) -> bool:
    """Tell whether a worker has stopped by itself, and left its group.

    4.3.0's may not: Connect and its Jetty each stop the REST server at SIGTERM, side by side, and
    can wait for each other for ever. Then it is killed, and its group waits for its session to end.
    """
    return "Kafka Connect stopped" in worker.log.with_suffix(".log").read_text(errors="replace")


def run_connector(rest_port: int, name: str, tasks: int) -> None:
    """Create a connector with tasks that write a topic to /dev/null; wait for the tasks."""
    url = f"http://127.0.0.1:{rest_port}/connectors/{name}"
    config = {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
        "tasks.max": str(tasks),
        "topics": name,
        "file": "/dev/null",
    }
    _ask(f"{url}/config", json.dumps(config).encode())
    deadline_s = time.monotonic() + _WITHIN_S
    while True:
        states = [task["state"] for task in _ask(f"{url}/status")["tasks"]]
        if states == ["RUNNING"] * tasks:
            return
        assert time.monotonic() < deadline_s, states
        time.sleep(0.1)


def _ask(url: str, data: bytes | None = None) -> Any:
    """Return the answer; a worker that starts or rebalances has none yet (404, 409, 500)."""
    deadline_s = time.monotonic() + _WITHIN_S
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, data, headers, method="PUT" if data else "GET")
    while True:
        try:
            with urllib.request.urlopen(request, timeout=_WITHIN_S) as answer:
                return json.load(answer)
        except OSError as error:
            if time.monotonic() > deadline_s:
                raise AssertionError(url) from error
        time.sleep(0.1)
