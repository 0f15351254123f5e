"""One consumer in a DEBUG log: its status, from its requests and their responses."""

import re
from typing import TYPE_CHECKING

from tests.soak.causes import RAISED_BY_ERROR, REVOKE, code_of, error_of
from tests.soak.debug_log import IN_GROUP, JOINS
from tests.soak.embedded import Partitions, assigned, owned, subscribed
from tests.soak.lives import CROSSING_S, Left

if TYPE_CHECKING:
    from tests.soak.oracle import Process

_THREAD = re.compile(r"(?P<instance>.+)-StreamThread-\d+-consumer")
_RETRIABLE = {14, 15, 16}
PROBE = 11
_ANSWERED_BY = {"SYNC_GROUP": (0, 1, 3, 4, 9, REVOKE), "JOIN_GROUP": (2, 3, 9)}
_ANSWERED_IN_GROUP = (1, 3, 4)
_DOUBT_S, _THREAD_DOUBT_S = 16.0, 600.0
"""Twice the `max.poll.interval.ms` of the soak's consumers, and of Streams. A status that nothing
has confirmed for this long may be lost; 11 (probing), this long after its rebalance is due."""
_DOUBT_AGAIN_S, _LOOKED_S = 30.0, 2.0
"""An agent searches for stale statuses once a second: one may be lost between any two lines."""
_DROPPED, _ASKED, _SUBSCRIBED = 5, 6, 8
_DROP = "poll timeout has expired"


