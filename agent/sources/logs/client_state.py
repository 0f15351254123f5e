"""State of one client of a log stream, and the filter of its outdated events.

Theory of operation. An event can be a late report: the response to a request of an older generation
or from before a leave, the leave that follows a poll timeout, a revocation during a close.
`ClientState.is_outdated` detects that before `ClientState.learn` applies the event.
"""

from dataclasses import dataclass
from enum import IntEnum

import msgspec
from msgspec.structs import replace

from agent.sources.lines.dialects.dialect import CLASSIC, Action, LogEvent, Rule
from agent.sources.logs.partition_budget import NAMED_MAX
from agent.sources.logs.partition_lists import read_partitions
from metrics.model.names import clip_name
from metrics.model.sample import clip_reason
from metrics.model.signals import Member, Signal, SignalKind, streams_thread
from metrics.model.status import RebalanceStatus

_IN_EVERY_PROTOCOL = {
    Action.IDENTIFY,
    Action.MANUAL,
    Action.STATE,
    Action.ASSIGNED,
    Action.IGNORE,
    Action.ANNOUNCE,
    Action.CLOSE,
}
_NONE_LEFT = "[]"
"""Partitions revoked before a first join. Java's classic clients before 2.4 print all that they
have within brackets, so that the process is a new one. Later clients print no brackets.
https://github.com/apache/kafka/blob/2.1.1/clients/src/main/java/org/apache/kafka/clients/consumer/internals/ConsumerCoordinator.java
"""
_MEMBER_IDS = 8
_DROPS_S = 10.0
"""Least time between two drops, where max.poll.interval is not known."""
_SETTLES_S = 5.0
"""Longest time between the ends of one rebalance in replicas."""
_ANNOUNCED_S = 15.0
"""Validity of a changed subscription as the cause of a changed assignment: the target is computed
between two heartbeats, at most group.consumer.max.heartbeat.interval.ms apart."""


class Phase(IntEnum):
    """Where a client is in its rebalance, as far as its lines show."""

    OUT = 0
    """It is in no group."""
    ASKED = 1
    """It has a cause to join."""
    JOINING = 2
    SYNCED = 3
    """It has its assignment, and has not taken it yet."""
    STABLE = 4


_PHASES = {
    Action.RAISE: Phase.ASKED,
    Action.JOIN: Phase.JOINING,
    Action.SYNC: Phase.SYNCED,
    Action.ASSIGNED: Phase.STABLE,
    Action.SETTLE: Phase.STABLE,
    Action.LEAVE: Phase.OUT,
    Action.CLOSE: Phase.OUT,
    Action.FAIL: Phase.OUT,
}
_REMOVALS = {
    RebalanceStatus.UNKNOWN_MEMBER,
    RebalanceStatus.STALE_MEMBER,
    RebalanceStatus.DROPPED_GROUP,
}
"""Codes of a client whose next member id is another one."""


class PendingSignal(msgspec.Struct, kw_only=True):
    """A signal in a lane; a held sync is not ready yet."""

    signal: Signal
    ready: bool = True


@dataclass(slots=True, kw_only=True)
class Announced:
    """A cause that becomes visible with a changed assignment. ``at`` is Unix seconds."""

    status: RebalanceStatus
    at: float
    reason: str | None


