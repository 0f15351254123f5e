"""The error of child processes."""

from agent.errors import RebalanceAgentError


class ProcessError(RebalanceAgentError):
    """A process failed at its task, or something that it needs is missing."""
