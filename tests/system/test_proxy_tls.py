"""TLS to the client, mTLS and SASL to a real broker, real clients; errors name the cause."""

import json
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import trustme
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from confluent_kafka.cimpl import NewTopic
from cryptography.hazmat.primitives import serialization

from agent.lab.broker import Cluster, NodePorts
from agent.processes.ports import HOST, free_port
from tests.system.kafka_tools import KafkaTools
from tests.system.observer import Observer

pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.timeout(900)]

RECORDS = 500
WITHIN_S = 60.0
KAFKA_PYTHON = Path(__file__).parent / "kafka_python.py"
TOOLS = "org.apache.kafka.tools."
USER, PASSWORD = "alice", "alice-secret"
_SECURITY = "org.apache.kafka.common.security"
_USER = f'username="{USER}" password="{PASSWORD}"'
_CLAIM = f'unsecuredLoginStringClaim_sub="{USER}"'
JAAS = {
    "PLAIN": f"{_SECURITY}.plain.PlainLoginModule required {_USER};",
    "SCRAM-SHA-512": f"{_SECURITY}.scram.ScramLoginModule required {_USER};",
    "OAUTHBEARER": f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule required {_CLAIM};",
}
"""What the Java client logs in with, by mechanism."""


class Secrets:
    """One authority for all, one that nobody trusts, and the files of both."""

    def __init__(self, folder: Path) -> None:
        authority, stranger = trustme.CA(), trustme.CA()
        self.ca, self.other_ca = folder / "ca.pem", folder / "other.pem"
        authority.cert_pem.write_to_path(self.ca)
        stranger.cert_pem.write_to_path(self.other_ca)
        # The broker is called by a name, the proxy by an address: neither fits the other's.
        self.broker, self.proxy = folder / "broker.pem", folder / "proxy.pem"
        for path, name in ((self.broker, "localhost"), (self.proxy, HOST)):
            issued = authority.issue_cert(name)
            key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
            path.write_bytes(
                key.private_bytes(  # the one form of a key that Kafka reads
                    serialization.Encoding.PEM,
                    serialization.PrivateFormat.PKCS8,
                    serialization.NoEncryption(),
                )
                + b"".join(pem.bytes() for pem in issued.cert_chain_pems)
            )

    def listen(self, *, mtls: bool = False) -> dict[str, str]:
        """Return the proxy's TLS settings towards its clients."""
        own = {"cert_file": str(self.proxy)}
        return own | ({"ca_file": str(self.ca)} if mtls else {})

    def upstream(self, **other: str) -> dict[str, object]:
        """Return how a proxy calls the broker."""
        return {"enabled": True, "ca_file": str(self.ca), "cert_file": str(self.proxy)} | other


class Scene:
    """A broker that wants a certificate and a login, and proxies before it."""

    def __init__(self, folder: Path, cache: Path, stack: ExitStack) -> None:
        self.secrets, self.folder, self.cache = Secrets(folder), folder, cache
        self.port = free_port()
        self._stack = stack
        cluster = stack.enter_context(Cluster(folder / "lab", cache, extra=self._listener))
        self.admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        upsertion = UserScramCredentialUpsertion(USER, scram, PASSWORD.encode())
        self.admin.alter_user_scram_credentials([upsertion])[USER].result()
        self._warm(cluster.bootstrap)
        self.bootstrap, self.wire = self.proxy("good", self.secrets.upstream())

    def proxy(
        self,
        name: str,
        upstream: Mapping[str, object],
        listen: Mapping[str, str] | None = None,
        host: str = "localhost",
    ) -> tuple[str, Observer]:
        """Start a proxy; return its address."""
        bootstrap = f"{HOST}:{free_port()}"
        source = {
            "type": "proxy",
            "listen": bootstrap,
            "upstream": [f"{host}:{self.port}"],
            "tls": {"listen": listen or self.secrets.listen(), "upstream": dict(upstream)},
        }
        observer = Observer(self.folder / "none", self.folder / name, json.dumps(source))
        self._stack.enter_context(observer)
        observer.wait_ready()
        return bootstrap, observer

    def topic(self, name: str) -> str:
        self.admin.create_topics([NewTopic(name, 4, 1)])[name].result()
        return name

    def _warm(self, bootstrap: str) -> None:
        """Have the coordinator loaded: the first group of all can see it load (9)."""
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "warm"})
        consumer.subscribe([self.topic("warm")])
        while not consumer.assignment():
            consumer.poll(0.1)
        consumer.close()

    def _listener(self, node: NodePorts) -> dict[str, str]:
        controller = f"CONTROLLER://{HOST}:{node.controller_port}"
        plain = f"PLAINTEXT://{HOST}:{node.port}"
        own = "listener.name.sasl_ssl."
        users = f'user_{USER}="{PASSWORD}"'
        return {
            "listeners": f"{plain},{controller},SASL_SSL://{HOST}:{self.port}",
            "advertised.listeners": f"{plain},SASL_SSL://localhost:{self.port}",
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL"
            ),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.secrets.broker),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.secrets.ca),
            f"{own}ssl.client.auth": "required",
            "sasl.enabled.mechanisms": ",".join(JAAS),
            f"{own}plain.sasl.jaas.config": f"{_SECURITY}.plain.PlainLoginModule required {users};",
            f"{own}scram-sha-512.sasl.jaas.config": f"{_SECURITY}.scram.ScramLoginModule required;",
            f"{own}oauthbearer.sasl.jaas.config": JAAS["OAUTHBEARER"],
        }


