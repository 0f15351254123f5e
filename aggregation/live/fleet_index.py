"""Rows of the fleet by group and by member, for any number of agents of a group.

Theory of operation. A change makes the words of its row due: client id, instance id and member ids.
Only rows that share a word with it, or with another such row, can be its member; only these are
named again. So a member that joins costs as much in a large group, but for a look at all words.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from aggregation.live.fleet_member import FleetMember, FleetMemberKey
from aggregation.live.member_names import MemberName, list_words, name_rows, own_name
from metrics.tracking.source_traits import FILE_SOURCES

FleetRow = tuple[FleetMemberKey, FleetMember]
_Member = tuple[str, MemberName]
"""Scope and name."""


@dataclass(slots=True)
class FleetGroup:
    """The rows of one group."""

    rows: dict[FleetMemberKey, FleetMember] = field(default_factory=dict)
    names: dict[FleetMemberKey, MemberName] = field(default_factory=dict)
    """Those that differ from an agent's own."""
    members: Sequence[tuple[_Member, Sequence[FleetRow]]] = ()
    clusters: Counter[str] = field(default_factory=Counter)
    """Number of rows of each cluster; some agents do not know theirs."""
    due: set[str] = field(default_factory=set)
    """Words of rows that have changed."""

    def count(self, cluster: str, rows: int) -> None:
        """Count a cluster's rows; a cluster that is new, or gone, may change the others' names."""
        before = self.clusters[cluster]
        self.clusters[cluster] += rows
        if not before or not self.clusters[cluster]:
            self.clusters += Counter()  # drops zeros
            if self.clusters[""]:
                unknown = (key for key in self.rows if not key.cluster)
                self.due.update(word for key in unknown for word in list_words(key, self.rows[key]))

    def update(self) -> None:
        """Name the rows that have changed."""
        if not self.due:
            return
        for key, name in name_rows(self.rows, self.due).items():
            if name == own_name(key):
                self.names.pop(key, None)
            else:
                self.names[key] = name
        members: dict[_Member, list[FleetRow]] = defaultdict(list)
        for key, row in self.rows.items():
            members[key.scope, self.names.get(key) or own_name(key)].append((key, row))
        self.members = [
            (member, own)
            for member, rows in _join_static(members).items()
            for own in _split_twins(member, rows)
        ]
        self.due.clear()


def _join_static(
    members: Mapping[_Member, Sequence[FleetRow]],
) -> Mapping[_Member, Sequence[FleetRow]]:
    """Return the members; a static one that has come back under another client id is one.

    Its name is that of the process with the last assignment: a second one of its id is refused.
    """
    latest: dict[tuple[str, str, str], list[_Member]] = defaultdict(list)
    for scope, name in members:
        if name.group_instance_id:
            latest[scope, name.cluster, name.group_instance_id].append((scope, name))
    several = [same for same in latest.values() if len(same) > 1]
    if not several:
        return members
    joined = dict(members)
    for same in several:
        rows = [row for member in same for row in joined.pop(member)]
        last = max(same, key=lambda member: max(map(_activity, members[member])))
        joined[last] = rows
    return joined


def _split_twins(member: _Member, rows: Sequence[FleetRow]) -> Iterator[Sequence[FleetRow]]:
    """Yield the rows of each of several members with one name, as their logs show them.

    Containers may have one host's name, and client ids repeat. Each client's log has all of its
    member ids, so logs without a common one are of two members. Rows of other sources go with a log
    that has their id, else with the first.
    """
    twins: list[set[str]] = []
    for row in () if member[1].group_instance_id or len(rows) == 1 else map(itemgetter(1), rows):
        if row.source in FILE_SOURCES and row.ids:
            same = [ids for ids in twins if not ids.isdisjoint(row.ids)]
            twins = [ids for ids in twins if ids not in same] + [set(row.ids).union(*same)]
    if len(twins) <= 1:
        yield rows
        return
    found: list[list[FleetRow]] = [[] for _ in twins]
    for each in rows:
        own = (n for n, ids in enumerate(twins) if not ids.isdisjoint(each[1].ids))
        found[next(own, 0)].append(each)
    yield from found


def _activity(row: FleetRow) -> tuple[float, float]:
    return row[1].synced_at, row[1].active_at


class FleetIndex:
    """All groups with rows."""

    def __init__(self, rows: Mapping[FleetMemberKey, FleetMember]) -> None:
        """Start with ``rows``."""
        self._groups: dict[str, FleetGroup] = defaultdict(FleetGroup)
        for key, row in rows.items():
            self.add(key, row)

    def add(self, key: FleetMemberKey, row: FleetMember) -> None:
        """Add a new row, or one with other member ids."""
        group = self._groups[key.group]
        if key not in group.rows:
            group.rows[key] = row
            group.count(key.cluster, 1)
        group.due.update(list_words(key, row))

    def remove(self, key: FleetMemberKey) -> None:
        """Remove a row, and its group with the last one."""
        group = self._groups[key.group]
        row = group.rows.pop(key)
        group.names.pop(key, None)
        group.count(key.cluster, -1)
        group.due.update(list_words(key, row))
        if not group.rows:
            del self._groups[key.group]

    def groups(self) -> Iterator[FleetGroup]:
        """Return the groups; all rows have their names."""
        for group in self._groups.values():
            group.update()
            yield group

    def members(self) -> Iterator[tuple[str, MemberName, Sequence[FleetRow]]]:
        """Return scope, name and rows of each member."""
        for group in self.groups():
            for (scope, name), rows in group.members:
                yield scope, name, rows
