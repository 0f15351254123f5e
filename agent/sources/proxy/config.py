"""The configuration of a source of type ``proxy``; without what the proxy itself needs."""

from dataclasses import dataclass, field
from pathlib import Path

from agent.config.addresses import parse_address
from agent.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenTls:
    """What clients see; with ``ca_file`` they must show a certificate of it (mTLS)."""

    cert_file: Path | None = None
    key_file: Path | None = None
    ca_file: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamTls:
    """How brokers are called; ``cert_file`` and ``key_file`` are for mTLS."""

    enabled: bool = False
    ca_file: Path | None = None
    """Without it the machine's own authorities are trusted."""
    cert_file: Path | None = None
    key_file: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsConfig:
    """Both sides; each is plaintext unless something is said of it."""

    listen: ListenTls = field(default_factory=ListenTls)
    upstream: UpstreamTls = field(default_factory=UpstreamTls)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyConfig:
    """One source of type ``proxy``: one cluster."""

    listen: str
    """Where clients bootstrap."""
    upstream: tuple[str, ...]
    """Where the cluster's brokers are bootstrapped from."""
    advertise: str | None = None
    """The host that clients are told; by default the address on which they have reached us."""
    broker_ports: int = 100
    """How many ports after that of ``listen`` may be taken, one a broker.

    That of a broker that was not heard of for an hour is given again where there is no other.
    """
    max_connections: int = 2_000
    drain_s: float = 5.0
    """What is under way has so long to end when the agent stops."""
    setup_s: float = 10.0
    """A client is closed whose broker, or either handshake, takes longer."""
    tls: TlsConfig = field(default_factory=TlsConfig)

    def __post_init__(self) -> None:
        """Check what types do not tell.

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
        """What the source is called in metrics and in the checkpoint."""
        return f"proxy:{self.listen}"
