"""A real agent that reads recordings as if they were written now, and a Prometheus beside it.

The one scrapes the other over TLS, as a user.
"""

import os
import re
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import bcrypt
import httpx
import trustme

from agent.processes.ports import free_port
from tests.agent.wiring.test_restart import until
from tests.dashboards.test_rules import FOLDER, tool

GOLDEN = Path(__file__).parent.parent / "golden" / "dialects"
RECORDINGS = ("java-consumer-3.0-4.3", "kafka-streams-2.6-4.3")
_STAMP = re.compile(r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\]", re.MULTILINE)
_FORMAT = "%Y-%m-%d %H:%M:%S,%f"
_DEADLINE_S = 90.0

_AGENT = """\
host: here
timezone: UTC
state_dir: {folder}/state
web:
  listen: ["127.0.0.1:{port}"]
  config_file: {folder}/web.yaml
  external_url: https://rebalances.example.org
"""
# one source has a device that does not exist, so that a fault shows
_SOURCES = """\
role: standalone
cluster: {{name: demo}}
status: {{forget_after: 1h}}
sources:
  - {{type: logs, paths: ["{folder}/*.log"]}}
  - {{type: capture, interface: nodevice0}}
"""
_PROMETHEUS = """\
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{rules}]
scrape_configs:
  - job_name: rebalance-agent
    scheme: https
    tls_config: {{ca_file: {folder}/ca.pem}}
    basic_auth: {{username: prometheus, password_file: {folder}/password}}
    static_configs: [{{targets: ["localhost:{port}"]}}]
"""
_WEB = """\
tls_server_config: {{cert_file: own.pem, key_file: own.key}}
basic_auth_users: {{prometheus: {hashed}}}
"""


class Prometheus:
    """Queries to a running Prometheus."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    def get(self, path: str, **parameters: str | float) -> Any:
        """Return the data of an API's answer, or nothing while it does not answer."""
        try:
            answer = httpx.get(
                f"{self._url}/api/v1/{path}",
                params=parameters,
                timeout=_DEADLINE_S,
                verify=False,  # plain HTTP: the machine's certificates take 30 ms to read
            )
        except httpx.TransportError:
            return {}
        assert answer.status_code in {200, 503}, f"{parameters}: {answer.text}"
        return answer.json()["data"] if answer.status_code == 200 else {}

    def has(self, expr: str) -> bool:
        """Whether an expression has a value now."""
        return bool(self.get("query", query=expr).get("result"))


class Scenario:
    """The recordings, appended to logs that the agent follows."""

    def __init__(
        self, folder: Path, agent: subprocess.Popen[bytes], prometheus: Prometheus
    ) -> None:
        self._folder = folder
        self._agent = agent
        self.prometheus = prometheus

    def replay(self, before: timedelta) -> None:
        """Append each recording, its end so long before now."""
        for name in RECORDINGS:
            text = (GOLDEN / name / "input.log").read_text()
            last = _time(_STAMP.findall(text)[-1])
            moved = partial(_moved, by=datetime.now(UTC).replace(tzinfo=None) - before - last)
            with (self._folder / f"{name}.log").open("a") as file:
                file.write(_STAMP.sub(moved, text))

    def reload(self) -> None:
        """Let the agent read its configuration again."""
        self._agent.send_signal(signal.SIGHUP)


def _time(stamp: str) -> datetime:
    return datetime.strptime(stamp, _FORMAT)  # noqa: DTZ007 - all of them are UTC


def _moved(stamp: re.Match[str], by: timedelta) -> str:
    return f"[{(_time(stamp[1]) + by).strftime(_FORMAT)[:-3]}]"


@contextmanager
def scenario(folder: Path) -> Iterator[Scenario]:
    """Start an agent that follows the logs, and a Prometheus with the rules."""
    for name in RECORDINGS:
        (folder / f"{name}.log").touch()
    sources = _SOURCES.format(folder=folder)
    with scraped(folder, sources, FOLDER / "rules.yaml") as (agent, prometheus):
        yield Scenario(folder, agent, prometheus)


def secure(folder: Path) -> None:
    """Write the agent's certificate, and the configuration of its users."""
    authority, password = trustme.CA(), secrets.token_urlsafe()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    made = authority.issue_cert("localhost")
    made.private_key_pem.write_to_path(str(folder / "own.key"))
    made.cert_chain_pems[0].write_to_path(str(folder / "own.pem"))
    (folder / "password").write_text(password)
    hashed = bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()
    (folder / "web.yaml").write_text(_WEB.format(hashed=hashed))


@contextmanager
def scraped(
    folder: Path, config: str, rules: Path
) -> Iterator[tuple[subprocess.Popen[bytes], Prometheus]]:
    """Start an agent and a Prometheus, and stop both."""
    port, own = free_port(), free_port()
    (folder / "agent.yaml").write_text(_AGENT.format(folder=folder, port=port) + config)
    prometheus_config = _PROMETHEUS.format(rules=rules, port=port, folder=folder)
    (folder / "prometheus.yaml").write_text(prometheus_config)
    secure(folder)
    prometheus = [
        tool("prometheus"),
        f"--config.file={folder}/prometheus.yaml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{own}",
        "--enable-feature=exemplar-storage",
        "--log.level=error",
    ]
    agent = [sys.executable, "-P", "-m", "agent", "run", "-c", str(folder / "agent.yaml")]
    environment = os.environ | {"GOMAXPROCS": "1"}
    with (folder / "agent.out").open("wb") as out:
        started = [
            subprocess.Popen(command, env=environment, stdout=out, stderr=out)
            for command in (agent, prometheus)
        ]
        try:
            answers = Prometheus(own)
            until(lambda: answers.has("rebalance_agent_build_info"))
            yield started[0], answers
        finally:
            for process in started:
                process.terminate()
            for process in started:
                process.wait(_DEADLINE_S)
