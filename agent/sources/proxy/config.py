"""The configuration of a source of type ``proxy``; it imports nothing of the proxy."""

from dataclasses import dataclass, field
from pathlib import Path

from agent.config.addresses import parse_address
from agent.errors import ConfigError
from metrics.model.units import Duration


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenTls:
    """TLS towards clients; with ``ca_file`` they must show a certificate of it (mTLS)."""

    cert_file: Path | None = None
    key_file: Path | None = None
    ca_file: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamTls:
    """TLS towards brokers; ``cert_file`` and ``key_file`` are for mTLS."""

    enabled: bool = False
    ca_file: Path | None = None
    """Without it the machine's own authorities are trusted."""
    cert_file: Path | None = None
    key_file: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsConfig:
    """Both sides; each is plaintext unless it is configured."""

    listen: ListenTls = field(default_factory=ListenTls)
    upstream: UpstreamTls = field(default_factory=UpstreamTls)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyConfig:
    """One source of type ``proxy``: one cluster."""

    listen: str
    """The address for clients to bootstrap from."""
    upstream: tuple[str, ...]
    """The brokers to bootstrap the cluster from."""
    advertise: str | None = None
    """The host in addresses for clients; by default the one that a client has connected to."""
    broker_ports: int = 100
    """The number of ports after that of ``listen`` that brokers may take, one each.

    The port of a broker that was not named for an hour is assigned again if no other is free.
    """
    max_connections: int = 2_000
    drain_s: Duration = field(default=5.0, metadata={"key": "drain"})
    """Time for requests under way to end when the agent stops."""
    setup_s: Duration = field(default=10.0, metadata={"key": "setup"})
    """A client is closed if its broker, or either handshake, takes longer."""
    tls: TlsConfig = field(default_factory=TlsConfig)

    def __post_init__(self) -> None:
        """Check the values beyond their types.

        Raises:
            ConfigError: an address that is none.

        """
        parse_address(self.listen, "listen")
        if not self.upstream:
            raise ConfigError("upstream: wanted at least one broker")
        for i, text in enumerate(self.upstream):
            if not parse_address(text, f"upstream[{i}]").host:
                raise ConfigError(f"upstream[{i}]: found {text!r}, wanted host:port")

    @property
    def name(self) -> str:
        """The source's name in metrics and in the checkpoint."""
        return f"proxy:{self.listen}"
