"""The OpenTelemetry Collector accepts the agent's exports, by HTTP and gRPC (`make collector`)."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from zlib import crc32

import pytest
import yaml

from agent.config.otlp import OtlpConfig, OtlpProtocol
from agent.lab.artifacts import appear_once, default_cache
from agent.processes.ports import free_port
from tests.agent.outputs.otlp.otlp_receiver import HOST, Received, by_grpc, by_http
from tests.agent.outputs.otlp.test_exporter import TOLD, made
from tests.agent.wiring.test_restart import until

SOURCE = Path(__file__).parent / "otel_collector"
WANTED = "COLLECTOR"

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        WANTED not in os.environ, reason="say: make collector (builds it; needs Go 1.25)"
    ),
]


def built() -> Path:
    """Return the program, built once a version of its sources."""
    version = crc32(b"".join(path.read_bytes() for path in sorted(SOURCE.iterdir())))
    target = default_cache() / "go" / f"collector-{version:08x}"
    with appear_once(target) as folder:
        if folder is not None:
            source = folder / "source"
            shutil.copytree(SOURCE, source)
            subprocess.run(["go", "build", "-o", folder / "collector", "."], cwd=source, check=True)
    return target / "collector"


@contextmanager
def collector(folder: Path, behind: str) -> Iterator[dict[OtlpProtocol, str]]:
    """Give its endpoints; it forwards everything to the address ``behind``."""
    ports = {protocol: free_port() for protocol in OtlpProtocol}
    protocols = {each.value: {"endpoint": f"{HOST}:{ports[each]}"} for each in OtlpProtocol}
    pipeline = {"receivers": ["otlp"], "exporters": ["otlp_http"]}
    config = {
        "receivers": {"otlp": {"protocols": protocols}},
        "exporters": {"otlp_http": {"endpoint": behind}},
        "service": {
            "pipelines": {"metrics": pipeline, "traces": pipeline},
            "telemetry": {"metrics": {"level": "none"}},
        },
    }
    path, messages = folder / "collector.yaml", folder / "collector.out"
    path.write_text(yaml.safe_dump(config))
    with (
        messages.open("wb") as out,
        subprocess.Popen([built(), "--config", path], stdout=out, stderr=out) as process,
    ):
        try:
            until(lambda: "Everything is ready" in messages.read_text())
            yield {each: f"http://{HOST}:{port}" for each, port in ports.items()}
        finally:
            process.terminate()


def sent(protocol: OtlpProtocol, endpoint: str) -> None:
    export = made(OtlpConfig(endpoint=endpoint, protocol=protocol, traces=True))
    export.enqueue(TOLD)
    asyncio.run(export.export())
    assert export.stats.errors == 0


@pytest.mark.parametrize("protocol", OtlpProtocol)
def test_the_collector_passes_on_what_was_sent(protocol: OtlpProtocol, tmp_path: Path) -> None:
    direct, passed = Received(), Received()
    with (by_http if protocol is OtlpProtocol.HTTP else by_grpc)(direct) as endpoint:
        sent(protocol, endpoint)
    with by_http(passed) as behind, collector(tmp_path, behind) as endpoints:
        sent(protocol, endpoints[protocol])
        until(lambda: len(passed.spans) == len(direct.spans))
        until(lambda: len(passed.metrics) == len(direct.metrics))

    assert passed.metrics == direct.metrics
    assert passed.spans == direct.spans
    assert passed.resource == direct.resource
