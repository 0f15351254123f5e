"""Which request an answer belongs to, on one connection.

A broker answers a connection's requests in their order, so an answer also tells that what was asked
before it will have none (the answer was lost, or none was due as for Produce with acks=0). Requests
that nobody wants are not remembered at all.
"""

from typing import Generic, TypeVar

_T = TypeVar("_T")

PENDING_LIMIT = 1_000
"""Requests without an answer; clients keep five in flight, pipelining ones some hundred."""


class Correlation(Generic[_T]):
    """The requests of one connection that wait for their answers; bounded."""

    __slots__ = ("dropped", "pending")

    def __init__(self) -> None:
        self.pending: dict[int, _T] = {}
        """By correlation id; to look at."""
        self.dropped = 0

    def __contains__(self, correlation_id: int) -> bool:
        return correlation_id in self.pending

    def add(self, correlation_id: int, request: _T) -> None:
        """Remember a request; the oldest goes when there are too many."""
        self.pending.pop(correlation_id, None)
        self.pending[correlation_id] = request
        if len(self.pending) > PENDING_LIMIT:
            del self.pending[next(iter(self.pending))]
            self.dropped += 1

    def peek(self, correlation_id: int) -> _T:
        """Return the request of an answer that is not complete yet, and forget nothing."""
        return self.pending[correlation_id]

    def take(self, correlation_id: int) -> _T | None:
        """Return the request of an answer, and forget it with all that came before it."""
        if correlation_id not in self.pending:
            return None
        while (oldest := next(iter(self.pending))) != correlation_id:
            del self.pending[oldest]
        return self.pending.pop(correlation_id)
