"""Logins, certificates and ACLs of a real broker: what is right works, what is wrong is named."""

import base64
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
import trustme
from click.testing import CliRunner, Result
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives import serialization

from agent.cli import main
from agent.lab.broker import Cluster, NodePorts
from agent.processes.ports import HOST, free_port
from tests.system.kafka_tools import write_properties

pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.timeout(900)]

READER, STRANGER, PASSWORD = "reader", "stranger", "right"
GROUP = "payments"
_SECURITY = "org.apache.kafka.common.security"
_SCRAM = f"{_SECURITY}.scram.ScramLoginModule required"
_PLAIN = f"{_SECURITY}.plain.PlainLoginModule required"
_BEARER = f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule required"
_MECHANISMS = {
    "PLAIN": f'{_PLAIN} user_{READER}="{PASSWORD}" user_{STRANGER}="{PASSWORD}";',
    "SCRAM-SHA-256": f"{_SCRAM};",
    "SCRAM-SHA-512": f"{_SCRAM};",
    "OAUTHBEARER": f'{_BEARER} unsecuredLoginStringClaim_sub="broker";',
}


class Guarded:
    """A broker that lets `READER` describe everything, `STRANGER` nothing, and others not in."""

    def __init__(self, folder: Path, cache: Path, stack: ExitStack) -> None:
        self.folder, self.port, self.mtls_port = folder, free_port(), free_port()
        self.ca = folder / "ca.pem"
        self._broker, self._own = folder / "broker.pem", folder / "own.pem"
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(self.ca))
        for path, name in ((self._broker, "localhost"), (self._own, READER)):
            path.write_bytes(_as_kafka_reads(authority.issue_cert(name)))
        cluster = stack.enter_context(Cluster(folder / "lab", cache, extra=self._listeners))
        self.plain_port = cluster.brokers[0].node.port
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            given = ScramCredentialInfo(mechanism, 4096)
            change = UserScramCredentialUpsertion(READER, given, PASSWORD.encode())
            admin.alter_user_scram_credentials([change])[READER].result()
        for done in admin.create_acls(
            [_reads(ResourceType.BROKER, "kafka-cluster"), _reads(ResourceType.GROUP, "*")]
        ).values():
            done.result()

    def call(self, properties: Mapping[str, str], *arguments: str, server: str = "") -> Result:
        file = write_properties(self.folder / "client.properties", properties)
        server = server or f"localhost:{self.port}"
        common = ("--bootstrap-server", server, "--command-config", str(file), "--timeout", "60")
        return CliRunner().invoke(main, ["groups", *(arguments or ("list",)), *common])

    def tls(self, **other: str) -> dict[str, str]:
        named = {name.replace("_", "."): value for name, value in other.items()}
        return {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca),
        } | named

    def login(self, mechanism: str, user: str = READER, password: str = PASSWORD) -> dict[str, str]:
        named = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'x required username="{user}" password="{password}";',
        }
        if mechanism == "OAUTHBEARER":
            token = self.folder / "token"
            token.write_text(_token(user))
            named["sasl.oauthbearer.token.endpoint.url"] = token.as_uri()
        return self.tls() | named

    def own_certificate(self) -> dict[str, str]:
        return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self._own)}

    def _listeners(self, node: NodePorts) -> dict[str, str]:
        plain = f"PLAINTEXT://{HOST}:{node.port}"
        guarded = f"SASL_SSL://localhost:{self.port},SSL://localhost:{self.mtls_port}"
        own = "listener.name.sasl_ssl."
        return {
            "listeners": f"{plain},CONTROLLER://{HOST}:{node.controller_port},{guarded}",
            "advertised.listeners": f"{plain},{guarded}",
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL"
            ),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._broker),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca),
            "listener.name.ssl.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": f"RULE:^.*$/{READER}/",
            "sasl.enabled.mechanisms": ",".join(_MECHANISMS),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        } | {f"{own}{name.lower()}.sasl.jaas.config": jaas for name, jaas in _MECHANISMS.items()}


def _as_kafka_reads(issued: trustme.LeafCert) -> bytes:
    """Return key and chain in one file; the key in the one form that Java reads."""
    key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
    chain = b"".join(pem.bytes() for pem in issued.cert_chain_pems)
    return key.private_bytes(*form, serialization.NoEncryption()) + chain


def _reads(kind: ResourceType, name: str) -> AclBinding:
    return AclBinding(
        kind,
        name,
        ResourcePatternType.LITERAL,
        f"User:{READER}",
        "*",
        AclOperation.DESCRIBE,
        AclPermissionType.ALLOW,
    )


def _token(user: str) -> str:
    now = int(time.time())
    parts = ({"alg": "none"}, {"sub": user, "iat": now, "exp": now + 3600})
    texts = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode() for part in parts]
    return ".".join(text.rstrip("=") for text in texts) + "."


