"""What works in a plain install, and what names the extra that it wants."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

_LOG = Path(__file__).parents[1] / "golden" / "dialects" / "java-consumer-2.5" / "input.log"
_PACKAGES = (
    "ahocorasick_rs", "aws_msk_iam_sasl_signer", "confluent_kafka", "cryptography", "google", "kio",
    "opentelemetry", "pandas", "pyarrow", "pyspark", "textual",
)  # fmt: skip
"""Of the extras."""
_START = """
import sys
sys.modules.update(dict.fromkeys({packages!r}))
from agent.cli import main
main()
"""
_BROKER = "cluster: {bootstrap_servers: ['127.0.0.1:9']}\n"
_LOGS = 'sources: [{type: logs, paths: ["/var/log/app/*.log"]}]\n'


def start(
    *arguments: str | Path, missing: Sequence[str] = _PACKAGES
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _START.format(packages=missing), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def wants(done: subprocess.CompletedProcess[str], *extras: str) -> bool:
    """Whether one line names the command that installs the extras, and nothing else was done."""
    line, rest = done.stderr.split("\n", 1)
    command = f"pip install 'kafka-rebalance-agent[{','.join(extras)}]'"
    assert not rest, done.stderr
    assert not done.stdout
    assert done.returncode == 2
    return line.startswith("Error: ") and command in line


@pytest.mark.parametrize("source", [[], ["--source", "logs"]])
def test_a_log_is_replayed(source: list[str]) -> None:
    done = start("replay", *source, _LOG)

    assert done.returncode == 0, done.stderr
    assert '"kind":"transition"' in done.stdout


@pytest.mark.parametrize(
    ("section", "extra"),
    [
        ("sources: [{type: capture}]", "wire"),
        ("sources: [{type: proxy, listen: '127.0.0.1:9', upstream: ['127.0.0.1:8']}]", "wire"),
        (_BROKER + "role: standalone\nsources: [{type: groups}]", "wire"),
        (_BROKER + "role: hub\nhub: {topic: t}", "kafka"),
        (_LOGS + "otlp: {endpoint: 'http://127.0.0.1:4318'}", "otel"),
        (_LOGS + "samples: {kafka: {bootstrap_servers: ['127.0.0.1:9'], topic: t}}", "kafka"),
    ],
)
@pytest.mark.parametrize("command", ["check-config", "run"])
def test_a_configuration_names_the_extra_that_it_wants(
    command: str, section: str, extra: str, tmp_path: Path
) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(f"{section}\nstate_dir: {tmp_path}\nweb: {{listen: ['127.0.0.1:0']}}\n")

    done = start(command, "-c", path)

    assert wants(done, extra)


@pytest.mark.parametrize(
    ("command", "missing", "extras"),
    [
        (["replay", "--source", "pcap", "wire.pcap"], _PACKAGES, ["wire"]),
        (["groups", "list", "--bootstrap-server", "127.0.0.1:1"], _PACKAGES, ["wire"]),
        (["groups", "describe", "g", "--bootstrap-server", "127.0.0.1:1"], _PACKAGES, ["wire"]),
        (["ingest", "--from", "spool", "--tables", "t", "--once"], _PACKAGES, ["spark"]),
        (["report", "--tables", "t", "--output", "r"], _PACKAGES, ["spark"]),
        (["explain", "g", "--from", "{tables}"], _PACKAGES, ["spark"]),
        (["demo"], _PACKAGES, ["kafka", "wire"]),
        (["demo"], ["kio"], ["kafka", "wire"]),
        (["demo", "--report"], ["pyspark"], ["kafka", "wire", "spark"]),
    ],
)
def test_a_command_names_the_extra_that_it_wants(
    command: list[str], missing: list[str], extras: list[str], tmp_path: Path
) -> None:
    (tmp_path / "transitions").mkdir()

    done = start(*(each.format(tables=tmp_path) for each in command), missing=missing)

    assert wants(done, *extras)
