"""Cost of inspecting 5,000 groups with 20 members each: one poll's time, and the agent's RSS.

Three simulated brokers speak the real protocol from responses that are encoded once. Groups have
all four types. The agent is `rebalance-agent run` as users start it, and is scraped all the while.
So its peak RSS includes the metrics page, and the longest scrape shows whether a poll delays it.
The peer is kio's own reader, on the responses of one batch.
"""

import argparse
import asyncio
import contextlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from kio.index import load_response_schema  # noqa: E402 - the path comes first
from kio.serial import entity_reader  # noqa: E402

from agent.config.addresses import parse_address  # noqa: E402
from agent.inspection.connection.admin_requests import Api, decode  # noqa: E402
from agent.inspection.connection.broker_pool import BrokerPool  # noqa: E402
from agent.inspection.connection.security import Security  # noqa: E402
from agent.inspection.poller import Poller  # noqa: E402
from tests.agent.inspection.simulated import Group, Simulated  # noqa: E402

GROUPS, MEMBERS, BATCH, BROKERS = 5_000, 20, 50, 3
POLL_MAX_S, RSS_MAX_MIB, LAG_RSS_MAX_MIB = 10.0, 150.0, 200.0
POLLS = 3
SCRAPE_S = 3.0
"""Five times as often as Prometheus."""
FIRST_S = 0.5
"""Time until the first poll is over; the second one's replaces it."""
WITHIN_S = 600.0
TOPIC = "orders-of-the-day"
KINDS = ("classic", "classic", "classic", "consumer", "consumer", "share", "streams")
CONFIG = """\
role: standalone
cluster: {{bootstrap_servers: [{bootstrap}]}}
state_dir: {folder}/state
sources: [{{type: groups, interval: 6s, lag: {lag}}}]
web: {{listen: ["127.0.0.1:0"]}}
"""
DRIVER = """\
import sys
sys.path.insert(0, {root!r})
from benchmarks.inspection import simulate_brokers
with simulate_brokers({groups}) as cluster:
    print(cluster.bootstrap, flush=True)
    sys.stdin.read()
"""


def simulate_brokers(count: int) -> Simulated:
    groups = {
        f"group-{number:05}": Group(
            type=KINDS[number % len(KINDS)],
            node_id=1 + number % BROKERS,
            committed={(TOPIC, 4 * member): 1_000 + number for member in range(MEMBERS)},
            members={
                f"client-{number}-{member}-0e2c7a3b-94c1-4a5e-8f0d-3b1f6d2a7c55": {
                    TOPIC: [member * 4 + n for n in range(4)]
                }
                for member in range(MEMBERS)
            },
        )
        for number in range(count)
    }
    ends = {(TOPIC, number): 10_000 for number in range(4 * MEMBERS)}
    return Simulated(groups, nodes=BROKERS, cached=True, ends=ends)


@contextlib.contextmanager
def brokers(count: int) -> Iterator[str]:
    """Run the simulated brokers in a process of their own; give their addresses."""
    script = DRIVER.format(root=str(ROOT), groups=count)
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.communicate()


async def record_responses(bootstrap: str) -> None:
    """Request every response once, so that the brokers hold its bytes."""
    nodes = [parse_address(address, "bootstrap") for address in bootstrap.split(",")]
    asking = BrokerPool(nodes, Security, timeout_s=WITHIN_S)
    poller = Poller(asking, lambda _: True)
    await poller.lags((await poller.poll(())).groups)
    await asking.close()


@contextlib.contextmanager
def agent(bootstrap: str, *, lag: bool) -> Iterator[tuple[int, str]]:
    """Run an agent; give its process id and its address."""
    script = Path(sys.executable).with_name("rebalance-agent")
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "agent.yaml"
        config.write_text(CONFIG.format(bootstrap=bootstrap, folder=folder, lag=str(lag).lower()))
        with subprocess.Popen(
            [script, "run", "-c", config], stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stderr is not None
            try:
                match = next(filter(None, (re.search(r"address=(\S+)", s) for s in process.stderr)))
                yield process.pid, match[1].strip('"').replace("[::]", "127.0.0.1")
            finally:
                process.terminate()
                process.communicate()


def scrape(address: str) -> tuple[str, float]:
    began_s = time.monotonic()
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=60.0) as answer:
        return answer.read().decode(), time.monotonic() - began_s


def gauge(page: str, name: str) -> float:
    match = re.search(rf"^{name}\{{[^}}]*\}} (\S+)$", page, re.MULTILINE)
    return float(match[1]) if match else 0.0


