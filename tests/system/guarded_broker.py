"""A real broker with every kind of login, and ACLs."""

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import trustme
from click.testing import CliRunner, Result
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from confluent_kafka.cimpl import NewTopic
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import pkcs12

from agent.cli import main
from agent.lab.broker import Cluster, NodePorts
from agent.processes.ports import HOST, free_port
from tests.system.inspected import DEADLINE_S, GROUPS
from tests.system.kafka_tools import command, write_properties

READER, STRANGER, PASSWORD = "reader", "stranger", "right"
GROUP = "payments"
DELEGATION_TOKENS = "org.apache.kafka.tools.DelegationTokenCommand"
ADMIN, POOR = "admin", "poor"
"""Users of the recorded property files; the first may do everything, the second nothing."""
STORE_PASSWORD = "changeit"
_SECURITY = "org.apache.kafka.common.security"
SCRAM = f"{_SECURITY}.scram.ScramLoginModule required"
PLAIN = f"{_SECURITY}.plain.PlainLoginModule required"
BEARER = f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule required"
MECHANISMS = {
    "PLAIN": (
        f'{PLAIN} user_{READER}="{PASSWORD}" user_{STRANGER}="{PASSWORD}" '
        f'user_{ADMIN}="{ADMIN}-secret" user_{POOR}="{POOR}-secret";'
    ),
    "SCRAM-SHA-256": f"{SCRAM};",
    "SCRAM-SHA-512": f"{SCRAM};",
    "OAUTHBEARER": f'{BEARER} unsecuredLoginStringClaim_sub="broker";',
}


