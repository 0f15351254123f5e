"""Membership of groups, as far as a broker's log names members.

A member id of the classic protocol is ``<client id>-<uuid>``, a static member's is
``<group.instance.id>-<uuid>``; the new protocols' ids hold no name. Without a client id, the
instance id or the member id is used in its place. A member that returns has a new member id. It is
identified with the removed member of the same name, so its series and its episode continue.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from metrics.model.signals import Member, streams_thread
from metrics.model.status import RebalanceStatus

CLASSIC = "classic"
NONE = RebalanceStatus.NONE
_UUID = re.compile(r"-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_UUID_CHARS = 37
_LEFT = 256
_PARTIES = 20_000
"""Of one group; the longest unnamed goes first."""


@dataclass(slots=True, kw_only=True)
class CoordinatorMember:
    """One member of a group."""

    member: Member
    slot: int
    """Its number among the members of the same name in the group."""
    status: RebalanceStatus = NONE
    """The highest code that it was given since its last end."""
    last: RebalanceStatus = NONE
    """The last one: several lines report the same."""
    in_round: bool = False
    """The generation that was made has it."""
    out: bool = False
    """The broker has removed it; it may come back."""
    at_once: bool = False
    """It was added without MEMBER_ID_REQUIRED."""
    assigned: str = ""


@dataclass(slots=True, kw_only=True)
class CoordinatorGroup:
    """One group. Its members stand in the order of their last lines."""

    name: str
    cluster: str = ""
    group_type: str = CLASSIC
    parties: dict[str, CoordinatorMember] = field(default_factory=dict)
    """By member id."""
    explained: bool = False
    """New protocols: a cause was reported since the last target assignment."""
    left: list[str] = field(default_factory=list)
    """The last member ids that have gone by LeaveGroup: two lines report it, in either order."""
    patterns: str = ""
    """The regular expressions of its members, as they were matched last."""
    topics: int = 0
    """Topics that they were matched against."""
    scan_news: str = ""
    """How the last match differed; empty after a target assignment."""
    broker: str = ""
    """Id of the broker that reported on it last: one log may hold several brokers' lines."""

    def resolve(
        self, member_id: str, seen: Mapping[str, str], *, goes: bool = False
    ) -> CoordinatorMember:
        """Find or create a member, and put it last; a departing one is no returning member."""
        party = self.parties.pop(member_id, None) or self._take_returning(
            member_id, seen, goes=goes
        )
        if party is None:
            party = self._create_member(member_id, seen)
        elif party.member.member_id != member_id:
            party.out = party.at_once = False
        party.member = replace(party.member, member_id=member_id, group_type=self.group_type)
        self.parties[member_id] = party
        if len(self.parties) > _PARTIES:
            self.parties.pop(next(iter(self.parties)))
        return party

    def has_instance(self, instance_id: str) -> bool:
        """Check that a member of the group has this instance id."""
        return any(p.member.group_instance_id == instance_id for p in self.parties.values())

    def find_member_id(self, instance_id: str) -> str:
        """Return the id of a static member; its instance id if the member is not known."""
        found = (
            member_id
            for member_id, party in self.parties.items()
            if party.member.group_instance_id == instance_id
        )
        return next(found, instance_id)

    def describe_refused(self, member_id: str, instance_id: str) -> Member:
        """Return a process that is no member, though its instance id is a member's."""
        return Member(
            cluster=self.cluster,
            group=self.name,
            client_id=_parse_client_id(member_id) or instance_id,
            origin=f"broker_log:{self.name}/{member_id}",
            member_id=member_id,
            group_type=self.group_type,
            protocol_type=None,
        )

    def record_leave(self, member_id: str) -> None:
        """Remember that it departed by LeaveGroup."""
        self.left = [*self.left[1 - _LEFT :], member_id]

    def record_scan(self, patterns: str, topics: int) -> None:
        """Remember a match of its regular expressions: a difference can raise the group epoch."""
        if self.patterns and patterns != self.patterns:
            self.scan_news = f"other regular expressions, {patterns}"
        elif self.patterns and topics != self.topics:
            self.scan_news = f"{topics} topics to match, {self.topics} before"
        self.patterns, self.topics = patterns, topics

    def remove_unfinished(self) -> None:
        """Remove members that have joined no generation: the next coordinator loads none of them.

        They join it again, under other member ids.
        """
        for party in self.inside:
            party.out = not party.in_round

    def drop(self, party: CoordinatorMember) -> None:
        """Forget a member."""
        self.parties.pop(party.member.member_id or "", None)

    @property
    def inside(self) -> list[CoordinatorMember]:
        """The members that the broker has not removed."""
        return [party for party in self.parties.values() if not party.out]

    def surplus(self, members: int) -> list[CoordinatorMember]:
        """Return members beyond the broker's count, the longest unnamed first."""
        inside = self.inside
        return inside[: max(0, len(inside) - members)]

    def _take_returning(
        self, member_id: str, seen: Mapping[str, str], *, goes: bool
    ) -> CoordinatorMember | None:
        """Take out the member that this one was before: a static one, or one that was removed."""
        name = _parse_client_id(member_id)
        static = seen.get("instance_id") or name
        for before, party in self.parties.items():
            instance_id = party.member.group_instance_id
            is_static = instance_id is not None and instance_id == static
            is_named = name is not None and party.member.client_id == name
            if is_static or (party.out and is_named and not goes):
                return self.parties.pop(before)
        return None

    def _create_member(self, member_id: str, seen: Mapping[str, str]) -> CoordinatorMember:
        instance_id = seen.get("instance_id")
        client_id = seen.get("client_id") or instance_id or _parse_client_id(member_id) or member_id
        slot = next(self._free_slots(client_id))
        thread = streams_thread(client_id)
        name = client_id if thread is None else thread.instance
        member = Member(
            cluster=self.cluster,
            group=self.name,
            client_id=client_id,
            # of no file: with its partition, a group goes from one broker's log to another's
            origin=f"broker_log:{self.name}/{name}#{slot}",
            group_instance_id=instance_id,
            member_id=member_id,
            group_type=self.group_type,
            protocol_type=None,
            host=seen.get("host", ""),
        )
        return CoordinatorMember(member=member, slot=slot)

    def _free_slots(self, client_id: str) -> Iterator[int]:
        taken = {p.slot for p in self.parties.values() if p.member.client_id == client_id}
        return (slot for slot in range(len(taken) + 1) if slot not in taken)


