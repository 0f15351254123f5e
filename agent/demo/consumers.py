"""Starts librdkafka consumers against one cluster."""

from collections.abc import Mapping, Sequence

from agent.processes.driver import Driver, Drivers
from kafka_rebalance_agent.child import CHILD

_SETTINGS = {
    # of every member: the mock cluster holds a join open for one second less
    "session.timeout.ms": "3000",
    "heartbeat.interval.ms": "300",
    "max.poll.interval.ms": "4000",
    "topic.metadata.refresh.interval.ms": "1000",
    "auto.offset.reset": "earliest",
    "debug": "cgrp",  # the play reads members' states from it; the agent reads the wire
}


class Consumers(Drivers):
    """Starts consumers and, as a context manager, ends those that still run."""

    def start(
        self,
        client_id: str,
        group: str,
        topics: Sequence[str],
        settings: Mapping[str, str] | None = None,
    ) -> Driver:
        """Start a consumer; it joins by itself. ``settings`` override all others."""
        named = {"group.id": group, "client.id": client_id, "driver.topics": " ".join(topics)}
        log = str(self._log(client_id))
        command = [*CHILD, "agent.demo.consumer", log]
        return self._start(client_id, command, _SETTINGS, named, settings)
