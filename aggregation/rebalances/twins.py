"""Twins: members of a group that have client id and host in common. Pure.

Theory of operation. Two member ids that got an assignment of one generation are two members,
however alike their names are; so are two log files that are written at one time. Only then these
count: each member has a place of its own, numbered from 0. All member ids of one file are of one
place, and a member id that follows another within an episode is the same process. Any other takes
the place of one that has gone before, the latest first, else a new one; other files have other
places, unless their names differ by dates or process ids alone. So a process that restarts
keeps its number, though its member id is new. Files with one member id, or with equal moves at
equal times, are logs of one process. Where several consumers write one log, its member ids alone
count within it. Clients without member ids in their logs (Java before
2.4, librdkafka at its default level) have their files alone.

Source: incidents.md 1a.3 and 1a.4.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import asdict

from aggregation.rebalances.segments import TwinRecord
from metrics.model.sample import Outcome, Sample, SampleKind, Scope

_Names = tuple[str, str, str, str]
"""Cluster, group, client id, host."""
_GENERATED = re.compile(r"(\d[-_.:T\d]{2,}\d|[0-9a-f]{8,})(?=[^/\\]*$)")
"""Dates, process ids and digests in a file's name: each start may write a file of its own."""
_CONSUMER = "#consumer "
"""Before the number of a consumer whose log is that of others. A line without a member id may be
another's, and the traffic's first records have the file of the log that joined first."""
_COPIED = 0.9
"""Share of equal moves; members of one machine have half of them, the ends, at one millisecond."""
_FEWEST_COPIED = 4
"""Those of two rebalances: fewer may be equal by chance."""
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
    log_file: str | None = None
    has_id: bool = False
    moves: set[tuple[str, int | None, int | None]] = field(default_factory=set)
    """Times of its transitions, from which status and to which."""

    def add(self, record: Sample, log_file: str | None) -> None:
        self.log_file = self.log_file or log_file
        self.has_id = self.has_id or bool(record.member_id)
        if record.kind is SampleKind.TRANSITION:
            self.moves.add((record.ts, record.from_, record.to))
        self.first = min(self.first, record.ts)
        if record.kind is not SampleKind.LOST:  # an open status of a dead process ends much later
            self.last = max(self.last, record.ts)
        if record.outcome is Outcome.SYNCED and record.generation is not None:
            self.generations.add(record.generation)
        if record.outcome is Outcome.LEFT or record.kind is SampleKind.LOST:
            self.gone = max(self.gone, record.ts)

    def is_beside(self, other: "_Process") -> bool:
        """Check that both are members at one time.

        Their spans overlap, and they have a generation in common, or each has a file of its own.
        """
        if self.first > other.last or other.first > self.last:
            return False
        have_files = self.log_file is not None and other.log_file is not None
        are_apart = have_files and self.log_file != other.log_file
        return are_apart or not self.generations.isdisjoint(other.generations)

    def is_copy_of(self, other: "_Process") -> bool:
        """Check for two logs of one process: without two member ids, equal moves at equal times."""
        if self.has_id and other.has_id:
            return False
        fewest = min(len(self.moves), len(other.moves))
        return len(self.moves & other.moves) >= max(_COPIED * fewest, _FEWEST_COPIED)


@dataclass(slots=True)
class _TwinPlace:
    """A place that one process after another takes."""

    number: int
    last: str
    gone: str
    log_file: str | None = None

    def is_free_for(self, process: _Process) -> bool:
        """Check that a process may be the next one: the last one has ended, in such a file."""
        if self.last >= process.first:
            return False
        if self.log_file is None or process.log_file is None:
            return True
        return _GENERATED.sub("", self.log_file) == _GENERATED.sub("", process.log_file)


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
    """Return the records of each name that has two files, or two member ids of one generation."""
    own = [r for r in records if r.scope is Scope.CONSUMER and r.group_instance_id is None]
    firsts: dict[tuple[_Names, int | None], str] = {}
    found: dict[_Names, list[Sample]] = {}
    for record in own:
        file, generation = record.log_file, record.generation
        if file is not None and firsts.setdefault((_names(record), None), file) != file:
            found[_names(record)] = []
        member_id = record.member_id if record.outcome is Outcome.SYNCED else None
        if member_id and generation is not None:
            key = _names(record), generation
            if firsts.setdefault(key, member_id) != member_id:
                found[_names(record)] = []
    for record in own if found else ():
        of_names = found.get(_names(record))
        if of_names is not None:
            of_names.append(record)
    return found