@dataclass(slots=True, eq=False)
class GroupTable:
    """The groups of one cluster, shared by the logs of its brokers.

    A group moves between brokers together with its partition of the offsets topic. The next
    broker's log names a member only when it joins or leaves.
    """

    groups: dict[str, CoordinatorGroup] = field(default_factory=dict)
    _owners: dict[str, object] = field(default_factory=dict)
    """The reader of the log that reported on a group last."""
    _moved: set[str] = field(default_factory=set)
    """Groups that their owner's broker has unloaded."""

    def claim(self, name: str, reader: object) -> bool:
        """Make a reader the owner of a group; return False if the group's known state is too old.

        A group that returns to the broker that unloaded it was on another broker in between, and no
        source has seen it there.
        """
        is_back = name in self._moved and self._owners.get(name) is reader
        self._moved.discard(name)
        self._owners[name] = reader
        return not is_back

    def has_other_owner(self, name: str, reader: object) -> bool:
        """Return whether another reader reported on a group last."""
        return self._owners.get(name, reader) is not reader

    def unload(self, name: str, reader: object) -> None:
        """Note that the reader's broker has unloaded a group, unless another owns it by now."""
        if self._owners.get(name) is reader:
            self._moved.add(name)

    def is_moved(self, name: str) -> bool:
        """Return whether a group was unloaded, and no other broker's log has reported on it."""
        return name in self._moved

    def list_owned(self, reader: object) -> list[CoordinatorGroup]:
        """Return the groups that a reader reported on last, the longest silent first."""
        return [group for name, group in self.groups.items() if self._owners.get(name) is reader]

    def forget(self, name: str) -> CoordinatorGroup | None:
        """Drop a group, and return it."""
        self._owners.pop(name, None)
        self._moved.discard(name)
        return self.groups.pop(name, None)


def _parse_client_id(member_id: str) -> str | None:
    """Return the part before the UUID."""
    name, uuid = member_id[:-_UUID_CHARS], member_id[-_UUID_CHARS:]
    return name if name and _UUID.fullmatch(uuid) else None
