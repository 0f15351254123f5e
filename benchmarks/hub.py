"""Load of a hub: 2,000 agents x 10 members, 5,000 transitions a second, over a kill -9.

An agent is only its pushes: sequence numbers, batches of two seconds, gzip, one connection each,
again after a fault. CPU is the hub process's own per acknowledged transition. At the end the hub's
spool must hold the ids that were sent, each once.
"""

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import psutil

from metrics.model.sample import Outcome, Sample, SampleKind, Scope, digest, encode, format_time

MEMBERS, INTERVAL_S = 10, 2.0
CPU_MAX_PERCENT = 100.0
SENDERS, WORKERS = 8, 64
READY_WITHIN_S = 30.0


class Agent:
    """One agent's push: its records and the hub's position."""

    def __init__(self, number: int, port: int, rate: float) -> None:
        self.number, self.rate = number, rate
        self.link = HTTPConnection("127.0.0.1", port, timeout=30.0)
        self.seq = self.safe = 0
        self.waiting: list[tuple[int, bytes]] = []
        self.sent: list[str] = []
        self.began_at = time.time()
        self.busy = threading.Lock()

    def record(self, now: float) -> None:
        """Record the members' changes since the last call: a rise, then a fall."""
        while self.seq < self.rate * (now - self.began_at):
            self.seq += 1
            pair, end = divmod(self.seq - 1, 2)
            member = pair % MEMBERS
            sample = Sample(
                id=digest(self.number, self.seq),
                kind=SampleKind.TRANSITION,
                ts=format_time(now + 1e-6 * self.seq),
                agent=f"host-{self.number}",
                seq=self.seq,
                cluster="bench",
                app=f"group-{self.number // 2}",
                group=f"group-{self.number // 2}",
                scope=Scope.CONSUMER,
                client_id=f"client-{self.number}-{member}",
                host=f"host-{self.number}",
                from_=2 if end else 0,
                to=0 if end else 2,
                status="None" if end else "NewMember",
                episode=f"{self.number:x}-{pair:x}",
                generation=pair,
                outcome=Outcome.SYNCED if end else None,
                source="logs",
            )
            self.sent.append(sample.id)
            self.waiting.append((self.seq, encode(sample)))

    def turn(self) -> None:
        """Record and push, unless the last push still waits for its response."""
        if not self.busy.acquire(blocking=False):
            return
        try:
            self.record(time.time())
            if self.waiting:
                self.push()
        finally:
            self.busy.release()

    def drain(self) -> None:
        """Push until the hub has it all."""
        while self.waiting:
            self.push()

    def push(self) -> None:
        """Send pending records; after a fault request the hub's position."""
        headers = {"X-Spool": f"spool{self.number}", "X-After": str(self.safe)}
        body = gzip.compress(b"".join(line for _, line in self.waiting), 1)
        try:
            self.link.request(
                "POST", "/api/v1/records", body, headers | {"Content-Encoding": "gzip"}
            )
            answer = self.link.getresponse()
            told = json.loads(answer.read())
            if answer.status != 200:
                self.link.request("GET", "/api/v1/records", headers=headers)
                told = json.loads(self.link.getresponse().read())
        except (OSError, HTTPException, ValueError):
            self.link.close()
            return
        self.safe = told["seq"]
        self.waiting = [(seq, line) for seq, line in self.waiting if seq > self.safe]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=2_000)
    parser.add_argument("--rate", type=float, default=5_000.0, help="transitions a second, of all")
    parser.add_argument("--seconds", type=float, default=60.0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        return measure(Path(name), args.agents, args.rate, args.seconds)


def measure(folder: Path, agents: int, rate: float, seconds: float) -> int:
    port = _free_port()
    config = folder / "hub.yaml"
    config.write_text(
        f"role: hub\nstate_dir: {folder}/state\nlog: {{level: error}}\n"
        f'web: {{listen: ["127.0.0.1:{port}"]}}\n'
    )
    hub = _start(config, port)
    made = [Agent(number, port, rate / agents) for number in range(agents)]
    stopping = threading.Event()
    senders = [
        threading.Thread(target=_send, args=(made[n::SENDERS], stopping)) for n in range(SENDERS)
    ]
    for sender in senders:
        sender.start()
    shares = []
    for part in range(2):
        time.sleep(seconds / 8)  # what waited is taken in first
        each_s, rss = _cost(hub, made, seconds * 3 / 8)
        shares.append(100 * each_s * rate)
        print(
            f"part {part + 1}: {1e6 * each_s:.0f} us of CPU a transition,"
            f" {shares[-1]:.0f} % of a core at {rate:,.0f}/s, RSS {rss:.0f} MiB",
            flush=True,
        )
        hub.kill()
        hub.wait()
        hub = _start(config, port)
    stopping.set()
    began = time.monotonic()
    for sender in senders:
        sender.join()
    lag = time.monotonic() - began
    hub.terminate()
    hub.wait()
    sent = sorted(each for agent in made for each in agent.sent)
    held = sorted(_stored_ids(folder / "state" / "spool"))
    print(f"sent {len(sent):,} in {seconds:.0f} s, held {len(held):,}, drained in {lag:.1f} s")
    faults = [
        text
        for text, wrong in (
            (
                f"CPU {max(shares):.0f} %, wanted {CPU_MAX_PERCENT:.0f}",
                max(shares) > CPU_MAX_PERCENT,
            ),
            (f"lost {len(set(sent) - set(held)):,}", set(sent) - set(held)),
            (f"doubled {len(held) - len(set(held)):,}", len(held) != len(set(held))),
        )
        if wrong
    ]
    print("MISSED: " + "; ".join(faults) if faults else "holds")
    return 1 if faults else 0


def _send(mine: list[Agent], stopping: threading.Event) -> None:
    """Push each agent's records in turn, all agents once an interval; then push the rest."""
    with ThreadPoolExecutor(WORKERS) as pool:
        while not stopping.is_set():
            began = time.monotonic()
            for agent in mine:
                pool.submit(agent.turn)
                time.sleep(0.5 * INTERVAL_S / len(mine))
            stopping.wait(max(0.0, INTERVAL_S - (time.monotonic() - began)))
        pool.shutdown(cancel_futures=True)  # what a loaded machine has not come to
    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(Agent.drain, mine))


