"""Statistics of the sources: their health, and how many members each reports."""

from collections import Counter
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
        of_files = _count_by_file(streams)
        for stream, name in self._source_of_stream.items():
            if name in members:
                members[name] += streams[stream]
        return tuple(_stats(source, members[source.name], of_files) for source in sources)


def _count_by_file(streams: Mapping[str, int]) -> Counter[str]:
    """Return the members of each file; the streams that one file merges have its name first."""
    counts = Counter[str]()
    for stream, members in streams.items():
        counts[stream.partition("#")[0]] += members
    return counts


def _stats(source: Source, members: int, of_files: Counter[str]) -> SourceStats:
    health = source.health
    files = None
    if health.files is not None:
        files = tuple(
            _file_stats(path, counts, of_files[path.partition("#")[0]])
            for path, counts in health.files.items()
        )
        members = max(members, sum(of_files[path.partition("#")[0]] for path in health.files))
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
        files=files,
        clocks=dict(health.clocks),
    )


def _file_stats(path: str, counts: Any, members: int) -> FileStats:
    members = max(members, counts.members)
    return FileStats(
        path=path,
        read_bytes=counts.read_bytes,
        client_lines=counts.client_lines,
        signals=counts.signals,
        members=members,
        is_blind=counts.needs_member and not members,
        has_no_group=counts.has_no_group and not members,
    )
