"""Replay of brokers' recorded logs."""

import heapq
import re
from collections.abc import Iterator, Sequence

from agent.sources.base import TICK_S, Tick
from agent.sources.broker_logs.coordinator_interpreter import CoordinatorInterpreter
from agent.sources.broker_logs.membership import GroupTable
from agent.sources.broker_logs.source import create_broker_dialects
from agent.sources.lines.line_faults import (
    describe_bytes,
    find_archive_faults,
    find_time_faults,
    find_width_faults,
    read_first_line,
)
from agent.sources.lines.line_parser import LineParser, ParsedLine
from agent.sources.lines.recordings import Recording, recordings
from agent.sources.lines.replay import read_events, read_log
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


def line_parsers(paths: Sequence[str], options: ReplayOptions) -> dict[Recording, LineParser]:
    """Create a parser for each log."""
    dialects, table = create_broker_dialects(), GroupTable()
    return {
        recording: LineParser(
            dialects, CoordinatorInterpreter(options.cluster, table=table), options.timezone
        )
        for recording in recordings(paths)
    }


def read(paths: Sequence[str], options: ReplayOptions) -> list[ReplayStream]:
    """Return the signals of the logs; those of several brokers are read together, by time."""
    parsers = line_parsers(paths, options)
    if len(parsers) > 1:
        return [_read_together(parsers, options)]
    return [
        read_log(recording, parser, options, _diagnose) for recording, parser in parsers.items()
    ]


def _read_together(
    parsers: dict[Recording, LineParser], options: ReplayOptions
) -> Iterator[Signal | Tick]:
    """Yield the signals of several brokers' logs: groups move from one to another."""
    ticked_at = 0.0
    for line, parser in heapq.merge(
        *(_read_lines(recording, parser, options) for recording, parser in parsers.items()),
        key=lambda pair: pair[0].at,
    ):
        if line.event is not None:
            yield from parser.interpreter.take(line.event, line.at)
        if line.event is None or line.at >= ticked_at + TICK_S:
            ticked_at = max(ticked_at, line.at)
            yield Tick(ticked_at)


def _read_lines(
    recording: Recording, parser: LineParser, options: ReplayOptions
) -> Iterator[tuple[ParsedLine, LineParser]]:
    for line in read_events(recording, parser, options, _diagnose):
        yield line, parser


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
    yield from find_time_faults(parser.counts)
    yield from find_width_faults(sample)
    yield from find_archive_faults(sample)
    if _FENCED.search(sample):
        yield "a static member was fenced: two clients have the same group.instance.id"


def _describe(sample: bytes) -> str:
    texts = (text for finder, text in _FINDERS if finder.search(sample))
    found = describe_bytes(sample) or next(texts, None)
    first = read_first_line(sample)
    return found or (f"no log of a broker ({first!r})" if first else "an empty file")
