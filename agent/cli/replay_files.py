"""Files of `replay`: grouped by source type, and read as streams of signals."""

import re
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import click

from agent.errors import SourceError
from agent.sources.lines.dialects.dialect_matcher import Dialects
from agent.sources.lines.heads import read_head
from agent.sources.lines.whole_files.recordings import STDIN
from agent.sources.registry import REGISTRY
from agent.sources.source_type import ReplayOptions, ReplayStream
from metrics.model.names import printable

_PROGRESS_AFTER_S = 2.0
_KINDS_TO_ALIGN = 2
LOGS_AND_PCAP = "logs,pcap"
KINDS = REGISTRY.replays()
SOURCES = (*KINDS, LOGS_AND_PCAP)
Files = Mapping[str, Sequence[str]]


def group_by_kind(source: str | None, paths: Sequence[str]) -> Files:
    """Return the files by kind: of ``KIND:PATH``, else of ``source``, else by their content.

    Raises:
        click.UsageError: stdin without a kind.
        SourceError: a file that is to show its kind cannot be read.
    """
    found: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for path in paths:
        name, colon, rest = path.partition(":")
        if colon and name in found:
            found[name].append(rest)
        elif source is None:
            found[_recognize(path)].append(path)
        else:
            found[_choose(source.split(","), path)].append(path)
    return found


def make_options(
    dialects: Dialects,
    cluster: str,
    timezone: str | None,
    group: str | None,
    faults: list[SourceError],
) -> ReplayOptions:
    """Return the options of sources; ``faults`` collects the errors of unreadable files."""
    return ReplayOptions(
        cluster=cluster,
        host=socket.gethostname(),
        timezone=timezone,
        group=group,
        dialects=dialects,
        on_unreadable=faults.append,
        on_note=lambda text: click.echo(printable(text), err=True),
        on_progress=_Progress().show,
    )


def line_parsers(files: Files, options: ReplayOptions) -> dict[Any, Any]:
    """Return the parser of each recording that is read by lines."""
    return {
        recording: parser
        for kind, replay in KINDS.items()
        if files[kind] and replay.line_parsers is not None
        for recording, parser in replay.line_parsers(files[kind], options).items()
    }


def read(files: Files, options: ReplayOptions) -> list[ReplayStream]:
    """Return the signals of all files, a stream each; logs have the clock of the traffic."""
    kinds = [kind for kind in KINDS if files[kind]]
    streams = [stream for kind in kinds for stream in KINDS[kind].read(files[kind], options)]
    if len(kinds) < _KINDS_TO_ALIGN:
        return streams
    from agent.runtime.clock_alignment import align_clocks  # noqa: PLC0415 - only if used

    return align_clocks(streams, options.on_note)


def _choose(kinds: Sequence[str], path: str) -> str:
    """Return the kind of a file: by its content if there are several."""
    if len(kinds) == 1:
        return kinds[0]
    checks = {kind: KINDS[kind].is_recording for kind in kinds}
    for kind, is_recording in checks.items():
        if is_recording is not None and is_recording(path):
            return kind
    return next(kind for kind, is_recording in checks.items() if is_recording is None)


def _recognize(path: str) -> str:
    """Return the kind of a file by its content, and print it; a log of clients has no mark."""
    if path == STDIN:
        raise click.UsageError("PATH -: found no source, wanted --source SOURCE, or SOURCE:-")
    head = read_head(path)
    by_marks = (k for k, each in KINDS.items() if each.marks and re.search(each.marks, head))
    kind = next(by_marks, None) or _choose(LOGS_AND_PCAP.split(","), path)
    click.echo(printable(f"{path}: read as --source {kind}, by its content"), err=True)
    return kind


class _Progress:
    """Shows the progress of a recording on a terminal if it takes a while."""

    def __init__(self) -> None:
        self._started_s: dict[str, float] = {}

    def show(self, stream: str, done: int) -> None:
        started_s = self._started_s.setdefault(stream, time.monotonic())
        if time.monotonic() > started_s + _PROGRESS_AFTER_S and sys.stderr.isatty():
            click.echo(f"\r{stream}: {done >> 20} MiB read", err=True, nl=False)
