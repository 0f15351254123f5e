"""Logs as they are pasted: quoted, numbered, fenced, indented, and two of these at once."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.sources.lines.whole_files.exports import normalise
from tests.agent.sources.lines.test_origins_of_stores import replicas
from tests.agent.sources.lines.test_posted_forms import (
    EVENTS,
    NEWEST_FIRST,
    WANTED,
    iso,
    lines,
    log4j,
    ms,
    replay,
)

PLAIN = lines(log4j)
ARRAY = json.dumps([{"timestamp": iso(at), "message": text} for at, text in NEWEST_FIRST], indent=1)
ONE_LINE = json.dumps([{"timestamp": iso(at), "message": text} for at, text in NEWEST_FIRST])


def _as_table() -> str:
    table = io.StringIO()
    rows = csv.writer(table, lineterminator="\n")
    rows.writerow(("@timestamp", "message"))
    rows.writerows((iso(at), text) for at, text in NEWEST_FIRST)
    return table.getvalue().rstrip("\n")


CONTENTS = {
    "lines": PLAIN,
    "compose": "\n".join(f"pay-1  | {line}" for line in PLAIN.split("\n")),
    "an array": ARRAY,
    "an array in one line": ONE_LINE,
    "a table": _as_table(),
    "an object a line": lines(lambda at, text: json.dumps({"time": iso(at), "msg": text})),
}


def before_each(mark: Callable[[int], str]) -> Callable[[str], str]:
    return lambda text: "\n".join(mark(i) + line for i, line in enumerate(text.split("\n"), 98))


MARGINS: dict[str, Callable[[str], str]] = {
    "a quotation": before_each(lambda _: "> "),
    "a quotation without blanks": before_each(lambda _: ">"),
    "an indented block": before_each(lambda _: "    "),
    "tabs": before_each(lambda _: "\t"),
    "items of a list": before_each(lambda _: "- "),
    "numbers of cat": before_each(lambda i: f"{i:6}\t"),
    "numbers of grep": before_each(lambda i: f"{i}: "),
    "a fence": lambda text: f"```\n{text}\n```",
    "a fence with a language, below words": lambda text: f"Our log:\n\n```json\n{text}\n```\nWhy?",
    "Jira's fence": lambda text: f"{{code:title=app.log}}\n{text}\n{{code}}",
    "a command above": lambda text: f"$ kubectl logs payments-0 > x\n{text}",
    "compose": before_each(lambda _: "pay-1  | "),
    "a quoted fence": lambda text: before_each(lambda _: "> ")(f"```\n{text}\n```"),
    "quoted lines of compose": before_each(lambda _: "> pay-1  | "),
    "a page": lambda text: f"<pre>{text.replace('<', '&lt;')}</pre>",
    "breaks of a page": lambda text: text.replace("\n", "<br>\n"),
    "escapes that less prints": before_each(lambda _: "ESC[32m"),
}


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("margin", MARGINS)
def test_pasted_log_is_read_as_it_was(margin: str, content: str, tmp_path: Path) -> None:
    moves, hosts = replay(MARGINS[margin](CONTENTS[content]), tmp_path)

    assert moves == WANTED
    assert content != "compose" or hosts == {"pay-1"}


@pytest.mark.parametrize("content", CONTENTS)
def test_coloured_document_is_read(content: str, tmp_path: Path) -> None:
    text = before_each(lambda _: "\x1b[1;39m")(CONTENTS[content])

    assert replay(text.replace("\n", "\x1b[0m\n"), tmp_path)[0] == WANTED


@pytest.mark.parametrize("margin", MARGINS)
@pytest.mark.parametrize("content", ["an array", "a table"])
def test_pasted_log_in_utf_16_is_read(margin: str, content: str, tmp_path: Path) -> None:
    path = tmp_path / "utf16.txt"
    path.write_text(MARGINS[margin](CONTENTS[content]), encoding="utf-16", newline="\r\n")
    data = path.read_bytes()

    found = list(normalise(iter([(data[:333], 1.9e9), (data[333:], 1.9e9)]), "UTC"))

    wanted = list(normalise(iter([(CONTENTS[content].encode(), 1.9e9)]), "UTC"))
    read = b"".join(each for each, _ in found).decode().replace("\r", "")
    assert [line for line in read.splitlines() if "clientId" in line] == [
        line for line in wanted[0][0].decode().splitlines() if "clientId" in line
    ]


def test_answer_between_quoted_lines_stays() -> None:
    text = b"> 2026-11-21 06:33:40 a\n> 2026-11-21 06:33:41 b\nWhat is that?\n"

    found = b"".join(data for data, _ in normalise(iter([(text, 1.9e9)]), "UTC"))

    assert found == b"2026-11-21 06:33:40 a\n2026-11-21 06:33:41 b\nWhat is that?\n"


def test_code_of_markdown_below_words_has_its_names(tmp_path: Path) -> None:
    """Words above are not indented; the lines of two replicas are."""
    log = "\n".join(
        f"    pay-{n}  | {log4j(EVENTS[index][0], text)}" for index, _, text, n in replicas()
    )

    moves, hosts = replay(f"Hello,\n\nthis is what I see:\n\n{log}\n\nAny idea?", tmp_path)

    assert sorted(moves) == sorted(WANTED * 2)
    assert hosts == {"pay-1", "pay-2"}


def test_trace_that_is_indented_keeps_its_indentation() -> None:
    text = b"2026-11-21 06:33:40 a\n\tat b\n\tat c\n"

    assert list(normalise(iter([(text, 1.9e9)]), "UTC")) == [(text, 1.9e9)]


FORMS = {
    "Dynatrace": json.dumps({"records": [{"timestamp": iso(a), "content": t} for a, t in EVENTS]}),
    "Dozzle": lines(lambda at, text: json.dumps({"m": text, "ts": ms(at), "s": "stdout"})),
    "Better Stack": lines(
        lambda at, text: json.dumps({"dt": iso(at), "raw": json.dumps({"message": text})})
    ),
    "Fluent Bit's file": lines(
        lambda at, text: f"app.log: [{at.timestamp():.6f}, {json.dumps({'log': text})}]"
    ),
    "compose within journald": lines(
        lambda at, text: json.dumps(
            {
                "__REALTIME_TIMESTAMP": str(ms(at) * 1000),
                "MESSAGE": f"pay-1  | {json.dumps({'msg': text})}",
            }
        )
    ),
    "a line within Vector's logfmt": lines(
        lambda at, text: f"host=h message={json.dumps(log4j(at, text))} timestamp={iso(at)}"
    ),
    "Jenkins": lines(lambda at, text: f"01:02:03  {log4j(at, text)}"),
    "Jenkins's stamps": lines(lambda at, text: f"[2026-11-24T01:02:03.456Z] {log4j(at, text)}"),
    "TeamCity": lines(lambda at, text: f"[01:02:03] :\t [Step 1/2] {log4j(at, text)}"),
    "a spreadsheet": lines(lambda at, text: f"24/11/2026 01:02:03\t{log4j(at, text)}"),
    "Rancher": lines(lambda at, text: f"Tue, Nov 24 2026 1:02:03 AM {log4j(at, text)}"),
    "Portainer": lines(lambda at, text: f"2026/11/24 01:02:03 {log4j(at, text)}"),
}


@pytest.mark.parametrize("form", FORMS)
def test_own_time_and_text_within_another_form_count(form: str, tmp_path: Path) -> None:
    assert replay(FORMS[form], tmp_path)[0] == WANTED


def test_end_of_a_log_has_the_date_that_its_lines_have(tmp_path: Path) -> None:
    """The time of a build server has no date; the file may be changed weeks later."""
    text = "\n".join(f"01:02:03  {line}" for line in PLAIN.split("\n")[:4])

    assert replay(text, tmp_path)[0] == WANTED[:3]


def test_bracket_before_a_name_is_no_colour(tmp_path: Path) -> None:
    text = lines(lambda at, text: f"ESC[32m{at:%Y-%m-%d %H:%M:%S},123 INFO [main] [m1] {text}ESC[m")

    assert replay(text, tmp_path)[0] == WANTED
    assert b"[m1]" in b"".join(data for data, _ in normalise(iter([(text.encode(), 1.9e9)]), "UTC"))
