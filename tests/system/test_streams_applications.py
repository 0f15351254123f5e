"""Whole Streams applications: instances, threads and standbys, alike from logs and on the wire."""

from collections.abc import Callable
from functools import partial

import pytest

from agent.processes.driver import Driver
from tests.net_raw import needs_net_raw
from tests.system.observer import CONSUMER, STREAMS, Observer
from tests.system.stage import Stage

pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.timeout(900), needs_net_raw]

Run = Callable[..., Driver]


@pytest.fixture
def run(stage: Stage) -> Run:
    """Start an instance and wait until it runs."""

    def start(version: str, client_id: str, **settings: str) -> Driver:
        properties = {key.replace("_", "."): value for key, value in settings.items()}
        client = stage.clients.streams(version, client_id, stage.group, stage.topic, properties)
        client.wait_for("state RUNNING", 60.0)
        return client

    return start


def _assert_seen(stage: Stage, wire: Observer, client_id: str, codes: list[int]) -> None:
    """Both agents saw the instance go through these codes, in this order, and come to rest."""
    for agent in (stage.agent, wire):
        seen = _wait(agent, client_id, STREAMS, partial(_holds, codes))
        assert _holds(codes, seen), seen


def _assert_alike(stage: Stage, wire: Observer, *threads: str) -> None:
    """Each thread's consumer has the same story in its log and on the wire, once it has settled."""
    for thread in threads:
        logged, seen = stage.agent.poll(
            partial(_got, stage, wire, f"{thread}-consumer"),
            lambda got: got[0][-1:] == got[1][-1:] == [0] and _may_have_read(*got),
        )
        assert logged[-1:] == seen[-1:] == [0]
        assert _may_have_read(logged, seen), (logged, seen)


def _got(stage: Stage, wire: Observer, client_id: str) -> tuple[list[int], list[int]]:
    return stage.agent._codes(client_id, CONSUMER), wire._codes(client_id, CONSUMER)


def _may_have_read(logged: list[int], seen: list[int]) -> bool:
    """Return whether log and wire agree: a thread that enforces a rebalance (6) may not read a 1.

    The order differs by milliseconds. The log shows the order of reading, and the wire cannot.
    """
    at = 0
    for code, then in zip(seen, [*seen[1:], 0], strict=True):
        if logged[at : at + 1] == [code]:
            at += 1
        elif (code, then) != (1, 6):
            return False
    return at == len(logged)


def _holds(codes: list[int], seen: list[int]) -> bool:
    """Tell whether some codes stand in others in this order; a busy machine may add rounds."""
    rest = iter(seen)
    return seen[-1:] == [0] and all(code in rest for code in codes)


def _assert_waited(stage: Stage, wire: Observer, client_id: str, times: int) -> None:
    """It joined so often and waited for its tasks (10), or its sync was refused: one round did."""
    _assert_seen(stage, wire, client_id, [2, 0] * times)
    for agent in (stage.agent, wire):
        refused = [
            row
            for row in agent._rows()
            if (row["kind"], row["scope"]) == ("signal", CONSUMER)
            and row["client_id"].startswith(f"{client_id}-")
            and (row["reason"] or "").startswith("SyncGroup ")
        ]
        assert agent._codes(client_id, STREAMS).count(10) + len(refused) == times


def _wait(
    agent: Observer, client_id: str, scope: str, enough: Callable[[list[int]], bool]
) -> list[int]:
    return agent.poll(lambda: agent._codes(client_id, scope), enough)


def _assert_application(stage: Stage, wire: Observer, status: float, peak: float) -> None:
    """The application is the max of its instances."""
    for agent in (stage.agent, wire):
        name = "kafka_app_rebalance_status"
        assert agent.gauge(name, status, app=stage.group) == status
        assert agent.gauge(f"{name}_peak", peak, app=stage.group) == peak


def test_threads_of_two_instances_come_and_go(stage: Stage, wire: Observer, run: Run) -> None:
    run("3.9.1", "s1", num_stream_threads="2")
    second = run("3.9.1", "s2", num_stream_threads="2")
    _assert_seen(stage, wire, "s1", [2, 0, 1, 10, 0])

    second.do("add-thread")
    _assert_seen(stage, wire, "s2", [2, 0, 2, 0])
    second.do("remove-thread")

    _assert_seen(stage, wire, "s2", [2, 0, 2, 0, 6, 0])
    threads = [f"s1-StreamThread-{n}" for n in (1, 2)] + [f"s2-StreamThread-{n}" for n in (1, 2, 3)]
    _assert_alike(stage, wire, *threads)
    _assert_application(stage, wire, 6.0, 10.0)  # the thread's leave lingers


def test_standbys_move_when_instances_come_and_go(stage: Stage, wire: Observer, run: Run) -> None:
    run("3.9.1", "s1", num_standby_replicas="1")
    second = run("3.9.1", "s2", num_standby_replicas="1")
    _assert_seen(stage, wire, "s1", [2, 0, 1, 10, 0])
    _assert_waited(stage, wire, "s2", 1)

    second.kill()
    _assert_seen(stage, wire, "s1", [2, 0, 1, 10, 0, 1, 0])
    run("3.9.1", "s2", num_standby_replicas="1")

    _assert_seen(stage, wire, "s1", [2, 0, 1, 10, 0, 1, 0, 1, 10, 0])
    _assert_waited(stage, wire, "s2", 2)
    _assert_alike(stage, wire, "s1-StreamThread-1", "s2-StreamThread-1")
    _assert_application(stage, wire, 0.0, 10.0)


def test_the_streams_protocol_tells_the_same_codes(stage: Stage, wire: Observer, run: Run) -> None:
    """KIP-1071: also if only the group's readiness changed; the log calls that reconciling."""
    run("4.3.0", "s1", group_protocol="streams")
    second = run("4.3.0", "s2", group_protocol="streams")
    _assert_seen(stage, wire, "s1", [2, 0, 1, 0, 1, 10, 0])
    _assert_seen(stage, wire, "s2", [2, 0, 1, 0])

    second.close()

    _assert_seen(stage, wire, "s1", [2, 0, 1, 0, 1, 10, 0, 1, 0])
    _assert_seen(stage, wire, "s2", [2, 0, 1, 0, 6, 0])
    _assert_alike(stage, wire, "s1-StreamThread-1", "s2-StreamThread-1")
    _assert_application(stage, wire, 6.0, 10.0)  # the instance's leave lingers
