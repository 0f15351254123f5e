import base64
import json
import re
import ssl
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import trustme

from agent.config.security import Mechanism
from agent.errors import ConfigError
from agent.inspection.connection import client_properties
from agent.inspection.connection.client_properties import (
    read_properties,
    request_timeout_s,
    security_of,
)
from agent.inspection.connection.errors import RefusedError
from agent.inspection.connection.jaas import make_unsecured_token
from agent.inspection.connection.msk_iam import make_token
from agent.inspection.connection.security import Security

JAAS = "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
SCRAM = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
PROVIDER = (
    "config.providers=env\n"
    "config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
)
JWT_BEARER = (
    "sasl.oauthbearer.jwt.retriever.class="
    "org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever"
)


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
        (SCRAM, "sasl.jaas.config: is missing, and KAFKA_OPTS has no file"),
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
            "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n" + JAAS + ";\n"
            "sasl.oauthbearer.token.endpoint.url=https://idp/token\n" + JWT_BEARER,
            (
                "sasl.oauthbearer.jwt.retriever.class: wanted sasl.oauthbearer.assertion.file: "
                "a signed JWT; we sign none"
            ),
        ),
        (
            "security.protocol=SSL\nssl.truststore.location=/trust.jks",
            "ssl.truststore.location: /trust.jks cannot be read: No such file or directory",
        ),
        (
            "security.protocol=SSL\nssl.keystore.type=BCFKS\nssl.keystore.location=/own",
            "ssl.keystore.type: found 'BCFKS', wanted one of JKS, PKCS12, PEM",
        ),
        (
            SCRAM + JAAS + 'username="u" password="${env:KPASS}";',
            ("sasl.jaas.config: found ${env:KPASS}, wanted one of config.providers: none"),
        ),
        (
            PROVIDER + SCRAM + JAAS + 'username="u" password="${env:NO_SUCH_NAME}";',
            "sasl.jaas.config: ${env:NO_SUCH_NAME} has no value",
        ),
        (
            PROVIDER + SCRAM + JAAS + 'username="u" password="${vault:secret/kafka:pw}";',
            (
                "sasl.jaas.config: found ${vault:secret/kafka:pw}, "
                "wanted one of config.providers: env"
            ),
        ),
        (
            "config.providers=v\nconfig.providers.v.class=com.acme.Vault\nclient.id=${v:a:b}",
            (
                "config.providers.v.class: found 'Vault', wanted one of "
                "EnvVarConfigProvider, FileConfigProvider, DirectoryConfigProvider"
            ),
        ),
        (
            "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=/none.pem",
            "ssl: a certificate or key cannot be used: No such file or directory",
        ),
    ],
)
def test_what_cannot_be_taken_is_named(file: Path, text: str, said: str) -> None:
    assert refusal(file, text) == f"client.properties: {said}"


