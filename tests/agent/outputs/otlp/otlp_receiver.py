"""A receiver of OTLP: the wire's own HTTP and gRPC servers, with OpenTelemetry's messages."""

import gzip
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import grpc
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsPartialSuccess,
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import (
    MetricsServiceServicer,
    add_MetricsServiceServicer_to_server,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

if TYPE_CHECKING:
    from opentelemetry.proto.common.v1.common_pb2 import KeyValue
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

HOST = "127.0.0.1"


class Received:
    """The requests that have arrived, and the receiver's responses."""

    def __init__(self) -> None:
        self.metrics: list[Metric] = []
        self.spans: list[Span] = []
        self.resource: dict[str, str] = {}
        self.headers: list[dict[str, str]] = []
        self.arrived = threading.Event()
        self.refuses: tuple[type, ...] = ()
        """Kinds of requests that are refused."""
        self.rejected = (0, "")
        """Points or spans of each request that are not taken, and why."""
        self.retry_info = b""
        """With each refusal, by gRPC."""
        self.open = threading.Event()
        """While it is not set, the receiver answers nothing."""
        self.open.set()

    def take(self, request: Any, headers: dict[str, str]) -> bool:
        """Keep a request; False: it is refused."""
        self.arrived.set()
        self.open.wait(30)
        if isinstance(request, self.refuses):
            return False
        self.headers.append(headers)
        if isinstance(request, ExportMetricsServiceRequest):
            for of_resource in request.resource_metrics:
                self.resource = got(of_resource.resource.attributes)
                for scope in of_resource.scope_metrics:
                    self.metrics += scope.metrics
        else:
            for resource in request.resource_spans:
                for scope_spans in resource.scope_spans:
                    self.spans += scope_spans.spans
        return True

    def response(self, request: Any) -> Any:
        """Return the response to a request that was taken."""
        rejected, why = self.rejected
        if isinstance(request, ExportMetricsServiceRequest):
            points = ExportMetricsPartialSuccess(rejected_data_points=rejected, error_message=why)
            return ExportMetricsServiceResponse(partial_success=points)
        spans = ExportTracePartialSuccess(rejected_spans=rejected, error_message=why)
        return ExportTraceServiceResponse(partial_success=spans)

    def metric(self, name: str) -> Metric:
        """Return the newest of a name."""
        return [each for each in self.metrics if each.name == name][-1]


def got(attributes: Any) -> dict[str, Any]:
    """Return attributes as values of Python."""
    pairs: list[KeyValue] = list(attributes)
    return {each.key: getattr(each.value, str(each.value.WhichOneof("value"))) for each in pairs}


def _handler(received: Received) -> type[BaseHTTPRequestHandler]:
    messages: dict[str, Callable[[], Any]] = {
        "/v1/metrics": ExportMetricsServiceRequest,
        "/v1/traces": ExportTraceServiceRequest,
    }

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            request = messages[self.path]()
            request.ParseFromString(gzip.decompress(body))
            headers = {name.lower(): value for name, value in self.headers.items()}
            is_taken = received.take(request, headers)
            response = received.response(request).SerializeToString() if is_taken else b""
            self.send_response(200 if is_taken else 400)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", str(len(response)))
            self.end_headers()
            self.wfile.write(response)

        def log_message(self, *_: object) -> None:
            """Be silent."""

    return Handler


@contextmanager
def by_http(received: Received, tls: tuple[bytes, bytes, str] | None = None) -> Iterator[str]:
    """Serve; gives the endpoint. ``tls``: key, certificate, and a file with both."""
    with ThreadingHTTPServer((HOST, 0), _handler(received)) as server:
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls[2])
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http{'s' if tls else ''}://localhost:{server.server_port}"
        finally:
            received.open.set()
            server.shutdown()
            thread.join()


class _Metrics(MetricsServiceServicer):
    def __init__(self, received: Received) -> None:
        self._received = received

    def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's own
        return _answer(self._received, request, context)


class _Traces(TraceServiceServicer):
    def __init__(self, received: Received) -> None:
        self._received = received

    def Export(self, request: Any, context: Any) -> Any:  # noqa: N802
        return _answer(self._received, request, context)


def _answer(received: Received, request: Any, context: Any) -> Any:
    if not received.take(request, dict(context.invocation_metadata())):
        context.set_trailing_metadata([("google.rpc.retryinfo-bin", received.retry_info)])
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "refused")
    return received.response(request)


@contextmanager
def by_grpc(received: Received, tls: tuple[bytes, bytes, str] | None = None) -> Iterator[str]:
    """Serve; gives the endpoint."""
    server = grpc.server(ThreadPoolExecutor(max_workers=4))
    add_MetricsServiceServicer_to_server(_Metrics(received), server)  # type: ignore[no-untyped-call]
    add_TraceServiceServicer_to_server(_Traces(received), server)  # type: ignore[no-untyped-call]
    if tls is None:
        port = server.add_insecure_port(f"{HOST}:0")
    else:
        port = server.add_secure_port(f"{HOST}:0", grpc.ssl_server_credentials([tls[:2]]))
    server.start()
    try:
        yield f"http{'s' if tls else ''}://localhost:{port}"
    finally:
        received.open.set()
        server.stop(None).wait()
