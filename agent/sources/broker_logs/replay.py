"""Replay of brokers' recorded logs."""

import heapq
import re
from collections.abc import Iterator, Sequence

from agent.sources.base import TICK_S, Tick
from agent.sources.broker_logs.coordinator_interpreter import CoordinatorInterpreter
from agent.sources.broker_logs.membership import GroupTable
from agent.sources.broker_logs.source import create_broker_dialects
from agent.sources.lines.line_parser import LineParser, ParsedLine
from agent.sources.lines.recordings import Recording, recordings
from agent.sources.lines.replay import read_events, read_log
from agent.sources.source_type import ReplayOptions, ReplayStream
from metrics.model.signals import Signal

_FENCED = re.compile(rb"will respond with instance fenced error")
_UNKNOWN = "found no line of a broker's group coordinator"


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
        yield _UNKNOWN
    if _FENCED.search(sample):
        yield "a static member was fenced: two clients have the same group.instance.id"
