"""Consumers of one log with the same client id and group: threads of one process, mixed replicas.

Theory of operation. Member ids distinguish them. A new member id is another consumer's if a line of
the former one is less than `_RESTART_S` old and its client has not ended, or if the former one
comes back: Kafka gives none twice. A line without a member id is of the consumer whose phase it
fits, the longest silent first: one that is stable is asked to rejoin, one that was asked joins.
So numbers and codes are right, while of two consumers that could have printed a line either may be
named. A drop waits for the leave behind it, which has the member id. Partitions are not reported:
which of them reads one is not sure.
"""

import re
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from agent.sources.lines.dialects.dialect import Action, LogEvent
from agent.sources.logs.client_state import ClientState, Phase
from metrics.model.status import RebalanceStatus

DROP_WAITS_S = 5.0
"""The leave of a drop is in one of the next lines."""
_RESTART_S = 3.0
"""A JVM does not end, start and join within that time."""
_WAY_OUT_S = 0.5
"""A client's leave, and what it gives up then, are in neighbouring lines."""
_MEMBER_ID = re.compile(r".{0,300}[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}|[\w-]{22}")
"""A broker appends a UUID to the client id; clients of the new protocols make one of 22 characters.
A layout may print more behind one at the end of a line."""


class PendingDrop(NamedTuple):
    """A line about a dropped client, and its time (Unix seconds)."""

    event: LogEvent
    at: float


class _Fit(IntEnum):
    """Order of the consumers that may have printed a line; the first is chosen."""

    BEST = 0
    POSSIBLE = 1
    ODD = 2
    GONE = 3


_FITS = {
    Action.JOIN: {Phase.ASKED: _Fit.BEST, Phase.OUT: _Fit.POSSIBLE},
    Action.RAISE: {Phase.STABLE: _Fit.BEST, Phase.ASKED: _Fit.POSSIBLE},
    Action.LEAVE: {
        Phase.STABLE: _Fit.BEST,
        Phase.ASKED: _Fit.POSSIBLE,
        Phase.JOINING: _Fit.POSSIBLE,
    },
    Action.ASSIGNED: {Phase.SYNCED: _Fit.BEST},
    Action.FOLLOW_UP: {Phase.SYNCED: _Fit.BEST},
    Action.IDENTIFY: {Phase.SYNCED: _Fit.BEST},
    Action.CLOSE: {Phase.OUT: _Fit.BEST},
    Action.ANNOUNCE: {Phase.OUT: _Fit.BEST, Phase.STABLE: _Fit.POSSIBLE},
}
_SECOND = {Phase.ASKED: _Fit.BEST}
"""Of a cause that follows another one."""
_SECONDS = {RebalanceStatus.REVOCATION_NEEDED, RebalanceStatus.NEW_MEMBER}
"""The latter without member id: the line before it has that."""
_RESPONSE = re.compile(
    r"(?:Sync|Join)Group failed|from (?:SYNC|JOIN)_GROUP response|^rebalance failed due to"
)
"""A join that failed. Several lines report it; one that was removed has no member id behind the
first of them."""
_FAILED = {Phase.JOINING: _Fit.BEST, Phase.ASKED: _Fit.POSSIBLE}


def find_namesake(own: Sequence[ClientState], event: LogEvent, at: float) -> ClientState | None:
    """Return the consumer that has printed a line at Unix seconds ``at``; None: a new one."""
    member_id = event.captures.get("member_id", "")
    if not is_sure(event):
        return own[0] if len(own) == 1 else _find_fitting(own, event, at)
    for client in own:
        if client.member.member_id == member_id:
            return client
    if any(member_id in client.member_ids for client in own):
        return None
    free = [each for each in own if each.has_no_id or at - each.named_at > _RESTART_S]
    return min(free, key=_order_of_new, default=None)


def _order_of_new(client: ClientState) -> tuple[bool, bool, float]:
    """Return the place among those that a new member id may be of: one that has left is last."""
    return not client.has_no_id, client.phase is Phase.OUT, client.named_at


def is_sure(event: LogEvent) -> bool:
    """Return whether a line has the member id of the client that printed it."""
    return _MEMBER_ID.fullmatch(event.captures.get("member_id", "")) is not None


def _find_fitting(own: Sequence[ClientState], event: LogEvent, at: float) -> ClientState:
    is_second = event.rule.status in _SECONDS
    is_response = not is_second and _RESPONSE.search(event.captures.get("reason", "")) is not None
    fits = _SECOND if is_second else _FITS.get(event.rule.action, {})
    fits = _FAILED if is_response else fits

    def order(client: ClientState) -> tuple[bool, _Fit, float]:
        is_behind = client.last_rule in event.rule.after
        is_behind |= is_response and client.phase is Phase.ASKED and client.has_no_id
        is_behind |= _is_on_way_out(client, event, at)
        odd = _Fit.GONE if client.phase is Phase.OUT else _Fit.ODD
        return not is_behind, fits.get(client.phase, odd), client.seen_at

    return min(own, key=order)


def _is_on_way_out(client: ClientState, event: LogEvent, at: float) -> bool:
    """Check that a client has just left, and now gives up its partitions: KIP-848 prints it so."""
    is_revocation = event.rule.status is RebalanceStatus.REVOCATION_NEEDED
    is_out = client.phase is Phase.OUT and at - client.seen_at < _WAY_OUT_S
    return is_revocation and is_out and client.last_rule != event.rule.name
