"""Registry row of the export by OTLP."""

from agent.extras import require_extra
from agent.outputs.output_type import AgentOutput, OutputContext, OutputType


def _create(context: OutputContext) -> list[AgentOutput]:
    if context.otlp is None:
        return []
    with require_extra("otel", "otlp"):
        from agent.outputs.otlp.exporter import OtlpOutput  # noqa: PLC0415 - an extra
    resource = {
        "service.name": "kafka-rebalance-agent",
        "service.version": context.version,
        "service.instance.id": context.host,
    }
    return [OtlpOutput(context.otlp, resource, context.max_series, context.expose)]


OTLP = OutputType(name="otlp", create=_create)
