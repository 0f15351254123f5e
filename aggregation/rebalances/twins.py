"""Twins: members of a group that have client id and host in common, and differ by member id. Pure.

Theory of operation. Two member ids that got an assignment of one generation are two members,
however alike their names are. Only then member ids count: each has a place of its own, numbered
from 0. A member id that follows another within an episode is the same process. Any other takes the
place of one that has gone before, the latest first, else a new one. So a process that restarts
keeps its number, though its member id is new.

Source: incidents.md 1a.3 and 1a.4.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from msgspec.structs import asdict

from aggregation.rebalances.segments import TwinRecord
from metrics.model.sample import Outcome, Sample, SampleKind, Scope

_Names = tuple[str, str, str, str]
"""Cluster, group, client id, host."""
_MEMBER_EVENTS = {SampleKind.TRANSITION, SampleKind.SIGNAL, SampleKind.LOST}


@dataclass(slots=True)
class _Process:
    """What the records of one process show. Times are those of records."""

    first: str
    last: str
    gone: str = ""
    """When it left, or was lost; empty: it did not."""
    generations: set[int] = field(default_factory=set)
    """Generations of which it got an assignment."""

    def add(self, record: Sample) -> None:
        self.first, self.last = min(self.first, record.ts), max(self.last, record.ts)
        if record.outcome is Outcome.SYNCED and record.generation is not None:
            self.generations.add(record.generation)
        if record.outcome is Outcome.LEFT or record.kind is SampleKind.LOST:
            self.gone = max(self.gone, record.ts)

    def is_beside(self, other: "_Process") -> bool:
        """Check that both are members at one time: spans overlap, and a generation is common."""
        overlap = self.first <= other.last and other.first <= self.last
        return overlap and not self.generations.isdisjoint(other.generations)


@dataclass(slots=True)
class _TwinPlace:
    """A place that one process after another takes."""

    number: int
    last: str
    gone: str


def number_twins(records: Sequence[Sample]) -> list[Sample]:
    """Return the records with a number for each member that has a twin."""
    suspects = _find_suspects(records)
    if not suspects:
        return list(records)
    numbers: dict[tuple[_Names, str], int] = {}
    for names, own in suspects.items():
        numbers |= {(names, name): number for name, number in _number(own).items()}
    return [_with_number(record, numbers) for record in records]


def _find_suspects(records: Sequence[Sample]) -> dict[_Names, list[Sample]]:
    """Return the records of each name under which two member ids share a generation."""
    ids: dict[tuple[_Names, int], str] = {}
    found: dict[_Names, list[Sample]] = {}
    for record in records:
        is_sync = record.outcome is Outcome.SYNCED and record.scope is Scope.CONSUMER
        if is_sync and record.member_id and record.generation is not None:
            if record.group_instance_id is not None:
                continue
            names = _names(record)
            if ids.setdefault((names, record.generation), record.member_id) != record.member_id:
                found.setdefault(names, [])
    for record in records if found else ():
        if record.scope is Scope.CONSUMER and record.group_instance_id is None:
            own = found.get(_names(record))
            if own is not None:
                own.append(record)
    return found


def _number(records: Iterable[Sample]) -> dict[str, int]:
    """Return the place of each member id and episode; nothing where one process has them all."""
    events = sorted((r for r in records if r.kind in _MEMBER_EVENTS), key=lambda r: (r.ts, r.seq))
    owner = _link_episodes(events)
    processes: dict[str, _Process] = {}
    for record in events:
        root = owner.get(record.member_id or "") or owner.get(record.episode or "")
        if root is not None:
            processes.setdefault(root, _Process(record.ts, record.ts)).add(record)
    by_start = sorted(processes.items(), key=lambda item: item[1].first)
    beside = any(a.is_beside(b) for i, (_, a) in enumerate(by_start) for _, b in by_start[i + 1 :])
    if not beside:
        return {}
    places = _number_places(by_start)
    return {name: places[root] for name, root in owner.items()}


def _link_episodes(events: Iterable[Sample]) -> dict[str, str]:
    """Return the first member id of the process of each member id and episode."""
    owner: dict[str, str] = {}
    waiting: dict[str, str] = {}
    for record in events:
        name, episode = record.member_id or "", record.episode or ""
        if name and episode:
            before = waiting.setdefault(episode, name)
            owner.setdefault(name, owner.get(before, before))
            owner.setdefault(episode, owner[name])
        elif name:
            owner.setdefault(name, name)
    return owner


def _number_places(by_start: Iterable[tuple[str, _Process]]) -> dict[str, int]:
    """Return the number of each process: that of one that went before, or a new one."""
    places: list[_TwinPlace] = []
    found: dict[str, int] = {}
    for root, process in by_start:
        free = [place for place in places if place.last < process.first]
        if free:
            place = max(free, key=lambda each: each.gone)
        else:
            place = _TwinPlace(len(places), "", "")
            places.append(place)
        place.last, place.gone = process.last, process.gone
        found[root] = place.number
    return found


def _with_number(record: Sample, numbers: dict[tuple[_Names, str], int]) -> Sample:
    if record.scope is not Scope.CONSUMER or record.group_instance_id is not None:
        return record
    names = _names(record)
    number = numbers.get((names, record.member_id or ""))
    if number is None:
        number = numbers.get((names, record.episode or ""), 0)
    return TwinRecord(**asdict(record) | {"twin": number}) if number else record


def _names(record: Sample) -> _Names:
    return record.cluster, record.group, record.client_id or "", record.host
