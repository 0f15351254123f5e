"""Meaning of a group coordinator's lines: every group of one broker's log.

Theory of operation. A line reports one fact about a group and mostly names a member. A line that
begins a rebalance gives the named member its code, and CoordinatorRequested (1) to the other known
members. ``assigned`` (Stabilized) shows the members of the generation; ``sync`` (the leader's
assignment has come, a target was computed) ends the rebalance for them. ``settle`` is a member's
own end, or an empty group. ``announce`` is a rebalance with an earlier cause, or the broker's own.

The interpreter does not guess. Members that joined before the begin of the log are unknown until a
line names them. Brokers do not log the follow-up that an assignment requires, so a cooperative
follow-up is a separate episode. In the new protocols the line of an epoch names its originator, but
not the members with a changed assignment.

A removed member has failed as soon as the group has settled without it. After an expired poll
interval a member holds DroppedGroup (5) until it is back, `DROPPED_S` at most: no line reports its
death.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from agent.sources.broker_logs.membership import (
    CLASSIC,
    NONE,
    CoordinatorGroup,
    CoordinatorMember,
    GroupTable,
)
from agent.sources.broker_logs.signals import (
    COORDINATOR_REQUESTED,
    DROPPED_GROUP,
    UNKNOWN_MEMBER,
    build_signal,
    complete,
    raise_once,
    read_client_reason,
    report_cause,
    report_join,
    report_others,
)
from agent.sources.lines.dialects.dialect import Action, LogEvent
from agent.wire.members.kip800_reasons import is_poll_timeout
from metrics.model.sample import clip_reason
from metrics.model.signals import Signal, SignalKind, SourceKind
from metrics.model.status import RebalanceStatus

DROPPED_S = 600.0
"""How long a member may stay away after its poll interval expired: the default ``stale_after``."""
_GROUP_LIMIT = 20_000
"""Groups remembered of one log; the longest silent goes first."""
_PARTY_LIMIT = 20_000
"""Members remembered of one log, in all groups: a removed one waits for its group's next round."""
_BROKERS_MAX = 64
_TELLS_ENDS = {"share", "streams"}
"""Group types with assignment states of members in every log."""
_ASSIGNED_IN = re.compile(r"@\d+")
"""The epoch of a task's assignment (4.4); it is 0 when a static member is back."""
# AbstractCoordinator.maybeLeaveGroup's callers in Kafka 3.2 to 4.3; franz-go's consumer_group.go
_OWN_LEAVES = {
    "the consumer is being closed",
    "the consumer unsubscribed from all topics",
    "taking too long to read the log",
    "client leaving group per normal operation",
}


class DroppedMember(NamedTuple):
    """A member with an expired poll interval, and the time of that (Unix seconds)."""

    at: float
    group: str
    member_id: str


def _ignore_departure(_: str, __: float) -> None:
    """Do nothing: a callback that is not needed."""


