"""Causes of which no client is known yet: a later line of the stream names it.

Theory of operation. kafka-python prints that its poll interval expired, and the group only in the
next line, when it leaves; an excerpt has no line above that names it. Such a cause waits for an
event that shows the client. It waits in the interpreter, not in the bytes, so that nothing depends
on where they were cut. If no event comes in time, its group stands for the client; without a group
it is given up, and counted.
"""

from collections import deque
from collections.abc import Iterable
from typing import Any

import msgspec

from agent.sources.lines.dialects.dialect import Action, LogEvent
from agent.sources.logs.client_state import ClientState
from metrics.model.sample import clip_reason
from metrics.model.signals import Member, Signal, SignalKind, SourceKind

_LIMIT = 16
"""Causes that wait at once; with more of them, the oldest waits no longer."""
_WAITS_S = 10.0
"""A client that repeats its cause for longer will not name itself soon."""
_NAMING = {
    Action.JOIN,
    Action.SETTLE,
    Action.SYNC,
    Action.LEAVE,
    Action.FAIL,
    Action.IDENTIFY,
}
"""Effects that name the client where a cause waits; a further cause waits, too."""


class UnplacedCause(msgspec.Struct, kw_only=True):
    """One cause that waits; an empty group of its member is not known."""

    signal: Signal
    rule: str
    drops: bool


class UnplacedCauses:
    """The causes of one stream of which no client is known."""

    def __init__(self) -> None:
        """Create an empty store."""
        self.given_up = 0
        """Causes without a group that no line has named."""
        self.waiting = deque[UnplacedCause]()

    def keep(self, event: LogEvent, at: float, member: Member, source: SourceKind) -> bool:
        """Let a cause wait, or give it up; return whether it waits. ``at`` is Unix seconds."""
        rule = event.rule
        if rule.action is not Action.RAISE:
            return False
        if rule.after or rule.joined_only:  # it means nothing but for a known client
            return False
        signal = Signal(
            kind=SignalKind.RAISE,
            at=at,
            member=member,
            source=source,
            status=rule.status,
            reason=clip_reason(event.captures.get("reason")),
        )
        self.waiting.append(UnplacedCause(signal=signal, rule=rule.name, drops=rule.drops))
        return True

    def is_named_by(self, event: LogEvent) -> bool:
        """Return whether the event shows the client of a cause that waits."""
        return bool(self.waiting) and event.rule.action in _NAMING

    def take(self, client: ClientState) -> list[Signal]:
        """Return the causes of a client, which takes them."""
        out = list[Signal]()
        waiting, self.waiting = self.waiting, deque()
        for cause in waiting:
            if cause.signal.member.group not in {"", client.member.group}:
                self.waiting.append(cause)
                continue
            out.append(msgspec.structs.replace(cause.signal, member=client.member))
            if cause.drops:
                client.drop(cause.rule, cause.signal.at)
        return out

    def find_overdue(self, now: float) -> str:
        """Return the group of a cause that waits for too long at Unix seconds ``now``.

        Causes without a group are given up. An empty text: no cause waits for too long.
        """
        while self.waiting:
            first = self.waiting[0].signal
            if now <= first.at + _WAITS_S and len(self.waiting) <= _LIMIT:
                break
            if first.member.group:
                return first.member.group
            self.waiting.popleft()
            self.given_up += 1
        return ""

    def state(self) -> list[Any]:
        """Return the state for a checkpoint, in types that JSON can carry."""
        state: list[Any] = msgspec.to_builtins(list(self.waiting))
        return state

    def restore(self, state: Iterable[Any]) -> None:
        """Restore a `state`."""
        self.waiting = deque(msgspec.convert(list(state), list[UnplacedCause]))
