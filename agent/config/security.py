"""``cluster.security``: TLS and login of brokers; secrets stand in files."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from agent.config.addresses import check_url
from agent.errors import ConfigError

_PLACE = "cluster.security."
ISSUER_EXAMPLE = "https://idp/token"
"""A token endpoint, for messages."""


class Mechanism(StrEnum):
    """Values of Kafka's ``sasl.mechanism``."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"


class Protocol(StrEnum):
    """Values of Kafka's ``security.protocol``."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def tls(self) -> bool:
        """Whether connections are encrypted."""
        return self in (Protocol.SSL, Protocol.SASL_SSL)

    @property
    def sasl(self) -> bool:
        """Whether connections log in."""
        return self in (Protocol.SASL_PLAINTEXT, Protocol.SASL_SSL)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityConfig:
    """Files are read again for each new connection, so secrets can be rotated."""

    protocol: Protocol = Protocol.PLAINTEXT
    mechanism: Mechanism | None = None
    username: str | None = None
    password_file: Path | None = None
    ca_file: Path | None = None
    """Default: the machine's own authorities."""
    certificate: Path | None = None
    """The agent's certificate and its chain (PEM), for mTLS."""
    key: Path | None = None
    key_password_file: Path | None = None
    verify_host_name: bool = True
    token_file: Path | None = None
    token_url: str | None = None
    """OpenID Connect's token endpoint: client credentials, ``username`` is the client's id."""

    def __post_init__(self) -> None:
        """Check rules beyond types.

        Raises:
            ConfigError: a field that the protocol or the mechanism needs is missing or wrong.

        """
        if self.protocol.sasl != (self.mechanism is not None):
            wanted = "a mechanism" if self.protocol.sasl else "protocol SASL_SSL or SASL_PLAINTEXT"
            raise ConfigError(f"{_PLACE}mechanism: protocol is {self.protocol}, wanted {wanted}")
        token = self.mechanism is Mechanism.OAUTHBEARER and self.token_url is None
        if token and self.token_file is None:
            raise ConfigError(f"{_PLACE}token_file: is missing; OAUTHBEARER wants it, or token_url")
        if self.mechanism and not token:
            for name in ("username", "password_file"):
                if getattr(self, name) is None:
                    raise ConfigError(f"{_PLACE}{name}: is missing; {self.mechanism} wants it")
        if self.token_url is not None:
            place = f"{_PLACE}token_url"
            check_url(self.token_url, place, ISSUER_EXAMPLE, "username and password_file")
        if self.key is not None and self.certificate is None:
            raise ConfigError(f"{_PLACE}certificate: is missing; there is a key")
