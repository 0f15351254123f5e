"""Requests of one connection, found by the correlation id of their response.

A broker responds to a connection's requests in their order. So a response also shows that earlier
requests will have none: it was lost, or none was due as for Produce with acks=0. Unwanted requests
are not kept at all.
"""

from dataclasses import dataclass
from typing import Generic, TypeVar

_T = TypeVar("_T")

PENDING_LIMIT = 1_000
"""Requests without a response; clients keep five in flight, pipelining ones some hundred."""
_KEPT = 8
"""Of a connection, whatever others keep: Java's clients have five in flight."""


@dataclass(slots=True)
class RequestBudget:
    """Requests without a response that the connections of one source may keep together.

    Beyond it each keeps eight. So 10,000 connections keep 180,000, of some 250 bytes each.
    """

    limit: int = 100_000
    used: int = 0


class Correlation(Generic[_T]):
    """The requests of one connection that wait for their responses; bounded."""

    __slots__ = ("_budget", "_limit", "dropped", "pending")

    def __init__(self, limit: int = PENDING_LIMIT, budget: RequestBudget | None = None) -> None:
        """Keep up to ``limit`` requests, within the ``budget`` of all connections."""
        self._limit, self._budget = limit, budget or RequestBudget()
        self.pending: dict[int, _T] = {}
        """By correlation id; to look at."""
        self.dropped = 0

    def __contains__(self, correlation_id: int) -> bool:
        return correlation_id in self.pending

    def add(self, correlation_id: int, request: _T) -> None:
        """Remember a request; the oldest goes when there are too many."""
        before = len(self.pending)
        self.pending.pop(correlation_id, None)
        self.pending[correlation_id] = request
        kept = _KEPT if self._budget.used >= self._budget.limit else self._limit
        if len(self.pending) > max(before, kept) or len(self.pending) > self._limit:
            del self.pending[next(iter(self.pending))]
            self.dropped += 1
        self._budget.used += len(self.pending) - before

    def peek(self, correlation_id: int) -> _T:
        """Return the request of a response that is not complete yet, and forget nothing."""
        return self.pending[correlation_id]

    def take(self, correlation_id: int) -> _T | None:
        """Return the request of a response, and forget it with all earlier ones."""
        if correlation_id not in self.pending:
            return None
        before = len(self.pending)
        while (oldest := next(iter(self.pending))) != correlation_id:
            del self.pending[oldest]
        request = self.pending.pop(correlation_id)
        self._budget.used -= before - len(self.pending)
        return request

    def clear(self) -> None:
        """Forget all: the connection has ended."""
        self._budget.used -= len(self.pending)
        self.pending.clear()