def _number(records: Iterable[Sample]) -> dict[str, int]:
    """Return the place of each member id and episode; nothing where one process has them all."""
    events = sorted((r for r in records if r.kind in _MEMBER_EVENTS), key=lambda r: (r.ts, r.seq))
    shared = _find_shared_files(events)
    owner = _link_names(events, shared)
    processes: dict[str, _Process] = {}
    for record in events:
        root = next((owner[name] for name in _own_names(record) if name in owner), None)
        if root is not None:
            process = processes.setdefault(root, _Process(record.ts, record.ts))
            process.add(record, shared.get(record.log_file or "", record.log_file))
    by_start = sorted(processes.items(), key=lambda item: item[1].first)
    copies = _find_copies(by_start)
    own = [item for item in by_start if item[0] not in copies]
    if not _are_several([process for _, process in own]):
        return {}
    places = _number_places(own)
    return {name: places[copies.get(root, root)] for name, root in owner.items()}


def _find_copies(by_start: Iterable[tuple[str, _Process]]) -> dict[str, str]:
    """Return the first log of each process that has several of them at one time, by the others."""
    running: list[tuple[str, _Process]] = []
    found: dict[str, str] = {}
    for root, process in by_start:
        running = [each for each in running if each[1].last >= process.first]
        first = next((name for name, each in running if process.is_copy_of(each)), None)
        if first is not None:
            found[root] = first
        elif process.log_file is not None:
            running.append((root, process))
    return found


def _are_several(by_start: Iterable[_Process]) -> bool:
    """Check for two processes that are members at one time."""
    running: list[_Process] = []
    for process in by_start:
        running = [each for each in running if each.last >= process.first]
        if any(process.is_beside(each) for each in running):
            return True
        running.append(process)
    return False


def _link_names(events: Sequence[Sample], shared: Mapping[str, str]) -> dict[str, str]:
    """Return the process of each member id, episode and file: its file, or its first member id.

    Two files with one member id are logs of one process. In ``shared`` files several consumers
    write: a member id and its episodes alone are of one.
    """
    parents: dict[str, str] = {}
    for record in events:
        if record.log_file is not None and record.log_file not in shared:
            file = _root(parents, record.log_file)
            for name in _own_names(record):
                parents[_root(parents, name)] = file
    owner = {name: _root(parents, name) for name in list(parents)}
    waiting: dict[str, str] = {}
    for record in events:
        name, episode = record.member_id or "", record.episode or ""
        if name and episode:
            before = waiting.setdefault(episode, name)
            owner.setdefault(name, owner.get(before, before))
            owner.setdefault(episode, owner[name])
        elif name:
            owner.setdefault(name, name)
    return owner | _find_owners(events, shared, owner)


def _find_owners(
    events: Iterable[Sample], shared: Mapping[str, str], owner: Mapping[str, str]
) -> dict[str, str]:
    """Return the last process of each shared file: that of records without id and episode."""
    return {
        record.log_file: owner[record.member_id]
        for record in events
        if record.log_file in shared and record.log_file and record.member_id in owner
        if record.member_id
    }


def _find_shared_files(events: Iterable[Sample]) -> dict[str, str]:
    """Return the log of each file name that is that of one of several consumers of a log."""
    files = {record.log_file for record in events if record.log_file is not None}
    logs = {file.partition(_CONSUMER)[0] for file in files if _CONSUMER in file}
    own = ((file, file.partition(_CONSUMER)[0]) for file in files)
    return {file: log for file, log in own if log in logs}


def _root(parents: dict[str, str], name: str) -> str:
    while parents.setdefault(name, name) != name:
        parents[name] = name = parents[parents[name]]
    return name


def _own_names(record: Sample) -> list[str]:
    """Return the names of a record's process, the surest first."""
    return [name for name in (record.member_id, record.episode, record.log_file) if name]


def _number_places(by_start: Iterable[tuple[str, _Process]]) -> dict[str, int]:
    """Return the number of each process: that of one that went before, or a new one."""
    places: list[_TwinPlace] = []
    found: dict[str, int] = {}
    for root, process in by_start:
        free = [place for place in places if place.is_free_for(process)]
        if free:
            place = max(free, key=lambda each: each.gone)
        else:
            place = _TwinPlace(len(places), "", "")
            places.append(place)
        place.last, place.gone, place.log_file = process.last, process.gone, process.log_file
        found[root] = place.number
    return found


def _with_number(record: Sample, numbers: dict[tuple[_Names, str], int]) -> Sample:
    if record.scope is not Scope.CONSUMER or record.group_instance_id is not None:
        return record
    names = _names(record)
    known = ((names, name) for name in _own_names(record))
    number = next((numbers[name] for name in known if name in numbers), 0)
    return TwinRecord(**asdict(record) | {"twin": number}) if number else record


def _names(record: Sample) -> _Names:
    return record.cluster, record.group, record.client_id or "", record.host
