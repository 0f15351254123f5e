"""Values of settings and client software that are new in a group: pure, but for types.

Theory of operation. A deploy starts new members, and none of them changes a value of its own. So
the values of a day are compared with those that any member of the group had before that day. A
value that comes back within the time for which attributes are kept is no news, nor is a member that
has one of several known values.
"""

from collections import defaultdict
from collections.abc import Iterable
from datetime import date, datetime
from typing import Any

from pyspark.sql import types as T  # noqa: N812 - pyspark's own convention

from metrics.model.sample import Sample, SampleKind

FIELDS = (
    *("software", "session.timeout.ms", "max.poll.interval.ms", "assignor", "assignors"),
    *("version", "image"),
)
"""Attributes of members that are compared by group."""
CHANGED_TO = " \N{RIGHTWARDS ARROW} "
"""Between the values before and after a change."""

CHANGE = T.StructType(
    [
        T.StructField("day", T.DateType()),
        *(T.StructField(name, T.StringType()) for name in ("cluster", "app", "group", "kind")),
        T.StructField("last_reason", T.StringType()),
        T.StructField("last_at", T.TimestampType()),
        T.StructField("times", T.LongType()),
    ]
)
"""A new value; ``kind`` is the attribute, ``last_reason`` the values before and after."""


def find_group_changes(
    day: date, known: Iterable[Sample], events: Iterable[Sample]
) -> list[dict[str, Any]]:
    """Return a row of `CHANGE` for each value of a day that no ``known`` record has."""
    before: dict[str, set[str]] = defaultdict(set)
    for record in known:
        if _is_value(record):
            before[record.field or ""].add(record.after or "")
    new: dict[tuple[str, str], Sample] = {}
    for record in events:
        if _is_value(record):
            before[record.field or ""] |= {record.before} if record.before else set()
            key = record.field or "", record.after or ""
            if key not in new or record.ts < new[key].ts:
                new[key] = record
    return [
        {
            "day": day,
            "cluster": first.cluster,
            "app": first.app,
            "group": first.group,
            "kind": field,
            "last_reason": f"{', '.join(sorted(before[field]))}{CHANGED_TO}{value}",
            "last_at": datetime.fromisoformat(first.ts),
            "times": 1,
        }
        for (field, value), first in sorted(new.items())
        if before[field] and value not in before[field]
    ]


def _is_value(record: Sample) -> bool:
    return record.kind is SampleKind.CHANGE and record.field in FIELDS and bool(record.after)
