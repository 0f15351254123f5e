"""Signals: a source's observations of one member, and the identity of that member.

A signal is one parsed observation: "this member raises code 2", "it synced, and must revoke".
Sources produce signals, the tracker applies them; nothing else passes between the two.
"""

import re
from enum import StrEnum
from sys import intern
from typing import NamedTuple

import msgspec
from msgspec.structs import asdict, replace

from metrics.model.status import RebalanceStatus


class SourceKind(StrEnum):
    """Kind of source; the sample schema's ``source``.

    A new kind needs its row in `metrics.tracking.source_traits`.
    """

    LOGS = "logs"
    WIRE = "wire"
    STATS = "stats"
    ADMIN = "admin"
    BROKER_LOG = "broker_log"
    HTTP = "http"


class SignalKind(StrEnum):
    """Kind of an observation."""

    RAISE = "raise"
    """A cause: `Signal.status` is its code."""
    SYNC = "sync"
    """The rebalance ended without error; the same assignment may require follow-ups at once."""
    LEAVE = "leave"
    """The member left by the user's will: the episode ends with the leave."""
    FAIL = "fail"
    """A fatal join or sync error: a running episode ends as failed, no code."""
    JOIN = "join"
    """A join request; if no cause precedes the sync, the join is counted as unexplained."""
    NOTE = "note"
    """A cause without a code (an admin's LeaveGroup): recorded for root causes only."""
    REFUSE = "refuse"
    """A broker refuses what a member of the group asks for: recorded, it moves no status."""
    SEEN = "seen"
    """The member and its labels only; its source is alive."""


class MemberKey(NamedTuple):
    """Identity of one consumer: semantics section 5."""

    cluster: str
    group: str
    client_id: str
    origin: str
    """``group.instance.id`` where there is one, else `Member.origin`."""


class InstanceKey(NamedTuple):
    """Identity of one Kafka Streams instance; the application id is the group id."""

    cluster: str
    group: str
    client_id: str
    origin: str
    """The instance's own ``group.instance.id`` where there is one, else its threads' origin."""


class Member(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"origin": "stream"}
):
    """A member as one source reports it.

    ``member_id`` changes with every join: it is an attribute, not identity. The checkpoint calls
    ``origin`` ``stream``, its name before Kafka Streams took the word.
    """

    group: str
    client_id: str
    origin: str
    """Place of the observation: a log's path, a client's address, a sender of statistics."""
    cluster: str = ""
    group_instance_id: str | None = None
    member_id: str | None = None
    group_type: str = "classic"
    protocol_type: str | None = "consumer"
    assignor: str | None = None
    assignors: tuple[str, ...] | None = None
    """The assignors that it supports, the preferred one first."""
    leader: str | None = None
    """The member id of a classic group's leader, as in the last join response."""
    host: str = ""
    log_file: str = ""
    """The member's own log file, with the name that a collector gives it; empty: not known."""
    software: str | None = None
    state: str | None = None
    """A Streams thread's own state (KIP-1091), if it is known: context, no status."""
    session_timeout_s: float | None = None
    """The member's ``session.timeout``, if known: a dead member expires that long after."""
    max_poll_interval_s: float | None = None
    """The member's own ``max.poll.interval`` in seconds, if it is known."""

    @property
    def key(self) -> MemberKey:
        """The identity of this consumer across joins."""
        stream = self.group_instance_id or self.origin
        return MemberKey(self.cluster, self.group, self.client_id, stream)

    @property
    def instance_key(self) -> InstanceKey | None:
        """The Streams instance of this consumer's thread; None for a plain consumer."""
        thread = streams_thread(self.client_id)
        if thread is None:
            return None
        # StreamsConfig.getMainConsumerConfigs: a thread's group.instance.id is "<id>-<n>";
        # https://github.com/apache/kafka/blob/3.9.0/streams/src/main/java/org/apache/kafka/streams/StreamsConfig.java
        own_id = (self.group_instance_id or "").removesuffix(f"-{thread.thread}")
        return InstanceKey(self.cluster, self.group, thread.instance, own_id or self.origin)


def share_texts(member: Member) -> Member:
    """Return a member of a checkpoint that shares equal texts with all others."""
    fields = asdict(member).items()
    return replace(member, **{name: intern(text) for name, text in fields if type(text) is str})


class FollowUp(msgspec.Struct, frozen=True, kw_only=True):
    """A rebalance that an assignment requires. ``at`` and ``due_at`` are Unix seconds."""

    status: RebalanceStatus
    at: float
    reason: str | None = None
    due_at: float | None = None
    """Scheduled time of a probing rebalance; None: immediate."""


class Signal(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One observation of one member. ``at`` is Unix seconds of the event's own time.

    A struct is built ten times as fast as a frozen dataclass, and most lines of a client build one.
    """

    kind: SignalKind
    at: float
    member: Member
    source: SourceKind
    status: RebalanceStatus = RebalanceStatus.NONE
    reason: str | None = None
    """The client's own text, if there is any."""
    generation: int | None = None
    follow_up: FollowUp | None = None
    """SYNC: the consumer's own follow-up (10); it delays the zero."""
    streams_follow_up: FollowUp | None = None
    """SYNC or RAISE: the follow-up status of the Streams instance (10-13)."""
    gained: int | None = None
    """SYNC: number of new partitions or tasks of the member; None: not known."""
    assigned: tuple[str, ...] | None = None
    """Partitions that the member reads from now on; None: not reported."""
    shift_s: float = 0.0
    """Seconds that the log's own stamp is ahead of ``at``; ids use the stamp as written."""
    joins: bool = False
    """The member has sent its join for the rebalance that runs."""
    sent_at: float | None = None
    """JOIN: when its request was sent, where ``at`` is the time of the response (Unix seconds)."""
    closes: bool = False
    """SEEN: the member's consumer was closed without a leave, as static members and Streams do."""
    is_muted: bool = False
    """The member's log shows drops alone (it is at WARN): it may never show the return."""
    by: str | None = None
    """NOTE: the admin that removes the member, as a JSON object with ``client_id`` and ``host``."""


class StreamsThread(NamedTuple):
    """The parts of an embedded consumer's client id."""

    instance: str
    thread: int


# StreamThread.getConsumerClientId / ClientUtils: "<client>-StreamThread-<n>" + "-consumer";
# https://github.com/apache/kafka/blob/3.9.0/streams/src/main/java/org/apache/kafka/streams/processor/internals/ClientUtils.java
_THREAD = re.compile(r"(?P<instance>.+)-StreamThread-(?P<thread>\d{1,9})-consumer")


def streams_thread(client_id: str) -> StreamsThread | None:
    """Split an embedded consumer's client id; return None for anything else.

    Restore, admin and producer clients are not members and are not matched.
    """
    match = _THREAD.fullmatch(client_id)
    return None if match is None else StreamsThread(match["instance"], int(match["thread"]))
