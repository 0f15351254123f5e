"""The latest records, in memory: what the API explains. Bounded, the oldest go first."""

from collections import deque
from collections.abc import Iterable
from pathlib import Path

from aggregation.rebalances.rebalances import GroupEpisode, ToldTo, group_episodes
from metrics.model.sample import Sample, SampleKind, decode

MAX_RECORDS = 20_000
"""About 15 MiB; a group of 20 that rebalances hourly fills it in two weeks."""
_SEED_BYTES = 4 << 20
_FEW = 1_000

_NO_CAUSES = {SampleKind.SAMPLE, SampleKind.EPISODE}


class History:
    """The last records of all groups, and their rebalances, explained when asked."""

    def __init__(
        self,
        records: Iterable[Sample] = (),
        max_records: int = MAX_RECORDS,
        told_to: ToldTo | None = None,
    ) -> None:
        """Start with what an earlier run has recorded; without ``told_to`` all is told at once."""
        self._told_to, self._max_records = told_to, max_records
        self._records: deque[Sample] = deque(maxlen=max_records)
        self._news: dict[str, tuple[float, float]] = {}
        self.add(records, now=0.0)
        self._news.clear()

    def add(self, records: Iterable[Sample], now: float) -> None:
        """Take records as they arrive, at ``now``; periodic ones tell nothing of causes."""
        kept = [each for each in records if each.kind not in _NO_CAUSES]
        self._records.extend(kept)
        for group in {each.group for each in kept}:
            first, _ = self._news.get(group, (now, now))
            self._news[group] = (first, now)

    def keep_size(self) -> None:
        """Keep no more records than now, as memory is short."""
        most = min(self._max_records, max(_FEW, len(self._records)))
        self._records = deque(self._records, maxlen=most)

    def grow(self) -> None:
        """Keep as many as allowed again."""
        self._records = deque(self._records, maxlen=self._max_records)

    def remind(self, groups: Iterable[str], now: float) -> None:
        """Let groups be due again, as though they had news."""
        for group in groups:
            self._news.setdefault(group, (now, now))

    def due(self, now: float, quiet_s: float) -> list[Sample]:
        """Return the records of groups that have had news, once they are quiet again.

        A group that is never quiet is due every 2 x ``quiet_s``.
        """
        due = set[str]()
        for group, (first, last) in list(self._news.items()):
            if now - last >= quiet_s:
                del self._news[group]
                due.add(group)
            elif now - first >= 2 * quiet_s:
                self._news[group] = (now, last)
                due.add(group)
        return [each for each in self._records if each.group in due] if due else []

    def records(self, group: str | None = None) -> list[Sample]:
        """Return a copy, so that another thread can take its time; None: of all groups."""
        kept = list(self._records)
        return kept if group is None else [each for each in kept if each.group == group]

    def episodes(self, records: list[Sample], now: float) -> list[GroupEpisode]:
        """Return the rebalances that `records` tell of at ``now`` (Unix seconds)."""
        return group_episodes(records, self._told_to or (lambda _: now))


def spooled(folder: Path) -> list[Sample]:
    """Return what the newest files of a spool hold; a file that cannot be read is left out."""
    found: list[Sample] = []
    left = _SEED_BYTES
    for path in sorted(folder.glob("*.jsonl"), reverse=True):
        try:
            data = path.read_bytes()
        except OSError:
            continue
        left -= len(data)
        if left < 0:
            break
        found += _decoded(data)
    return sorted(found, key=lambda record: record.ts)


def _decoded(data: bytes) -> list[Sample]:
    out = []
    for line in data.splitlines():
        try:
            out.append(decode(line))
        except ValueError:
            continue
    return out
