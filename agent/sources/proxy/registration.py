"""Registry row of the source type ``proxy``."""

from agent.config.addresses import parse_address
from agent.extras import require_extra
from agent.sources.base import Source
from agent.sources.coverage import WIRE
from agent.sources.proxy.config import ProxyConfig
from agent.sources.source_type import Capability, SourceContext, SourceType
from metrics.model.signals import SourceKind

_PRIVILEGED_PORTS = 1024


def _create(config: ProxyConfig, context: SourceContext) -> Source:
    with require_extra("wire", "source proxy"):
        from agent.sources.proxy.source import ProxySource  # noqa: PLC0415 - an extra
    return ProxySource(config, cluster=context.cluster.name, position=context.position)


def _capabilities(config: ProxyConfig) -> frozenset[Capability]:
    is_privileged = 0 < parse_address(config.listen, "listen").port < _PRIVILEGED_PORTS
    return frozenset({Capability.NET_BIND_SERVICE} if is_privileged else ())


PROXY = SourceType(
    name="proxy",
    config=ProxyConfig,
    create=_create,
    reads=lambda config: parse_address(config.listen, "listen"),
    overlap="listens at the same address",
    reports=(SourceKind.WIRE,),
    capabilities=_capabilities,
    coverage=WIRE,
)
