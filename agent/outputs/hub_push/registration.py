"""Registry row of the push to hubs."""

from agent.outputs.output_type import AgentOutput, OutputContext, OutputType


def _create(context: OutputContext) -> list[AgentOutput]:
    if not context.hub.push_to:
        return []
    from agent.outputs.hub_push.push import HubPush  # noqa: PLC0415 - only if configured

    return [HubPush(url, context.hub, context.spool_dir) for url in context.hub.push_to]


HUB_PUSH = OutputType(name="hub", create=_create)
