"""The threat model's bounds: each interface has a row, and each row has tests that exist.

The tests of a row make a bound small to reach it. `_FIGURES` are the ones in force: a page that
has other figures than the code fails here.
"""

import ast
import inspect
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from agent import request_bodies, small_files
from agent.config import yaml_loader
from agent.config.limits import LimitsConfig
from agent.hub import push_receiver, recent_records
from agent.inspection.connection import (
    admin_requests,
    broker_connection,
    broker_pool,
    response_room,
)
from agent.outputs.hub_push import push
from agent.outputs.kafka import producer
from agent.outputs.spool import spool
from agent.runtime import checkpoint, log_format, pipeline
from agent.sources.http_events import source as http_events
from agent.sources.http_events.config import HttpConfig
from agent.sources.librdkafka_stats import unix_socket
from agent.sources.lines.envelopes import envelope
from agent.sources.lines.following import file_reports, live_documents, tail
from agent.sources.lines.parsing import line_parser, origin_streams
from agent.sources.lines.whole_files import document_pieces, log_file
from agent.sources.logs import client_interpreter, partition_budget
from agent.sources.proxy.config import ProxyConfig
from agent.sources.statistics import interpreter as statistics
from agent.sources.statistics import line_parser as statistics_lines
from agent.web import (
    basic_auth,
    http_protocol,
    rate_limit,
    security,
    server,
    shared_turns,
    unsent_pages,
)
from agent.web.annotations_api import BURST, INTERVAL_S, MAX_BYTES
from agent.wire import byte_budget, connection
from agent.wire.codec import buffer, correlation, framing
from agent.wire.connection import FrameBudget
from agent.wire.members import group_decoder
from agent.wire.proxying import frame_forwarder
from agent.wire.tcp import reassembly
from agent.wiring import config_faults
from agent.wiring.hub import MAX_AGENT_CONNECTIONS
from aggregation.live import fleet_member
from aggregation.rebalances import unnumbered_syncs
from metrics.model import names, partitions, sample
from metrics.tracking import tracker
from metrics.tracking.status_track import StatusConfig

ROOT = Path(__file__).parents[2]
_PAGE = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")


def _rows(heading: str) -> list[list[str]]:
    """Return the rows of a section's table, without its head."""
    section = _PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


_ROWS = _rows("One hostile or broken peer")
_ATTACKS = _rows("Attacks that were tried")
_ATTACK_COUNT = 20
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
_HTTP, _PROXY, _LIMITS = HttpConfig(), ProxyConfig(listen=":1", upstream=("a:1",)), LimitsConfig()
_NAME = f"a name of {names.NAME_MAX_CHARS} characters"
_TEXT = f"a name or reason of {sample.REASON_MAX_CHARS} characters"


def _default(function: Callable[..., object], name: str) -> float:
    return float(inspect.signature(function).parameters[name].default)


def _mib(size: int) -> str:
    return f"{size >> 20} MiB"


def _seconds(size: float) -> str:
    return f"{size:g} s"