@dataclass(slots=True, eq=False)
class CoordinatorInterpreter:
    """An interpreter of the events of one broker's log."""

    cluster: str = ""
    on_departure: Callable[[str, float], None] = _ignore_departure
    """Takes the origin of a member that has gone for good."""
    table: GroupTable = field(default_factory=GroupTable)
    """Shared with the logs of the other brokers."""
    dropped: list[DroppedMember] = field(default_factory=list)
    tells_ends: set[str] = field(default_factory=lambda: set(_TELLS_ENDS))
    """Group types with assignment states of members in this log."""
    eviction_count: int = 0
    """Members that were forgotten because there were too many, or too many groups."""
    has_shown: bool = False
    """Whether a line of this log has named a member."""
    brokers: set[str] = field(default_factory=set)
    """Ids of the brokers that the lines name, `_BROKERS_MAX` at most."""
    _known: int = 0
    """Members in all groups."""

    def take(self, event: LogEvent, at: float) -> list[Signal]:
        """Take one event at Unix seconds ``at``; return its signals."""
        out = self._take(event, at)
        self.has_shown = self.has_shown or bool(out)
        return out

    def _take(self, event: LogEvent, at: float) -> list[Signal]:
        self._expire_dropped(at)
        if event.rule.action is Action.REFUSE:
            return self._refuse(event, at)
        name = event.captures.get("group")
        if name is None:
            return []
        broker = event.captures.get("broker", "")
        has_moved = self._has_moved(name, broker)
        if event.rule.action is Action.IGNORE:  # another broker's log goes on with the group
            if not has_moved:
                self.table.unload(name, self)
            return []
        is_new_here = has_moved or self.table.has_other_owner(name, self)
        if not self.table.claim(name, self) and not has_moved:
            self._forget(name)
            self.table.claim(name, self)
        group = self._group(name, event)
        group.broker = broker or group.broker
        if is_new_here and group.group_type == CLASSIC:
            group.remove_unfinished()
        known = len(group.parties)
        out = self._read(group, event, at)
        self._known += len(group.parties) - known
        while self._known > _PARTY_LIMIT and len(self.groups) > 1:
            self._evict()
        return out

    def _has_moved(self, name: str, broker: str) -> bool:
        """Note a broker's id; return whether another one reported on a group last.

        One log holds the lines of several brokers where a collector merges them.
        """
        if broker and len(self.brokers) < _BROKERS_MAX:
            self.brokers.add(broker)
        group = self.groups.get(name)
        return group is not None and "" not in {broker, group.broker} and group.broker != broker

    def _refuse(self, event: LogEvent, at: float) -> list[Signal]:
        """Report a process that another one keeps out, or has replaced; the group stays as it is.

        A line without a group is of the group that knows its instance id.
        """
        named = event.captures.get("group")
        instance_id = event.captures.get("instance_id", "")
        groups = [self.groups[named]] if named in self.groups else self.groups.values()
        group = next((g for g in groups if g.has_instance(instance_id)), None)
        if group is None:
            return []
        member = group.describe_refused(event.captures.get("member_id", ""), instance_id)
        return [
            Signal(
                kind=SignalKind.FAIL,
                at=at,
                member=member,
                source=SourceKind.BROKER_LOG,
                reason=clip_reason(event.captures.get("reason")),
            )
        ]

    @property
    def groups(self) -> dict[str, CoordinatorGroup]:
        """The groups of all brokers' logs."""
        return self.table.groups

    @property
    def has_members(self) -> bool:
        """Return whether a group has members: a log of brokers is one stream all the same."""
        return bool(self.groups)

    @property
    def parts(self) -> tuple[str, ...]:
        """Return nothing: it names each member."""
        return ()

    def flush(self) -> list[Signal]:
        """Return nothing: no signal waits."""
        return []

    def release_overdue(self, until: float) -> list[Signal]:  # noqa: ARG002 - none is pending
        """Return nothing: no signal waits."""
        return []

    def horizon(self) -> float | None:
        """Return None: no signal waits."""
        return None

    def state(self) -> dict[str, Any]:
        """Return the state for a restart, in types that JSON can carry."""
        state: dict[str, Any] = msgspec.to_builtins(
            {
                "groups": self.table.list_owned(self),
                "moved": [
                    g.name for g in self.table.list_owned(self) if self.table.is_moved(g.name)
                ],
                "dropped": self.dropped,
                "tells_ends": sorted(self.tells_ends),
            }
        )
        return state

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a `state` again."""
        groups = msgspec.convert(state["groups"], list[CoordinatorGroup])
        for group in groups:
            self.table.claim(group.name, self)
            self.groups[group.name] = group
        for name in state.get("moved", ()):
            self.table.unload(name, self)
        self._known = sum(len(group.parties) for group in groups)
        self.dropped = msgspec.convert(state["dropped"], list[DroppedMember])
        self.tells_ends = set(state["tells_ends"])

    def _read(self, group: CoordinatorGroup, event: LogEvent, at: float) -> list[Signal]:
        ids = [
            member_id
            for member_id in _list_member_ids(group, event)
            if not _is_duplicate_leave(group, member_id, event)
        ]
        if "patterns" in event.captures:
            group.record_scan(event.captures["patterns"], int(event.captures["topics"]))
        is_rejoin = _is_rejoin(group, event)
        goes = _reports_departure(event)
        parties = [group.resolve(member_id, event.captures, goes=goes) for member_id in ids]
        if is_rejoin:
            return []
        out = self._dispatch(group, parties, event, at)
        return (
            out + report_others(group, parties, event, at)
            if self._begins_rebalance(group, event)
            else out
        )

    def _group(self, name: str, event: LogEvent) -> CoordinatorGroup:
        """Find or make the group, and put it last."""
        group = self.groups.pop(name, None) or CoordinatorGroup(name=name, cluster=self.cluster)
        self.groups[name] = group
        if len(self.groups) > _GROUP_LIMIT:
            self._evict()
        rule = event.rule
        if "group_type" in event.captures:
            group.group_type = event.captures["group_type"]
        elif rule.group_type != CLASSIC and group.group_type == CLASSIC:
            group.group_type = rule.group_type
        elif rule.group_type == CLASSIC and "old_generation" in event.captures:
            group.group_type = CLASSIC  # its last member of the new protocol has left
        return group

    def _dispatch(
        self, group: CoordinatorGroup, parties: list[CoordinatorMember], event: LogEvent, at: float
    ) -> list[Signal]:
        match event.rule.action:
            case Action.ASSIGNED:
                return self._handle_assigned(group, event, at)
            case Action.SYNC:
                return self._handle_sync(group, parties, event, at)
            case Action.SETTLE if not parties:
                return self._handle_empty(group, at)
            case Action.FAIL:
                return self._remove(group, parties, at)
        return [s for party in parties for s in self._handle_member(group, party, event, at)]

    def _handle_member(
        self, group: CoordinatorGroup, party: CoordinatorMember, event: LogEvent, at: float
    ) -> list[Signal]:
        """Return a line's signals for the member that it names."""
        match event.rule.action:
            case Action.RAISE:
                return report_cause(group, party, event, at)
            case Action.JOIN:
                return report_join(party, event, at)
            case Action.LEAVE:
                return self._handle_leave(group, party, event, at)
            case Action.SETTLE:
                return self._handle_settle(group, party, event, at)
        party.at_once = "at_once" in event.captures
        return []

    def _begins_rebalance(self, group: CoordinatorGroup, event: LogEvent) -> bool:
        """Return whether the others rebalance with the named member, if there is one.

        In the new protocols the line of an epoch does not name the members with a changed
        assignment.
        """
        if event.rule.group_type == CLASSIC:
            return "old_generation" in event.captures
        return event.rule.action is Action.ANNOUNCE and not group.explained

    def _handle_leave(
        self, group: CoordinatorGroup, party: CoordinatorMember, event: LogEvent, at: float
    ) -> list[Signal]:
        words, member_id = read_client_reason(event), party.member.member_id or ""
        group.explained = True
        group.record_leave(member_id)
        if words is None or words in _OWN_LEAVES:
            group.drop(party)
            return [build_signal(party, SignalKind.LEAVE, at, reason=words)]
        party.out, party.in_round = True, False
        if is_poll_timeout(words):
            self.dropped.append(DroppedMember(at, group.name, member_id))
            del self.dropped[:-_PARTY_LIMIT]
            return raise_once(party, DROPPED_GROUP, at, words)
        # an operator's words: the victim was removed, and learns of it by UNKNOWN_MEMBER_ID
        note = build_signal(party, SignalKind.NOTE, at, reason=words)
        return [note, *raise_once(party, UNKNOWN_MEMBER, at, words)]

    def _handle_assigned(self, group: CoordinatorGroup, event: LogEvent, at: float) -> list[Signal]:
        members = event.captures.get("members")  # not printed before 2.8
        surplus = [] if members is None else group.surplus(int(members))
        out = self._remove(group, surplus, at)
        for party in group.inside:
            party.in_round = True
        return out

    def _handle_sync(
        self, group: CoordinatorGroup, parties: list[CoordinatorMember], event: LogEvent, at: float
    ) -> list[Signal]:
        generation, classic = int(event.captures["generation"]), event.rule.group_type == CLASSIC
        for leader in parties:
            leader.in_round = True
        group.explained, group.scan_news = False, ""
        out = self._remove(group, _list_removed(group), at)
        if classic:
            return out + [complete(p, at, generation) for p in group.inside if p.in_round]
        if group.group_type in self.tells_ends:
            return out
        return out + [complete(p, at, generation) for p in group.inside if p.status]

    def _handle_empty(self, group: CoordinatorGroup, at: float) -> list[Signal]:
        gone = [p for p in group.parties.values() if p.status is not DROPPED_GROUP]
        return self._remove(group, gone, at)

    def _handle_settle(
        self, group: CoordinatorGroup, party: CoordinatorMember, event: LogEvent, at: float
    ) -> list[Signal]:
        self.tells_ends.add(group.group_type)
        assigned = _ASSIGNED_IN.sub("", event.captures.get("assigned", ""))
        changed = party.assigned and party.assigned != assigned and party.status is NONE
        party.assigned = assigned
        moved = raise_once(party, COORDINATOR_REQUESTED, at, None) if changed else []
        return [*moved, complete(party, at, int(event.captures["generation"]))]

    def _remove(
        self, group: CoordinatorGroup, parties: Iterable[CoordinatorMember], at: float
    ) -> list[Signal]:
        """End the episodes of removed members, and forget them."""
        out = []
        for party in parties:
            if party.status:
                out.append(build_signal(party, SignalKind.FAIL, at, reason="no member any more"))
            group.drop(party)
            self.on_departure(party.member.origin, at)
        return out

    def _expire_dropped(self, at: float) -> None:
        """Forget members that dropped out long ago."""
        while self.dropped and self.dropped[0].at + DROPPED_S <= at:
            dropped = self.dropped.pop(0)
            is_moved = self.table.is_moved(dropped.group)
            group = None if is_moved else self.groups.get(dropped.group)
            party = None if group is None else group.parties.get(dropped.member_id)
            if group is not None and party is not None and party.out:
                group.drop(party)
                self._known -= 1
                self.on_departure(party.member.origin, at)

    def _evict(self) -> None:
        """Forget the group that has been silent for longest."""
        known = self._known
        self._forget(next(iter(self.groups)))
        self.eviction_count += known - self._known

    def _forget(self, name: str) -> None:
        """Forget a group and its members."""
        gone = self.table.forget(name)
        self._known -= 0 if gone is None else len(gone.parties)


