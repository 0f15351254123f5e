"""Real Java consumers and Streams applications of any version, against one cluster.

The drivers are in ``java/``; their commands:

consumer
    ``close``, ``unsubscribe``, ``subscribe A B``, ``enforce TEXT``, ``stall MS`` (stops polling).
    It reports ``assigned``, ``revoked`` and ``lost``, with the partitions.
streams
    ``close``, ``add-thread``, ``remove-thread``. It reports ``state RUNNING`` and so on.
admin
    ``create-topic NAME PARTITIONS``, ``delete-topic NAME``, ``set-partitions NAME COUNT``,
    ``produce NAME COUNT``, ``await NAME COUNT`` (until a topic holds so many records),
    ``remove-members GROUP``, ``close``.
"""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from agent.lab.artifacts import BROKER_VERSION, clients, fetch
from agent.lab.drivers import RESOURCES, java_command
from agent.processes.driver import Driver, Drivers

_CONSUMER = {"auto.offset.reset": "earliest", "metadata.max.age.ms": "3000"}
_CLASSIC = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "1000"}
"""A consumer with a ``group.protocol`` of its own gets them from the broker."""
_STREAMS = {
    "replication.factor": "1",
    "commit.interval.ms": "500",
    "num.stream.threads": "1",
    "metadata.max.age.ms": "3000",
    "consumer.session.timeout.ms": "6000",
    "consumer.heartbeat.interval.ms": "1000",
    "consumer.auto.offset.reset": "earliest",
}
_SCRATCH = "scratch"


class Clients(Drivers):
    """Starts Java clients of one cluster and, as a context manager, ends those that still run."""

    def __init__(self, bootstrap: str, folder: Path, cache: Path, level: str = "INFO") -> None:
        """Start nothing yet. ``level`` is that of Kafka's loggers."""
        super().__init__(bootstrap, folder)
        self._cache = cache
        self._level = level

    def consumer(
        self,
        version: str,
        client_id: str,
        group: str,
        topics: Sequence[str],
        properties: Mapping[str, str] | None = None,
    ) -> Driver:
        """Start a consumer; it joins by itself. The properties override all others."""
        named = {"group.id": group, "client.id": client_id, "driver.topics": " ".join(topics)}
        command = self._java("ConsumerDriver", version, client_id)
        classic = {} if "group.protocol" in (properties or {}) else _CLASSIC
        return self._start(client_id, command, _CONSUMER | classic, named, properties)

    def streams(
        self,
        version: str,
        client_id: str,
        application_id: str,
        topic: str,
        properties: Mapping[str, str] | None = None,
    ) -> Driver:
        """Start an instance of a Streams application that counts a topic's keys in a store.

        The store's changelog is the topic ``APPLICATION_ID-counts-changelog``.

        """
        state = self._folder / "state" / client_id
        named = {
            "application.id": application_id,
            "client.id": client_id,
            "driver.topics": topic,
            "state.dir": str(state),
        }
        command = self._java("StreamsDriver", version, client_id)
        return self._start(client_id, command, _STREAMS, named, properties)

    def admin(self) -> Driver:
        """Start an admin client, ready for commands."""
        driver = self._start("admin", self._java("AdminDriver", BROKER_VERSION, "admin"))
        driver.wait_for("started")
        return driver

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        shutil.rmtree(self._folder / _SCRATCH, ignore_errors=True)

    def _java(self, main: str, version: str, client_id: str) -> list[str | Path]:
        flags = [
            "-Xmx192m",
            f"-Dlog4j.configuration={(RESOURCES / 'log4j.properties').as_uri()}",
            f"-Ddriver.log={self._log(client_id)}",
            f"-Ddriver.level={self._level}",
            self._scratch_flag(client_id),
        ]
        return java_command(main, fetch(clients(version), self._cache), self._cache, flags)

    def _scratch_flag(self, client_id: str) -> str:
        """Return the flag for an empty temporary folder: a killed JVM leaves its libraries there.

        RocksDB's alone has 12 MB.
        """
        scratch = self._folder / _SCRATCH / client_id
        shutil.rmtree(scratch, ignore_errors=True)  # of the client's last process
        scratch.mkdir(parents=True)
        return f"-Djava.io.tmpdir={scratch}"
