"""Grouping of members' segments into rebalances of a group: pure, in linear time.

Theory of operation. Classic protocol: segments with one generation are one rebalance, in spite of
different clocks. Generations that one member passed without an end between them are one rebalance,
and so is a generation without a cause that follows at once: a cooperative follow-up, which not
every client logs. A segment without a generation goes by time: a leave to the rebalance that it
can have begun, an unfinished segment to the rebalance that ran when it began. Unfinished segments
that begin later wait for the next generation: together they are the rebalance that runs now.

New protocols: segments that overlap in time, or follow within a heartbeat, are one rebalance.

Source: semantics.md section 6, incidents.md 1a.1.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import NamedTuple

from msgspec.structs import replace

from aggregation.rebalances.causes import cause_of
from aggregation.rebalances.group_types import split_types
from aggregation.rebalances.segments import DROPPED_GROUP, JOINED, MemberRef, Segment, segments
from metrics.model.sample import CONFIGURED, Outcome, Sample, SampleKind, Scope, digest, parse_time
from metrics.model.signals import streams_thread
from metrics.model.status import RebalanceStatus
from metrics.tracking.source_traits import ADMIN_SOURCES, BROKER_SOURCES

NOTICE_S = 4.0
"""Time until the others notice a leave: heartbeat.interval.ms, 3 s by default, and a margin."""
LATE_NOTICE_S = 10.0
"""The same for clients that send heartbeats only between messages, where no other cause is seen."""
EPOCH_NOTICE_S = 6.0
"""The same in the new protocols (group.consumer.heartbeat.interval.ms, 5 s): members go one by one.
"""
FOLLOW_UP_S = 2.0
"""A follow-up round begins as soon as its member has revoked, or its leader knows new topics."""
BROKER_FOLLOW_UP_S = 1.0
"""The same in a broker's log, which has one clock: what begins later has a cause of its own."""
_LOOP = 2
"""Follow-ups of one generation without a cause that make a loop."""
SKEW_S = 600.0
"""Equal generations further apart than this are of two lives of a group."""


class GroupRef(NamedTuple):
    """A group of a cluster."""

    cluster: str
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceSegments:
    """The segments of one rebalance of a group, by their start."""

    ref: GroupRef
    app: str
    group_type: str
    segments: tuple[Segment, ...]
    consumers: tuple[Segment, ...] = field(init=False)
    """Segments of consumers, without the copies that Streams instances show, without notes."""
    started_at: float = field(init=False)
    """Unix seconds."""
    ended_at: float = field(init=False)
    """Unix seconds; of an open rebalance, the present."""
    generations: tuple[int, ...] = field(init=False)
    """Generations that were synced, in order."""
    is_open: bool = field(init=False)
    """Whether a member is still in it."""

    def __post_init__(self) -> None:
        """Compute once what everything asks for."""
        own = [s for s in self.segments if s.scope is Scope.CONSUMER and not s.is_note]
        spans = own or self.segments
        generations = sorted({each for s in self.segments for each in s.generations})
        object.__setattr__(self, "consumers", tuple(own))
        object.__setattr__(self, "started_at", min([s.started_at for s in spans]))
        object.__setattr__(self, "ended_at", max([s.ended_at for s in spans]))
        object.__setattr__(self, "generations", tuple(generations))
        object.__setattr__(self, "is_open", any(s.is_open for s in own))

    @property
    def own_seconds(self) -> float:
        """Length on the clock of one agent, the longest of them: clocks differ."""
        spans: dict[str, tuple[float, float]] = {}
        for each in self.consumers or self.segments:
            start, end = spans.get(each.agent, (each.started_at, each.ended_at))
            spans[each.agent] = min(start, each.started_at), max(end, each.ended_at)
        return max(end - start for start, end in spans.values())

    @property
    def has_cause(self) -> bool:
        """Whether a member's status rose."""
        return any(segment.steps for segment in self.consumers)

    @property
    def id(self) -> str:
        """Stable identifier: the same in every computation."""
        first = self.generations[0] if self.generations else f"{self.started_at:.6f}"
        return digest(*self.ref, "rebalance", first)[:16]


