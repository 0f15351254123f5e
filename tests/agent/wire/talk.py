"""Conversations for tests: clients that talk to a broker, read by the real decoder."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from agent.wire.codec.messages import HostPort
from agent.wire.connection import ConnectionClosed, ConnectionDecoder
from agent.wire.members.group_decoder import GroupDecoder
from agent.wire.members.member import WireMember
from metrics.model.signals import Signal, SignalKind
from tests.agent.wire.frames import HEARTBEAT, JOIN_GROUP, SYNC_GROUP, answer, assignment, request
from tests.agent.wire.frames import subscription as metadata

BROKER = HostPort("10.0.0.9", 9092)


@dataclass(slots=True)
class Wire:
    """A broker, the decoder beside it, and a clock that ticks with every message."""

    counts: Counter[str] = field(default_factory=Counter)
    interpreter: GroupDecoder = field(default_factory=GroupDecoder)
    at: float = 1_000.0
    ports: int = 50_000

    def connect(
        self, client_id: str = "m1", host: str = "10.0.0.1", server: HostPort = BROKER
    ) -> "Talk":
        self.ports += 1
        connection = ConnectionDecoder(
            client=HostPort(host, self.ports), server=server, counts=self.counts, in_step=True
        )
        return Talk(self, connection, client_id)


@dataclass(slots=True)
class Talk:
    """One connection."""

    wire: Wire
    connection: ConnectionDecoder
    client_id: str
    asked: tuple[int, int, int] = (0, 0, 0)
    log: list[tuple[bool, bytes]] = field(default_factory=list)
    """Whether the client sent it, and the bytes."""

    def members(self) -> list[WireMember]:
        """Return the members on this connection."""
        return self.wire.interpreter.registry.list_on(self.connection)

    def ask(self, api_key: int, version: int, **values: Any) -> list[Signal]:
        """Send a request; return the signals of the request alone."""
        self.asked = (api_key, version, self.asked[2] + 1)
        return self.send(request(*self.asked, self.client_id, **values))

    def tell(self, **values: Any) -> list[Signal]:
        """Respond to the last request; return the signals of the response."""
        return self.receive(answer(*self.asked, **values))

    def send(self, frame: bytes) -> list[Signal]:
        self.log.append((True, frame))
        self.wire.at += 1.0
        events = self.connection.feed_client(frame, self.wire.at)
        return [signal for event in events for signal in self.wire.interpreter.decode(event)]

    def receive(self, frame: bytes) -> list[Signal]:
        self.log.append((False, frame))
        self.wire.at += 1.0
        events = self.connection.feed_broker(frame, self.wire.at)
        return [signal for event in events for signal in self.wire.interpreter.decode(event)]

    def close(self) -> None:
        self.wire.interpreter.decode(ConnectionClosed(self.connection, self.wire.at))

    def join(
        self,
        member_id: str = "m1-a",
        *,
        topics: tuple[str, ...] = ("t",),
        owned: dict[str, list[int]] | None = None,
        protocol: str = "range",
        reason: str | None = None,
        version: int = 9,
        user_data: bytes = b"",
        group: str = "g",
        **values: Any,
    ) -> list[Signal]:
        """Send a JoinGroup."""
        each = {"name": protocol, "metadata": metadata([*topics], owned, user_data)}
        return self.ask(
            JOIN_GROUP,
            version,
            group_id=group,
            member_id=member_id,
            protocol_type="consumer",
            protocols=(each,),
            reason=reason,
            **values,
        )

    def joined(
        self,
        member_id: str = "m1-a",
        *,
        generation: int = 1,
        protocol: str = "range",
        error: int = 0,
        leader: str = "",
    ) -> list[Signal]:
        """Answer the JoinGroup."""
        return self.tell(
            error_code=error,
            generation_id=generation,
            member_id=member_id,
            protocol_name=protocol,
            leader=leader,
        )

    def sync(
        self, member_id: str = "m1-a", *, generation: int = 1, group: str = "g", **values: Any
    ) -> list[Signal]:
        """Send a SyncGroup."""
        names = {"group_id": group, "generation_id": generation, "member_id": member_id}
        return self.ask(SYNC_GROUP, 5, **names, **values)

    def synced(
        self,
        partitions: dict[str, list[int]] | None = None,
        *,
        error: int = 0,
        user_data: bytes = b"",
    ) -> list[Signal]:
        """Answer the SyncGroup."""
        given = assignment(partitions or {}, user_data)
        return self.tell(error_code=error, assignment=given)

    def heartbeat(
        self,
        member_id: str = "m1-a",
        *,
        generation: int = 1,
        error: int = 0,
        version: int = 4,
        group: str = "g",
    ) -> list[Signal]:
        """Send a Heartbeat and a response; return the signals of the response."""
        self.ask(HEARTBEAT, version, group_id=group, generation_id=generation, member_id=member_id)
        return self.tell(error_code=error)

    def settle(self, member_id: str = "m1-a", *, generation: int = 1, **how: Any) -> list[Signal]:
        """Join and sync without a visible cause; return the signals of the sync."""
        self.join(member_id, **how)
        self.joined(member_id, generation=generation, protocol=how.get("protocol", "range"))
        self.sync(member_id, generation=generation)
        return self.synced({"t": [0, 1]})


def got(signals: list[Signal]) -> list[tuple[str, int]]:
    """Return short forms of signals, without those that only show a live member."""
    return [
        (str(each.kind), int(each.status)) for each in signals if each.kind is not SignalKind.SEEN
    ]
