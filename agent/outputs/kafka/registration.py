"""Registry row of the output to a Kafka topic."""

from agent.extras import require_extra
from agent.outputs.output_type import AgentOutput, OutputContext, OutputType


def _create(context: OutputContext) -> list[AgentOutput]:
    kafka = context.kafka
    if kafka is None:
        return []
    with require_extra("kafka", "samples.kafka"):
        from agent.outputs.kafka.producer import KafkaOutput  # noqa: PLC0415 - an extra
    output = KafkaOutput(
        kafka.topic,
        kafka.access(context.cluster),
        folder=context.spool_dir,
        progress=context.state_dir / f"kafka-{kafka.topic}.json",
        newest=context.last_seq,
    )
    return [output]


KAFKA = OutputType(name="kafka", create=_create)
