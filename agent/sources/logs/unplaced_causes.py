"""Causes of which no client is known yet: a later line of the stream names it.

Theory of operation. kafka-python prints that its poll interval expired, and the group only in the
next line, when it leaves; an excerpt has no line above that names it. Such a cause waits for the
first event that shows the client. It waits in the interpreter, not in the bytes, so that nothing
depends on where they were cut.
"""

from collections import deque
from collections.abc import Iterable
from typing import Any

import msgspec

from agent.sources.lines.dialect import Action, LogEvent
from agent.sources.logs.client_state import ClientState
from metrics.model.signals import Member, Signal, SignalKind, SourceKind

_LIMIT = 16
"""Causes that wait at once; the oldest is given up first."""
_WAITS_S = 300.0
"""Kafka's default max.poll.interval: no join takes longer, so what comes later is another one's."""
_NAMING = {
    Action.JOIN,
    Action.SETTLE,
    Action.SYNC,
    Action.LEAVE,
    Action.FAIL,
    Action.IDENTIFY,
}
"""Effects that name the client where a cause waits; a further cause waits, too."""


class _Cause(msgspec.Struct, kw_only=True):
    """One cause that waits; an empty group of its member is not known."""

    signal: Signal
    rule: str
    drops: bool


class UnplacedCauses:
    """The causes of one stream of which no client is known."""

    def __init__(self) -> None:
        """Create an empty store."""
        self.groupless = 0
        """Causes that were given up, and name no group."""
        self.memberless = 0
        """Causes that were given up, and name a group."""
        self.waiting = deque[_Cause]()

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
            reason=event.captures.get("reason"),
        )
        self.waiting.append(_Cause(signal=signal, rule=rule.name, drops=rule.drops))
        if len(self.waiting) > _LIMIT:
            self._give_up(self.waiting.popleft())
        return True

    def is_named_by(self, event: LogEvent) -> bool:
        """Return whether the event shows the client of a cause that waits."""
        return bool(self.waiting) and event.rule.action in _NAMING

    def take(self, client: ClientState, at: float) -> list[Signal]:
        """Return the causes of a client, which an event at Unix seconds ``at`` shows."""
        out = list[Signal]()
        waiting, self.waiting = self.waiting, deque()
        for cause in waiting:
            group = cause.signal.member.group
            if group and group != client.member.group:
                self.waiting.append(cause)
            elif at > cause.signal.at + _WAITS_S:
                self._give_up(cause)
            else:
                out.append(msgspec.structs.replace(cause.signal, member=client.member))
                if cause.drops:
                    client.drop(cause.rule, cause.signal.at)
        return out

    def flush(self) -> None:
        """Give up what waits, at the end of the stream."""
        while self.waiting:
            self._give_up(self.waiting.popleft())

    def state(self) -> list[Any]:
        """Return the state for a checkpoint, in types that JSON can carry."""
        state: list[Any] = msgspec.to_builtins(list(self.waiting))
        return state

    def restore(self, state: Iterable[Any]) -> None:
        """Restore a `state`."""
        self.waiting = deque(msgspec.convert(list(state), list[_Cause]))

    def _give_up(self, cause: _Cause) -> None:
        if cause.signal.member.group:
            self.memberless += 1
        else:
            self.groupless += 1
