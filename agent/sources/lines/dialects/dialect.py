"""Dialects, their rules, and the event that a rule reads from a line."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from metrics.model.status import RebalanceStatus

CLASSIC = "classic"
"""The group type of the protocol with joins and syncs."""

USERS = "config"
"""Dialect name of rules in the configuration."""

_ATTRIBUTES = ("member_id", "assignor", "cluster", "state")
_SCHEDULES = ("due_ms", "due")
_NUMBERS = ("generation", "sent_generation", "members", "due_ms", "max_poll_ms", "target_size")
CAPTURE = re.compile(r"\(\?P<(\w+)>")
"""Begin of a named group in an expression."""
_NUMBER = re.compile(r"-?\d{1,18}", re.ASCII)
"""18 digits fit 64 bits; Python raises an error for thousands of them."""
_ANSWERS = {
    RebalanceStatus.COORDINATOR_REQUESTED,
    RebalanceStatus.UNKNOWN_MEMBER,
    RebalanceStatus.STALE_MEMBER,
}
"""Codes of coordinator responses."""
_COMPARISONS = {RebalanceStatus.METADATA_CHANGED, RebalanceStatus.SUBSCRIPTION_CHANGED}


class Action(StrEnum):
    """Effect of a rule; the YAML key, or the value of ``does``."""

    RAISE = "raise"
    FOLLOW_UP = "follow_up"
    STREAMS = "streams"
    ANNOUNCE = "announce"
    SYNC = "sync"
    SETTLE = "settle"
    ASSIGNED = "assigned"
    JOIN = "join"
    LEAVE = "leave"
    CLOSE = "close"
    FAIL = "fail"
    REFUSE = "refuse"
    IDENTIFY = "identify"
    MANUAL = "manual"
    STATE = "state"
    IGNORE = "ignore"


@dataclass(slots=True, kw_only=True, eq=False)
class Rule:
    """One text of one client and its effect. ``cites`` names the class that prints it.

    A rule never changes, so properties that every line needs are computed once.
    """

    name: str
    dialect: str
    text: str
    """Regular expression of the message. It is compiled when a line needs it: all take 80 ms."""
    action: Action
    status: RebalanceStatus = RebalanceStatus.NONE
    cites: str = ""
    ends_round: bool = False
    """The sync before it is over: the zero comes first, even if a follow-up is pending."""
    group_type: str = CLASSIC
    anonymous: bool = False
    """The log may leave out the client's name: then its group, or nothing, identifies it."""
    alone: bool = False
    """Another text has the same with the client's name: it counts where no line names a client."""
    reads_next: bool = False
    """The next line belongs to it, and is read even if no literal of a dialect finds it."""
    reaches_target: bool = False
    """The client reads the partitions that it was to reach: a line before has named them."""
    after: tuple[str, ...] = ()
    """One of these rules must have read the client's line before; empty: any line."""
    joined_only: bool = False
    """Other clients print the text too: it counts only for a known member of this protocol."""

    any_protocol: bool = False
    """The client prints the text in every group protocol: it shows no group type."""

    captures: tuple[str, ...] = field(init=False)
    """Names of its groups, in their order."""
    subscribes: bool = field(init=False)
    """A new consumer prints it early."""
    names: tuple[str, ...] = field(init=False)
    """Attributes of the member that it captures."""
    joins: bool = field(init=False)
    """The client was out of the group and joins."""
    parts: bool = field(init=False)
    """It can take the client into the group or out of it."""
    answers: bool = field(init=False)
    """It reports a response of a coordinator."""
    enforces: bool = field(init=False)
    """The application asks for a rejoin, which one that has left notes only."""
    compares: bool = field(init=False)
    """It compares the subscription or its metadata with those of the last join."""
    may_be_late: bool = field(init=False)
    """It can be a late report of an older round."""
    ends_sync: bool = field(init=False)
    """The thread has finished its last sync."""
    schedules: bool = field(init=False)
    """It may hold the time of a scheduled rebalance."""
    assigns: bool = field(init=False)
    """It holds the whole assignment of the member."""
    drops: bool = field(init=False)
    """It reports that the poll interval expired."""
    moves: bool = field(init=False)
    """It names partitions that the member reads from now on, or no more."""
    targets: bool = field(init=False)
    """It names partitions that the member is to read."""
    lists: bool = field(init=False)
    """It is a line of a list of partitions, with one in each."""
    numbers: tuple[str, ...] = field(init=False)
    """Its captures that are whole numbers."""
    varies: bool = field(init=False)
    """It names a member id or a generation: a client hardly prints the same line twice."""

    def __post_init__(self) -> None:
        """Compute the derived fields."""
        self.captures = captures = tuple(CAPTURE.findall(self.text))
        leaves = self.action is Action.LEAVE
        joins = self.action is Action.JOIN
        self.subscribes = self.action is Action.ANNOUNCE
        self.names = tuple(name for name in _ATTRIBUTES if name in captures)
        self.joins = joins or self.status is RebalanceStatus.NEW_MEMBER
        dropped = self.status is RebalanceStatus.DROPPED_GROUP
        self.drops = dropped
        self.parts = self.joins or leaves or dropped or self.action is Action.FAIL
        self.answers = self.status in _ANSWERS
        is_sent = "sent_generation" in captures
        is_raised = self.action is Action.RAISE and not self.ends_round
        self.compares = is_raised and self.status in _COMPARISONS
        self.enforces = (
            self.action is Action.RAISE and self.status is RebalanceStatus.USER_REQUESTED
        )
        by_code = self.answers or self.compares or self.enforces
        self.may_be_late = self.joined_only or by_code or leaves or is_sent
        self.ends_sync = self.ends_round or joins or leaves
        self.schedules = any(name in captures for name in _SCHEDULES)
        self.assigns = "assignment" in captures
        self.lists = "target_size" in captures or "target_part" in captures
        self.targets = self.lists or "target" in captures
        is_named = not {"added", "revoked", "owned"}.isdisjoint(captures)
        self.moves = self.targets or self.reaches_target or is_named
        self.numbers = tuple(name for name in _NUMBERS if name in captures)
        self.varies = "member_id" in captures or "generation" in captures

    def accepts(self, captures: Mapping[str, str]) -> bool:
        """Return whether every number of the captures is one."""
        for name in self.numbers:
            text = captures.get(name)
            if text is not None and _NUMBER.fullmatch(text) is None:
                return False
        return True

    @property
    def visible_status(self) -> RebalanceStatus:
        """The code that it can show, or NONE."""
        leaves = self.action in {Action.LEAVE, Action.CLOSE}
        return RebalanceStatus.USER_REQUESTED if leaves else self.status


class LogEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The rule that read a line, and its captures."""

    rule: Rule
    captures: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """One client's texts over a range of versions."""

    name: str
    family: str
    client: str
    versions: str
    source: str
    group_type: str
    beside: tuple[str, ...]
    """Other dialects that the client prints too, or ``dialect/rule`` for one rule."""
    anchors: tuple[str, ...]
    found_by: tuple[str, ...] | None
    """Literals that find its lines, in place of the anchor: layouts may write fields apart."""
    marks: tuple[str, ...] | None
    """Literals; each line holds one of them. Their first bytes are rarer than those above."""
    named_by: tuple[re.Pattern[str], ...]
    """Expressions of the client's name somewhere before the prefix."""
    anchor_after: str | None
    prefix: re.Pattern[str]
    suffix: re.Pattern[str] | None
    rules: tuple[Rule, ...]
    hosts: tuple[str, ...] = ()
    """Families of clients that run in the same process and share its log."""
    guests: str | None = None
    """Prefix of the names of those clients there."""
