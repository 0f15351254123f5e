"""The proxy with its decoder on, beside no proxy and HAProxy with splice, in one run.

Every way leads to the same broker, and a consumer heartbeats through each all the time. A raw
fetcher requests responses of 4 MiB. CPU is that of the process between alone. Behind TLS, HAProxy
stands in for a broker with TLS and is not counted. Rounds are interleaved in changing order, so
that other load affects all alike. The Java consumer is Kafka's own consumer-perf-test. The cost of
its start (its own group, joined and left) is also shown alone. A given binary of
grepplabs/kafka-proxy is measured as well, with buffers of 256 KiB.
"""

import argparse
import itertools
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
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

import psutil
from confluent_kafka import Consumer, Producer
from proxy_ways import Way, ways

from agent.lab.artifacts import BROKER_VERSION, Artifact, default_cache, fetch
from agent.lab.jvm import find_java
from agent.processes.ports import HOST

TOPIC, RECORD_BYTES, MIB = "bulk", 100_000, 1 << 20
FETCH_BYTES = 4 * MIB
TOOLS = (
    Artifact("org.apache.kafka", "kafka-tools", BROKER_VERSION),
    Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.1"),
    Artifact("org.apache.logging.log4j", "log4j-core", "2.25.1"),
)
CONNECTIONS, BEATS_AT_ONCE = 200, 100
WANTED = {
    ("fetch: CPU per GB", "haproxy"): ("<=", 1.15),
    ("fetch: MB/s", "haproxy"): (">=", 0.95),
    ("java: CPU per GB", "haproxy"): ("<=", 1.15),
    ("java: MB/s", "haproxy"): (">=", 0.95),
    ("tls: CPU per GB", "haproxy"): ("<=", 1.3),
    ("fetch: CPU per GB", "kafka-proxy"): ("<=", 0.65),
    ("java: CPU per GB", "kafka-proxy"): ("<=", 0.65),
}
"""Ours to theirs."""
HEARTBEAT_MAX_MS, RSS_MAX_MIB = 0.1, 40.0


class Play(NamedTuple):
    """The common settings of all rounds."""

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
    """Read one response; return its size."""
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


def measure(way: Way, kind: str, work: Callable[[], int]) -> None:
    """Note the rate of some work, and the CPU that the way took for it; ``work`` returns bytes."""
    cpu_s, start_s = way.cpu_s(), time.perf_counter()
    size = work()
    way.note(f"{kind}: MB/s", size / 1e6 / (time.perf_counter() - start_s))
    way.note(f"{kind}: CPU per GB", (way.cpu_s() - cpu_s) / (size / 1e9))


def fetch_raw(port: int, size: int, records: int, tls: ssl.SSLContext | None = None) -> int:
    step = FETCH_BYTES // RECORD_BYTES
    offsets = itertools.cycle(range(0, records - 2 * step, step))
    buffer, total = memoryview(bytearray(MIB)), 0
    with dial(port, tls) as sock:
        while total < size:
            sock.sendall(fetch_request(next(offsets)))
            total += receive(sock, buffer)
    return total


