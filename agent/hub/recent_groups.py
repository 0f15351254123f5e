"""Records and analysis of single groups, kept between two looks at their pages.

Theory of operation. Readers of a live page ask again after each change, all of them at once, and a
group may have thousands of members. So the last few groups are kept: for as long as a group's
records stay the same and time changes nothing, else for a multiple of what the analysis took.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from agent.hub.recent_incidents import History
from aggregation.incidents.incidents import Analysis
from aggregation.rebalances.identities import unify_identities
from metrics.model.sample import Sample

_KEPT = 4
_PAUSE_S, _PAUSE_SHARE = 0.5, 10.0


class GroupLook(NamedTuple):
    """One group: its records in order, and what happened."""

    records: Sequence[Sample]
    analysis: Analysis


@dataclass(frozen=True, slots=True)
class _Kept:
    """A look with what it was made of. ``from_at`` and ``until_at`` are Unix seconds."""

    look: GroupLook
    stamp: tuple[int, str, str]
    from_at: float
    until_at: float


class RecentGroups:
    """The groups that were looked at last."""

    def __init__(self, history: History, cpu_clock: Callable[[], float] = time.thread_time) -> None:
        """Keep nothing before the first look."""
        self._history, self._cpu_clock = history, cpu_clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, str | None], _Kept] = OrderedDict()

    def read(self, group: str, cluster: str | None, now: float) -> GroupLook:
        """Return a group at ``now`` (Unix seconds), of any cluster if None; for any thread."""
        key, found = (group, cluster), self._history.records(group)
        stamp = (len(found), found[0].id, found[-1].id) if found else (0, "", "")
        with self._lock:
            kept = self._kept.get(key)
            if kept is None or kept.stamp != stamp or not kept.from_at <= now < kept.until_at:
                kept = self._kept[key] = self._look(found, cluster, stamp, now)
            self._kept.move_to_end(key)
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
            return kept.look

    def _look(
        self, found: list[Sample], cluster: str | None, stamp: tuple[int, str, str], now: float
    ) -> _Kept:
        started = self._cpu_clock()
        own = [each for each in unify_identities(found) if cluster in {None, each.cluster}]
        records = sorted(own, key=lambda each: (each.ts, each.seq))
        analysis = self._history.analyze(records, now)
        pause = max(_PAUSE_S, _PAUSE_SHARE * (self._cpu_clock() - started))
        is_over = all(incident.is_final for incident in analysis.incidents)
        until_at = float("inf") if is_over else now + pause
        return _Kept(GroupLook(records, analysis), stamp, now, until_at)
