"""Ended origins: their members lost every connection, and none reconnected in time."""

from dataclasses import dataclass, field

from agent.wire.connection import ConnectionDecoder
from agent.wire.members.member_registry import MemberRegistry

RECONNECT_S = 60.0
"""Clients try again every second (librdkafka: 10 s at most), and a broker restarts within this."""


@dataclass(slots=True)
class DisconnectTracker:
    """The origins that lost a connection, and the time of the loss (Unix seconds)."""

    registry: MemberRegistry
    limit: int = 20_000
    """Origins remembered; beyond it the earliest end before their time."""
    _disconnected_at: dict[str, float] = field(default_factory=dict)

    def record(self, connection: ConnectionDecoder, at: float) -> None:
        """Record the end of a connection, before its members lose it."""
        for member in self.registry.list_on(connection):
            self._disconnected_at.pop(member.identity.origin, None)
            self._disconnected_at[member.identity.origin] = at

    def take_all(self) -> list[str]:
        """Return all origins that have lost their connections, at the end of the input."""
        connected = self.registry.list_connected_origins()
        lost = [stream for stream in self._disconnected_at if stream not in connected]
        self._disconnected_at.clear()
        return lost

    def take_expired(self, now: float) -> list[str]:
        """Return the origins that have ended; each once."""
        late = [stream for stream, at in self._disconnected_at.items() if now >= at + RECONNECT_S]
        late = late or [*self._disconnected_at][: -self.limit]
        for stream in late:
            del self._disconnected_at[stream]
        connected = self.registry.list_connected_origins() if late else set[str]()
        return [stream for stream in late if stream not in connected]
