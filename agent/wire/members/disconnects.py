"""Ended origins: their members lost every connection, and none reconnected in time."""

from dataclasses import dataclass, field
from typing import NamedTuple

from agent.wire.connection import ConnectionClosed
from agent.wire.members.member_registry import MemberRegistry

RECONNECT_S = 60.0
"""Clients try again every second (librdkafka: 10 s at most), and a broker restarts within this."""


class EndedOrigin(NamedTuple):
    """An origin that has ended."""

    name: str
    by_client: bool
    """Its client ended the last connection: the process has ended, or cannot reach the broker."""


class _Disconnect(NamedTuple):
    at: float
    by_client: bool


@dataclass(slots=True)
class DisconnectTracker:
    """The origins that lost a connection, and the time of the loss (Unix seconds)."""

    registry: MemberRegistry
    limit: int = 20_000
    """Origins remembered; beyond it the earliest end before their time."""
    _losses: dict[str, _Disconnect] = field(default_factory=dict)

    def record(self, end: ConnectionClosed) -> None:
        """Record the end of a connection, before its members lose it."""
        for origin in self.registry.list_origins_on(end.connection):
            self._losses.pop(origin, None)
            self._losses[origin] = _Disconnect(end.at, end.by_client)

    def take_all(self) -> list[EndedOrigin]:
        """Return all origins that have lost their connections, at the end of the input."""
        return self._take(list(self._losses))

    def take_expired(self, now: float) -> list[EndedOrigin]:
        """Return the origins that have ended; each once."""
        late = [name for name, loss in self._losses.items() if now >= loss.at + RECONNECT_S]
        return self._take(late or [*self._losses][: -self.limit])

    def _take(self, names: list[str]) -> list[EndedOrigin]:
        connected = self.registry.list_connected_origins() if names else set[str]()
        found = [EndedOrigin(name, self._losses.pop(name).by_client) for name in names]
        return [each for each in found if each.name not in connected]