_FIGURES = {
    "log files": [
        f"a line or entry of {_mib(line_parser.LINE_LIMIT)}",
        f"a line or entry of {_mib(envelope.JOINED_MAX_CHARS)}",
        f"{line_parser.KEPT_BYTES >> 10} KiB of lines before it",
        _TEXT,
        f"partitions of all clients {partition_budget._LIMIT_CHARS >> 20} Mi characters",
        f"{client_interpreter._CLIENT_LIMIT:,} clients a stream",
        f"{partition_budget.NAMED_MAX:,} partitions of a client",
        f"{origin_streams._MAX_ORIGINS:,} streams in a file",
        f"one block of {_mib(log_file.LARGE_BLOCK_BYTES)}",
        f"each {log_file._PIECE_BYTES >> 10} KiB are read at once",
        f"after {log_file.BLOCK_S * 1000:g} ms of CPU time",
        f"a step ends after {tail._SLICE_S * 1000:g} ms",
        f"that are held {_mib(live_documents.HELD_MAX_BYTES)}",
        f"in pieces of {_mib(document_pieces.WHOLE_MAX_BYTES)}",
        f"first {file_reports._BLIND_LINES} lines",
        f"first {file_reports._LOGGED_FILES} files",
    ],
    "wire": [
        f"a frame of {_mib(framing.FRAME_LIMIT)}",
        f"incomplete frames of all connections {_mib(FrameBudget().limit_bytes)}",
        _TEXT,
        f"segments out of order {_mib(reassembly.PENDING_BYTES)} a connection",
        f"and {_mib(byte_budget.ByteBudget().limit_bytes)} of all",
        f"{connection._FRAME_BYTES >> 10} KiB of each further connection",
        f"{correlation.RequestBudget().limit:,} of all",
        f"{buffer.ELEMENT_LIMIT:,} elements a message",
        f"{correlation.PENDING_LIMIT:,} open requests",
    ],
    "proxy": [
        f"a rewritten response ({_mib(frame_forwarder._REWRITE_BYTES_MAX)})",
        f"of all connections {_mib(byte_budget.ByteBudget().limit_bytes)}",
        f"{byte_budget.SHORT_BYTES >> 10} KiB of each further connection",
        f"{_PROXY.max_connections:,} connections",
        f"not set up within {_seconds(_PROXY.setup_s)} is closed",
        f"a drain ends after {_seconds(_PROXY.drain_s)}",
    ],
    "hub": [
        f"a batch of {_mib(push_receiver.MAX_BODY_BYTES)}",
        f"of {push_receiver.MAX_LINES:,} lines",
        _TEXT,
        f"a value of a change of {partitions.TEXT_MAX_CHARS >> 10} Ki characters",
        f"{recent_records.MAX_CHANGE_CHARS >> 20} Mi of all in memory",
        f"each partition counts as {recent_records._PARTITION_CHARS}",
        f"{partitions.PARTITIONS_MAX:,} partitions in one",
        f"{push_receiver.MAX_SPOOLS:,} spools",
        f"assignments without a generation of {unnumbered_syncs._MEMBERS_MAX:,} members",
        f"each by {unnumbered_syncs._AGENTS_MAX} agents",
        f"of which {unnumbered_syncs._SHARED_MAX} members",
        f"{fleet_member._MAX_OPEN} of one member",
    ],
    "hub, as an agent sees it": [
        f"a batch of {_mib(push.MAX_BYTES)}",
        f"a request ends after {_seconds(push._TIMEOUT_S)}",
        f"of a response {push.ANSWER_BYTES_MAX >> 10} KiB",
    ],
    "events": [
        f"{_mib(_HTTP.max_bytes)} a request",
        f"{_HTTP.max_lines_per_second:,} lines a second",
        f"{http_events._ALIVE_LIMIT:,} that report to be alive",
        f"{http_events._SENDER_LIMIT:,} hosts",
        f"an annotation {MAX_BYTES >> 10} KiB",
        f"{1 / INTERVAL_S:g} annotation a second, {BURST} at once",
    ],
    "statistics": [
        f"{_mib(statistics_lines.LINE_LIMIT)} a line",
        f"half lines of all connections {_mib(unix_socket.HALF_LINES_MAX)}",
        _NAME,
        f"without a line for {statistics.FORGET_S / 60:g} minutes is forgotten",
        f"{unix_socket.MAX_CONNECTIONS} connections",
        f"{statistics._CLIENT_LIMIT:,} clients",
    ],
    "samples' topic": [
        f"{_mib(producer._RESPONSE_MAX_BYTES)} a response",
        f"is reported after {_seconds(producer._ACK_TIMEOUT_S)}",
    ],
    "admin answers": [
        f"{_mib(response_room.FRAME_BYTES_MAX)} a response",
        f"its timeout ({_seconds(_default(broker_connection.Connection.open, 'timeout_s'))})",
        f"{response_room._ELEMENT_LIMIT:,} elements",
        f"a structure takes {admin_requests.STRUCT_WEIGHT}",
        f"{_seconds(broker_connection.MAX_THROTTLE_S)} more at most for a quota",
        f"{broker_pool.MAX_BROKERS:,} brokers and connections",
        f"{broker_pool._AT_ONCE} with a request at once",
        f"{response_room._LOOKUPS} name lookups at once",
        f"waits for room after {_seconds(response_room.WAIT_MAX_S)}",
        f"before a login is done {response_room.SHORT_BYTES >> 10} KiB",
        f"{log_format.MAX_VALUE_CHARS:,} characters of a value in a log line",
        f"a response of {response_room.SHORT_BYTES >> 10} KiB are processed in threads",
    ],
    "web": [
        f"passwords of {basic_auth._MAX_PASSWORD_BYTES} bytes",
        f"bodies that are being read {_mib(request_bodies.BODIES_BYTES_MAX)}",
        f"a body {_seconds(request_bodies.BODY_TIMEOUT_S)}",
        f"a head {_seconds(http_protocol.HEAD_TIMEOUT_S)}",
        f"a response that is not read {_seconds(http_protocol.RESPONSE_TIMEOUT_S)}",
        f"{server.MAX_CONNECTIONS} connections and as many handshakes",
        f"not read {_mib(unsent_pages.MAX_UNSENT_BYTES)} together",
        f"readers counts {unsent_pages.READER_BYTES >> 10} KiB",
        f"{shared_turns.MAX_TURNS} different ones running or waiting",
        f"for {_seconds(shared_turns.MAX_WAIT_S)}, then 503",
        f"(a hub {MAX_AGENT_CONNECTIONS:,})",
        f"{1 / rate_limit.INTERVAL_S:g} pages a second",
        f"log lines of one place in the code {log_format.REPEAT_BURST:g} at once",
    ],
    "spool": [f"{_mib(spool._BUFFER_BYTES)} in memory"],
    "checkpoint": [
        f"a {pipeline._SAVE_SHARE:g}th of the time",
        f"more than {_mib(checkpoint.LEAST_MAX_BYTES)} and",
    ],
    "configuration": [
        f"{_mib(yaml_loader.MAX_BYTES)} a file",
        f"{_mib(small_files._AUTHORITIES_MAX_BYTES)} of certificates",
        f"a pipe ends within {_seconds(small_files.PIPE_WAIT_S)}",
        f"up to {config_faults.MAX_FAULTS})",
    ],
    "HTTP requests": [
        f"within {_seconds(http_protocol.HEAD_TIMEOUT_S)}",
        f"{rate_limit.BURST} at once",
    ],
    "passwords": [f"{security.MAX_WAITING} waiting"],
    "requests for pages, metrics and the API": [
        f"{_mib(unsent_pages.MAX_UNSENT_BYTES)} together",
        f"{shared_turns.MAX_TURNS} different ones (HTML pages {server.MAX_CONNECTIONS})",
        f"{_seconds(shared_turns.MAX_WAIT_S)} at most",
    ],
    "packets": [f"at {group_decoder._PORTS_LIMIT} that brokers' responses name"],
    "members, groups, series": [
        f"({_LIMITS.members:,}, {_LIMITS.groups:,}, {_LIMITS.series:,})",
        f"({StatusConfig().members:,}, {StatusConfig().groups:,}",
        f"{tracker.PARTITIONS_MAX:,} partitions of all members",
    ],
    "samples on disk": [f"{_mib(spool.SpoolConfig(dir=Path()).max_bytes)}"],
}
_INTERFACES = {
    "log files",
    "wire",
    "proxy",
    "hub",
    "events",
    "statistics",
    "admin answers",
    "web",
    "spool",
    "tables",
    "configuration",
}


