"""Cache of the incidents in the recent records: only groups that changed are analysed again.

Theory of operation. Pages and recorder share one object, so each change is analysed once. A group
is analysed again if its records changed: new ones arrived, or old ones were evicted. A group with
an ongoing incident is due as well, because its cost grows; the pause between two such analyses
grows with their duration. The cache is empty until the first use.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from aggregation.incidents.incidents import Analysis, GroupIncidents, split_by_group
from aggregation.rebalances.grouping import GroupRef
from metrics.model.sample import Sample

_PAUSE_S, _PAUSE_SHARE = 0.5, 10.0
"""Pause between two looks at ongoing incidents: a time, and a multiple of the last analysis."""


class History(Protocol):
    """Recent records, analysed on demand."""

    @property
    def added(self) -> int:
        """Number of records so far, evicted ones included."""

    def records(self, group: str | None = None) -> list[Sample]:
        """Return a copy of a group's records; None: of all groups."""

    def align(self, records: Sequence[Sample]) -> Sequence[Sample]:
        """Return records with the times of a right clock."""

    def analyze(self, records: list[Sample], now: float) -> Analysis:
        """Return the rebalances and incidents of records, at ``now`` (Unix seconds)."""


class RecentIncidents:
    """The incidents of all groups."""

    def __init__(self, history: History, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Keep nothing before the first look."""
        self._history, self._monotonic = history, monotonic
        self._lock = threading.Lock()
        self._found: dict[GroupRef, GroupIncidents] = {}
        self._stamps: dict[str, tuple[int, str, str]] = {}
        self._added = -1
        self._due_at = 0.0

    def read(self, now: float, due: Collection[str] = ()) -> dict[GroupRef, GroupIncidents]:
        """Return the incidents at ``now`` (Unix seconds); any thread may call it.

        Groups that are ``due`` are analysed although they did not change.
        """
        with self._lock:
            self._refresh(now, set(due))
            return dict(self._found)

    def _refresh(self, now: float, due: set[str]) -> None:
        started = self._monotonic()
        if started >= self._due_at:
            due |= self._ongoing()
        if self._history.added == self._added and not due:
            return
        self._added = self._history.added
        of_group = defaultdict[str, list[Sample]](list)
        for record in self._history.records():
            of_group[record.group].append(record)
        stamps = {name: _stamp(records) for name, records in of_group.items()}
        changed = {name for name, stamp in stamps.items() if self._stamps.get(name) != stamp}
        names = changed | (due & stamps.keys())
        self._stamps = stamps
        records = [record for name in names for record in of_group[name]]
        kept = {
            ref: found
            for ref, found in self._found.items()
            if ref.group in stamps and ref.group not in names
        }
        if records:
            kept |= split_by_group(self._history.analyze(records, now))
        self._found = kept
        taken = self._monotonic() - started
        self._due_at = started + taken + max(_PAUSE_S, _PAUSE_SHARE * taken)

    def _ongoing(self) -> set[str]:
        return {
            ref.group
            for ref, found in self._found.items()
            if any(incident.is_ongoing for incident in found.incidents)
        }


def _stamp(records: list[Sample]) -> tuple[int, str, str]:
    return len(records), records[0].id, records[-1].id
