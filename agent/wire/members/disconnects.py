"""Which streams have ended: their members' connections have gone, and none came back in time."""

from dataclasses import dataclass, field

from agent.wire.connection import Connection
from agent.wire.members.member_registry import Speakers

GONE_S = 60.0
"""Clients try again every second (librdkafka: 10 s at most), and a broker restarts within this."""


@dataclass(slots=True)
class Departures:
    """The streams that lost a connection, and since when (Unix seconds)."""

    speakers: Speakers
    limit: int = 20_000
    """Streams remembered; beyond it the earliest are over before their time."""
    _left: dict[str, float] = field(default_factory=dict)

    def closed(self, connection: Connection, at: float) -> None:
        """Take the end of a connection, before its speakers lose it."""
        for speaker in connection.speakers.values():
            self._left.pop(speaker.member.origin, None)
            self._left[speaker.member.origin] = at

    def due(self, now: float) -> list[str]:
        """Return the streams that are over; each once."""
        late = [stream for stream, at in self._left.items() if now >= at + GONE_S]
        late = late or [*self._left][: -self.limit]
        for stream in late:
            del self._left[stream]
        connected = self.speakers.connected() if late else set[str]()
        return [stream for stream in late if stream not in connected]
