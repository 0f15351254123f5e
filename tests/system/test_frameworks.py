"""Programs of real frameworks with default logging: their logs give the same codes as the wire."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agent.lab.lab import Lab
from tests.net_raw import needs_net_raw
from tests.system.connect_worker import run_connector
from tests.system.frameworks import pages, program
from tests.system.frameworks.episodes import Episodes
from tests.system.frameworks.program import Program
from tests.system.frameworks.side_by_side import Run, replay_hints, side_by_side
from tests.system.observer import Observer

pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.timeout(1800), needs_net_raw]

Act = Callable[[Run], None]
_SEEN = [[2, 0], [6, 0]]
"""A member that joins and leaves."""
_BLOCKED_S = 12.0
"""Longer than a session and a poll interval, which are 6 s."""


def _come_and_go(run: Run) -> None:
    """Have two members join, and one leave."""
    run.fleet.start("payments-1")
    run.fleet.wait_members(1)
    run.assert_equal()
    run.fleet.start("payments-2")
    run.fleet.wait_members(2)
    run.assert_equal(1)
    run.fleet.stop("payments-2")
    run.fleet.wait_members(1)
    run.assert_equal(1, 6)


def _come_back_and_die(run: Run) -> None:
    """Have the second member join again, and vanish until its session ends."""
    run.fleet.start("payments-2")
    run.fleet.wait_members(2)
    run.assert_equal(1, 6)
    run.fleet.kill("payments-2")
    run.fleet.wait_members(1)
    run.assert_equal(1, 6)


def _stay_alone_and_block(run: Run, code: int) -> None:
    """Have the first member process a record for too long, and leave after it."""
    run.fleet.block("payments-1", _BLOCKED_S)
    run.fleet.wait_members(0)
    run.fleet.wait_members(1)
    run.assert_equal(1, 6, code)
    run.fleet.stop("payments-1")
    run.fleet.wait_members(0)
    run.assert_equal(1, 6, code)


def _stay_alone_and_block_for_5(run: Run) -> None:
    _stay_alone_and_block(run, 5)


def _stay_alone_and_freeze(run: Run) -> None:
    """Freeze the first member until its session ends, and close it after it is back.

    Its heartbeats and polls do not depend on the processing of records.
    """
    run.fleet.pause("payments-1")
    run.fleet.wait_members(0)
    run.fleet.resume("payments-1")
    run.fleet.wait_members(1)
    run.assert_equal(1, 6, 3)
    run.fleet.stop("payments-1")
    run.fleet.wait_members(0)
    run.assert_equal(1, 6, 3)


def _block_until_dropped(run: Run) -> None:
    run.fleet.block("payments-1", _BLOCKED_S)
    run.fleet.wait_members(0)
    run.fleet.wait_members(1)


def _stay_alone_and_be_dropped(run: Run) -> None:
    """Have the first member dropped; the wire cannot tell that from a leave (6) and a join (2).

    Its LeaveGroup has no reason, so the log shows more than the wire here.
    """
    _block_until_dropped(run)
    shown, logged = run.logs.poll(
        lambda: (_codes(run, run.wire), _codes(run, run.logs)),
        lambda seen: seen[0][-4:] == [6, 0, 2, 0] and seen[0][:-4] == seen[1][:-2],
    )
    assert shown[-4:] == [6, 0, 2, 0]
    assert logged == [*shown[:-4], 5, 0]


def _codes(run: Run, agent: Observer) -> list[int]:
    return agent.codes_of_group(run.group).get("payments-1", [])


def _leads(found: Episodes, wanted: list[int]) -> bool:
    return any(wanted in seen for seen in found.values())


def _rest_port(log: Path) -> int:
    """Return the port of a Connect worker's REST server, from its log."""
    (port,) = set(
        re.findall(r"REST server listening at http://127\.0\.0\.1:(\d+)/", log.read_text())
    )
    return int(port)


def _assert_clients(run: Run, *names: str) -> None:
    """The log's agent has each client by its name."""
    rows = run.logs.transitions_of_group(run.group)
    assert {row["client_id"] for row in rows} == set(names)


