"""The error of child processes."""

from agent.errors import RebalanceAgentError


class ProcessError(RebalanceAgentError):
    """A process did not do what it was started for, or something that it needs is missing."""
