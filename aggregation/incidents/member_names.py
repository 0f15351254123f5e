"""Names of a group's members, as people read them. Pure.

Theory of operation. A member is shown by its client id. Where several members of the group have
that client id, the first of these texts that distinguishes the member follows in brackets:
``group.instance.id``, host, log file (its last parts, as many as it takes), member id. So a member
has one name in all incidents of its group, and replicas of one Deployment have their pods' names.

Source: incidents.md section 5.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from aggregation.rebalances.grouping import GroupRef
from aggregation.rebalances.segments import MemberRef, member_of
from metrics.model.sample import Sample, Scope

NAMELESS = "a member without a name"
"""Logs of some clients contain no client id."""
_ID_CHARS = 8
"""A member id is shown with this many characters after the client id, if they are distinct."""
_PARTS = re.compile(r"[/\\]+|#+(?!consumer \d)")
"""Between the parts of a log file's name: folders, and the name that a collector gives.

A consumer's number belongs to its file: `app.log#consumer 2` beside `app.log`."""
_PARTS_MAX = 6


_Dated = tuple[str, str]
"""Time of a record, and a text of it."""


@dataclass(slots=True)
class SeenMembers:
    """The members of one group, with their latest member ids and their log files."""

    members: set[MemberRef] = field(default_factory=set)
    _ids: dict[MemberRef, _Dated] = field(default_factory=dict)
    _files: dict[MemberRef, _Dated] = field(default_factory=dict)

    def add(self, record: Sample) -> None:
        """Add a record with a client id, in any order."""
        member = member_of(record)
        if record.member_id:
            latest = record.ts, record.member_id
            self._ids[member] = max(self._ids.get(member, latest), latest)
        if record.scope is Scope.CONSUMER:
            self.members.add(member)
            if record.log_file:
                latest = record.ts, record.log_file
                self._files[member] = max(self._files.get(member, latest), latest)

    def list_ids(self) -> dict[MemberRef, str]:
        """Return the latest member id of each member."""
        return {member: name for member, (_, name) in self._ids.items()}

    def name_all(self) -> dict[MemberRef, str]:
        """Return the name of each member whose client id is not its name."""
        by_client: dict[str, list[MemberRef]] = defaultdict(list)
        for member in sorted(self.members, key=_order):
            by_client[member.client_id].append(member)
        found: dict[MemberRef, str] = {}
        for client_id, members in by_client.items():
            alike = {member.key: member for member in members}
            if len(alike) > 1:
                texts = dict(zip(alike, self._tell_apart([*alike.values()]), strict=True))
                found |= {each: _with_text(client_id, texts[each.key]) for each in members}
        return found

    def _tell_apart(self, alike: Sequence[MemberRef]) -> list[str]:
        """Return for each member the first text that no other one has; empty without any."""
        files = _shorten_files([self._files.get(member, ("", ""))[1] for member in alike])
        return tell_apart(
            [
                (
                    member.group_instance_id or "",
                    member.host,
                    file,
                    *id_marks(member.client_id, name),
                )
                for member, file in zip(alike, files, strict=True)
                for _, name in [self._ids.get(member, ("", ""))]
            ]
        )


def tell_apart(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return of each row the first text that no other row has in its place; empty without any."""
    counts = [Counter(column) for column in zip(*rows, strict=True)]
    return [
        next(
            (text for text, times in zip(row, counts, strict=True) if text and times[text] == 1), ""
        )
        for row in rows
    ]


def id_marks(client_id: str, member_id: str | None) -> tuple[str, str]:
    """Return a member id without its client id: its first characters, and all of it."""
    own = (member_id or "").removeprefix(f"{client_id}-")
    return own[:_ID_CHARS], own


def _order(member: MemberRef) -> tuple[str, str, str, int]:
    return member.client_id, member.host, member.group_instance_id or "", member.twin


def _shorten_files(files: Sequence[str]) -> list[str]:
    """Return the last parts of files, as few as distinguish all of them."""
    parts = [_PARTS.split(file) for file in files]
    wanted = len(set(files))
    for count in range(1, _PARTS_MAX):
        short = ["/".join(each[-count:]) for each in parts]
        if len(set(short)) == wanted:
            return short
    return [*files]


def _with_text(client_id: str, text: str) -> str:
    name = client_id or NAMELESS
    return f"{name} ({text})" if text else name


def read_members(records: Iterable[Sample]) -> Mapping[GroupRef, SeenMembers]:
    """Return the members of each group, from the records with a client id."""
    found: dict[GroupRef, SeenMembers] = defaultdict(SeenMembers)
    for record in records:
        if record.client_id:
            found[GroupRef(record.cluster, record.group)].add(record)
    return found
