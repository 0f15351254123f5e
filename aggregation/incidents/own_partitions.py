"""Partitions of a member that both its log and its traffic report: pure.

The traffic shows an assignment when it arrives. The client reads the partitions from its next poll
on, and only its log shows that. One agent with both sources takes the log's report. So a report of
the traffic counts only if the log of the same member, read by another agent, does not repeat it.

Source: incidents.md 4 (an unread partition is unread until its owner has it assigned).
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from aggregation.rebalances.segments import MemberRef, member_of
from metrics.model.sample import Sample, SampleKind
from metrics.tracking.source_traits import FILE_SOURCES, PROTOCOL_SOURCES

_Member = tuple[str, str, MemberRef]


def find_early_assignments(records: Iterable[Sample]) -> set[str]:
    """Return the ids of the traffic's assignments that a member's log reports again later."""
    by_wire: dict[_Member, list[Sample]] = defaultdict(list)
    by_log: dict[_Member, list[Sample]] = defaultdict(list)
    for record in records:
        if record.kind is SampleKind.CHANGE and record.field == "partitions":
            member = record.cluster, record.group, member_of(record)
            if record.source in PROTOCOL_SOURCES:
                by_wire[member].append(record)
            elif record.source in FILE_SOURCES:
                by_log[member].append(record)
    return {
        found
        for member in by_wire.keys() & by_log.keys()
        for found in _find_repeated(by_wire[member], by_log[member])
    }


def _find_repeated(by_wire: Iterable[Sample], by_log: Iterable[Sample]) -> Iterable[str]:
    """Yield the ids of assignments that are the next report of the log, too."""
    wire, log = (sorted(each, key=lambda record: record.ts) for each in (by_wire, by_log))
    for record, following in pairwise([*wire, None]):
        assert record is not None  # noqa: S101 - only the last one is None
        later = _first_after(log, record.ts)
        if later is None or not record.after or later.agent == record.agent:
            continue
        if later.after == record.after and (following is None or later.ts < following.ts):
            yield record.id


def _first_after(records: Sequence[Sample], ts: str) -> Sample | None:
    index = bisect_right(records, ts, key=lambda each: each.ts)
    return records[index] if index < len(records) else None
