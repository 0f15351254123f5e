"""Answers of the poll before, for batches of groups of which a broker says the very same again.

Most groups stand still most of the time. To read what is said of 5,000 of them takes two seconds of
a core; to compare its bytes takes a twentieth.
"""

from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

from agent.inspection.model import Failure

_T = TypeVar("_T")


class _Batch(NamedTuple, Generic[_T]):
    digest: bytes
    answers: dict[str, _T | Failure]


class Kept(Generic[_T]):
    """By what was asked, what was answered; the last poll's alone."""

    def __init__(self) -> None:
        self._before: dict[Hashable, _Batch[_T]] = {}
        self._now: dict[Hashable, _Batch[_T]] = {}

    def begin(self) -> None:
        """Begin a poll: what the one before did not ask is forgotten."""
        self._before, self._now = self._now, {}

    def find(self, asked: Hashable, digest: bytes) -> dict[str, _T | Failure] | None:
        """Return what the same bytes said before."""
        batch = self._before.get(asked)
        if batch is None or batch.digest != digest:
            return None
        self._now[asked] = batch
        return batch.answers

    def keep(self, asked: Hashable, digest: bytes, answers: dict[str, _T | Failure]) -> None:
        """Keep what some bytes say."""
        self._now[asked] = _Batch(digest, answers)