def beat(all_of_them: Sequence[Way], count: int) -> None:
    """Note each way's median time of a heartbeat; they take turns, for times of so short drift."""
    buffer = memoryview(bytearray(MIB))
    times: dict[str, list[float]] = {way.name: [] for way in all_of_them}
    with ExitStack() as stack:
        socks = [(way.name, stack.enter_context(dial(way.port))) for way in all_of_them]
        for _ in range(count // BEATS_AT_ONCE):
            for name, sock in socks:
                for _ in range(BEATS_AT_ONCE):
                    start_s = time.perf_counter()
                    sock.sendall(HEARTBEAT)
                    receive(sock, buffer)
                    times[name].append(time.perf_counter() - start_s)
    for way in all_of_them:
        way.note("heartbeat ms", statistics.median(times[way.name]) * 1000)


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


def rss_mib(way: Way) -> float:
    """Return the resident size with many connections that have all spoken."""
    buffer = memoryview(bytearray(MIB))
    with ExitStack() as stack:
        for _ in range(CONNECTIONS):
            sock = stack.enter_context(dial(way.port))
            sock.sendall(API_VERSIONS)
            receive(sock, buffer)
        return psutil.Process(way.process).memory_info().rss / MIB


def play(args: argparse.Namespace, folder: Path) -> list[Way]:
    cache = default_cache()
    classpath = ":".join(map(str, fetch(TOOLS, cache)))
    records = args.topic_mb * 1_000_000 // RECORD_BYTES
    with ways(folder, cache, args.kafka_proxy) as (all_of_them, tls), ExitStack() as stack:
        fill(all_of_them[0].bootstrap, records)
        for way in all_of_them:
            member = Consumer(
                {
                    "bootstrap.servers": way.bootstrap,
                    "group.id": f"g-{way.name}",
                    "heartbeat.interval.ms": 200,
                }
            )
            stack.callback(member.close)
            member.subscribe(["quiet"])
            member.poll(5.0)
        for number in range(args.rounds):
            turn = number % len(all_of_them)
            for way in [*all_of_them[turn:], *all_of_them[:turn]]:
                play_round(way, args, Play(records, classpath, tls), number)
            beat(all_of_them, args.heartbeats)
            print(f"round {number + 1} of {args.rounds}", file=sys.stderr, flush=True)
        for way in all_of_them[1:]:
            way.note("RSS MiB", rss_mib(way))
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


def play_round(way: Way, args: argparse.Namespace, play: Play, number: int) -> None:
    size, produced = args.fetch_mb * 1_000_000, args.produce_mb * 1_000_000
    group = f"java-{way.name}-{number}"
    java = partial(consume_java, play.classpath, way.bootstrap, play.records, group)
    measure(way, "fetch", lambda: fetch_raw(way.port, size, play.records))
    if way.tls:
        measure(way, "tls", lambda: fetch_raw(way.tls, size, play.records, play.tls))
    measure(way, "java", java)
    if not args.short:
        cpu_s = way.cpu_s()
        consume_java(play.classpath, way.bootstrap, 1, f"{group}-start")
        way.note("java: CPU ms of a start", (way.cpu_s() - cpu_s) * 1000)
    for acks in ("0", "1", "all"):
        measure(way, f"produce acks={acks}", partial(produce, way.bootstrap, acks, produced))


def spread(values: Sequence[float]) -> str:
    if not values:
        return "-"
    return f"{min(values):.2f} / {statistics.median(values):.2f} / {max(values):.2f}"


def tell(direct: Way, own: Way, *peers: Way) -> bool:
    """Print every figure and ratio; return whether all that is wanted holds."""
    heads = [direct.name, own.name]
    for peer in peers:
        heads += [peer.name, f"ours/{peer.name}"]
    print(f"{'min / median / max':24}" + "".join(f"{head:>30}" for head in heads))
    holds = []
    for name, values in own.figures.items():
        columns, judged = [direct.figures.get(name, []), values], []
        for peer in peers:
            theirs = peer.figures.get(name, [])
            ratios = [a / b for a, b in zip(values, theirs, strict=False) if b]
            columns += [theirs, ratios]
            if ratios and (name, peer.name) in WANTED:
                judged.append((f"{name}, ours/{peer.name}", statistics.median(ratios), peer.name))
        print(f"{name:24}" + "".join(f"{spread(column):>30}" for column in columns))
        holds += [judge(what, value, *WANTED[name, peer]) for what, value, peer in judged]
    beats = zip(own.figures["heartbeat ms"], direct.figures["heartbeat ms"], strict=True)
    added_ms = statistics.median(a - b for a, b in beats)
    holds.append(judge("heartbeat, added ms", added_ms, "<=", HEARTBEAT_MAX_MS))
    rss = own.figures["RSS MiB"][0]
    holds.append(judge(f"RSS MiB with {CONNECTIONS} connections", rss, "<=", RSS_MAX_MIB))
    return all(holds)


def judge(name: str, value: float, sign: str, limit: float) -> bool:
    holds = value <= limit if sign == "<=" else value >= limit
    print(f"    {name}: {value:.3f}, wanted {sign} {limit}: {'holds' if holds else 'MISSED'}")
    return holds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--fetch-mb", type=int, default=2_000)
    parser.add_argument("--topic-mb", type=int, default=2_000)
    parser.add_argument("--produce-mb", type=int, default=200)
    parser.add_argument("--heartbeats", type=int, default=3_000)
    parser.add_argument(
        "--kafka-proxy", type=Path, default=shutil.which("kafka-proxy"), help="grepplabs' binary"
    )
    parser.add_argument("--short", action="store_true", help="one small round")
    args = parser.parse_args()
    if args.short:
        args.rounds, args.fetch_mb, args.topic_mb, args.produce_mb = 1, 200, 100, 20
    with tempfile.TemporaryDirectory(prefix="proxy-bench-") as folder:
        return 0 if tell(*play(args, Path(folder))) else 1


if __name__ == "__main__":
    sys.exit(main())