def test_each_interface_has_a_row_with_all_bounds() -> None:
    assert {row[0] for row in _ROWS} >= _INTERFACES
    assert {len(row) for row in _ROWS} == {5}
    assert all(cell for row in _ROWS for cell in row)


def test_each_attack_has_a_row() -> None:
    assert len({row[0] for row in _ATTACKS}) == len(_ATTACKS) >= _ATTACK_COUNT


@pytest.mark.parametrize("row", [*_ROWS, *_ATTACKS], ids=lambda row: str(row[0]))
def test_each_bound_has_tests_that_exist(row: list[str]) -> None:
    named = _TEST.findall(row[-1])

    assert len(named) == row[-1].count("`") // 2 > 0
    assert [(path, name) for path, name in named if name not in _tests(ROOT / path)] == []


@pytest.mark.parametrize("interface", _FIGURES)
def test_figures_are_those_in_force(interface: str) -> None:
    rows = [*_ROWS, *_rows("Inputs and their bounds")]
    text = " | ".join(cell for row in rows if row[0] == interface for cell in row[:4])

    assert [figure for figure in _FIGURES[interface] if figure not in text] == []


def _tests(path: Path) -> set[str]:
    """Return the names of a file's tests, without those that never run."""
    found = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {node.name for node in found if isinstance(node, ast.FunctionDef) and _runs(node)}


def _runs(function: ast.FunctionDef) -> bool:
    marks = {ast.unparse(mark) for mark in function.decorator_list}
    return function.name.startswith("test_") and not any("mark.skip(" in mark for mark in marks)