@dataclass(slots=True, eq=False)
class _Island:
    """Segments of one rebalance while they are collected."""

    segments: list[Segment] = field(default_factory=list)
    generations: set[int] = field(default_factory=set)
    started_at: float = float("inf")
    ended_at: float = float("-inf")
    """Span of its rounds; empty where it has exits and notes alone."""
    has_steps: bool = False
    merged_into: "_Island | None" = None

    @property
    def root(self) -> "_Island":
        island = self
        while island.merged_into is not None:
            island = island.merged_into
        if island is not self:
            self.merged_into = island
        return island

    @property
    def first_at(self) -> float:
        """Start of its first segment, exits included."""
        return min(segment.started_at for segment in self.segments)

    @property
    def last_at(self) -> float:
        """End of its last segment, exits included."""
        return max(segment.ended_at for segment in self.segments)

    def add(self, segment: Segment) -> None:
        self.segments.append(segment)
        self.generations |= segment.generations
        self.has_steps = self.has_steps or bool(segment.steps)
        if segment.is_round:
            self.started_at = min(self.started_at, segment.started_at)
            self.ended_at = max(self.ended_at, segment.ended_at)

    def absorb(self, other: "_Island") -> None:
        self.segments += other.segments
        self.generations |= other.generations
        self.has_steps = self.has_steps or other.has_steps
        self.started_at = min(self.started_at, other.started_at)
        self.ended_at = max(self.ended_at, other.ended_at)
        other.merged_into, other.segments = self, []

    def gap_to(self, segment: Segment) -> float:
        return max(segment.started_at - self.ended_at, self.started_at - segment.ended_at, 0.0)


class _Islands:
    """Islands by start, for lookups by time."""

    def __init__(self, islands: Iterable[_Island]) -> None:
        self._sorted = sorted(islands, key=lambda island: island.started_at)
        self._starts = [island.started_at for island in self._sorted]
        self._ends = list(accumulate((island.ended_at for island in self._sorted), max))
        # ends of islands up to each: from an index on nothing earlier can overlap

    def overlapping(self, start: float, end: float) -> list[_Island]:
        """Return the islands that overlap a span, by start."""
        found, index = list[_Island](), bisect_right(self._starts, end) - 1
        while index >= 0 and self._ends[index] >= start:
            if self._sorted[index].ended_at >= start:
                found.append(self._sorted[index].root)
            index -= 1
        return list(dict.fromkeys(reversed(found)))

    def first_from(self, start: float, until: float) -> _Island | None:
        """Return the first island that starts within a span."""
        index = bisect_left(self._starts, start)
        if index < len(self._starts) and self._starts[index] <= until:
            return self._sorted[index].root
        return None

    def within(self, start: float, end: float) -> Iterator[_Island]:
        """Yield the islands that start and end within a span."""
        for index in range(bisect_left(self._starts, start), bisect_right(self._starts, end)):
            if self._sorted[index].ended_at <= end:
                yield self._sorted[index].root


def group_segments(records: Iterable[Sample], now: float) -> list[RebalanceSegments]:
    """Return what happened to all groups up to Unix seconds ``now``, by its start.

    Some of it is no rebalance (`aggregation.rebalances.rebalances`), but shows who is there.
    """
    found = [
        rebalance
        for group in _by_group(records).values()
        for rebalance in _rebalances(group, now)
        if rebalance.consumers  # a cause without a consequence is no rebalance
    ]
    return sorted(found, key=lambda rebalance: (rebalance.started_at, rebalance.ref))


_OF_MEMBERS = {Scope.CONSUMER, Scope.STREAMS}
_EVENTS = {SampleKind.TRANSITION, SampleKind.SIGNAL, SampleKind.LOST}


def _by_group(records: Iterable[Sample]) -> dict[GroupRef, list[Sample]]:
    groups: dict[GroupRef, dict[str, Sample]] = defaultdict(dict)
    for record in records:
        is_event = record.kind in _EVENTS or record.field == JOINED
        if record.scope in _OF_MEMBERS and is_event:
            groups[GroupRef(record.cluster, record.group)].setdefault(record.id, record)
    return {ref: _drop_nameless(list(found.values())) for ref, found in groups.items()}


