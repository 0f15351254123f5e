"""TLS of the web server: one context for each state of the web configuration.

Theory of operation. asyncio takes one context when it begins to listen. `CurrentContext` is that
one, and passes each new connection to the active context. Certificates, authorities and versions
therefore change together, and open connections stay unchanged.
"""

import ipaddress
import logging
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent.config.codec import suggest
from agent.errors import ConfigError
from agent.small_files import check_certificates
from agent.web.web_config import ClientAuth, TlsServerConfig, TlsVersion

log = logging.getLogger(__name__)

_NO_PASSWORD = b""
"""Without one OpenSSL prompts on the terminal."""
_VERSIONS = {TlsVersion.TLS12: ssl.TLSVersion.TLSv1_2, TlsVersion.TLS13: ssl.TLSVersion.TLSv1_3}
_AUTH = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.IF_GIVEN: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}
_SUITES = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
}
"""OpenSSL's names by Go's."""
_SUITES_13 = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")


class _TlsSession(ssl.SSLObject):
    """A connection that sends its peer the alert of a refusal, and checks the peer's names."""

    _fault: ssl.SSLError | None = None

    def do_handshake(self) -> None:
        if self._fault is not None:
            raise self._fault
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            # asyncio closes at an error before it sends the alert, but not at this one
            self._fault = error
            raise ssl.SSLWantReadError from error
        self._check_names()

    def _check_names(self) -> None:
        allowed = getattr(self.context, "allowed_sans", None)
        if allowed is None:
            return
        shown = _names(self.getpeercert() or {})
        if allowed.isdisjoint(shown):
            log.warning("client_refused", extra={"sans": ",".join(shown)})
            raise ssl.SSLError("no name in client_allowed_sans")


class _ServerContext(ssl.SSLContext):
    sslobject_class = _TlsSession
    allowed_sans: frozenset[str] | None = None


class CurrentContext(ssl.SSLContext):
    """Passes every connection to the active context."""

    active_context: Callable[[], ssl.SSLContext]

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        return self.active_context().wrap_bio(*args, **kwargs)


def current_context(in_force: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
    """Return the context that asyncio listens with."""
    context = CurrentContext(ssl.PROTOCOL_TLS_SERVER)
    context.active_context = in_force
    return context


def make_context(config: TlsServerConfig, where: str) -> ssl.SSLContext:
    """Read the certificates.

    Raises:
        ConfigError: a file is missing or holds no certificate, or the key does not match.

    """
    context = _ServerContext(ssl.PROTOCOL_TLS_SERVER)
    for name in ("cert_file", "key_file", "client_ca_file"):
        _check_readable(getattr(config, name), f"{where}.{name}")
    try:
        context.load_cert_chain(config.cert_file, config.key_file, _NO_PASSWORD)
    except (OSError, ValueError) as error:
        files = f"{config.cert_file} with key {config.key_file}"
        wanted = "wanted a certificate in PEM, and its key without a password"
        raise ConfigError(f"{where}.cert_file: {files}: {error}; {wanted}") from error
    _require_client_certificates(context, config, where)
    context.set_alpn_protocols(["http/1.1"])
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.minimum_version = _VERSIONS[config.min_version]
    context.maximum_version = _VERSIONS[config.max_version]
    if config.cipher_suites:
        _set_suites(context, config, f"{where}.cipher_suites")
    if not config.prefer_server_cipher_suites:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    return context


def _check_readable(path: Path | None, where: str) -> None:
    """Check that a file is readable: OpenSSL's error names no file."""
    if path is None:
        return
    try:
        check_certificates(path)
    except OSError as error:
        raise ConfigError(f"{where}: {path}: {error.strerror}") from error


def _require_client_certificates(
    context: _ServerContext, config: TlsServerConfig, where: str
) -> None:
    if config.client_ca_file is None:
        return
    try:
        context.load_verify_locations(config.client_ca_file)
    except (OSError, ValueError) as error:
        wanted = "wanted certificates in PEM"
        found = f"{config.client_ca_file}: {error}"
        raise ConfigError(f"{where}.client_ca_file: {found}; {wanted}") from error
    context.verify_mode = _AUTH[config.client_auth_type]
    if config.client_allowed_sans is not None:
        context.allowed_sans = frozenset(config.client_allowed_sans)


def _set_suites(context: ssl.SSLContext, config: TlsServerConfig, where: str) -> None:
    for i, suite in enumerate(config.cipher_suites):
        if suite not in _SUITES and suite not in _SUITES_13:
            known = suggest(suite, [*_SUITES, *_SUITES_13])
            raise ConfigError(f"{where}[{i}]: unknown {suite!r}; {known}")
    older = [_SUITES[suite] for suite in config.cipher_suites if suite in _SUITES]
    if older:
        context.set_ciphers(":".join(older))
    elif config.max_version is TlsVersion.TLS13:
        context.minimum_version = ssl.TLSVersion.TLSv1_3  # TLS 1.2 has none of them
    else:
        raise ConfigError(f"{where}: wanted one of TLS 1.2, for max_version is TLS12")


def _names(certificate: Any) -> list[str]:
    """Return the alternative names, with addresses in Go's notation."""
    return [
        str(ipaddress.ip_address(value.strip())) if kind == "IP Address" else value
        for kind, value in certificate.get("subjectAltName", ())
    ]
