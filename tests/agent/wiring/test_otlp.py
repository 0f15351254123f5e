"""A whole agent that is configured to export by OTLP, and one that is not."""

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from agent.errors import ConfigError
from agent.wiring.agent_config import AgentConfig, load
from agent.wiring.outputs import OutputsWiring
from metrics.exporters.exposition import AgentStats
from metrics.model.snapshot import Snapshot
from tests.agent.outputs.otlp.otlp_receiver import Received, by_http
from tests.agent.wiring.test_restart import AGENT, ASSIGNED, JOIN, SYNC, line, until

ENDPOINT = "endpoint: 'http://127.0.0.1:1'"


def configured(folder: Path, otlp: str, role: str = "sidecar") -> AgentConfig:
    path = folder / "agent.yaml"
    logs = f"sources: [{{type: logs, paths: ['{folder}/*.log']}}]\n"
    path.write_text(f"state_dir: {folder}\nrole: {role}\n{logs}otlp: {{{otlp}}}\n")
    return load(path)


@pytest.mark.parametrize(
    ("otlp", "wrong"),
    [
        ("endpoint: 'collector:4317'", "found 'collector:4317', wanted an address such as"),
        ("endpoint: 'http://[::1'", "found 'http://[::1', wanted an address such as"),
        ("endpoint: 'https://u:pw@a:1'", "otlp.endpoint: found a password in it"),
        (f"{ENDPOINT}, interval: 10ms", "otlp.interval: found 0.01s, wanted 1s to 1h"),
        (f"{ENDPOINT}, timeout: 2m", "otlp.timeout: found 120.0s, wanted 100ms to 1m"),
        (f"{ENDPOINT}, protocol: json", "otlp.protocol"),
        (f"{ENDPOINT}, traces: true", "otlp.traces: a sidecar sees no whole groups"),
        ("protocol: grpc", "otlp.endpoint: is missing"),
    ],
)
def test_what_is_wrong_is_said(otlp: str, wrong: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"agent\.yaml: ") as refused:
        configured(tmp_path, otlp)
    assert wrong in str(refused.value)
    assert "pw@" not in str(refused.value)


def test_traces_are_for_who_sees_whole_groups(tmp_path: Path) -> None:
    config = configured(tmp_path, f"{ENDPOINT}, traces: true", role="standalone")
    assert config.otlp is not None
    assert config.otlp.traces


def test_without_the_extra_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "agent.outputs.otlp.exporter", raising=False)
    monkeypatch.delattr("agent.outputs.otlp.exporter", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    with pytest.raises(ConfigError, match="install the extra 'otel'"):
        OutputsWiring(configured(tmp_path, ENDPOINT), lambda: 0, nothing)


def nothing() -> tuple[Snapshot, AgentStats]:
    return Snapshot(at=0.0), AgentStats(version="0", python_version="0")


@pytest.mark.process
def test_an_agent_exports_and_once_more_when_it_ends(tmp_path: Path) -> None:
    received = Received()
    with by_http(received) as endpoint:
        config = {
            "state_dir": str(tmp_path),
            "host": "node-1",
            "timezone": "UTC",
            "web": {"listen": ["127.0.0.1:0"]},
            "sources": [{"type": "logs", "paths": [f"{tmp_path}/*.log"]}],
            "otlp": {"endpoint": endpoint, "interval": "1s"},
        }
        (tmp_path / "agent.yaml").write_text(yaml.safe_dump(config))
        now = datetime.now(UTC)
        got = "".join(line(now, text) for text in (JOIN, SYNC % 1, ASSIGNED))
        (tmp_path / "app.log").write_text(got)
        command = [*AGENT, "run", "-c", str(tmp_path / "agent.yaml")]
        with subprocess.Popen(command, stderr=subprocess.PIPE) as agent:
            assert agent.stderr is not None
            try:
                until(lambda: bool(rebalances(received)))
                before = len(received.headers)
            finally:
                agent.terminate()
            messages = agent.stderr.read().decode()

    assert rebalances(received) == [1]
    assert len(received.headers) > before
    assert received.resource["service.instance.id"] == "node-1"
    assert "otlp_export_failed" not in messages


def rebalances(received: Received) -> list[int]:
    found = [each for each in received.metrics if each.name == "kafka.consumer.rebalances"]
    return [point.as_int for point in found[-1].sum.data_points] if found else []