def _drop_nameless(records: list[Sample]) -> list[Sample]:
    """Drop records without a client id where others have one: they are of the same members.

    Logs of some clients name no member; which one they report is not known, but for a drop.
    """
    named = [record for record in records if record.client_id or record.group_instance_id]
    nameless = [r for r in records if not (r.client_id or r.group_instance_id)]
    return _attribute_drops(named, nameless) if named else records


def _attribute_drops(named: list[Sample], nameless: list[Sample]) -> list[Sample]:
    """Make a leave without a reason a drop, where a line without a name reports one just then.

    The wire shows that a member leaves, and its log why (semantics.md 4a).
    """
    drops = [r for r in nameless if r.to == DROPPED_GROUP and r.kind is SampleKind.TRANSITION]
    leaves = {
        record.episode: record
        for record in named
        if record.outcome is Outcome.LEFT and record.reason is None
    }
    reasons: dict[str | None, str | None] = {}
    for drop in drops:
        at = parse_time(drop.ts)
        gaps = {episode: abs(parse_time(leave.ts) - at) for episode, leave in leaves.items()}
        nearest = min(gaps, key=gaps.__getitem__, default=None)
        if nearest is not None and gaps[nearest] <= FOLLOW_UP_S:
            reasons[nearest] = drop.reason
    return [
        record if record.episode not in reasons else _as_drop(record, reasons[record.episode])
        for record in named
    ]


def _as_drop(record: Sample, reason: str | None) -> Sample:
    if record.to != RebalanceStatus.USER_REQUESTED and record.outcome is not Outcome.LEFT:
        return record
    to = DROPPED_GROUP.value if record.to else record.to
    return replace(record, to=to, outcome=None, reason=reason)


def _rebalances(records: list[Sample], now: float) -> list[RebalanceSegments]:
    return [rebalance for part in split_types(records) for rebalance in _rebalances_of(part, now)]


def _rebalances_of(records: list[Sample], now: float) -> list[RebalanceSegments]:
    """Return the rebalances of a group as long as it had one type: that of its latest record."""
    latest = max(records, key=lambda record: (record.group_type != "classic", record.ts))
    ref = GroupRef(latest.cluster, latest.group)
    cut = _name(_drop_refused([s for s in segments(records, now) if not _is_pending(s)]))
    collect = _join if latest.group_type == "classic" else _follow
    return [
        RebalanceSegments(
            ref=ref,
            app=latest.app,
            group_type=latest.group_type,
            segments=tuple(sorted(island.segments, key=lambda segment: segment.started_at)),
        )
        for island in collect(cut)
        if island.segments
    ]


def _name(cut: list[Segment]) -> list[Segment]:
    """Give a member that two agents saw, by its member id and client id, the one name.

    librdkafka's mock cluster gives a member's id again, to a member with another client id.
    """
    names: dict[tuple[str, str], MemberRef] = {}
    for segment in cut:
        if segment.member_id and segment.scope is Scope.CONSUMER:
            names.setdefault((segment.member_id, segment.member.client_id), segment.member)
    return [
        segment
        if segment.scope is Scope.STREAMS
        or (name := names.get((segment.member_id or "", segment.member.client_id), segment.member))
        is segment.member
        else replace(segment, member=name)
        for segment in cut
    ]


def _drop_refused(cut: list[Segment]) -> list[Segment]:
    """Return the segments without refused joins: nobody else has to rebalance for them.

    A member that was asked to rejoin takes part in a rebalance that another one began. If nobody
    else is seen to do so, its failed join is the only evidence of that rebalance.
    """
    if not any(segment.is_refused for segment in cut):
        return cut
    rounds = [s for s in cut if s.is_round and not s.is_refused and s.scope is Scope.CONSUMER]
    starts = [segment.started_at for segment in rounds]  # in order, as `segments` returns them
    ends = [*accumulate((segment.ended_at for segment in rounds), max)]
    return [
        each
        for each in cut
        if not each.is_refused or (_was_asked(each) and not _meets(each, starts, ends))
    ]


