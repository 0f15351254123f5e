"""Cost of a capture beside bulk traffic, and its loss of a coordinator's packets, which must be 0.

Clients send heartbeats to a broker's port, and some reconnect all the while. Beside them one client
fetches from the same port over loopback: nothing, then 250 MB/s, then at full speed. Every
heartbeat must come out as a signal. The capture has its own process (source, decoder and tracker,
no exporters) with Linux' default receive buffer and, for root, with CAP_NET_RAW as only capability.
CPU is that process's own.
"""

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import shutil
import socket
import socketserver
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import psutil

from agent.sources.capture import packet_socket
from agent.sources.capture.config import CaptureConfig
from agent.sources.capture.source import CaptureSource
from metrics.model.signals import Signal
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import Synchronized

HOST = "127.0.0.1"
CPU_MAX_PERCENT = 1.0
CLIENTS, RECONNECT_EVERY = 20, 4
HEARTBEAT_S = 3.0
"""The default of heartbeat.interval.ms."""
ANSWER_BYTES = 4 << 20
RECEIVE_BUFFER_BYTES = 212_992
"""The default of net.core.rmem_max."""
FETCH, HEARTBEAT = 1, 12
RATES_MB_S = (0.0, 250.0, float("inf"))
DRAIN_WITHIN_S = 5.0
Rate: TypeAlias = "Synchronized[float]"


@dataclass(frozen=True, slots=True)
class Seen:
    """The capture's own counts."""

    signals: int
    errors: dict[str, int]


@dataclass(frozen=True, slots=True)
class Result:
    """One phase."""

    wanted_mb_s: float
    mb_s: float
    cpu_percent: float
    sent: int
    seen: int
    errors: dict[str, int]

    @property
    def holds(self) -> bool:
        return self.cpu_percent <= CPU_MAX_PERCENT and self.seen == self.sent and not self.errors

    def __str__(self) -> str:
        wanted = "flat out" if self.wanted_mb_s == float("inf") else f"{self.wanted_mb_s:.0f} MB/s"
        return (
            f"{wanted:>9}: {self.mb_s:6.0f} MB/s beside it, {self.cpu_percent:5.2f} % of a core, "
            f"{self.seen} of {self.sent} heartbeats seen, errors: {self.errors or 'none'}"
        )


def heartbeat(client_id: str, correlation_id: int) -> bytes:
    """Return a Heartbeat request, version 3."""
    head = struct.pack(">hhi", HEARTBEAT, 3, correlation_id) + string(client_id)
    body = string("group") + struct.pack(">i", 1) + string(f"{client_id}-member") + b"\xff\xff"
    return struct.pack(">i", len(head + body)) + head + body


def fetch(correlation_id: int) -> bytes:
    head = struct.pack(">hhi", FETCH, 12, correlation_id) + string("bulk") + bytes(80)
    return struct.pack(">i", len(head)) + head


def string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


class Broker(socketserver.BaseRequestHandler):
    """Responds to heartbeats, and to fetches with the requested number of bytes."""

    def handle(self) -> None:
        bulk = bytes(ANSWER_BYTES - 8)
        while head := self.request.recv(12, socket.MSG_WAITALL):
            size, key, _, correlation_id = struct.unpack(">ihhi", head)
            self.request.recv(size - 8, socket.MSG_WAITALL)
            if key == FETCH:
                self.request.sendall(struct.pack(">ii", len(bulk) + 4, correlation_id) + bulk)
            else:
                self.request.sendall(struct.pack(">iiih", 10, correlation_id, 0, 0))


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 64


def serve(listener: socket.socket) -> None:
    server = Server((HOST, 0), Broker, bind_and_activate=False)
    server.socket.close()
    server.socket = listener
    server.serve_forever()


def consume(port: int, rate_mb_s: Rate, moved: Rate) -> None:
    """Fetch at the current target rate, on a new connection every 2 GB."""
    buffer = bytearray(1 << 20)
    while True:
        with socket.create_connection((HOST, port)) as sock:
            for number in range(512):
                while not rate_mb_s.value:
                    time.sleep(0.02)
                began_s = time.monotonic()
                sock.sendall(fetch(number))
                left = ANSWER_BYTES
                while left:
                    left -= sock.recv_into(buffer, min(left, len(buffer)))
                moved.value += ANSWER_BYTES / 1e6
                due_s = began_s + ANSWER_BYTES / 1e6 / rate_mb_s.value if rate_mb_s.value else 0.0
                time.sleep(max(0.0, due_s - time.monotonic()))


