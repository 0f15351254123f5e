"""Fuzz targets of what is read from files: captures, logs, configurations, rules, samples."""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agent.config import load
from agent.errors import ConfigError, DialectError, SourceError
from agent.sources.dialect import choose
from agent.sources.interpreter import Interpreter
from agent.sources.log_parser import LogParser
from agent.sources.pcap_file import signals
from aggregation.spark.lines import read_line
from metrics.signals import Signal
from tests.fuzz.cursor import Cursor

_ARRIVAL_AT = 1_800_000_000.0
_ACTIONS = ("raise", "follow_up", "streams", "announce", "does")
_VALUES = ("NewMember", "UserRequested", "VersionProbing", "join", "sync", "settle", "nothing")


@contextmanager
def _file(data: bytes) -> Iterator[Path]:
    """Give a file that is in no folder."""
    fd = os.memfd_create("fuzzed")
    try:
        os.write(fd, data)
        yield Path(f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)


def captures(data: bytes) -> None:
    """A pcap or pcapng file, gzipped or not."""
    with _file(data) as path, suppress(SourceError):
        for _ in signals([str(path)], "", Counter()):
            pass


def log_lines(data: bytes) -> None:
    """A log, whole and in two pieces: both tell the same."""
    cut = Cursor(data).number()
    text = data[1:]
    assert _signals(text) == _signals(text[:cut], text[cut:])


def _signals(*pieces: bytes) -> list[Signal]:
    parser = LogParser(choose("auto"), Interpreter(stream="s"), "UTC")
    found = [signal for piece in pieces for signal in parser.feed(piece, _ARRIVAL_AT)]
    return found + parser.flush()


def configurations(data: bytes) -> None:
    """A configuration file."""
    with _file(data) as path, suppress(ConfigError):
        load(path, environ={})


def rules(data: bytes) -> None:
    """A user's rule for log lines."""
    cursor = Cursor(data)
    chosen = cursor.number()
    key = _ACTIONS[chosen % len(_ACTIONS)]
    value = _VALUES[chosen // len(_ACTIONS) % len(_VALUES)]
    with suppress(DialectError):
        choose("auto", [{key: value, "text": cursor.rest().decode(errors="replace")}])


def samples(data: bytes) -> None:
    """A line of a spool file."""
    with suppress(ValueError):
        read_line(data)
