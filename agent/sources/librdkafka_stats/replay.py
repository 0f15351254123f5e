"""Replay of recorded statistics of librdkafka."""

from collections.abc import Sequence

from agent.sources.librdkafka_stats.config import origin_of
from agent.sources.lines.replay import read_recording
from agent.sources.lines.whole_files.recordings import Recording, recordings
from agent.sources.source_type import ReplayOptions, ReplayStream
from agent.sources.statistics.interpreter import StatisticsInterpreter
from agent.sources.statistics.line_parser import StatsParser

_UNKNOWN = "no statistics of librdkafka, which are JSON, an object a line"


def read(paths: Sequence[str], options: ReplayOptions) -> list[ReplayStream]:
    """Return the signals of each file; ``options.group`` is for clients that name no group."""
    return [_read_file(recording, options) for recording in recordings(paths)]


def _read_file(recording: Recording, options: ReplayOptions) -> ReplayStream:
    view = StatisticsInterpreter(
        stream=origin_of(recording.stream),
        group=options.group,
        cluster=options.cluster,
        host=options.host,
    )
    is_known = lambda: view.last_at is not None  # noqa: E731 - read once the file has ended
    return read_recording(recording, StatsParser(view), options, is_known, _UNKNOWN)