class Client(threading.Thread):
    """Sends heartbeats and counts those that were answered."""

    def __init__(self, number: int, port: int) -> None:
        super().__init__(daemon=True)
        self.answered = 0
        self.stopping = threading.Event()
        self._name, self._port, self._number = f"client-{number}", port, number

    def run(self) -> None:
        self.stopping.wait(HEARTBEAT_S * self._number / CLIENTS)
        while not self.stopping.is_set():
            with socket.create_connection((HOST, self._port)) as sock:
                beats = RECONNECT_EVERY if self._number % 4 == 0 else sys.maxsize
                while beats and not self.stopping.is_set():
                    sock.sendall(heartbeat(self._name, self.answered))
                    sock.recv(14, socket.MSG_WAITALL)
                    self.answered, beats = self.answered + 1, beats - 1
                    self.stopping.wait(HEARTBEAT_S)


async def capture(port: int) -> None:
    """Capture until stdin ends; print the counts for each line there."""
    packet_socket._BUFFER_BYTES = RECEIVE_BUFFER_BYTES  # noqa: SLF001 - no operator's business
    source, tracker = CaptureSource(CaptureConfig(ports=(port,))), Tracker(StatusConfig())

    def emit(signals: Sequence[Signal]) -> None:
        for signal in signals:
            tracker.apply(signal)

    def look() -> None:
        if not sys.stdin.readline():
            running.cancel()
        print(json.dumps([source.health.signals, source.health.errors]), flush=True)

    def detach(stream: str, at: float) -> None:
        tracker.detach(stream, at)

    running = asyncio.create_task(source.run(emit, detach))
    asyncio.get_running_loop().add_reader(sys.stdin, look)
    with contextlib.suppress(asyncio.CancelledError):
        await running


class Agent:
    """The capture's process."""

    def __init__(self, port: int) -> None:
        setpriv = shutil.which("setpriv") if os.geteuid() == 0 else None
        command = [setpriv, "--bounding-set=-all,+net_raw"] if setpriv else []
        command += [sys.executable, __file__, "--capture", str(port)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def look(self) -> Seen:
        """Return the counts so far; wait until the process runs."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return Seen(*json.loads(self._process.stdout.readline()))

    @property
    def cpu_s(self) -> float:
        times = psutil.Process(self._process.pid).cpu_times()
        return float(times.user + times.system)

    @property
    def rss_mib(self) -> float:
        return float(psutil.Process(self._process.pid).memory_info().rss / (1 << 20))

    def end(self) -> None:
        self._process.communicate()


def measure(  # noqa: PLR0913 - the whole stage
    agent: Agent,
    port: int,
    rate: Rate,
    moved: Rate,
    wanted_mb_s: float,
    window_s: float,
) -> Result:
    before = agent.look()
    clients = [Client(number, port) for number in range(CLIENTS)]
    rate.value, moved_before = wanted_mb_s, moved.value
    began_s, cpu_before = time.monotonic(), agent.cpu_s
    for client in clients:
        client.start()
    time.sleep(window_s)
    took_s, cpu = time.monotonic() - began_s, agent.cpu_s - cpu_before
    mb_s = (moved.value - moved_before) / took_s
    for client in clients:
        client.stopping.set()
    for client in clients:
        client.join()
    rate.value = 0.0
    sent = sum(client.answered for client in clients)
    seen = wait_for_signals(agent, before, sent)
    errors = {k: v - before.errors.get(k, 0) for k, v in seen.errors.items()}
    return Result(
        wanted_mb_s,
        mb_s,
        100 * cpu / took_s,
        sent,
        seen.signals - before.signals,
        {k: v for k, v in errors.items() if v},
    )


def wait_for_signals(agent: Agent, before: Seen, sent: int) -> Seen:
    """Return the agent's counts once all signals are there, or after a timeout."""
    deadline_s = time.monotonic() + DRAIN_WITHIN_S
    while True:
        seen = agent.look()
        if seen.signals - before.signals >= sent or time.monotonic() > deadline_s:
            return seen
        time.sleep(0.2)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="phases of 20 s instead of 60 s")
    parser.add_argument("--capture", type=int, metavar="PORT", help="be the capture's process")
    arguments = parser.parse_args()
    if arguments.capture:
        asyncio.run(capture(arguments.capture))
        return 0
    window_s = 20.0 if arguments.short else 60.0
    rate, moved = multiprocessing.Value("d", 0.0), multiprocessing.Value("d", 0.0)
    listener = socket.create_server((HOST, 0), backlog=64)
    port = listener.getsockname()[1]
    helpers = [
        multiprocessing.Process(target=serve, args=(listener,), daemon=True),
        multiprocessing.Process(target=consume, args=(port, rate, moved), daemon=True),
    ]
    for helper in helpers:
        helper.start()
    agent, results = Agent(port), list[Result]()
    try:
        for wanted_mb_s in RATES_MB_S:
            results.append(measure(agent, port, rate, moved, wanted_mb_s, window_s))
            print(results[-1], flush=True)
        rss_mib = agent.rss_mib
    finally:
        agent.end()
        for helper in helpers:
            helper.terminate()
    print(f"RSS {rss_mib:.1f} MiB; wanted: at most {CPU_MAX_PERCENT} % of a core, nothing lost")
    return 0 if all(result.holds for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
