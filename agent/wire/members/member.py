"""One member on the wire: its known state, and its signals."""

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import lru_cache
from typing import Any, NamedTuple

from msgspec.structs import replace

from agent.wire.codec.messages import HostPort, Partition, Partitions
from agent.wire.codec.streams_user_data import SubscriptionInfo
from agent.wire.connection import ConnectionDecoder
from metrics.model.sample import NO_REASON_BACK, clip_reason
from metrics.model.signals import FollowUp, Member, Signal, SignalKind, SourceKind
from metrics.model.status import RebalanceStatus

EMPTY: frozenset[Any] = frozenset()
"""One for all: every other empty set takes 216 bytes, and 20,000 members are remembered."""

_NAMED_MAX = 5_000
"""More than a member has as a rule; a hostile leader may assign 250,000 of 255 characters."""


_POLLING = ("apache-kafka-java", "rdkafka", "kafka-python", "aiokafka")
"""Software that leaves by itself when its poll interval expires; franz-go and sarama do not."""
_RDKAFKA = "rdkafka"
_BACKGROUND_COMMIT_S = 5.0
"""librdkafka commits in the background, so long after the poll (auto.commit.interval.ms)."""
_AT_ONCE_S = 0.5
"""With KIP-848 librdkafka leaves at the first poll behind the interval, and joins at once."""
_TIMER_S = 1.0
"""A client may find its poll interval expired this much sooner, seen from its last request."""
KAFKAJS_ASSIGNOR = "RoundRobinAssigner"


class RevokeProgress(Enum):
    """Progress of an eager member between the news of a rebalance and its JoinGroup."""

    NONE = auto()
    COMMITTED = auto()
    """It has committed, as a Java consumer does right before its revoke callback."""
    RUNS = auto()
    """Nothing but heartbeats has followed: the callback runs, and nobody reads its partitions."""


@dataclass(frozen=True, slots=True)
class SilentLeave:
    """A leave without a reason that may be a drop. ``at`` is Unix seconds."""

    at: float
    topics: frozenset[str] | None
    is_drop: bool
    """The member used to commit, and had stopped."""


class ConfigState(NamedTuple):
    """What a Connect worker's assignment rests on."""

    offset: int
    """Of the config topic."""
    rejoin_at: float | None
    """When the workers join again for tasks that wait (Unix seconds); None: not at all."""