def _was_asked(segment: Segment) -> bool:
    is_asked = segment.steps[:1] and segment.steps[0].code is RebalanceStatus.COORDINATOR_REQUESTED
    return bool(is_asked) and bool(segment.generations)


def _meets(segment: Segment, starts: Sequence[float], ends: Sequence[float]) -> bool:
    """Check for a round within a segment's time; ``ends`` are the latest ends up to each round."""
    index = bisect_right(starts, segment.ended_at)
    return index > 0 and ends[index - 1] >= segment.started_at


def _is_pending(segment: Segment) -> bool:
    """Check for a scheduled probing rebalance: raised after the zero, none is going on."""
    probing = RebalanceStatus.ASSIGNMENT_PROBING
    is_layer = segment.scope is Scope.STREAMS
    return is_layer and segment.steps[:1] != () and segment.steps[0].code is probing


def _join(cut: list[Segment]) -> list[_Island]:
    """Collect the segments of a classic group: by generation, then the others by time."""
    synced = [s for s in cut if s.is_round and s.generations and not s.is_open]
    unfinished = [s for s in cut if s.is_round and (s.is_open or not s.generations)]
    found = _by_generation(synced)
    index = _Islands(found)
    loose = _place_unfinished(unfinished, index)
    _merge_spanned([*synced, *(s for s in unfinished if not s.is_open)], index)
    alive = [island for island in [*found, *loose] if island.merged_into is None]
    placed = _place_exits([s for s in cut if not s.is_round], alive)
    return _merge_follow_ups(placed)


def _by_generation(synced: Sequence[Segment]) -> list[_Island]:
    found: list[_Island] = []
    latest: dict[int, _Island] = {}
    for segment in synced:
        same = [latest[g].root for g in segment.generations if g in latest]
        near = [island for island in dict.fromkeys(same) if _is_near(island, segment)]
        island = near[0] if near else _Island()
        for other in near[1:]:
            island.absorb(other)
        if not near:
            found.append(island)
        island.add(segment)
        latest.update(dict.fromkeys(segment.generations, island))
    return [island for island in found if island.merged_into is None]


def _is_near(island: _Island, segment: Segment) -> bool:
    """Check that a segment is of an island's generation: without a cause it must be near.

    A static member gets its generation again when it comes back within its session.
    """
    with_cause = island.has_steps and segment.steps
    return island.gap_to(segment) <= (SKEW_S if with_cause else NOTICE_S)


def _place_unfinished(unfinished: Sequence[Segment], index: _Islands) -> list[_Island]:
    """Add each segment without an end to the rebalance that ran when it began.

    The others wait for a generation that is still to come: that of a follow-up, if a member that
    has to revoke still waits for it, or of a rebalance of their own.
    """
    loose: list[_Island] = []
    revoking: _Island | None = None
    for segment in unfinished:
        until = segment.started_at if segment.is_open else segment.ended_at
        running = index.overlapping(segment.started_at, until)
        if running:
            running[0].add(segment)
            revoking = running[0] if _is_revoking(segment) else revoking
        elif revoking is not None and _is_effect(segment, revoking):
            revoking.add(segment)
        elif loose and loose[-1].ended_at >= segment.started_at:
            loose[-1].add(segment)
        else:
            loose.append(_Island())
            loose[-1].add(segment)
    return loose


def _is_revoking(segment: Segment) -> bool:
    """Check for a member with an assignment that needs a follow-up round."""
    codes = {step.code for step in segment.steps if not step.masked}
    return segment.is_open and RebalanceStatus.REVOCATION_NEEDED in codes


def _merge_spanned(closed: Sequence[Segment], index: _Islands) -> None:
    """Merge generations that a member passed without an end between them.

    It passed none in an instant: a log without times has one time for all its generations.
    """
    for segment in closed:
        if not segment.generations or segment.started_at == segment.ended_at:
            continue
        inside = list(index.within(segment.started_at, segment.ended_at))
        if not inside:
            continue
        overlapping = index.overlapping(segment.started_at, segment.ended_at)
        own = next((i for i in overlapping if i.generations & segment.generations), None)
        for island in reversed(inside):  # from the generation before its own
            if own is not None and island is not own and _precedes(island, own):
                own.absorb(island)


