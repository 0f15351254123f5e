"""Replicas with one client id in one log: names that stores and tools give their streams."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agent.cli import main
from tests.agent.sources.lines.test_posted_forms import (
    BEGIN,
    EVENTS,
    MEMBER,
    WANTED,
    iso,
    log4j,
    replay,
)

STORES: dict[str, Callable[[int], dict[str, Any]]] = {
    "hostName of Quarkus": lambda n: {"hostName": f"h{n}", "processId": 1},
    "processId": lambda n: {"hostName": "h", "processId": n},
    "ECS: a process": lambda n: {"process": {"pid": n}},
    "ECS: a container": lambda n: {"container": {"id": f"abc{n}"}},
    "ECS: a node": lambda n: {"service": {"node": {"name": f"n{n}"}}},
    "Filebeat: a file": lambda n: {"log": {"file": {"path": f"/var/log/app-{n}.log"}}},
    "Vector: a file": lambda n: {"file": f"/var/log/app-{n}.log", "host": "h"},
    "Fargate": lambda n: {"ecs_task_arn": f"arn:{n}", "container_name": "app"},
    "Nomad": lambda n: {"alloc_id": f"a{n}"},
    "Cloud Run": lambda n: {"labels": {"instanceId": f"00b{n}"}},
    "Azure container apps": lambda n: {"RevisionName_s": "r", "ContainerId_s": f"id{n}"},
    "OpenTelemetry": lambda n: {"ResourceAttributes": {"service.instance.id": f"n{n}"}},
}
TOOLS = {
    "syslog's process": "<14>{stamp} h pay[{n}00]: {text}",
    "RFC 5424's process": "<14>1 {iso} h pay {n}00 - - {text}",
    "pm2's cluster": "{n}|pay  | {line}",
    "kail": "default/pay-7d9f8b6c5-abcd{n}[app]: {line}",
    "honcho": "{clock} worker.{n}     | {line}",
    "flyctl": "{iso} app[148e{n}] ams [info] {text}",
}


def replicas() -> list[tuple[int, str, str, int]]:
    """Return seconds, text and number of two members' lines, a fifth of a second apart."""
    return sorted(
        (index, member, text.replace(MEMBER, member), number)
        for number in (1, 2)
        for member in [MEMBER.replace("-1111", f"-{number}111", 1)]
        for index, (_, text) in enumerate(EVENTS)
    )


def write(form: str) -> str:
    rows = []
    for index, _, text, n in replicas():
        at = EVENTS[index][0] + timedelta(seconds=0.2 * n)
        if form in STORES:
            rows.append(json.dumps({"timestamp": iso(at), "message": text, **STORES[form](n)}))
        else:
            stamps = {"stamp": f"{at:%b %d %H:%M:%S}", "iso": iso(at), "clock": f"{at:%H:%M:%S}"}
            rows.append(TOOLS[form].format(n=n, text=text, line=log4j(at, text), **stamps))
    return "\n".join(rows)


@pytest.mark.parametrize("form", [*STORES, *TOOLS])
def test_replicas_are_told_apart(form: str, tmp_path: Path) -> None:
    assert sorted(replay(write(form), tmp_path)[0]) == sorted(WANTED * 2)


def test_restart_is_the_same_stream_with_another_process(tmp_path: Path) -> None:
    text = "\n".join(
        f"<14>{at:%b %d %H:%M:%S} h pay[{1 + (at - BEGIN > timedelta(seconds=30))}00]: {text}"
        for at, text in EVENTS
    )

    assert replay(text, tmp_path)[0] == WANTED


def test_files_that_tail_shows_have_their_own_streams(tmp_path: Path) -> None:
    parts = [
        f"==> app-{n}.log <==\n"
        + "\n".join(log4j(at, text) for at, text in EVENTS).replace("-1111", f"-{n}111")
        for n in (1, 2)
    ]

    assert sorted(replay("\n\n".join(parts), tmp_path)[0]) == sorted(WANTED * 2)


def test_logs_one_after_the_other_are_not_dated_in_silence(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    log = "\n".join(log4j(at, text) for at, text in EVENTS)
    path.write_text(log + "\n" + log.replace("groupId=", "groupId=other-"))

    done = CliRunner().invoke(main, ["replay", "--source", "logs", "--timezone", "UTC", str(path)])

    assert "times run back by up to 64 s" in done.stderr
