"""The proxy with its decoder on, beside no proxy and HAProxy with splice, in one run.

Every candidate has the same broker, and one of its consumers heartbeats through it all the time.
A raw fetcher asks for 4 MiB answers; CPU is that of the candidate's process alone. Behind TLS,
HAProxy stands in for a broker with TLS, uncounted. Rounds are interleaved, in changing order, so
that other load meets all alike. The Java consumer is Kafka's own consumer-perf-test.
"""

import argparse
import contextlib
import itertools
import json
import os
import shutil
import socket
import ssl
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import trustme
from confluent_kafka import Consumer, Producer

from agent.lab.artifacts import BROKER_VERSION, Artifact, default_cache, fetch
from agent.lab.broker import HOST, Cluster, free_port
from agent.lab.jvm import find_java

TOPIC, RECORD_BYTES, MIB = "bulk", 100_000, 1 << 20
FETCH_BYTES = 4 * MIB
TOOLS = (
    Artifact("org.apache.kafka", "kafka-tools", BROKER_VERSION),
    Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.1"),
    Artifact("org.apache.logging.log4j", "log4j-core", "2.25.1"),
)
CONNECTIONS, READY_WITHIN_S = 200, 60.0
WANTED = {
    "fetch: CPU per GB": ("<=", 1.15),
    "fetch: MB/s": (">=", 0.95),
    "java: CPU per GB": ("<=", 1.15),
    "java: MB/s": (">=", 0.95),
    "tls: CPU per GB": ("<=", 1.3),
}
"""Ours to HAProxy's."""
HEARTBEAT_MAX_MS, RSS_MAX_MIB = 0.1, 40.0


@dataclass(slots=True, kw_only=True)
class Candidate:
    """A way to the broker. ``bootstrap`` is for real clients, ``raw`` for our own bytes."""

    name: str
    bootstrap: str
    raw: int
    tls: int = 0
    process: psutil.Process | None = None
    figures: dict[str, list[float]] = field(default_factory=dict)

    def cpu_s(self) -> float:
        times = self.process.cpu_times() if self.process else None
        return times.user + times.system if times else 0.0

    def note(self, name: str, value: float) -> None:
        self.figures.setdefault(name, []).append(value)


class Play(NamedTuple):
    """What all rounds have alike."""

    records: int
    classpath: str
    tls: ssl.SSLContext


def request(api_key: int, version: int, body: bytes) -> bytes:
    head = struct.pack(">hhih", api_key, version, 1, 5) + b"bench"
    return struct.pack(">i", len(head + body)) + head + body


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def fetch_request(offset: int) -> bytes:
    head = struct.pack(">iiiibi", -1, 0, 1, FETCH_BYTES, 0, 1) + text(TOPIC)
    return request(1, 4, head + struct.pack(">iiqi", 1, 0, offset, FETCH_BYTES))


HEARTBEAT = request(12, 0, text("bench") + struct.pack(">i", 1) + text("nobody"))
API_VERSIONS = request(18, 0, b"")


def receive(sock: socket.socket, buffer: memoryview) -> int:
    """Read one answer; return its size."""
    read(sock, buffer, 4)
    size: int = struct.unpack(">i", buffer[:4])[0]
    read(sock, buffer, size)
    return size + 4


def read(sock: socket.socket, buffer: memoryview, size: int) -> None:
    """Read so many bytes; the buffer holds the last of them."""
    while size:
        step = sock.recv_into(buffer[: min(size, len(buffer))])
        if not step:
            raise ConnectionError("the other side has ended")
        size -= step


