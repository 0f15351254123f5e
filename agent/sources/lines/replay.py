"""Replay of recorded files that are read by lines."""

from collections.abc import Callable, Iterator

from agent.sources.base import Tick
from agent.sources.lines.line_parser import LineParser, ParsedLine
from agent.sources.lines.log_end import LogEnd
from agent.sources.lines.ordering import order_by_time
from agent.sources.lines.recordings import STDIN, UTF_16, Recording
from agent.sources.lines.stream_parser import StreamParser
from agent.sources.source_type import ReplayOptions, ReplayStream


def read_recording(
    recording: Recording,
    parser: StreamParser,
    options: ReplayOptions,
    is_known: Callable[[], bool],
    unknown: str,
) -> ReplayStream:
    """Yield the signals of a recording, and note ``unknown`` unless ``is_known`` at the end."""
    oddities = list[str]()
    yield from order_by_time(parser, _read_blocks(recording, options, oddities))
    if not is_known():
        options.on_note(f"{recording.stream}: found {[*oddities, unknown][0]}")


def read_log(
    recording: Recording, parser: LineParser, options: ReplayOptions, unknown: str
) -> ReplayStream:
    """Yield the signals of a log, and a tick at its end; note ``unknown`` if no line is known."""
    oddities, ends = list[str](), LogEnd()
    blocks = ends.follow(_read_blocks(recording, options, oddities))
    yield from order_by_time(parser, blocks, is_growing=recording.stream == STDIN)
    if (end_at := ends.find_time(parser)) is not None:
        yield Tick(end_at)
    if not parser.counts.lines:
        options.on_note(f"{recording.stream}: found {[*oddities, unknown][0]}")


def read_events(
    recording: Recording, parser: LineParser, options: ReplayOptions, unknown: str
) -> Iterator[ParsedLine]:
    """Yield a log's lines that a rule matches, and one without an event for the time of its end."""
    oddities, ends = list[str](), LogEnd()
    for data, arrival_at in ends.follow(_read_blocks(recording, options, oddities)):
        yield from (line for line in parser.lines(data, arrival_at) if line.event is not None)
    if parser.pending:  # a last line without its newline
        yield from (line for line in parser.lines(b"\n", 0.0) if line.event is not None)
    if (end_at := ends.find_time(parser)) is not None:
        yield ParsedLine("", end_at, None)
    if not parser.counts.lines:
        options.on_note(f"{recording.stream}: found {[*oddities, unknown][0]}")


def _read_blocks(
    recording: Recording, options: ReplayOptions, oddities: list[str]
) -> Iterator[tuple[bytes, float]]:
    done = 0
    for data, arrival_at in recording.blocks(options.on_unreadable):
        if not done and data.startswith(UTF_16):
            oddities.append("UTF-16, wanted UTF-8: not read")
        yield data, arrival_at
        done += len(data)
        options.on_progress(recording.stream, done)
