"""Size of a group: members, partitions and hosts, and how they differ from the days before. Pure.

Theory of operation. A day's shape is that after its last whole rebalance that nothing follows
within a minute: members that were assigned in it, and those that own partitions. A member that went
without a report owns nothing once another one has its partitions. Under KIP-848 only those
rebalance that get or lose partitions, so where no source shows assignments there is no shape. A
shape is compared with those of a week, so that a group which grows and shrinks daily has no news,
and pods of one Deployment count as one host.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

import msgspec

from aggregation.rebalances.rebalances import ExplainedRebalance
from aggregation.rebalances.segments import MemberRef, member_of
from aggregation.spark.rollups.group_changes import CHANGED_TO
from metrics.model.partitions import parse_partitions
from metrics.model.sample import Outcome, Sample, SampleKind, format_time

DAYS = 7
"""Shapes that are kept: one a day."""
_WEEK_S = 7 * 86_400.0
_POD = re.compile(r"-[a-z0-9]{5,10}-[a-z0-9]{5}$")
"""The end of a Deployment's pod: the hash of its template, and its own."""
_SETTLE_S = 60.0
_SLACK_S = 5.0
"""An assignment is reported a little after the rebalance."""
_MAX_HOSTS = 200
"""Hosts of a larger group are not compared."""
_NAMES_SHOWN = 3


class Shape(msgspec.Struct, frozen=True):
    """A group after a rebalance."""

    at: float
    """Unix seconds."""
    members: int
    partitions: int | None = None
    """None where no source shows assignments."""
    hosts: tuple[str, ...] = ()


def find_shape(
    rebalances: Sequence[ExplainedRebalance], records: Iterable[Sample], since: float
) -> Shape | None:
    """Return the shape after the last settled rebalance that began at ``since`` or later.

    ``rebalances`` are in order of their starts.
    """
    last = _find_settled(rebalances, since)
    if last is None:
        return None
    at = last.round.ended_at
    present = _find_assigned(last)
    partitions = None
    if not any(member.twin for member in present.values()):
        gone = {each.member.key for each in last.round.consumers} - present.keys()
        owners = _find_owners(records, format_time(at + _SLACK_S))
        partitions = len(owners) or None
        present |= {key: each for each in owners.values() if (key := each.key) not in gone}
    if partitions is None and last.round.group_type == "consumer":
        return None
    hosts = {_POD.sub("", member.host) for member in present.values()} - {""}
    shown = sorted(hosts) if len(hosts) <= _MAX_HOSTS else ()
    return Shape(at, len(present), partitions, tuple(shown))


def _find_settled(
    rebalances: Sequence[ExplainedRebalance], since: float
) -> ExplainedRebalance | None:
    following = float("inf")
    for each in reversed(rebalances):
        if each.round.started_at < since:
            return None
        if (
            not each.round.is_open
            and not each.is_end
            and following - each.round.ended_at > _SETTLE_S
        ):
            return each
        following = each.round.started_at
    return None


def _find_assigned(rebalance: ExplainedRebalance) -> dict[tuple[str, ...], MemberRef]:
    """Return the members that got an assignment in it and did not go after that."""
    found: dict[tuple[str, ...], MemberRef] = {}
    for part in sorted(rebalance.round.consumers, key=lambda part: part.ended_at):
        if part.outcome is Outcome.SYNCED and part.is_round:
            found[part.member.key] = part.member
        else:
            found.pop(part.member.key, None)
    return found


def _find_owners(records: Iterable[Sample], until: str) -> dict[str, MemberRef]:
    """Return who owns each partition at a time (RFC 3339): the last one that got it."""
    latest: dict[tuple[str, ...], Sample] = {}
    for record in records:
        if record.kind is SampleKind.CHANGE and record.field == "partitions" and record.ts <= until:
            key = member_of(record).key
            if key not in latest or (latest[key].ts, latest[key].seq) <= (record.ts, record.seq):
                latest[key] = record
    return {
        partition: member_of(record)
        for record in sorted(latest.values(), key=lambda record: (record.ts, record.seq))
        for partition in parse_partitions(record.after)
    }


def describe_changes(shape: Shape, before: Sequence[Shape]) -> Mapping[str, str]:
    """Return what is new in a shape, by name: members, partitions, hosts."""
    if not before:
        return {}
    found, last = {}, before[-1]
    counts = [each.members for each in before if each.at > shape.at - _WEEK_S] or [last.members]
    if not min(counts) <= shape.members <= max(counts):
        found["members"] = f"{last.members}{CHANGED_TO}{shape.members}"
    known = [each.partitions for each in before if each.partitions is not None]
    if known and shape.partitions is not None and shape.partitions not in known:
        found["partitions"] = f"{known[-1]}{CHANGED_TO}{shape.partitions}"
    seen = {host for each in before for host in each.hosts}
    new, gone = set(shape.hosts) - seen, set(last.hosts) - set(shape.hosts)
    if new and last.hosts:
        found["hosts"] = (
            f"{_spell(gone)}{CHANGED_TO}{_spell(new)}" if gone else f"with {_spell(new)}"
        )
    return found


def _spell(hosts: set[str]) -> str:
    shown = sorted(hosts)[:_NAMES_SHOWN]
    more = len(hosts) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def change_rows_of(
    day: date, shape: Shape, before: Sequence[Shape], names: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return what is new in a day's shape as rows of `group_changes.CHANGE`."""
    return [
        {
            "day": day,
            **names,
            "kind": kind,
            "last_reason": text,
            "last_at": datetime.fromtimestamp(shape.at, UTC),
            "times": 1,
        }
        for kind, text in describe_changes(shape, before).items()
    ]