def test_a_signed_jwt_of_a_file_is_read_at_each_login(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assertion = tmp_path / "assertion.jwt"
    assertion.write_text("first\n")
    url = "https://idp/token"
    file.write_text(
        f"security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n{JAAS};\n{JWT_BEARER}\n"
        f"sasl.oauthbearer.token.endpoint.url={url}\nsasl.oauthbearer.scope=kafka\n"
        f"sasl.oauthbearer.assertion.file={assertion}\n"
    )
    monkeypatch.setattr(client_properties, "exchange_assertion", lambda *given: " ".join(given))

    login = security_of(read_properties(file), "").login
    assertion.write_text("second\n")

    assert login is not None
    assert login.secret() == f"{url} second kafka"


class Signer:
    """Amazon's signer, by its documented functions."""

    @staticmethod
    def generate_auth_token(region: str) -> tuple[str, int]:
        return f"default {region}", 0

    @staticmethod
    def generate_auth_token_from_profile(region: str, profile: str) -> tuple[str, int]:
        return f"{profile} {region}", 0

    @staticmethod
    def generate_auth_token_from_role_arn(region: str, role: str, name: str) -> tuple[str, int]:
        if role == "none":
            raise ValueError("no such role")
        return f"{role} {name} {region}", 0


MSK = "security.protocol=SASL_SSL\nsasl.mechanism=AWS_MSK_IAM\n"
MSK_JAAS = "sasl.jaas.config=software.amazon.msk.auth.iam.IAMLoginModule required"
BROKER = "bootstrap.servers=b-1.demo.kafka.eu-west-1.amazonaws.com:9098\n"


@pytest.mark.parametrize(
    ("text", "token"),
    [
        (BROKER + MSK_JAAS + ";", "default eu-west-1"),
        (MSK_JAAS + ";", "default us-east-2"),
        (BROKER + MSK_JAAS + ' awsProfileName="ops";', "ops eu-west-1"),
        (BROKER + MSK_JAAS + ' awsRoleArn="arn";', "arn rebalance-agent eu-west-1"),
        (
            BROKER + MSK_JAAS + ' awsRoleArn="arn" awsRoleSessionName="s";',
            "arn s eu-west-1",
        ),
    ],
)
def test_a_token_for_msk_is_of_amazons_signer(
    file: Path, monkeypatch: pytest.MonkeyPatch, text: str, token: str
) -> None:
    module = SimpleNamespace(MSKAuthTokenProvider=Signer)
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", module)
    monkeypatch.setenv("AWS_REGION", "us-east-2")
    file.write_text(MSK + text)

    login = security_of(read_properties(file), "").login

    assert login is not None
    assert (login.mechanism, login.secret()) == (Mechanism.OAUTHBEARER, token)


def test_a_token_for_msk_wants_region_credentials_and_the_extra(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    assert "found no region in the brokers' names" in refusal(file, MSK + MSK_JAAS + ";")

    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    with pytest.raises(ConfigError, match="install the extra 'msk'"):
        make_token("eu-west-1", {})

    module = SimpleNamespace(MSKAuthTokenProvider=Signer)
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", module)
    with pytest.raises(RefusedError, match="AWS_MSK_IAM: no token: no such role"):
        make_token("eu-west-1", {"awsRoleArn": "none"})


@pytest.mark.parametrize(("text", "timeout_s"), [("", None), ("request.timeout.ms=3000", 3.0)])
def test_a_request_timeout_is_in_milliseconds(
    file: Path, text: str, timeout_s: float | None
) -> None:
    file.write_text(text)

    assert request_timeout_s(read_properties(file), "f") == timeout_s


@pytest.mark.parametrize("text", ["0", "-1", "soon", "9" * 5_000])
def test_a_request_timeout_that_is_none_is_named(text: str) -> None:
    with pytest.raises(ConfigError, match=r"f: request\.timeout\.ms: found"):
        request_timeout_s({"request.timeout.ms": text}, "f")


def test_a_missing_file_is_named(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"client\.properties: cannot be read: No such file"):
        read_properties(file)


def test_a_protocol_is_named_in_any_case(file: Path) -> None:
    file.write_text("security.protocol = plaintext\nclient.id=my-admin\n")

    security = security_of(read_properties(file), "")

    assert security == Security(client_id="my-admin")


def test_secrets_come_from_environment_files_and_folders(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KPASS", "from-env")
    (tmp_path / "secrets.properties").write_text("password=from-file\n")
    (tmp_path / "pw").write_text("from-folder")
    classes = {"env": "EnvVar", "file": "File", "directory": "Directory"}
    providers = "config.providers=env, file, directory\n" + "".join(
        f"config.providers.{name}.class=x.{kind}ConfigProvider\n" for name, kind in classes.items()
    )
    found = []
    for variable in (
        "env:KPASS",
        f"file:{tmp_path}/secrets.properties:password",
        f"directory:{tmp_path}:pw",
    ):
        file.write_text(f'{providers}{SCRAM}{JAAS}username="u" password="${{{variable}}}";\n')
        login = security_of(read_properties(file), "").login
        assert login is not None
        found.append(login.secret())

    assert found == ["from-env", "from-file", "from-folder"]


@pytest.mark.parametrize(
    ("parameter", "variable", "wanted"),
    [
        ("allowlist.pattern=SAFE_.*", "${p:KPASS}", "${p:KPASS} has no value"),
        ("allowed.paths=/run/secrets", "${p:/etc:hostname}", "is outside of allowed.paths"),
    ],
)
def test_providers_keep_to_what_is_allowed(
    file: Path, parameter: str, variable: str, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KPASS", "secret")
    kind = "EnvVar" if "allowlist" in parameter else "Directory"
    file.write_text(
        f"config.providers=p\nconfig.providers.p.class=x.{kind}ConfigProvider\n"
        f"config.providers.p.param.{parameter}\nclient.id={variable}\n"
    )

    with pytest.raises(ConfigError, match=re.escape(wanted)):
        security_of(read_properties(file), "client.properties")


def test_a_login_stands_in_the_jaas_file_of_kafka_opts(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jaas = tmp_path / "jaas.conf"
    jaas.write_text(
        'KafkaServer { x.Server required username="no"; };\n// a comment\n'
        'KafkaClient {\n  x.PlainLoginModule required\n  username="u" password="p";\n};\n'
    )
    monkeypatch.setenv("KAFKA_OPTS", f"-Xmx1g -Djava.security.auth.login.config={jaas}")
    file.write_text("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n")

    login = security_of(read_properties(file), "").login

    assert login is not None
    assert (login.username, login.secret()) == ("u", "p")
    jaas.write_text("Other { x required; };\n")
    with pytest.raises(ConfigError, match="found no section KafkaClient"):
        security_of(read_properties(file), "")


def test_an_unsecured_token_has_the_claims_of_its_options() -> None:
    options = {
        "unsecuredLoginStringClaim_sub": "admin",
        "unsecuredLoginNumberClaim_level": "3",
        "unsecuredLoginListClaim_scope": "|a|b",
        "unsecuredLoginLifetimeSeconds": "60",
    }

    head, claims, signature = make_unsecured_token(options, now=1000.0).split(".")

    def read(part: str) -> object:
        return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))

    assert (read(head), signature) == ({"alg": "none"}, "")
    assert read(claims) == {
        "iat": 1000.0,
        "exp": 1060.0,
        "sub": "admin",
        "level": 3.0,
        "scope": ["a", "b"],
    }


def test_a_delegation_token_logs_in_by_scram(file: Path) -> None:
    file.write_text(f'{SCRAM}{JAAS}username="id" password="hmac" tokenauth="true";\n')

    login = security_of(read_properties(file), "").login

    assert login is not None
    assert next(login.exchange()).endswith(b",tokenauth=true")
