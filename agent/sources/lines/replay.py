"""Replay of recorded files that are read by lines."""

from collections.abc import Callable, Iterable, Iterator

from agent.sources.base import Tick
from agent.sources.lines.parsing.line_parser import LINE_LIMIT, LineParser, ParsedLine
from agent.sources.lines.parsing.log_end import LogEnd
from agent.sources.lines.parsing.ordering import order_by_time
from agent.sources.lines.parsing.stream_parser import StreamParser
from agent.sources.lines.whole_files.recordings import Recording
from agent.sources.source_type import ReplayOptions, ReplayStream

_SAMPLE_BYTES = 1 << 20
"""First bytes of a log that a diagnosis searches."""


def read_recording(
    recording: Recording,
    parser: StreamParser,
    options: ReplayOptions,
    is_known: Callable[[], bool],
    unknown: str,
) -> ReplayStream:
    """Yield the signals of a recording, and note ``unknown`` unless ``is_known`` at the end."""
    yield from order_by_time(parser, _read_blocks(recording, options))
    if not is_known():
        options.on_note(f"{recording.stream}: found {unknown}")


Diagnose = Callable[[bytes, LineParser], Iterable[str]]
"""Returns a log's faults for the user, from its first bytes and its parser at the end."""


def read_log(
    recording: Recording, parser: LineParser, options: ReplayOptions, diagnose: Diagnose
) -> ReplayStream:
    """Yield the signals of a log, and a tick at its end; report the faults by ``diagnose``."""
    head, ends = _Head(), LogEnd()
    blocks = ends.follow(head.follow(_read_blocks(recording, options, head.note)))
    yield from order_by_time(parser, blocks, is_growing=recording.is_pipe)
    if (end_at := ends.find_time(parser)) is not None:
        yield Tick(end_at)
    head.report(recording, parser, options, diagnose)


def read_events(
    recording: Recording, parser: LineParser, options: ReplayOptions, diagnose: Diagnose
) -> Iterator[ParsedLine]:
    """Yield a log's lines that a rule matches, and one without an event for the time of its end."""
    head, ends = _Head(), LogEnd()
    blocks = ends.follow(head.follow(_read_blocks(recording, options, head.note)))
    for data, arrival_at in blocks:
        yield from (line for line in parser.lines(data, arrival_at) if line.event is not None)
    if parser.pending:  # a last line without its newline
        yield from (line for line in parser.lines(b"\n", 0.0) if line.event is not None)
    if (end_at := ends.find_time(parser)) is not None:
        yield ParsedLine("", end_at, None)
    head.report(recording, parser, options, diagnose)


class _Head:
    """The first bytes of a recording, for its diagnosis."""

    def __init__(self) -> None:
        self._sample = bytearray()
        self._notes: list[str] = []

    def note(self, text: str) -> None:
        """Keep a sentence on the order of the log, which counts if a client's lines were read."""
        if text not in self._notes:
            self._notes.append(text)

    def follow(self, blocks: Iterator[tuple[bytes, float]]) -> Iterator[tuple[bytes, float]]:
        for data, arrival_at in blocks:
            if len(self._sample) < _SAMPLE_BYTES:
                self._sample += data[: _SAMPLE_BYTES - len(self._sample)]
            yield data, arrival_at

    def report(
        self, recording: Recording, parser: LineParser, options: ReplayOptions, diagnose: Diagnose
    ) -> None:
        notes = self._notes if parser.counts.events > 1 else ()
        for note in (*diagnose(bytes(self._sample), parser), *_find_long(parser), *notes):
            options.on_note(f"{recording.stream}: {note}")


def _find_long(parser: LineParser) -> Iterator[str]:
    if found := parser.counts.long:
        are = "lines are" if found > 1 else "line is"
        yield f"{found} {are} longer than {LINE_LIMIT >> 20} MiB, and not read"


def _read_blocks(
    recording: Recording, options: ReplayOptions, note: Callable[[str], None] = lambda _note: None
) -> Iterator[tuple[bytes, float]]:
    done = 0
    for data, arrival_at in recording.blocks(options.on_unreadable, options.timezone, note):
        yield data, arrival_at
        done += len(data)
        options.on_progress(recording.stream, done)
