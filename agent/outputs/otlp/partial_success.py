"""The parts of accepted requests that a receiver rejects, and its advice.

A response to a request that was accepted may count points or spans that are lost, with a reason;
the client must not send them again. A reason without a count is advice. The SDK's exporters read
neither: https://opentelemetry.io/docs/specs/otlp/#partial-success
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceResponse,
)

from metrics.model.names import printable

_REASON_CHARS = 500


@dataclass(frozen=True, slots=True)
class Rejected:
    """Points or spans of some requests that were not taken. ``reason`` is empty without one."""

    items: int = 0
    reason: str = ""

    def __add__(self, later: "Rejected") -> "Rejected":
        """Return the sum, with the last reason."""
        return Rejected(self.items + later.items, later.reason or self.reason)


class RejectionCounter:
    """Adds up the responses to the requests of one export."""

    def __init__(self, items_max: int) -> None:
        """``items_max``: points or spans of a request, whatever its response counts."""
        self._items_max = items_max
        self._found = Rejected()

    def take(self) -> Rejected:
        """Return what was added since the last call."""
        found, self._found = self._found, Rejected()
        return found

    def add(self, response: bytes) -> None:
        """Add a response; one that is malformed rejects nothing, as its status counts."""
        try:
            # that of spans has the same fields, as numbers and types
            found = ExportMetricsServiceResponse.FromString(response).partial_success
        except DecodeError:
            return
        items = min(max(0, found.rejected_data_points), self._items_max)
        self._found += Rejected(items, printable(found.error_message[:_REASON_CHARS]))

    def count_calls(self, exporter: Any) -> None:
        """Add the response to each call of an exporter by gRPC, which discards them.

        An SDK with other names exports as well, without a count.
        """
        stub = getattr(exporter, "_stub", None)  # no public way; it makes a client for each channel
        if stub is None or not hasattr(exporter, "_channel"):
            return

        def make_client(channel: Any) -> Any:
            client = stub(channel)
            client.Export = self._with_response(client.Export)
            return client

        exporter._stub = make_client  # noqa: SLF001
        exporter._client = make_client(exporter._channel)  # noqa: SLF001

    def _with_response(self, export: Callable[..., Any]) -> Callable[..., Any]:
        def call(**request: Any) -> Any:
            response = export(**request)
            self.add(response.SerializeToString())
            return response

        return call
