"""Requests of one connection, found by the correlation id of their response.

A broker responds to a connection's requests in their order. So a response also shows that earlier
requests will have none: it was lost, or none was due as for Produce with acks=0. Unwanted requests
are not kept at all.
"""

from typing import Generic, TypeVar

_T = TypeVar("_T")

PENDING_LIMIT = 1_000
"""Requests without a response; clients keep five in flight, pipelining ones some hundred."""


class Correlation(Generic[_T]):
    """The requests of one connection that wait for their responses; bounded."""

    __slots__ = ("_limit", "dropped", "pending")

    def __init__(self, limit: int = PENDING_LIMIT) -> None:
        """Keep up to ``limit`` requests."""
        self._limit = limit
        self.pending: dict[int, _T] = {}
        """By correlation id; to look at."""
        self.dropped = 0

    def __contains__(self, correlation_id: int) -> bool:
        return correlation_id in self.pending

    def add(self, correlation_id: int, request: _T) -> None:
        """Remember a request; the oldest goes when there are too many."""
        self.pending.pop(correlation_id, None)
        self.pending[correlation_id] = request
        if len(self.pending) > self._limit:
            del self.pending[next(iter(self.pending))]
            self.dropped += 1

    def peek(self, correlation_id: int) -> _T:
        """Return the request of a response that is not complete yet, and forget nothing."""
        return self.pending[correlation_id]

    def take(self, correlation_id: int) -> _T | None:
        """Return the request of a response, and forget it with all earlier ones."""
        if correlation_id not in self.pending:
            return None
        while (oldest := next(iter(self.pending))) != correlation_id:
            del self.pending[oldest]
        return self.pending.pop(correlation_id)
