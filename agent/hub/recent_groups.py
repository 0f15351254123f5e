"""Cache of the records and analyses of single groups, for their pages.

Theory of operation. All browsers with a live page of a group request it again after each change,
together, and a group may have thousands of members. So the last few groups are cached. An entry is
valid as long as the group's records stay the same and time changes nothing, else for a multiple of
the duration of its analysis.
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
    """One group: its records in order, and its rebalances and incidents."""

    records: Sequence[Sample]
    analysis: Analysis


@dataclass(frozen=True, slots=True)
class _Kept:
    """A cached look, with the stamp of its records. It is valid between two Unix seconds."""

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
        own = [
            each
            for each in unify_identities(self._history.align(found))
            if cluster in {None, each.cluster}
        ]
        records = sorted(own, key=lambda each: (each.ts, each.seq))
        analysis = self._history.analyze(records, now)
        pause = max(_PAUSE_S, _PAUSE_SHARE * (self._cpu_clock() - started))
        is_over = all(incident.is_final for incident in analysis.incidents)
        until_at = float("inf") if is_over else now + pause
        return _Kept(GroupLook(records, analysis), stamp, now, until_at)
