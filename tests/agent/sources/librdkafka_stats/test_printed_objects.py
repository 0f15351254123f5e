"""Statistics of librdkafka that programs print through loggers, and collectors write on."""

# ruff: noqa: ARG005 - a form names the parts of a line in one order

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from agent.cli import main
from agent.sources.statistics.printed_objects import find_statistics

BEGIN = 1_793_796_000
STATES = (
    (0, "steady", 1, "", 5000),
    (5, "wait-join", 2, "max.poll.interval.ms exceeded (8000 ms)", 2000),
    (10, "steady", 3, "max.poll.interval.ms exceeded (8000 ms)", 1000),
)
Form = Callable[[int, str, int], str]


def statistics(second: int, state: str, count: int, reason: str, age: int) -> str:
    at = BEGIN + second
    cgrp = {
        "state": "up",
        "join_state": state,
        "rebalance_age": age,
        "rebalance_cnt": count,
        "rebalance_reason": reason.partition(" (")[0],
        "assignment_size": 4,
    }
    head = {"name": "orders#consumer-1", "client_id": "orders", "type": "consumer"}
    times = {"ts": at * 1_000_000, "time": at, "age": second * 1_000_000}
    return json.dumps({**head, **times, "brokers": {}, "topics": {}, "cgrp": cgrp})


def iso(at: int) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%S}.000Z"


FORMS: dict[str, Form] = {
    "a logger": lambda at, text, n: f"pay-{n}  | {iso(at)} INFO stats - {text}",
    "compose": lambda at, text, n: f"pay-{n}  | {text}",
    "compose in colours": lambda at, text, n: f"\x1b[36mpay-{n}  | \x1b[0m{text}",
    "kubectl --prefix": lambda at, text, n: f"[pod/pay-{n}/app] {iso(at)} {text}",
    "stern -o json": lambda at, text, n: json.dumps(
        {"message": text, "podName": f"pay-{n}", "containerName": "app"}
    ),
    "Fluent Bit": lambda at, text, n: json.dumps(
        {"date": at, "log": f"{text}\n", "kubernetes": {"pod_name": f"pay-{n}"}}
    ),
    "a program's object in Docker's, in Filebeat's": lambda at, text, n: json.dumps(
        {
            "@timestamp": iso(at),
            "kubernetes": {"pod": {"name": f"pay-{n}"}},
            "message": json.dumps({"level": "info", "msg": text, "time": iso(at)}),
        }
    ),
    "an object in a field": lambda at, text, n: json.dumps(
        {"time": iso(at), "pod": f"pay-{n}", "msg": "stats", "stats": json.loads(text)}
    ),
}


def replay(text: str, folder: Path, *source: str) -> tuple[list[tuple[str, int, str]], str]:
    """Return host, code and time of each transition, and what is told."""
    path = folder / "app.log"
    path.write_text(text, encoding="utf-8")
    options = ["replay", *source, "--timezone", "UTC", "--group", "orders", str(path)]
    done = CliRunner().invoke(main, options)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    moves = [row for row in rows if row["kind"] == "transition"]
    return [(row["host"], row["to"], row["ts"][14:19]) for row in moves], done.stderr


WANTED = [
    ("pay-1", 5, "40:03"),
    ("pay-2", 5, "40:03"),
    ("pay-1", 0, "40:09"),
    ("pay-2", 0, "40:09"),
]


@pytest.mark.parametrize("source", [(), ("--source", "stats")])
@pytest.mark.parametrize("form", FORMS)
def test_printed_statistics_of_two_replicas_are_read(
    form: str, source: tuple[str, ...], tmp_path: Path
) -> None:
    rows = [
        FORMS[form](BEGIN + state[0], statistics(*state), n) for state in STATES for n in (1, 2)
    ]

    moves, _ = replay("\n".join(rows) + "\n", tmp_path, *source)

    assert sorted(moves) == sorted(WANTED)


@pytest.mark.parametrize("around", ["{}", '{{"timestamp": "{time}", "jsonPayload": {}}}'])
def test_newest_statistics_first_are_read_in_the_order_of_time(around: str, tmp_path: Path) -> None:
    rows = [around.format(statistics(*state), time=iso(BEGIN + state[0])) for state in STATES[::-1]]

    moves, _ = replay("\n".join(rows) + "\n", tmp_path, "--source", "stats")

    assert [move[1:] for move in moves] == [(5, "40:03"), (0, "40:09")]


@pytest.mark.parametrize(
    "line",
    [
        '{"join_state": 1}',
        "join_state {" + '{"a":' * 4000,
        '{"message": "join_state {"}',
        '{"join_state": ["a", {"cgrp": 1}]}',
        "{" * 200_000 + "join_state",
    ],
)
def test_other_lines_hold_no_statistics(line: str) -> None:
    assert find_statistics(line.encode()) is None
