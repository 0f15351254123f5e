"""What lines say: an event, the rule that read it, and the dialect that owns the rule."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import msgspec

from metrics.status import RebalanceStatus

CLASSIC = "classic"
"""The group type of the protocol with joins and syncs."""

USERS = "config"
"""The dialect of rules that stand in the configuration."""

_ATTRIBUTES = ("member_id", "assignor", "cluster")
_SCHEDULES = ("due_ms", "due")
_ANSWERS = {
    RebalanceStatus.COORDINATOR_REQUESTED,
    RebalanceStatus.UNKNOWN_MEMBER,
    RebalanceStatus.STALE_MEMBER,
}
"""Codes of coordinator answers."""


class Action(StrEnum):
    """What a rule does; the YAML key, or the value of ``does``."""

    RAISE = "raise"
    FOLLOW_UP = "follow_up"
    STREAMS = "streams"
    ANNOUNCE = "announce"
    SYNC = "sync"
    SETTLE = "settle"
    ASSIGNED = "assigned"
    JOIN = "join"
    LEAVE = "leave"
    FAIL = "fail"
    IDENTIFY = "identify"
    IGNORE = "ignore"


@dataclass(frozen=True, kw_only=True, eq=False)
class Rule:
    """One text of one client and what it does. ``cites`` names the class that prints it.

    What follows from an action is looked up for every line, so it is worked out once.
    """

    name: str
    dialect: str
    text: re.Pattern[str]
    action: Action
    status: RebalanceStatus = RebalanceStatus.NONE
    cites: str = ""
    ends_round: bool = False
    """The sync before it demanded no follow-up: the zero comes first."""
    group_type: str = CLASSIC
    joined_only: bool = False
    """Others print the text too: it counts from one that was seen to be a member by protocol."""

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What it may tell of a member."""
        return tuple(name for name in _ATTRIBUTES if name in self.text.groupindex)

    @cached_property
    def joins(self) -> bool:
        """Whether the client was out of the group and asks to be in."""
        return self.action is Action.JOIN or self.status is RebalanceStatus.NEW_MEMBER

    @cached_property
    def parts(self) -> bool:
        """Whether it can take the client into the group or out of it."""
        out = self.action in {Action.LEAVE, Action.FAIL}
        return out or self.joins or self.status is RebalanceStatus.DROPPED_GROUP

    @cached_property
    def answers(self) -> bool:
        """Whether it is what a coordinator said."""
        return self.status in _ANSWERS

    @cached_property
    def may_be_late(self) -> bool:
        """Whether it can be the echo of something that is over."""
        sent = "sent_generation" in self.text.groupindex
        return sent or self.joined_only or self.answers or self.action is Action.LEAVE

    @cached_property
    def ends_sync(self) -> bool:
        """Whether the thread has done with its last sync, whatever it printed of it."""
        return self.ends_round or self.action in {Action.JOIN, Action.LEAVE}

    @cached_property
    def schedules(self) -> bool:
        """Whether it may tell for when a rebalance is scheduled."""
        return any(name in self.text.groupindex for name in _SCHEDULES)

    @property
    def shows(self) -> RebalanceStatus:
        """The code that it can show, or NONE."""
        leaves = self.action is Action.LEAVE
        return RebalanceStatus.USER_REQUESTED if leaves else self.status


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """What one line said: the rule that read it and what the rule captured."""

    rule: Rule
    captures: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """One client's words over a range of versions."""

    name: str
    family: str
    client: str
    versions: str
    source: str
    group_type: str
    beside: tuple[str, ...]
    """What the same client prints as well: other dialects, or ``dialect/rule`` for one rule."""
    anchors: tuple[str, ...]
    anchor_after: str | None
    prefix: re.Pattern[str]
    suffix: re.Pattern[str] | None
    rules: tuple[Rule, ...]
