"""The registry of output types, except the spool: every agent has a spool.

A new type is its folder with its ``registration.py``, and one line in `OUTPUT_TYPES`.
"""

from agent.outputs.hub_push.registration import HUB_PUSH
from agent.outputs.kafka.registration import KAFKA
from agent.outputs.otlp.registration import OTLP
from agent.outputs.output_type import AgentOutput, OutputContext, OutputType

OUTPUT_TYPES: tuple[OutputType, ...] = (HUB_PUSH, KAFKA, OTLP)


def make_outputs(
    context: OutputContext, types: tuple[OutputType, ...] = OUTPUT_TYPES
) -> list[AgentOutput]:
    """Return the configured outputs.

    Raises:
        RebalanceAgentError: a secret cannot be read, or an extra is missing.

    """
    return [output for row in types for output in row.create(context)]
