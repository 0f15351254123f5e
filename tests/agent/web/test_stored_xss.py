"""A client.id that is a script: it comes by a log, and runs in no page that a browser shows."""

import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import pytest
import yaml

from tests.agent.wiring.test_restart import AGENT, ASSIGNED, JOIN, SYNC, Running, line, until
from tests.browser import shown

OWNED = "document.title='owned'"
EVIL = f'"><script>{OWNED}</script><img src=x onerror="{OWNED}">\x1b[31m'
PAGES = ("/", f"/group?group={quote(EVIL, safe='')}")


@pytest.mark.process
@pytest.mark.timeout(240)
def test_a_clients_id_runs_nothing_in_a_browser(tmp_path: Path) -> None:
    config = {
        "state_dir": str(tmp_path / "state"),
        "timezone": "UTC",
        "web": {"listen": ["127.0.0.1:0"]},
        "sources": [{"type": "logs", "paths": [f"{tmp_path}/*.log"]}],
    }
    (tmp_path / "agent.yaml").write_text(yaml.safe_dump(config))
    now = datetime.now(UTC)
    got = "".join(line(now, text) for text in (JOIN, SYNC % 1, ASSIGNED))
    got = got.replace("clientId=c1, groupId=g", f"clientId={EVIL}, groupId={EVIL}")
    (tmp_path / "app.log").write_text(got)
    command = [*AGENT, "run", "-c", str(tmp_path / "agent.yaml")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            agent = Running(process)
            until(lambda: agent.shows("kafka_consumer_rebalances_total NewMember", 1))
            base = agent.url.removesuffix("/metrics")
            documents = [shown(base + page, tmp_path)[0] for page in PAGES]
        finally:
            process.terminate()
            said = process.communicate()[1]

    for document in documents:
        assert "&lt;script&gt;" in document
        assert not re.search(r'<script(?! src="static/)|<img|\x1b', document)
        assert "<title>owned" not in document
    assert "\x1b" not in said