def _assert_members(run: Run, *hosts: str) -> None:
    """The log's agent shows each process as a member of its own."""
    assert {row["host"] for row in run.logs.transitions_of_group(run.group)} == set(hosts)


def test_kafkajs_joins_and_leaves(lab: Lab, tmp_path: Path) -> None:
    with side_by_side(program.KAFKAJS, lab, tmp_path) as run:
        _come_and_go(run)


@pytest.mark.field
def test_kafkajs(lab: Lab, tmp_path: Path) -> None:
    with side_by_side(program.KAFKAJS, lab, tmp_path) as run:
        _come_and_go(run)
        _come_back_and_die(run)
        _stay_alone_and_block(run, 3)  # it has no poll interval


@pytest.mark.field
def test_nestjs(lab: Lab, tmp_path: Path) -> None:
    with side_by_side(program.NESTJS, lab, tmp_path) as run:
        _come_and_go(run)
        _come_back_and_die(run)
        _stay_alone_and_block(run, 3)


@pytest.mark.field
@pytest.mark.parametrize("layout", ["", "text", "json", "zap", "zap-console"])
def test_franz_go(layout: str, lab: Lab, tmp_path: Path) -> None:
    each = replace(program.FRANZ_GO, environment={"LOG_FORMAT": layout})
    with side_by_side(each, lab, tmp_path) as run:
        _come_and_go(run)
        _come_back_and_die(run)
        _stay_alone_and_freeze(run)


@pytest.mark.field
def test_confluent_kafka_go(lab: Lab, tmp_path: Path) -> None:
    with side_by_side(program.CONFLUENT_GO, lab, tmp_path, pages.sources("go", tmp_path)) as run:
        _come_and_go(run)
        _come_back_and_die(run)
        _stay_alone_and_be_dropped(run)
        _assert_clients(run, "payments-1", "payments-2")


@pytest.mark.field
def test_the_channel_of_confluent_kafka_go_shows_all_but_the_leave(
    lab: Lab, tmp_path: Path
) -> None:
    each = replace(program.CONFLUENT_GO, environment={"LOGS": "channel"}, hidden=frozenset({6}))
    with side_by_side(each, lab, tmp_path) as run:
        _come_and_go(run)


@pytest.mark.field
def test_micronaut_with_its_own_layout(lab: Lab, tmp_path: Path) -> None:
    with side_by_side(program.MICRONAUT, lab, tmp_path) as run:
        _come_and_go(run)
        _come_back_and_die(run)
        _stay_alone_and_block_for_5(run)


@pytest.mark.field
@pytest.mark.parametrize(
    ("each", "stay"),
    [
        pytest.param(program.PEKKO, _stay_alone_and_freeze, id="pekko"),
        pytest.param(program.VERTX, _stay_alone_and_block_for_5, id="vertx"),
        pytest.param(program.CAMEL, _stay_alone_and_block_for_5, id="camel"),
    ],
)
def test_java_frameworks(each: Program, stay: Act, lab: Lab, tmp_path: Path) -> None:
    with side_by_side(each, lab, tmp_path) as run:
        _come_and_go(run)
        _come_back_and_die(run)
        stay(run)


@pytest.mark.field
def test_micronaut_with_the_lines_of_its_page(lab: Lab, tmp_path: Path) -> None:
    each = pages.with_logback(program.MICRONAUT, "micronaut", tmp_path)
    with side_by_side(each, lab, tmp_path, pages.sources("micronaut", tmp_path)) as run:
        _come_and_go(run)
        _come_back_and_die(run)
        _stay_alone_and_block_for_5(run)


@pytest.mark.field
def test_two_replicas_of_spring_boot_in_one_stream(lab: Lab, tmp_path: Path) -> None:
    with side_by_side(program.SPRING_BOOT, lab, tmp_path) as run:
        _come_and_go(run)
        _come_back_and_die(run)
        _stay_alone_and_block_for_5(run)
        _assert_members(run, "payments-1", "payments-2")


