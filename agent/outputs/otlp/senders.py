"""The SDK's exporters, configured by ``otlp``: HTTP or gRPC, for metrics and for spans."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from google.protobuf.message import DecodeError
from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, MetricsData
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from agent.config.otlp import OtlpConfig, OtlpProtocol
from agent.config.yaml_loader import read_yaml
from agent.errors import ConfigError, OutputError, reason_of
from agent.outputs.otlp.partial_success import Rejected, RejectionCounter
from agent.small_files import check_certificates

MAX_POINTS = 2_000
"""Points of a request, some 600 KB; gRPC receivers refuse more than 4 MiB."""


_Exporters = tuple[MetricExporter, SpanExporter, Callable[[], str]]
"""With the last response's fault, as far as it is known."""
_T = TypeVar("_T")
_ENVIRONMENT_FAULTS = (ValueError, LookupError, RuntimeError, OSError)
"""The SDK reads what `otlp` does not set from variables, and checks few of them."""


class OtlpSender:
    """One connection to a receiver. For one thread."""

    def __init__(self, config: OtlpConfig) -> None:
        """Read certificates and headers.

        Raises:
            ConfigError: one of them cannot be read, or the SDK does not take its environment.

        """
        headers = read_headers(config.headers_file)
        if config.ca_file is not None:
            _check_readable(config.ca_file)
        make = _http if config.protocol is OtlpProtocol.HTTP else _grpc
        self._rejections = RejectionCounter(MAX_POINTS)
        try:
            self._metrics, self._spans, self._fault = make(config, headers, self._rejections)
        except _ENVIRONMENT_FAULTS as error:
            wrong = "otlp: the environment (OTEL_*) is wrong"
            raise ConfigError(f"{wrong}: {reason_of(error)}") from error
        self._last_log = _LastLogMessage()

    def send(self, data: MetricsData) -> Rejected:
        """Send all metrics; return the points that the receiver rejected.

        Raises:
            OutputError: a request was not accepted.

        """
        if self._call(self._metrics.export, data) is not MetricExportResult.SUCCESS:
            raise OutputError(self._reason or "metrics were refused")
        return self._rejections.take()

    def send_spans(self, spans: Sequence[ReadableSpan]) -> Rejected:
        """Send spans; return those that the receiver rejected.

        Raises:
            OutputError: the request was not accepted.

        """
        if self._call(self._spans.export, spans) is not SpanExportResult.SUCCESS:
            raise OutputError(self._reason or "spans were refused")
        return self._rejections.take()

    def _call(self, export: Callable[[_T], object], data: _T) -> object:
        self._rejections.take()  # of an export that failed in between
        try:
            with self._last_log:
                return export(data)
        except DecodeError as error:  # of the delay that a refusal by gRPC names
            raise OutputError(f"malformed response: {error}") from error

    @property
    def _reason(self) -> str:
        """The SDK's text, with the receiver's status, which it leaves out after retries."""
        text, fault = self._last_log.text, self._fault()
        return f"{text} ({fault})" if fault and fault not in text else text

    def close(self) -> None:
        """End the connections."""
        self._metrics.shutdown()
        self._spans.shutdown()


class _LastLogMessage(logging.Handler):
    """Keeps the SDK's last log message: it reports the reason of a failure nowhere else."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self._logger = logging.getLogger("opentelemetry.exporter")
        self._logger.propagate = False  # the agent logs each change of state once

    def emit(self, record: logging.LogRecord) -> None:
        self.text = record.getMessage()

    def __enter__(self) -> None:
        self.text = ""
        self._logger.addHandler(self)

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)


def read_headers(path: Path | None) -> dict[str, str]:
    """Return the headers in a file.

    Raises:
        ConfigError: the file cannot be read, or holds anything else; values are not shown.

    """
    found = {} if path is None else read_yaml(path)
    for name, value in found.items():
        if not isinstance(value, str) or not (value.isascii() and value.isprintable()):
            raise ConfigError(f"{path}: {name}: wanted printable ASCII")
    return {str(name).lower(): value for name, value in found.items()}  # gRPC requires lower case


def _check_readable(path: Path) -> None:
    try:
        check_certificates(path)
    except OSError as error:
        raise ConfigError(f"otlp.ca_file: {path}: {error.strerror}") from error


def _http(config: OtlpConfig, headers: dict[str, str], rejections: RejectionCounter) -> _Exporters:
    import requests  # noqa: PLC0415 - only if configured
    from opentelemetry.exporter.otlp.proto.http import Compression  # noqa: PLC0415
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import (  # noqa: PLC0415
        OTLPMetricExporter,
    )
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
        OTLPSpanExporter,
    )

    from agent.outputs.otlp.bounded_adapter import BoundedAdapter  # noqa: PLC0415

    base = config.endpoint.rstrip("/")
    ca_file = None if config.ca_file is None else str(config.ca_file)
    session = requests.Session()
    session.trust_env = ca_file is None  # REQUESTS_CA_BUNDLE would override it
    adapter = BoundedAdapter(rejections.add)
    for scheme in ("http://", "https://"):
        session.mount(scheme, adapter)
    metrics = OTLPMetricExporter(
        f"{base}/v1/metrics",
        certificate_file=ca_file,
        session=session,
        headers=headers,
        timeout=config.timeout_s,
        compression=Compression.Gzip,
        max_export_batch_size=MAX_POINTS,
    )
    spans = OTLPSpanExporter(
        f"{base}/v1/traces",
        certificate_file=ca_file,
        session=session,
        headers=headers,
        timeout=config.timeout_s,
        compression=Compression.Gzip,
    )
    return metrics, spans, lambda: adapter.fault


def _grpc(config: OtlpConfig, headers: dict[str, str], rejections: RejectionCounter) -> _Exporters:
    from grpc import Compression, ssl_channel_credentials  # noqa: PLC0415 - only if configured
    from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import (  # noqa: PLC0415
        OTLPMetricExporter,
    )
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (  # noqa: PLC0415
        OTLPSpanExporter,
    )

    ca = None if config.ca_file is None else config.ca_file.read_bytes()
    credentials = None if ca is None else ssl_channel_credentials(ca)
    metrics = OTLPMetricExporter(
        config.endpoint,
        credentials=credentials,
        headers=headers,
        timeout=config.timeout_s,
        compression=Compression.Gzip,
        max_export_batch_size=MAX_POINTS,
    )
    spans = OTLPSpanExporter(
        config.endpoint,
        credentials=credentials,
        headers=headers,
        timeout=config.timeout_s,
        compression=Compression.Gzip,
    )
    rejections.count_calls(metrics)
    rejections.count_calls(spans)
    return metrics, spans, str
