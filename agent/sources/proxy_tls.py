"""TLS of the proxy: as the clients' server, and as the brokers' client."""

import ssl
from typing import NamedTuple

from agent.errors import ConfigError
from agent.sources.proxy_config import ListenTls, TlsConfig, UpstreamTls


class Contexts(NamedTuple):
    """What both sides' sockets are wrapped with; None: plaintext."""

    client: ssl.SSLContext | None
    broker: ssl.SSLContext | None


def contexts(config: TlsConfig) -> Contexts:
    """Read the certificates.

    Raises:
        ConfigError: a file is missing or no certificate, or the key is not its.

    """
    try:
        return Contexts(_client(config.listen), _broker(config.upstream))
    except (OSError, ssl.SSLError) as error:
        name = getattr(error, "filename", None)
        raise ConfigError(f"tls: {f'{name}: ' if name else ''}{error}") from error


def _client(config: ListenTls) -> ssl.SSLContext | None:
    if config == ListenTls():
        return None
    if config.cert_file is None:
        raise ConfigError("tls.listen.cert_file: is missing")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(config.cert_file, config.key_file)
    if config.ca_file is not None:
        context.load_verify_locations(config.ca_file)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _broker(config: UpstreamTls) -> ssl.SSLContext | None:
    """Return a context that verifies the certificate and its host name."""
    if config == UpstreamTls():
        return None
    context = ssl.create_default_context(cafile=config.ca_file)
    if config.cert_file is not None:
        context.load_cert_chain(config.cert_file, config.key_file)
    return context
