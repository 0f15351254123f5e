"""Small files that a configuration names: a device, a pipe, a folder or a huge file is an error."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from agent.cli.ingest import _properties
from agent.client import api_client
from agent.config.hub import HubConfig, read_token
from agent.config.kafka import KafkaAccess
from agent.config.otlp import OtlpConfig
from agent.config.security import Protocol, SecurityConfig
from agent.config.yaml_loader import read_yaml
from agent.errors import ConfigError
from agent.inspection.connection.client_properties import read_properties, security_of
from agent.inspection.connection.jaas import read_client_section
from agent.inspection.connection.security import open_security
from agent.outputs.hub_push import push
from agent.outputs.kafka.client_config import client_properties
from agent.outputs.otlp.senders import OtlpSender
from agent.small_files import MAX_BYTES, read_bytes, read_text
from agent.sources.proxy.config import ListenTls, TlsConfig, UpstreamTls
from agent.sources.proxy.tls import load_contexts
from agent.web.tls import make_context
from agent.web.web_config import TlsServerConfig

_PIPE_NAME, _HUGE_NAME = "pipe", "huge"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Provide a folder with a pipe that nobody writes, and a file of a terabyte."""
    os.mkfifo(tmp_path / _PIPE_NAME)
    (tmp_path / _HUGE_NAME).touch()
    os.truncate(tmp_path / _HUGE_NAME, 1 << 40)
    (tmp_path / "link").symlink_to("/dev/zero")
    return tmp_path


_PLAIN: dict[str, Callable[[Path], Any]] = {
    "hub.token_file": read_token,
    "configuration": read_yaml,
    "properties of a client": read_properties,
    "properties of ingest": _properties,
    "JAAS": read_client_section,
    "key password": lambda path: open_security(
        SecurityConfig(protocol=Protocol.SSL, key_password_file=path)
    ),
    "key store": lambda path: (
        security_of({"security.protocol": "SSL", "ssl.keystore.location": str(path)}, "client").tls
    ),
}
_MAY_BE_EMPTY = (
    "configuration",
    "properties of a client",
    "properties of ingest",
    "key password",
)
_OF_TLS: dict[str, Callable[[Path], Any]] = {
    "key of brokers": lambda path: open_security(
        SecurityConfig(protocol=Protocol.SSL, certificate=path)
    ),
    "authorities of brokers": lambda path: open_security(
        SecurityConfig(protocol=Protocol.SSL, ca_file=path)
    ),
    "trust store in PEM": lambda path: (
        security_of(
            {
                "security.protocol": "SSL",
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(path),
            },
            "client",
        ).tls
    ),
    "key of librdkafka": lambda path: client_properties(
        KafkaAccess(
            bootstrap_servers=("a:1",),
            security=SecurityConfig(protocol=Protocol.SSL, certificate=path),
        )
    ),
    "hub.ca_file": lambda path: push._tls(HubConfig(ca_file=path)),
    "hub.certificate_file": lambda path: push._tls(HubConfig(certificate_file=path)),
    "otlp.ca_file": lambda path: OtlpSender(
        OtlpConfig(endpoint="https://localhost:4318", ca_file=path)
    ),
    "tls.listen": lambda path: load_contexts(
        TlsConfig(listen=ListenTls(cert_file=path, key_file=path))
    ),
    "tls.upstream": lambda path: load_contexts(TlsConfig(upstream=UpstreamTls(ca_file=path))),
    "tls_server_config": lambda path: make_context(
        TlsServerConfig(cert_file=path, key_file=path), "web"
    ),
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", [_PIPE_NAME, _HUGE_NAME, "link"])
@pytest.mark.parametrize("use", _PLAIN)
def test_what_is_no_small_file_is_an_error(place: Path, use: str, name: str) -> None:
    """A pipe without a writer is empty."""
    if name == _PIPE_NAME and use in _MAY_BE_EMPTY:
        _PLAIN[use](place / name)
        return

    with pytest.raises((ConfigError, click.UsageError)) as error:
        _PLAIN[use](place / name)

    assert name in str(error.value)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", [_PIPE_NAME, _HUGE_NAME, "link"])
@pytest.mark.parametrize("use", _OF_TLS)
def test_what_is_no_certificate_is_an_error(place: Path, use: str, name: str) -> None:
    with pytest.raises(ConfigError):
        _OF_TLS[use](place / name)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", [_PIPE_NAME, _HUGE_NAME, "link"])
def test_files_of_the_environment_are_checked(
    place: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("REBALANCE_AGENT_CA_FILE", "REBALANCE_AGENT_CERTIFICATE_FILE"):
        with monkeypatch.context() as patch:
            patch.setenv(variable, str(place / name))
            with pytest.raises(ConfigError, match=variable):
                api_client._tls()


def test_a_pipe_is_read_until_its_writer_ends(tmp_path: Path) -> None:
    """A shell's ``<(...)`` is a pipe."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(path, os.O_WRONLY)
    os.write(writer, b"a=1\r\nb=2")

    thread = threading.Timer(0.1, os.close, [writer])
    thread.start()
    try:
        assert read_text(path) == "a=1\nb=2"
    finally:
        thread.join()
        os.close(reader)


def test_a_pipe_whose_writer_does_not_end_is_given_up(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(path, os.O_WRONLY)
    try:
        with pytest.raises(TimeoutError, match="does not end in time"):
            read_bytes(path, wait_s=0.05)
    finally:
        os.close(reader)
        os.close(writer)


def test_the_longest_file_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"a" * MAX_BYTES)

    assert len(read_bytes(path)) == MAX_BYTES
    with pytest.raises(OSError, match="is longer than 1 MiB"):
        read_bytes(Path("/dev/zero"))
