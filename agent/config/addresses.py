"""Addresses in configuration: ``host:port``, and the URLs of servers."""

import re
import urllib.parse
from typing import NamedTuple

from agent.errors import ConfigError

_BRACKETED = re.compile(r"\[([^\[\]]*:[^\[\]]*)\]")
_NOT_IN_A_HOST = re.compile(r"[\[\]/@\s\0]")
_PORT = re.compile(r"\d{1,5}", re.ASCII)
_USER = re.compile(r"(?<=//)[^/]*@")


class Address(NamedTuple):
    """A host and a port; an empty host means all local addresses."""

    host: str
    port: int


def parse_address(text: str, where: str, example: str = "kafka-1:9093") -> Address:
    """Return host and port of ``kafka-1:9093``, ``[::1]:9093`` or ``:12472``.

    Raises:
        ConfigError: it is none of these, or the host cannot be looked up in any name server.

    """
    host, colon, port = text.rpartition(":")
    bracketed = _BRACKETED.fullmatch(host)
    host = bracketed[1] if bracketed else host
    is_port = colon and _PORT.fullmatch(port) and int(port) <= 65535
    if not is_port or not _is_host(host):
        raise ConfigError(f"{where}: found {text!r}, wanted host:port such as {example}")
    return Address(host, int(port))


def check_url(text: str, where: str, example: str, secrets: str) -> None:
    """Check the address of an HTTP server. Messages hide a password in it.

    Logs and ``check-config`` print addresses, so a password stands in the setting ``secrets``.

    Raises:
        ConfigError: it is none, or has a password.

    """
    try:
        parts = urllib.parse.urlsplit(text)
        host, _ = parts.hostname, parts.port  # reading the port raises for a wrong one
        is_url = parts.scheme in ("http", "https") and bool(host) and _is_host(host or "")
    except ValueError:
        is_url = False
    if not is_url:
        found = _USER.sub("…@", text)
        raise ConfigError(f"{where}: found {found!r}, wanted an address such as {example}")
    if "@" in parts.netloc:
        raise ConfigError(f"{where}: found a password in it, wanted {secrets}")


def _is_host(host: str) -> bool:
    """Whether `socket.getaddrinfo` can look it up; for others it raises more than OSError."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return not _NOT_IN_A_HOST.search(host)
