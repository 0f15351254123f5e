"""Error messages of failed connections: each fault has its own text."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from agent.config.security import Mechanism
from agent.inspection.connection.admin_requests import Api
from agent.inspection.connection.broker_connection import Connection
from agent.inspection.connection.errors import BrokerError, UnreachableError
from agent.inspection.connection.security import Login, Security
from tests.agent.inspection.simulated import HOST, KAFKA_28, Simulated

PASSWORDS = {"agent": "right"}


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


def server_context(ca: trustme.CA, name: str = HOST) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert(name).configure_cert(context)
    return context


def trusting(ca: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    ca.configure_trust(context)
    return context


def login(password: str, mechanism: Mechanism = Mechanism.PLAIN) -> Login:
    return Login(mechanism=mechanism, username="agent", secret=lambda: password)


def opened(port: int, security: Security | None = None, timeout_s: float = 10.0) -> str:
    """Connect, ask, and return the fault's words; "fine" without a fault."""

    async def run() -> None:
        connection = await Connection.open(HOST, port, security or Security(), timeout_s=timeout_s)
        try:
            answer = await connection.send(
                Api.DESCRIBE_CLUSTER,
                include_cluster_authorized_operations=True,
                endpoint_type=1,
                include_fenced_brokers=True,
            )
            answer.read()
        finally:
            await connection.close()

    try:
        asyncio.run(run())
    except BrokerError as error:
        kind = type(error).__name__
        return f"{kind} {error.reason}: {error}".replace(f"{HOST}:{port}", "broker")
    return "fine"


@contextmanager
def server(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """Take one connection."""
    with socket.create_server((HOST, 0)) as listening:

        def take() -> None:
            taken, _ = listening.accept()
            with taken:
                serve(taken)

        thread = threading.Thread(target=take)
        thread.start()
        yield listening.getsockname()[1]
        thread.join()


def closed_port() -> int:
    with socket.create_server((HOST, 0)) as listening:
        port: int = listening.getsockname()[1]
    return port


def answer(data: bytes) -> Callable[[socket.socket], None]:
    def serve(taken: socket.socket) -> None:
        taken.recv(1 << 16)
        taken.sendall(data)

    return serve


def test_nobody_listens() -> None:
    assert opened(closed_port()).startswith("UnreachableError unreachable: broker: cannot be")


@pytest.mark.parametrize(
    ("host", "port"),
    [("a..b", 9092), ("x" * 64, 9092), ("a\0b", 9092), (HOST, 1 << 16), (HOST, -1)],
)
def test_an_address_that_cannot_be(host: str, port: int) -> None:
    """As a broker may call itself."""
    with pytest.raises(UnreachableError, match="cannot be reached"):
        asyncio.run(Connection.open(host, port, Security()))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "broker: responds like an HTTP server, so it is not"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "broker: does not respond like Kafka: b'SSH-'"),
        (b"\x15\x03\x03\0\x02\x02\x50", "broker: wants TLS; found security protocol PLAINTEXT"),
        (b"\0\0\0\x0a\x7f\0\0\0\0\0\0\0\0\0", "broker: does not respond like Kafka"),
        (b"\0\0\0\x06\0\0\0\1\0\0", "broker: ApiVersions: the response cannot be decoded"),
        (b"", "broker: closed the connection at ApiVersions: is it Kafka, and does it want TLS"),
    ],
)
def test_a_port_that_is_not_kafka(data: bytes, said: str) -> None:
    with server(answer(data)) as port:
        assert opened(port).startswith(f"RefusedError not_kafka: {said}")


def test_a_port_that_stays_silent() -> None:
    done = threading.Event()
    with server(lambda _: assert_set(done)) as port:
        said = opened(port, timeout_s=2.0)
        done.set()

    assert said == (
        "UnreachableError silent: broker: "
        "accepted the connection and has not responded in 2 s: is it Kafka?"
    )


def test_a_silent_name_server_keeps_no_thread_from_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages and analyses share the event loop's threads: there are only about six."""
    answered = threading.Event()

    def look_up(*_: object, **__: object) -> list[Any]:
        assert_set(answered)
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", look_up)

    async def run() -> str:
        for _ in range(40):
            with pytest.raises(UnreachableError):
                await Connection.open("broker.test", 9092, Security(), timeout_s=0.01)
        return await asyncio.wait_for(asyncio.to_thread(lambda: "free"), 20.0)

    try:
        assert asyncio.run(run()) == "free"
    finally:
        answered.set()


