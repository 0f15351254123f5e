"""The latest records, in memory: what the API explains. Bounded, the oldest go first."""

from collections import deque
from collections.abc import Iterable
from pathlib import Path

import msgspec

from aggregation.episodes import GroupEpisode, group_episodes
from metrics.sample import Sample, SampleKind

MAX_RECORDS = 20_000
"""About 15 MiB; a group of 20 that rebalances hourly fills it in two weeks."""
_SEED_BYTES = 4 << 20

_decode = msgspec.json.Decoder(Sample).decode


class History:
    """The last records of all groups, and their rebalances, explained when asked."""

    def __init__(self, records: Iterable[Sample] = (), max_records: int = MAX_RECORDS) -> None:
        """Start with what an earlier run has recorded."""
        self._records: deque[Sample] = deque(maxlen=max_records)
        self.add(records)

    def add(self, records: Iterable[Sample]) -> None:
        """Take records as they are made; periodic ones tell nothing of causes."""
        self._records.extend(each for each in records if each.kind is not SampleKind.SAMPLE)

    def records(self, group: str | None = None) -> list[Sample]:
        """Return a copy, so that another thread can take its time; None: of all groups."""
        kept = list(self._records)
        return kept if group is None else [each for each in kept if each.group == group]


def explained(records: list[Sample], now: float) -> list[GroupEpisode]:
    """Return the rebalances that records tell of, seen by one agent that lives at ``now``."""
    return group_episodes(records, alive_at=now)


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
            out.append(_decode(line))
        except msgspec.MsgspecError:
            continue
    return out
