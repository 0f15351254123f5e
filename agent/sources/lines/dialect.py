"""What lines say: an event, the rule that read it, and the dialect that owns the rule."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from metrics.model.status import RebalanceStatus

CLASSIC = "classic"
"""The group type of the protocol with joins and syncs."""

USERS = "config"
"""The dialect of rules that stand in the configuration."""

_ATTRIBUTES = ("member_id", "assignor", "cluster", "state")
_SCHEDULES = ("due_ms", "due")
_NUMBERS = ("generation", "sent_generation", "members", "due_ms")
_NUMBER = re.compile(r"-?\d{1,18}", re.ASCII)
"""That many digits are 64 bits, and more than Kafka prints; Python takes thousands of them for an
error."""
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
    STATE = "state"
    IGNORE = "ignore"


@dataclass(slots=True, kw_only=True, eq=False)
class Rule:
    """One text of one client and what it does. ``cites`` names the class that prints it.

    It never changes; what follows from it is asked for every line, so it is worked out once.
    """

    name: str
    dialect: str
    text: re.Pattern[str]
    action: Action
    status: RebalanceStatus = RebalanceStatus.NONE
    cites: str = ""
    ends_round: bool = False
    """The sync before it is over: the zero comes first, also where a follow-up is still to come."""
    group_type: str = CLASSIC
    joined_only: bool = False
    """Others print the text too: it counts from one that was seen to be a member by protocol."""

    subscribes: bool = field(init=False)
    """A consumer prints it soon after it was made."""
    names: tuple[str, ...] = field(init=False)
    """What it may tell of a member."""
    joins: bool = field(init=False)
    """The client was out of the group and asks to be in."""
    parts: bool = field(init=False)
    """It can take the client into the group or out of it."""
    answers: bool = field(init=False)
    """It is what a coordinator said."""
    may_be_late: bool = field(init=False)
    """It can be the echo of something that is over."""
    ends_sync: bool = field(init=False)
    """The thread has done with its last sync, whatever it printed of it."""
    schedules: bool = field(init=False)
    """It may tell for when a rebalance is scheduled."""
    assigns: bool = field(init=False)
    """It tells all that the member is to have."""
    numbers: tuple[str, ...] = field(init=False)
    """Its captures that are whole numbers."""

    def __post_init__(self) -> None:
        """Work out what follows."""
        captures, leaves = self.text.groupindex, self.action is Action.LEAVE
        joins = self.action is Action.JOIN
        self.subscribes = self.action is Action.ANNOUNCE
        self.names = tuple(name for name in _ATTRIBUTES if name in captures)
        self.joins = joins or self.status is RebalanceStatus.NEW_MEMBER
        dropped = self.status is RebalanceStatus.DROPPED_GROUP
        self.parts = self.joins or leaves or dropped or self.action is Action.FAIL
        self.answers = self.status in _ANSWERS
        is_sent = "sent_generation" in captures
        self.may_be_late = self.joined_only or self.answers or leaves or is_sent
        self.ends_sync = self.ends_round or joins or leaves
        self.schedules = any(name in captures for name in _SCHEDULES)
        self.assigns = "assignment" in captures
        self.numbers = tuple(name for name in _NUMBERS if name in captures)

    def accepts(self, captures: Mapping[str, str]) -> bool:
        """Tell whether what a line has shown can be what it stands for."""
        return all(_NUMBER.fullmatch(captures.get(name, "0")) for name in self.numbers)

    @property
    def visible_status(self) -> RebalanceStatus:
        """The code that it can show, or NONE."""
        leaves = self.action is Action.LEAVE
        return RebalanceStatus.USER_REQUESTED if leaves else self.status


class LogEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
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
    hosts: tuple[str, ...] = ()
    """Families whose clients run in the same process and share its log."""
    guests: str | None = None
    """How the names of those clients begin there."""