def _precedes(island: _Island, other: _Island) -> bool:
    if not island.generations or max(island.generations) + 1 == min(other.generations):
        return True
    return all(min(other.generations) < g < max(other.generations) for g in island.generations)


def _merge_follow_ups(islands: list[_Island]) -> list[_Island]:
    """Merge a generation without a cause into the one that it follows at once."""
    islands.sort(key=lambda island: island.started_at)
    looping = _find_loops(islands)
    for before, island in pairwise(islands):
        base = before.root
        if _follows(island, base) and island not in looping:
            base.absorb(island)
    return [island for island in islands if island.merged_into is None]


def _find_loops(islands: Sequence[_Island]) -> set[_Island]:
    """Return generations in runs of several without a cause: no revocation has so many follow-ups.

    A Connect worker with a CONFIG_MISMATCH rejoins at once, for ever.
    """
    found, run = set[_Island](), list[_Island]()
    for before, island in pairwise(islands):
        if before.has_steps or island.has_steps or not _follows(island, before):
            run = []
            continue
        run.append(island)
        if len(run) >= _LOOP:
            found.update(run)
    return found


_FOLLOW_UPS = {None, RebalanceStatus.REVOCATION_NEEDED}


def _follows(island: _Island, base: _Island) -> bool:
    if not (island.generations and base.generations):
        return False
    by_broker = all(segment.source in BROKER_SOURCES for segment in island.segments)
    limit_s = BROKER_FOLLOW_UP_S if by_broker else FOLLOW_UP_S
    at_once = 0.0 <= island.started_at - base.ended_at <= limit_s
    return (
        at_once
        and min(island.generations) == max(base.generations) + 1
        and not any(segment.is_exit for segment in island.segments)
        and all(_is_effect(segment, base) for segment in island.segments)
    )


def _is_effect(segment: Segment, base: _Island) -> bool:
    """Check that a member of an earlier rebalance has no cause of its own.

    One that only went in it has come back, which begins a rebalance also where no log shows a join.
    """
    key = segment.member.key
    is_known = any(each.member.key == key and not each.is_exit for each in base.segments)
    if (segment.shown or "").startswith(CONFIGURED):
        return False  # Connect's tasks have changed: its assignment shows a newer configuration
    return is_known and {cause_of(step) for step in segment.steps} <= _FOLLOW_UPS


def _place_exits(exits: Sequence[Segment], islands: list[_Island]) -> list[_Island]:
    """Add each leave to the rebalance that it began, or else to the one that it fell into.

    A member that was requested to join, and was dropped before it did, was in that rebalance.
    """
    index, alone = _Islands(islands), list[_Island]()
    settled = {(id(island), s.member) for island in islands for s in island.segments if s.is_round}
    requested: list[tuple[float, _Island]] = []
    for segment in sorted(exits, key=_is_requested, reverse=True):
        until = segment.ended_at + NOTICE_S
        begun = (
            _find_joined(segment, index, settled)
            or index.first_from(segment.started_at, until)
            or next(
                (island.root for at, island in requested if segment.started_at <= at <= until), None
            )
        )
        running = index.overlapping(segment.started_at, segment.ended_at)
        late = index.first_from(segment.ended_at, segment.ended_at + LATE_NOTICE_S)
        if begun is not None:
            begun.add(segment)
        elif running:
            running[0].add(segment)
        elif late is not None and _is_without_cause(late, segment):
            late.add(segment)
        elif alone and alone[-1].last_at + NOTICE_S >= segment.started_at:
            alone[-1].add(segment)
        else:
            alone.append(_Island())
            alone[-1].add(segment)
        if _is_requested(segment) and begun is not None:
            requested.append((segment.started_at, begun))
    return islands + alone


