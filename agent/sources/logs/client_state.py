"""State of one client of a log stream, and the filter of its outdated events.

Theory of operation. An event can be a late report: the response to a request of an older generation
or from before a leave, the leave that follows a poll timeout, a revocation during a close.
`ClientState.is_outdated` detects that before `ClientState.learn` applies the event.
"""

from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from agent.sources.lines.dialect import CLASSIC, Action, LogEvent, Rule
from metrics.model.partitions import is_partition
from metrics.model.signals import Member, Signal, streams_thread
from metrics.model.status import RebalanceStatus

_IN_EVERY_PROTOCOL = {Action.IDENTIFY, Action.STATE, Action.ASSIGNED, Action.IGNORE}
_ANNOUNCED_S = 15.0
"""Validity of a changed subscription as the cause of a changed assignment: the target is computed
between two heartbeats, at most group.consumer.max.heartbeat.interval.ms apart."""


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


@dataclass(slots=True, kw_only=True)
class ClientState:
    """One client of the stream."""

    member: Member
    lane: str
    """Its client id, or its Streams instance's: the queue behind one held sync."""
    generation: int | None = None
    held: PendingSignal | None = None
    announced: Announced | None = None
    subscription: str | None = None
    """Text of the last line about it."""
    assignment: str | None = None
    """Text of the last assignment that it took."""
    partitions: set[str] = field(default_factory=set)
    """Partitions that it reads, as far as its lines show them."""
    left: bool = False
    dropped: bool = False
    """The poll interval expired and no join has followed: the next leave belongs to the drop."""

    def is_named(self, client_id: str, group: str, instance_id: str | None) -> bool:
        """Return whether this client has these names; another one can have its handle."""
        member = self.member
        return (
            member.client_id == client_id
            and member.group == group
            and member.group_instance_id == instance_id
        )

    def is_outdated(self, event: LogEvent) -> bool:
        """Return whether the event is a late report that proves nothing."""
        rule = event.rule
        if rule.joined_only and not self._is_in(rule):
            return True
        if rule.action is Action.LEAVE and self.dropped is not self.left:
            return True  # the leave of the drop, or a second line about the same leave
        if self.left and rule.answers:
            return True
        sent = event.captures.get("sent_generation")
        return sent is not None and self.generation is not None and int(sent) < self.generation

    def is_nowhere(self, rule: Rule) -> bool:
        """Return whether the client joins before its cluster, a part of its key, is known.

        Clients of the new protocols do; they print the Cluster ID next.
        """
        joins = rule.status is RebalanceStatus.NEW_MEMBER
        return joins and rule.group_type != CLASSIC and not self.member.cluster

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
            return event.captures.get("assignment") != self.assignment
        if rule.action is Action.SETTLE:
            return False
        return None if rule.action in _IN_EVERY_PROTOCOL else True

    def learn(self, event: LogEvent, own_cluster: str) -> None:
        """Apply the event to the state; ``own_cluster`` is the configured one."""
        rule = event.rule
        if rule.names or rule.group_type != self.member.group_type:
            self._learn_names(event, own_cluster)
        generation = event.captures.get("generation")
        if generation is not None:
            self.generation = int(generation)
        if rule.assigns:
            self.assignment = event.captures["assignment"]
        if rule.parts:
            self._learn_membership(rule)

    def move(self, event: LogEvent) -> tuple[str, ...]:
        """Return the partitions that the client reads after a line about some of them."""
        self.partitions |= _names(event.captures.get("added"))
        self.partitions -= _names(event.captures.get("revoked"))
        return tuple(sorted(self.partitions))

    def announce(self, event: LogEvent, at: float) -> None:
        """Keep a cause until the assignment changes."""
        reason = event.captures.get("reason")
        if reason != self.subscription:
            self.announced = Announced(status=event.rule.status, at=at, reason=reason)
        self.subscription = reason

    def explain(self, change: Signal) -> list[Signal]:
        """Return, once, the cause that announced a changed assignment, at the change's time."""
        announced, self.announced = self.announced, None
        if announced is None or change.at - announced.at > _ANNOUNCED_S:
            return []
        return [msgspec.structs.replace(change, status=announced.status, reason=announced.reason)]

    def _learn_membership(self, rule: Rule) -> None:
        if rule.joins or rule.action is Action.LEAVE:
            self.dropped = self.dropped and not rule.joins and not self.left
            self.left, self.announced = (
                not rule.joins,
                None,
            )  # it belongs to the join
        elif rule.status is RebalanceStatus.DROPPED_GROUP:
            self.dropped = True
        elif self.member.group_type != CLASSIC:
            self.left = True  # FATAL is out of the group: closing leaves nothing

    def _is_in(self, rule: Rule) -> bool:
        """Return whether this is a known member, in the rule's protocol."""
        if rule.action is not Action.LEAVE and (self.left or self.dropped):
            return False
        classic = self.member.group_type == CLASSIC
        if rule.group_type == CLASSIC:
            return classic and self.generation is not None
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
        group_type = _group_type(event.rule, member)
        if group_type != member.group_type:
            changes["group_type"] = group_type
            changes["protocol_type"] = "consumer" if group_type == CLASSIC else None
        if changes:
            self.member = replace(member, **changes)


def _group_type(rule: Rule, member: Member) -> str:
    """Return the group type of the event; some texts occur in every protocol."""
    if rule.group_type == member.group_type or rule.joined_only:
        return member.group_type
    if rule.action in _IN_EVERY_PROTOCOL:
        return member.group_type
    if rule.group_type == "consumer" and streams_thread(member.client_id) is not None:
        return "streams"  # KIP-1071 has the texts of KIP-848; only the client's name differs
    return rule.group_type


def _names(text: str | None) -> set[str]:
    """Return the partitions in a list such as ``[orders-0, orders-1]``."""
    names = (text or "").strip("[] ").split(", ")
    return {name for name in names if is_partition(name)}
