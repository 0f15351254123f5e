"""Every output beside one hostile name: no character of it is invisible, or a terminal's command.

The name stands in every text that a peer sends: group, client, host, topic, reason, ids, type,
state. A command or a path that is not in the lists of this test fails it.
"""

import dataclasses
import json
import logging
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from click.testing import CliRunner
from starlette.routing import Route

from agent.cli import main
from agent.config.web import WebConfig
from agent.hub.recent_records import RecentRecords
from agent.runtime.log_format import JsonFormatter, LogfmtFormatter
from agent.terminal.rows import group_rows, incident_rows, member_rows, source_notes
from agent.web.server import make_app
from aggregation.incidents.answers import IncidentAnswer
from metrics.model.sample import Sample, encode
from tests.agent.web.pages.scene import BUSY, NOW, Scene, records, served, snapshot

HOSTILE = "=1+1\x00\x1b[31m\x7f\x9b31m\u202e\u2028\r\n\t,;\"'<b>|`"
_NAMES = {
    *("cluster", "app", "group", "client_id", "member_id", "group_instance_id", "host"),
    *("reason", "group_type", "protocol_type", "agent", "topic", "state", "software"),
    *("assignor", "leader", "name", "subject"),
}
_GROUP = BUSY + HOSTILE
_QUERY = f"group={quote(_GROUP, safe='')}&last=200"
PATHS = {
    *("/", "/-/healthy", "/-/ready", "/metrics", "/api/v1/openapi.json"),
    *("/api/v1/groups", "/api/v1/members", "/api/v1/sources"),
    *("/api/v1/episodes", "/api/v1/incidents", "/api/v1/explain"),
    *("/group", "/incident"),
}
WITHOUT_NAMES = {
    "/-/reload": "POST: a response of one word",
    "/static/{name}": "the agent's own files",
    "/live": "events without content",
}
COMMANDS = {
    "explain": (["explain", _GROUP, "--from", "-"], ["explain", _GROUP, "--from", "-", "--verbose"],
                ["explain", _GROUP, "--from", "-", "--output", "json"],
                ["explain", HOSTILE, "--from", "-"]),
    "top": (["top", "--once", "--from", "{url}"],),
}  # fmt: skip
TESTED_ELSEWHERE = {
    "replay": "tests/agent/cli/test_json_output.py, tests/agent/cli/test_replay.py",
    "groups": "tests/agent/inspection and tests/agent/cli/test_groups.py",
    "report": "tests/aggregation/spark/test_page.py",
    "ingest": "its own files' names",
    "run": "its log, below",
    "demo": "its own names",
    "check-config": "YAML in ASCII",
    "dialects": "its own names",
    "inject": "YAML in ASCII",
    "completion": "a script without names",
}


def make_hostile(value: Any) -> Any:
    """Return a record or row whose names are hostile."""
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return type(value)(map(make_hostile, value))
    if isinstance(value, msgspec.Struct):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        return msgspec.structs.replace(value, **_changed(fields))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
        return dataclasses.replace(value, **_changed(fields))
    if hasattr(value, "_fields"):
        return value._replace(**_changed(value._asdict()))
    return value


def _changed(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        name: each + HOSTILE if isinstance(each, str) and name in _NAMES else make_hostile(each)
        for name, each in fields.items()
        if isinstance(each, str | tuple)
    }


def hostile_records(now: float = NOW) -> list[Sample]:
    return [make_hostile(each) for each in records(now)]


@pytest.fixture(scope="module")
def scene() -> Scene:
    shown = make_hostile(snapshot())
    assert shown.consumers[0].client_id.endswith(HOSTILE)
    assert shown.inspected[0].state.endswith(HOSTILE)
    return Scene(RecentRecords(hostile_records()), lambda: shown)


@pytest.fixture(scope="module")
def url(scene: Scene) -> Iterator[str]:
    with served(scene) as base:
        yield base


def get(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=60.0) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        return error.read().decode()


def find_invisible(text: str) -> set[str]:
    return {each for each in text if not each.isprintable()} - {"\n"}


def test_each_path_and_command_is_in_a_list(scene: Scene) -> None:
    app = make_app(WebConfig(), 10**6, scene.dependencies)
    paths = set(re.findall(r'path=[\'"]([^\'"]+)', repr(list(_routes(app)))))

    assert paths - PATHS == set(WITHOUT_NAMES)
    known = set(main.list_commands(None))  # type: ignore[arg-type]
    assert known == {*COMMANDS, *TESTED_ELSEWHERE}


def _routes(app: object) -> Iterator[Route]:
    """Yield the routes below all layers."""
    layer = app
    while not hasattr(layer, "routes"):
        layer = layer.app  # type: ignore[attr-defined]
    yield from layer.routes


@pytest.mark.parametrize("path", sorted(PATHS))
def test_no_page_has_an_invisible_character(url: str, path: str) -> None:
    text = get(f"{url}{path}?{_QUERY}")

    assert text
    assert find_invisible(text) == set()


@pytest.mark.parametrize("path", ["/api/v1/groups", "/api/v1/explain"])
def test_json_stays_the_same(url: str, path: str) -> None:
    answer = json.loads(get(f"{url}{path}?{_QUERY}"))

    assert [each["group"] for each in answer] == [_GROUP]


@pytest.mark.parametrize("path", ["/api/v1/explain?group=", "/api/v1/groups?state="])
def test_errors_have_no_invisible_character(url: str, path: str) -> None:
    text = get(url + path + quote("no\u202e\x9b such", safe=""))

    assert "such" in text
    assert find_invisible(text) == set()


@pytest.mark.parametrize("colour", [{"NO_COLOR": "1"}, {"FORCE_COLOR": "1"}])
@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_no_command_prints_an_invisible_character(
    url: str, name: str, colour: dict[str, str]
) -> None:
    lines = b"\n".join(map(encode, hostile_records()))
    for arguments in COMMANDS[name]:
        argv = [each.format(url=url) if "{url}" in each else each for each in arguments]
        done = CliRunner().invoke(main, argv, input=lines, env=colour)

        assert done.output
        assert find_invisible(done.output) == set()


def test_no_cell_of_the_live_view_has_an_invisible_character(url: str) -> None:
    decode = msgspec.json.Decoder(list[IncidentAnswer]).decode
    incidents = decode(get(f"{url}/api/v1/incidents?last=200"))
    groups, members = (json.loads(get(f"{url}/api/v1/{each}")) for each in ("groups", "members"))
    down = [{"name": HOSTILE, "up": False}]
    cells = [
        *(text for row in group_rows(groups, incidents, NOW) for text in row.cells.values()),
        *(text for row in member_rows(members, NOW) for text in row),
        *(text for row in incident_rows(incidents, NOW) for text in row),
        *source_notes(down),
    ]

    assert {each for text in cells for each in text if not each.isprintable()} == set()


@pytest.mark.parametrize("formatter", [LogfmtFormatter(), JsonFormatter()])
def test_the_agents_log_has_one_printable_line(formatter: logging.Formatter) -> None:
    record = logging.makeLogRecord({"name": "agent", "msg": "event", "spool": HOSTILE})

    assert formatter.format(record).isprintable()


def test_a_line_of_a_spool_is_one_line() -> None:
    for each in hostile_records()[:20]:
        line = encode(each).decode().removesuffix("\n")
        assert json.loads(line)["group"] == each.group
        assert not set(map(chr, range(32))) & set(line)