@pytest.fixture(scope="module")
def scene(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with ExitStack() as stack:
        yield Scene(tmp_path_factory.mktemp("tls"), cache, stack)


@pytest.mark.parametrize("mechanism", JAAS)
def test_java_clients_log_in_through_the_proxy(scene: Scene, mechanism: str) -> None:
    login = {
        "client.id": f"java-{mechanism}",
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(scene.secrets.ca),
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": JAAS[mechanism],
    }
    tools = KafkaTools(scene.bootstrap, scene.folder / mechanism, scene.cache, login)
    named = ("--topic", scene.topic(f"java-{mechanism}"), "--num-records", str(RECORDS))
    group = ("--group", f"java-{mechanism}", "--timeout", "60000")

    tools.run(f"{TOOLS}ProducerPerformance", *named, "--record-size", "5000", "--throughput", "-1")
    consumed = tools.run(f"{TOOLS}ConsumerPerformance", *named, *group)

    head, row = (line.split(", ") for line in consumed.splitlines())
    assert row[head.index("data.consumed.in.nMsg")] == str(RECORDS)
    assert scene.wire.codes(f"java-{mechanism}", [2, 0, 6, 0]) == [2, 0, 6, 0]


@pytest.mark.parametrize("mechanism", JAAS)
def test_librdkafka_logs_in_through_the_proxy(scene: Scene, mechanism: str) -> None:
    topic = scene.topic(f"c-{mechanism}")
    login: dict[str, str | bool] = {
        "bootstrap.servers": scene.bootstrap,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(scene.secrets.ca),
        "sasl.mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        login |= {
            "enable.sasl.oauthbearer.unsecure.jwt": True,
            "sasl.oauthbearer.config": f"principal={USER}",
        }
    else:
        login |= {"sasl.username": USER, "sasl.password": PASSWORD}
    producer = Producer(login)
    for number in range(RECORDS):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(WITHIN_S) == 0
    consumer = Consumer(login | {"group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])

    messages = consumer.consume(RECORDS, WITHIN_S)

    consumer.close()
    values = sorted(int(message.value() or b"-1") for message in messages)
    assert values == list(range(RECORDS))


def test_kafka_python_logs_in_through_the_proxy(scene: Scene) -> None:
    login = {
        "bootstrap_servers": scene.bootstrap,
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(scene.secrets.ca),
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": USER,
        "sasl_plain_password": PASSWORD,
    }
    arguments = [scene.topic("python"), str(RECORDS), json.dumps(login)]
    command = [sys.executable, str(KAFKA_PYTHON), *arguments]

    done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)

    assert done.returncode == 0, done.stderr
    assert sorted(map(int, done.stdout.split())) == list(range(RECORDS))


def _knock(bootstrap: str, ca_file: Path) -> None:
    """Shake hands with a proxy as a client without a certificate, and wait until it hangs up."""
    host, _, port = bootstrap.rpartition(":")
    context = ssl.create_default_context(cafile=ca_file)
    with (
        suppress(OSError),
        socket.create_connection((host, int(port)), WITHIN_S) as sock,
        context.wrap_socket(sock, server_hostname=host) as wrapped,
    ):
        wrapped.recv(1)


@pytest.mark.parametrize(
    ("name", "host", "upstream", "got"),
    [
        ("unknown-authority", "localhost", {"ca_file": "other_ca"}, "unable to get local issuer"),
        ("other-host", HOST, {}, "IP address mismatch, certificate is not valid for"),
        ("no-certificate", "localhost", {"cert_file": None}, "alert bad certificate"),
    ],
)
def test_a_broker_that_does_not_fit_is_told(
    scene: Scene, name: str, host: str, upstream: dict[str, str | None], got: str
) -> None:
    keys = scene.secrets.upstream()
    for key, value in upstream.items():
        keys[key] = value and str(getattr(scene.secrets, value))
    known = {key: value for key, value in keys.items() if value}
    bootstrap, observer = scene.proxy(name, known, host=host)

    _knock(bootstrap, scene.secrets.ca)

    line = observer.logged("proxy_handshake_failed")
    assert "level=warning" in line
    assert f"broker={host}:{scene.port}" in line
    assert "side=broker" in line
    assert got in line


@pytest.mark.parametrize(
    ("name", "mtls", "trusts", "got"),
    [
        ("distrusted", False, "other_ca", "alert unknown ca"),
        ("stranger", True, "ca", "peer did not return a certificate"),
    ],
)
def test_a_client_that_does_not_fit_is_told(
    scene: Scene, name: str, mtls: bool, trusts: str, got: str
) -> None:
    listen = scene.secrets.listen(mtls=mtls)
    bootstrap, observer = scene.proxy(name, scene.secrets.upstream(), listen)

    _knock(bootstrap, getattr(scene.secrets, trusts))

    line = observer.logged("proxy_handshake_failed")
    assert "side=client" in line
    assert got in line
