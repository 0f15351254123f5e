"""Registry row of the source type ``http``."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from agent.sources.base import Source
from agent.sources.coverage import HTTP_EVENTS, LIBRDKAFKA_STATISTICS
from agent.sources.http_events.config import HttpConfig
from agent.sources.source_type import SourceConfig, SourceContext, SourceType
from metrics.model.signals import SourceKind

if TYPE_CHECKING:
    from agent.sources.http_events.source import HttpSource


def _create(config: HttpConfig, context: SourceContext) -> Source:
    from agent.sources.http_events.source import HttpSource  # noqa: PLC0415 - only if used

    return HttpSource(config, cluster=context.cluster.name, position=context.position)


HTTP = SourceType(
    name="http",
    config=HttpConfig,
    create=_create,
    reports=(SourceKind.HTTP, SourceKind.STATS),
    coverage=(LIBRDKAFKA_STATISTICS, HTTP_EVENTS),
)


def find_source(configs: Iterable[SourceConfig], sources: Iterable[Source]) -> "HttpSource | None":
    """Return the agent's source of this type; it takes clients' events."""
    if not any(isinstance(each, HttpConfig) for each in configs):
        return None
    from agent.sources.http_events.source import HttpSource  # noqa: PLC0415 - only if used

    return next((each for each in sources if isinstance(each, HttpSource)), None)
