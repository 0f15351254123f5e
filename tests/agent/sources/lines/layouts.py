"""Recorded logs in other layouts: texts after the message."""

import json
import re
from collections.abc import Callable, Sequence
from itertools import cycle, islice

import msgspec
from msgspec.structs import replace

from metrics.model.signals import Signal

_LOGGER = re.compile(rb" \((?:org\.apache\.|aio)?kafka\.[\w.$]+(?::\d+)?\)$", re.MULTILINE)

_BEHIND = (
    b"",
    b" ",
    b" [http-nio (q) #1]",
    b" (o.a.k.c.c.i.ConsumerCoordinator)",
    b" (ConsumerCoordinator.java:1082)",
    b" - ConsumerCoordinator",
    b" {traceId=8c1, spanId=2}",
    b" traceId=8c1 spanId=2",
    b"\tmain",
    b'"',
    b'" thread=main',
    b"\x1b[0;39m",
)
"""What layouts put behind the message, where Kafka's own puts the logger's class."""
BEHIND_SHIFTS = range(0, len(_BEHIND), 4)
_AS_KAFKA = re.compile(
    rb"^\[(?P<day>\S+) (?P<clock>[\d:]+),(?P<ms>\d+)\] (?P<level>\w+) (?P<message>.*?)"
    rb"(?: \((?P<logger>(?:org\.apache\.|aio)?kafka\.[\w.$]+)(?::\d+)?\))?$",
    re.MULTILINE,
)
LAYOUTS = {
    "logfmt": rb'time=\g<day>T\g<clock>.\g<ms>Z msg="\g<message>" logger=\g<logger>',
    "loguru": b"\x1b[32m\\g<day> \\g<clock>.\\g<ms>\x1b[0m | \x1b[1m\\g<message>\x1b[0m",
    "Quarkus": rb"\g<day> \g<clock>,\g<ms> \g<level>  [\g<logger>] (main) \g<message>",
    "rich": rb"[\g<day> \g<clock>.\g<ms>] \g<level>     \g<message>      base.py:123",
}


def _as_otlp(lines: list[str]) -> str:
    """Return batches of 50 records a line, as the collector's file exporter writes them."""
    records = [{"body": {"stringValue": line}} for line in lines]
    return "".join(
        json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": records[at : at + 50]}]}]})
        + "\n"
        for at in range(0, len(records), 50)
    )


def _as_cell(line: str) -> str:
    quoted = line.replace('"', '""')
    return f'"{quoted}"\n'


COLLECTORS: dict[str, Callable[[list[str]], str]] = {
    "OTLP in batches": _as_otlp,
    "strings that jq prints": lambda lines: "".join(f"{json.dumps(line)}\n" for line in lines),
    "a list of strings, indented": lambda lines: json.dumps(lines, indent=2) + "\n",
    "cells of a table": lambda lines: "".join(map(_as_cell, lines)),
    "blanks behind": lambda lines: "".join(f"{line}  \t\n" for line in lines),
    "kubectl logs --prefix": lambda lines: "".join(f"[pod/p-1/app] {line}\n" for line in lines),
}


def as_collected(log: bytes, name: str) -> bytes:
    """Add the text of a collector or a copy around each line."""
    return COLLECTORS[name](log.decode().splitlines()).encode()


def as_nlog(log: bytes) -> bytes:
    """Put a request behind each line, as NLog's layout for ASP.NET does."""
    return b"".join(line + b"|url: |action: \n" for line in log.splitlines())


def as_strimzi(log: bytes) -> bytes:
    """Put the thread behind the class, as `%m (%c) [%t]%n` does."""
    return _LOGGER.sub(rb"\g<0> [data-plane-kafka-request-handler-3]", log)


def with_behind(log: bytes, shift: int) -> bytes:
    """Replace the name of the class by another text, a different one in each line."""
    behind = islice(cycle(_BEHIND), shift, None)
    return _LOGGER.sub(lambda _: next(behind), log)


def in_layout(log: bytes, name: str) -> bytes:
    """Print a log in Kafka's layout in another one."""
    return _AS_KAFKA.sub(LAYOUTS[name], log)


def assert_same_but_for_the_ends_of_reasons(
    found: Sequence[Signal], wanted: Sequence[Signal]
) -> None:
    """Only texts with an open end, such as a user's reason, may contain the text after them."""
    assert list(map(_without_reasons, found)) == list(map(_without_reasons, wanted))
    for signal, plain in zip(found, wanted, strict=True):
        for reason, plain_reason in zip(_reasons(signal), _reasons(plain), strict=True):
            assert reason.startswith(plain_reason.rstrip())  # a layout may cut blanks off


def _reasons(signal: Signal) -> list[str]:
    got = (signal, signal.follow_up, signal.streams_follow_up)
    return [each.reason or "" for each in got if each is not None]


def _without_reasons(signal: Signal) -> Signal:
    follow_ups = {
        name: follow_up and replace(follow_up, reason=None)
        for name in ("follow_up", "streams_follow_up")
        for follow_up in [getattr(signal, name)]
    }
    return msgspec.structs.replace(signal, reason=None, **follow_ups)
