import ssl
from pathlib import Path

import pytest
import trustme

from agent.config.security import Mechanism
from agent.errors import ConfigError
from agent.inspection.client_properties import read_properties, security_of

JAAS = "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
SCRAM = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "client.properties"


def refusal(file: Path, text: str) -> str:
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        security_of(read_properties(file), "client.properties")
    return str(caught.value).replace(str(file.parent), "DIR")


def test_properties_are_read_as_java_reads_them(file: Path) -> None:
    file.write_text(
        "# a comment\n! another\n\n"
        "a=1\n b : 2 \nc 3\nd\\=e=f\\u00e9\\t.\n"
        "long=one \\\n    two \\\\\nempty=\nalone\n"
    )

    assert read_properties(file) == {
        "a": "1",
        "b": "2 ",
        "c": "3",
        "d=e": "fé\t.",
        "long": "one two \\",
        "empty": "",
        "alone": "",
    }


def test_nothing_said_is_plaintext_without_a_login(file: Path) -> None:
    file.write_text("request.timeout.ms=5000\n")

    security = security_of(read_properties(file), "")

    assert (security.tls, security.login) == (None, None)


def test_a_login_stands_in_the_jaas_configuration(file: Path) -> None:
    file.write_text(SCRAM + JAAS + 'username="al\\\\"ice" password="p;w = \\\\\\\\x";\n')

    login = security_of(read_properties(file), "").login

    assert login is not None
    assert (login.mechanism, login.username) == (Mechanism.SCRAM_SHA_256, 'al"ice')
    assert login.secret() == "p;w = \\x"
    assert "p;w" not in repr(login)


def test_a_token_stands_in_a_file(file: Path, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("abc\n")
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
        f"{JAAS};\nsasl.oauthbearer.token.endpoint.url=file://{token}\n"
    )

    login = security_of(read_properties(file), "").login

    assert login is not None
    assert login.secret() == "abc"


def test_certificates_stand_in_pem_files_or_inline(file: Path, tmp_path: Path) -> None:
    ca = trustme.CA()
    ca.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    own = ca.issue_cert("agent")
    own.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "own.pem"))
    inline = own.cert_chain_pems[0].bytes().decode().replace("\n", "\\n")
    key = own.private_key_pem.bytes().decode().replace("\n", "\\n")
    trusted = ca.cert_pem.bytes().decode().replace("\n", "\\n")
    by_file = (
        f"ssl.truststore.type=PEM\nssl.truststore.location={tmp_path}/ca.pem\n"
        f"ssl.keystore.type=PEM\nssl.keystore.location={tmp_path}/own.pem\n"
    )
    by_text = (
        f"ssl.truststore.type=PEM\nssl.truststore.certificates={trusted}\n"
        f"ssl.keystore.type=PEM\nssl.keystore.certificate.chain={inline}\nssl.keystore.key={key}\n"
    )

    for text in (by_file, by_text):
        file.write_text(f"security.protocol=SSL\n{text}")
        tls = security_of(read_properties(file), "").tls
        assert isinstance(tls, ssl.SSLContext)
        assert len(tls.get_ca_certs()) == 1
        assert tls.check_hostname


def test_an_empty_identification_algorithm_checks_no_host_name(file: Path) -> None:
    file.write_text("security.protocol=SSL\nssl.endpoint.identification.algorithm=\n")

    tls = security_of(read_properties(file), "").tls

    assert tls is not None
    assert (tls.check_hostname, tls.verify_mode) == (False, ssl.CERT_REQUIRED)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "security.protocol=SASL",
            (
                "security.protocol: found 'SASL', "
                "wanted one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"
            ),
        ),
        (
            "security.protocol=SASL_SSL",
            (
                "sasl.mechanism: found 'GSSAPI', "
                "wanted one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"
            ),
        ),
        (SCRAM, "sasl.jaas.config: is missing"),
        (SCRAM + JAAS + 'username="u";', "sasl.jaas.config: found no password"),
        (
            "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n" + JAAS + ";",
            "sasl.oauthbearer.token.endpoint.url: found '', wanted file:, http: or https:",
        ),
        (
            "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n" + JAAS + ";\n"
            "sasl.oauthbearer.token.endpoint.url=https://[idp/token",
            (
                "sasl.oauthbearer.token.endpoint.url: found 'https://[idp/token', "
                "wanted an address such as https://idp/token"
            ),
        ),
        (
            "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n" + JAAS + ";\n"
            "sasl.oauthbearer.token.endpoint.url=https://idp/token",
            "sasl.jaas.config: found no clientId and clientSecret",
        ),
        (
            "security.protocol=SSL\nssl.truststore.location=/trust.jks",
            (
                "ssl.truststore.type: JKS is Java's alone, wanted PEM; "
                "keytool -exportcert -rfc and openssl pkcs12 make PEM of it"
            ),
        ),
        (
            "security.protocol=SSL\nssl.keystore.type=PKCS12\nssl.keystore.location=/own.p12",
            (
                "ssl.keystore.type: PKCS12 is Java's alone, wanted PEM; "
                "keytool -exportcert -rfc and openssl pkcs12 make PEM of it"
            ),
        ),
        (
            "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=/none.pem",
            "ssl: a certificate or key cannot be used: [Errno 2] No such file or directory",
        ),
    ],
)
def test_what_cannot_be_taken_is_named(file: Path, text: str, said: str) -> None:
    assert refusal(file, text) == f"client.properties: {said}"


def test_a_missing_file_is_named(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"client\.properties: cannot be read: No such file"):
        read_properties(file)
