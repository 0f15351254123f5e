"""Files of `replay`: grouped by source, and read as streams of signals."""

import socket
import sys
import time
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import click

from agent.errors import ConfigError
from agent.runtime.replay import order_by_time
from agent.sources.base import Tick
from agent.sources.broker_logs.coordinator_interpreter import CoordinatorInterpreter
from agent.sources.broker_logs.source import create_broker_dialects
from agent.sources.lines.dialect_matcher import Dialects
from agent.sources.lines.line_parser import LineParser
from agent.sources.lines.recordings import STDIN, UTF_16, Failed, Recording, recordings
from agent.sources.logs.client_interpreter import ClientInterpreter
from agent.sources.logs.client_parser import create_parser
from agent.sources.statistics.interpreter import StatisticsInterpreter
from agent.sources.statistics.line_parser import StatsParser
from metrics.exporters.points import printable
from metrics.model.signals import Signal

Stream = Iterator[Signal | Tick]

_PROGRESS_AFTER_S = 2.0
_TAIL_BYTES, _HEAD_BYTES = 64 << 10, 1_000
_NO_CLIENT = "no line of a client's log that is known; rebalance-agent dialects lists them"
_NO_BROKER = "no line of a broker's group coordinator"
_NO_STATISTICS = "no statistics of librdkafka, which are JSON, an object a line"


class RecordingKind(StrEnum):
    """Source type of a recorded file."""

    LOGS = "logs"
    BROKER_LOG = "broker_log"
    STATS = "stats"
    PCAP = "pcap"


LOGS_AND_PCAP = "logs,pcap"
SOURCES = (*(kind.value for kind in RecordingKind), LOGS_AND_PCAP)


def group_by_kind(source: str | None, paths: Sequence[str]) -> dict[RecordingKind, list[str]]:
    """Return the files by kind: of ``KIND:PATH``, else of ``source``.

    Raises:
        click.UsageError: a path without a kind.
    """
    found: dict[RecordingKind, list[str]] = {kind: [] for kind in RecordingKind}
    for path in paths:
        name, colon, rest = path.partition(":")
        if colon and name in found:
            found[RecordingKind(name)].append(rest)
        elif source is None:
            wanted = "--source SOURCE, or SOURCE:PATH where the files are of several"
            raise click.UsageError(f"PATH {path!r}: found no source, wanted {wanted}")
        elif source == LOGS_AND_PCAP:
            found[RecordingKind.PCAP if _is_capture(path) else RecordingKind.LOGS].append(path)
        else:
            found[RecordingKind(source)].append(path)
    return found


def create_parsers(
    files: Mapping[RecordingKind, Sequence[str]],
    dialects: Dialects,
    cluster: str,
    timezone: str | None,
) -> dict[Recording, LineParser]:
    """Create a parser for each log of a client or of a broker."""
    host = socket.gethostname()
    clients = {
        recording: create_parser(
            dialects,
            ClientInterpreter(stream=recording.stream, cluster=cluster, host=host),
            timezone,
        )
        for recording in recordings(files[RecordingKind.LOGS])
    }
    brokers = {
        recording: LineParser(create_broker_dialects(), CoordinatorInterpreter(cluster), timezone)
        for recording in recordings(files[RecordingKind.BROKER_LOG])
    }
    return clients | brokers


def read_logs(parsers: Mapping[Recording, LineParser], failed: Failed) -> list[Stream]:
    """Return the signals of logs; ``failed`` takes the files that cannot be read."""
    return [_read_log(recording, parser, failed) for recording, parser in parsers.items()]


def read_statistics(
    paths: Sequence[str], cluster: str, group: str | None, failed: Failed
) -> list[Stream]:
    """Return the signals of librdkafka's statistics; ``group`` is for those without one."""
    host = socket.gethostname()
    views = {
        recording: StatisticsInterpreter(
            stream=f"stats:{recording.stream}", group=group, cluster=cluster, host=host
        )
        for recording in recordings(paths)
    }
    return [_read_statistics_file(recording, view, failed) for recording, view in views.items()]


