"""Registry row of the source type ``http``."""

from agent.sources.base import Source
from agent.sources.coverage import HTTP_EVENTS, LIBRDKAFKA_STATISTICS
from agent.sources.http_events.config import HttpConfig
from agent.sources.source_type import SourceContext, SourceType


def _create(config: HttpConfig, context: SourceContext) -> Source:
    from agent.sources.http_events.source import HttpSource  # noqa: PLC0415 - only if used

    return HttpSource(config, cluster=context.cluster.name)


HTTP = SourceType(
    name="http",
    config=HttpConfig,
    create=_create,
    coverage=(LIBRDKAFKA_STATISTICS, HTTP_EVENTS),
)
