"""Kafka's client configuration (``--command-config``): Java properties as a `Security`.

Keys that decide how brokers are reached are read; all others concern Java alone and are ignored.
"""

import os
import re
import ssl
import tempfile
from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TypeVar

from agent.config.addresses import check_url
from agent.config.security import ISSUER_EXAMPLE, Mechanism, Protocol
from agent.errors import ConfigError, reason_of
from agent.inspection.connection.config_providers import resolve_providers
from agent.inspection.connection.jaas import (
    find_jaas_file,
    has_unsecured_claims,
    make_unsecured_token,
    parse_options,
    read_client_section,
)
from agent.inspection.connection.key_stores import KeyStore, open_key_store
from agent.inspection.connection.msk_iam import MECHANISM as MSK_IAM
from agent.inspection.connection.msk_iam import find_region, make_token
from agent.inspection.connection.security import (
    CLIENT_ID,
    Login,
    Security,
    exchange_assertion,
    fetch_token,
)
from agent.small_files import check_certificates, read_bytes, read_text

_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_INT32 = re.compile(r"[0-9]{1,10}")
_KEY = re.compile(r"((?:\\.|[^\\:=\s])*)\s*[:=]?\s*(.*)", re.DOTALL)
_JWT_BEARER = "JwtBearerJwtRetriever"
"""Kafka's class for the exchange of an assertion (KIP-1139)."""
_PEM = "PEM"
_STORES = ("JKS", "PKCS12")
_Choice = TypeVar("_Choice", bound=StrEnum)


def read_properties(path: Path) -> dict[str, str]:
    """Return the keys and values of a file as ``java.util.Properties`` reads them.

    Raises:
        ConfigError: the file cannot be read.

    """
    try:
        text = read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        said = reason_of(error)
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
    properties = resolve_providers(properties, where, read_properties)
    name = properties.get("security.protocol", "PLAINTEXT").upper()  # as Kafka compares it
    protocol = _choice(Protocol, {"security.protocol": name}, "security.protocol", "", where)
    return Security(
        tls=_tls(properties, where) if protocol.tls else None,
        login=_login(properties, where) if protocol.sasl else None,
        client_id=properties.get("client.id") or CLIENT_ID,
    )


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


def request_timeout_s(properties: Mapping[str, str], where: str) -> float | None:
    """Return ``request.timeout.ms`` in seconds; None if it is not set.

    Raises:
        ConfigError: it is no positive number.

    """
    text = properties.get("request.timeout.ms")
    if text is None:
        return None
    if not _INT32.fullmatch(text.strip()) or not int(text):
        raise ConfigError(f"{where}: request.timeout.ms: found {text!r}, wanted milliseconds")
    return int(text) / 1000


def _login(properties: Mapping[str, str], where: str) -> Login:
    if properties.get("sasl.mechanism") == MSK_IAM:
        return _msk_login(properties)
    mechanism = _choice(Mechanism, properties, "sasl.mechanism", "GSSAPI", where)
    jaas = properties.get("sasl.jaas.config")
    if jaas is None:
        file = find_jaas_file(os.environ)
        if file is None:
            raise ConfigError(f"{where}: sasl.jaas.config: is missing, and KAFKA_OPTS has no file")
        jaas = read_client_section(file)
    options = parse_options(jaas)
    if mechanism is Mechanism.OAUTHBEARER:
        return _token_login(properties, options, where)
    for name in ("username", "password"):
        if name not in options:
            raise ConfigError(f"{where}: sasl.jaas.config: found no {name}")
    password = options["password"]
    return Login(
        mechanism=mechanism,
        username=options["username"],
        secret=lambda: password,
        is_delegation_token=options.get("tokenauth", "").lower() == "true",
    )


def _msk_login(properties: Mapping[str, str]) -> Login:
    options = parse_options(properties.get("sasl.jaas.config", ""))
    region = find_region(properties.get("bootstrap.servers", ""), os.environ)
    make = partial(make_token, region, options)
    return Login(mechanism=Mechanism.OAUTHBEARER, username="", secret=make)


