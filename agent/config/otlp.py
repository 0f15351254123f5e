"""``otlp``: where metrics, and whole groups' rebalances as traces, are sent."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from urllib.parse import urlsplit

from agent.config.addresses import check_url
from agent.errors import ConfigError


class OtlpProtocol(StrEnum):
    """Both carry protobuf."""

    HTTP = "http"
    GRPC = "grpc"


@dataclass(frozen=True, slots=True, kw_only=True)
class OtlpConfig:
    """What is not told here is as the SDK's environment (``OTEL_EXPORTER_OTLP_*``) has it."""

    endpoint: str
    """Such as ``http://collector:4318``, or ``http://collector:4317`` with ``protocol: grpc``."""
    protocol: OtlpProtocol = OtlpProtocol.HTTP
    interval_s: float = 15.0
    timeout_s: float = 5.0
    """For one request with all its retries; the agent's end may have to wait so long."""
    ca_file: Path | None = None
    """Certificates that the receiver's own is checked against. Default: the machine's."""
    headers_file: Path | None = None
    """A YAML mapping of headers, such as a token: secrets stand in files."""
    traces: bool = False
    """Whether each rebalance of a whole group is sent as a trace."""
    state_sets: bool = True
    """Whether there is a status metric, with a series for each state."""

    def __post_init__(self) -> None:
        """Check what types do not tell.

        Raises:
            ConfigError: the endpoint is none, or a time is out of its bounds.

        """
        check_url(self.endpoint, "otlp.endpoint", "http://collector:4318")
        if "@" in urlsplit(self.endpoint).netloc:  # it stands in the log and in check-config
            raise ConfigError("otlp.endpoint: found a password in it, wanted headers_file")
        if not 1 <= self.interval_s <= 3600:
            raise ConfigError(f"otlp.interval: found {self.interval_s}s, wanted 1s to 1h")
        if not 0.1 <= self.timeout_s <= 60:
            raise ConfigError(f"otlp.timeout: found {self.timeout_s}s, wanted 100ms to 1m")
