from pathlib import Path

import pytest

from agent.errors import ConfigError
from agent.web.web_config import ClientAuth, TlsVersion, read_web_config

TLS = "cert_file: own.pem, key_file: own.key"
HASH = "$2y$10$abcdefghijklmnopqrstuuQ0eS7rBbFhLVJ8qzHnF8yG2R1x9d5mK"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "web.yaml"


def test_everything_that_is_taken(file: Path) -> None:
    file.write_text(f"""
tls_server_config:
  cert_file: own.pem
  key_file: /etc/own.key
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: ca.pem
  client_allowed_sans: [prometheus]
  min_version: TLS13
  max_version: TLS13
  cipher_suites: [TLS_AES_128_GCM_SHA256]
  prefer_server_cipher_suites: false
http_server_config:
  http2: false
  headers: {{X-Frame-Options: deny}}
basic_auth_users:
  prometheus: {HASH}
""")

    config = read_web_config(file)

    tls = config.tls_server_config
    assert tls is not None
    assert tls.files == (file.parent / "own.pem", Path("/etc/own.key"), file.parent / "ca.pem")
    assert (tls.client_auth_type, tls.min_version) == (ClientAuth.REQUIRED, TlsVersion.TLS13)
    assert config.basic_auth_users == {"prometheus": HASH}
    assert HASH not in repr(config)


def test_an_empty_file_asks_for_nothing(file: Path) -> None:
    file.touch()

    assert read_web_config(file).files == ()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("tls_config: {}", "tls_config: unknown key; did you mean 'tls_server_config'?"),
        ("tls_server_config: {}", "tls_server_config.cert_file: is missing"),
        ("tls_server_config: {cert_file: a}", "tls_server_config.key_file: is missing"),
        (
            f"tls_server_config: {{{TLS}, min_version: TLS10}}",
            "tls_server_config.min_version: unknown 'TLS10'; did you mean 'TLS13'?",
        ),
        (
            f"tls_server_config: {{{TLS}, min_version: TLS13, max_version: TLS12}}",
            "tls_server_config.min_version: found 'TLS13', above max_version 'TLS12'",
        ),
        (
            f"tls_server_config: {{{TLS}, client_auth_type: RequireAndVerifyClientCert}}",
            "tls_server_config.client_ca_file: is missing; RequireAndVerifyClientCert wants it",
        ),
        (
            f"tls_server_config: {{{TLS}, client_ca_file: ca}}",
            (
                "tls_server_config.client_ca_file: nobody is asked for a certificate; "
                "wanted a client_auth_type such as RequireAndVerifyClientCert"
            ),
        ),
        (
            f"tls_server_config: {{{TLS}, client_auth_type: RequireAnyClientCert}}",
            (
                "tls_server_config.client_auth_type: found 'RequireAnyClientCert', wanted "
                "'RequireAndVerifyClientCert' or 'VerifyClientCertIfGiven': "
                "a certificate that nobody verifies proves nothing"
            ),
        ),
        (
            f"tls_server_config: {{{TLS}, client_allowed_sans: []}}",
            "tls_server_config.client_allowed_sans: is empty, wanted at least one name",
        ),
        (
            (
                f"tls_server_config: {{{TLS}, client_allowed_sans: [a], client_ca_file: ca,"
                " client_auth_type: VerifyClientCertIfGiven}"
            ),
            (
                "tls_server_config.client_allowed_sans: not everybody has to show a certificate; "
                "wanted client_auth_type RequireAndVerifyClientCert"
            ),
        ),
        (
            "tls_server_config: {cert: PEM}",
            "tls_server_config.cert: this agent does not take it; wanted cert_file",
        ),
        (
            "rate_limit: {burst: 0}",
            "rate_limit.burst: found 0, wanted 1 or more",
        ),
        (
            "http_server_config: {http2: true}",
            "http_server_config.http2: found true, wanted false: the agent speaks HTTP/1.1",
        ),
        (
            "http_server_config: {headers: {X-Frame-Options: no}}",
            "http_server_config.headers.X-Frame-Options: found False, wanted text",
        ),
        (
            "http_server_config: {headers: {X-Frame-Options: none}}",
            "http_server_config.headers.X-Frame-Options: found 'none', wanted deny or sameorigin",
        ),
        (
            "http_server_config: {headers: {X-XSS-Protection: 'a\u00e9'}}",
            "http_server_config.headers.X-XSS-Protection: found 'a\u00e9', wanted printable ASCII",
        ),
        (
            "http_server_config: {headers: {Server: a}}",
            (
                "http_server_config.headers.Server: unknown header; allowed: "
                "Strict-Transport-Security, X-Content-Type-Options, X-Frame-Options, "
                "X-XSS-Protection, Content-Security-Policy"
            ),
        ),
        ("basic_auth_users: {u: }", "basic_auth_users.u: found None, wanted text"),
    ],
)
def test_what_is_wrong_is_told_by_file_and_key(file: Path, text: str, complaint: str) -> None:
    file.write_text(text)

    with pytest.raises(ConfigError) as refused:
        read_web_config(file)

    assert str(refused.value) == f"{file}: {complaint}"
