"""TLS of the proxy: as the clients' server, and as the brokers' client."""

import ssl
from pathlib import Path
from typing import NamedTuple

from agent.errors import ConfigError
from agent.small_files import check_certificates
from agent.sources.proxy.config import ListenTls, TlsConfig, UpstreamTls

_NO_PASSWORD = b""
"""Without one OpenSSL prompts on the terminal."""


class TlsContexts(NamedTuple):
    """The contexts of both sides' sockets; None: plaintext."""

    client: ssl.SSLContext | None
    broker: ssl.SSLContext | None


def load_contexts(config: TlsConfig) -> TlsContexts:
    """Read the certificates.

    Raises:
        ConfigError: a file is missing or no certificate, or the key is not its.

    """
    sides = {"listen": config.listen, "upstream": config.upstream}
    for side, files in sides.items():
        for name in ("cert_file", "key_file", "ca_file"):
            _check_readable(f"tls.{side}.{name}", getattr(files, name))
    side = "listen"
    try:
        client = _build_client_side(config.listen)
        side = "upstream"
        return TlsContexts(client, _build_broker_side(config.upstream))
    except ssl.SSLError as error:
        wanted = "wanted certificates in PEM, and their key without a password"
        raise ConfigError(f"tls.{side}: {error}; {wanted}") from error


def _check_readable(where: str, path: Path | None) -> None:
    """Raise an error with the path: OpenSSL's error lacks it."""
    if path is None:
        return
    try:
        check_certificates(path)
    except OSError as error:
        raise ConfigError(f"{where}: {path}: {error.strerror}") from error


def _build_client_side(config: ListenTls) -> ssl.SSLContext | None:
    if config == ListenTls():
        return None
    if config.cert_file is None:
        raise ConfigError("tls.listen.cert_file: is missing")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(config.cert_file, config.key_file, _NO_PASSWORD)
    if config.ca_file is not None:
        context.load_verify_locations(config.ca_file)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _build_broker_side(config: UpstreamTls) -> ssl.SSLContext | None:
    """Return a context that verifies the certificate and its host name."""
    if config == UpstreamTls():
        return None
    context = ssl.create_default_context(cafile=config.ca_file)
    if config.cert_file is not None:
        context.load_cert_chain(config.cert_file, config.key_file, _NO_PASSWORD)
    return context
