"""Incidents in the recent records, kept between two looks: only what changed is analysed again.

Theory of operation. A group is analysed again when its records changed: new ones came, or old ones
were evicted. A group with an ongoing incident is due as well, as its cost grows; the pause between
two such analyses grows with their duration. Nothing is kept before the first look.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable

from agent.hub.recent_records import RecentRecords
from aggregation.incidents.model import Incident
from aggregation.rebalances.grouping import GroupRef
from metrics.model.sample import Sample

_PAUSE_S, _PAUSE_SHARE = 0.5, 10.0
"""Pause between two looks at ongoing incidents: a time, and a multiple of the last analysis."""


class RecentIncidents:
    """The incidents of all groups, by group; each group's by start."""

    def __init__(
        self, history: RecentRecords, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """Keep nothing before the first look."""
        self._history, self._monotonic = history, monotonic
        self._lock = threading.Lock()
        self._incidents: dict[GroupRef, list[Incident]] = {}
        self._stamps: dict[str, tuple[int, str, str]] = {}
        self._added = -1
        self._due_at = 0.0

    def read(self, now: float) -> dict[GroupRef, list[Incident]]:
        """Return the incidents at ``now`` (Unix seconds); any thread may call it."""
        with self._lock:
            self._refresh(now)
            return dict(self._incidents)

    def _refresh(self, now: float) -> None:
        started = self._monotonic()
        is_due = started >= self._due_at
        if self._history.added == self._added and not (is_due and self._ongoing()):
            return
        self._added = self._history.added
        of_group = defaultdict[str, list[Sample]](list)
        for record in self._history.records():
            of_group[record.group].append(record)
        stamps = {name: _stamp(records) for name, records in of_group.items()}
        changed = {name for name, stamp in stamps.items() if self._stamps.get(name) != stamp}
        names = changed | (self._ongoing() & stamps.keys() if is_due else set())
        self._stamps = stamps
        records = [record for name in names for record in of_group[name]]
        kept = {
            ref: found
            for ref, found in self._incidents.items()
            if ref.group in stamps and ref.group not in names
        }
        for incident in self._history.analyze(records, now).incidents if records else ():
            kept.setdefault(incident.ref, []).append(incident)
        self._incidents = kept
        taken = self._monotonic() - started
        self._due_at = started + taken + max(_PAUSE_S, _PAUSE_SHARE * taken)

    def _ongoing(self) -> set[str]:
        return {
            ref.group
            for ref, found in self._incidents.items()
            if any(incident.is_ongoing for incident in found)
        }


def _stamp(records: list[Sample]) -> tuple[int, str, str]:
    return len(records), records[0].id, records[-1].id
