"""A play for the mock cluster: real librdkafka consumers rebalance for all kinds of reasons.

Each act is a generator: it yields the caption of the next event, then makes it happen. The
consumers are real; the cluster fails first joins as real brokers do (KIP-394), one join as a broker
that still loads its groups, and one heartbeat as a broker that has lost the member.
"""

import time
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

from agent.demo.consumers import Consumers
from agent.demo.mock_cluster import (
    COORDINATOR_LOAD_IN_PROGRESS,
    HEARTBEAT,
    JOIN_GROUP,
    MEMBER_ID_REQUIRED,
    UNKNOWN_MEMBER_ID,
    MockCluster,
)

if TYPE_CHECKING:
    from agent.processes.driver import Driver

_COOPERATIVE = {"partition.assignment.strategy": "cooperative-sticky"}
_STALL_MS = 5500
"""Longer than the poll interval, and than the session of the member that is frozen meanwhile."""
_STEP_S = 0.05
_QUIET_S = 0.8
"""Longer than librdkafka takes to learn from a heartbeat that its group rebalances."""
_WAIT_TIMEOUT_S = 15.0
"""The mock cluster sometimes makes a member wait for its session; then the play continues."""
_TAIL_BYTES = 1 << 16
_STATE = b" changed join state "


class Play:
    """The clients and the acts. The caller ends the clients that still run at the end."""

    def __init__(self, cluster: MockCluster, consumers: Consumers) -> None:
        """Start nothing before the first act."""
        self._cluster = cluster
        self._consumers = consumers
        self._cast: dict[str, Driver] = {}
        self._pass = 1

    def acts(self, until: Callable[[], bool], *, closes: bool = True) -> Iterator[str]:
        """Play all acts; then repeat the middle until ``until`` returns True.

        Without ``closes`` the consumers still run after the last act.

        Raises:
            ProcessError: a consumer did not execute a command.
        """
        yield from self._opening()
        middle = (self._change, self._freeze, self._forget, self._lag_behind, self._load)
        for played, act in enumerate(cycle(middle)):
            if played >= len(middle) and until():
                break
            yield from act()
            self._settle()
        if closes:
            yield from self._closing()

    def _opening(self) -> Iterator[str]:
        for topic in ("orders", "returns", "payments", "audit-1"):
            self._cluster.create_topic(topic, 4)
        yield "three groups start"
        self._join("orders-1", "orders", ["orders"])
        self._join("payments-1", "payments", ["payments"], _COOPERATIVE)
        self._join("audit-1", "audit", ["^audit-.*"])
        yield "payments: another consumer joins; partitions move cooperatively"
        self._join("payments-2", "payments", ["payments"], _COOPERATIVE)
        for number in (2, 3):
            self._settle()
            yield f"orders: consumer {number} joins, the others rebalance"
            self._join(f"orders-{number}", "orders", ["orders"])
        self._settle()

    def _change(self) -> Iterator[str]:
        self._pass += 1
        yield "orders: a consumer subscribes to one more topic; audit: a topic appears"
        for topic in ("audit", "extra"):
            self._cluster.create_topic(f"{topic}-{self._pass}", 4)
        self._cast["orders-2"].do(f"subscribe orders extra-{self._pass}")

    def _freeze(self) -> Iterator[str]:
        yield "orders: a host freezes; payments: a consumer is stuck in one record"
        stuck, frozen = self._cast["payments-1"], self._cast["orders-1"]
        stuck.send(f"stall {_STALL_MS}")
        frozen.pause()
        stuck.wait_for("assigned")
        self._cluster.fail_next(JOIN_GROUP, MEMBER_ID_REQUIRED)
        frozen.resume()
        frozen.wait_for("assigned")

    def _forget(self) -> Iterator[str]:
        yield "the coordinator has lost a member, which learns it from its next heartbeat"
        self._cluster.fail_next(HEARTBEAT, UNKNOWN_MEMBER_ID)
        _wait(lambda: not all(_is_steady(driver.log) for driver in self._cast.values()))

    def _lag_behind(self) -> Iterator[str]:
        yield "orders: a host hangs while another consumer leaves, and comes back late"
        slow, witness, leaver = (self._cast[f"orders-{number}"] for number in (1, 2, 3))
        seen = witness.log.stat().st_size
        slow.pause()
        leaver.do("unsubscribe")
        _wait(lambda: b"JoinGroup response: GenerationId " in _tail(witness.log, seen))
        slow.resume()
        self._settle(without=leaver)
        yield "orders: the consumer subscribes again"
        self._cluster.fail_next(JOIN_GROUP, MEMBER_ID_REQUIRED)
        leaver.do("subscribe orders")
        leaver.wait_for("assigned")

    def _load(self) -> Iterator[str]:
        yield "returns: a consumer joins while the coordinator still loads its groups"
        self._cluster.fail_next(JOIN_GROUP, COORDINATOR_LOAD_IN_PROGRESS)
        self._join("returns-1", "returns", ["returns"])
        self._cast.pop("returns-1").close()

    def _closing(self) -> Iterator[str]:
        yield "all consumers close"
        for consumer in self._cast.values():
            consumer.close()

    def _join(
        self,
        client_id: str,
        group: str,
        topics: list[str],
        settings: dict[str, str] | None = None,
    ) -> None:
        self._cluster.fail_next(JOIN_GROUP, MEMBER_ID_REQUIRED)
        consumer = self._consumers.start(client_id, group, topics, settings)
        consumer.wait_for("assigned")
        self._cast[client_id] = consumer

    def _settle(self, without: "Driver | None" = None) -> None:
        """Wait until no member rebalances, so that the next fault meets its intended member."""
        logs = [driver.log for driver in self._cast.values() if driver is not without]
        quiet_s = time.monotonic()

        def is_quiet() -> bool:
            nonlocal quiet_s
            if not all(_is_steady(log) for log in logs):
                quiet_s = time.monotonic()
            return time.monotonic() > quiet_s + _QUIET_S

        _wait(is_quiet)


def _is_steady(log: Path) -> bool:
    state = _tail(log).rpartition(_STATE)[2].partition(b"\n")[0]
    return b"-> steady" in state


def _tail(log: Path, offset: int | None = None) -> bytes:
    """Return a log's text after ``offset``, or its last lines."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL_BYTES) if offset is None else offset)
        return file.read()


def _wait(condition: Callable[[], bool]) -> None:
    """Wait for a condition, within the timeout."""
    deadline_s = time.monotonic() + _WAIT_TIMEOUT_S
    while not condition() and time.monotonic() < deadline_s:
        time.sleep(_STEP_S)
