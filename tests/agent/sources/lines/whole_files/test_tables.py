"""Tables with unknown names of columns: recorded logs as in a spreadsheet."""

import csv
import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import pytest
from click.testing import CliRunner

from agent.cli import main
from agent.sources.lines.times.timestamps import TimestampReader
from agent.sources.lines.whole_files.tables import find_table
from tests.agent.sources.lines.test_posted_forms import EVENTS, WANTED, iso, log4j
from tests.agent.sources.lines.test_posted_forms import replay as replay_text

GOLDEN = Path("tests/golden/dialects")
RECORDED = ("librdkafka", "kafka-python-2.2-3.0", "java-consumer-3.0-4.3", "franz-go-1.7-1.22")
HEAD = ["When", "Where", "What"]
FORMS: dict[str, tuple[list[str], str, Literal[0, 1]]] = {
    "quoted": (HEAD, ",", csv.QUOTE_ALL),
    "with semicolons": (HEAD, ";", csv.QUOTE_ALL),
    "with tabs, quoted where needed": (HEAD, "\t", csv.QUOTE_MINIMAL),
    "without a head": ([], ",", csv.QUOTE_ALL),
}


def replay(path: Path) -> list[tuple[str, str, str, int]]:
    done = CliRunner().invoke(main, ["replay", "--source", "logs", "--timezone", "UTC", str(path)])
    rows = map(json.loads, done.stdout.splitlines())
    return [
        (row["ts"], row["client_id"], row["group"], row["to"])
        for row in rows
        if row["kind"] == "transition"
    ]


def read_rows(log: Path) -> list[list[str]]:
    """Return time, host and text of each entry."""
    reader, rows = TimestampReader("UTC"), list[list[str]]()
    for line in log.read_text().splitlines():
        at = reader.find(line, 1.8e9)
        if at is not None:
            rows.append([datetime.fromtimestamp(at, UTC).isoformat(), "p-1", line])
        elif rows:
            rows[-1][-1] += "\n" + line
    return rows


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize("form", FORMS)
def test_table_is_read_as_the_log_in_it(form: str, name: str, tmp_path: Path) -> None:
    log, table = GOLDEN / name / "input.log", tmp_path / "app.csv"
    head, delimiter, quoting = FORMS[form]
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, quoting=quoting)
    writer.writerows([head, *read_rows(log)] if head else read_rows(log))
    table.write_text(text.getvalue())

    found = replay(table)

    assert found == replay(log)
    assert found


@pytest.mark.parametrize("head", [["@timestamp", "@message"], ["When", "What"]])
@pytest.mark.parametrize("size", [1 << 18, 2 << 20])
def test_rows_behind_a_long_cell_are_read(head: list[str], size: int, tmp_path: Path) -> None:
    """Python's own reader ends at a cell of 128 KiB."""
    joining = "Request joining group due to: need to re-join with the given member-id: m"
    rows = [
        [f"2026-11-21T06:00:0{n}Z", f"[Consumer clientId=c{n}, groupId=g] {joining}{n}"]
        for n in range(4)
    ]
    rows[2][1] += "\n" + "x" * size
    text, table = io.StringIO(), tmp_path / "app.csv"
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows([head, *rows])
    table.write_text(text.getvalue())

    found = {client for _, client, _, _ in replay(table)}

    assert found >= {"c0", "c1", "c3"}


@pytest.mark.parametrize("head", [["Created", "Instance", "Entry"], []])
def test_column_of_pods_keeps_replicas_apart(head: list[str], tmp_path: Path) -> None:
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL)
    rows = [
        [iso(at), f"payments-7d9f8b6c5-{pod}", log4j(at, line.replace("1111-", f"{number}111-"))]
        for at, line in EVENTS
        for number, pod in enumerate(("x2x9z", "k4m7q"))
    ]
    writer.writerows([head, *rows] if head else rows)

    moves, hosts = replay_text(text.getvalue(), tmp_path)

    assert sorted(moves) == sorted(WANTED * 2)
    assert hosts == {"payments-7d9f8b6c5-x2x9z", "payments-7d9f8b6c5-k4m7q"}


@pytest.mark.parametrize(
    "machine", ["i-{}.us-east-2.compute.internal", "ip-10-0-3-{}", "10.0.3.{}", "app{}.local"]
)
def test_column_of_machines_keeps_replicas_apart_without_names(
    machine: str, tmp_path: Path
) -> None:
    """Stores export it beside the application's name, which is the same for all."""
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows(
        [
            iso(at),
            machine.format(number),
            "app-name",
            log4j(at, line.replace("1111-", f"{number}111-")),
        ]
        for at, line in EVENTS
        for number in (1, 2)
    )
    moves, hosts = replay_text(text.getvalue(), tmp_path)

    assert sorted(moves) == sorted(WANTED * 2)
    assert hosts == {machine.format(1), machine.format(2)}


@pytest.mark.parametrize(
    "text",
    [
        '{"time":"2026-11-20T14:00:00Z","level":"info","msg":"a"}\n' * 3,
        '2026-11-20 14:00:00,123 INFO request {"a":1,"b":2}\n' * 3,
        "Starting the application, please wait\n2026-11-20 14:00:00,123 INFO ready\n",
        '2026-11-20 14:00:00,123 INFO x\n"a","b"\n2026-11-20 14:00:00,123 INFO y\n',
        "2026-11-20T14:00:00.000Z\tINFO\tkgo\tjoined\n" * 3,
        '"name","text"\n"a","b"\n"c","d"\n',
        '"2026-11-20T14:00:00Z"\n"2026-11-20T14:00:01Z"\n',
        '"2026-11-20T14:00:00Z","2026-11-20T14:00:01Z"\n' * 3,
    ],
)
def test_text_with_commas_and_quotes_is_no_table(text: str) -> None:
    assert find_table(text.encode()) is None