def peak_rss_mib(pid: int) -> float:
    text = Path(f"/proc/{pid}/status").read_text()
    match = re.search(r"VmHWM:\s+(\d+) kB", text)
    assert match is not None
    return int(match[1]) / 1024


@dataclass(slots=True)
class Measured:
    """The agent's costs."""

    polls_s: list[float] = field(default_factory=list)
    longest_scrape_s: float = 0.0
    rss_mib: float = 0.0
    first_cpu_s: float = 0.0
    """Of the start and the first poll: what a busy machine does not blur."""
    cpu_s: float = 0.0
    """Of a later poll and the scrapes beside it."""


def measure(count: int, *, lag: bool) -> Measured:
    out = Measured()
    with contextlib.ExitStack() as stack:
        bootstrap = stack.enter_context(brokers(count))
        asyncio.run(record_responses(bootstrap))
        pid, address = stack.enter_context(agent(bootstrap, lag=lag))
        process = psutil.Process(pid)
        end_s = time.monotonic() + WITHIN_S
        while len(out.polls_s) < POLLS and time.monotonic() < end_s:
            page, took_s = scrape(address)
            out.longest_scrape_s = max(out.longest_scrape_s, took_s)
            poll_s = gauge(page, "rebalance_agent_source_lag_seconds")
            is_whole = page.count("\nkafka_group_members{") == count and poll_s > 0.0
            if is_whole and poll_s not in out.polls_s:  # 0: groups are shown, the lag is not read
                out.first_cpu_s = out.first_cpu_s or sum(process.cpu_times()[:2])
                out.polls_s.append(poll_s)
            time.sleep(SCRAPE_S if out.polls_s else FIRST_S)
        out.cpu_s = (sum(process.cpu_times()[:2]) - out.first_cpu_s) / max(1, len(out.polls_s) - 1)
        out.rss_mib = peak_rss_mib(pid)
    return out


def batch() -> bytes:
    """Return the response about one batch of consumer groups, without its header."""
    names = [f"group-{number:05}" for number in range(GROUPS) if KINDS[number % 7] == "consumer"]
    cluster = simulate_brokers(len(KINDS) * BATCH)
    for group in cluster.groups.values():
        group.node_id = 1
    out = cluster.encoded(1, Api.CONSUMER_GROUP_DESCRIBE, 1, {"group_ids": names[:BATCH]})
    cluster.close()
    return out


def per_second(read: Callable[[], object]) -> float:
    count, began_s = 0, time.monotonic()
    while time.monotonic() < began_s + 1.0:
        read()
        count += 1
    return count / (time.monotonic() - began_s)


def ratio() -> float:
    """Return the speed of the agent's reader, which checks every count, relative to kio's."""
    body = batch()
    native = entity_reader(load_response_schema(Api.CONSUMER_GROUP_DESCRIBE, 1))
    framed = b"\0\0\0\1\0" + body
    theirs = per_second(lambda: native(body, 0))
    ours = per_second(lambda: decode(Api.CONSUMER_GROUP_DESCRIBE, 1, framed))
    return ours / theirs


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="200 groups")
    parser.add_argument("--lag", action="store_true", help="with every group's lag")
    arguments = parser.parse_args()
    count = 200 if arguments.short else GROUPS
    rss_max_mib = LAG_RSS_MAX_MIB if arguments.lag else RSS_MAX_MIB
    found = measure(count, lag=arguments.lag)
    if not found.polls_s:
        print(f"no poll of all {count} groups within {WITHIN_S:.0f} s")
        return 1
    first_s, *later_s = found.polls_s
    print(f"{count} groups x {MEMBERS} members at {BROKERS} brokers, {len(found.polls_s)} polls")
    print(f"first poll, all is new: {first_s:.2f} s (wanted: {POLL_MAX_S:.0f} s or less)")
    print(f"later polls, nothing is: up to {max(later_s, default=0.0):.2f} s")
    print(f"RSS: {found.rss_mib:.0f} MiB at its peak (wanted: {rss_max_mib:.0f} MiB or less)")
    print(f"CPU: {found.first_cpu_s:.2f} s for the start and the first poll")
    print(f"CPU: {found.cpu_s:.2f} s for a later poll and the scrapes beside it")
    print(f"longest scrape: {found.longest_scrape_s:.2f} s")
    print(f"ours / kio's reader: {ratio():.3f} of its speed")
    return 0 if max(found.polls_s) <= POLL_MAX_S and found.rss_mib <= rss_max_mib else 1


if __name__ == "__main__":
    sys.exit(main())
