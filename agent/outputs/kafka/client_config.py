"""Properties of librdkafka's clients: addresses and ``security`` in its own names."""

import time
from collections.abc import Callable
from typing import Any

from agent.config.kafka import KafkaAccess
from agent.config.security import Mechanism, SecurityConfig
from agent.inspection.connection.security import open_security
from agent.small_files import read_text

_TOKEN_LIFE_S = 300.0
"""Longest use of a token before it is read again: a file holds no expiry."""
_LOG_LEVEL_CRITICAL = 2
"""Level of librdkafka's own log (syslog's levels): callbacks report the rest."""


def client_properties(access: KafkaAccess) -> dict[str, Any]:
    """Return the properties of every client.

    Raises:
        ConfigError: a certificate or a secret cannot be read.

    """
    security = access.security
    properties = {
        "bootstrap.servers": ",".join(access.bootstrap_servers),
        "client.id": "rebalance-agent",
        "log_level": _LOG_LEVEL_CRITICAL,
        "reconnect.backoff.ms": 500,
        "security.protocol": security.protocol.value,
    }
    login = open_security(security).login  # a missing secret is an error at the start
    if security.protocol.tls:
        properties |= _tls(security)
    if login is None:
        return properties
    properties["sasl.mechanism"] = login.mechanism.value
    if login.mechanism is Mechanism.OAUTHBEARER:
        return properties | {"oauth_cb": _token(login.secret)}
    return properties | {"sasl.username": login.username, "sasl.password": login.secret()}


def _tls(security: SecurityConfig) -> dict[str, Any]:
    password = security.key_password_file
    found = {
        "ssl.ca.location": security.ca_file,
        "ssl.certificate.location": security.certificate,
        "ssl.key.location": security.key or security.certificate,
        "ssl.key.password": password and read_text(password).rstrip("\r\n"),
        "ssl.endpoint.identification.algorithm": "https" if security.verify_host_name else "none",
    }
    return {name: str(value) for name, value in found.items() if value is not None}


def _token(secret: Callable[[], str]) -> Callable[[str], tuple[str, float]]:
    return lambda _: (secret(), time.time() + _TOKEN_LIFE_S)
