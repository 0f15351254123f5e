"""Basic authentication of the web server's users: names and bcrypt hashes."""

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from typing import NamedTuple

import bcrypt

from agent.errors import ConfigError

_HASH = re.compile(
    r"\$2[aby]\$(?P<cost>0[4-9]|[12]\d|3[01])\$(?P<salt>[./A-Za-z0-9]{22})[./A-Za-z0-9]{31}"
)
_MAX_PASSWORD_BYTES = 72
"""bcrypt reads no more of it."""


class Credentials(NamedTuple):
    """Name and password of a request."""

    name: str
    password: bytes


class Users:
    """Checks passwords: slow at first, immediate from then on.

    A wrong name costs as much as a wrong password. For each user one verified password is kept, as
    a keyed digest, so memory is bounded by the number of users.
    """

    def __init__(self, hashes: Mapping[str, str], where: str) -> None:
        """Check the hashes.

        Raises:
            ConfigError: a value is no bcrypt hash; it is not shown, as it may be the password.

        """
        costs: dict[str, int] = {}
        for name, text in hashes.items():
            costs[name] = _cost(text, f"{where}.{name}")
        self._hashes = {name: text.encode() for name, text in hashes.items()}
        self._decoy = self._hashes[max(costs, key=costs.__getitem__)]
        self._key = secrets.token_bytes(32)
        self._verified: dict[str, bytes] = {}

    def is_verified(self, shown: Credentials) -> bool:
        """Whether the same password was verified before; takes next to no time."""
        verified = self._verified.get(shown.name, b"")
        return hmac.compare_digest(verified, self._digest(shown.password))

    def verify(self, shown: Credentials) -> bool:
        """Check a password; the hash sets the duration. Call it in a thread."""
        hashed = self._hashes.get(shown.name)
        password = shown.password[:_MAX_PASSWORD_BYTES]
        is_right = bcrypt.checkpw(password, self._decoy if hashed is None else hashed)
        if hashed is None or not is_right:
            return False
        self._verified[shown.name] = self._digest(shown.password)
        return True

    def _digest(self, password: bytes) -> bytes:
        return hashlib.blake2b(password[:_MAX_PASSWORD_BYTES], key=self._key).digest()


def _cost(text: str, where: str) -> int:
    match = _HASH.fullmatch(text)
    try:
        if match is not None:
            bcrypt.hashpw(b"", f"$2b$04${match['salt']}".encode())  # the cheapest: is it a salt?
            return int(match["cost"])
    except ValueError:
        pass
    wanted = "a bcrypt hash such as `htpasswd -nBC 10 NAME` prints"
    raise ConfigError(f"{where}: wanted {wanted}")


def parse_credentials(authorization: str) -> Credentials | None:
    """Return name and password of an ``Authorization`` header; None for other schemes."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
        return Credentials(name.decode(), password) if colon else None
    except (binascii.Error, ValueError):
        return None
