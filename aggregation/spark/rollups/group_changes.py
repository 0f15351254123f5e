"""Values of settings and client software that are new in a group: pure, but for types.

Theory of operation. A deploy starts new members, and none of them changes a value of its own. So
the values of a day are compared with those that any member of the group had before that day. A
value that comes back within the time for which attributes are kept is no news, nor is a member that
has one of several known values. A new value is shown behind the one that its members, or members of
the same workload, had last: a group that is deployed daily has known dozens.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from typing import Any

from pyspark.sql import types as T  # noqa: N812 - pyspark's own convention

from aggregation.rebalances.departures import workload
from aggregation.rebalances.segments import member_of
from metrics.model.sample import Sample, SampleKind

FIELDS = (
    *("software", "session.timeout.ms", "max.poll.interval.ms", "assignor", "assignors"),
    *("version", "image"),
)
"""Attributes of members that are compared by group."""
CHANGED_TO = " \N{RIGHTWARDS ARROW} "
"""Between the values before and after a change."""
_SHOWN = 3
"""Values before a change, where no member of the same workload had one; the latest ones."""

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
    before: dict[str, dict[str, str]] = defaultdict(dict)
    """Of each attribute, the values that were known, and when each was seen last."""
    of_workload: dict[tuple[object, ...], str] = {}
    for record in sorted(filter(_is_value, known), key=lambda record: record.ts):
        before[record.field or ""][record.after or ""] = record.ts
        of_workload |= dict.fromkeys(_owners(record), record.after or "")
    new: dict[tuple[str, str], list[Sample]] = defaultdict(list)
    for record in sorted(filter(_is_value, events), key=lambda record: record.ts):
        if record.before:
            before[record.field or ""].setdefault(record.before, record.ts)
        new[record.field or "", record.after or ""].append(record)
    return [
        {
            "day": day,
            "cluster": found[0].cluster,
            "app": found[0].app,
            "group": found[0].group,
            "kind": field,
            "last_reason": f"{_spell_before(found, of_workload, before[field])}{CHANGED_TO}{value}",
            "last_at": datetime.fromisoformat(found[0].ts),
            "times": 1,
        }
        for (field, value), found in sorted(new.items())
        if before[field] and value not in before[field]
    ]


def _spell_before(
    changed: Iterable[Sample],
    of_workload: Mapping[tuple[object, ...], str],
    known: Mapping[str, str],
) -> str:
    """Write the values that members had before a change; ``known`` are all, with their times."""
    own = {
        record.before or next((of_workload[k] for k in _owners(record) if k in of_workload), None)
        for record in changed
    }
    latest = sorted(known, key=lambda value: known[value])[-_SHOWN:]
    return ", ".join(sorted(value for value in own if value) or latest)


def _owners(record: Sample) -> tuple[tuple[object, ...], ...]:
    """Return the workload of a record's member, by host and client id, and by client id alone."""
    host, client_id = workload(member_of(record))
    return (record.field, host, client_id), (record.field, client_id)


def _is_value(record: Sample) -> bool:
    return record.kind is SampleKind.CHANGE and record.field in FIELDS and bool(record.after)
