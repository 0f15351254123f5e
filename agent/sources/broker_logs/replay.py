"""Replay of brokers' recorded logs."""

from collections.abc import Sequence

from agent.sources.broker_logs.coordinator_interpreter import CoordinatorInterpreter
from agent.sources.broker_logs.source import create_broker_dialects
from agent.sources.lines.line_parser import LineParser
from agent.sources.lines.recordings import Recording, recordings
from agent.sources.lines.replay import read_log
from agent.sources.source_type import ReplayOptions, ReplayStream

_UNKNOWN = "no line of a broker's group coordinator"


def line_parsers(paths: Sequence[str], options: ReplayOptions) -> dict[Recording, LineParser]:
    """Create a parser for each log."""
    dialects = create_broker_dialects()
    return {
        recording: LineParser(dialects, CoordinatorInterpreter(options.cluster), options.timezone)
        for recording in recordings(paths)
    }


def read(paths: Sequence[str], options: ReplayOptions) -> list[ReplayStream]:
    """Return the signals of each log."""
    parsers = line_parsers(paths, options)
    return [read_log(recording, parser, options, _UNKNOWN) for recording, parser in parsers.items()]
