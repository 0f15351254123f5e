"""Fuzz targets of files: captures, logs, configurations, rules, samples."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import msgspec

from agent.errors import ConfigError, DialectError, SourceError
from agent.hub.push_receiver import PushReceiver
from agent.runtime.replay import replay
from agent.sources.base import Tick
from agent.sources.broker_logs.coordinator_interpreter import CoordinatorInterpreter
from agent.sources.broker_logs.source import create_broker_dialects
from agent.sources.capture.pcap_file import signals
from agent.sources.http_events.events import EventError, build_signal, read_events
from agent.sources.lines.dialects.dialect_loader import choose_dialects
from agent.sources.lines.following.live_documents import LiveDocuments
from agent.sources.lines.parsing.line_parser import LineParser
from agent.sources.logs.client_interpreter import ClientInterpreter
from agent.sources.logs.client_parser import create_parser
from agent.sources.statistics.interpreter import StatisticsInterpreter
from agent.sources.statistics.line_parser import StatsParser
from agent.web.basic_auth import Users, parse_credentials
from agent.web.web_config import read_web_config
from agent.wiring.agent_config import effective, load
from aggregation.explain.explanation import explanations
from aggregation.rebalances.rebalances import explain_rebalances
from aggregation.spark.ingest.record_parser import read_line
from metrics.model.sample import decode, encode
from metrics.model.signals import Signal
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker
from tests.fuzz.cursor import Cursor

_ARRIVAL_AT = 1_800_000_000.0
_ACTIONS = ("raise", "follow_up", "streams", "announce", "does")
_VALUES = ("NewMember", "UserRequested", "VersionProbing", "join", "sync", "settle", "nothing")


_broker_dialects = cache(create_broker_dialects)


@contextmanager
def _file(data: bytes) -> Iterator[Path]:
    """Give a file that is in no folder."""
    fd = os.memfd_create("fuzzed")
    try:
        os.write(fd, data)
        yield Path(f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)


def _record(signals: Iterable[Signal | Tick]) -> list[bytes]:
    """Return the samples of signals: every signal of a source must be writable."""
    return [encode(sample) for sample in replay([iter(signals)], Tracker(StatusConfig()))]


def captures(data: bytes) -> None:
    """A pcap or pcapng file, gzipped or not."""
    with _file(data) as path, suppress(SourceError):
        _record(signals([str(path)], "", Counter()))


def log_lines(data: bytes) -> None:
    """A client's log."""
    _in_pieces(
        data, lambda: create_parser(choose_dialects("auto"), ClientInterpreter(stream="s"), "UTC")
    )


def documents(data: bytes) -> None:
    """A growing file that may hold a document; it is settled and restored at any byte."""
    cut, text = Cursor(data).number(), data[1:]

    def create() -> LiveDocuments:
        interpreter = ClientInterpreter(stream="s")
        parser = create_parser(choose_dialects("auto"), interpreter, "UTC")
        return LiveDocuments(parser, "s", "UTC")

    live = create()
    found = live.feed(text[:cut], _ARRIVAL_AT)
    if cut % 2:
        found += live.settle()
    held, state = text[:cut][len(text[:cut]) - live.pending :], live.state()
    live = create()
    live.restore(msgspec.json.decode(msgspec.json.encode(state)))
    found += live.feed(held + text[cut:], _ARRIVAL_AT) + live.settle() + live.flush()
    _record(found)


def broker_logs(data: bytes) -> None:
    """A broker's log."""
    _in_pieces(data, lambda: LineParser(_broker_dialects(), CoordinatorInterpreter(), "UTC"))


def statistics(data: bytes) -> None:
    """librdkafka's statistics, an object a line."""
    _in_pieces(data, lambda: StatsParser(StatisticsInterpreter(stream="s", group="g")))


def _in_pieces(data: bytes, parser: Callable[[], LineParser | StatsParser]) -> None:
    """Read a log whole and in two pieces: both tell the same."""
    cut, text = Cursor(data).number(), data[1:]
    whole = _read(parser(), text)
    assert whole == _read(parser(), text[:cut], text[cut:])
    _record(whole)


def _read(parser: LineParser | StatsParser, *pieces: bytes) -> list[Signal]:
    found = [signal for piece in pieces for signal in parser.feed(piece, _ARRIVAL_AT)]
    return found + parser.flush()


def events(data: bytes) -> None:
    """Events that a process posts over HTTP."""
    with suppress(EventError):
        _record(
            build_signal(event, sender="h", cluster="", arrival_at=_ARRIVAL_AT)
            for event in read_events(data, _ARRIVAL_AT)
        )


def configurations(data: bytes) -> None:
    """A configuration file."""
    with _file(data) as path, suppress(ConfigError):
        effective(load(path, environ={}))


def web_configurations(data: bytes) -> None:
    """TLS, headers and users of the agent's web server; and the credentials of a request."""
    parse_credentials(data.decode("latin-1"))
    with _file(data) as path, suppress(ConfigError):
        hashes = read_web_config(path).basic_auth_users
        if hashes:
            Users(hashes, "basic_auth_users")


def rules(data: bytes) -> None:
    """A user's rule for log lines."""
    cursor = Cursor(data)
    chosen = cursor.number()
    key = _ACTIONS[chosen % len(_ACTIONS)]
    value = _VALUES[chosen // len(_ACTIONS) % len(_VALUES)]
    with suppress(DialectError):
        choose_dialects("auto", [{key: value, "text": cursor.rest().decode(errors="replace")}])


def samples(data: bytes) -> None:
    """A line of a spool file, as Spark, a hub and `explain` take it."""
    with suppress(ValueError):
        read_line(data)
    msgspec.json.encode(_taken(data).checkpoint())
    with suppress(ValueError):
        explanations(explain_rebalances([decode(data)]), 1, None)


def _taken(data: bytes) -> PushReceiver:
    intake = PushReceiver("", StatusConfig())
    intake.apply_lines("spool", data, _ARRIVAL_AT)
    return intake
