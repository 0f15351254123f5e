"""Exceptions after a message, in layouts that write them separately from it.

The log is the recording of Java 2.6.3: it prints the error of a join's response as an exception.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from agent.cli import main

GOLDEN = Path("tests/golden/dialects/java-consumer-2.6-failures/input.log")
ENTRY = re.compile(
    r"^\[(\S+) (\S+),(\d+)\] (\w+) (.*?) \((org[\w.]+)\)((?:\n(?!\[).*)*)", re.MULTILINE
)
Layout = Callable[[str, str, list[str]], str]


def as_json(at: str, message: str, **fields: object) -> str:
    return json.dumps({"@timestamp": at, "level": "INFO", "message": message, **fields})


def name_of(thrown: list[str]) -> str:
    return thrown[0].partition(":")[0]


LAYOUTS: dict[str, Layout] = {
    "logstash-logback-encoder": lambda at, m, t: as_json(
        at, m, **{"stack_trace": "\n".join(t)} if t else {}
    ),
    "ECS": lambda at, m, t: as_json(
        at, m, **{"error.type": name_of(t), "error.stack_trace": "\n".join(t)} if t else {}
    ),
    "log4j2's JsonLayout": lambda at, m, t: as_json(
        at, m, **{"thrown": {"name": name_of(t), "extendedStackTrace": []}} if t else {}
    ),
    "Quarkus": lambda at, m, t: as_json(
        at, m, **{"exception": {"refId": 1, "exceptionType": name_of(t)}} if t else {}
    ),
    "Logback's JsonEncoder": lambda at, m, t: as_json(
        at, m, throwable={"className": name_of(t)} if t else None
    ),
    "GELF": lambda at, m, t: json.dumps(
        {"version": "1.1", "short_message": m, "full_message": "\n".join([m, *t]), "time": at}
    ),
    "lines within the message": lambda at, m, t: as_json(at, "\n".join([m, *t])),
    "rsyslog's #012": lambda at, m, t: f"{at} h app[1]: {at} INFO {'#012'.join([m, *t])}",
    "an escaped end of line": lambda at, m, t: f"{at} INFO " + "\\n".join([m, *t]),
    "a cell of several lines": lambda at, m, t: '"{}","{}"'.format(at, "\n".join([m, *t])),
    "java.util.logging's XML": lambda at, m, t: (
        f"<record>\n<date>{at}</date>\n<message>{at} {m}</message>\n"
        + (f"<exception>\n<message>{t[0]}</message>\n</exception>\n" if t else "")
        + "</record>"
    ),
    "log4j's XML": lambda at, m, t: (
        f'<log4j:event logger="x" level="INFO">\n<log4j:message>{at} {m}</log4j:message>\n'
        + (f"<log4j:throwable><![CDATA[{t[0]}]]></log4j:throwable>\n" if t else "")
        + "</log4j:event>"
    ),
}


def replay(path: Path) -> list[tuple[str, int, str]]:
    done = CliRunner().invoke(main, ["replay", "--source", "logs", "--timezone", "UTC", str(path)])
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return [(row["client_id"], row["to"], row["ts"]) for row in rows]


@pytest.mark.parametrize("name", LAYOUTS)
def test_exception_is_read_with_its_message(name: str, tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    entries = ENTRY.findall(GOLDEN.read_text())
    path.write_text(
        "\n".join(
            LAYOUTS[name](f"{day}T{clock}.{ms}Z", message, thrown.split("\n")[1:])
            for day, clock, ms, _, message, _, thrown in entries
        )
        + "\n"
    )

    found = replay(path)

    assert found == replay(GOLDEN)
    assert sum(to == 9 for _, to, _ in found) == 3
