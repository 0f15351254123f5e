"""The configuration of a source of type ``broker_log``; it imports nothing of log reading."""

from dataclasses import dataclass

from agent.sources.lines.following.config import FilesConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLogConfig(FilesConfig):
    """One source of type ``broker_log``."""

    @property
    def name(self) -> str:
        """The source's name in metrics and in the checkpoint."""
        return f"broker_log:{','.join(self.paths)}"
