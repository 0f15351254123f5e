"""Statistics of the sources: their health, and how many members each reports."""

from collections.abc import Mapping, Sequence
from typing import Any

from agent.sources.base import Emit, Source
from metrics.exporters.exposition import FileStats, SourceStats
from metrics.model.signals import Signal


class SourceStatsCollector:
    """Maps streams to sources; after a restart the map fills again from signals."""

    def __init__(self) -> None:
        self._source_of_stream: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._source_of_stream)

    def observe(self, source: Source, emit: Emit) -> Emit:
        """Return an emit function that notes the source of each stream, then calls ``emit``."""

        def take(signals: Sequence[Signal]) -> None:
            for signal in signals:
                self._source_of_stream[signal.member.origin] = source.name
            emit(signals)

        return take

    def stats(
        self, sources: Sequence[Source], streams: Mapping[str, int]
    ) -> tuple[SourceStats, ...]:
        """Return every source's statistics; ``streams`` holds each stream's number of members."""
        for gone in self._source_of_stream.keys() - streams.keys():
            del self._source_of_stream[gone]
        members = dict.fromkeys((source.name for source in sources), 0)
        for stream, name in self._source_of_stream.items():
            if name in members:
                members[name] += streams[stream]
        return tuple(_stats(source, members[source.name]) for source in sources)


def _stats(source: Source, members: int) -> SourceStats:
    health = source.health
    return SourceStats(
        name=source.name,
        type=source.kind,
        up=health.up,
        members=members,
        read_bytes=health.read_bytes,
        signals=health.signals,
        unparsed=health.unparsed,
        lag_s=health.lag_s,
        errors=dict(health.errors),
        files=None
        if health.files is None
        else tuple(_file_stats(path, counts) for path, counts in health.files.items()),
    )


def _file_stats(path: str, counts: Any) -> FileStats:
    return FileStats(
        path=path,
        read_bytes=counts.read_bytes,
        client_lines=counts.client_lines,
        signals=counts.signals,
        members=counts.members,
    )
