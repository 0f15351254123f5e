"""Replay of brokers' recorded logs."""

import heapq
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from agent.sources.base import TICK_S, Tick
from agent.sources.broker_logs.coordinator_interpreter import CoordinatorInterpreter
from agent.sources.broker_logs.membership import GroupTable
from agent.sources.broker_logs.source import create_broker_dialects
from agent.sources.lines.envelopes.envelope import Unwrapper
from agent.sources.lines.parsing.line_faults import (
    describe_bytes,
    find_archive_faults,
    find_time_faults,
    find_width_faults,
    read_first_line,
)
from agent.sources.lines.parsing.line_parser import LineParser, ParsedLine
from agent.sources.lines.replay import read_events, read_log
from agent.sources.lines.whole_files.recordings import Recording, recordings
from agent.sources.source_type import ReplayOptions, ReplayStream
from metrics.model.signals import Signal

_FENCED = re.compile(rb"will respond with instance fenced error")
_UNKNOWN = "found no line of a broker's group coordinator"
_COORDINATOR = "kafka.coordinator.group and org.apache.kafka.coordinator.group"
_MARKS = (
    (
        rb"\A(?:\xd4\xc3\xb2\xa1|\xa1\xb2\xc3\xd4|\x4d\x3c\xb2\xa1|\x0a\x0d\x0d\x0a)",
        "a capture: use --source pcap",
    ),
    (rb'"rebalance_cnt"|"cgrp": ?\{', "statistics of librdkafka: use --source stats"),
    (
        (
            rb"\[(?:Share)?Consumer (?:instanceId|clientId)=|\[Worker clientId=|\[thrd:"
            rb"|stream-thread \[|\[ConsumerGroup\] |kafka\.coordinator\b(?!\.)"
            rb"|aiokafka\.consumer|heartbeat errored"
        ),
        "a client's log: use --source logs",
    ),
    (
        (
            rb"\(kafka\.|\[(?:Kafka|Broker|Raft|Shared)Server|\[ReplicaManager |\[BrokerLifecycle"
            rb"|ControllerServer|org\.apache\.kafka\.(?:image|controller|raft|metadata|storage)"
        ),
        f"a broker's log without it: set the loggers {_COORDINATOR} to INFO",
    ),
)
_FINDERS = tuple((re.compile(mark), text) for mark, text in _MARKS)


_PARTS_MAX = 16
"""Brokers whose lines stand one after the other in a file; each is a pass over it."""
_HEAD_LINES = 200
"""First lines that show whether a collector has written names."""
_HEAD_BYTES = 1 << 16
_STEP_BACK_S = 5.0
"""Merged lines are less out of order than this."""


class _BrokerPart(NamedTuple):
    """The lines of one broker in a recording, with a parser of their own."""

    recording: Recording
    parser: LineParser
    origin: str | None = None
    """Name of the stream within the file; None: all lines."""
    is_first: bool = True
    """Whether it reports what the recording lacks."""


def line_parsers(paths: Sequence[str], options: ReplayOptions) -> dict[Recording, LineParser]:
    """Create a parser for each log."""
    table = GroupTable()
    return {recording: _create_parser(options, table) for recording in recordings(paths)}


def read(paths: Sequence[str], options: ReplayOptions) -> list[ReplayStream]:
    """Return the signals of the logs; those of several brokers are read together, by time."""
    parsers = line_parsers(paths, options)
    parts = [
        part
        for recording, parser in parsers.items()
        for part in _list_parts(recording, parser, options)
    ]
    if len(parts) > 1:
        return [_read_together(parts, options)]
    return [
        read_log(recording, parser, options, _diagnose) for recording, parser in parsers.items()
    ]


def _create_parser(
    options: ReplayOptions, table: GroupTable, *, has_origins: bool = False
) -> LineParser:
    def create(_origin: str, _host: str) -> CoordinatorInterpreter:
        return CoordinatorInterpreter(options.cluster)

    interpreter = CoordinatorInterpreter(options.cluster, table=table)
    dialects = create_broker_dialects()
    return LineParser(dialects, interpreter, options.timezone, create if has_origins else None)


