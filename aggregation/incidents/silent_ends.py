"""Ends of members that nobody else noticed: no rebalance shows them. Pure.

A member that dies sends no leave, nor does a static member or a Streams thread that is closed. The
coordinator removes it when its session ends. The others then rebalance, and the member was absent.
The last members have nobody beside them. Their end is shown by their own closing lines, or by their
connections: their clients ended them, and sent nothing for a session.

In a group of KIP-848 or KIP-1071 the others may not notice either: an expired member had no
partitions, or those of a topic that no other member reads.

Source: incidents.md 1a.13 and 2 (`session_expired`).
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from aggregation.incidents.attributes import Attributes
from aggregation.incidents.settings import BROKER_SESSION_S
from aggregation.rebalances.segments import MemberRef

_SLACK_S = 1.0
"""A last request may be dated a little before the assignment that is its response."""
_CLOSING_S = 5.0
"""A client gives up its partitions less than this before its closing line."""
_NOTICE_S = 15.0
"""The others learn within this that a member has expired: three heartbeat intervals of brokers."""
_BEFORE_S = 0.001
"""The end is before it gave them up, so that they count as lost by the end."""
_Keys = Mapping[tuple[str, ...], float]


class SilentEnd(NamedTuple):
    """The end of one member. ``at`` (Unix seconds) is its close, or the end of its session."""

    at: float
    member: MemberRef
    is_closed: bool


def find_silent_ends(
    members: Iterable[MemberRef], took_part_until: _Keys, attributes: Attributes, until: float
) -> list[SilentEnd]:
    """Return the ends of a group's members, by time; empty unless all have ended.

    Their sessions have ended by ``until``. ``took_part_until`` are the ends of their parts in
    rebalances. All instants are Unix seconds.
    """
    found: list[SilentEnd] = []
    for member in members:
        since = took_part_until.get(member.key, float("-inf")) - _SLACK_S
        ends = _list_ends(member, since, attributes, until)
        last = max(ends, key=lambda each: (each.is_closed, each.at), default=None)
        if last is None or _is_back(last, attributes, until):
            return []
        found.append(last)
    return sorted(found, key=lambda each: (each.at, each.member.key))


def find_unnoticed_ends(
    members: Mapping[tuple[str, ...], MemberRef],
    took_part_until: _Keys,
    attributes: Attributes,
    until: float,
) -> list[SilentEnd]:
    """Return the ends of single members, by time; no other member has taken part in a rebalance.

    Their sessions ended `_NOTICE_S` before ``until``. All instants are Unix seconds.
    """
    found: list[SilentEnd] = []
    for key in members.keys() & attributes.silences.keys():
        since = took_part_until.get(key, float("-inf")) - _SLACK_S
        ends = _list_ends(members[key], since, attributes, until - _NOTICE_S)
        last = max((end for end in ends if not end.is_closed), default=None)
        if last is not None and not _is_back(last, attributes, until):
            found.append(last)
    return sorted(found, key=lambda each: (each.at, each.member.key))


def _list_ends(
    member: MemberRef, since: float, attributes: Attributes, until: float
) -> Iterator[SilentEnd]:
    key = member.key
    for closed_at in attributes.closes.get(key, ()):
        expires_at = closed_at + _session_of(key, closed_at, attributes)
        if closed_at >= since and expires_at <= until:
            stopped_at = _find_stop(key, closed_at, attributes)
            yield SilentEnd(stopped_at, member, is_closed=True)
    for silence in attributes.silences.get(key, ()):
        expires_at = silence.since + _session_of(key, silence.since, attributes)
        if silence.since >= since and expires_at <= min(until, silence.at):
            close = _find_close(key, silence.since - _SLACK_S, expires_at, attributes)
            at = expires_at if close is None else _find_stop(key, close, attributes)
            yield SilentEnd(at, member, is_closed=close is not None)


def _find_close(
    key: tuple[str, ...], since: float, until: float, attributes: Attributes
) -> float | None:
    """Return when a member closed: its last request is a little before its closing line."""
    closes = (at for at in attributes.closes.get(key, ()) if since <= at <= until)
    return min(closes, default=None)


def _find_stop(key: tuple[str, ...], closed_at: float, attributes: Attributes) -> float:
    """Return when a member that closed gave up its partitions: right before it, if at all."""
    changes = attributes.changes_of_member.get(key, ())
    index = bisect_right(changes, closed_at, key=lambda each: each.at) - 1
    is_of_close = (
        index >= 0 and not changes[index].owned and changes[index].at >= closed_at - _CLOSING_S
    )
    return changes[index].at - _BEFORE_S if is_of_close else closed_at


def _session_of(key: tuple[str, ...], at: float, attributes: Attributes) -> float:
    """Return a session timeout in seconds; a default of all group types if no source shows it."""
    known = attributes.session_of(key, at)
    return BROKER_SESSION_S if known is None else known


def _is_back(end: SilentEnd, attributes: Attributes, until: float) -> bool:
    """Check that a member got partitions after its end, although its group noticed nothing."""
    changes = attributes.changes_of_member.get(end.member.key, ())
    first = bisect_right(changes, end.at + _SLACK_S, key=lambda each: each.at)
    return any(change.owned for change in changes[first:] if change.at <= until)
