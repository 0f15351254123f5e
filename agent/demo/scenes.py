"""A play for the mock cluster: real librdkafka consumers rebalance for ten reasons.

Each act is a generator: it yields what happens next, then makes it happen. The consumers act for
real; the cluster is told to answer first joins as real brokers do (KIP-394), and one as a broker
that still loads its groups.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from agent.demo.consumers import SESSION_TIMEOUT_MS, Consumers
from agent.demo.mock_cluster import (
    COORDINATOR_LOAD_IN_PROGRESS,
    MEMBER_ID_REQUIRED,
    MockCluster,
)
from agent.lab.errors import LabError

if TYPE_CHECKING:
    from agent.lab.process import Driver

_COOPERATIVE = {"partition.assignment.strategy": "cooperative-sticky"}
_STALL_MS = 5500
_FREEZE_S = SESSION_TIMEOUT_MS / 1000 + 2
_STEP_S = 0.02
_ANSWER_TIMEOUT_S = 20.0


class Play:
    """The cast and its acts. What still runs at the end is the caller's to end."""

    def __init__(self, cluster: MockCluster, consumers: Consumers) -> None:
        """Nothing happens before the first act."""
        self._cluster = cluster
        self._consumers = consumers
        self._cast: dict[str, Driver] = {}
        self._audits = 1

    def acts(self, until: Callable[[], bool]) -> Iterator[str]:
        """Play all; repeat the middle until told that it is enough.

        Raises:
            LabError: a consumer did not do as told.
        """
        yield from self._opening()
        while True:
            for act in (self._change, self._freeze, self._lag_behind, self._load):
                yield from act()
            if until():
                break
        yield from self._closing()

    def _opening(self) -> Iterator[str]:
        for topic in ("orders", "returns", "payments", "audit-1"):
            self._cluster.create_topic(topic, 4)
        yield "three groups start (2)"
        self._join("orders-1", "orders", ["orders"])
        self._join("payments-1", "payments", ["payments"], _COOPERATIVE)
        self._join("audit-1", "audit", ["^audit-.*"])
        yield "payments: another consumer joins; partitions move cooperatively (2, 1, 10)"
        self._join("payments-2", "payments", ["payments"], _COOPERATIVE)
        self._cast["payments-2"].wait_for("assigned payments-")  # what the first one gave away
        for number in (2, 3):
            yield f"orders: consumer {number} joins (2), the others rebalance (1)"
            self._join(f"orders-{number}", "orders", ["orders"])
            self._cast["orders-1"].wait_for("assigned")

    def _change(self) -> Iterator[str]:
        self._audits += 1
        yield "orders: a consumer subscribes to one more topic (8); audit: a topic appears (7)"
        self._cluster.create_topic(f"audit-{self._audits}", 4)
        orders = self._cast["orders-2"]
        orders.do("subscribe orders returns" if self._audits % 2 == 0 else "subscribe orders")
        orders.wait_for("assigned")
        self._cast["audit-1"].wait_for("assigned")

    def _freeze(self) -> Iterator[str]:
        yield "orders: a host freezes (3); payments: a consumer is stuck in one record (5)"
        frozen, stuck = self._cast["orders-1"], self._cast["payments-1"]
        stuck.send(f"stall {_STALL_MS}")
        frozen.pause()
        time.sleep(_FREEZE_S)
        frozen.resume()
        for consumer in (frozen, stuck):
            consumer.wait_for("lost")
            consumer.wait_for("assigned")

    def _lag_behind(self) -> Iterator[str]:
        yield "orders: a host hangs while another consumer leaves (6), and comes back late (4)"
        slow, witness, leaver = (self._cast[f"orders-{number}"] for number in (1, 2, 3))
        seen = _size(witness.log)
        slow.pause()
        leaver.do("unsubscribe")
        _wait_for_line(witness.log, b"JoinGroup response: GenerationId ", seen)
        slow.resume()
        slow.wait_for("lost")
        slow.wait_for("assigned")
        yield "orders: the consumer subscribes again (2)"
        self._cluster.answer_next_join(MEMBER_ID_REQUIRED)
        leaver.do("subscribe orders")
        leaver.wait_for("assigned")
        slow.wait_for("assigned")

    def _load(self) -> Iterator[str]:
        yield "returns: a consumer joins while the coordinator still loads its groups (9)"
        self._cluster.answer_next_join(COORDINATOR_LOAD_IN_PROGRESS)
        self._join("returns-1", "returns", ["returns"])
        self._cast.pop("returns-1").close()

    def _closing(self) -> Iterator[str]:
        yield "all consumers close (6)"
        for consumer in self._cast.values():
            consumer.close()

    def _join(
        self,
        client_id: str,
        group: str,
        topics: list[str],
        settings: dict[str, str] | None = None,
    ) -> None:
        self._cluster.answer_next_join(MEMBER_ID_REQUIRED)
        consumer = self._consumers.start(client_id, group, topics, settings)
        consumer.wait_for("assigned")
        self._cast[client_id] = consumer


def _size(log: Path) -> int:
    return log.stat().st_size


def _wait_for_line(log: Path, text: bytes, offset: int) -> None:
    """Wait until a log says ``text`` behind ``offset``."""
    deadline_s = time.monotonic() + _ANSWER_TIMEOUT_S
    while text not in log.read_bytes()[offset:]:
        if time.monotonic() > deadline_s:
            raise LabError(f"{log}: no {text.decode()!r} in {_ANSWER_TIMEOUT_S:g} s")
        time.sleep(_STEP_S)
