"""`explain` and `top` ask an agent that has TLS, users and wants certificates."""

import asyncio
import gc
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agent.cli import main
from agent.client import api_client
from agent.client.api_client import ask
from agent.errors import ConfigError, RecordsError
from tests.agent.trickling import ANSWERS, Answer, answering, trickling
from tests.agent.web.test_security import MUTUAL, TLS, USERS, Place, Served, play


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def top(server: Served, user: str) -> Result:
    url = f"https://{user}localhost:{server.port}"
    return CliRunner().invoke(main, ["top", "--once", "--from", url])


def test_an_agent_with_tls_and_users(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(server: Served) -> None:
        right = await asyncio.to_thread(top, server, "a:%61a@")
        wrong = await asyncio.to_thread(top, server, "a:b4d@")
        nobody = await asyncio.to_thread(top, server, "")
        monkeypatch.delenv("REBALANCE_AGENT_CA_FILE")
        trustless = await asyncio.to_thread(top, server, "a:aa@")

        assert right.exit_code == 0
        refused = f"Error: https://localhost:{server.port}: 401: wanted a user and a password"
        assert [each.exit_code for each in (wrong, nobody, trustless)] == [1, 1, 1]
        assert wrong.stderr.startswith(refused)
        assert nobody.stderr.startswith(refused)
        assert trustless.stderr.startswith(f"Error: https://localhost:{server.port}: ")
        assert "wanted its authority in REBALANCE_AGENT_CA_FILE" in trustless.stderr
        assert "CERTIFICATE_VERIFY_FAILED" in trustless.stderr

    monkeypatch.setenv("REBALANCE_AGENT_CA_FILE", str(place.folder / "ca.pem"))
    place.file.write_text(TLS + USERS)
    play(place, scenario)
    gc.collect()  # a connection that was left open is told now


def test_an_agent_that_wants_a_certificate(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(server: Served) -> None:
        without = await asyncio.to_thread(top, server, "")
        monkeypatch.setenv("REBALANCE_AGENT_CERTIFICATE_FILE", str(place.folder / "me.pem"))
        shown = await asyncio.to_thread(top, server, "")

        assert without.exit_code == 1
        assert "certificate required" in without.stderr
        assert shown.exit_code == 0

    made = place.authority.issue_cert("me")
    made.private_key_and_cert_chain_pem.write_to_path(str(place.folder / "me.pem"))
    monkeypatch.setenv("REBALANCE_AGENT_CA_FILE", str(place.folder / "ca.pem"))
    place.file.write_text(MUTUAL)
    play(place, scenario)


@pytest.mark.parametrize("url", ["ftp://ann:s3cret@host", "http://ann:s3cret@127.0.0.1:1/x@y"])
def test_no_message_shows_a_password(url: str) -> None:
    with pytest.raises(RecordsError) as refused:
        ask(url, "groups")

    assert "s3cret" not in str(refused.value)
    assert "ann" not in str(refused.value)


@pytest.mark.parametrize("name", ["REBALANCE_AGENT_CA_FILE", "REBALANCE_AGENT_CERTIFICATE_FILE"])
def test_a_file_that_is_missing_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, f"{os.devnull}/none.pem")

    with pytest.raises(ConfigError, match=f"{name}: {os.devnull}/none.pem: .*; wanted PEM"):
        ask("https://localhost:1", "groups")


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.name)
def test_an_agent_that_trickles_is_given_up(
    answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_client, "_TIMEOUT_S", 0.5)
    with trickling(answer) as address, pytest.raises(RecordsError, match="timed out"):
        ask(f"http://{address}", "groups")


@pytest.mark.parametrize(
    ("begin", "cause"),
    [
        (b"no HTTP\r\n\r\n", "no HTTP"),
        (b"SSH-2.0-OpenSSH_9.2\x1b[2J\r\n", "SSH-2.0"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n[", "truncated"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx", "IncompleteRead"),
        (b"HTTP/1.1 200 OK\r\n\r\n[" + bytes(100), "more than 0 MiB"),
        (b"HTTP/1.1 500 No\r\nContent-Length: 9\r\n\r\n{}", "500 No"),
    ],
    ids=["no status", "SSH", "cut", "cut chunk", "too large", "cut error"],
)
def test_a_peer_that_is_no_agent_is_named(
    begin: bytes, cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_client, "_RESPONSE_BYTES", 50)
    with answering(begin) as address:
        with pytest.raises(RecordsError) as raised:
            ask(f"http://{address}", "groups")

        assert str(raised.value).startswith(f"http://{address}: ")
        assert cause in str(raised.value)