def _cost(hub: subprocess.Popen[bytes], agents: list[Agent], seconds: float) -> tuple[float, float]:
    """Return CPU seconds a transition and MiB of RSS, which load does not change."""
    process = psutil.Process(hub.pid)
    used, taken = _cpu_of(process), sum(agent.safe for agent in agents)
    time.sleep(seconds)
    taken = sum(agent.safe for agent in agents) - taken
    used = _cpu_of(process) - used
    return used / max(1, taken), process.memory_info().rss / 2**20


def _cpu_of(process: psutil.Process) -> float:
    return float(sum(process.cpu_times()[:2]))


def _start(config: Path, port: int) -> subprocess.Popen[bytes]:
    script = Path(sys.executable).with_name("rebalance-agent")
    hub = subprocess.Popen([script, "run", "-c", config])
    end = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < end:
        link = HTTPConnection("127.0.0.1", port, timeout=5.0)
        try:
            link.request("GET", "/-/healthy")
            link.getresponse().read()
        except OSError:
            time.sleep(0.05)
        else:
            return hub
        finally:
            link.close()
    hub.kill()
    raise TimeoutError("the hub has not come up")


def _stored_ids(spool: Path) -> Iterator[str]:
    for path in [*spool.glob("*.jsonl"), *spool.glob(".*.part")]:
        for line in path.read_bytes().splitlines():
            record = json.loads(line)
            if record["kind"] == "transition":
                yield record["id"]


def _free_port() -> int:
    import socket  # noqa: PLC0415 - only here

    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


if __name__ == "__main__":
    sys.exit(main())