def read_captures(paths: Sequence[str], cluster: str, failed: Failed) -> list[Stream]:
    """Return the signals of captures; all of them are one stream.

    Raises:
        ConfigError: the extra that reads them is not installed.
    """
    if not paths:
        return []
    try:
        from agent.sources.capture.pcap_file import signals  # noqa: PLC0415 - needs the extra "wire"
    except ImportError as error:
        raise ConfigError(f"replay of captures: {error}; install the extra 'wire'") from error
    return [_read_capture(signals(paths, cluster, counts := Counter[str](), failed), counts)]


def _read_log(recording: Recording, parser: LineParser, failed: Failed) -> Stream:
    """Yield the signals of a log; print a note if none of its lines is known."""
    oddities, ends = list[str](), LogEnd()
    blocks = ends.follow(_read_blocks(recording, failed, oddities))
    yield from order_by_time(parser, blocks, is_growing=recording.stream == STDIN)
    if (end_at := ends.find_time(parser)) is not None:
        yield Tick(end_at)
    if not parser.counts.lines:
        is_broker = isinstance(parser.interpreter, CoordinatorInterpreter)
        _print_note(
            f"{recording.stream}: found {[*oddities, _NO_BROKER if is_broker else _NO_CLIENT][0]}"
        )


def _read_statistics_file(
    recording: Recording, view: StatisticsInterpreter, failed: Failed
) -> Stream:
    """Yield the signals of statistics; print a note if there are none."""
    oddities = list[str]()
    yield from order_by_time(StatsParser(view), _read_blocks(recording, failed, oddities))
    if view.last_at is None:
        _print_note(f"{recording.stream}: found {[*oddities, _NO_STATISTICS][0]}")


def _read_capture(signals: Generator[Signal | Tick, None, int], counts: Counter[str]) -> Stream:
    """Yield the signals of captures; print a note on parts that were not read."""
    if not (yield from signals):
        _print_note("found no request of a Kafka client in the captures")
    if unread := [f"{what} {count}" for what, count in sorted(counts.items()) if count]:
        _print_note(f"not read: {', '.join(unread)}")


def _is_capture(path: str) -> bool:
    try:
        from agent.sources.capture.pcap_file import is_capture  # noqa: PLC0415 - needs the extra "wire"
    except ImportError as error:
        raise ConfigError(f"replay of captures: {error}; install the extra 'wire'") from error
    return is_capture(path)


@dataclass(slots=True)
class LogEnd:
    """Last bytes of a log: its last timestamp shows how far it goes, whatever that line is."""

    tail: bytes = b""
    arrival_at: float = 0.0

    def follow(self, blocks: Iterable[tuple[bytes, float]]) -> Iterator[tuple[bytes, float]]:
        """Yield the blocks of a log, and keep the last bytes."""
        for data, arrival_at in blocks:
            self.tail, self.arrival_at = (self.tail + data)[-_TAIL_BYTES:], arrival_at
            yield data, arrival_at

    def find_time(self, parser: LineParser) -> float | None:
        """Return the last timestamp (Unix seconds); None for a log without any known line."""
        if parser.last_at is None:
            return None
        for line in reversed(self.tail.splitlines()):
            stamp = parser.stamper.find(
                line[:_HEAD_BYTES].decode(errors="replace"), self.arrival_at
            )
            if stamp is not None and stamp <= self.arrival_at:
                return max(stamp, parser.last_at)
        return parser.last_at


def _print_note(text: str) -> None:
    click.echo(printable(text), err=True)


def _read_blocks(
    recording: Recording, failed: Failed, oddities: list[str]
) -> Iterator[tuple[bytes, float]]:
    """Yield a recording's blocks; show the progress on a terminal if it takes a while."""
    started_at, done = time.monotonic(), 0
    for data, arrival_at in recording.blocks(failed):
        if not done and data.startswith(UTF_16):
            oddities.append("UTF-16, wanted UTF-8: not read")
        yield data, arrival_at
        done += len(data)
        if time.monotonic() > started_at + _PROGRESS_AFTER_S and sys.stderr.isatty():
            click.echo(f"\r{recording.stream}: {done >> 20} MiB read", err=True, nl=False)
