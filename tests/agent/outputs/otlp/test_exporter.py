"""Metrics and rebalances arrive at a receiver of OTLP, by HTTP and gRPC, whatever befalls it."""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from agent.config.otlp import OtlpConfig, OtlpProtocol
from agent.errors import ConfigError
from agent.outputs.otlp.bounded_adapter import RESPONSE_BYTES_MAX
from agent.outputs.otlp.exporter import MAX_EPISODES, OtlpOutput
from metrics.exporters.otel import trace_of
from tests.agent.outputs.otlp.otlp_receiver import Received, by_grpc, by_http, got
from tests.agent.trickling import ANSWERS, Answer, trickling
from tests.aggregation.rebalances.test_rebalances import A, B, C, episodes, left, round_of
from tests.metrics.exporters.test_prometheus import exposition

Serve = Callable[..., AbstractContextManager[str]]
WAYS = {OtlpProtocol.HTTP: by_http, OtlpProtocol.GRPC: by_grpc}
TOLD = episodes(
    left(100.0, A, "closed"), *round_of(2, 101.0, B, C), left(200.0, B), *round_of(3, 201.0, C)
)


EVERYTHING = (ExportMetricsServiceRequest, ExportTraceServiceRequest)


class Bench:
    """A receiver, and an exporter that sends to it."""

    def __init__(self, protocol: OtlpProtocol) -> None:
        self.protocol = protocol
        self.received = Received()
        self._stack = ExitStack()
        self.endpoint = self._stack.enter_context(WAYS[protocol](self.received))

    def export(self, *, timeout_s: float = 10.0, interval_s: float = 1.0) -> OtlpOutput:
        config = OtlpConfig(
            endpoint=self.endpoint,
            protocol=self.protocol,
            timeout_s=timeout_s,
            interval_s=interval_s,
            traces=True,
        )
        return made(config)

    def close(self) -> None:
        self._stack.close()


def made(config: OtlpConfig) -> OtlpOutput:
    return OtlpOutput(
        config, {"service.name": "agent"}, 1_000, lambda: lambda: (1010.0, exposition())
    )


@pytest.fixture(params=OtlpProtocol)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    found = Bench(request.param)
    yield found
    found.close()


def test_metrics_and_rebalances_arrive(bench: Bench) -> None:
    export = bench.export()
    export.enqueue(TOLD)
    asyncio.run(export.export())

    status = bench.received.metric("kafka.consumer.rebalance.status")
    duration = bench.received.metric("kafka.group.rebalance.duration").histogram.data_points[0]
    assert {point.as_int for point in status.gauge.data_points} == {0, 4}
    assert bench.received.resource["service.name"] == "agent"
    assert (duration.count, duration.HasField("min")) == (2, False)
    assert duration.exemplars[0].trace_id.hex().endswith("3fa93fa9")
    assert len(bench.received.spans) == sum(1 + len(each.round.segments) for each in TOLD)
    assert (export.stats.written, export.stats.buffered, export.stats.errors) == (2, 0, 0)


def test_a_rebalance_is_a_tree_whose_causes_are_events(bench: Bench) -> None:
    export, second = bench.export(), TOLD[0]
    export.enqueue([second])
    asyncio.run(export.export())

    root, *children = bench.received.spans
    trace_id, span_id = trace_of(second.round.id)
    assert (root.trace_id, root.span_id) == (trace_id.to_bytes(16), span_id.to_bytes(8))
    assert got(root.attributes)["kafka.rebalance.trigger.client.id"] == "a"
    assert got(root.attributes)["kafka.rebalance.trigger.reason"] == "closed"
    assert got(root.attributes)["kafka.rebalance.status"] == "UserRequested"
    assert {child.parent_span_id for child in children} == {root.span_id}
    assert {child.trace_id for child in children} == {root.trace_id}
    assert len({child.span_id for child in children}) == len(children)
    assert [(child.name, causes(child)) for child in children] == [
        ("a", ["UserRequested"]),
        ("b", ["CoordinatorRequested"]),
        ("c", ["CoordinatorRequested"]),
    ]
    assert root.start_time_unix_nano == int(second.round.started_at * 1e9)
    assert root.end_time_unix_nano == int(second.round.ended_at * 1e9)


