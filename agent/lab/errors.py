"""What the lab raises."""

from agent.errors import RebalanceAgentError


class LabError(RebalanceAgentError):
    """The lab could not do it: no Java, no artifacts, or a process that did not do as told."""
