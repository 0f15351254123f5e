"""Groups that were converted from the classic protocol to a new one, or back. Pure.

Theory of operation. Classic rebalances differ by their generations, those of the new protocols by
time. The broker converts a classic group when its first member joins by the new protocol, and back
when the last one has gone. While any member of the new protocol is there, classic members go one by
one, too. So records are split by the spans of such members: from the first record of each to its
leave, or to its last record, and until the others have noticed. An episode stays whole.

Source: KIP-848, "Online consumer group upgrade and downgrade"; `group.consumer.migration.policy`.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable

from metrics.model.sample import Outcome, Sample, parse_time

_CLASSIC = "classic"
_NOTICE_S = 6.0
"""A classic member learns of a rebalance by its heartbeat: heartbeat.interval.ms, and a margin."""
_CLOCKS_S = 1.0
"""Two sources may date the join of a new protocol's first member so far apart."""
_Span = tuple[float, float]


def split_types(records: list[Sample]) -> list[list[Sample]]:
    """Return a group's records of the time that it was classic, and the others; empty ones not."""
    if len({record.group_type for record in records}) == 1:
        return [records]
    spans = _merge(_find_spans(r for r in records if r.group_type != _CLASSIC))
    starts = [start - _CLOCKS_S for start, _ in spans]
    begins: dict[str | None, str] = {}
    for record in records:
        begins[record.episode] = min(record.ts, begins.get(record.episode, record.ts))
    parts: dict[bool, list[Sample]] = defaultdict(list)
    for record in records:
        at = parse_time(record.ts if record.episode is None else begins[record.episode])
        index = bisect_right(starts, at) - 1
        is_within = index >= 0 and at <= spans[index][1] + _NOTICE_S
        parts[record.group_type == _CLASSIC and not is_within].append(record)
    return list(parts.values())


def _find_spans(records: Iterable[Sample]) -> Iterable[_Span]:
    """Yield from when to when each member was there (Unix seconds)."""
    open_: dict[tuple[str | None, str, str], _Span] = {}
    for record in sorted(records, key=lambda record: record.ts):
        at = parse_time(record.ts)
        member = record.client_id, record.host, record.group_instance_id or ""
        since, _ = open_.pop(member, (at, at))
        if record.outcome == Outcome.LEFT:
            yield since, at
        else:
            open_[member] = since, at
    yield from open_.values()


def _merge(spans: Iterable[_Span]) -> list[_Span]:
    """Return spans that do not overlap, in order."""
    found: list[_Span] = []
    for since, until in sorted(spans):
        if found and since <= found[-1][1]:
            found[-1] = found[-1][0], max(until, found[-1][1])
        else:
            found.append((since, until))
    return found
