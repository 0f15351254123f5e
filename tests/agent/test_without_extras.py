"""What works in a plain install, and what names the extra that it wants."""

import subprocess
import sys
from pathlib import Path

import pytest

_LOG = Path(__file__).parents[1] / "golden" / "dialects" / "java-consumer-2.5" / "input.log"
_PACKAGES = (
    "ahocorasick_rs", "confluent_kafka", "cryptography", "google", "kio", "opentelemetry", "pandas",
    "pyarrow", "pyspark", "textual",
)  # fmt: skip
"""Of the extras."""
_START = f"""
import sys
sys.modules.update(dict.fromkeys({_PACKAGES!r}))
from agent.cli import main
main()
"""
_LOGS = 'sources: [{type: logs, paths: ["/var/log/app/*.log"]}]\n'


def start(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _START, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


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

    assert done.returncode != 0
    assert f"install the extra '{extra}'" in done.stderr
    assert "Traceback" not in done.stderr
