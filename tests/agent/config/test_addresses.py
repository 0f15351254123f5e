"""Addresses as users write them."""

import pytest

from agent.config.addresses import check_url, parse_address
from agent.errors import ConfigError

LONG = "x" * 64


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("kafka-1:9093", "kafka-1", 9093),
        ("kafka_1.example.:9093", "kafka_1.example.", 9093),
        ("b\xfccher.example:1", "b\xfccher.example", 1),
        ("[::1]:9093", "::1", 9093),
        ("[fe80::1%eth0]:9093", "fe80::1%eth0", 9093),
        ("::1:9093", "::1", 9093),
        (":12472", "", 12472),
    ],
)
def test_host_and_port(text: str, host: str, port: int) -> None:
    assert parse_address(text, "listen") == (host, port)


@pytest.mark.parametrize(
    "text",
    [
        "kafka",
        "kafka:",
        "kafka:x",
        "kafka:99999",
        f"kafka:{'9' * 5000}",
        "kafka:\u0661",
        "a..b:9092",
        f"{LONG}:9092",
        "\udcff:9092",
        "[::1:9092",
        "::1]:9092",
        "[kafka]:9092",
        "http://kafka:9092",
        "me@kafka:9092",
        "ka fka:9092",
        "kaf\0ka:9092",
    ],
)
def test_what_is_no_address_is_said(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_address(text, "upstream[0]")
    assert str(refused.value) == (
        f"upstream[0]: found {text!r}, wanted host:port such as kafka-1:9093"
    )


@pytest.mark.parametrize("text", ["http://hub:12472/rebalances/", "https://[::1]", "http://a.b"])
def test_a_server(text: str) -> None:
    check_url(text, "hub", "https://hub:12472", "hub.token_file")


@pytest.mark.parametrize(
    "text",
    [
        "hub:12472",
        "ftp://hub",
        "http://",
        "http://:80",
        "http://hub:port",
        "http://hub:99999",
        "http://[::1",
        "http://a..b:1",
        f"http://{LONG}",
        "http://h ub",
    ],
)
def test_what_is_no_server_is_said(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        check_url(text, "hub.push_to[0]", "https://hub:12472", "hub.token_file")
    assert str(refused.value) == (
        f"hub.push_to[0]: found {text!r}, wanted an address such as https://hub:12472"
    )


def test_a_password_is_not_said() -> None:
    with pytest.raises(ConfigError, match="found 'http://…@hub:port', wanted"):
        check_url("http://me:secret@hub:port", "hub.push_to[0]", "https://hub:12472", "x")
