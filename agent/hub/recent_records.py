"""The latest records, in memory, for explanations. Bounded; the oldest are evicted first."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import islice
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from agent.files import is_other_than_file
from agent.hub.silence_tracker import SilenceTracker
from metrics.model.partitions import count_partitions
from metrics.model.sample import Sample, SampleKind, format_time

if TYPE_CHECKING:
    from agent.hub.recent_groups import RecentGroups
    from agent.hub.recent_incidents import RecentIncidents
    from aggregation.incidents.incidents import Analysis
    from aggregation.rebalances.agent_clocks import Spans
    from aggregation.rebalances.known_records import Watermark
    from aggregation.rebalances.rebalances import ExplainedRebalance
    from aggregation.rebalances.silences import Silences

MAX_RECORDS = 20_000
"""About 15 MiB; a group of 20 members that rebalances hourly fills it in two weeks."""
MAX_CHANGE_CHARS = 16 << 20
"""Characters of all values of changes: those of partitions may have 256 Ki each."""
_PARTITION_CHARS = 64
"""A partition counts as these: twelve bytes may name 100,000, and each is a text in an analysis."""
_SEED_BYTES = 4 << 20
_MIN_RECORDS = 1_000
_AHEAD_S = 86_400.0
"""A clock may be ahead by so much; ingest allows a day, too."""
_SECONDS = len("2026-01-01T00:00:00")

_KINDS_WITHOUT_CAUSE = {SampleKind.SAMPLE, SampleKind.EPISODE, SampleKind.INCIDENT}


class RecentRecords:
    """The last records of all groups, and their rebalances, explained on demand."""

    def __init__(
        self,
        records: Iterable[Sample] = (),
        max_records: int = MAX_RECORDS,
        watermark_of: "Watermark | None" = None,
        now: float = inf,
        spans_of: "Callable[[], Spans]" = dict,
    ) -> None:
        """Start with an earlier run's records; without ``watermark_of`` nothing is ever pending.

        ``spans_of`` returns the offsets of agents' clocks, for any thread.
        """
        self._spans_of = spans_of
        self._watermark_of, self._max_records = watermark_of, max_records
        self._limit = max_records
        self._silences = SilenceTracker(max_records)
        self._records = deque[Sample]()
        self._ids = set[str]()
        self._change_chars = 0
        self.added = 0
        """Number of records so far, evicted ones included."""
        self._changed_at: dict[str, tuple[float, float]] = {}
        self.add(records, now)
        self._changed_at.clear()

    def add(self, records: Iterable[Sample], now: float) -> None:
        """Add records that arrive at ``now``; periodic ones hold no causes.

        But the first ones behind an agent's silence are kept: they show who was there meanwhile.
        One that is kept already changes nothing: an agent may send its whole spool again.
        One from the future would be an incident under way until then: ingest has it in quarantine.
        """
        latest = format_time(now + _AHEAD_S)
        kept = [
            each
            for each in records
            if each.ts[:_SECONDS] <= latest
            and (self._silences.add(each) or each.kind not in _KINDS_WITHOUT_CAUSE)
            and self._is_new(each.id)
        ]
        self._records.extend(kept)
        self._change_chars += sum(map(_count_change_chars, kept))
        self._evict()
        self.added += len(kept)
        for group in {each.group for each in kept}:
            first, _ = self._changed_at.get(group, (now, now))
            self._changed_at[group] = (first, now)
        while len(self._changed_at) > self._max_records:  # without a recorder nobody takes them
            del self._changed_at[next(iter(self._changed_at))]

    def freeze_limits(self) -> None:
        """Freeze the number of records, as memory is short."""
        self._limit = min(self._max_records, max(_MIN_RECORDS, len(self._records)))

    def restore_limits(self) -> None:
        """Allow the full number of records again."""
        self._limit = self._max_records

    def _is_new(self, record_id: str) -> bool:
        is_new = record_id not in self._ids
        self._ids.add(record_id)
        return is_new

    def _evict(self) -> None:
        while len(self._records) > self._limit or self._change_chars > MAX_CHANGE_CHARS:
            oldest = self._records.popleft()
            self._ids.discard(oldest.id)
            self._change_chars -= _count_change_chars(oldest)

    def requeue(self, groups: Iterable[str], now: float) -> None:
        """Mark groups as changed, so that they become quiet again later."""
        for group in groups:
            self._changed_at.setdefault(group, (now, now))

    def take_quiet(self, now: float, quiet_s: float) -> list[Sample]:
        """Return the records of changed groups that are quiet again, and clear their mark.

        A group that is never quiet is returned every 2 x ``quiet_s``.
        """
        due = set[str]()
        for group, (first, last) in list(self._changed_at.items()):
            if now - last >= quiet_s:
                del self._changed_at[group]
                due.add(group)
            elif now - first >= 2 * quiet_s:
                self._changed_at[group] = (now, last)
                due.add(group)
        return [each for each in self._records if each.group in due] if due else []

    def groups_since(self, count: int) -> set[str]:
        """Return the groups of all records after the first ``count`` that were added."""
        return {each.group for each in islice(reversed(self._records), self.added - count)}

    def records(self, group: str | None = None) -> list[Sample]:
        """Return a copy, for another thread; None: of all groups."""
        kept = list(self._records)
        return kept if group is None else [each for each in kept if each.group == group]

    @cached_property
    def incidents(self) -> "RecentIncidents":
        """The incidents of all groups, shared by pages and recorder."""
        from agent.hub.recent_incidents import RecentIncidents  # noqa: PLC0415 - not at start-up

        return RecentIncidents(self)

    @cached_property
    def groups(self) -> "RecentGroups":
        """Single groups, for their pages."""
        from agent.hub.recent_groups import RecentGroups  # noqa: PLC0415 - not at start-up

        return RecentGroups(self)

    @property
    def silences(self) -> "Silences":
        """The silences of all agents; for any thread."""
        return self._silences.silences()

    def analyze(self, records: list[Sample], now: float) -> "Analysis":
        """Return the rebalances and incidents in `records`; open ones last until ``now``."""
        from aggregation.incidents.incidents import analyze  # noqa: PLC0415 - not at start-up

        watermark = self._watermark_of or (lambda _: now)
        return analyze(self.align(records), watermark, now, silences=self.silences)

    def episodes(self, records: list[Sample], now: float) -> "list[ExplainedRebalance]":
        """Return the rebalances in `records` at ``now`` (Unix seconds)."""
        from aggregation.rebalances.rebalances import (  # noqa: PLC0415 - not at start-up
            explain_rebalances,
        )

        watermark = self._watermark_of or (lambda _: now)
        return explain_rebalances(self.align(records), watermark, silences=self.silences)

    def align(self, records: "Sequence[Sample]") -> "Sequence[Sample]":
        """Return records with the times of a right clock, as far as agents can be compared."""
        from aggregation.rebalances.agent_clocks import (  # noqa: PLC0415 - not at start-up
            align_agents,
            correct_records,
        )

        return align_agents(correct_records(records, self._spans_of())).records


def _count_change_chars(record: Sample) -> int:
    before, after = record.before or "", record.after or ""
    named = count_partitions(after) if record.field == "partitions" else 0
    return len(before) + len(after) + _PARTITION_CHARS * named


def read_spool(folder: Path) -> list[Sample]:
    """Return the records of a spool's newest files; an unreadable file is skipped."""
    found: list[Sample] = []
    left = _SEED_BYTES
    for path in sorted(folder.glob("*.jsonl"), reverse=True):
        if is_other_than_file(path):
            continue
        try:
            left -= path.stat().st_size
            if left < 0:
                break
            found += _decode_lines(path.read_bytes())
        except OSError:
            continue
    return sorted(found, key=lambda record: record.ts)


def _decode_lines(data: bytes) -> list[Sample]:
    from aggregation.incidents.records import decode_any  # noqa: PLC0415 - for a spool with records

    out = []
    for line in data.splitlines():
        try:
            out.append(decode_any(line))
        except ValueError:
            continue
    return out