def causes(span: Span) -> list[str]:
    return [event.name for event in span.events]


def test_a_receiver_that_refuses_is_told_once_and_gets_everything_later(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    export = bench.export()
    export.enqueue(TOLD)
    bench.received.refuses = EVERYTHING
    with caplog.at_level(logging.INFO):
        asyncio.run(export.export())
        asyncio.run(export.export())
        refused = export.stats
        bench.received.refuses = ()
        asyncio.run(export.export())

    assert (refused.written, refused.buffered, refused.errors) == (0, 2, 2)
    assert (export.stats.written, export.stats.buffered) == (2, 0)
    told_of = own_records(caplog)
    assert [each.getMessage() for each in told_of] == [
        "otlp_export_failed",
        "otlp_export_restored",
    ]
    assert "refused" in told_of[0].error or "400" in told_of[0].error  # type: ignore[attr-defined]


def test_a_part_that_a_receiver_rejects_is_counted_and_warned_of_once(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """The SDK does not read the response of a success: all counted as sent."""
    export = bench.export()
    bench.received.rejected = (1, "too \x1b[2J old" + "x" * 10_000)
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            export.enqueue(TOLD)
            asyncio.run(export.export())
        rejected = export.stats
        bench.received.rejected = (0, "")
        asyncio.run(export.export())

    # a rejected span is one of one rebalance; what was rejected must not be sent again
    assert (rejected.written, rejected.dropped, rejected.buffered) == (2, 2, 0)
    assert (rejected.errors, export.stats.errors) == (2, 2)
    first, last = own_records(caplog)
    assert (first.getMessage(), first.levelname) == ("otlp_export_rejected", "ERROR")
    assert vars(first)["rejected"] == 1
    assert vars(first)["error"].startswith("too \\x1b[2J old")
    assert len(vars(first)["error"]) < 1_000
    assert last.getMessage() == "otlp_export_restored"


@pytest.mark.parametrize("rejected", [-5, 1 << 62])
def test_a_count_that_cannot_be_is_bounded(bench: Bench, rejected: int) -> None:
    export = bench.export()
    bench.received.rejected = (rejected, "")
    export.enqueue(TOLD)
    asyncio.run(export.export())
    assert export.stats.dropped == (2 if rejected > 0 else 0)
    assert export.stats.written == (0 if rejected > 0 else 2)


def test_a_receivers_advice_is_logged_once_and_no_error(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """The protocol's servers may warn in a response to a request of which they took all."""
    export = bench.export()
    bench.received.rejected = (0, "this endpoint ends in May")
    export.enqueue(TOLD)
    with caplog.at_level(logging.INFO):
        asyncio.run(export.export())
        asyncio.run(export.export())

    assert (export.stats.written, export.stats.errors) == (2, 0)
    (told_of,) = own_records(caplog)
    assert (told_of.getMessage(), told_of.levelname) == ("otlp_receiver_warning", "WARNING")


def test_a_receiver_that_takes_no_metrics_gets_rebalances(bench: Bench) -> None:
    """Such as one of traces only."""
    export = bench.export()
    bench.received.refuses = EVERYTHING[:1]
    export.enqueue(TOLD)
    asyncio.run(export.export())

    assert (export.stats.written, export.stats.buffered, export.stats.errors) == (2, 0, 1)
    assert bench.received.spans


def test_rebalances_of_an_export_that_is_cancelled_are_kept(bench: Bench) -> None:
    """The export at the agent's end sends them."""
    bench.received.open.clear()
    export = bench.export(timeout_s=60.0)
    export.enqueue(TOLD)

    async def play() -> None:
        exporting = asyncio.create_task(export.export())
        await asyncio.to_thread(bench.received.arrived.wait)
        exporting.cancel()
        await asyncio.gather(exporting, return_exceptions=True)

    asyncio.run(play())
    bench.received.open.set()
    assert export.stats.buffered == len(TOLD)


def test_a_malformed_delay_of_a_refusal_is_no_bug(caplog: pytest.LogCaptureFixture) -> None:
    found = Bench(OtlpProtocol.GRPC)
    found.received.refuses, found.received.retry_info = EVERYTHING, b"\xff\xff"
    export = found.export()
    export.enqueue(TOLD)
    asyncio.run(export.export())
    found.close()

    assert (export.stats.errors, export.stats.buffered) == (1, 2)
    assert [each.exc_info for each in own_records(caplog)] == [None]


def exported_to(receiver: type[BaseHTTPRequestHandler]) -> OtlpOutput:
    """Return an output that has sent metrics and rebalances once."""
    with ThreadingHTTPServer(("127.0.0.1", 0), receiver) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        export = made(OtlpConfig(endpoint=f"http://127.0.0.1:{server.server_port}", traces=True))
        export.enqueue(TOLD)
        asyncio.run(export.export())
        server.shutdown()
        serving.join()
    return export


@pytest.mark.parametrize("body", [b"\xff" * 99, b"\x0a\xff\xff\xff\xff\x0f", b"{}", b"<html>"])
def test_a_response_of_another_kind_is_a_success(body: bytes) -> None:
    """Its status counts."""

    class Odd(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    export = exported_to(Odd)

    assert (export.stats.errors, export.stats.written) == (0, 2)


def own_records(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [each for each in caplog.records if each.name == "agent.outputs.otlp.exporter"]


def test_nobody_there_is_an_error_that_ends_nothing() -> None:
    export = made(OtlpConfig(endpoint="http://127.0.0.1:1", timeout_s=0.1))
    asyncio.run(export.export())
    assert export.stats.errors == 1


def test_a_receiver_that_hangs_holds_up_nothing(bench: Bench) -> None:
    bench.received.open.clear()
    export = bench.export(timeout_s=60.0)

    async def play() -> bool:
        exporting = asyncio.create_task(export.export())
        await asyncio.to_thread(bench.received.arrived.wait)
        went_on = not exporting.done()
        bench.received.open.set()
        await exporting
        return went_on

    assert asyncio.run(play())
    assert export.stats.errors == 0


def test_a_receiver_that_hangs_is_given_up(bench: Bench) -> None:
    bench.received.open.clear()
    export = bench.export(timeout_s=0.2)
    asyncio.run(export.export())
    assert export.stats.errors == 1


def test_a_response_without_end_is_not_read_whole() -> None:
    sent = list[int]()

    class Endless(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()
            with suppress(OSError):
                sent.extend(self.wfile.write(b"x" * RESPONSE_BYTES_MAX) for _ in range(2_000))

        def log_message(self, *_: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Endless) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        export = made(OtlpConfig(endpoint=f"http://127.0.0.1:{server.server_port}", timeout_s=30.0))

        asyncio.run(export.export())
        server.shutdown()
        serving.join()

    assert (export.stats.errors, len(sent) < 2_000) == (0, True)


@pytest.mark.parametrize("status", [301, 302, 304, 307, 308])
def test_redirection_is_an_error_and_gets_no_secret(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The SDK takes each status below 400 for a success: all was lost, and nothing was logged."""
    paths = list[str]()

    class Redirecting(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            paths.append(self.path)
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header(
                "Location", f"http://{self.headers['Host']}/elsewhere?token=SECRET{'x' * 9_000}"
            )
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    export = exported_to(Redirecting)

    assert paths == ["/v1/metrics", "/v1/traces"]
    assert (export.stats.errors, export.stats.written, export.stats.buffered) == (1, 0, 2)
    told_of = [each for each in caplog.records if each.getMessage() == "otlp_export_failed"]
    error = told_of[0].error  # type: ignore[attr-defined]
    assert f"{status}" in error
    assert "/elsewhere" in error
    assert "SECRET" not in error
    assert len(error) < 1_000


@pytest.mark.parametrize("wait", ["1000000000", "-1", "Fri, 31 Dec 9999 23:59:59 GMT", "\x1b[2J"])
def test_receiver_that_is_busy_for_years_is_named(
    wait: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The SDK's message was that it had given up, without the receiver's status."""

    class Busy(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(429)
            self.send_header("Retry-After", wait)
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Busy) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        export = made(OtlpConfig(endpoint=f"http://127.0.0.1:{server.server_port}", timeout_s=0.3))

        asyncio.run(asyncio.wait_for(export.export(), 15.0))
        server.shutdown()
        serving.join()

    told_of = [each for each in caplog.records if each.getMessage() == "otlp_export_failed"]
    assert "429 Too Many Requests" in told_of[0].error  # type: ignore[attr-defined]


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.name)
def test_a_receiver_that_trickles_is_given_up(answer: Answer) -> None:
    with trickling(answer) as address:
        export = made(OtlpConfig(endpoint=f"http://{address}", timeout_s=1.0))

        asyncio.run(asyncio.wait_for(export.export(), 15.0))

    assert export.stats.errors == (answer.name != "body"), "of a body only the status counts"


@pytest.mark.slow
def test_it_exports_until_it_is_cancelled_and_once_more_then(bench: Bench) -> None:
    export = bench.export()

    async def play() -> None:
        running = asyncio.create_task(export.run())
        await asyncio.to_thread(bench.received.arrived.wait)
        running.cancel()
        export.enqueue(TOLD)
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(play())
    assert export.stats.written == len(TOLD)
    assert bench.received.spans


def test_the_oldest_rebalances_go_when_too_many_wait() -> None:
    export = made(OtlpConfig(endpoint="http://127.0.0.1:1", timeout_s=0.1, traces=True))
    export.enqueue(TOLD * (MAX_EPISODES // 2))
    export.enqueue(TOLD)
    asyncio.run(export.export())
    export.enqueue(TOLD)

    assert (export.stats.buffered, export.stats.dropped) == (MAX_EPISODES, 4)


def test_without_traces_rebalances_are_not_kept(bench: Bench) -> None:
    export = made(OtlpConfig(endpoint=bench.endpoint, protocol=bench.protocol))
    export.enqueue(TOLD)
    assert export.stats.buffered == 0


@pytest.mark.slow
@pytest.mark.parametrize("protocol", OtlpProtocol)
def test_tls_is_verified_and_headers_are_read_again(protocol: OtlpProtocol, tmp_path: Path) -> None:
    authority, other = trustme.CA(), trustme.CA()
    issued = authority.issue_cert("localhost")
    own, ca, headers = tmp_path / "own.pem", tmp_path / "ca.pem", tmp_path / "headers.yaml"
    issued.private_key_and_cert_chain_pem.write_to_path(str(own))
    other.cert_pem.write_to_path(str(ca))
    headers.write_text("Api-Key: old\n")
    tls = (issued.private_key_pem.bytes(), issued.cert_chain_pems[0].bytes(), str(own))
    received = Received()
    with WAYS[protocol](received, tls) as endpoint:
        config = OtlpConfig(
            endpoint=endpoint, protocol=protocol, ca_file=ca, headers_file=headers, timeout_s=10
        )
        export = made(config)
        asyncio.run(export.export())
        assert (export.stats.errors, received.headers) == (1, [])

        authority.cert_pem.write_to_path(str(ca))
        headers.write_text("Api-Key: new\n")
        asyncio.run(export.export())

    assert {each["api-key"] for each in received.headers} == {"new"}


@pytest.mark.parametrize("text", ["api-key: 5\n", "api-key: 'a\u00e9'\n", "- a list\n"])
def test_headers_that_are_none_are_refused_and_not_shown(text: str, tmp_path: Path) -> None:
    path = tmp_path / "headers.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"headers\.yaml") as refused:
        made(OtlpConfig(endpoint="http://127.0.0.1:1", headers_file=path))
    assert "a\u00e9" not in str(refused.value)


def test_a_missing_authority_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"otlp.ca_file: .*none\.pem"):
        made(OtlpConfig(endpoint="https://127.0.0.1:1", ca_file=tmp_path / "none.pem"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "abc"),
        ("OTEL_PYTHON_EXPORTER_OTLP_GRPC_RETRYABLE_ERROR_CODES", "NO_CODE"),
        ("OTEL_PYTHON_EXPORTER_OTLP_GRPC_CREDENTIAL_PROVIDER", "nobody"),
    ],
)
def test_an_environment_that_the_sdk_does_not_take_is_refused(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=r"^otlp: the environment \(OTEL_\*\) is wrong: "):
        made(OtlpConfig(endpoint="https://127.0.0.1:1", protocol=OtlpProtocol.GRPC))
