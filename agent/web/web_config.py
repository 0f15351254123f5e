"""The web configuration: TLS, headers and users of the web server, in a file of its own.

The file has the format of Prometheus' exporter-toolkit, so one file serves every exporter of a
host. Unsupported settings are refused by name. Paths are relative to the file's folder.
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from agent.config.codec import decode, join
from agent.config.yaml_loader import read_yaml
from agent.errors import ConfigError
from metrics.model.units import Duration

_HEADERS = {
    "Strict-Transport-Security": (),
    "X-Content-Type-Options": ("nosniff",),
    "X-Frame-Options": ("deny", "sameorigin"),
    "X-XSS-Protection": (),
    "Content-Security-Policy": (),
}
"""Allowed headers and their values; no values: any."""
_REFUSED = {
    ("tls_server_config", "cert"): "wanted cert_file",
    ("tls_server_config", "key"): "wanted key_file",
    ("tls_server_config", "client_ca"): "wanted client_ca_file",
    ("tls_server_config", "curve_preferences"): "OpenSSL's own order is taken",
}
"""Settings of the format that the agent does not support."""
_UNVERIFIED = ("RequestClientCert", "RequireAnyClientCert", "RequireClientCert")


class ClientAuth(StrEnum):
    """Requirement of client certificates; a given one is always verified."""

    NONE = "NoClientCert"
    IF_GIVEN = "VerifyClientCertIfGiven"
    REQUIRED = "RequireAndVerifyClientCert"


class TlsVersion(StrEnum):
    """Older versions are broken, and OpenSSL no longer has them."""

    TLS12 = "TLS12"
    TLS13 = "TLS13"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsServerConfig:
    """The server's certificate, and its requirements of clients."""

    cert_file: Path
    key_file: Path
    client_auth_type: ClientAuth = ClientAuth.NONE
    client_ca_file: Path | None = None
    client_allowed_sans: tuple[str, ...] | None = None
    min_version: TlsVersion = TlsVersion.TLS12
    max_version: TlsVersion = TlsVersion.TLS13
    cipher_suites: tuple[str, ...] = ()
    """Go's names; those of TLS 1.3 are always on."""
    prefer_server_cipher_suites: bool = True

    @property
    def files(self) -> tuple[Path, ...]:
        """All files that this section names."""
        named = (self.cert_file, self.key_file, self.client_ca_file)
        return tuple(each for each in named if each is not None)


@dataclass(frozen=True, slots=True)
class HttpServerConfig:
    """``http2`` may only be false."""

    http2: bool = False
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimitConfig:
    """One request each interval, ``burst`` at once; no interval means no limit."""

    interval_s: Duration = field(default=0.0, metadata={"key": "interval"})
    burst: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class WebFileConfig:
    """The checked file; TLS and the login check the certificates and hashes later."""

    tls_server_config: TlsServerConfig | None = None
    http_server_config: HttpServerConfig = field(default_factory=HttpServerConfig)
    basic_auth_users: dict[str, str] = field(default_factory=dict, repr=False)
    rate_limit: RateLimitConfig = field(default_factory=RateLimitConfig)

    @property
    def files(self) -> tuple[Path, ...]:
        """Further files that the configuration names."""
        return () if self.tls_server_config is None else self.tls_server_config.files


def read_web_config(path: Path) -> WebFileConfig:
    """Read and check the file.

    Raises:
        ConfigError: naming the file, the key, the found and the wanted value.

    """
    document, where = read_yaml(path), f"{path}: "
    _refuse(document, where)
    config = decode(WebFileConfig, document, where)
    _check_http(config.http_server_config, f"{where}http_server_config")
    if config.rate_limit.burst < 1:
        found = f"found {config.rate_limit.burst}"
        raise ConfigError(f"{where}rate_limit.burst: {found}, wanted 1 or more")
    tls = config.tls_server_config
    if tls is None:
        return config
    _check_tls(tls, f"{where}tls_server_config")
    return replace(config, tls_server_config=_beside(tls, path.parent))


def _refuse(document: dict[str, Any], where: str) -> None:
    for path, instead in _REFUSED.items():
        found: Any = document
        for key in path:
            found = found.get(key) if isinstance(found, dict) else None
        if found is not None:
            raise ConfigError(f"{where}{'.'.join(path)}: this agent does not take it; {instead}")
    tls = document.get("tls_server_config")
    if isinstance(tls, dict) and tls.get("client_auth_type") in _UNVERIFIED:
        found = f"found {tls['client_auth_type']!r}"
        wanted = f"wanted {ClientAuth.REQUIRED.value!r} or {ClientAuth.IF_GIVEN.value!r}"
        reason = "a certificate that nobody verifies proves nothing"
        raise ConfigError(f"{where}tls_server_config.client_auth_type: {found}, {wanted}: {reason}")


def _check_http(config: HttpServerConfig, where: str) -> None:
    if config.http2:
        raise ConfigError(f"{where}.http2: found true, wanted false: the agent speaks HTTP/1.1")
    for name, value in config.headers.items():
        here = join(f"{where}.headers", name)
        if name not in _HEADERS:
            raise ConfigError(f"{here}: unknown header; allowed: {', '.join(_HEADERS)}")
        allowed = _HEADERS[name]
        if allowed and value and value not in allowed:
            raise ConfigError(f"{here}: found {value!r}, wanted {' or '.join(allowed)}")
        if not (value.isascii() and (value.isprintable() or not value)):
            raise ConfigError(f"{here}: found {value!r}, wanted printable ASCII")


def _check_tls(config: TlsServerConfig, where: str) -> None:
    if config.min_version > config.max_version:
        found = f"found {config.min_version.value!r}, above max_version"
        raise ConfigError(f"{where}.min_version: {found} {config.max_version.value!r}")
    asks = config.client_auth_type is not ClientAuth.NONE
    if asks and config.client_ca_file is None:
        wanted = f"{config.client_auth_type.value} wants it"
        raise ConfigError(f"{where}.client_ca_file: is missing; {wanted}")
    if config.client_ca_file is not None and not asks:
        wanted = f"wanted a client_auth_type such as {ClientAuth.REQUIRED.value}"
        raise ConfigError(f"{where}.client_ca_file: nobody is asked for a certificate; {wanted}")
    _check_names(config, f"{where}.client_allowed_sans")


def _check_names(config: TlsServerConfig, where: str) -> None:
    if config.client_allowed_sans is None:
        return
    if not config.client_allowed_sans:
        raise ConfigError(f"{where}: is empty, wanted at least one name")
    if config.client_auth_type is not ClientAuth.REQUIRED:
        wanted = f"wanted client_auth_type {ClientAuth.REQUIRED.value}"
        raise ConfigError(f"{where}: not everybody has to show a certificate; {wanted}")


def _beside(config: TlsServerConfig, folder: Path) -> TlsServerConfig:
    ca_file = config.client_ca_file
    return replace(
        config,
        cert_file=folder / config.cert_file,
        key_file=folder / config.key_file,
        client_ca_file=None if ca_file is None else folder / ca_file,
    )
