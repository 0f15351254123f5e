"""SASL's client side, sans I/O: a mechanism generates messages and is sent the responses.

SCRAM is RFC 5802 as Kafka has it: no SASLprep (so no library of it agrees on every password), no
channel binding. OAUTHBEARER is RFC 7628.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Generator

from agent.config.security import Mechanism
from agent.inspection.connection.errors import RefusedError

Exchange = Generator[bytes, bytes, None]
_ITERATIONS_MAX = 1_000_000
"""Kafka's default is 4,096 and its bound 16,384; a false server must not cost hours of CPU."""


def plain(username: str, password: str) -> Exchange:
    """Send user and password (RFC 4616)."""
    yield f"\0{username}\0{password}".encode()


def oauth_bearer(token: str) -> Exchange:
    """Send a token; a server that refuses it responds with the reason instead of nothing."""
    refusal = yield f"n,,\x01auth=Bearer {token}\x01\x01".encode()
    if refusal:
        raise RefusedError(f"the token is refused: {refusal.decode(errors='replace')}", "password")


def scram(
    mechanism: Mechanism,
    username: str,
    password: str,
    nonce: str | None = None,
    *,
    is_token: bool = False,
) -> Exchange:
    """Prove knowledge of the password, and verify the server's proof.

    Raises:
        RefusedError: the server does not know the password, or does not speak SCRAM.

    """
    digest = "sha512" if mechanism is Mechanism.SCRAM_SHA_512 else "sha256"
    nonce = nonce or secrets.token_urlsafe(24)
    name = username.replace("=", "=3D").replace(",", "=2C")
    first = f"n={name},r={nonce}" + (",tokenauth=true" if is_token else "")
    server_first = (yield f"n,,{first}".encode()).decode(errors="replace")
    attributes = _attributes(server_first)
    try:
        salt, iterations = base64.b64decode(attributes["s"]), int(attributes["i"])
        both = attributes["r"]
    except (KeyError, ValueError) as error:
        raise RefusedError(f"no SCRAM message: {server_first!r}", "password") from error
    if not both.startswith(nonce) or not 0 < iterations <= _ITERATIONS_MAX:
        raise RefusedError(f"no SCRAM response to our message: {server_first!r}", "password")
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", digest)
    final = f"c=biws,r={both}"
    signed = f"{first},{server_first},{final}".encode()
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), signed, digest)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    server_final = yield f"{final},p={base64.b64encode(proof).decode()}".encode()
    expected = hmac.digest(hmac.digest(salted, b"Server Key", digest), signed, digest)
    verifier = _attributes(server_final.decode(errors="replace")).get("v", "")
    if not hmac.compare_digest(verifier.encode(), base64.b64encode(expected)):
        raise RefusedError("the broker does not know the password either: is it ours?", "password")


def _attributes(message: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in message.split(",") if "=" in part)
