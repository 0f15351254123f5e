"""TLS contexts and logins, from the certificates and secrets that a configuration names."""

import json
import ssl
import urllib.parse
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import assert_never

from agent.config.security import Mechanism, SecurityConfig
from agent.errors import ConfigError, reason_of
from agent.inspection.connection.errors import RefusedError, UnreachableError
from agent.inspection.connection.sasl import Exchange, oauth_bearer, plain, scram
from agent.small_files import check_certificates, read_text

CLIENT_ID = "rebalance-agent"
_TOKEN_TIMEOUT_S = 10.0
_TOKEN_BYTES = 1 << 20
_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """An identity. ``secret`` returns password or token, from a file or a token endpoint too."""

    mechanism: Mechanism
    username: str
    secret: Callable[[], str] = field(repr=False)
    is_delegation_token: bool = False
    """The user is a token's id, the secret its HMAC (KIP-48); by SCRAM alone."""

    def exchange(self) -> Exchange:
        """Start a SASL exchange.

        Raises:
            RefusedError: the token endpoint refuses the client.

        """
        secret = self.secret()
        match self.mechanism:
            case Mechanism.PLAIN:
                return plain(self.username, secret)
            case Mechanism.SCRAM_SHA_256 | Mechanism.SCRAM_SHA_512:
                return scram(
                    self.mechanism, self.username, secret, is_token=self.is_delegation_token
                )
            case Mechanism.OAUTHBEARER:
                return oauth_bearer(secret)
            case _:
                assert_never(self.mechanism)


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """Security of a connection: plaintext without a context, no SASL without a login."""

    tls: ssl.SSLContext | None = None
    login: Login | None = None
    client_id: str = CLIENT_ID
    """The client's name at brokers, which quotas may name."""


def open_security(config: SecurityConfig) -> Security:
    """Read the certificates; passwords and tokens are read at each login.

    Raises:
        ConfigError: a file is missing or invalid.

    """
    tls = _tls(config) if config.protocol.tls else None
    if config.mechanism is None:
        return Security(tls=tls)
    username = config.username or ""
    if config.token_url is not None and config.password_file is not None:
        url, file = config.token_url, config.password_file
        secret = lambda: fetch_token(url, username, _secret(file))  # noqa: E731 - one of two
    else:
        file = config.token_file or config.password_file or Path()
        _secret(file)  # a missing file is an error at the start
        secret = lambda: _secret(file)  # noqa: E731
    return Security(
        tls=tls, login=Login(mechanism=config.mechanism, username=username, secret=secret)
    )


def _tls(config: SecurityConfig) -> ssl.SSLContext:
    password = _secret(config.key_password_file) if config.key_password_file else ""
    try:
        for path in (config.ca_file, config.certificate, config.key):
            check_certificates(path)
        context = ssl.create_default_context(cafile=config.ca_file)
        if config.certificate is not None:
            context.load_cert_chain(config.certificate, config.key, password)
    except (OSError, ssl.SSLError) as error:
        files = ", ".join(str(f) for f in (config.ca_file, config.certificate, config.key) if f)
        raise ConfigError(f"security: a certificate or key of {files}: {error}") from error
    context.check_hostname = config.verify_host_name
    return context


def _secret(path: Path) -> str:
    try:
        return read_text(path).rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        text = reason_of(error)
        raise ConfigError(f"security: {path} cannot be read: {text}") from error


def fetch_token(url: str, client_id: str, client_secret: str, scope: str | None = None) -> str:
    """Return an access token by OAuth's client credentials (RFC 6749, 4.4). Blocks.

    Raises:
        RefusedError: the endpoint refuses the client, or responds without a token.
        UnreachableError: the endpoint does not respond.

    """
    form = {"grant_type": "client_credentials"} | ({"scope": scope} if scope else {})
    quoted = ":".join(urllib.parse.quote_plus(part) for part in (client_id, client_secret))
    headers = {"Authorization": f"Basic {b64encode(quoted.encode()).decode()}"}
    return _request_token(url, form, headers, f"the client {client_id!r}")


def exchange_assertion(url: str, assertion: str, scope: str | None = None) -> str:
    """Return an access token for a signed JWT (RFC 7523, 2.1). Blocks.

    Raises:
        RefusedError: the endpoint refuses the JWT, or responds without a token.
        UnreachableError: the endpoint does not respond.

    """
    form = {"grant_type": _JWT_BEARER, "assertion": assertion} | ({"scope": scope} if scope else {})
    return _request_token(url, form, {}, "the assertion")


def _request_token(url: str, form: Mapping[str, str], headers: dict[str, str], subject: str) -> str:
    import urllib.error  # noqa: PLC0415 - not for other logins
    import urllib.request  # noqa: PLC0415
    from http.client import HTTPException  # noqa: PLC0415

    from agent.timed_opener import open_timed  # noqa: PLC0415

    request = urllib.request.Request(  # noqa: S310 - checked below
        url, urllib.parse.urlencode(form).encode(), headers
    )
    if request.type not in ("http", "https"):
        raise ConfigError(f"token_url: found {url!r}, wanted http:// or https://")
    try:
        with open_timed(request, _TOKEN_TIMEOUT_S) as answer:
            return str(json.loads(answer.read(_TOKEN_BYTES))["access_token"])
    except urllib.error.HTTPError as error:
        with error:
            text = f"{url} refuses {subject}: HTTP {error.code}"
        raise RefusedError(text, "password") from error
    except (OSError, HTTPException) as error:
        raise UnreachableError(f"{url} does not respond: {error}", "unreachable") from error
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise RefusedError(f"{url} responds without an access_token", "password") from error
