import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import trustme

from agent.config.security import Mechanism, Protocol, SecurityConfig
from agent.errors import ConfigError
from agent.inspection.connection import security
from agent.inspection.connection.errors import RefusedError, UnreachableError
from agent.inspection.connection.security import exchange_assertion, fetch_token, open_security
from tests.agent.trickling import ANSWERS, Answer, answering, trickling


class TokenEndpoint(BaseHTTPRequestHandler):
    """Knows the client "agent" with the secret "s e", and records its requests."""

    def do_POST(self) -> None:
        form = self.rfile.read(int(self.headers["Content-Length"])).decode()
        known = self.headers["Authorization"] == "Basic YWdlbnQ6cytl" or "=a.signed.jwt" in form
        token = json.dumps({"access_token": f"token of {form}"})
        body = {"/token": token, "/deep": "[" * 100_000}.get(self.path, "{}")
        self.send_response(200 if known else 401)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def idp() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), TokenEndpoint) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_password_is_read_when_it_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("first\n")
    config = SecurityConfig(
        protocol=Protocol.SASL_PLAINTEXT,
        mechanism=Mechanism.PLAIN,
        username="u",
        password_file=file,
    )

    login = open_security(config).login
    file.write_text("second\n")

    assert login is not None
    assert next(login.exchange()) == b"\0u\0second"


def test_a_missing_secret_is_told_at_once(tmp_path: Path) -> None:
    config = SecurityConfig(
        protocol=Protocol.SASL_PLAINTEXT,
        mechanism=Mechanism.OAUTHBEARER,
        token_file=tmp_path / "none",
    )

    with pytest.raises(ConfigError, match="none cannot be read: No such file"):
        open_security(config)


def test_certificates_are_read(tmp_path: Path) -> None:
    ca = trustme.CA()
    ca.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    own = ca.issue_cert("agent")
    own.cert_chain_pems[0].write_to_path(str(tmp_path / "own.pem"))
    own.private_key_pem.write_to_path(str(tmp_path / "own.key"))

    security = open_security(
        SecurityConfig(
            protocol=Protocol.SSL,
            ca_file=tmp_path / "ca.pem",
            certificate=tmp_path / "own.pem",
            key=tmp_path / "own.key",
            verify_host_name=False,
        )
    )

    assert security.tls is not None
    assert (security.tls.check_hostname, len(security.tls.get_ca_certs())) == (False, 1)


def test_a_wrong_certificate_is_named(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")

    with pytest.raises(ConfigError, match=r"a certificate or key of .*ca\.pem"):
        open_security(SecurityConfig(protocol=Protocol.SSL, ca_file=tmp_path / "ca.pem"))


def test_a_token_is_fetched_with_the_clients_credentials(idp: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s e")
    config = SecurityConfig(
        protocol=Protocol.SASL_SSL,
        mechanism=Mechanism.OAUTHBEARER,
        username="agent",
        password_file=tmp_path / "secret",
        token_url=f"{idp}/token",
    )

    login = open_security(config).login

    assert login is not None
    assert login.secret() == "token of grant_type=client_credentials"


def test_a_scope_is_asked_for(idp: str) -> None:
    token = fetch_token(f"{idp}/token", "agent", "s e", "kafka")

    assert token == "token of grant_type=client_credentials&scope=kafka"


def test_a_signed_jwt_is_exchanged_for_a_token(idp: str) -> None:
    grant = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer"

    token = exchange_assertion(f"{idp}/token", "a.signed.jwt", "kafka")

    assert token == f"token of {grant}&assertion=a.signed.jwt&scope=kafka"
    with pytest.raises(RefusedError, match="refuses the assertion: HTTP 401"):
        exchange_assertion(f"{idp}/token", "another.jwt")


def test_an_endpoint_that_refuses_or_is_none_is_named(idp: str) -> None:
    with pytest.raises(RefusedError, match="refuses the client 'agent': HTTP 401"):
        fetch_token(f"{idp}/token", "agent", "wrong")
    with pytest.raises(RefusedError, match="responds without an access_token"):
        fetch_token(f"{idp}/other", "agent", "s e")
    with pytest.raises(RefusedError, match="responds without an access_token"):
        fetch_token(f"{idp}/deep", "agent", "s e")
    with pytest.raises(UnreachableError, match="does not respond"):
        fetch_token("http://127.0.0.1:1/token", "agent", "s e")
    with pytest.raises(ConfigError, match="wanted http:// or https://"):
        fetch_token("file:///etc/passwd", "agent", "s e")


def test_an_endpoint_that_speaks_no_http_is_named() -> None:
    answer = answering(b"SSH-2.0-OpenSSH_9.2\r\n")
    with answer as address, pytest.raises(UnreachableError, match="does not respond: SSH-2"):
        fetch_token(f"http://{address}/token", "agent", "s e")


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.name)
def test_an_endpoint_that_trickles_is_given_up(
    answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(security, "_TOKEN_TIMEOUT_S", 0.5)
    with trickling(answer) as address, pytest.raises(UnreachableError, match="timed out"):
        fetch_token(f"http://{address}/token", "agent", "s e")