class Client:
    """One consumer."""

    def __init__(self, process: "Process", client_id: str) -> None:
        self.status = self.demand = 0
        self._process, self._client_id = process, client_id
        self._doubtful_at = self._stale_at = self._asked_at = self._due = 0.0
        self._has_other_cause = False
        self.begin_anew()

    def begin_anew(self) -> None:
        """Reset the state for another consumer with this name: its requests count from 0 again."""
        self.waits_for_sync = self._is_out = False
        self._left_at = self._last = -1
        self._left: Left | None = None
        self._in_flight: dict[int, str] = {}
        self._owned: dict[str, Partitions] = {}
        self._subscribed: tuple[str, frozenset[str]] | None = None

    def end(self) -> None:
        """Give up the requests in flight: the process has ended."""
        for number, api in [*self._in_flight.items()]:
            self.give_up(number, api)

    def is_in_doubt(self, at: float) -> bool:
        """Return whether its status or follow-up may be lost: nothing has confirmed it for long."""
        is_held = self.demand or self.status not in {0, _DROPPED}
        if not is_held or at < self._doubtful_at:
            return False
        if at > self._stale_at + _LOOKED_S:
            self._doubtful_at = at + _DOUBT_AGAIN_S
        return True

    @property
    def has_owned(self) -> bool:
        """Whether it owned partitions at its last join."""
        return any(self._owned.values())

    def revoke(self) -> None:
        """Raise RevocationNeeded (10): the assignment lacks partitions that it owned."""
        self._raise(REVOKE)

    def ask(self, api: str, number: int, body: str) -> None:
        if number < self._last:  # a thread that was added has the name of one that was removed
            self.begin_anew()
        self._last, self._in_flight[number] = number, api
        self.waits_for_sync = self.waits_for_sync or api == "SYNC_GROUP"
        if api == "LEAVE_GROUP":
            self._is_out, self._left_at = True, number
            is_dropped, position = _DROP in body, self._process.position(self._client_id)
            code = _DROPPED if is_dropped else _ASKED
            self._left = Left(position, self.status, code)
            self._raise(code)
            if not is_dropped:
                self.demand = 0
                self.settle()
        elif api == "JOIN_GROUP":
            self._is_out = False
            self._confirm()
            self._owned = owned(body)
            self._raise(code_of(body))
            self._raise(self._resubscribe(body))

    def _resubscribe(self, body: str) -> int:
        """Return SubscriptionChanged (8) if a member joins again with other topics, else 0.

        It may have subscribed during a join that is repeated for another cause. Then the join's
        reason does not name the subscription, and the log may show only the other cause.
        """
        before, self._subscribed = self._subscribed, subscribed(body)
        if before is None or self._subscribed is None or before[0] != self._subscribed[0]:
            return 0
        is_same = before[1] == self._subscribed[1]
        return 0 if is_same or not self._process.is_changed(self._client_id) else _SUBSCRIBED

    def cancel(self, number: int, api: str) -> None:
        """Give a request up: the client has cancelled it.

        Its response may still have passed the wire. If it was a SyncGroup response, the wire has
        reported the end of the rebalance, and the status is 0 for the agent.
        """
        self.give_up(number, api)
        is_sync = api == "SYNC_GROUP" and self.status > 0
        if is_sync and not self._process.is_unanswered(self._client_id):
            self.settle()

    def give_up(self, number: int, api: str) -> None:
        self._in_flight.pop(number, None)
        if api in IN_GROUP and api != "LEAVE_GROUP":
            self._process.give_up(self._client_id, _ANSWERED_BY.get(api, _ANSWERED_IN_GROUP))

    def request(self, reason: str) -> None:
        before = self.status
        self._raise(code_of(reason))
        if before < self.status:
            self._asked_at, self._has_other_cause = self._process.at, before > 0

    def answer(self, api: str, number: int, body: str) -> None:
        self._in_flight.pop(number, None)
        self.waits_for_sync = self.waits_for_sync and api != "SYNC_GROUP"
        error = error_of(body)
        if api == "LEAVE_GROUP":
            return
        if self._is_out or number <= self._left_at:  # asked before it left
            is_sync = (api, error) == ("SYNC_GROUP", 0)
            end = REVOKE if is_sync and self._revokes(body) else 0
            self._cross(end if is_sync else RAISED_BY_ERROR.get(error))
            return
        if api == "SYNC_GROUP" and error == 0:
            self._sync(body)
        elif error not in _RETRIABLE or api in JOINS:
            self._raise(RAISED_BY_ERROR.get(error, 0))

    def _sync(self, body: str) -> None:
        (_, got), revokes = assigned(body), self._revokes(body)
        self._due = got.due
        self._confirm()
        if got.demand == REVOKE:
            self.demand = max(self.demand, REVOKE)
        elif not revokes:
            self.demand = 0
        if revokes:
            self.revoke()
        else:
            self.settle()
        if got.demand == PROBE:  # its own rebalance is over; another one is pending
            self.demand = max(self.demand, PROBE)
            self._process.follow(self._client_id)

    def demands(self, body: str) -> bool:
        """Return whether an assignment requires another rebalance."""
        return self._revokes(body) or assigned(body)[1].demand != 0

    def _revokes(self, body: str) -> bool:
        """Return whether an assignment lacks partitions that the member owned at its join."""
        protocol, got = assigned(body)
        return bool(self._owned.get(protocol, frozenset()) - got.partitions)

    def _cross(self, code: int | None) -> None:
        """Note a response that came after a leave, if it would have changed the status before it.

        The response may be late by any time: a member that is stuck reads it at its next poll.
        """
        if code is None or self._left is None:
            return
        left, crossed = self._left, [code]
        is_move = code > left.status or code == 0 < left.status
        if code == 0 and left.status >= left.code:  # the leave was a cause of its own then
            crossed.append(left.code)
        if is_move:
            self._process.lives.cross(left.position, tuple(crossed))

    def _confirm(self) -> None:
        is_thread = instance_of(self._client_id) is not None
        doubt_s = _THREAD_DOUBT_S if is_thread else _DOUBT_S
        self._doubtful_at = self._stale_at = max(self._process.at, self._due) + doubt_s

    def _raise(self, code: int) -> None:
        if code:
            self._confirm()
        if code > self.status:
            if self._has_just_asked():
                self._process.lives.delay(self._client_id, "masked")
            self._move(code)
        elif 0 < code < self.status:
            self._has_other_cause = True
            self._process.lives.mask(self._client_id, code, self._process.at)
            self._process.follow(self._client_id, code)

    def _has_just_asked(self) -> bool:
        return self._asked_at > 0 and self._process.at - self._asked_at <= CROSSING_S

    def settle(self) -> None:
        """Go to status 0; without a status, only update the instance: its follow-up is over."""
        if self.status:
            if self._has_just_asked() and self._has_other_cause:
                self._process.lives.delay(self._client_id)
            self._move(0)
        else:
            self._process.follow(self._client_id)

    def _move(self, status: int) -> None:
        self.status, self._asked_at = status, 0.0
        self._process.lives.tell(self._client_id, status, self._process.at)
        self._process.follow(self._client_id)


def instance_of(client_id: str) -> str | None:
    """Return the name of the Streams instance of a thread's client id; None: it is no thread."""
    match = _THREAD.fullmatch(client_id)
    return None if match is None else match["instance"]
