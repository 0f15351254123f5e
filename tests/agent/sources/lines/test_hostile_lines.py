"""Hostile lines in a followed file: their cost grows with their length, and memory is bounded.

Costs are compared with each other: four times the bytes take about four times as long, and sixteen
times where a rule is quadratic.
"""

import re
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from agent.sources.lines.dialects.backtracking import bound_cost
from agent.sources.lines.dialects.dialect_loader import _bound_repeats
from agent.sources.lines.fields.inspected_objects import as_json, join_inspected
from agent.sources.lines.fields.structured_text import structure
from agent.sources.lines.parsing.line_parser import LINE_LIMIT
from agent.sources.lines.whole_files.copied_text import COPIES
from agent.sources.lines.whole_files.documents import TABLE, find_growing
from agent.sources.lines.whole_files.printed_tables import find_printed_table
from agent.sources.lines.whole_files.wrapped_lines import Wrapping, join_wrapped
from tests.agent.sources.lines.following.test_live_documents import Live
from tests.agent.sources.lines.test_posted_forms import EVENTS, log4j

Make = Callable[[int], bytes]
_SIZE, _TIMES = 1 << 15, 4
_RATIO_MAX = 9.0
"""Between 4 (linear) and 16 (quadratic)."""
_TOO_SHORT_S = 0.02
"""CPU time that is lost in the noise of a machine; a quadratic rule takes a hundred times as long
as that."""
CLIENT = b"[Consumer clientId=c, groupId=g] "
JOIN = b"Request joining group due to: x"
HOSTILE: dict[str, Make] = {
    "begins of a client": lambda n: CLIENT * (n // len(CLIENT)) + b"\n",
    "no line end": lambda n: CLIENT * (n // len(CLIENT)),
    "zero bytes": lambda n: b"\0[Consumer \0" * (n // 12) + b"\n",
    "no UTF-8": lambda n: b"\xff\xfe[Consumer \xc3" * (n // 13) + b"\n",
    "nested objects": lambda n: b'{"message":"[Consumer ","a":' + b'{"a":' * (n // 5) + b"\n",
    "nested lists": lambda n: b'{"message":"[Consumer ","a":' + b"[" * n + b"\n",
    "one key again and again": lambda n: (
        b"{" + b'"message":"[Consumer ",' * (n // 23) + b'"a":1}\n'
    ),
    "digits": lambda n: b'{"message":"[Consumer ","time":' + b"9" * n + b"}\n",
    "a stack trace": lambda n: CLIENT + JOIN + b"\n" + b"\tat a.b.C(D.java:1)\n" * (n // 20),
    "years out of range": lambda n: (
        (b"9999-12-31 23:59:59,999 INFO " + CLIENT + JOIN + b"\n") * (n // 90)
    ),
    "XML without ends": lambda n: b"<Event xmlns=''>\n" * (n // 17),
    "XML of messages without ends": lambda n: (
        b"<Event xmlns=''>" + b"<Message>" * (n // 9) + b"</Event>\n"
    ),
    "XML of entries within others": lambda n: (
        b"<record>" * (n // 8) + b"<Event xmlns=''></Event>\n"
    ),
    "Splunk's results without ends": lambda n: (
        b"<results preview='0'>\n" + b"<result>" * (n // 8) + b"\n"
    ),
    "Splunk's fields without ends": lambda n: (
        b"<results preview='0'>\n<result>" + b"<field k='a'><v>" * (n // 16) + b"</result>\n"
    ),
    "blanks of a console": lambda n: b" INFO x    1:20:08 PM\n" * 3 + b" INFO " + b" " * n + b"\n",
    "a tree without an end": lambda n: (
        b"2026 INFO x\n" + "          \u251c a=b\n".encode() * (n // 18)
    ),
    "CEF's fields": lambda n: (
        b"CEF:0|a|b|c|d|e|f|msg=x\n" + b"CEF:0|a|b|c|d|e|f|" + b"msg=x " * (n // 6) + b"\n"
    ),
    "empty lines of an event": lambda n: (
        b"Event[0]:\n  Log Name: a\n" + b"\n" * n + b"Description:\nx\n"
    ),
    "empty lines of a resource": lambda n: (
        b"ResourceLog #0\n" + b" \n" * (n // 2) + b"LogRecord #0\nBody: Str(x)\n"
    ),
    "backslashes before a number": lambda n: CLIENT + b"\\" * n + b"u003d\\u003d\n",
    "escapes": lambda n: CLIENT + b"\\u003d" * (n // 6) + b"\n",
    "fields with tabs": lambda n: b"time:1\tmessage:" + CLIENT + b"\ta:b" * (n // 4) + b"\n",
    "base64 without an end": lambda n: b'"data":"' * 9 + b"A" * n + b"\n",
    "objects in a text": lambda n: (
        b'{"message":"{' + CLIENT + b"\\n{[Consumer " * (n // 13) + b'"}\n'
    ),
    "objects in unknown ones": lambda n: (
        b'{"a":' * 4 + b'{"b":"' + CLIENT + b"x " * (n // 2) + b'"}' + b"}" * 4 + b"\n"
    ),
    "names in unknown objects": lambda n: (
        b'{"time":1,"message":"'
        + CLIENT
        + b'","a":{'
        + b",".join(b'"host%d":"a"' % k for k in range(n // 12))
        + b"}}\n"
    ),
    "headers of tail": lambda n: b"==> a.log <==\n" * (n // 14),
    "blanks in a field of an event": lambda n: (
        b"Event[0]:\n  Log Name: a\n  Date: " + b" " * n + b"x\nDescription:\nx\n"
    ),
    "blanks in a field of PowerShell's": lambda n: (
        b"TimeCreated : 2026\nId : " + b" " * n + b"x\nMessage : x\n"
    ),
    "bodies without ends": lambda n: (
        b"ResourceLog #0\nLogRecord #0\n" + b"Body: Str(\n" * (n // 11)
    ),
    "a quote in a table without its end": lambda n: (
        b'"timestamp","message"\n"2026-11-20T13:20:00Z,"a"\n' + b'"a","b"\n' * (n // 8)
    ),
    "values of a message": lambda n: (
        b'{"message":"'
        + CLIENT
        + b"{}" * (n // 4)
        + b'","time":1,"arguments":['
        + b"1," * (n // 4)
        + b"1]}\n"
    ),
}


def cost(data: bytes, folder: Path) -> float:
    """Return the CPU seconds of a file that has grown by some bytes; a plain line must follow."""
    folder.mkdir()
    live = Live(folder)
    began_at = time.process_time()
    live.append(data)
    live.append(b"\n" + log4j(*EVENTS[3]).encode() + b"\n")
    live.wait()
    took_s = time.process_time() - began_at
    held = sum(tail.half_bytes for tail in live.source._tails.values())
    live.close()
    assert held <= max(2 * LINE_LIMIT, len(data) + 512)
    return took_s


@pytest.mark.parametrize("name", HOSTILE)
def test_cost_of_hostile_bytes_is_linear(name: str, tmp_path: Path) -> None:
    few, many = (
        min(cost(HOSTILE[name](size), tmp_path / f"{size}-{number}") for number in range(2))
        for size in (_SIZE, _SIZE * _TIMES)
    )

    assert many < _RATIO_MAX * max(few, _TOO_SHORT_S)


_, find_row_end = find_growing(TABLE, b'"timestamp","message"\n')
_WRAPPED, _WRAPPING = b"y" * 60 + b"\n", Wrapping(60, frozenset([b"000"]))
MARKS = next(copy for copy in COPIES if copy.name == "marks")


@pytest.mark.parametrize(
    ("change", "make"),
    [
        (lambda n: join_inspected(b"  {\n" * n), "objects within objects"),
        (lambda n: as_json("\\'" * n), "escaped quotes"),
        (lambda n: list(join_wrapped(iter([(_WRAPPED * n, 0.0)]), _WRAPPING)), "wrapped lines"),
        (lambda n: MARKS.change(b" " * n + b"x"), "blanks before a mark"),
        (lambda n: find_row_end(b'"\n' + b'"a","b"\n' * n), "rows behind a quote"),
        (lambda n: find_printed_table(b"-" * n + b"\n" + b" " * n + b"\n" + b"| " * n), "rulers"),
        (lambda n: find_printed_table(b"a | b\n---+---\n" + b"|" * n + b"\n" * n), "bars"),
        (lambda n: find_printed_table((b"a : " + b" " * n + b"\n") * 3 + b"\n"), "records"),
        (lambda n: structure("(group=" * n + ")", "", None), "fields in parentheses"),
        (lambda n: structure(" (group=[" + "[" * n + ")", "", None), "lists in parentheses"),
        (lambda n: structure(" (group=a" + ", " * n + ")", "", None), "empty fields"),
        (lambda n: _bound_repeats("[a" * n), "a rule's classes without an end"),
        (lambda n: bound_cost("[a" * n), "classes of a rule that is checked"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_cost_of_an_expression_is_linear(change: Callable[[int], object], make: str) -> None:
    costs = []
    for number in (1 << 12, 1 << 14):
        began_at = time.process_time()
        with suppress(re.error):
            change(number)
        costs.append(time.process_time() - began_at)

    assert costs[1] < _RATIO_MAX * max(costs[0], _TOO_SHORT_S), make


@pytest.mark.parametrize("row", [b"x\n", b'""\n', b'"a","b"\n'])
def test_an_open_cell_of_short_lines_costs_less_than_a_list_of_its_lines(row: bytes) -> None:
    """A text of 16 MiB stopped the agent's pages for ten seconds, on a busy machine."""
    data = b'"a\n' + row * (4_000_000 // len(row))
    began_at = time.process_time()
    data.splitlines()
    lines_s = time.process_time() - began_at
    began_at = time.process_time()
    end = find_row_end(data)
    took_s = time.process_time() - began_at

    assert end == 0
    assert took_s < 2 * max(lines_s, _TOO_SHORT_S)


@pytest.mark.parametrize("name", ["no line end", "zero bytes", "nested objects", "digits"])
def test_lines_behind_hostile_bytes_are_read(name: str, tmp_path: Path) -> None:
    live = Live(tmp_path)
    live.append(HOSTILE[name](3 << 20))

    live.append(b"\n" + b"".join(log4j(*event).encode() + b"\n" for event in EVENTS))
    live.wait()

    assert [signal.member.client_id for signal in live.signals if signal.member.group == "pay"]
    live.close()