def _find_joined(
    leave: Segment, index: _Islands, settled: Container[tuple[int, MemberRef]]
) -> _Island | None:
    """Return the rebalance that a member was to join, if it ran until the member had left.

    The others' clocks may show that it began a little earlier than the request, and the next one
    may follow soon. ``settled`` are rebalances' ids, and members with an assignment in them.
    """
    if not _is_requested(leave):
        return None
    return next(
        (
            island
            for island in index.overlapping(leave.started_at, leave.started_at)
            if leave.ended_at <= island.ended_at and (id(island), leave.member) not in settled
        ),
        None,
    )


def _is_requested(leave: Segment) -> bool:
    first = leave.steps[0].code if leave.steps else None
    return first is RebalanceStatus.COORDINATOR_REQUESTED


def _is_without_cause(island: _Island, leave: Segment) -> bool:
    """Check that nothing but a leave before it can have begun a rebalance.

    Another agent may have seen the same leave. A leave raises the generation by one, also if it
    leaves the group empty.
    """
    if leave.epoch is not None and min(island.generations, default=0) > leave.epoch + 1:
        return False
    others = [s for s in island.segments if not (s.is_exit and _is_same_leave(s, leave))]
    return not any(each.member == leave.member or _is_cause(each) for each in others)


def _is_same_leave(one: Segment, other: Segment) -> bool:
    return one.member == other.member and _is_same_event(one, other)


_View = tuple[tuple[str, ...], bool, RebalanceStatus | None] | None


def _follow(cut: list[Segment]) -> list[_Island]:
    """Collect the segments of a new protocol: members go one by one, so causes lead."""
    trail = _Trail()
    for segment in cut:
        trail.add(segment)
    return trail.found


@dataclass(slots=True)
class _Trail:
    """The rebalances of a group of a new protocol, while they are collected by time."""

    found: list[_Island] = field(default_factory=list)
    recent: list[_Island] = field(default_factory=list)
    latest: dict[int, _Island] = field(default_factory=dict)
    """By epoch."""
    seen: dict[_View, tuple[Segment, _Island]] = field(default_factory=dict)
    removals: dict[tuple[str, ...], _Island] = field(default_factory=dict)
    """By the key of each member that an admin removed."""

    def add(self, segment: Segment) -> None:
        at = segment.started_at
        self.recent = [each for each in self.recent if each.last_at + EPOCH_NOTICE_S >= at]
        island = self._find(segment)
        if island is None:
            island = _Island()
            self.found.append(island)
            self.recent.append(island)
        island.add(segment)
        self.latest.update(dict.fromkeys(segment.generations, island))
        view = _view_of(segment)
        if view is not None:
            self.seen[view] = segment, island
        if _is_removal(segment):
            self.removals[segment.member.key] = island

    def _find(self, segment: Segment) -> _Island | None:
        """Return the rebalance that a segment is a part of; None: it begins one."""
        same = self._find_same(segment)
        last = self.recent[-1] if self.recent else None
        if same is not None or last is None:
            return same
        if _continues(last, segment):
            return last
        begins = _is_removal(segment) or _is_cause(segment) or _has_moved_on(last, segment)
        return None if begins else last

    def _find_same(self, segment: Segment) -> _Island | None:
        """Return the rebalance of the same event, removal or epoch."""
        before = self.seen.get(_view_of(segment))
        if before is not None and _is_same_event(before[0], segment):
            return before[1]
        removal = self.removals.get(segment.member.key) if _is_unknown(segment) else None
        if removal in self.recent:
            return removal
        of_epochs = (self.latest.get(generation) for generation in segment.generations)
        return next((island for island in of_epochs if island in self.recent), None)


def _continues(last: _Island, segment: Segment) -> bool:
    """Check that a segment is a part of the last rebalance, though it shows a cause."""
    return (
        _is_back_at_once(last, segment)
        or _is_same_removal(last, segment)
        or _is_removed_instance(last, segment)
        or _is_started_instance(last, segment)
        or (segment.is_exit and _is_unnoticed(last, segment))
    )


def _is_removal(segment: Segment) -> bool:
    """Check for an admin's leave in a member's name, as the wire shows it."""
    is_seen = segment.source in ADMIN_SOURCES and segment.source not in BROKER_SOURCES
    return is_seen and segment.is_note and any(note.reason for note in segment.notes)