@pytest.mark.field
def test_a_connect_cluster_of_two_workers(lab: Lab, tmp_path: Path) -> None:
    with side_by_side(program.CONNECT, lab, tmp_path) as run:
        _come_and_go(run)
        _come_back_and_die(run)
        _stay_alone_and_freeze(run)


def test_the_connect_cluster_has_the_layout_of_its_page() -> None:
    layout = pages.lines("connect", 'yaml title="connect-log4j2.yaml"')
    assert layout == (program.SOURCES / "connect" / "connect-log4j2.yaml").read_text()


@pytest.mark.field
def test_a_connect_clusters_log_shows_a_new_connector(lab: Lab, tmp_path: Path) -> None:
    with side_by_side(program.CONNECT, lab, tmp_path) as run:
        run.fleet.start("payments-1")
        run.fleet.wait_members(1)
        run.fleet.start("payments-2")
        run.fleet.wait_members(2)
        run_connector(_rest_port(run.folder / "payments-1.log"), run.fleet.topic, 2)
        shown = run.logs.poll(run.in_logs, lambda seen: _leads(seen, [7, 0]))
        assert _leads(shown, [7, 0])


@pytest.mark.field
def test_quarkus_mutes_its_client_and_the_agent_names_the_setting(lab: Lab, tmp_path: Path) -> None:
    with side_by_side(program.QUARKUS, lab, tmp_path) as run:
        run.fleet.start("payments-1")
        run.fleet.wait_members(1)
        run.fleet.stop("payments-1")
        run.fleet.wait_members(0)
        assert run.wire.poll(run.on_wire, lambda seen: _SEEN in seen.values())
        assert run.in_logs() == {}
        hints = replay_hints(run.folder)
    assert "Quarkus mutes Kafka's clients" in hints
    for line in pages.lines("quarkus", "properties").splitlines():
        if "clients.consumer" in line:
            assert line in hints


@pytest.mark.field
@pytest.mark.parametrize(
    ("each", "page", "variable", "stay"),
    [
        pytest.param(
            program.SPRING_BOOT,
            "spring-boot",
            "SPRING_CONFIG_ADDITIONAL_LOCATION",
            _stay_alone_and_block_for_5,
            id="spring-boot",
        ),
        pytest.param(
            program.QUARKUS,
            "quarkus",
            "QUARKUS_CONFIG_LOCATIONS",
            _stay_alone_and_freeze,
            id="quarkus",
        ),
    ],
)
def test_the_lines_of_its_page(
    each: Program, page: str, variable: str, stay: Act, lab: Lab, tmp_path: Path
) -> None:
    documented = pages.as_documented(each, page, variable, tmp_path)
    with side_by_side(documented, lab, tmp_path, pages.sources(page, tmp_path)) as run:
        _come_and_go(run)
        _come_back_and_die(run)
        stay(run)


@pytest.mark.field
def test_rdkafka_with_the_lines_of_its_page(lab: Lab, tmp_path: Path) -> None:
    (command,) = [line for line in pages.lines("rust", "sh").splitlines() if "RUST_LOG=" in line]
    variable, _, value = command.split()[0].partition("=")
    (contexts,) = re.findall(r'"debug", "(.+?)"', pages.lines("rust", "rust"))
    environment = {variable: value, "DEBUG_CONTEXTS": contexts}
    each = replace(program.RDKAFKA, environment=environment)
    with side_by_side(each, lab, tmp_path) as run:
        _come_and_go(run)
        _come_back_and_die(run)
        _stay_alone_and_be_dropped(run)
        _assert_clients(run, "payments-1", "payments-2")


@pytest.mark.field
def test_rdkafka_at_its_default_level_shows_drops_and_names_the_setting(
    lab: Lab, tmp_path: Path
) -> None:
    with side_by_side(program.RDKAFKA, lab, tmp_path, pages.sources("rust", tmp_path)) as run:
        run.fleet.start("payments-1")
        run.fleet.wait_members(1)
        _block_until_dropped(run)
        shown = run.logs.poll(
            lambda: run.logs.transitions_of_group("payments"), bool
        )  # the page's name of the group
        hints = replay_hints(run.folder)
    assert [row["to"] for row in shown] == [5]
    assert "default level: set debug=cgrp" in hints
