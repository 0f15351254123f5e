"""Registry row of the source type ``librdkafka_stats``."""

from collections.abc import Sequence

from agent.sources.base import Source
from agent.sources.coverage import LIBRDKAFKA_STATISTICS
from agent.sources.librdkafka_stats.config import StatsConfig, origin_of
from agent.sources.lines import heads
from agent.sources.source_type import (
    Mount,
    Replay,
    ReplayOptions,
    ReplayStream,
    SourceContext,
    SourceType,
)
from metrics.model.signals import SourceKind


def _create(config: StatsConfig, context: SourceContext) -> Source:
    from agent.sources.librdkafka_stats.source import StatsSource  # noqa: PLC0415 - only if used

    return StatsSource(
        config,
        cluster=context.cluster.name,
        host=context.host,
        position=context.position,
        orphans=context.orphans,
        readers=context.readers,
    )


def _replay(paths: Sequence[str], options: ReplayOptions) -> list[ReplayStream]:
    from agent.sources.librdkafka_stats.replay import read  # noqa: PLC0415 - only if used

    return read(paths, options)


LIBRDKAFKA_STATS = SourceType(
    name="librdkafka_stats",
    config=StatsConfig,
    create=_create,
    reports=(SourceKind.STATS,),
    origin_of=origin_of,
    # the agent creates a socket, and only reads files
    mounts=lambda config: (Mount(config.path, is_read_only=not config.path.endswith(".sock")),),
    coverage=(LIBRDKAFKA_STATISTICS,),
    replay=Replay(kind="stats", read=_replay, marks=heads.STATISTICS),
)
