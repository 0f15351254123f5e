"""Registry row of the source type ``logs``."""

from collections.abc import Sequence
from typing import Any

from agent.errors import ConfigError, DialectError
from agent.sources.base import Source
from agent.sources.logs.config import LogConfig
from agent.sources.source_type import (
    Mount,
    Replay,
    ReplayOptions,
    ReplayStream,
    SourceContext,
    SourceType,
)
from metrics.model.signals import SourceKind


def _create(config: LogConfig, context: SourceContext) -> Source:
    from agent.sources.logs.source import LogSource  # noqa: PLC0415 - 1 MiB with its dialects

    return LogSource(
        config,
        cluster=context.cluster.name,
        host=context.host,
        timezone=context.timezone,
        position=context.position,
        orphans=context.orphans,
        readers=context.readers,
    )


def _check_rules(config: LogConfig) -> None:
    from agent.sources.lines.dialects.dialect_loader import choose_dialects  # noqa: PLC0415 - 1 MiB

    try:
        choose_dialects(config.dialects, config.rules)
    except DialectError as error:
        text = str(error)
        place = text if text.startswith("rules[") else f"dialects: {text}"
        raise ConfigError(place) from error


def _replay(paths: Sequence[str], options: ReplayOptions) -> list[ReplayStream]:
    from agent.sources.logs.replay import read  # noqa: PLC0415 - only if used

    return read(paths, options)


def _line_parsers(paths: Sequence[str], options: ReplayOptions) -> dict[Any, Any]:
    from agent.sources.logs.replay import line_parsers  # noqa: PLC0415 - only if used

    return dict(line_parsers(paths, options))


LOGS = SourceType(
    name="logs",
    config=LogConfig,
    create=_create,
    reports=(SourceKind.LOGS,),
    origin_of=str,
    check=_check_rules,
    mounts=lambda config: tuple(map(Mount, config.paths)),
    replay=Replay(kind="logs", read=_replay, line_parsers=_line_parsers),
)
