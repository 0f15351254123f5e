"""The errors, by who must act. A bug is a plain AssertionError or TypeError and is never caught."""


class RebalanceAgentError(Exception):
    """Root of every error that the agent raises on purpose; its text is one clear sentence."""


class ConfigError(RebalanceAgentError):
    """The operator must act: configuration or usage. Names file, path, found and wanted."""


class DialectError(RebalanceAgentError):
    """The author of a log rule must act: file, rule, what is wrong."""


class DecodeError(RebalanceAgentError):
    """The peer sent odd bytes."""


class SourceError(RebalanceAgentError):
    """The world outside failed: a file, a broker, a socket."""


class OutputError(RebalanceAgentError):
    """Samples could not be written or sent."""


class RecordsError(RebalanceAgentError):
    """Recorded samples that were asked for are not there, or cannot be read."""
