import base64
import hashlib
import hmac

import pytest

from agent.config.security import Mechanism
from agent.inspection.connection.errors import RefusedError
from agent.inspection.connection.sasl import Exchange, oauth_bearer, plain, scram

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def said(exchange: Exchange, *answers: bytes) -> list[bytes]:
    """Return the client's messages; the last response ends the exchange."""
    out = [next(exchange)]
    for answer in answers:
        try:
            out.append(exchange.send(answer))
        except StopIteration:
            return out
    pytest.fail("the exchange goes on")


def test_scram_speaks_as_the_example_of_rfc_7677() -> None:
    exchange = scram(Mechanism.SCRAM_SHA_256, "user", "pencil", NONCE)

    assert said(exchange, SERVER_FIRST, SERVER_FINAL) == [
        b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
        (
            b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
            b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        ),
    ]


def test_scram_with_sha_512_proves_itself_to_a_server_that_knows_the_password() -> None:
    exchange = scram(Mechanism.SCRAM_SHA_512, "u=,", "pässwörd", "abc")
    first = next(exchange).decode()
    salted = hashlib.pbkdf2_hmac("sha512", "pässwörd".encode(), b"salt", 4096)
    server_first = f"r=abcdef,s={base64.b64encode(b'salt').decode()},i=4096"
    final = exchange.send(server_first.encode()).decode()
    signed = f"{first[3:]},{server_first},{final.rpartition(',')[0]}".encode()
    server_key = hmac.digest(salted, b"Server Key", "sha512")
    signature = base64.b64encode(hmac.digest(server_key, signed, "sha512")).decode()

    with pytest.raises(StopIteration):
        exchange.send(f"v={signature}".encode())

    assert first == "n,,n=u=3D=2C,r=abc"


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"e=other-error",
        b"r=somebody-else,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        b"r=rOprNGfwEbeRWgbNEkqO1,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=2000000000",
        b"r=rOprNGfwEbeRWgbNEkqO1,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=0",
        b"r=rOprNGfwEbeRWgbNEkqO1,s=a,i=x",
    ],
)
def test_scram_refuses_an_answer_that_is_none(answer: bytes) -> None:
    exchange = scram(Mechanism.SCRAM_SHA_256, "user", "pencil", NONCE)
    next(exchange)

    with pytest.raises(RefusedError, match=r"no SCRAM (message|response)"):
        exchange.send(answer)


def test_scram_refuses_a_server_that_does_not_know_the_password() -> None:
    exchange = scram(Mechanism.SCRAM_SHA_256, "user", "pencil", NONCE)
    next(exchange)
    exchange.send(SERVER_FIRST)

    with pytest.raises(RefusedError, match="does not know the password"):
        exchange.send(b"v=AAAA")


def test_plain_and_a_token_are_one_message() -> None:
    assert said(plain("u", "p"), b"") == [b"\0u\0p"]
    assert said(oauth_bearer("t"), b"") == [b"n,,\x01auth=Bearer t\x01\x01"]


def test_a_refused_token_says_why() -> None:
    exchange = oauth_bearer("t")
    next(exchange)

    with pytest.raises(RefusedError, match=r"the token is refused: .*invalid_token"):
        exchange.send(b'{"status":"invalid_token"}')
