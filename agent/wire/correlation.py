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

    __slots__ = ("_pending", "dropped")

    def __init__(self) -> None:
        self._pending: dict[int, _T] = {}
        self.dropped = 0

    def __contains__(self, correlation_id: int) -> bool:
        return correlation_id in self._pending

    def ask(self, correlation_id: int, request: _T) -> None:
        """Remember a request; the oldest goes when there are too many."""
        self._pending.pop(correlation_id, None)
        self._pending[correlation_id] = request
        if len(self._pending) > PENDING_LIMIT:
            del self._pending[next(iter(self._pending))]
            self.dropped += 1

    def peek(self, correlation_id: int) -> _T:
        """Return the request of an answer that is not complete yet, and forget nothing."""
        return self._pending[correlation_id]

    def answer(self, correlation_id: int) -> _T | None:
        """Return the request of an answer, and forget it with all that came before it."""
        if correlation_id not in self._pending:
            return None
        while (oldest := next(iter(self._pending))) != correlation_id:
            del self._pending[oldest]
        return self._pending.pop(correlation_id)
