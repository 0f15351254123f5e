"""Starts librdkafka consumers against one cluster and, as a context manager, ends all of them."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from agent.lab.process import Driver

_SETTINGS = {
    # of every member: the mock cluster holds a join open for one second less
    "session.timeout.ms": "3000",
    "heartbeat.interval.ms": "300",
    "max.poll.interval.ms": "4000",
    "topic.metadata.refresh.interval.ms": "1000",
    "auto.offset.reset": "earliest",
    "debug": "cgrp",  # tells the play who is settled; the agent reads the wire
}


class Consumers:
    """Each consumer's log is ``FOLDER/CLIENT_ID.log``; one that starts again appends to its own."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        """Start nothing yet."""
        self._bootstrap = bootstrap
        self._folder = folder
        self._started: list[Driver] = []

    def start(
        self,
        client_id: str,
        group: str,
        topics: Sequence[str],
        settings: Mapping[str, str] | None = None,
    ) -> Driver:
        """Start a consumer; it joins by itself. ``settings`` override all others."""
        log = self._folder / f"{client_id}.log"
        named = {"group.id": group, "client.id": client_id, "driver.topics": " ".join(topics)}
        given = {"bootstrap.servers": self._bootstrap} | _SETTINGS | named | dict(settings or {})
        arguments = [f"{key}={value}" for key, value in given.items()]
        command = [sys.executable, "-P", "-m", "agent.demo.consumer", str(log), *arguments]
        driver = Driver(client_id, command, log)
        self._started.append(driver)
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
