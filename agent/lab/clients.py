"""Real Java consumers and Streams applications of any version, against one cluster.

The drivers are in ``java/``; what each understands:

consumer
    ``close``, ``unsubscribe``, ``subscribe A B``, ``enforce TEXT``, ``stall MS`` (stops polling).
    It tells ``assigned``, ``revoked`` and ``lost``, with the partitions.
streams
    ``close``, ``add-thread``, ``remove-thread``. It tells ``state RUNNING`` and so on.
admin
    ``create-topic NAME PARTITIONS``, ``set-partitions NAME COUNT``, ``produce NAME COUNT``,
    ``await NAME COUNT`` (until a topic holds so many records), ``remove-members GROUP``,
    ``close``.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from agent.lab.artifacts import BROKER_VERSION, clients, fetch
from agent.lab.drivers import RESOURCES, java_command
from agent.lab.process import Driver

_CONSUMER = {
    "auto.offset.reset": "earliest",
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "1000",
    "metadata.max.age.ms": "3000",
}
_STREAMS = {
    "replication.factor": "1",
    "commit.interval.ms": "500",
    "num.stream.threads": "1",
    "metadata.max.age.ms": "3000",
    "consumer.session.timeout.ms": "6000",
    "consumer.heartbeat.interval.ms": "1000",
    "consumer.auto.offset.reset": "earliest",
}


class Clients:
    """Starts clients of one cluster and, as a context manager, ends whatever still runs.

    Logs are ``FOLDER/CLIENT_ID.log``; a client that is started again appends to its own.
    """

    def __init__(self, bootstrap: str, folder: Path, cache: Path) -> None:
        """Start nothing yet."""
        self._bootstrap = bootstrap
        self._folder = folder
        self._cache = cache
        self._started: list[Driver] = []

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
        return self._start("ConsumerDriver", version, client_id, _CONSUMER | named, properties)

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
        return self._start("StreamsDriver", version, client_id, _STREAMS | named, properties)

    def admin(self) -> Driver:
        """Start an operator, ready for commands."""
        driver = self._start("AdminDriver", BROKER_VERSION, "admin", {}, None)
        driver.wait_for("started")
        return driver

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for driver in self._started:
            driver.kill()

    def _start(
        self,
        main: str,
        version: str,
        client_id: str,
        named: Mapping[str, str],
        properties: Mapping[str, str] | None,
    ) -> Driver:
        self._folder.mkdir(parents=True, exist_ok=True)
        log = self._folder / f"{client_id}.log"
        flags = [
            "-Xmx192m",
            f"-Dlog4j.configuration={(RESOURCES / 'log4j.properties').as_uri()}",
            f"-Ddriver.log={log}",
        ]
        jars = fetch(clients(version), self._cache)
        settings = {"bootstrap.servers": self._bootstrap} | dict(named) | dict(properties or {})
        arguments = [f"{key}={value}" for key, value in settings.items()]
        command = java_command(main, jars, self._cache, flags)
        driver = Driver(client_id, [*command, *arguments], log)
        self._started.append(driver)
        return driver
