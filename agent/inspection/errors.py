"""What can go wrong between a broker and us, by whether another attempt could help."""

from agent.errors import SourceError


class BrokerError(SourceError):
    """A broker cannot be used. ``reason`` is a short word for metrics."""

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(text)
        self.reason = reason


class UnreachableError(BrokerError):
    """A broker is down or silent; others may answer, and so may it later."""


class RefusedError(BrokerError):
    """Credentials, certificates or the port are wrong: every broker would say the same again."""
