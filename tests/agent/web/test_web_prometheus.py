"""A real Prometheus scrapes a real agent over mutual TLS, as a user."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import bcrypt
import pytest
import trustme
import yaml

from agent.processes.ports import free_port
from tests.agent.wiring.test_restart import until
from tests.dashboards.scenario import Prometheus
from tests.dashboards.test_rules import tool

DEADLINE_S = 90.0
PASSWORD = "pass: wörd"


def written(folder: Path, agent: int) -> None:
    """Write certificates and every configuration."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    for name, host in (("own", "localhost"), ("scraper", "scraper.example")):
        made = authority.issue_cert(host)
        made.private_key_pem.write_to_path(str(folder / f"{name}.key"))
        made.cert_chain_pems[0].write_to_path(str(folder / f"{name}.pem"))
    hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(10)).decode()
    web = {
        "tls_server_config": {
            "cert_file": "own.pem",
            "key_file": "own.key",
            "client_auth_type": "RequireAndVerifyClientCert",
            "client_ca_file": "ca.pem",
            "client_allowed_sans": ["scraper.example"],
        },
        "basic_auth_users": {"prometheus": hashed.replace("$2b$", "$2y$")},
    }
    tls = {"ca_file": "ca.pem", "cert_file": "scraper.pem", "key_file": "scraper.key"}
    job = {
        "scheme": "https",
        "tls_config": tls,
        "static_configs": [{"targets": [f"localhost:{agent}"]}],
    }
    user = {"username": "prometheus", "password": PASSWORD}
    jobs = [
        {"job_name": "right", "basic_auth": user, **job},
        {"job_name": "nobody", **job},
        {"job_name": "bare", "basic_auth": user, **job, "tls_config": {"ca_file": "ca.pem"}},
    ]
    configuration = {"global": {"scrape_interval": "1s"}, "scrape_configs": jobs}
    logs = [{"type": "logs", "paths": [f"{folder}/*.log"]}]
    document = {
        "state_dir": str(folder),
        "sources": logs,
        "web": {"listen": [f"127.0.0.1:{agent}"]},
    }
    for name, content in (("web", web), ("prometheus", configuration), ("agent", document)):
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(content))


@contextmanager
def running(folder: Path, agent: int, prometheus: int) -> Iterator[None]:
    commands = [
        [sys.executable, "-P", "-m", "agent", "run", "-c", "agent.yaml"],
        [
            tool("prometheus"),
            "--config.file=prometheus.yaml",
            "--storage.tsdb.path=tsdb",
            f"--web.listen-address=127.0.0.1:{prometheus}",
        ],
    ]
    written(folder, agent)
    commands[0] += ["--web.config.file", "web.yaml"]
    with (folder / "out").open("wb") as out:
        processes = [
            subprocess.Popen(each, cwd=folder, stdout=out, stderr=out, env=os.environ)
            for each in commands
        ]
        try:
            yield
        finally:
            for each in processes:
                each.kill()
                each.wait(DEADLINE_S)


def target(prometheus: Prometheus, job: str) -> dict[str, Any]:
    """Return a job's target, as Prometheus sees it."""
    found = prometheus.get("targets").get("activeTargets", [])
    return next((each for each in found if each["labels"]["job"] == job), {})


@pytest.mark.process
def test_prometheus_scrapes_over_tls_as_a_user_and_nobody_else_does(tmp_path: Path) -> None:
    agent, port = free_port(), free_port()
    with running(tmp_path, agent, port):
        prometheus = Prometheus(port)
        until(lambda: target(prometheus, "right").get("health") == "up")
        until(lambda: "401" in target(prometheus, "nobody").get("lastError", ""))
        until(lambda: "certificate required" in target(prometheus, "bare").get("lastError", ""))

        found = prometheus.get("query", query="last_over_time(rebalance_agent_build_info[5m])")[
            "result"
        ]

    assert {row["metric"]["job"] for row in found} == {"right"}
