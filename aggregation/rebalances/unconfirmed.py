"""Episodes that another agent of the same member has lost: pure.

One agent with all sources of a member drops a status that none of them has confirmed for twice the
member's ``max.poll.interval.ms``. A client's log may not show that setting, so its own agent holds
the status for ten minutes. The agent that sees the member's requests knows the setting. At a hub
its ``lost`` therefore shows for how long any status of that member is valid.

A capture that starts again has missed requests. Its ``lost`` has another reason and ends nothing.

Source: semantics.md section 3 (`stale_after`).
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from aggregation.rebalances.lost_episodes import as_lost
from aggregation.rebalances.segments import JOINED, MemberRef, member_of
from metrics.model.sample import (
    NOT_CONFIRMED,
    Sample,
    SampleKind,
    Scope,
    format_time,
    parse_time,
)
from metrics.model.status import RebalanceStatus
from metrics.tracking.source_traits import PROTOCOL_SOURCES

_Member = tuple[str, str, Scope, MemberRef]
"""Cluster, group, scope and name of a member, as all agents have it."""
_Episode = tuple[str, str | None]
"""Agent and name of an episode."""
_VALID_UNTIL_ENDED = {RebalanceStatus.DROPPED_GROUP, RebalanceStatus.ASSIGNMENT_PROBING}
"""Statuses that no silence ends, or not after this time."""


class _LostStatus(NamedTuple):
    """An agent's ``lost``. ``at`` is Unix seconds."""

    at: float
    valid_s: float
    """Seconds from the last confirmation to the ``lost``."""
    agent: str


class _Unfinished(NamedTuple):
    """An episode's last transition, and its ``lost`` if it has one."""

    last: Sample
    lost: Sample | None


def end_unconfirmed_episodes(records: Sequence[Sample], now: float) -> Sequence[Sample]:
    """Return the records, with an earlier end of each episode that another agent has lost.

    The episode ends as many seconds after its member's last confirmation by any agent as the
    other agent's did, unless that is after ``now`` (Unix seconds).
    """
    members = {_member(record) for record in records if shows_validity(record)}
    if not members:
        return records
    of_member: dict[_Member, list[Sample]] = defaultdict(list)
    for record in records:
        if record.kind is not SampleKind.SAMPLE and (member := _member(record)) in members:
            of_member[member].append(record)
    ends: list[Sample] = []
    late: set[str] = set()
    for own in of_member.values():
        for episode, at in _find_ends(sorted(own, key=lambda each: (each.ts, each.seq)), now):
            ends.append(as_lost(episode.last, format_time(at)))
            late |= {episode.lost.id} if episode.lost is not None else set()
    return [*(record for record in records if record.id not in late), *ends] if ends else records


def _member(record: Sample) -> _Member:
    return record.cluster, record.group, record.scope, member_of(record)


def shows_validity(record: Sample) -> bool:
    """Check for a ``lost`` that shows for how long a status of its member is valid."""
    is_lost = record.kind is SampleKind.LOST and record.reason == NOT_CONFIRMED
    return is_lost and record.source in PROTOCOL_SOURCES


def _find_ends(records: Sequence[Sample], now: float) -> Iterable[tuple[_Unfinished, float]]:
    """Yield one member's episodes that end earlier, and their ends (Unix seconds)."""
    confirmed = sorted({parse_time(each.ts) for each in records if is_confirmation(each)})
    losses = _list_losses(records)
    for (agent, _), (first, episode) in _list_unfinished(records).items():
        until = now if episode.lost is None else parse_time(episode.lost.ts)
        for loss in losses:
            if loss.agent == agent or loss.at < first:
                continue
            at = _valid_until(loss, parse_time(episode.last.ts), confirmed)
            if at < until:
                yield episode, at
                break


def is_confirmation(record: Sample) -> bool:
    """Check for a record that confirms a member's status."""
    if record.kind is SampleKind.CHANGE:
        return record.field == JOINED
    return record.kind in {SampleKind.TRANSITION, SampleKind.SIGNAL}


def _list_losses(records: Iterable[Sample]) -> list[_LostStatus]:
    """Return the times at which agents lost a member's status."""
    confirmed: dict[_Episode, float] = {}
    found: list[_LostStatus] = []
    for record in records:
        episode = record.agent, record.episode
        if is_confirmation(record):
            confirmed[episode] = parse_time(record.ts)
        elif shows_validity(record) and episode in confirmed:
            at = parse_time(record.ts)
            found.append(_LostStatus(at, at - confirmed[episode], record.agent))
    return found


def _list_unfinished(
    records: Iterable[Sample],
) -> Mapping[_Episode, tuple[float, _Unfinished]]:
    """Return the begin of each episode without an end (Unix seconds), and the episode."""
    found: dict[_Episode, tuple[float, _Unfinished]] = {}
    for record in records:
        episode = record.agent, record.episode
        first, known = found.get(episode, (parse_time(record.ts), None))
        if record.kind is SampleKind.LOST and known is not None:
            found[episode] = first, known._replace(lost=record)
        elif record.kind is SampleKind.TRANSITION and record.to in {0, *_VALID_UNTIL_ENDED}:
            found.pop(episode, None)
        elif record.kind is SampleKind.TRANSITION:
            found[episode] = first, _Unfinished(record, None)
    return found


def _valid_until(loss: _LostStatus, since: float, confirmed: Sequence[float]) -> float:
    """Return when a status that was at ``since`` is lost; all times are Unix seconds."""
    at = max(since, loss.at - loss.valid_s)
    while True:
        later = confirmed[bisect_right(confirmed, at + loss.valid_s) - 1]
        if later <= at:
            return at + loss.valid_s
        at = later
