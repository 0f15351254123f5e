"""Registry row of the source type ``groups``."""

from functools import partial

from agent.config.addresses import parse_address
from agent.extras import require_extra
from agent.sources.base import Source
from agent.sources.coverage import INSPECTION
from agent.sources.inspection.config import GroupsSourceConfig
from agent.sources.source_type import SourceContext, SourceType

_SNAPSHOT_SHARE = 4
"""Part of the memory for groups and members of the last poll."""


def _create(config: GroupsSourceConfig, context: SourceContext) -> Source:
    with require_extra("wire", "source groups"):
        from agent.inspection.connection.broker_pool import BrokerPool  # noqa: PLC0415 - an extra
        from agent.inspection.connection.response_room import ResponseLimits  # noqa: PLC0415
        from agent.inspection.connection.security import open_security  # noqa: PLC0415
        from agent.inspection.poller import PollLimits  # noqa: PLC0415
        from agent.sources.inspection.source import GroupsSource  # noqa: PLC0415
    cluster = context.cluster
    nodes = [parse_address(address, "bootstrap_servers") for address in cluster.bootstrap_servers]
    security = partial(open_security, cluster.security)
    security()  # a missing secret is an error at the start
    limits = context.limits
    responses = ResponseLimits.within(limits.memory)
    return GroupsSource(
        config,
        cluster=cluster.name,
        brokers=lambda: BrokerPool(nodes, security, limits=responses),
        is_watched=context.is_watched,
        app_of=context.app_of,
        limits=PollLimits(limits.groups, limits.memory // _SNAPSHOT_SHARE),
    )


GROUPS = SourceType(
    name="groups",
    config=GroupsSourceConfig,
    create=_create,
    reads_brokers=True,
    coverage=(INSPECTION,),
)
