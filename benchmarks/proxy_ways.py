"""The ways to one broker that `proxy.py` measures: direct, ours, HAProxy and kafka-proxy."""

import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trustme

from agent.lab.broker import Cluster
from agent.processes.ports import HOST, free_port

READY_WITHIN_S = 60.0
GO_BUFFER_BYTES = 256 << 10
"""kafka-proxy's default of 4 KiB would be no fair peer."""
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


@dataclass(slots=True, kw_only=True)
class Way:
    """A way to the broker: its plain port, the one with TLS, and the process between."""

    name: str
    port: int
    tls: int = 0
    process: int | None = None
    figures: dict[str, list[float]] = field(default_factory=dict)

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    def cpu_s(self) -> float:
        """Return the CPU time of all threads of a process, finer than the ticks of its times."""
        tasks = Path(f"/proc/{self.process}/task").glob("*/schedstat") if self.process else ()
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9

    def note(self, name: str, value: float) -> None:
        self.figures.setdefault(name, []).append(value)


@contextmanager
def ways(
    folder: Path, cache: Path, kafka_proxy: Path | None
) -> Iterator[tuple[list[Way], ssl.SSLContext]]:
    """Run the broker, and every way to it; HAProxy stands in for a broker with TLS."""
    own, own_tls, peer, peer_tls, broker_tls, third = _free_ports(6)
    authority, ca, pem = trustme.CA(), folder / "ca.pem", folder / "localhost.pem"
    authority.cert_pem.write_to_path(ca)
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(pem)
    serve, call = f"ssl crt {pem}", f"ssl verify required ca-file {ca} verifyhost localhost"
    with ExitStack() as stack:
        enter = stack.enter_context
        broker = enter(Cluster(folder / "lab", cache, proxy_port=peer)).brokers[0].node
        enter(_haproxy(folder, "broker-tls", (broker_tls, serve, broker.port, "")))
        plain = {"type": "proxy", "listen": f"{HOST}:{own}", "upstream": [f"{HOST}:{broker.port}"]}
        tls = {
            "type": "proxy",
            "listen": f"{HOST}:{own_tls}",
            "upstream": [f"localhost:{broker_tls}"],
            "tls": {"listen": {"cert_file": str(pem)}, "upstream": {"ca_file": str(ca)}},
        }
        agent = enter(_ours(folder, [plain, tls]))
        routes = (peer, "", broker.proxied_port, ""), (peer_tls, serve, broker_tls, call)
        found = [
            Way(name="direct", port=broker.port, tls=broker_tls),
            Way(name="ours", port=own, tls=own_tls, process=agent),
            Way(
                name="haproxy",
                port=peer,
                tls=peer_tls,
                process=enter(_haproxy(folder, "haproxy", *routes)),
            ),
        ]
        if kafka_proxy is not None:
            process = enter(_kafka_proxy(folder, kafka_proxy, third, broker.port))
            found.append(Way(name="kafka-proxy", port=third, process=process))
        yield found, ssl.create_default_context(cafile=str(ca))


def _haproxy(
    folder: Path, name: str, *routes: tuple[int, str, int, str]
) -> AbstractContextManager[int]:
    """Run HAProxy: from port (and its options) to port (and its options)."""
    path = shutil.which("haproxy") or "/usr/sbin/haproxy"
    config = folder / f"{name}.cfg"
    lines = [
        f"listen p{port}\n  bind {HOST}:{port} {options}\n  server s {HOST}:{target} {more}\n"
        for port, options, target, more in routes
    ]
    config.write_text(HAPROXY + "".join(lines))
    ports = [route[0] for route in routes]
    return _running([path, "-db", "-f", config], ports, folder / f"{name}.log")


def _kafka_proxy(folder: Path, path: Path, port: int, broker: int) -> AbstractContextManager[int]:
    # fmt: off
    command: list[str | Path] = [
        path, "server", "--bootstrap-server-mapping", f"{HOST}:{broker},{HOST}:{port}",
        "--default-listener-ip", HOST, "--http-disable", "--log-level", "error",
        "--proxy-request-buffer-size", str(GO_BUFFER_BYTES),
        "--proxy-response-buffer-size", str(GO_BUFFER_BYTES),
    ]
    # fmt: on
    return _running(command, [port], folder / "kafka-proxy.log")


def _ours(folder: Path, sources: list[dict[str, Any]]) -> AbstractContextManager[int]:
    config = folder / "agent.yaml"
    web = {"listen": [f"{HOST}:0"]}
    config.write_text(
        json.dumps({"state_dir": str(folder / "state"), "sources": sources, "web": web})
    )
    # kio's types import hypothesis wherever it is installed, which no user has: 8 MiB
    hidden = folder / "hidden"
    hidden.mkdir()
    (hidden / "hypothesis.py").write_text("raise ImportError")
    script = Path(sys.executable).with_name("rebalance-agent")
    ports = [int(source["listen"].rpartition(":")[2]) for source in sources]
    command: list[str | Path] = [script, "run", "-c", config]
    return _running(command, ports, folder / "agent.log", PYTHONPATH=str(hidden))


@contextmanager
def _running(
    command: Sequence[str | Path], ports: Sequence[int], log: Path, **environ: str
) -> Iterator[int]:
    """Run a program until it is left; return its process once it listens."""
    env = os.environ | environ
    with (
        log.open("wb") as out,
        subprocess.Popen(command, stdout=out, stderr=out, env=env) as process,
    ):
        try:
            for port in ports:
                _wait_for(port, process, log)
            yield process.pid
        finally:
            process.terminate()


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline_s = time.monotonic() + READY_WITHIN_S
    while True:
        with suppress(OSError):
            socket.create_connection((HOST, port)).close()
            return
        if process.poll() is not None or time.monotonic() > deadline_s:
            raise RuntimeError(f"{process.args!r} does not run: {log.read_text()}")
        time.sleep(0.05)


def _free_ports(count: int) -> list[int]:
    """Return the given number of different ports."""
    ports: set[int] = set()
    while len(ports) < count:
        ports.add(free_port())
    return list(ports)
