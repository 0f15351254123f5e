"""A scrape of 10,000 series, every value changed since the last one, beside Go's client_golang.

The agent's part is the whole way: the tracker's snapshot, the live max, the page, HTTP. Between two
scrapes every member has rebalances for each cause and is in another one at the scrape. So all
values change except the members' info, which is 1. The peer has the same series by name, labels and
type, and sets every value. Scrapes are interleaved, so that other load affects both alike. One
connection requests the pages, without compression.
"""

import argparse
import asyncio
import contextlib
import http.client
import itertools
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agent.config.web import WebConfig
from agent.web.server import ServerDependencies, listen, make_app
from agent.web.server import serve as serve_app
from metrics.exporters.exposition import AgentStats
from metrics.model.signals import Member, Signal, SignalKind, SourceKind
from metrics.model.status import RebalanceStatus
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker

SOURCE = Path(__file__).with_name("scrape_peer")
SERIES = 10_000
SERIES_OF_A_MEMBER = 29
"""Status, peak, info, 4 rebalances, 10 transitions, 11 times, and its share of its group's."""
GROUP_SIZE = 20
PAUSE_S = 0.2
"""Pause before a scrape: a busy scheduler delays a process that has just worked hard."""
OURS, PEER = "ours", "client_golang"
WANTED = 1.0


