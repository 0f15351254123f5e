import sys
import time
from pathlib import Path

import pytest

from agent.config.kafka import KafkaAccess
from agent.config.security import Mechanism, Protocol, SecurityConfig
from agent.errors import ConfigError
from agent.outputs.kafka.client_config import client_properties
from agent.wiring.agent import Agent
from agent.wiring.agent_config import AgentConfig, load

LEAST = "sources: [{type: logs, paths: [/a]}]\n"
CLUSTER = "cluster: {bootstrap_servers: ['k:9092']}\n"


def loaded(folder: Path, text: str) -> AgentConfig:
    file = folder / "agent.yaml"
    file.write_text(f"state_dir: {folder}/state\n{text}")
    return load(file)


def test_sink_uses_the_clusters_addresses(tmp_path: Path) -> None:
    config = loaded(tmp_path, f"{LEAST}{CLUSTER}samples: {{kafka: {{topic: t}}}}")

    assert config.samples.kafka is not None
    found = client_properties(config.samples.kafka.access(config.cluster.access))
    assert found["bootstrap.servers"] == "k:9092"


def test_sink_may_have_a_cluster_of_its_own(tmp_path: Path) -> None:
    kafka = "samples: {kafka: {topic: t, bootstrap_servers: ['a:1', 'b:2']}}"
    config = loaded(tmp_path, f"{LEAST}{kafka}")

    assert config.samples.kafka is not None
    found = client_properties(config.samples.kafka.access(config.cluster.access))
    assert (found["bootstrap.servers"], found["security.protocol"]) == ("a:1,b:2", "PLAINTEXT")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{LEAST}samples: {{kafka: {{topic: t}}}}", "cluster.bootstrap_servers: is missing; samp"),
        (f"{LEAST}samples: {{kafka: {{}}}}", "samples.kafka.topic: is missing"),
        (f"{LEAST}{CLUSTER}samples: {{kafka: {{topic: a b}}}}", "samples.kafka.topic: found 'a b'"),
        (
            f"{LEAST}samples: {{kafka: {{topic: t, bootstrap_servers: [x]}}}}",
            "samples.kafka.bootstrap_servers[0]: ",
        ),
        (f"{LEAST}{CLUSTER}hub: {{topic: t}}", "hub.topic: is for a hub; wanted role: hub"),
        ("role: hub\nhub: {topic: t}", "cluster.bootstrap_servers: is missing; hub.topic wants"),
        ("role: hub\nhub: {topic: ..}", "hub.topic: found '..'"),
        (
            f"role: hub\n{CLUSTER}hub: {{topic: t}}\nsamples: {{kafka: {{topic: t}}}}",
            "samples.kafka.topic: found 't', which the hub reads",
        ),
    ],
)
def test_a_wrong_topic_says_where_and_what(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        loaded(tmp_path, text)

    assert str(refused.value).startswith(f"{tmp_path}/agent.yaml: {said}")


@pytest.mark.parametrize(
    ("text", "section"),
    [
        (f"{LEAST}{CLUSTER}samples: {{kafka: {{topic: t}}}}", "samples.kafka"),
        (f"role: hub\n{CLUSTER}hub: {{topic: t}}", "hub.topic"),
    ],
)
def test_missing_extra_is_one_sentence(
    tmp_path: Path, text: str, section: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("agent.outputs.kafka.producer", "agent.hub.topic_reader", "agent.hub.topic_feed"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    config = loaded(tmp_path, text)

    with pytest.raises(
        ConfigError, match=rf"^{section}: .*; install the extra 'kafka': pip install .*$"
    ):
        Agent(config, lambda: config)


@pytest.fixture
def password(tmp_path: Path) -> Path:
    path = tmp_path / "password"
    path.write_text("secret\n")
    return path


def test_login_and_certificates_in_librdkafkas_words(password: Path) -> None:
    security = SecurityConfig(
        protocol=Protocol.SASL_SSL,
        mechanism=Mechanism.SCRAM_SHA_512,
        username="me",
        password_file=password,
        verify_host_name=False,
    )
    found = client_properties(KafkaAccess(("k:9093",), security))

    assert found["security.protocol"] == "SASL_SSL"
    assert found["sasl.mechanism"] == "SCRAM-SHA-512"
    assert (found["sasl.username"], found["sasl.password"]) == ("me", "secret")
    assert found["ssl.endpoint.identification.algorithm"] == "none"
    assert "ssl.ca.location" not in found


def test_token_is_read_when_it_is_shown(password: Path) -> None:
    security = SecurityConfig(
        protocol=Protocol.SASL_PLAINTEXT, mechanism=Mechanism.OAUTHBEARER, token_file=password
    )
    token = client_properties(KafkaAccess(("k:9093",), security))["oauth_cb"]
    password.write_text("another\n")

    shown, expires_at = token("")
    assert shown == "another"
    assert expires_at > time.time()


def test_missing_secret_is_told_at_the_start(tmp_path: Path) -> None:
    security = SecurityConfig(
        protocol=Protocol.SASL_PLAINTEXT,
        mechanism=Mechanism.PLAIN,
        username="me",
        password_file=tmp_path / "nowhere",
    )

    with pytest.raises(ConfigError, match="nowhere cannot be read"):
        client_properties(KafkaAccess(("k:9093",), security))
