"""A real Connect worker, distributed; it needs no connector to be a member of its group."""

import json
import urllib.request
from pathlib import Path

from agent.lab.artifacts import BROKER_VERSION, Artifact, fetch
from agent.lab.child import Child
from tests.system.kafka_tools import command, write_properties

_MAIN = "org.apache.kafka.connect.cli.ConnectDistributed"
_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
_FILES = (Artifact("org.apache.kafka", "connect-file", BROKER_VERSION),)
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


def run_connector(rest_port: int, name: str, tasks: int) -> None:
    """Have a group run a connector whose tasks write to nowhere what a topic has."""
    config = {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
        "tasks.max": str(tasks),
        "topics": name,
        "file": "/dev/null",
    }
    request = urllib.request.Request(
        f"http://127.0.0.1:{rest_port}/connectors/{name}/config",
        data=json.dumps(config).encode(),
        headers={"Content-Type": "application/json"},
        method="PUT",
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.status == 201


def running_tasks(rest_port: int, name: str) -> int:
    with urllib.request.urlopen(
        f"http://127.0.0.1:{rest_port}/connectors/{name}/status", timeout=60
    ) as answer:
        return sum(task["state"] == "RUNNING" for task in json.load(answer)["tasks"])