@pytest.fixture(scope="module")
def guarded(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with ExitStack() as stack:
        yield Guarded(tmp_path_factory.mktemp("guarded"), cache, stack)


@pytest.mark.parametrize("mechanism", _MECHANISMS)
def test_every_mechanism_logs_in(guarded: Guarded, mechanism: str) -> None:
    result = guarded.call(guarded.login(mechanism))

    assert (result.exit_code, result.stderr) == (0, "")


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_java_stores_and_a_secret_of_the_environment_log_in(
    guarded: Guarded, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = guarded.folder / f"trust.{kind}"
    if not store.exists():
        # fmt: off
        subprocess.run(
            [
                shutil.which("keytool") or "keytool", "-importcert", "-noprompt", "-alias", "ca",
                "-file", guarded.ca, "-keystore", store, "-storetype", kind,
                "-storepass", "changeit",
            ],
            check=True, capture_output=True, timeout=120,
        )
        # fmt: on
    monkeypatch.setenv("KPASS", PASSWORD)
    properties = guarded.login("SCRAM-SHA-512", password="${env:KPASS}") | {
        "security.protocol": "sasl_ssl",
        "config.providers": "env",
        "config.providers.env.class": "kafka.EnvVarConfigProvider",
        "ssl.truststore.location": str(store),
        "ssl.truststore.type": kind,
        "ssl.truststore.password": "changeit",
    }

    result = guarded.call(properties)

    assert (result.exit_code, result.stderr) == (0, "")


def test_an_unsecured_token_logs_in(guarded: Guarded) -> None:
    properties = guarded.login("OAUTHBEARER") | {
        "sasl.jaas.config": f'{_BEARER} unsecuredLoginStringClaim_sub="{READER}";'
    }
    del properties["sasl.oauthbearer.token.endpoint.url"]

    result = guarded.call(properties)

    assert (result.exit_code, result.stderr) == (0, "")


def test_a_jaas_file_logs_in(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    file = guarded.folder / "jaas.conf"
    file.write_text(f'KafkaClient {{\n  {_PLAIN} username="{READER}" password="{PASSWORD}";\n}};\n')
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={file}")
    properties = guarded.login("PLAIN")
    del properties["sasl.jaas.config"]

    result = guarded.call(properties)

    assert (result.exit_code, result.stderr) == (0, "")


def test_a_certificate_of_ours_is_enough_where_it_is_wanted(guarded: Guarded) -> None:
    server = f"localhost:{guarded.mtls_port}"

    result = guarded.call(guarded.tls() | guarded.own_certificate(), server=server)

    assert (result.exit_code, result.stderr) == (0, "")


@pytest.mark.parametrize("mechanism", [name for name in _MECHANISMS if name != "OAUTHBEARER"])
def test_a_wrong_password_is_named(guarded: Guarded, mechanism: str) -> None:
    result = guarded.call(guarded.login(mechanism, password="wrong"))

    assert result.exit_code == 1
    assert f"localhost:{guarded.port}: the login of 'reader' is refused: " in result.stderr


def test_a_wrong_token_is_named(guarded: Guarded) -> None:
    properties = guarded.login("OAUTHBEARER")
    (guarded.folder / "token").write_text("no.token.")

    result = guarded.call(properties)

    assert result.exit_code == 1
    assert "refused" in result.stderr


def test_a_wrong_authority_is_named(guarded: Guarded, tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(str(other))

    result = guarded.call(guarded.login("PLAIN") | {"ssl.truststore.location": str(other)})

    assert result.exit_code == 1
    assert "its certificate is not from an authority that we trust: " in result.stderr


def test_a_wrong_host_name_is_named(guarded: Guarded) -> None:
    result = guarded.call(guarded.login("PLAIN"), server=f"{HOST}:{guarded.port}")

    assert result.exit_code == 1
    assert f"{HOST}:{guarded.port}: its certificate is for another host: " in result.stderr


def test_a_missing_certificate_of_ours_is_named(guarded: Guarded) -> None:
    result = guarded.call(guarded.tls(), server=f"localhost:{guarded.mtls_port}")

    assert result.exit_code == 1
    assert "the broker refuses our certificate, or wants one" in result.stderr


def test_plaintext_at_a_port_of_tls_is_named(guarded: Guarded) -> None:
    result = guarded.call({})

    assert result.exit_code == 1
    assert "TLS" in result.stderr


def test_tls_at_a_port_of_plaintext_is_named(guarded: Guarded) -> None:
    server = f"localhost:{guarded.plain_port}"

    result = guarded.call(guarded.tls(), server=server)

    assert result.exit_code == 1
    assert "speak TLS there" in result.stderr


def test_a_login_at_a_port_without_is_named(guarded: Guarded) -> None:
    properties = guarded.login("PLAIN") | {"security.protocol": "SASL_PLAINTEXT"}

    result = guarded.call(properties, server=f"localhost:{guarded.plain_port}")

    assert result.exit_code == 1
    assert "this port wants no login" in result.stderr


def test_a_port_where_nobody_listens_is_named(guarded: Guarded) -> None:
    with socket.create_server((HOST, 0)) as server:
        port = server.getsockname()[1]
        server.close()

        result = guarded.call({}, server=f"{HOST}:{port}")

    assert result.exit_code == 1
    assert f"{HOST}:{port}: cannot be reached: " in result.stderr


def test_what_acls_deny_is_named(guarded: Guarded) -> None:
    stranger = guarded.login("PLAIN", STRANGER)

    listing = guarded.call(stranger)
    describing = guarded.call(stranger, "describe", GROUP)

    assert (listing.exit_code, describing.exit_code) == (1, 1)
    assert "an ACL for Describe on the cluster, or on groups, is wanted" in listing.stderr
    assert describing.stderr == (
        f"Error: group '{GROUP}': GROUP_AUTHORIZATION_FAILED: an ACL for Describe on it is wanted\n"
    )