class World:
    """Members of a real tracker, all of them in one rebalance or another."""

    def __init__(self, series: int) -> None:
        self.now = 1_000_000.0
        self.tracker = Tracker(StatusConfig(), lambda group: f"app-of-{group}")
        self._members = [
            Member(
                cluster="prod-eu-1",
                group=f"payments-{number // GROUP_SIZE:03}",
                client_id=f"consumer-payments-{number // GROUP_SIZE:03}-{number}",
                origin=f"/var/log/pods/payments-{number}/app/0.log",
                host=f"payments-{number}.payments.svc",
            )
            for number in range(-(-series // SERIES_OF_A_MEMBER))
        ]
        self._codes = [RebalanceStatus(code) for code in range(1, 11)]
        self._generation = itertools.count(1)
        self._last = itertools.cycle(self._codes[:2])

    def change(self) -> None:
        """Let everybody end its rebalance, go through four more, and begin the next."""
        self._sync()
        for causes in (self._codes[:1], self._codes[:2], self._codes[:-1], self._codes):
            for code in causes:
                self._raise(code)
            self._sync()
        self._raise(next(self._last))
        self.now += 300.0  # longer than the peak window

    def _raise(self, code: RebalanceStatus) -> None:
        self._tell(SignalKind.RAISE, status=code)

    def _sync(self) -> None:
        self._tell(SignalKind.SYNC, generation=next(self._generation))

    def _tell(self, kind: SignalKind, **what: Any) -> None:
        self.now += 0.004
        for who in self._members:
            told = Signal(kind=kind, at=self.now, member=who, source=SourceKind.LOGS, **what)
            self.tracker.apply(told)


async def serve(series: int) -> None:
    """Serve our page; each line on stdin changes every value."""
    world = World(series)
    stats = AgentStats(version="0", python_version="0")

    async def reload() -> None:
        """Nothing to reload."""

    answers = ServerDependencies(
        snapshot=lambda: (world.tracker.snapshot(world.now), stats),
        sources_not_ready=tuple,
        reload=reload,
    )
    sockets = listen(["127.0.0.1:0"])
    serving = asyncio.create_task(serve_app(make_app(WebConfig(), 10 * series, answers), sockets))
    print("{}:{}".format(*sockets[0].getsockname()), flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        world.change()
        print("ok", flush=True)
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


class Server:
    """A process with a page, and our connection to it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._in, self._out = process.stdin, process.stdout
        self._tasks = Path(f"/proc/{process.pid}/task")
        self.address = self._out.readline().strip()
        self._connection = http.client.HTTPConnection(self.address, timeout=60)

    def tell(self, line: str = "") -> None:
        self._in.write(line + "\n")
        self._in.flush()
        assert self._out.readline() == "ok\n"

    def scrape(self) -> tuple[float, float, str]:
        """Return the milliseconds that it took, those of CPU, and the page."""
        cpu_ns, began_at = self._cpu_ns(), time.perf_counter()
        self._connection.request("GET", "/metrics", headers={"Accept-Encoding": "identity"})
        body = self._connection.getresponse().read()
        took_s = time.perf_counter() - began_at
        return 1e3 * took_s, 1e-6 * (self._cpu_ns() - cpu_ns), body.decode()

    def _cpu_ns(self) -> int:
        return sum(int(each.read_text().split()[0]) for each in self._tasks.glob("*/schedstat"))


@contextlib.contextmanager
def run_server(*command: str | Path) -> Iterator[Server]:
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Server(process)
        finally:
            process.kill()


def built(folder: Path) -> Path:
    shutil.copytree(SOURCE, folder / "source")
    subprocess.run(["go", "build", "-o", folder / "peer", "."], cwd=folder / "source", check=True)
    return folder / "peer"


def samples(page: str) -> set[str]:
    return {line for line in page.splitlines() if not line.startswith("#")}


def measure(series: int, rounds: int, peer: Path) -> float:
    """Print the scrapes' cost; return the median of the rounds' ratios."""
    taken: dict[str, list[float]] = {OURS: [], PEER: []}
    cpu: dict[str, list[float]] = {OURS: [], PEER: []}
    pages: dict[str, str] = {}
    with (
        run_server(sys.executable, __file__, "--serve", str(series)) as ours,
        run_server(peer) as other,
    ):
        for _ in range(3):
            ours.tell()
        before = ours.scrape()[-1]
        other.tell(f"http://{ours.address}/metrics")
        pair = [(OURS, ours), (PEER, other)]
        for number in range(rounds):
            before = pages.get(OURS, before)
            for name, server in pair if number % 2 else reversed(pair):
                server.tell()
                time.sleep(PAUSE_S)
                took_ms, cpu_ms, pages[name] = server.scrape()
                taken[name].append(took_ms)
                cpu[name].append(cpu_ms)
    now = samples(pages[OURS])
    changed, size = len(now - samples(before)), len(pages[OURS]) >> 10
    print(f"{len(now)} series, {changed} of them changed, {size} KiB")
    print(f"the peer's page: {len(samples(pages[PEER]))} series, {len(pages[PEER]) >> 10} KiB")
    for name, values in taken.items():
        low, middle, high = min(values), statistics.median(values), max(values)
        of_cpu = statistics.median(cpu[name])
        print(f"{name:14} {middle:6.1f} ms ({low:.1f}-{high:.1f}), CPU {of_cpu:.1f} ms")
    print(f"CPU, ours / {PEER}: {ratio_of(cpu):.2f}")
    print(f"time at best, ours / {PEER}: {min(taken[OURS]) / min(taken[PEER]):.2f}")
    print(f"time, ours / {PEER}: {ratio_of(taken):.2f} (wanted: at most {WANTED})")
    return ratio_of(taken)


def ratio_of(values: dict[str, list[float]]) -> float:
    pairs = zip(values[OURS], values[PEER], strict=True)
    return statistics.median(mine / others for mine, others in pairs)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="4 rounds instead of 100")
    parser.add_argument("--peer", type=Path, help="the peer's program; default: built with go")
    parser.add_argument("--serve", type=int, metavar="SERIES", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve(options.serve))
        return 0
    if options.peer is None and shutil.which("go") is None:
        sys.exit("the peer is built with go, which is not there (https://go.dev/dl)")
    with tempfile.TemporaryDirectory() as name:
        peer = options.peer or built(Path(name))
        ratio = measure(SERIES, 4 if options.short else 100, peer)
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    return 0 if ratio <= WANTED else 1


if __name__ == "__main__":
    sys.exit(main())
