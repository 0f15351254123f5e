"""Cost of an idle sidecar: RSS and CPU of `rebalance-agent run` beside 10 quiet clients.

Each client has its own log with a recorded session and writes nothing more. The window begins when
the agent has read all of them. It is scraped as often as Prometheus would. No module of Spark or
OpenTelemetry may be imported.
"""

import argparse
import contextlib
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil

CLIENTS = 10
RSS_MAX_MIB, CPU_MAX_PERCENT = 45.0, 0.5
FORBIDDEN = ("pyspark", "py4j", "opentelemetry", "pyarrow", "pandas", "matplotlib")
SESSION = Path(__file__).with_name("client_session.log")
SCRAPE_S, READY_WITHIN_S, SETTLE_S = 15.0, 60.0, 5.0
CONFIG = """\
state_dir: {folder}/state
timezone: UTC
sources:
  - {{type: logs, paths: ["{folder}/logs/*.log"]}}
web: {{listen: ["127.0.0.1:0"]}}
log: {{format: json}}
"""


@contextlib.contextmanager
def running(folder: Path) -> Iterator[tuple[psutil.Process, Path]]:
    """Start an agent; every import stands in the file of its messages."""
    logs, messages = folder / "logs", folder / "stderr.txt"
    logs.mkdir()
    for number in range(CLIENTS):
        shutil.copy(SESSION, logs / f"client-{number}.log")
    config = folder / "agent.yaml"
    config.write_text(CONFIG.format(folder=folder))
    script = Path(sys.executable).with_name("rebalance-agent")
    with (
        messages.open("wb") as stderr,
        subprocess.Popen(
            [script, "run", "-c", config],
            stderr=stderr,
            env=os.environ | {"PYTHONPROFILEIMPORTTIME": "1"},
        ) as process,
    ):
        try:
            yield psutil.Process(process.pid), messages
        finally:
            process.terminate()


def address(messages: Path) -> str | None:
    whole, _, _ = messages.read_text().rpartition("\n")  # the last line may still be written
    for line in whole.splitlines():
        if line.startswith("{") and "address" in (found := json.loads(line)):
            return str(found["address"])
    return None


def get(url: str) -> str | None:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return str(answer.read().decode())
    except OSError:
        return None


def wait_ready(messages: Path) -> str:
    """Return the agent's address once it has read every log."""
    deadline = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < deadline:
        where = address(messages)
        if where is not None and get(f"http://{where}/-/ready") is not None:
            return where
        time.sleep(0.2)
    sys.exit(f"not ready within {READY_WITHIN_S} s:\n{messages.read_text()[-2000:]}")


def wait_for_members(where: str) -> None:
    """Return once the page of metrics shows a member; a busy machine may take its time."""
    deadline, page = time.monotonic() + READY_WITHIN_S, ""
    while time.monotonic() < deadline:
        page = get(f"http://{where}/metrics") or ""
        if "kafka_consumer_rebalance_status{" in page:
            return
        time.sleep(0.2)
    sys.exit(f"no member within {READY_WITHIN_S} s:\n{page[-2000:]}")


def cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def find_forbidden_imports(messages: Path) -> set[str]:
    lines = messages.read_text().splitlines()
    found = {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}
    assert "asyncio" in found, "the list of imports is empty"
    return {name for name in found if name.partition(".")[0] in FORBIDDEN}


def requests(rss_mib: float, percent: float) -> str:
    """Return a container's requests, rounded up; `agent.kubernetes.sidecar` has them."""
    return f"cpu {math.ceil(1.3 * percent * 10)}m, memory {math.ceil(1.3 * rss_mib)}Mi"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="a window of 20 s instead of 120 s")
    window_s = 20.0 if parser.parse_args().short else 120.0
    with tempfile.TemporaryDirectory() as name, running(Path(name)) as (process, messages):
        where = wait_ready(messages)
        wait_for_members(where)
        time.sleep(SETTLE_S)
        began_at, began_s = time.monotonic(), cpu_s(process)
        while (left := began_at + window_s - time.monotonic()) > 0:
            time.sleep(min(left, SCRAPE_S))
            get(f"http://{where}/metrics")
        percent = 100 * (cpu_s(process) - began_s) / (time.monotonic() - began_at)
        rss_mib = process.memory_info().rss / (1 << 20)
        unwanted = find_forbidden_imports(messages)
    print(f"RSS {rss_mib:.1f} MiB (wanted: at most {RSS_MAX_MIB})")
    print(
        f"CPU {percent:.2f} % of a core over {window_s:.0f} s (wanted: at most {CPU_MAX_PERCENT})"
    )
    print(f"a sidecar's requests, 30 % more: {requests(rss_mib, percent)}")
    print(f"imported of {', '.join(FORBIDDEN)}: {', '.join(sorted(unwanted)) or 'nothing'}")
    return 0 if rss_mib <= RSS_MAX_MIB and percent <= CPU_MAX_PERCENT and not unwanted else 1


if __name__ == "__main__":
    sys.exit(main())
