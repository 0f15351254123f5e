"""What each source says of itself, and how many members it tells of."""

from collections.abc import Mapping, Sequence

from agent.sources.base import Emit, Source
from metrics.exporters.exposition import SourceStats
from metrics.model.signals import Signal


class SourceStatsCollector:
    """Remembers which source tells of which stream; a restart learns it anew from what is told."""

    def __init__(self) -> None:
        self._source_of_stream: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._source_of_stream)

    def observe(self, source: Source, emit: Emit) -> Emit:
        """Return what a source emits to: noted here, then handed on."""

        def take(signals: Sequence[Signal]) -> None:
            for signal in signals:
                self._source_of_stream[signal.member.origin] = source.name
            emit(signals)

        return take

    def stats(
        self, sources: Sequence[Source], streams: Mapping[str, int]
    ) -> tuple[SourceStats, ...]:
        """Return every source's; ``streams`` holds how many members each stream tells of."""
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
    )
