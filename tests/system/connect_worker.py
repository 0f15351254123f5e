"""A real Connect worker, distributed; it needs no connector to be a member of its group."""

from pathlib import Path

from agent.lab.child import Child
from tests.system.kafka_tools import command, write_properties

_MAIN = "org.apache.kafka.connect.cli.ConnectDistributed"
_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
_STORES = ("config", "offset", "status")


def connect_worker(client_id: str, group: str, bootstrap: str, folder: Path, cache: Path) -> Child:
    """Start a worker; its group keeps its state in topics of its own."""
    properties = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "client.id": client_id,
        "key.converter": _CONVERTER,
        "value.converter": _CONVERTER,
        "listeners": "http://127.0.0.1:0",
        "plugin.discovery": "service_load",
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "1000",
    }
    for store in _STORES:
        properties[f"{store}.storage.topic"] = f"{group}-{store}"
        properties[f"{store}.storage.replication.factor"] = "1"
    config = write_properties(folder / f"{client_id}.properties", properties)
    log = folder / f"{client_id}.log"
    return Child(client_id, [*command(_MAIN, log, cache), config], folder / f"{client_id}.out")
