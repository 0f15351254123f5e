"""The ports of brokers, on this machine's loopback."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from socket import socket

import pytest

from agent.processes.ports import HOST, free_port
from agent.sources.proxy.broker_ports import GONE_S, BrokerPorts
from agent.wire.codec.messages import HostPort


@dataclass
class Bench:
    """Some free ports, and the broker behind each."""

    offered: list[int]
    now: float = 1_000.0
    counts: Counter[str] = field(default_factory=Counter)
    behind: dict[int, Callable[[], list[HostPort]]] = field(default_factory=dict)
    stack: ExitStack = field(default_factory=ExitStack)

    def ports(self, known: dict[str, int] | None = None) -> BrokerPorts:
        def clock() -> float:
            return self.now

        return BrokerPorts(HOST, self.offered, known or {}, self.counts, self._serve, clock=clock)

    def _serve(self, listener: socket, brokers: Callable[[], list[HostPort]]) -> None:
        self.stack.enter_context(listener)
        self.behind[listener.getsockname()[1]] = brokers


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench([free_port(), free_port()])
    with bench.stack:
        yield bench


def _names(number: int) -> HostPort:
    return HostPort(f"b{number}", 9092)


def test_a_broker_that_nobody_names_any_more_gives_its_port_to_a_new_one(bench: Bench) -> None:
    ports = bench.ports()
    first, second = ports.get_or_assign(_names(1)), ports.get_or_assign(_names(2))
    bench.now += GONE_S / 2
    assert ports.get_or_assign(_names(2)) == second
    bench.now += GONE_S / 2

    assert ports.get_or_assign(_names(3)) == first
    assert first is not None
    assert bench.behind[first]() == [_names(3)]
    assert ports.as_dict() == {"b2:9092": second, "b3:9092": first}
    assert not bench.counts


def test_a_broker_that_may_come_back_keeps_it(bench: Bench) -> None:
    ports = bench.ports()
    given = [ports.get_or_assign(_names(1)), ports.get_or_assign(_names(2))]
    bench.now += GONE_S - 1

    assert ports.get_or_assign(_names(3)) is None
    assert bench.counts == {"ports_exhausted": 1}
    assert [ports.get_or_assign(_names(1)), ports.get_or_assign(_names(2))] == given


def test_while_there_are_ports_nobody_loses_one(bench: Bench) -> None:
    ports = bench.ports()
    first = ports.get_or_assign(_names(1))
    bench.now += 2 * GONE_S

    assert ports.get_or_assign(_names(2)) == bench.offered[1]
    assert ports.get_or_assign(_names(1)) == first


def test_what_was_known_before_counts_as_named_just_now(bench: Bench) -> None:
    ports = bench.ports({"b1:9092": bench.offered[0], "b2:9092": bench.offered[1]})
    bench.now += GONE_S - 1
    assert ports.get_or_assign(_names(3)) is None
    bench.now += 1

    assert ports.get_or_assign(_names(3)) in bench.offered


def test_a_port_that_is_not_offered_any_more_is_not_handed_on(bench: Bench) -> None:
    ports = bench.ports()
    ports.get_or_assign(_names(1))
    ports.offered = bench.offered[1:]
    ports.get_or_assign(_names(2))
    bench.now += GONE_S

    assert ports.get_or_assign(_names(3)) == bench.offered[1]