def _token_login(properties: Mapping[str, str], options: Mapping[str, str], where: str) -> Login:
    key = "sasl.oauthbearer.token.endpoint.url"
    url = properties.get(key, "")
    if not url and has_unsecured_claims(options):
        make = partial(make_unsecured_token, options)
        return Login(mechanism=Mechanism.OAUTHBEARER, username="", secret=make)
    scheme, _, path = url.partition(":")
    if scheme == "file":
        from urllib.request import url2pathname  # noqa: PLC0415 - not for other logins

        file = Path(url2pathname(re.sub("^//[^/]*", "", path)))
        return Login(mechanism=Mechanism.OAUTHBEARER, username="", secret=partial(_text, file))
    if scheme not in ("http", "https"):
        raise ConfigError(f"{where}: {key}: found {url!r}, wanted file:, http: or https:")
    check_url(url, f"{where}: {key}", ISSUER_EXAMPLE, "the client's id and secret as settings")
    retriever = properties.get("sasl.oauthbearer.jwt.retriever.class", "")
    if retriever.rpartition(".")[2] == _JWT_BEARER:
        return _assertion_login(properties, url, where)
    credentials = "sasl.oauthbearer.client.credentials.client"
    name = properties.get(f"{credentials}.id") or options.get("clientId")
    secret = properties.get(f"{credentials}.secret") or options.get("clientSecret")
    if name is None or secret is None:
        raise ConfigError(f"{where}: sasl.jaas.config: found no clientId and clientSecret")
    scope = properties.get("sasl.oauthbearer.scope") or options.get("scope")
    fetch = partial(fetch_token, url, name, secret, scope)
    return Login(mechanism=Mechanism.OAUTHBEARER, username=name, secret=fetch)


def _assertion_login(properties: Mapping[str, str], url: str, where: str) -> Login:
    """Return a login by a signed JWT in a file: the endpoint gives a token for it (RFC 7523)."""
    key = "sasl.oauthbearer.assertion.file"
    if key not in properties:
        wanted = f"wanted {key}: a signed JWT; we sign none"
        raise ConfigError(f"{where}: sasl.oauthbearer.jwt.retriever.class: {wanted}")
    file, scope = Path(properties[key]), properties.get("sasl.oauthbearer.scope")

    def fetch() -> str:
        return exchange_assertion(url, _text(file), scope)

    return Login(mechanism=Mechanism.OAUTHBEARER, username="", secret=fetch)


def _tls(properties: Mapping[str, str], where: str) -> ssl.SSLContext:
    trusted = properties.get("ssl.truststore.certificates")
    store = _open_store(properties, "ssl.truststore", where)
    if store is not None:
        trusted = store.trusted
        if not trusted:
            raise ConfigError(f"{where}: ssl.truststore.location: holds no trusted certificate")
    location = None if store is not None else properties.get("ssl.truststore.location")
    own = _open_store(properties, "ssl.keystore", where)
    try:
        check_certificates(None if location is None else Path(location))
        context = ssl.create_default_context(cafile=location, cadata=trusted)
        if own is not None:
            _load_text(context, own.key, "")
        else:
            _load_own(context, properties)
    except (OSError, ssl.SSLError) as error:
        reason = reason_of(error)
        raise ConfigError(f"{where}: ssl: a certificate or key cannot be used: {reason}") from error
    # as Java: any certificate of the store is trusted, and keytool's lack extensions of RFC 5280
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    verify = properties.get("ssl.endpoint.identification.algorithm", "https")
    context.check_hostname = bool(verify.strip())
    return context


def _open_store(properties: Mapping[str, str], name: str, where: str) -> KeyStore | None:
    """Return the content of a Java store; None if there is none, or it is PEM."""
    kind = properties.get(f"{name}.type", "JKS").upper()
    location = properties.get(f"{name}.location")
    if kind == _PEM:
        return None
    if kind not in _STORES:
        known = ", ".join((*_STORES, _PEM))
        raise ConfigError(f"{where}: {name}.type: found {kind!r}, wanted one of {known}")
    if location is None:
        return None
    key = f"{where}: {name}.location"
    try:
        data = read_bytes(Path(location))
    except OSError as error:
        raise ConfigError(f"{key}: {location} cannot be read: {error.strerror}") from error
    password = properties.get(f"{name}.password", "")
    key_password = properties.get("ssl.key.password", "") if name == "ssl.keystore" else ""
    return open_key_store(data, password, key_password, f"{key}: {location}")


def _load_own(context: ssl.SSLContext, properties: Mapping[str, str]) -> None:
    """Load our certificate and key: one PEM file, or both inline."""
    password = properties.get("ssl.key.password", "")
    location = properties.get("ssl.keystore.location")
    chain = properties.get("ssl.keystore.certificate.chain")
    if location is not None:
        check_certificates(Path(location))
        context.load_cert_chain(location, password=password)
    elif chain is not None:
        _load_text(context, f"{properties.get('ssl.keystore.key', '')}\n{chain}\n", password)


def _load_text(context: ssl.SSLContext, text: str, password: str) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # for its owner alone
        file.write(text)
        file.flush()
        context.load_cert_chain(file.name, password=password)


def _text(path: Path) -> str:
    try:
        return read_text(path).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {reason_of(error)}") from error
