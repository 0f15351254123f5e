"""Errors between a broker and inspection, by whether a retry can help."""

from agent.errors import SourceError


class BrokerError(SourceError):
    """A broker cannot be used. ``reason`` is a short word for metrics."""

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(text)
        self.reason = reason


class UnreachableError(BrokerError):
    """A broker is down or silent; another broker, or a retry, may respond."""


class RefusedError(BrokerError):
    """Credentials, certificates or the port are wrong: every broker would refuse again."""
