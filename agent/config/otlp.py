"""``otlp``: the receiver of metrics, and of whole groups' rebalances as traces."""

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from agent.config.addresses import check_url
from agent.errors import ConfigError
from metrics.model.units import Duration


class OtlpProtocol(StrEnum):
    """Transport; both carry protobuf."""

    HTTP = "http"
    GRPC = "grpc"


@dataclass(frozen=True, slots=True, kw_only=True)
class OtlpConfig:
    """Unset fields default to the SDK's environment (``OTEL_EXPORTER_OTLP_*``)."""

    endpoint: str
    """Such as ``http://collector:4318``, or ``http://collector:4317`` with ``protocol: grpc``."""
    protocol: OtlpProtocol = OtlpProtocol.HTTP
    interval_s: Duration = field(default=15.0, metadata={"key": "interval"})
    timeout_s: Duration = field(default=5.0, metadata={"key": "timeout"})
    """Limit of one request with all its retries; the agent's end waits at most 5 s."""
    ca_file: Path | None = None
    """Authorities that verify the receiver's certificate. Default: the machine's."""
    headers_file: Path | None = None
    """File with a YAML mapping of headers, such as a token: secrets stand in files."""
    traces: bool = False
    """Whether each rebalance of a whole group is sent as a trace."""
    state_sets: bool = True
    """Whether a status metric is sent, with a series for each state."""

    def __post_init__(self) -> None:
        """Check rules beyond types.

        Raises:
            ConfigError: the endpoint is invalid, or a time is out of bounds.

        """
        check_url(self.endpoint, "otlp.endpoint", "http://collector:4318", "headers_file")
        if not 1 <= self.interval_s <= 3600:
            raise ConfigError(f"otlp.interval: found {self.interval_s}s, wanted 1s to 1h")
        if not 0.1 <= self.timeout_s <= 60:
            raise ConfigError(f"otlp.timeout: found {self.timeout_s}s, wanted 100ms to 1m")