class ClientState(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One client of the stream. Its text in a checkpoint has what is not the default."""

    member: Member
    lane: str
    """Its client id, or its Streams instance's: the queue behind one held sync."""
    generation: int | None = None
    held: PendingSignal | None = None
    announced: Announced | None = None
    subscription: str | None = None
    """Text of the last line about it, clipped as a name: a subscription may have a MiB."""
    joined_subscription: str | None = None
    """The one that its last join carried."""
    assignment: str | None = None
    """Text of the last assignment that it took, clipped as a name."""
    partitions: set[str] = msgspec.field(default_factory=set)
    """Partitions that it reads, as far as its lines show them."""
    target: frozenset[str] | None = None
    """Partitions that it is to read once it has acknowledged them; None: none are pending."""
    target_size: int | None = None
    """Number of those; None: all stood in one line."""
    left: bool = False
    is_returning: bool = False
    """It has left, and no sync has followed: it is a new member, whatever it joined with before."""
    has_joined: bool = False
    """It is in the group since its last join as a new member."""
    dropped: bool = False
    """The poll interval expired and no join has followed: the next leave belongs to the drop."""
    dropped_at: float = 0.0
    dropped_by: str | None = None
    """The rule that reported the drop."""
    returned: bool = False
    """The drop is a second one, so the member was back: lines of its return are not logged."""
    last_rule: str = ""
    member_ids: list[str] = msgspec.field(default_factory=list)
    """Its last member ids; Kafka gives none twice."""
    is_mixed: bool = False
    """A former member id, a name or a generation came back: several processes print the names."""
    former_names: list[str] = msgspec.field(default_factory=list)
    """Client ids that its handle had before: lines of these clients name a group alone."""
    is_muted: bool = True
    """No line but those of drops was read: the log is at WARN."""
    has_causes_alone: bool = True
    """No line but those of causes was read: nothing that a client prints at INFO."""
    settled_at: float = 0.0
    """Time (Unix seconds) of the last end of a rebalance without a member id."""
    is_reported: bool = False
    """A signal has carried its names."""
    settings_head: str | None = None
    """First line of the settings that it printed when it began."""
    phase: Phase = Phase.OUT
    has_no_id: bool = True
    """Its next member id is a new one."""
    named_at: float = 0.0
    """Time (Unix seconds) of its last line with a member id."""
    seen_at: float = 0.0
    """Time (Unix seconds) of its last line."""

    def describe(self) -> str:
        """Return its names, and those that its handle had before."""
        member = self.member
        if self.former_names:
            return f"clients {', '.join(sorted((*self.former_names, member.client_id)))}"
        return f"client {member.client_id}" if member.client_id else f"a client of {member.group}"

    def is_anonymous_in(self, group: str) -> bool:
        """Return whether the log has not named this client, which is the group's."""
        return not self.member.client_id and self.member.group == group

    def name(self, client_id: str, instance_id: str | None) -> None:
        """Name a client, unless signals have reported it without a name."""
        if client_id and not self.is_reported:
            self.member = replace(self.member, client_id=client_id, group_instance_id=instance_id)

    def is_named(self, client_id: str, group: str, instance_id: str | None) -> bool:
        """Return whether this client has these names; another one can have its handle."""
        member = self.member
        return (
            member.client_id == client_id
            and member.group == group
            and member.group_instance_id == instance_id
        )

    def follow(self, event: LogEvent, at: float) -> None:
        """Note the phase that an event at Unix seconds ``at`` shows."""
        rule = event.rule
        self.seen_at = at
        if event.captures.get("member_id"):
            self.named_at, self.has_no_id = at, False
        self.phase = _PHASES.get(rule.action, self.phase)
        if rule.subscribes and self.phase is Phase.OUT:
            self.phase = Phase.ASKED
        self.has_no_id = self.has_no_id or self.phase is Phase.OUT or rule.status in _REMOVALS

    def begin_again(self, settings_head: str | None) -> None:
        """Forget the membership of a client that was killed: a new one has printed settings."""
        self.settings_head = settings_head
        self.has_no_id = True
        self.has_joined, self.announced, self.assignment = False, None, None
        self.subscription = self.joined_subscription = None
        self.partitions.clear()
        self.target = None

    def clip_texts(self) -> None:
        """Clip texts that an older release has kept whole."""
        for name in ("subscription", "joined_subscription", "assignment"):
            text = getattr(self, name)
            if text is not None:
                setattr(self, name, clip_name(text))

    @property
    def partition_chars(self) -> int:
        """Characters of its partitions."""
        return sum(map(len, self.partitions))

    def is_out_of_place(self, rule: Rule) -> bool:
        """Return whether another line must stand before the rule's; remember the rule."""
        is_out_of_place = bool(rule.after) and self.last_rule not in rule.after
        self.last_rule = "" if is_out_of_place else rule.name
        return is_out_of_place

    def is_repeated_drop(self, rule: Rule, at: float) -> bool:
        """Return whether the event repeats the drop before it; a later one is another drop.

        Nobody is dropped twice without a return in between, even if no line shows it.
        """
        is_second = self.dropped and self.dropped_by == rule.name
        is_repeated = is_second and at < self.dropped_at + _DROPS_S
        self.returned = is_second and not is_repeated
        if not is_second or self.returned:
            self.dropped_at = at
        return is_repeated

    def compare_generation(self, event: LogEvent, at: float) -> None:
        """Note whether several processes write as this client, by the generations of its joins.

        Replicas end a rebalance together; a line that two appenders print has one time.
        """
        generation = event.captures.get("generation")
        is_end = event.rule.action in {Action.SETTLE, Action.SYNC}
        if not is_end or generation is None or self.member.member_id:
            return
        is_again = int(generation) == self.generation
        self.is_mixed |= is_again and 0 < at - self.settled_at < _SETTLES_S
        self.settled_at = at

    def replace_client(self, former: "ClientState", generation: str | None) -> None:
        """Take the handle of another client; one that comes back was never gone."""
        name = self.member.client_id
        is_again = name in former.former_names
        is_same_round = generation is not None and former.generation == int(generation)
        self.is_mixed = former.is_mixed or is_again or is_same_round
        names = [*former.former_names, former.member.client_id]
        self.former_names = [each for each in dict.fromkeys(names) if each != name][-_MEMBER_IDS:]

    def drop(self, rule: str, at: float) -> None:
        """Note a drop of the past, at Unix seconds ``at``: its leave follows."""
        self.dropped, self.dropped_by, self.dropped_at = True, rule, at

    def is_outdated(self, event: LogEvent) -> bool:
        """Return whether the event is a late report that proves nothing."""
        rule = event.rule
        if rule.joined_only and not self._is_in(rule):
            return not (rule.drops and self.is_muted)
        if rule.action is Action.LEAVE and self.dropped is not self.left:
            return True  # the leave of the drop, or a second line about the same leave
        if self.left and (rule.answers or rule.enforces):
            return True
        if self.is_returning and rule.compares:
            return True
        sent = event.captures.get("sent_generation")
        return sent is not None and self.generation is not None and int(sent) < self.generation

    def is_nowhere(self, rule: Rule) -> bool:
        """Return whether the client joins before its cluster, a part of its key, is known.

        Clients of the new protocols do; they print the Cluster ID next.
        """
        joins = rule.status is RebalanceStatus.NEW_MEMBER
        return joins and rule.group_type != CLASSIC and not self.member.cluster

    def is_unnamed(self, rule: Rule) -> bool:
        """Return whether this is the first signal of a client that a response may name.

        Bindings of librdkafka drop the client's name; its first member id has it.
        """
        is_new = not self.member.client_id and not self.is_reported and self.held is None
        return is_new and rule.action is Action.JOIN

    def is_unsure(self, rule: Rule) -> bool:
        """Return whether only later events show if the assignment has changed.

        StreamsMembershipManager, from 4.2, also reconciles a change of the group's readiness.
        """
        asks = rule.status is RebalanceStatus.COORDINATOR_REQUESTED
        return asks and self.member.group_type == "streams" and self.assignment is not None

    def changes(self, event: LogEvent) -> bool | None:
        """Return whether the event shows a changed assignment; None if it shows neither.

        An assignment that is settled without being taken, or taken again, is unchanged.
        """
        rule = event.rule
        if rule.assigns:
            return clip_name(event.captures.get("assignment", "")) != self.assignment
        if rule.action is Action.SETTLE:
            return False
        return None if rule.action in _IN_EVERY_PROTOCOL else True

    def learn(self, event: LogEvent, own_cluster: str) -> None:
        """Apply the event to the state; ``own_cluster`` is the configured one."""
        rule = event.rule
        self.is_muted = self.is_muted and rule.drops
        self.has_causes_alone = self.has_causes_alone and rule.action is Action.RAISE
        if rule.names or rule.group_type != self.member.group_type:
            self._learn_names(event, own_cluster)
        if rule.drops and "max_poll_ms" in event.captures:
            seconds = int(event.captures["max_poll_ms"]) / 1000
            self.member = replace(self.member, max_poll_interval_s=seconds)
        generation = event.captures.get("generation")
        if generation is not None:
            self.generation = int(generation)
            # in the classic protocol it is in the group with the sync, not with the join
            is_join = rule.action is Action.IDENTIFY and rule.group_type == CLASSIC
            self.has_joined = self.has_joined or not is_join
            self.is_returning = self.is_returning and is_join
        is_in = generation is not None or "member_id" in event.captures
        if rule.action is Action.SETTLE and is_in:  # of a client whose log shows no join
            self.left = self.dropped = False
        if rule.assigns:
            self.assignment = clip_name(event.captures["assignment"])
        if rule.parts:
            self._learn_membership(rule)
        if rule.action is Action.JOIN:
            self.joined_subscription = self.subscription

    def move(self, event: LogEvent) -> tuple[str, ...] | None:
        """Return the partitions that the client reads after a line about some of them.

        None: the line changes nothing yet, or the client's partitions before it are not known.
        """
        if event.rule.targets:
            self._aim(event)
            return None
        if event.rule.reaches_target:
            if self.target is None or self._is_cut():
                self.target = None
                return None
            self.partitions, self.target = set(self.target), None
            return tuple(sorted(self.partitions))
        if self.target is not None and not self.partitions and event.captures.get("revoked"):
            return None
        added, revoked = event.captures.get("added"), event.captures.get("revoked")
        if "owned" in event.rule.captures or (revoked or "").startswith(_NONE_LEFT):
            # a capture of nothing: it has none any more
            self.partitions = set(read_partitions(event.captures.get("owned", "")))
        if added:
            self.partitions |= read_partitions(added)
        if revoked:
            self.partitions -= read_partitions(revoked)
        return tuple(sorted(self.partitions))

    def _aim(self, event: LogEvent) -> None:
        """Note partitions that it is to read: all of them, their number, or one more."""
        seen = event.captures
        if "target_size" in seen:
            self.target, self.target_size = frozenset(), int(seen["target_size"])
        elif "target_part" in seen:
            if self.target is not None and len(self.target) <= NAMED_MAX:
                self.target |= read_partitions(seen["target_part"])
        else:
            target = read_partitions(seen.get("target", ""))
            self.target, self.target_size = target if len(target) <= NAMED_MAX else None, None

    def _is_cut(self) -> bool:
        """Return whether lines of the target are missing, or too many."""
        size, self.target_size = self.target_size, None
        return self.target is not None and size is not None and size != len(self.target)

    def announce(self, event: LogEvent, at: float, *, is_valid: bool) -> None:
        """Keep a cause until the next join or changed assignment, if ``is_valid``."""
        status, reason = event.rule.status, event.captures.get("reason")
        text = None if reason is None else clip_name(reason)
        is_subscription = status is RebalanceStatus.SUBSCRIPTION_CHANGED
        if is_subscription and text is not None and text == self.joined_subscription:
            self.announced = None  # it came back to what the group knows
        elif is_valid and not (is_subscription and text == self.subscription):
            self.announced = Announced(status=status, at=at, reason=clip_reason(reason))
        if is_subscription:
            self.subscription = text

    def causes_before(self, signal: Signal) -> list[Signal]:
        """Return the causes that this signal implies, at its time: announced ones, a return."""
        causes = []
        if self.returned:
            self.returned = False
            none = RebalanceStatus.NONE
            causes.append(
                msgspec.structs.replace(signal, kind=SignalKind.SYNC, status=none, reason=None)
            )
        if self.announced is not None and self._shows_announced(signal):
            announced, self.announced = self.announced, None
            if signal.at - announced.at <= _ANNOUNCED_S:
                cause = {"status": announced.status, "reason": announced.reason}
                causes.append(msgspec.structs.replace(signal, kind=SignalKind.RAISE, **cause))
        return causes

    def _shows_announced(self, signal: Signal) -> bool:
        """Return whether an announced cause has led to this signal.

        In the classic protocol it is the join, unless another cause has led to that; in the new
        ones it is the changed assignment.
        """
        requested = signal.status is RebalanceStatus.COORDINATOR_REQUESTED
        if self.member.group_type != CLASSIC:
            return requested
        if signal.kind is SignalKind.RAISE and not requested:
            self.announced = None
        return signal.kind is SignalKind.JOIN

    def _learn_membership(self, rule: Rule) -> None:
        if rule.joins or rule.action is Action.LEAVE:
            self.dropped = self.dropped and not rule.joins and not self.left
            if self.left or not rule.joins:  # a new member, or none
                self.has_joined, self.assignment = False, None
            self.left = not rule.joins
            if self.left or self.member.group_type != CLASSIC:
                self.announced = None  # it belongs to the join
            if self.left:
                self.is_returning = True
                self.subscription = self.joined_subscription = None
        elif rule.status is RebalanceStatus.DROPPED_GROUP:
            self.dropped_by = self.dropped_by if self.dropped else rule.name
            self.dropped = True
        elif self.member.group_type != CLASSIC:
            self.left = True  # FATAL is out of the group: closing leaves nothing

    def _is_in(self, rule: Rule) -> bool:
        """Return whether this is a known member, in the rule's protocol."""
        if rule.action is not Action.LEAVE and (self.left or self.dropped):
            return False
        if rule.action is Action.ANNOUNCE:
            return self.has_joined
        classic = self.member.group_type == CLASSIC
        if rule.group_type == CLASSIC:
            return classic and self.has_joined
        return not classic

    def _learn_names(self, event: LogEvent, own_cluster: str) -> None:
        seen, member = event.captures, self.member
        changes: dict[str, str | None] = {}
        for name in event.rule.names:
            found = seen.get(name)
            if found is None or found == getattr(member, name):
                continue
            if name != "cluster" or not own_cluster:
                changes[name] = found
            if name == "member_id":
                self.is_mixed = self.is_mixed or found in self.member_ids
                self.member_ids = [*self.member_ids[1 - _MEMBER_IDS :], found]
        group_type = _group_type(event.rule, member)
        if group_type != member.group_type:
            changes["group_type"] = group_type
            changes["protocol_type"] = "consumer" if group_type == CLASSIC else None
        if member.protocol_type != "connect" and event.rule.dialect.startswith(_CONNECT):
            changes["protocol_type"] = "connect"
        if changes:
            self.member = replace(member, **changes)


_CONNECT = "kafka-connect-"
"""Dialects of Kafka Connect's workers, which are no consumers."""


def _group_type(rule: Rule, member: Member) -> str:
    """Return the group type of the event; some texts occur in every protocol."""
    if rule.group_type == member.group_type or (rule.joined_only and not rule.drops):
        return member.group_type
    if rule.any_protocol or rule.action in _IN_EVERY_PROTOCOL:
        return member.group_type
    if rule.group_type == "consumer" and streams_thread(member.client_id) is not None:
        return "streams"  # KIP-1071 has the texts of KIP-848; only the client's name differs
    return rule.group_type