def _is_same_removal(island: _Island, removal: Segment) -> bool:
    """Check that the admin's request names another member, too."""
    last = island.segments[-1]
    is_soon = removal.started_at <= last.started_at + FOLLOW_UP_S
    return _is_removal(removal) and _is_removal(last) and is_soon


def _is_unknown(segment: Segment) -> bool:
    return any(step.code is RebalanceStatus.UNKNOWN_MEMBER for step in segment.steps)


def _is_new(segment: Segment) -> bool:
    return [step.code for step in segment.steps[:1]] == [RebalanceStatus.NEW_MEMBER]


def _is_same_instance(one: Segment, other: Segment) -> bool:
    """Check for two threads of one Streams instance."""
    instance = _instance_of(other)
    return instance is not None and instance == _instance_of(one)


def _is_removed_instance(island: _Island, segment: Segment) -> bool:
    """Check that a thread of a Streams instance was removed together with another one.

    The instance was frozen, or lost its connection.
    """
    before = island.segments[0]
    return (
        _is_same_instance(before, segment)
        and _is_unknown(before)
        and _is_unknown(segment)
        and segment.started_at <= island.last_at + FOLLOW_UP_S
    )


def _is_started_instance(island: _Island, segment: Segment) -> bool:
    """Check that a thread of a Streams instance joined together with another one.

    By a broker's log the first thread has its epoch only after it has got its tasks.
    """
    before = island.segments[0]
    return (
        _is_same_instance(before, segment)
        and _is_new(before)
        and _is_new(segment)
        and segment.started_at <= before.started_at + FOLLOW_UP_S
    )


def _is_back_at_once(island: _Island, segment: Segment) -> bool:
    """Check that a dropped member returned before any other member noticed.

    A frozen process sees both its poll interval's end and the group when it goes on.
    """
    before = island.segments[-1]
    return (
        segment.is_round
        and before.is_exit
        and before.outcome is not Outcome.LEFT
        and before.member == segment.member
        and segment.started_at <= before.ended_at + FOLLOW_UP_S
    )


def _view_of(segment: Segment) -> _View:
    """Return what a segment is about: a member's exit, or the cause of its rebalance."""
    if not _is_cause(segment):
        return None
    code = None if segment.is_exit else cause_of(segment.steps[0])
    return segment.member.key, segment.is_exit, code


def _is_same_event(first: Segment, second: Segment) -> bool:
    """Check that two agents report one event of a member: epochs are read at different moments."""
    is_near = second.started_at <= first.ended_at + FOLLOW_UP_S
    return first.agent != second.agent and is_near


def _is_unnoticed(island: _Island, leave: Segment) -> bool:
    """Check that threads of one Streams instance leave one after the other, before others move."""
    instance = _instance_of(leave)
    is_soon = leave.started_at <= island.last_at + FOLLOW_UP_S
    return (
        instance is not None
        and is_soon
        and all(s.is_exit and _instance_of(s) == instance for s in island.segments)
    )


def _instance_of(segment: Segment) -> tuple[str, str] | None:
    """Return the Streams instance, with its host, that a thread is of or that repeats a thread."""
    client_id, host, *_ = segment.member
    thread = streams_thread(client_id)
    if thread is not None:
        return thread.instance, host
    return (client_id, host) if segment.scope is Scope.STREAMS else None


def _has_moved_on(island: _Island, segment: Segment) -> bool:
    """Check that a member that had settled in a rebalance is in a later epoch's."""
    own = [s for s in island.segments if s.member == segment.member and s.is_round]
    epochs = [s.epoch for s in island.segments if s.epoch is not None]
    if not own or segment.epoch is None or segment.epoch <= max(epochs, default=segment.epoch):
        return False
    return segment.started_at > max(s.ended_at for s in own) + NOTICE_S


def _is_cause(segment: Segment) -> bool:
    if segment.is_exit:
        return segment.scope is not Scope.STREAMS  # its threads leave
    return any(cause_of(step) for step in segment.steps[:1])