def _is_duplicate_leave(group: CoordinatorGroup, member_id: str, event: LogEvent) -> bool:
    """Return whether this is the second of two lines about a leave."""
    return event.rule.action is Action.LEAVE and member_id in group.left


def _is_rejoin(group: CoordinatorGroup, event: LogEvent) -> bool:
    """Return whether a member joins that is in the group.

    In a group of a new protocol, members of the classic one join again in each rebalance.
    """
    if event.rule.group_type == CLASSIC or event.rule.status is not RebalanceStatus.NEW_MEMBER:
        return False
    party = group.parties.get(event.captures.get("member_id", ""))
    return party is not None and not party.out


def _reports_departure(event: LogEvent) -> bool:
    """Return whether a line reports that its members go."""
    is_removal = event.rule.action is Action.RAISE and event.rule.status is UNKNOWN_MEMBER
    return is_removal or event.rule.action in {Action.LEAVE, Action.FAIL}


def _list_member_ids(group: CoordinatorGroup, event: LogEvent) -> list[str]:
    seen = event.captures
    if "member_id" not in seen and "instance_id" in seen:
        return [group.find_member_id(seen["instance_id"])]
    if "member_ids" in seen:
        return [member_id for member_id in seen["member_ids"].split(", ") if member_id]
    return [seen["member_id"]] if "member_id" in seen else []


def _list_removed(group: CoordinatorGroup) -> list[CoordinatorMember]:
    return [p for p in group.parties.values() if p.out and p.status is not DROPPED_GROUP]
