"""Registry row of the source type ``broker_log``."""

from collections.abc import Sequence
from typing import Any

from agent.sources.base import Source
from agent.sources.broker_logs.config import BrokerLogConfig
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


def _create(config: BrokerLogConfig, context: SourceContext) -> Source:
    from agent.sources.broker_logs.source import BrokerLogSource  # noqa: PLC0415 - its dialects

    return BrokerLogSource(
        config,
        cluster=context.cluster.name,
        timezone=context.timezone,
        position=context.position,
        orphans=context.orphans,
        readers=context.readers,
    )


def _replay(paths: Sequence[str], options: ReplayOptions) -> list[ReplayStream]:
    from agent.sources.broker_logs.replay import read  # noqa: PLC0415 - only if used

    return read(paths, options)


def _line_parsers(paths: Sequence[str], options: ReplayOptions) -> dict[Any, Any]:
    from agent.sources.broker_logs.replay import line_parsers  # noqa: PLC0415 - only if used

    return dict(line_parsers(paths, options))


BROKER_LOG = SourceType(
    name="broker_log",
    config=BrokerLogConfig,
    create=_create,
    reports=(SourceKind.BROKER_LOG,),
    origin_of=str,
    mounts=lambda config: tuple(map(Mount, config.paths)),
    replay=Replay(
        kind="broker_log", read=_replay, line_parsers=_line_parsers, marks=heads.BROKER_LOG
    ),
)
