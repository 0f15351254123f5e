"""Kafka's client configuration (``--command-config``): Java properties as a `Security`.

Keys that decide how brokers are reached are read; all others concern Java alone and are ignored.
"""

import re
import ssl
import tempfile
import urllib.request
from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TypeVar

from agent.config.addresses import check_url
from agent.config.security import ISSUER_EXAMPLE, Mechanism, Protocol
from agent.errors import ConfigError
from agent.inspection.security import Login, Security, fetch_token

_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_KEY = re.compile(r"((?:\\.|[^\\:=\s])*)\s*[:=]?\s*(.*)", re.DOTALL)
_JAAS_OPTION = re.compile(r'([\w.]+)\s*=\s*(?:"((?:\\.|[^"\\])*)"|([^\s";]+))')
_PEM = "PEM"
_Choice = TypeVar("_Choice", bound=StrEnum)


def read_properties(path: Path) -> dict[str, str]:
    """Return the keys and values of a file as ``java.util.Properties`` reads them.

    Raises:
        ConfigError: the file cannot be read.

    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{path}: cannot be read: {said}") from error
    found: dict[str, str] = {}
    lines = iter(text.splitlines())
    for raw in lines:
        line = raw.lstrip()
        if not line or line[0] in "#!":
            continue
        while _continues(line):
            line = line[:-1] + next(lines, "").lstrip()
        match = _KEY.fullmatch(line)
        if match is not None:
            found[_unescape(match[1])] = _unescape(match[2])
    return found


def security_of(properties: Mapping[str, str], where: str) -> Security:
    """Return TLS and login for the connections to brokers.

    Raises:
        ConfigError: a value is invalid or not supported; the message names its key.

    """
    protocol = _choice(Protocol, properties, "security.protocol", "PLAINTEXT", where)
    tls = _tls(properties, where) if protocol.tls else None
    return Security(tls=tls, login=_login(properties, where) if protocol.sasl else None)


def _continues(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescape(text: str) -> str:
    def char(match: re.Match[str]) -> str:
        escaped = match[1]
        if len(escaped) == 5:  # uXXXX
            return chr(int(escaped[1:], 16))
        return _ESCAPED.get(escaped, escaped)

    return _ESCAPE.sub(char, text)


def _choice(
    kind: type[_Choice], properties: Mapping[str, str], key: str, default: str, where: str
) -> _Choice:
    found = properties.get(key, default)
    if found not in {each.value for each in kind}:
        known = ", ".join(each.value for each in kind)
        raise ConfigError(f"{where}: {key}: found {found!r}, wanted one of {known}")
    return kind(found)


def _login(properties: Mapping[str, str], where: str) -> Login:
    mechanism = _choice(Mechanism, properties, "sasl.mechanism", "GSSAPI", where)
    jaas = properties.get("sasl.jaas.config")
    if jaas is None:
        raise ConfigError(f"{where}: sasl.jaas.config: is missing")
    options = {
        name: re.sub(r"\\(.)", r"\1", quoted) or plain
        for name, quoted, plain in _JAAS_OPTION.findall(jaas)
    }
    if mechanism is Mechanism.OAUTHBEARER:
        return _token_login(properties, options, where)
    for name in ("username", "password"):
        if name not in options:
            raise ConfigError(f"{where}: sasl.jaas.config: found no {name}")
    password = options["password"]
    return Login(mechanism=mechanism, username=options["username"], secret=lambda: password)


def _token_login(properties: Mapping[str, str], options: Mapping[str, str], where: str) -> Login:
    key = "sasl.oauthbearer.token.endpoint.url"
    url = properties.get(key, "")
    scheme, _, path = url.partition(":")
    if scheme == "file":
        file = Path(urllib.request.url2pathname(re.sub("^//[^/]*", "", path)))
        return Login(mechanism=Mechanism.OAUTHBEARER, username="", secret=partial(_text, file))
    if scheme not in ("http", "https"):
        raise ConfigError(f"{where}: {key}: found {url!r}, wanted file:, http: or https:")
    check_url(url, f"{where}: {key}", ISSUER_EXAMPLE)
    credentials = "sasl.oauthbearer.client.credentials.client"
    name = properties.get(f"{credentials}.id") or options.get("clientId")
    secret = properties.get(f"{credentials}.secret") or options.get("clientSecret")
    if name is None or secret is None:
        raise ConfigError(f"{where}: sasl.jaas.config: found no clientId and clientSecret")
    scope = properties.get("sasl.oauthbearer.scope") or options.get("scope")
    fetch = partial(fetch_token, url, name, secret, scope)
    return Login(mechanism=Mechanism.OAUTHBEARER, username=name, secret=fetch)


def _tls(properties: Mapping[str, str], where: str) -> ssl.SSLContext:
    for store in ("ssl.truststore", "ssl.keystore"):
        _refuse_java_store(properties, store, where)
    trusted = properties.get("ssl.truststore.certificates")
    try:
        context = ssl.create_default_context(
            cafile=properties.get("ssl.truststore.location"), cadata=trusted
        )
        _load_own(context, properties)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"{where}: ssl: a certificate or key cannot be used: {error}") from error
    verify = properties.get("ssl.endpoint.identification.algorithm", "https")
    context.check_hostname = bool(verify.strip())
    return context


def _refuse_java_store(properties: Mapping[str, str], store: str, where: str) -> None:
    kind = properties.get(f"{store}.type", "JKS")
    used = f"{store}.location" in properties or f"{store}.certificates" in properties
    if used and kind.upper() != _PEM:
        hint = "keytool -exportcert -rfc and openssl pkcs12 make PEM of it"
        raise ConfigError(f"{where}: {store}.type: {kind} is Java's alone, wanted PEM; {hint}")


def _load_own(context: ssl.SSLContext, properties: Mapping[str, str]) -> None:
    """Load our certificate and key: one PEM file, or both inline."""
    password = properties.get("ssl.key.password", "")
    location = properties.get("ssl.keystore.location")
    chain = properties.get("ssl.keystore.certificate.chain")
    if location is not None:
        context.load_cert_chain(location, password=password)
    elif chain is not None:
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # for its owner alone
            file.write(f"{properties.get('ssl.keystore.key', '')}\n{chain}\n")
            file.flush()
            context.load_cert_chain(file.name, password=password)


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
