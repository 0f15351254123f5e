"""Errors by responsibility. A bug is a plain AssertionError or TypeError and is never caught."""


class RebalanceAgentError(Exception):
    """Root of every error that the agent raises on purpose; its text is one clear sentence."""


class ConfigError(RebalanceAgentError):
    """The operator must act: configuration or usage. Names file, path, found and wanted."""


class DialectError(RebalanceAgentError):
    """The author of a log rule must act: names file, rule and fault."""


class DecodeError(RebalanceAgentError):
    """The peer sent bytes that do not decode."""


class SourceError(RebalanceAgentError):
    """The world outside failed: a file, a broker, a socket."""


class OutputError(RebalanceAgentError):
    """Samples could not be written or sent."""


class RecordsError(RebalanceAgentError):
    """Requested records do not exist or cannot be read."""


def reason_of(error: BaseException | str) -> str:
    """Return an error in the system's words, without number and path; a text as it is."""
    return getattr(error, "strerror", None) or str(error)