def test_the_first_address_of_a_name_that_accepts_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(_: str, port: int, **__: object) -> list[Any]:
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, port)) for ip in ("127.0.0.9", HOST)
        ]

    with Simulated() as cluster:
        monkeypatch.setattr(socket, "getaddrinfo", look_up)

        assert opened(cluster.ports[1]) == "fine"


def assert_set(event: threading.Event) -> None:
    assert event.wait(30.0)


def test_a_broker_that_does_not_speak_tls() -> None:
    with server(answer(b"")) as port:
        said = opened(port, Security(tls=ssl.create_default_context()))

    assert said.startswith("RefusedError tls: broker: ")
    assert "speak TLS" in said


def test_a_wrong_authority(ca: trustme.CA) -> None:
    with Simulated(tls=server_context(ca)) as cluster:
        said = opened(cluster.ports[1], Security(tls=trusting(trustme.CA())))

    assert said.startswith(
        "RefusedError tls: broker: its certificate is not from an authority that we trust: "
    )


def test_a_wrong_host_name(ca: trustme.CA) -> None:
    with Simulated(tls=server_context(ca, "kafka.example.org")) as cluster:
        said = opened(cluster.ports[1], Security(tls=trusting(ca)))

    assert said.startswith("RefusedError tls: broker: its certificate is for another host: ")


def test_a_missing_client_certificate(ca: trustme.CA) -> None:
    context = server_context(ca)
    ca.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    with Simulated(tls=context) as cluster:
        said = opened(cluster.ports[1], Security(tls=trusting(ca)))

    assert said.startswith("RefusedError tls: broker: ")
    assert "certificate" in said


def test_tls_with_a_client_certificate_and_a_login(ca: trustme.CA, tmp_path: Path) -> None:
    context = server_context(ca)
    ca.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    ours = tmp_path / "ours.pem"
    ca.issue_cert("agent").private_key_and_cert_chain_pem.write_to_path(str(ours))
    trusted = trusting(ca)
    trusted.load_cert_chain(ours)
    with Simulated(tls=context, passwords=PASSWORDS) as cluster:
        assert opened(cluster.ports[1], Security(tls=trusted, login=login("right"))) == "fine"


def test_a_wrong_password() -> None:
    with Simulated(passwords=PASSWORDS) as cluster:
        assert opened(cluster.ports[1], Security(login=login("wrong"))) == (
            "RefusedError password: broker: the login of 'agent' is refused: "
            "Authentication failed: Invalid username or password"
        )
        assert cluster.asked[1, Api.SASL_AUTHENTICATE] == 1


def test_a_mechanism_that_the_broker_does_not_have() -> None:
    with Simulated(passwords=PASSWORDS) as cluster:
        security = Security(login=login("right", Mechanism.SCRAM_SHA_512))
        assert opened(cluster.ports[1], security) == (
            "RefusedError password: broker: does not have SCRAM-SHA-512; it has PLAIN"
        )


def test_a_login_where_none_is_wanted() -> None:
    with Simulated() as cluster:
        assert opened(cluster.ports[1], Security(login=login("right"))) == (
            "RefusedError password: broker: SASL: ILLEGAL_SASL_STATE; this port wants no login"
        )


def test_no_login_where_one_is_wanted() -> None:
    with Simulated(passwords=PASSWORDS) as cluster:
        assert opened(cluster.ports[1]) == (
            "RefusedError not_kafka: broker: closed the connection at DescribeCluster: "
            "is it Kafka, and does it want TLS or SASL?"
        )


def test_a_broker_that_refuses_our_first_words_is_asked_in_the_oldest() -> None:
    with Simulated(versions=KAFKA_28 | {Api.API_VERSIONS: (0, 2)}) as cluster:
        assert opened(cluster.ports[1]) == "fine"
        assert cluster.asked[1, Api.API_VERSIONS] == 2


def test_an_api_that_a_broker_does_not_have_is_named_with_the_oldest_kafka() -> None:
    older = KAFKA_28.copy()
    del older[Api.DESCRIBE_CLUSTER]
    with Simulated(versions=older) as cluster:
        assert opened(cluster.ports[1]) == (
            "RefusedError too_old: broker: "
            "does not have DescribeCluster: Kafka 2.1 or newer is wanted"
        )
