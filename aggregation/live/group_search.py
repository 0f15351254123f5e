"""Search in views of groups: by name, type, state, member and host; pages of a long list."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple

from aggregation.live.group_views import GroupView


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSearch:
    """The wanted groups. An empty field matches all.

    A text matches values that contain it; upper and lower case are equal. With ``*`` or ``?`` it is
    a pattern for the whole value.
    """

    name: str = ""
    types: frozenset[str] = frozenset()
    """In small letters."""
    states: frozenset[str] = frozenset()
    """The coordinator's states, in small letters; `UNSTABLE` matches groups that are not stable."""
    member: str = ""
    """Client id, member id or ``group.instance.id``."""
    host: str = ""

    def matches(self, view: GroupView) -> bool:
        """Return whether a group is wanted; member and host are of the same member."""
        return (
            contains(self.name, view.group)
            and (not self.types or view.group_type.lower() in self.types)
            and (not self.states or self._has_state(view))
            and (not (self.member or self.host) or any(map(self._has_member, _members(view))))
        )

    def _has_state(self, view: GroupView) -> bool:
        is_unstable = UNSTABLE in self.states and not view.is_stable
        return is_unstable or (view.state or "").lower() in self.states

    def _has_member(self, member: "_NamedMember") -> bool:
        return any(contains(self.member, name) for name in member.names) and contains(
            self.host, member.host
        )


class GroupPage(NamedTuple):
    """A part of the groups that were found."""

    groups: Sequence[GroupView]
    total: int
    """The number of all that were found."""


class _NamedMember(NamedTuple):
    names: tuple[str, ...]
    host: str


UNSTABLE = "unstable"


def search_groups(
    views: Sequence[GroupView], search: GroupSearch, *, offset: int = 0, limit: int | None = None
) -> GroupPage:
    """Return one page of the wanted groups, in the order of the views."""
    found = [view for view in views if search.matches(view)]
    end = None if limit is None else offset + limit
    return GroupPage(found[offset:end], len(found))


def contains(wanted: str, text: str) -> bool:
    """Return whether a text contains the wanted one, or matches it if that is a pattern."""
    wanted, text = wanted.lower(), text.lower()
    if "*" in wanted or "?" in wanted:
        return fnmatchcase(text, wanted.replace("[", "[[]"))
    return wanted in text


def _members(view: GroupView) -> Iterator[_NamedMember]:
    for row in view.observed_members:
        names = (row.client_id, row.member_id or "", row.group_instance_id or "")
        yield _NamedMember(names, row.host)
    for each in view.inspected_members:
        yield _NamedMember((each.client_id, each.member_id, each.instance_id or ""), each.host)
