"""A hub beside an agent that sends hostile records: none ends it, and each is counted."""

import gzip
import json
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import psutil
import pytest

from tests.faults.agent_process import AgentProcess, Row, transitions, until
from tests.faults.loaded_log import LoadedLog

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

_VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 99, 2**31, 2**63 - 1, 2**63, 10**400, -0.5, 1e308, "", "x", "\x00\x1b[2J"),
    *("\ud800", "\u202e", "n" * 30_000, "t-0..999999999", "t-0,1" * 20_000, "9" * 5_000, [], {}),
    *([[]], {"a": {"b": []}}, "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "now"),
    *("20261121T063151Z", "2026-W47-6T06:31:51Z", "2026-11-21T06:31:51+14:00"),
    *("2026-11-21t06:31:51.4z", "1969-12-31T23:59:59Z", "partitions", "agent", "lost", "incident"),
)
_RAW = (
    *(b"", b" ", b"{", b"null", b"[]", b"1", b'"x"', b"{}", b"\xff\xfe", b"\x00" * 1_000),
    *(b"[" * 100_000, b'{"a":' * 50_000, b'{"seq":1e999}', b'{"seq":-1,"id":"x"}', b"NaN"),
    *(b'{"schema":1,"schema":2}', b"\x1f\x8b\x08\x00", b"9" * 100_000),
)
_READ = "rebalance_agent_source_read_bytes_total"
_BATCH = 400
_PAGES = (
    *("/", "/metrics", "/api/v1/groups", "/api/v1/members", "/api/v1/episodes"),
    *("/api/v1/incidents", "/api/v1/explain?group=evil", "/group?group=evil", "/-/healthy"),
)


def changed_lines(valid: dict[str, Any]) -> Iterator[bytes]:
    """Yield a valid record with each field replaced by each hostile value, and without it."""
    numbers = count(1)
    for name in valid:
        for value in _VALUES:
            yield json.dumps(numbered(valid, next(numbers)) | {name: value}).encode()
        given = numbered(valid, next(numbers))
        yield json.dumps({key: each for key, each in given.items() if key != name}).encode()


def numbered(valid: dict[str, Any], number: int) -> dict[str, Any]:
    kind = valid["kind"]
    return valid | {"seq": number, "id": sha256(f"{kind} {number}".encode()).hexdigest()[:32]}


def push(hub: AgentProcess, lines: list[bytes], spool: str) -> tuple[int, dict[str, Any]]:
    """Push one batch; return the status and the response."""
    body = gzip.compress(b"\n".join(lines) + b"\n", 1)
    headers = {"X-Spool": spool, "X-After": "0", "Content-Encoding": "gzip"}
    request = Request(f"http://{hub.address}/api/v1/records", body, headers)
    try:
        with urlopen(request, timeout=60.0) as answer:
            return answer.status, json.loads(answer.read())
    except HTTPError as error:
        return error.code, json.loads(error.read())


def honest_of(rows: list[Row]) -> list[tuple[str, int]]:
    """Return client and status of the honest agent's transitions."""
    return [
        (row["client_id"], row["to"])
        for row in rows
        if row["kind"] == "transition" and row["agent"].startswith("agent/") and row["group"] == "g"
    ]


def is_served(hub: AgentProcess, page: str) -> bool:
    return bool(hub.get(page))


def test_hostile_records_end_no_hub_and_block_no_honest_agent(tmp_path: Path) -> None:
    hub = AgentProcess(tmp_path / "hub", "role: hub\n")
    log = tmp_path / "app.log"
    config = (
        f"sources: [{{type: logs, paths: [{log}]}}]\n"
        f"hub: {{push_to: ['http://{hub.address}'], interval: 200ms}}\n"
    )
    with hub, AgentProcess(tmp_path / "agent", config) as agent:
        hub.start_ready()
        agent.start_ready()
        with LoadedLog(log) as load:
            until(lambda: len(transitions(hub.on_disk())) > 20, "the first records at the hub")
            valid = next(row for row in hub.on_disk() if row["kind"] == "transition")
            valid |= {"group": "evil", "agent": "evil"}
            lines = [*_RAW, *changed_lines(valid)]
            for kind in ("change", "episode", "incident", "agent", "sample", "signal", "lost"):
                lines += changed_lines(valid | {"kind": kind})
            statuses, taken, unreadable = set[int](), 0, 0
            for begin in range(0, len(lines), _BATCH):
                status, answer = push(hub, lines[begin : begin + _BATCH], f"evil{begin}")
                statuses.add(status)
                unreadable += answer.get("unreadable", 0)
                taken += answer["seq"] > 0
            assert statuses == {200}
            assert unreadable > len(_RAW)
            assert taken > 0
            for page in _PAGES:
                until(partial(is_served, hub, page), page)
            assert hub.total("rebalance_agent_signals_unparsed_total") >= unreadable
            honest = len(transitions(hub.on_disk()))
            until(lambda: len(transitions(hub.on_disk())) > honest + 20, "more honest records")
        until(lambda: agent.total(_READ) == log.stat().st_size, "its whole log")
        wanted = [(client, to) for client, to in load.transitions().elements()]
        until(lambda: sorted(honest_of(hub.on_disk())) == sorted(wanted), "every honest record")
        resident = psutil.Process(hub.process.pid).memory_info().rss
        hub.kill()
        hub.start_ready()
        for page in _PAGES:
            until(partial(is_served, hub, page), page)
        assert hub.drain() == 0
        said = hub.log.read_text()

    assert "Traceback" not in said
    assert "task_failed" not in said
    assert resident < 200 << 20
    assert sorted(honest_of(hub.published())) == sorted(wanted)
