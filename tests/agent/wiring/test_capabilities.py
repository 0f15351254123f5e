"""A running agent has only the capabilities that its configuration needs, in each thread."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from agent.sources.source_type import Capability
from agent.wiring.agent_config import load
from agent.wiring.capabilities import capabilities_for
from tests.agent.wiring.test_restart import AGENT, Running, until

Source = dict[str, object]
LOGS: Source = {"type": "logs", "paths": ["/var/log/app/*.log"]}
CAPTURE: Source = {"type": "capture"}
PROXY: Source = {"type": "proxy", "upstream": ["kafka:9092"]}
READ, RAW, BIND, WRITE = (
    Capability.DAC_READ_SEARCH,
    Capability.NET_RAW,
    Capability.NET_BIND_SERVICE,
    Capability.DAC_OVERRIDE,
)


def configured(folder: Path, *sources: Source) -> Path:
    path = folder / "agent.yaml"
    document = {
        "state_dir": str(folder),
        "role": "standalone",
        "web": {"listen": ["127.0.0.1:0"]},
        "sources": list(sources),
    }
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.mark.parametrize(
    ("sources", "wanted"),
    [
        ([LOGS], {READ}),
        ([CAPTURE], {RAW}),
        ([LOGS, CAPTURE], {READ, RAW}),
        ([PROXY | {"listen": "127.0.0.1:19092"}], set()),
        ([PROXY | {"listen": "127.0.0.1:992"}], {BIND}),
        ([{"type": "http"}], set()),
        ([{"type": "librdkafka_stats", "path": "{folder}/stats.sock"}], {READ}),
    ],
)
def test_each_source_needs_its_own(
    sources: list[Source], wanted: set[Capability], tmp_path: Path
) -> None:
    path = configured(tmp_path, *sources)
    path.write_text(path.read_text().replace("{folder}", str(tmp_path)))
    assert capabilities_for(load(path)) == wanted


def test_a_folder_of_another_user_needs_one_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load(configured(tmp_path, LOGS))
    monkeypatch.setattr(os, "geteuid", lambda: 12_345)
    assert capabilities_for(config) == {READ, WRITE}


def sets(pid: int) -> list[dict[str, int]]:
    """Return each thread's sets of capabilities, by the names that the kernel gives them."""
    texts = [each.read_text() for each in Path(f"/proc/{pid}/task").glob("*/status")]
    return [
        {name: int(bits, 16) for name, bits in re.findall(r"(Cap\w+|NoNewPrivs):\s+(\w+)", text)}
        for text in texts
    ]


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="of Linux")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root has capabilities to drop")
def test_an_agent_of_root_keeps_what_it_needs_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "app.log").touch()
    path = configured(tmp_path, {"type": "logs", "paths": [f"{tmp_path}/*.log"]})
    command = [*AGENT, "run", "-c", str(path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            before = sets(os.getpid())[0]["CapPrm"]
            agent = Running(process)
            until(lambda: agent.shows("rebalance_agent_build_info", 1) or True)
            found = sets(process.pid)
        finally:
            process.terminate()
            said = process.communicate()[1]

    kept = before & 1 << READ
    for each in found:
        assert (each["CapPrm"], each["CapEff"], each["CapInh"], each["CapAmb"]) == (
            kept,
            kept,
            0,
            0,
        )
        assert each["NoNewPrivs"] == 1
        if before >> 8 & 1:  # CAP_SETPCAP, which it takes
            assert each["CapBnd"] & ~kept == 0
    assert "event=capabilities kept=DAC_READ_SEARCH" in said