def dial(port: int, tls: ssl.SSLContext | None = None) -> socket.socket:
    sock = socket.create_connection((HOST, port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return tls.wrap_socket(sock, server_hostname="localhost") if tls else sock


def measure(candidate: Candidate, kind: str, work: Callable[[], int]) -> None:
    """Note the rate of some work, and the candidate's CPU for it; ``work`` returns bytes."""
    cpu_s, start_s = candidate.cpu_s(), time.perf_counter()
    size = work()
    candidate.note(f"{kind}: MB/s", size / 1e6 / (time.perf_counter() - start_s))
    candidate.note(f"{kind}: CPU per GB", (candidate.cpu_s() - cpu_s) / (size / 1e9))


def fetch_raw(port: int, size: int, records: int, tls: ssl.SSLContext | None = None) -> int:
    step = FETCH_BYTES // RECORD_BYTES
    offsets = itertools.cycle(range(0, records - 2 * step, step))
    buffer, total = memoryview(bytearray(MIB)), 0
    with dial(port, tls) as sock:
        while total < size:
            sock.sendall(fetch_request(next(offsets)))
            total += receive(sock, buffer)
    return total


def heartbeat_ms(port: int, count: int) -> float:
    """Return the median time of a heartbeat."""
    buffer, times = memoryview(bytearray(MIB)), list[float]()
    with dial(port) as sock:
        for _ in range(count):
            start_s = time.perf_counter()
            sock.sendall(HEARTBEAT)
            receive(sock, buffer)
            times.append(time.perf_counter() - start_s)
    return statistics.median(times) * 1000


def produce(bootstrap: str, acks: str, size: int) -> int:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": acks, "linger.ms": 5})
    value = os.urandom(RECORD_BYTES)
    for _ in range(size // RECORD_BYTES):
        while True:
            try:
                producer.produce(f"produced-{acks}", value)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(60):
        raise RuntimeError("records were not delivered")
    return size


def consume_java(classpath: str, bootstrap: str, records: int, group: str) -> int:
    command: list[str | Path] = [
        find_java(),
        "-cp",
        classpath,
        "org.apache.kafka.tools.ConsumerPerformance",
    ]
    # fmt: off
    options: list[str | Path] = [
        "--topic", TOPIC, "--num-records", str(records), "--bootstrap-server", bootstrap,
        "--group", group, "--timeout", "60000", "--fetch-size", str(FETCH_BYTES),
    ]
    # fmt: on
    done = subprocess.run([*command, *options], check=True, capture_output=True, text=True)
    return int(float(done.stdout.splitlines()[-1].split(",")[2]) * MIB)


def rss_mib(candidate: Candidate) -> float:
    """Return the resident size with many connections that have all spoken."""
    buffer = memoryview(bytearray(MIB))
    with contextlib.ExitStack() as stack:
        for _ in range(CONNECTIONS):
            sock = stack.enter_context(dial(candidate.raw))
            sock.sendall(API_VERSIONS)
            receive(sock, buffer)
        return candidate.process.memory_info().rss / MIB if candidate.process else 0.0


HAPROXY = """\
global
  nbthread 1
  maxconn 2000
defaults
  mode tcp
  option splice-request
  option splice-response
  timeout connect 5s
  timeout client 1h
  timeout server 1h
"""


@contextlib.contextmanager
def running(
    command: Sequence[str | Path], ports: Sequence[int], log: Path, **environ: str
) -> Iterator[int]:
    """Run a program until it is left; return its process once it listens."""
    env = os.environ | environ
    with (
        log.open("wb") as out,
        subprocess.Popen(command, stdout=out, stderr=out, env=env) as process,
    ):
        try:
            deadline_s = time.monotonic() + READY_WITHIN_S
            for port in ports:
                while True:
                    with contextlib.suppress(OSError):
                        socket.create_connection((HOST, port)).close()
                        break
                    if process.poll() is not None or time.monotonic() > deadline_s:
                        raise RuntimeError(f"{command[0]} does not run: {log.read_text()}")
                    time.sleep(0.05)
            yield process.pid
        finally:
            process.terminate()


def haproxy(
    folder: Path, name: str, *routes: tuple[int, str, int, str]
) -> contextlib.AbstractContextManager[int]:
    """Run HAProxy: from port (and its options) to port (and its options)."""
    path = shutil.which("haproxy") or "/usr/sbin/haproxy"
    config = folder / f"{name}.cfg"
    lines = [
        f"listen p{port}\n  bind {HOST}:{port} {options}\n  server s {HOST}:{target} {more}\n"
        for port, options, target, more in routes
    ]
    config.write_text(HAPROXY + "".join(lines))
    return running(
        [path, "-db", "-f", config], [route[0] for route in routes], folder / f"{name}.log"
    )


def ours(folder: Path, sources: list[dict[str, Any]]) -> contextlib.AbstractContextManager[int]:
    config = folder / "agent.yaml"
    settings = {
        "state_dir": str(folder / "state"),
        "sources": sources,
        "web": {"listen": [f"{HOST}:0"]},
    }
    config.write_text(json.dumps(settings))
    ports = [int(source["listen"].rpartition(":")[2]) for source in sources]
    script = Path(sys.executable).with_name("rebalance-agent")
    # kio's types import hypothesis wherever it is installed, which no user has: 8 MiB
    hidden = folder / "hidden"
    hidden.mkdir()
    (hidden / "hypothesis.py").write_text("raise ImportError")
    command: list[str | Path] = [script, "run", "-c", config]
    return running(command, ports, folder / "agent.log", PYTHONPATH=str(hidden))


def free_ports(count: int) -> list[int]:
    """Return as many different ports as asked for."""
    ports: set[int] = set()
    while len(ports) < count:
        ports.add(free_port())
    return list(ports)


@contextlib.contextmanager
def candidates(folder: Path, cache: Path) -> Iterator[tuple[list[Candidate], ssl.SSLContext]]:
    """Run the broker, and every way to it."""
    own, own_tls, peer, peer_tls, broker_tls = free_ports(5)
    authority, ca, pem = trustme.CA(), folder / "ca.pem", folder / "localhost.pem"
    authority.cert_pem.write_to_path(ca)
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(pem)
    to_tls = f"ssl verify required ca-file {ca} verifyhost localhost"
    with contextlib.ExitStack() as stack:
        enter = stack.enter_context
        broker = enter(Cluster(folder / "lab", cache, proxy_port=peer)).brokers[0].node
        enter(haproxy(folder, "broker-tls", (broker_tls, f"ssl crt {pem}", broker.port, "")))
        plain = {"type": "proxy", "listen": f"{HOST}:{own}", "upstream": [f"{HOST}:{broker.port}"]}
        tls = {
            "type": "proxy",
            "listen": f"{HOST}:{own_tls}",
            "upstream": [f"localhost:{broker_tls}"],
            "tls": {"listen": {"cert_file": str(pem)}, "upstream": {"ca_file": str(ca)}},
        }
        agent = psutil.Process(enter(ours(folder, [plain, tls])))
        routes = (
            (peer, "", broker.proxied_port, ""),
            (peer_tls, f"ssl crt {pem}", broker_tls, to_tls),
        )
        proxy = psutil.Process(enter(haproxy(folder, "haproxy", *routes)))
        direct = f"{HOST}:{broker.port}"
        context = ssl.create_default_context(cafile=str(ca))
        yield (
            [
                Candidate(name="direct", bootstrap=direct, raw=broker.port, tls=broker_tls),
                Candidate(
                    name="ours", bootstrap=f"{HOST}:{own}", raw=own, tls=own_tls, process=agent
                ),
                Candidate(
                    name="haproxy",
                    bootstrap=f"{HOST}:{peer}",
                    raw=peer,
                    tls=peer_tls,
                    process=proxy,
                ),
            ],
            context,
        )


def play(args: argparse.Namespace, folder: Path) -> list[Candidate]:
    cache = default_cache()
    classpath = ":".join(map(str, fetch(TOOLS, cache)))
    records = args.topic_mb * 1_000_000 // RECORD_BYTES
    with candidates(folder, cache) as (all_of_them, tls), contextlib.ExitStack() as stack:
        fill(all_of_them[0].bootstrap, records)
        for each in all_of_them:
            member = Consumer(
                {
                    "bootstrap.servers": each.bootstrap,
                    "group.id": f"g-{each.name}",
                    "heartbeat.interval.ms": 200,
                }
            )
            stack.callback(member.close)
            member.subscribe(["quiet"])
            member.poll(5.0)
        for number in range(args.rounds):
            turn = number % len(all_of_them)
            for each in [*all_of_them[turn:], *all_of_them[:turn]]:
                play_round(each, args, Play(records, classpath, tls), number)
            print(f"round {number + 1} of {args.rounds}", file=sys.stderr, flush=True)
        for each in all_of_them[1:]:
            each.note("RSS MiB", rss_mib(each))
    return all_of_them


def fill(bootstrap: str, records: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    value = os.urandom(RECORD_BYTES)
    for _ in range(records):
        producer.produce(TOPIC, value, partition=0)
        producer.poll(0)
        if len(producer) > 500:
            producer.flush()
    producer.flush()


def play_round(each: Candidate, args: argparse.Namespace, play: Play, number: int) -> None:
    size, produced = args.fetch_mb * 1_000_000, args.produce_mb * 1_000_000
    measure(each, "fetch", lambda: fetch_raw(each.raw, size, play.records))
    measure(each, "tls", lambda: fetch_raw(each.tls, size, play.records, play.tls))
    each.note("heartbeat ms", heartbeat_ms(each.raw, args.heartbeats))
    group = f"java-{each.name}-{number}"
    measure(
        each,
        "java",
        lambda: consume_java(play.classpath, each.bootstrap, play.records, group),
    )
    for acks in ("0", "1", "all"):
        measure(each, f"produce acks={acks}", partial(produce, each.bootstrap, acks, produced))


def spread(values: Sequence[float]) -> str:
    return f"{min(values):.2f} / {statistics.median(values):.2f} / {max(values):.2f}"


def tell(direct: Candidate, own: Candidate, peer: Candidate) -> bool:
    """Print every figure and ratio; return whether all that is wanted holds."""
    heads = ("direct", "ours", "haproxy", "ours/haproxy")
    print(f"{'min / median / max':24}" + "".join(f"{head:>25}" for head in heads))
    holds = []
    for name, values in own.figures.items():
        ratios = [a / b for a, b in zip(values, peer.figures[name], strict=True) if b]
        columns = [spread(each.figures.get(name, [0.0])) for each in (direct, own, peer)]
        columns.append(spread(ratios or [0.0]))
        print(f"{name:24}" + "".join(f"{column:>25}" for column in columns))
        if name in WANTED:
            holds.append(judge(f"{name}, ours/haproxy", statistics.median(ratios), *WANTED[name]))
    beats = zip(own.figures["heartbeat ms"], direct.figures["heartbeat ms"], strict=True)
    added_ms = statistics.median(a - b for a, b in beats)
    holds.append(judge("heartbeat, added ms", added_ms, "<=", HEARTBEAT_MAX_MS))
    rss = own.figures["RSS MiB"][0]
    holds.append(judge(f"RSS MiB with {CONNECTIONS} connections", rss, "<=", RSS_MAX_MIB))
    return all(holds)


def judge(name: str, value: float, sign: str, limit: float) -> bool:
    holds = value <= limit if sign == "<=" else value >= limit
    print(f"    {name}: {value:.2f}, wanted {sign} {limit}: {'holds' if holds else 'MISSED'}")
    return holds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--fetch-mb", type=int, default=2_000)
    parser.add_argument("--topic-mb", type=int, default=500)
    parser.add_argument("--produce-mb", type=int, default=200)
    parser.add_argument("--heartbeats", type=int, default=3_000)
    parser.add_argument("--short", action="store_true", help="two small rounds")
    args = parser.parse_args()
    if args.short:
        args.rounds, args.fetch_mb, args.topic_mb, args.produce_mb = 2, 500, 200, 50
    with tempfile.TemporaryDirectory(prefix="proxy-bench-") as folder:
        return 0 if tell(*play(args, Path(folder))) else 1


if __name__ == "__main__":
    sys.exit(main())
