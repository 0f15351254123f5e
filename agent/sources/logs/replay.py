"""Replay of clients' recorded logs."""

from collections.abc import Sequence

from agent.sources.lines.parsing.line_parser import LineParser
from agent.sources.lines.replay import read_log
from agent.sources.lines.whole_files.recordings import Recording, recordings
from agent.sources.logs.client_interpreter import ClientInterpreter
from agent.sources.logs.client_parser import create_parser
from agent.sources.logs.diagnosis import diagnose_log
from agent.sources.source_type import ReplayOptions, ReplayStream


def line_parsers(paths: Sequence[str], options: ReplayOptions) -> dict[Recording, LineParser]:
    """Create a parser for each log."""
    return {
        recording: create_parser(
            options.dialects,
            ClientInterpreter(
                stream=recording.stream,
                cluster=options.cluster,
                group=options.group or "",
                host=options.host,
            ),
            options.timezone,
        )
        for recording in recordings(paths)
    }


def read(paths: Sequence[str], options: ReplayOptions) -> list[ReplayStream]:
    """Return the signals of each log."""
    parsers = line_parsers(paths, options)
    return [
        read_log(recording, parser, options, diagnose_log) for recording, parser in parsers.items()
    ]
