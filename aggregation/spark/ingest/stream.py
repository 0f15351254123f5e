"""A stream of batches, as an ingest sees it: a spool's or a topic's."""

from collections.abc import Callable
from typing import Protocol

from pyspark.sql import DataFrame

Take = Callable[[DataFrame, int, int], None]
"""Takes a batch: its rows (`PARSED`), its number, and the records that are gone unread."""
TRIGGER_S = 10
"""Interval at which a continuous ingest looks for new data; agents roll files every minute."""


class Stream(Protocol):
    """A running stream."""

    def wait(self, timeout_s: float) -> bool:
        """Wait for its end; return whether it has ended. Raise the error that ended it."""

    def has_failed(self) -> bool:
        """Return whether an error ended it."""

    def stop(self) -> None:
        """End it, in the middle of a batch, too."""

    def behind(self) -> int | None:
        """Return how many files or records the latest batch left; None: there was none."""
