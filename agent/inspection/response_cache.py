"""Cache of the last poll's decoded responses, by request and response bytes.

Most groups do not change between polls. Decoding 5,000 descriptions takes two seconds of a core;
comparing their bytes takes a twentieth.
"""

from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

from agent.inspection.model import Failure

_T = TypeVar("_T")


class _CachedBatch(NamedTuple, Generic[_T]):
    digest: bytes
    results: dict[str, _T | Failure]


class ResponseCache(Generic[_T]):
    """Results by request, of the last poll alone."""

    def __init__(self) -> None:
        self._previous: dict[Hashable, _CachedBatch[_T]] = {}
        self._current: dict[Hashable, _CachedBatch[_T]] = {}

    def start_poll(self) -> None:
        """Start a poll: requests that the last poll did not send are evicted."""
        self._previous, self._current = self._current, {}

    def find(self, request: Hashable, digest: bytes) -> dict[str, _T | Failure] | None:
        """Return the results of the same request and the same bytes, if the last poll had them."""
        batch = self._previous.get(request)
        if batch is None or batch.digest != digest:
            return None
        self._current[request] = batch
        return batch.results

    def store(self, request: Hashable, digest: bytes, answers: dict[str, _T | Failure]) -> None:
        """Store the results that some bytes were decoded to."""
        self._current[request] = _CachedBatch(digest, answers)
