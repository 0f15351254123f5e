"""SASL's client side, sans I/O: a mechanism is a generator of messages that is sent the answers.

SCRAM is RFC 5802 as Kafka has it: no SASLprep (so no library of it agrees on every password), no
channel binding. OAUTHBEARER is RFC 7628.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Generator

from agent.config.security import Mechanism
from agent.inspection.errors import RefusedError

Exchange = Generator[bytes, bytes, None]
_ITERATIONS_MAX = 1_000_000
"""Kafka's default is 4,096 and its bound 16,384; a false server must not keep us busy for hours."""


def plain(username: str, password: str) -> Exchange:
    """RFC 4616."""
    yield f"\0{username}\0{password}".encode()


def oauth_bearer(token: str) -> Exchange:
    """Show a token; a server that refuses it says why instead of nothing."""
    answer = yield f"n,,\x01auth=Bearer {token}\x01\x01".encode()
    if answer:
        raise RefusedError(f"the token is refused: {answer.decode(errors='replace')}", "password")


def scram(mechanism: Mechanism, username: str, password: str, nonce: str | None = None) -> Exchange:
    """Prove that we know the password, and have the server prove the same.

    Raises:
        RefusedError: the server does not know the password, or speaks something else.

    """
    digest = "sha512" if mechanism is Mechanism.SCRAM_SHA_512 else "sha256"
    nonce = nonce or secrets.token_urlsafe(24)
    name = username.replace("=", "=3D").replace(",", "=2C")
    first = f"n={name},r={nonce}"
    server_first = (yield f"n,,{first}".encode()).decode(errors="replace")
    told = _attributes(server_first)
    try:
        salt, iterations = base64.b64decode(told["s"]), int(told["i"])
        both = told["r"]
    except (KeyError, ValueError) as error:
        raise RefusedError(f"no SCRAM answer: {server_first!r}", "password") from error
    if not both.startswith(nonce) or not 0 < iterations <= _ITERATIONS_MAX:
        raise RefusedError(f"no SCRAM answer to what was asked: {server_first!r}", "password")
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", digest)
    final = f"c=biws,r={both}"
    signed = f"{first},{server_first},{final}".encode()
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), signed, digest)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    server_final = yield f"{final},p={base64.b64encode(proof).decode()}".encode()
    expected = hmac.digest(hmac.digest(salted, b"Server Key", digest), signed, digest)
    shown = _attributes(server_final.decode(errors="replace")).get("v", "")
    if not hmac.compare_digest(shown.encode(), base64.b64encode(expected)):
        raise RefusedError("the broker does not know the password either: is it ours?", "password")


def _attributes(message: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in message.split(",") if "=" in part)