def _list_parts(
    recording: Recording, parser: LineParser, options: ReplayOptions
) -> Iterator[_BrokerPart]:
    """Yield a recording, or each broker's part of it, if these stand one after the other.

    `kubectl logs -l` without ``-f`` writes the whole log of each pod. A pipe is read only once.
    """
    origins = _find_origins(recording, options)
    if not 1 < len(origins) <= _PARTS_MAX or not isinstance(
        parser.interpreter, CoordinatorInterpreter
    ):
        yield _BrokerPart(recording, parser)
        return
    for number, origin in enumerate(origins):
        own = _create_parser(options, parser.interpreter.table, has_origins=True)
        yield _BrokerPart(recording, own, origin, is_first=not number)


def _find_origins(recording: Recording, options: ReplayOptions) -> list[str]:
    """Return the origins of a recording that is not in the order of time, the most frequent first.

    A log without names at its begin costs no pass.
    """
    quiet = _silence(options)
    if recording.is_pipe or not _has_names(recording, quiet):
        return []
    counts, latest_at, is_ordered = Counter[str](), 0.0, True
    parser = _create_parser(options, GroupTable(), has_origins=True)
    for line in read_events(recording, parser, quiet, _diagnose):
        if line.event is not None:
            counts[line.origin] += 1
            is_ordered = is_ordered and line.at > latest_at - _STEP_BACK_S
            latest_at = max(latest_at, line.at)
    return [] if is_ordered else [origin for origin, _ in counts.most_common()]


def _has_names(recording: Recording, options: ReplayOptions) -> bool:
    unwrapper = Unwrapper(options.timezone)
    blocks = recording.blocks(options.on_unreadable, options.timezone)
    block, arrival_at = next(blocks, (b"", 0.0))
    lines = block[:_HEAD_BYTES].split(b"\n", _HEAD_LINES)[:_HEAD_LINES]
    return any(entry.origin for line in lines for entry in unwrapper.unwrap(line, arrival_at))


def _silence(options: ReplayOptions) -> ReplayOptions:
    """Return options without reports, for a further pass over a recording."""
    return replace(
        options,
        on_unreadable=lambda _error: None,
        on_note=lambda _note: None,
        on_progress=lambda _stream, _size: None,
    )


def _read_together(parts: Sequence[_BrokerPart], options: ReplayOptions) -> Iterator[Signal | Tick]:
    """Yield the signals of several brokers' logs: groups move from one to another."""
    ticked_at = 0.0
    for line, parser in heapq.merge(
        *(_read_lines(part, options) for part in parts), key=lambda pair: pair[0].at
    ):
        if line.event is not None:
            yield from parser.interpreter.take(line.event, line.at)
        if line.event is None or line.at >= ticked_at + TICK_S:
            ticked_at = max(ticked_at, line.at)
            yield Tick(ticked_at)


def _read_lines(
    part: _BrokerPart, options: ReplayOptions
) -> Iterator[tuple[ParsedLine, LineParser]]:
    chosen = options if part.is_first else _silence(options)
    for line in read_events(part.recording, part.parser, chosen, _diagnose):
        if part.origin is None or line.event is None or line.origin == part.origin:
            yield line, part.parser


def _diagnose(sample: bytes, parser: LineParser) -> Iterator[str]:
    if not parser.counts.events:
        yield f"{_UNKNOWN}; it looks like {_describe(sample)}"
    elif (
        isinstance(reading := parser.interpreter, CoordinatorInterpreter) and not reading.has_shown
    ):
        yield (
            f"{parser.counts.events} lines of a group coordinator were read, and no member came of "
            "them: none names one"
        )
    yield from _find_order_faults(parser) or find_time_faults(parser.counts)
    yield from find_width_faults(sample)
    yield from find_archive_faults(sample)
    if _FENCED.search(sample):
        yield "a static member was fenced: two clients have the same group.instance.id"


def _find_order_faults(parser: LineParser) -> list[str]:
    reading = parser.interpreter
    brokers = len(reading.brokers) if isinstance(reading, CoordinatorInterpreter) else 0
    back_s = parser.counts.ran_back_s
    if brokers < 2 or back_s < _STEP_BACK_S or parser.counts.untimed:
        return []
    return [
        (
            f"the lines of {brokers} brokers stand one after the other, and times run back by up "
            f"to {back_s:.0f} s: put each broker's into a file of its own"
        )
    ]


def _describe(sample: bytes) -> str:
    texts = (text for finder, text in _FINDERS if finder.search(sample))
    found = describe_bytes(sample) or next(texts, None)
    first = read_first_line(sample)
    return found or (f"no log of a broker ({first!r})" if first else "an empty file")
