"""Documents and copies with the lines of two replicas, whose names a column, a key or a header has.

The shapes are those of OpenSearch Dashboards, the Logs Explorer's CSV, `az -o yaml`, spreadsheets,
pages, and a loop over pods.
"""

import csv
import io
import json
import quopri
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from textwrap import wrap

import pytest
import yaml

from agent.sources.lines.whole_files.wrapped_lines import find_word_wrapping
from tests.agent.sources.lines.test_origins_of_stores import replicas
from tests.agent.sources.lines.test_posted_forms import (
    EVENTS,
    WANTED,
    iso,
    lines,
    log4j,
    ms,
    replay,
)

PODS = {1: "pay-7d9f8b6c5-x7k2p", 2: "pay-7d9f8b6c5-q9w4z"}
Rows = list[tuple[datetime, str, int]]
ROWS: Rows = [
    (EVENTS[index][0] + timedelta(seconds=0.2 * n), text, n) for index, _, text, n in replicas()
]


def table(names: list[str], delimiter: str = ",") -> Callable[[Rows], str]:
    """Return the writer of a CSV with columns of a time, a pod and a message, newest first."""

    def write(rows: Rows) -> str:
        file = io.StringIO()
        writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        writer.writerow(names)
        for at, text, n in rows[::-1]:
            writer.writerow([iso(at), PODS[n], log4j(at, text)])
        return file.getvalue()

    return write


def page(rows: Rows) -> str:
    cells = "".join(
        f"<tr><td>{iso(at)}</td><td>{PODS[n]}</td><td>{text}</td></tr>\n" for at, text, n in rows
    )
    return f"<html><table><tr><th>Time</th><th>Pod</th><th>Text</th></tr>\n{cells}</table></html>"


def loop(header: str) -> Callable[[Rows], str]:
    """Return the writer of one log behind the other, each below a header."""
    return lambda rows: "".join(
        "\n".join(
            (header.format(PODS[pod]), *(log4j(at, text) for at, text, n in rows if n == pod))
        )
        + "\n"
        for pod in PODS
    )


def as_yaml(rows: Rows) -> str:
    return yaml.safe_dump(
        [
            {"PodName": PODS[n], "Log_s": text, "TimeGenerated": iso(at)}
            for at, text, n in rows[::-1]
        ]
    )


def as_yaml_of_aws(rows: Rows) -> str:
    events = [
        {"logStreamName": f"pay/app/{n}", "timestamp": ms(at), "message": text}
        for at, text, n in rows
    ]
    return yaml.safe_dump({"events": events})


OF_TWO: dict[str, Callable[[Rows], str]] = {
    "OpenSearch's CSV": table(["_source.@timestamp", "_source.kubernetes.pod_name", "_source.log"]),
    "Splunk's CSV of results": table(["result._time", "result.host", "result._raw"]),
    "Datadog's CSV of attributes": table(
        ["attributes.timestamp", "attributes.host", "attributes.message"]
    ),
    "the Logs Explorer's CSV": table(
        ["timestamp", "resource.labels.pod_name", "jsonPayload.message"]
    ),
    "a spreadsheet's semicolons": table(["Zeitstempel", "Pod", "Meldung"], ";"),
    "a page's table": page,
    "a loop over pods": loop("=== {} ==="),
    "a loop over pods, with a rule": loop("----- pod/{} -----"),
    "a loop over pods, without an end": loop("### {}"),
    "a loop over pods, in angles": loop(">>> {} <<<"),
    "Ansible's hosts": loop("{} | CHANGED | rc=0 >>"),
    "pssh's hosts": loop("[1] 13:20:05 [SUCCESS] {}"),
    "az -o yaml": as_yaml,
    "aws --output yaml": as_yaml_of_aws,
}


@pytest.mark.parametrize("form", OF_TWO)
def test_replicas_in_a_document_are_told_apart(form: str, tmp_path: Path) -> None:
    moves, _ = replay(OF_TWO[form](ROWS), tmp_path)

    assert sorted(moves) == sorted(WANTED * 2)


OF_ONE = {
    "a mail in quoted-printable": (
        "From: a@example.org\nContent-Transfer-Encoding: quoted-printable\n\n"
        + quopri.encodestring(f"{lines(log4j)}\n".encode()).decode()
    ),
    "Ansible's lines": json.dumps(
        {"changed": True, "cmd": "docker logs pay", "stdout_lines": lines(log4j).splitlines()},
        indent=4,
    ),
}


@pytest.mark.parametrize("form", OF_ONE)
def test_document_of_one_is_read_with_its_times(form: str, tmp_path: Path) -> None:
    assert replay(OF_ONE[form], tmp_path)[0] == WANTED


@pytest.mark.parametrize("width", [72, 100, 120])
@pytest.mark.parametrize("mark", ["", "> "])
@pytest.mark.parametrize("logger", ["a.B", "org.apache.kafka.clients.consumer.internals.C"])
def test_mail_that_is_wrapped_between_words_is_read(
    width: int, mark: str, logger: str, tmp_path: Path
) -> None:
    wrapped = [
        mark + part
        for line in lines(lambda at, text: log4j(at, f"[main] {logger} - {text}")).splitlines()
        for part in wrap(line, width, break_long_words=False, break_on_hyphens=False)
    ]
    words = "Hello,\n\nthis is what we see:\n\n"

    assert replay(words + "\n".join(wrapped) + "\n\nRegards", tmp_path)[0] == WANTED


def test_stack_trace_is_no_wrapped_line(tmp_path: Path) -> None:
    """Nor is a line of a person's between those of a log."""
    text = lines(
        lambda at, text: f"{log4j(at, text)}\njava.io.IOException: x\n\tat a.B.c(D.java:1)"
    )

    assert find_word_wrapping(text.encode()) is None
    assert replay(text, tmp_path)[0] == WANTED


@pytest.mark.parametrize("prefix", ["pay-{}  | ", "\x1b[36mpay-{}  | \x1b[0m", "[pod/pay-{}/app] "])
def test_indented_objects_of_two_streams_alternate(prefix: str, tmp_path: Path) -> None:
    """As log4j2's JsonLayout prints them, line by line in turns."""
    streams = [
        [
            prefix.format(n) + line
            for at, text, of in ROWS
            if of == n
            for line in json.dumps({"timestamp": iso(at), "message": text}, indent=2).splitlines()
        ]
        for n in PODS
    ]
    turns = [line for pair in zip(*streams, strict=True) for line in pair]

    moves, hosts = replay("\n".join(turns), tmp_path)

    assert sorted(moves) == sorted(WANTED * 2)
    assert hosts == {"pay-1", "pay-2"}


def test_object_behind_a_name_that_never_ends_hides_no_line(tmp_path: Path) -> None:
    text = "pay-1  | {\npay-2  | x\n" + lines(lambda at, text: f"pay-2  | {log4j(at, text)}")

    assert replay(text, tmp_path)[0] == WANTED


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_text_in_utf_16_without_a_mark_is_read(encoding: str, tmp_path: Path) -> None:
    """As a piece of a log that PowerShell wrote."""
    text = lines(log4j).encode(encoding).decode("latin-1")

    assert replay(text, tmp_path)[0] == WANTED


def test_ruler_of_a_log_is_no_header(tmp_path: Path) -> None:
    text = lines(lambda at, text: f"=== started-{at.second} ok ===\n---\n{log4j(at, text)}")

    assert replay(text, tmp_path)[0] == WANTED
