"""Client of `agent.web.api`, to query a running agent or hub.

An address may have a user and a password, as in ``https://user:password@hub:12472``; no message
shows them. ``REBALANCE_AGENT_CA_FILE`` is the file of trusted authorities (default: the machine's,
or ``SSL_CERT_FILE``). ``REBALANCE_AGENT_CERTIFICATE_FILE`` is an own certificate with its key.
"""

import base64
import os
import ssl
import urllib.error
import urllib.parse
import urllib.request
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any

import msgspec

from agent.errors import ConfigError, RecordsError, reason_of
from agent.small_files import check_certificates
from agent.timed_opener import open_timed
from metrics.model.sample import MALFORMED

DEFAULT_URL = "http://localhost:12472"
_CA_FILE = "REBALANCE_AGENT_CA_FILE"
_UNKNOWN_AUTHORITY = {18, 19, 20, 21}
"""OpenSSL's X509_V_ERR_* of an issuer that is not trusted; others are of names and times."""
_TIMEOUT_S = 30.0
"""For the whole of a response."""
_RESPONSE_BYTES = 256 << 20
"""Limit of a response; a hub with all its groups and episodes sends less."""
_NO_PASSWORD = b""
"""Without one OpenSSL asks the terminal for it."""


def ask(url: str, what: str, answer_type: Any = Any, **query: object) -> Any:
    """Return an agent's answer about ``groups``, ``members``, ``episodes`` or ``explain``.

    Raises:
        RecordsError: no response from there, or an error.
        ConfigError: a certificate that the environment names cannot be read.

    """
    place, authorization = _without_user(url)
    text = urllib.parse.urlencode({k: v for k, v in query.items() if v is not None})
    asked = f"{place.rstrip('/')}/api/v1/{what}?{text}"
    if not asked.startswith(("http://", "https://")):
        raise RecordsError(f"{place}: wanted an address such as {DEFAULT_URL}")
    tls = _tls() if asked.startswith("https://") else None
    try:
        request = urllib.request.Request(asked)  # noqa: S310 - http(s)
        if authorization:
            # for this address only: a redirect must not forward it
            request.add_unredirected_header("Authorization", authorization)
        with open_timed(request, _TIMEOUT_S, tls) as answer:
            return msgspec.json.decode(_read(answer), type=answer_type)
    except urllib.error.HTTPError as error:
        with error:
            raise RecordsError(f"{place}: {_complaint(error)}") from error
    except (OSError, HTTPException, *MALFORMED) as error:
        cause = error.reason if isinstance(error, urllib.error.URLError) else error
        raise RecordsError(f"{place}: {reason_of(cause)}; wanted {_wanted(cause)}") from error


def _read(answer: HTTPResponse | urllib.error.HTTPError) -> bytes:
    """Return the body of a response.

    Raises:
        OSError: it is too large.

    """
    body = answer.read(_RESPONSE_BYTES + 1)
    if len(body) > _RESPONSE_BYTES:
        raise OSError(f"the response has more than {_RESPONSE_BYTES >> 20} MiB")
    return body


def _wanted(cause: BaseException | str) -> str:
    match cause:
        case ssl.SSLCertVerificationError(verify_code=code) if code in _UNKNOWN_AUTHORITY:
            return f"its authority in {_CA_FILE}"
        case _:
            return "a running agent or hub"


def _without_user(url: str) -> tuple[str, str]:
    """Return an address without user and password, and the value of `Authorization` for these."""
    scheme, slashes, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    user, at, host = host.rpartition("@")
    shown = f"{scheme}{slashes}{host}{slash}{path}"
    if not at:
        return shown, ""
    return shown, f"Basic {base64.b64encode(urllib.parse.unquote_to_bytes(user)).decode()}"


def _tls() -> ssl.SSLContext:
    name = _CA_FILE
    try:
        if authorities := os.environ.get(name):
            check_certificates(Path(authorities))
        context = ssl.create_default_context(cafile=authorities)
        name = "REBALANCE_AGENT_CERTIFICATE_FILE"
        if own := os.environ.get(name):
            check_certificates(Path(own))
            context.load_cert_chain(own, password=_NO_PASSWORD)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{name}: {os.environ.get(name)}: {error}; wanted PEM") from error
    return context


def _complaint(error: urllib.error.HTTPError) -> str:
    if error.code == 401:
        return "401: wanted a user and a password that it knows: https://USER:PASSWORD@HOST:PORT"
    try:
        return str(msgspec.json.decode(_read(error))["error"])
    except (OSError, HTTPException, *MALFORMED, KeyError, TypeError):
        return f"{error.code} {error.reason}"