@dataclass(slots=True, kw_only=True, eq=False)
class WireMember:
    """The known state of one member."""

    identity: Member
    process_id: str | None = None
    connections: dict[ConnectionDecoder, None] = field(default_factory=dict)
    merged_into: "WireMember | None" = None
    """The same member, found on both of its connections (a proxy's two sides)."""
    generation: int | None = None
    """The generation, or the member epoch."""
    reported_causes: frozenset[RebalanceStatus] = EMPTY
    """The causes of this rebalance so far: each is reported once."""
    incarnation: int = 0
    """The number of its leaves; a request of an earlier incarnation is void."""
    has_left: bool = False
    assigned: tuple[Partition, ...] | None = None
    """Its partitions since the last rebalance; None: not known."""
    counted_partitions: int = 0
    """Its part of the registry's partitions."""
    joined_at: float = 0.0
    """When its application last joined within a poll (Unix seconds)."""
    committed_at: float | None = None
    """The same of its commits; None: none since it joined."""
    silent_leave: SilentLeave | None = None
    # classic protocol
    topics: frozenset[str] | None = None
    """Its subscribed topics (`share_topics`)."""
    owned: Partitions = EMPTY
    streams_info: SubscriptionInfo | None = None
    follow_up: RebalanceStatus = RebalanceStatus.NONE
    """The follow-up that the last assignment requests of the Streams instance."""
    awaits_sync: bool = False
    has_shown_join: bool = False
    """It was a member, and the request of its join has been reported, without a cause."""
    revocation: RevokeProgress = RevokeProgress.NONE
    gaps_at_join: int = 0
    """The connection's losses when this round's join was sent."""
    config: "ConfigState | None" = None
    """Of a Connect worker: what its last assignment rests on."""
    # consumer, share and streams groups
    subscription: frozenset[str] | None = None
    """The same of these groups."""
    reported: Partitions | None = None
    target: Partitions | None = None
    target_at: float | None = None
    """When an assignment came that is not acknowledged yet (Unix seconds)."""
    confirmed_at: float | None = None
    """When a heartbeat was accepted after a cause that has changed no target (Unix seconds)."""
    warmups: bool = False
    endpoint: HostPort | None = None
    endpoint_epoch: int | None = None
    has_moved: bool = False
    """Its endpoint has changed, and the group does not know yet."""

    def build_signal(  # noqa: PLR0913 - one argument a column that differs
        self,
        kind: SignalKind,
        at: float,
        *,
        status: RebalanceStatus = RebalanceStatus.NONE,
        reason: str | None = None,
        follow_up: FollowUp | None = None,
        streams_follow_up: FollowUp | None = None,
        gained: int | None = None,
        assigned: tuple[str, ...] | None = None,
    ) -> Signal:
        """Return a signal of this member."""
        return Signal(
            kind=kind,
            at=at,
            member=self.identity,
            source=SourceKind.WIRE,
            status=status,
            reason=clip_reason(reason),
            generation=self.generation,
            follow_up=follow_up,
            streams_follow_up=streams_follow_up,
            gained=gained,
            assigned=assigned,
        )

    def reads(self, topics: Collection[str]) -> bool:
        """Return whether its subscription has one of some topics."""
        own = self.topics if self.subscription is None else self.subscription
        return own is not None and not own.isdisjoint(topics)

    def assign(self, partitions: Partitions) -> int | None:
        """Take its current partitions; return the number of new ones, None: not known."""
        before, self.assigned = self.assigned, tuple(partitions)
        return None if before is None else len(partitions.difference(before))

    def report_alive(self, at: float) -> list[Signal]:
        """Return a sign of life."""
        return [self.build_signal(SignalKind.SEEN, at)]

    def report_cause(
        self, status: RebalanceStatus, at: float, reason: str | None, layer: FollowUp | None = None
    ) -> list[Signal]:
        """Return a cause; a repetition in the same rebalance is a sign of life alone."""
        if status in self.reported_causes:
            return self.report_alive(at)
        self.reported_causes |= {status}
        return [
            self.build_signal(
                SignalKind.RAISE, at, status=status, reason=reason, streams_follow_up=layer
            )
        ]

    def report_failure(self, at: float, reason: str) -> list[Signal]:
        """Return the final failure of the rebalance."""
        self.reported_causes = EMPTY
        return [self.build_signal(SignalKind.FAIL, at, reason=reason)]

    def report_refusal(self, at: float, reason: str) -> list[Signal]:
        """Return a refused request of a member that stays in its group."""
        return [self.build_signal(SignalKind.REFUSE, at, reason=reason)]

    def report_leave(self, at: float, reason: str | None) -> list[Signal]:
        """Return the user's leave; once, however many connections show it."""
        if self.has_left:
            return self.report_alive(at)
        left = self._leave_silently(at) if reason is None else None
        self.end_membership()
        self.silent_leave = left
        self.reported_causes = EMPTY
        return [self.build_signal(SignalKind.LEAVE, at, reason=reason)]

    def record_commit(self, at: float) -> None:
        """Remember a commit: its application polled right before, or librdkafka waited a little."""
        self.committed_at = at - (_BACKGROUND_COMMIT_S if self.is_rdkafka else 0.0)

    @property
    def is_rdkafka(self) -> bool:
        """Whether its client joins and commits in the background."""
        return _RDKAFKA in (self.identity.software or "")

    def _leave_silently(self, at: float) -> SilentLeave | None:
        """Return a leave without a reason that the end of the poll interval may explain.

        No client polls, and so joins or commits, within the interval before.
        """
        interval_s, software = self.identity.max_poll_interval_s, self.identity.software
        is_polling = software is None or any(name in software for name in _POLLING)
        if interval_s is None or not is_polling or self.identity.assignor == KAFKAJS_ASSIGNOR:
            return None
        if at - max(self.joined_at, self.committed_at or 0.0) < interval_s - _TIMER_S:
            return None
        topics = self.topics if self.subscription is None else self.subscription
        return SilentLeave(at, topics, is_drop=self.committed_at is not None)

    def report_return(self, topics: frozenset[str] | None, at: float) -> list[Signal]:
        """Return the probable cause of a leave, on a connection that has stayed open.

        A consumer that is closed closes its connections. This one was dropped, or it unsubscribed
        and subscribed again; if it used to commit, it would have done so before.
        """
        left, self.silent_leave = self.silent_leave, None
        if left is None or left.topics != topics:
            return []
        back = f"{NO_REASON_BACK} {at - left.at:.1f} s later on the same connection"
        is_at_once = self.is_rdkafka and at - left.at <= _AT_ONCE_S
        if is_at_once and self.identity.group_type == "consumer":
            status, why = RebalanceStatus.DROPPED_GROUP, ", as librdkafka after a poll timeout"
        elif left.is_drop:
            status, why = RebalanceStatus.DROPPED_GROUP, "; no commit for the poll interval"
        else:
            status, why = RebalanceStatus.USER_REQUESTED, ": a poll timeout, or unsubscribe()"
        return [self.build_signal(SignalKind.NOTE, at, status=status, reason=back + why)]

    def end_membership(self) -> None:
        """Forget the state of a membership."""
        self.has_left = True
        self.incarnation += 1
        self.owned, self.follow_up = EMPTY, RebalanceStatus.NONE
        self.revocation = RevokeProgress.NONE
        self.topics, self.streams_info = None, None  # a later join is a new member's
        self.config = None
        self.assigned, self.committed_at = (), None
        self._reset_heartbeats()

    def reset(self) -> None:
        """Forget a process' state: perhaps this is another one, with its own subscription."""
        self.topics, self.owned, self.streams_info = None, EMPTY, None
        self.follow_up, self.revocation = RebalanceStatus.NONE, RevokeProgress.NONE
        self.reported_causes = EMPTY
        self.silent_leave = self.config = None
        self._reset_heartbeats()

    def _reset_heartbeats(self) -> None:
        """Forget the state of consumer, share and streams groups."""
        self.subscription = self.reported = self.target = None
        self.target_at = self.confirmed_at = None
        self.endpoint = self.endpoint_epoch = None
        self.warmups = self.has_moved = False

    def count_partitions(self) -> int:
        """Return the number of remembered partitions."""
        kept = (self.owned, self.assigned, self.reported, self.target)
        return sum(len(partitions) for partitions in kept if partitions)

    def forget_partitions(self) -> None:
        """Forget all partitions; until the next rebalance nothing is known of them."""
        self.owned, self.assigned, self.reported, self.target = EMPTY, None, None, None

    def learn(self, **changes: str | float | tuple[str, ...] | None) -> None:
        """Change attributes of its identity; None changes nothing."""
        known = {
            name: value
            for name, value in changes.items()
            if value is not None and getattr(self.identity, name) != value
        }
        if known:
            self.identity = replace(self.identity, **known)


def name_partitions(partitions: Partitions) -> tuple[str, ...] | None:
    """Return partitions by topic and number; None for too many to remember by name."""
    if len(partitions) > _NAMED_MAX:
        return None
    return tuple(
        sorted(
            f"{topic if isinstance(topic, str) else topic[1]}-{number}"
            for topic, number in partitions
        )
    )


@lru_cache(maxsize=4096)  # a group's members subscribe to the same: 20,000 sets would be long
def share_topics(topics: frozenset[str]) -> frozenset[str]:
    """Return one set for all that are equal."""
    return topics


def describe_topics(before: frozenset[str], after: frozenset[str]) -> str:
    """Return how a subscription changed, in the words of Kafka's clients."""
    lists = (", ".join(sorted(topics)) for topics in (before, after))
    return "from [{}] to [{}]".format(*lists)