class Guarded:
    """A broker that lets `READER` describe everything, `STRANGER` nothing, and others not in."""

    def __init__(self, folder: Path, cache: Path, stack: ExitStack) -> None:
        self.folder = folder
        self.port, self.mtls_port, self.tls_port, self.clear_port = (free_port() for _ in range(4))
        self.ca = folder / "tls" / "ca.pem"
        self.ca.parent.mkdir()
        self._broker, self._own = folder / "broker.pem", folder / "own.pem"
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(self.ca))
        for path, name in ((self._broker, "localhost"), (self._own, READER)):
            path.write_bytes(_as_kafka_reads(authority.issue_cert(name)))
        self._bundle()
        cluster = stack.enter_context(Cluster(folder / "lab", cache, extra=self._listeners))
        self.plain_port = cluster.brokers[0].node.port
        self._cache = cache
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            given = ScramCredentialInfo(mechanism, 4096)
            for user, password in ((READER, PASSWORD), (ADMIN, f"{ADMIN}-secret")):
                change = UserScramCredentialUpsertion(user, given, password.encode())
                admin.alter_user_scram_credentials([change])[user].result()
        commit_offset(cluster.bootstrap, admin)
        for done in admin.create_acls(
            [_reads(ResourceType.BROKER, "kafka-cluster"), _reads(ResourceType.GROUP, "*")]
        ).values():
            done.result()

    def call_file(self, file: Path, port: str) -> Result:
        """List groups with a file of properties, at one of our listeners."""
        return self._call(file, "list", server=self._server(port))

    def call(self, properties: Mapping[str, str], *arguments: str, server: str = "") -> Result:
        file = write_properties(self.folder / "client.properties", properties)
        return self._call(file, *(arguments or ("list",)), server=server or self._server("port"))

    def _server(self, port: str) -> str:
        host = HOST if port in ("clear_port", "plain_port") else "localhost"
        return f"{host}:{getattr(self, port)}"

    def _call(self, file: Path, *arguments: str, server: str) -> Result:
        common = ("--bootstrap-server", server, "--command-config", str(file), "--timeout", "60")
        return CliRunner().invoke(main, ["groups", *arguments, *common])

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
            token.write_text(unsecured_token(user))
            named["sasl.oauthbearer.token.endpoint.url"] = token.as_uri()
        return self.tls() | named

    def own_certificate(self) -> dict[str, str]:
        return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self._own)}

    def stores(self, kind: str) -> dict[str, str]:
        """Return properties with our certificate and the authority in Java's stores."""
        suffix = {"JKS": "jks", "PKCS12": "p12"}[kind]
        found: dict[str, str] = {}
        for name, file in (("truststore", f"truststore.{suffix}"), ("keystore", f"own.{suffix}")):
            found |= {
                f"ssl.{name}.type": kind,
                f"ssl.{name}.location": str(self.ca.parent / file),
                f"ssl.{name}.password": STORE_PASSWORD,
            }
        return found

    def produce(self, written_at: float) -> None:
        """Write a record of this time (Unix seconds) and one of now to the group's topic."""
        producer = Producer({"bootstrap.servers": f"{HOST}:{self.plain_port}", "log_level": 0})
        for at in (written_at, time.time()):
            producer.produce("orders", b"x", partition=0, timestamp=int(at * 1000))
        assert producer.flush(DEADLINE_S) == 0

    def delegation_token(self) -> tuple[str, str]:
        """Return the id and the HMAC of a new token of the reader, from Kafka's own tool."""
        jaas = f'{SCRAM} username="{READER}" password="{PASSWORD}";'
        owner = self.login("SCRAM-SHA-256") | {"sasl.jaas.config": jaas}
        file = write_properties(self.folder / "owner.properties", owner)
        done = subprocess.run(
            [
                *command(DELEGATION_TOKENS, self.folder / "tools.log", self._cache),
                *("--bootstrap-server", f"localhost:{self.port}", "--command-config", file),
                *("--create", "--max-life-time-period", "3600000"),
            ],
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, f"{done.stdout}{done.stderr}"
        row = next(line.split() for line in done.stdout.splitlines() if f"User:{READER}" in line)
        return row[0], row[1]

    def run_kafkas_tool(
        self, file: Path, port: str, environment: Mapping[str, str], folder: Path
    ) -> subprocess.CompletedProcess[str]:
        """List groups by Kafka's own tool with a file of properties."""
        jaas = [word for word in environment.get("KAFKA_OPTS", "").split() if word]
        java, *rest = command(GROUPS, self.folder / "tools.log", self._cache)
        return subprocess.run(
            [
                java,
                *jaas,
                *rest,
                "--list",
                "--bootstrap-server",
                self._server(port),
                "--command-config",
                file,
            ],
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
            cwd=folder,
            env={**os.environ, **environment},
        )

    def _bundle(self) -> None:
        """Write the authority and our certificate as PKCS12 and JKS, by keytool."""
        folder = self.ca.parent
        chain = (self.folder / "own.pem").read_bytes()
        key = serialization.load_pem_private_key(chain, None)
        first, *others = x509.load_pem_x509_certificates(chain)
        encryption = serialization.BestAvailableEncryption(STORE_PASSWORD.encode())
        assert isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey)
        (folder / "own.p12").write_bytes(
            pkcs12.serialize_key_and_certificates(b"own", key, first, others, encryption)
        )
        # fmt: off
        _keytool(
            "-importkeystore", "-srckeystore", folder / "own.p12", "-srcstoretype", "PKCS12",
            "-srcstorepass", STORE_PASSWORD, "-destkeystore", folder / "own.jks",
            "-deststoretype", "JKS", "-deststorepass", STORE_PASSWORD, "-noprompt",
        )
        for kind, suffix in (("JKS", "jks"), ("PKCS12", "p12")):
            _keytool(
                "-importcert", "-noprompt", "-alias", "ca", "-file", self.ca,
                "-keystore", folder / f"truststore.{suffix}", "-storetype", kind,
                "-storepass", STORE_PASSWORD,
            )
        # fmt: on

    def _listeners(self, node: NodePorts) -> dict[str, str]:
        plain = f"PLAINTEXT://{HOST}:{node.port}"
        guarded = (
            f"SASL_SSL://localhost:{self.port},SSL://localhost:{self.mtls_port},"
            f"OPEN://localhost:{self.tls_port},CLEAR://{HOST}:{self.clear_port}"
        )
        return {
            "listeners": f"{plain},CONTROLLER://{HOST}:{node.controller_port},{guarded}",
            "advertised.listeners": f"{plain},{guarded}",
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL,OPEN:SSL,"
                "CLEAR:SASL_PLAINTEXT"
            ),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._broker),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca),
            "listener.name.ssl.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": f"RULE:^.*$/{READER}/",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:ANONYMOUS;User:{ADMIN}",
            "delegation.token.secret.key": "a lab's secret",
        } | {
            f"listener.name.{listener}.{name.lower()}.sasl.jaas.config": jaas
            for listener in ("sasl_ssl", "clear")
            for name, jaas in MECHANISMS.items()
        }


def commit_offset(bootstrap: str, admin: AdminClient) -> None:
    """Make the group that some users see, and others do not."""
    for done in admin.create_topics([NewTopic("orders", 1)]).values():
        done.result()
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "log_level": 0})
    end_s = time.monotonic() + DEADLINE_S
    while True:
        try:
            consumer.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
        except KafkaException:  # the coordinator loads
            if time.monotonic() > end_s:
                raise
        else:
            break
    consumer.close()


def unsecured_token(user: str) -> str:
    """Return a JWT without a signature, as the lab's broker accepts it."""
    now = int(time.time())
    parts = ({"alg": "none"}, {"sub": user, "iat": now, "exp": now + 3600})
    texts = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode() for part in parts]
    return ".".join(text.rstrip("=") for text in texts) + "."


def _keytool(*arguments: object) -> None:
    program = shutil.which("keytool") or "keytool"
    words = [program, *map(str, arguments)]
    subprocess.run(words, check=True, capture_output=True, timeout=120)


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
