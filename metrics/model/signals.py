"""What a source saw of one member: the signal, and who is who.

A signal is one fact, already read: "this member raises code 2", "it synced, and must revoke".
Sources make them, the tracker takes them; nothing else passes between the two.
"""

import re
from enum import StrEnum
from typing import NamedTuple

import msgspec

from metrics.model.status import RebalanceStatus


class SourceKind(StrEnum):
    """Where a signal came from; the sample schema's ``source``."""

    LOGS = "logs"
    WIRE = "wire"
    STATS = "stats"
    ADMIN = "admin"
    BROKER_LOG = "broker_log"
    HTTP = "http"


class SignalKind(StrEnum):
    """What a signal tells."""

    RAISE = "raise"
    """A cause was seen: `Signal.status` is its code."""
    SYNC = "sync"
    """The round ended without error; follow-ups say what the same assignment demands at once."""
    LEAVE = "leave"
    """The member left by the user's will: the episode ends with the leave."""
    FAIL = "fail"
    """A fatal join or sync error: a running episode ends as failed, no code."""
    JOIN = "join"
    """A join was sent; without a cause by the time it syncs it is counted, no code."""
    NOTE = "note"
    """A cause that is nobody's code (an admin's leave): recorded for root causes only."""
    SEEN = "seen"
    """Nothing but who it is, and that its source lives."""


class MemberKey(NamedTuple):
    """Identity of one consumer: semantics section 5."""

    cluster: str
    group: str
    client_id: str
    origin: str
    """``group.instance.id`` where there is one, else the stream that the member was seen on."""


class InstanceKey(NamedTuple):
    """Identity of one Kafka Streams instance; the application id is the group id."""

    cluster: str
    group: str
    client_id: str
    origin: str
    """The instance's own ``group.instance.id`` where there is one, else its threads' stream."""


class Member(msgspec.Struct, frozen=True, kw_only=True, rename={"origin": "stream"}):
    """Who speaks. ``member_id`` changes with every join: an attribute, no identity."""

    group: str
    client_id: str
    origin: str
    cluster: str = ""
    group_instance_id: str | None = None
    member_id: str | None = None
    group_type: str = "classic"
    protocol_type: str | None = "consumer"
    assignor: str | None = None
    leader: str | None = None
    """The member id of a classic group's leader, as the last join was answered."""
    host: str = ""
    software: str | None = None
    state: str | None = None
    """A Streams thread's own, as KIP-1091 shows it, where it is known: context, no status."""
    max_poll_interval_s: float | None = None
    """The member's own ``max.poll.interval``, where it is known."""

    @property
    def key(self) -> MemberKey:
        """What identifies this consumer across joins."""
        stream = self.group_instance_id or self.origin
        return MemberKey(self.cluster, self.group, self.client_id, stream)

    @property
    def instance_key(self) -> InstanceKey | None:
        """The Streams instance that this consumer is a thread of, if it is one."""
        thread = streams_thread(self.client_id)
        if thread is None:
            return None
        # StreamsConfig.getMainConsumerConfigs: a thread's group.instance.id is "<id>-<n>";
        # https://github.com/apache/kafka/blob/3.9.0/streams/src/main/java/org/apache/kafka/streams/StreamsConfig.java
        own_id = (self.group_instance_id or "").removesuffix(f"-{thread.thread}")
        return InstanceKey(self.cluster, self.group, thread.instance, own_id or self.origin)


class FollowUp(msgspec.Struct, frozen=True, kw_only=True):
    """A rebalance that an assignment demands. ``at`` and ``due_at`` are Unix seconds."""

    status: RebalanceStatus
    at: float
    reason: str | None = None
    due_at: float | None = None
    """When a probing rebalance is scheduled for; None where it is immediate."""


class Signal(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One observation of one member. ``at`` is Unix seconds of the event's own time.

    A struct is made ten times as fast as a frozen dataclass, and most lines of a client make one.
    """

    kind: SignalKind
    at: float
    member: Member
    source: SourceKind
    status: RebalanceStatus = RebalanceStatus.NONE
    reason: str | None = None
    """The client's own words where there are any."""
    generation: int | None = None
    follow_up: FollowUp | None = None
    """SYNC: the consumer's own follow-up (10): its zero is held."""
    streams_follow_up: FollowUp | None = None
    """SYNC or RAISE: what the streams layer takes (10-13)."""
    gained: int | None = None
    """SYNC: how many partitions or tasks it has that it had not before; None: not known."""


class StreamsThread(NamedTuple):
    """A Streams thread's embedded consumer, taken apart."""

    instance: str
    thread: int


# StreamThread.getConsumerClientId / ClientUtils: "<client>-StreamThread-<n>" + "-consumer";
# https://github.com/apache/kafka/blob/3.9.0/streams/src/main/java/org/apache/kafka/streams/processor/internals/ClientUtils.java
_THREAD = re.compile(r"(?P<instance>.+)-StreamThread-(?P<thread>\d{1,9})-consumer")


def streams_thread(client_id: str) -> StreamsThread | None:
    """Take an embedded consumer's client id apart; None for anything else.

    Restore, admin and producer clients are not members and are not matched.
    """
    match = _THREAD.fullmatch(client_id)
    return None if match is None else StreamsThread(match["instance"], int(match["thread"]))
