"""Logins, certificates and ACLs of a real broker: right ones work, errors name the wrong ones."""

import base64
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import parse_qs

import pytest
import trustme

from agent.processes.ports import HOST
from tests.system.guarded_broker import (
    ADMIN,
    BEARER,
    GROUP,
    MECHANISMS,
    PASSWORD,
    PLAIN,
    READER,
    SCRAM,
    STRANGER,
    Guarded,
    unsecured_token,
)

pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.timeout(900)]

FILES = Path(__file__).with_name("command_config")
"""Configurations of Kafka's own tools, as users have them."""


_KNOWN_S = 20.0
"""In which a broker knows a new delegation token."""


@pytest.fixture(scope="module")
def guarded(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with ExitStack() as stack:
        yield Guarded(tmp_path_factory.mktemp("guarded"), cache, stack)


@pytest.fixture(scope="module")
def token(guarded: Guarded) -> tuple[str, str]:
    """Return id and HMAC of a delegation token; the tool that makes it takes seconds."""
    return guarded.delegation_token()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_mechanism_logs_in(guarded: Guarded, mechanism: str) -> None:
    result = guarded.call(guarded.login(mechanism))

    assert (result.exit_code, result.stderr) == (0, "")


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_java_stores_and_a_secret_of_the_environment_log_in(
    guarded: Guarded, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KPASS", PASSWORD)
    properties = guarded.login("SCRAM-SHA-512", password="${env:KPASS}") | {
        "security.protocol": "sasl_ssl",
        "config.providers": "env",
        "config.providers.env.class": "kafka.EnvVarConfigProvider",
        **{key: value for key, value in guarded.stores(kind).items() if "truststore" in key},
    }

    result = guarded.call(properties)

    assert (result.exit_code, result.stderr) == (0, "")


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_a_java_store_with_our_certificate_is_enough_where_it_is_wanted(
    guarded: Guarded, kind: str
) -> None:
    properties = {"security.protocol": "SSL"} | guarded.stores(kind)

    result = guarded.call(properties, server=f"localhost:{guarded.mtls_port}")

    assert (result.exit_code, result.stderr) == (0, "")


class IdentityProvider(BaseHTTPRequestHandler):
    """An OAuth endpoint; it gives tokens of the reader for one client and for one assertion."""

    CLIENT = base64.b64encode(b"agent:secret").decode()
    ASSERTION = "a.signed.jwt"

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        known = {
            "client_credentials": self.headers["Authorization"] == f"Basic {self.CLIENT}",
            "urn:ietf:params:oauth:grant-type:jwt-bearer": form.get("assertion")
            == [self.ASSERTION],
        }
        is_known = known.get(form["grant_type"][0], False)
        self.send_response(200 if is_known else 401)
        self.end_headers()
        self.wfile.write(json.dumps({"access_token": unsecured_token(READER)}).encode())

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def endpoint() -> Iterator[str]:
    with ThreadingHTTPServer((HOST, 0), IdentityProvider) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://{HOST}:{server.server_port}/token"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("secret", ["secret", "wrong"])
def test_a_token_for_client_credentials_logs_in(
    guarded: Guarded, endpoint: str, secret: str
) -> None:
    properties = guarded.login("OAUTHBEARER") | {
        "sasl.jaas.config": f'{BEARER} clientId="agent" clientSecret="{secret}";',
        "sasl.oauthbearer.token.endpoint.url": endpoint,
    }

    result = guarded.call(properties)

    if secret == "wrong":
        assert result.exit_code == 1
        assert f"{endpoint} refuses the client 'agent': HTTP 401" in result.stderr
    else:
        assert (result.exit_code, result.stderr) == (0, "")


def test_a_signed_jwt_of_a_file_logs_in(guarded: Guarded, endpoint: str) -> None:
    assertion = guarded.folder / "assertion.jwt"
    assertion.write_text(IdentityProvider.ASSERTION + "\n")
    properties = guarded.login("OAUTHBEARER") | {
        "sasl.jaas.config": f"{BEARER};",
        "sasl.oauthbearer.token.endpoint.url": endpoint,
        "sasl.oauthbearer.jwt.retriever.class": (
            "org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever"
        ),
        "sasl.oauthbearer.assertion.file": str(assertion),
    }

    result = guarded.call(properties)

    assert (result.exit_code, result.stderr) == (0, "")


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_delegation_token_logs_in(
    guarded: Guarded, token: tuple[str, str], mechanism: str
) -> None:
    name, secret = token
    properties = guarded.login(mechanism) | {
        "sasl.jaas.config": (f'{SCRAM} username="{name}" password="{secret}" tokenauth="true";')
    }

    give_up_at = time.monotonic() + _KNOWN_S
    while (result := guarded.call(properties)).exit_code and time.monotonic() < give_up_at:
        time.sleep(0.2)  # the broker learns of a new token from its controller
    wrong = guarded.call(
        {key: value.replace(' tokenauth="true"', "") for key, value in properties.items()}
    )

    assert (result.exit_code, result.stderr) == (0, "")
    assert wrong.exit_code == 1
    assert f"the login of {name!r} is refused" in wrong.stderr


def test_an_unsecured_token_logs_in(guarded: Guarded) -> None:
    properties = guarded.login("OAUTHBEARER") | {
        "sasl.jaas.config": f'{BEARER} unsecuredLoginStringClaim_sub="{READER}";'
    }
    del properties["sasl.oauthbearer.token.endpoint.url"]

    result = guarded.call(properties)

    assert (result.exit_code, result.stderr) == (0, "")


def test_a_jaas_file_logs_in(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    file = guarded.folder / "jaas.conf"
    file.write_text(f'KafkaClient {{\n  {PLAIN} username="{READER}" password="{PASSWORD}";\n}};\n')
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={file}")
    properties = guarded.login("PLAIN")
    del properties["sasl.jaas.config"]

    result = guarded.call(properties)

    assert (result.exit_code, result.stderr) == (0, "")


def test_a_certificate_of_ours_is_enough_where_it_is_wanted(guarded: Guarded) -> None:
    server = f"localhost:{guarded.mtls_port}"

    result = guarded.call(guarded.tls() | guarded.own_certificate(), server=server)

    assert (result.exit_code, result.stderr) == (0, "")


@pytest.mark.parametrize("mechanism", [name for name in MECHANISMS if name != "OAUTHBEARER"])
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


def test_the_time_lag_is_the_age_of_the_oldest_unread_record(guarded: Guarded) -> None:
    hour_ago = time.time() - 3600.0
    guarded.produce(hour_ago)
    server = f"{HOST}:{guarded.plain_port}"

    result = guarded.call({}, "describe", GROUP, "--time-lag", "--output", "json", server=server)
    age_s = time.time() - hour_ago

    assert result.exit_code == 0, result.stderr
    (group,) = json.loads(result.stdout)["groups"]
    (offsets,) = (each for each in group["offsets"] if each["topic"] == "orders")
    assert (offsets["current_offset"], offsets["lag"]) == (0, 2)
    assert 3600 <= offsets["time_lag_s"] <= age_s


class Setup(NamedTuple):
    """The setup for a property file. ``port`` names the broker's listener for it."""

    port: str
    environment: Mapping[str, str] = MappingProxyType({})
    refusal: str = ""


JAAS = f'KafkaClient {{ {PLAIN} username="{ADMIN}" password="{ADMIN}-secret"; }};'
SETUPS = {
    "jaasfile": Setup("clear_port", {"KAFKA_OPTS": "-Djava.security.auth.login.config=jaas.conf"}),
    "lower": Setup("plain_port"),
    "oauth": Setup("port"),
    "poor": Setup(
        "clear_port",
        refusal="no group is visible: an ACL for Describe on the cluster, or on groups, is wanted",
    ),
    "provider": Setup("clear_port", {"KPASS": f"{ADMIN}-secret"}),
    "scram-jks": Setup("port"),
    "scram-p12": Setup("port"),
    "ssl-jks": Setup("tls_port"),
}


@pytest.fixture
def in_folder(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in the folder with the key stores: the files name these by relative paths."""
    (guarded.folder / "jaas.conf").write_text(JAAS)
    monkeypatch.chdir(guarded.folder)
    return guarded.folder


def test_every_property_file_has_a_setup() -> None:
    assert {file.stem for file in FILES.glob("*.properties")} == set(SETUPS)


@pytest.mark.parametrize("name", SETUPS)
def test_a_property_file_of_kafkas_tools_logs_in_or_is_refused_by_a_sentence(
    guarded: Guarded, in_folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    del in_folder
    setup = SETUPS[name]
    for key, value in setup.environment.items():
        monkeypatch.setenv(key, value)

    result = guarded.call_file(FILES / f"{name}.properties", setup.port)

    assert setup.refusal in result.stderr
    assert [line.split()[0] for line in result.stdout.splitlines()[1:]] == (
        [] if setup.refusal else [GROUP]
    )
    assert result.exit_code == (1 if setup.refusal else 0)


@pytest.mark.field
@pytest.mark.parametrize("name", SETUPS)
def test_kafkas_own_tool_does_the_same_with_a_property_file(
    guarded: Guarded, in_folder: Path, name: str
) -> None:
    setup = SETUPS[name]
    file = FILES / f"{name}.properties"

    done = guarded.run_kafkas_tool(file, setup.port, setup.environment, in_folder)

    shown = [line.split()[0] for line in done.stdout.splitlines()[1:]]
    assert (done.returncode, shown) == (0, [] if setup.refusal else [GROUP]), done


def test_a_variable_without_a_value_is_no_password(
    guarded: Guarded, in_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del in_folder
    monkeypatch.delenv("KPASS", raising=False)

    result = guarded.call_file(FILES / "provider.properties", "clear_port")

    assert result.exit_code != 0
    assert "sasl.jaas.config: ${env:KPASS} has no value" in result.stderr
