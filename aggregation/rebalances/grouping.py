"""Which pieces of a group's members are one rebalance of the group: pure.

Theory of operation. Pieces that share a generation (an epoch, in the new protocols) are one
rebalance, whatever the clocks say; so are generations that a member went through without coming to
rest. Pieces without one go by time: a leave to what it can have begun, a round to what it overlaps.

Source: semantics.md section 6.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from aggregation.rebalances.causes import cause_of
from aggregation.rebalances.segments import MemberRef, Segment, segments
from metrics.model.sample import Sample, SampleKind, Scope, digest
from metrics.model.status import RebalanceStatus

NOTICE_S = 4.0
"""How long a leave takes to reach the others: heartbeat.interval.ms, 3 s by default, and a bit."""
EPOCH_NOTICE_S = 6.0
"""The same in the new protocols (group.consumer.heartbeat.interval.ms, 5 s): members go one by one.
"""
SKEW_S = 600.0
"""Equal generations further apart than this are of two lives of a group."""


class GroupRef(NamedTuple):
    """A group of a cluster."""

    cluster: str
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceSegments:
    """The pieces of one rebalance of a group, by their start."""

    ref: GroupRef
    app: str
    group_type: str
    segments: tuple[Segment, ...]

    @property
    def consumers(self) -> tuple[Segment, ...]:
        """The members' own pieces, without what Streams instances repeat of them."""
        return tuple(p for p in self.segments if p.scope is Scope.CONSUMER and not p.is_note)

    @property
    def started_at(self) -> float:
        """Unix seconds."""
        return min(p.started_at for p in self.consumers or self.segments)

    @property
    def ended_at(self) -> float:
        """Unix seconds; of an open one, when it was last heard of."""
        return max(p.ended_at for p in self.consumers or self.segments)

    @property
    def is_open(self) -> bool:
        """Whether a member is still in it."""
        return any(p.is_open for p in self.consumers)

    @property
    def is_rebalance(self) -> bool:
        """Whether anybody's status rose: a static member that came back disturbs nobody."""
        return any(piece.steps for piece in self.consumers)

    @property
    def generations(self) -> tuple[int, ...]:
        """What was synced, in order."""
        return tuple(sorted(frozenset().union(*(p.generations for p in self.segments))))

    @property
    def id(self) -> str:
        """The same however often and by whomever it is computed."""
        first = self.generations[0] if self.generations else f"{self.started_at:.6f}"
        return digest(*self.ref, "rebalance", first)[:16]


def group_segments(records: Iterable[Sample]) -> list[RebalanceSegments]:
    """Return what happened to all groups that records tell of, by its start.

    Some of it is no rebalance (`Round.is_rebalance`), but tells who is there.
    """
    found = [
        made
        for group in _by_group(records).values()
        for made in _rounds(group)
        if made.consumers  # a cause that came to nothing is no rebalance
    ]
    return sorted(found, key=lambda made: (made.started_at, made.ref))


def _by_group(records: Iterable[Sample]) -> dict[GroupRef, list[Sample]]:
    groups: dict[GroupRef, dict[str, Sample]] = defaultdict(dict)
    for record in records:
        of_member = record.scope in {Scope.CONSUMER, Scope.STREAMS}
        if of_member and record.kind not in {SampleKind.SAMPLE, SampleKind.EPISODE}:
            groups[GroupRef(record.cluster, record.group)].setdefault(record.id, record)
    return {ref: list(found.values()) for ref, found in groups.items()}


def _rounds(records: list[Sample]) -> list[RebalanceSegments]:
    latest = max(records, key=lambda record: record.ts)
    ref = GroupRef(latest.cluster, latest.group)
    cut = _named([piece for piece in segments(records) if not _is_pending(piece)])
    put_together = _join if latest.group_type == "classic" else _follow
    islands = [island for run in _runs(cut) for island in put_together(run)]
    return [
        RebalanceSegments(
            ref=ref,
            app=latest.app,
            group_type=latest.group_type,
            segments=tuple(sorted(island, key=lambda piece: piece.started_at)),
        )
        for island in islands
    ]


def _runs(cut: list[Segment]) -> list[list[Segment]]:
    """Part pieces, which are by start, where all is quiet for so long that nothing links them.

    It changes no result: it saves comparing each piece with a whole history.
    """
    runs: list[list[Segment]] = []
    until = float("-inf")
    for piece in cut:
        if piece.started_at > until + SKEW_S:
            runs.append([])
        runs[-1].append(piece)
        until = max(until, piece.ended_at)
    return runs


def _named(cut: list[Segment]) -> list[Segment]:
    """Give a member that two agents saw, by its member id, the one name."""
    names: dict[str, MemberRef] = {}
    for piece in cut:
        if piece.member_id and piece.scope is Scope.CONSUMER:
            names.setdefault(piece.member_id, piece.member)
    return [
        piece
        if piece.scope is Scope.STREAMS
        else replace(piece, member=names.get(piece.member_id or "", piece.member))
        for piece in cut
    ]


def _is_pending(piece: Segment) -> bool:
    """Tell a probing rebalance that is scheduled: raised after the zero, none is going on."""
    probing = RebalanceStatus.ASSIGNMENT_PROBING
    return piece.scope is Scope.STREAMS and piece.steps[:1] != () and piece.steps[0].code is probing


def _join(cut: list[Segment]) -> list[list[Segment]]:
    """Put the pieces of a classic group together: by generation, then what has none by time."""
    found: list[list[Segment]] = []
    synced = [piece for piece in cut if piece.is_round and piece.generations]
    others = [piece for piece in cut if piece.is_round and not piece.generations]
    for piece in synced:
        _merge(found, piece, [island for island in found if _same_generation(island, piece)])
    for piece in others:
        _merge(found, piece, [island for island in found if _overlap(island, piece)])
    for piece in synced + others:
        _merge(found, piece, [island for island in found if _spans(piece, island)])
    for piece in (piece for piece in cut if not piece.is_round):
        _merge(found, piece, _begun_by(found, piece))
    return found


def _follow(cut: list[Segment]) -> list[list[Segment]]:
    """Put the pieces of a new protocol together: members go one by one, so causes lead."""
    found: list[list[Segment]] = []
    for piece in cut:
        same = [island for island in found if _same_generation(island, piece)]
        if same or _is_cause(piece):
            _merge(found, piece, same)
            continue
        reached = [
            i for i in found if max(p.ended_at for p in i) + EPOCH_NOTICE_S >= piece.started_at
        ]
        _merge(found, piece, reached[-1:])
    return found


def _is_cause(piece: Segment) -> bool:
    return piece.is_exit or any(cause_of(step) for step in piece.steps[:1])


def _merge(found: list[list[Segment]], piece: Segment, islands: list[list[Segment]]) -> None:
    """Make one island of some, and of a piece that may be in one of them already."""
    together = [p for island in islands for p in island]
    found[:] = [island for island in found if all(island is not other for other in islands)]
    found.append(together if any(p is piece for p in together) else [*together, piece])


def _rounds_of(island: list[Segment]) -> list[Segment]:
    return [piece for piece in island if piece.is_round]


def _same_generation(island: list[Segment], piece: Segment) -> bool:
    """Tell whether a piece is of an island's generation; one without a cause must be near, too.

    A static member is handed its generation again when it comes back within its session.
    """
    return any(
        other.generations & piece.generations
        and _gap(other, piece) <= (SKEW_S if other.steps and piece.steps else NOTICE_S)
        for other in island
    )


def _gap(one: Segment, other: Segment) -> float:
    return max(one.started_at - other.ended_at, other.started_at - one.ended_at, 0.0)


def _overlap(island: list[Segment], piece: Segment) -> bool:
    return any(
        other.started_at <= piece.ended_at and piece.started_at <= other.ended_at
        for other in _rounds_of(island)
    )


def _spans(piece: Segment, island: list[Segment]) -> bool:
    """Tell whether a member was under way all the while: what began then is not over for it."""
    if any(other is piece for other in island):
        return True
    within = [other for other in _rounds_of(island) if other.scope is piece.scope]
    return bool(within) and all(
        piece.started_at <= other.started_at and other.ended_at <= piece.ended_at
        for other in within
    )


def _begun_by(found: list[list[Segment]], piece: Segment) -> list[list[Segment]]:
    """Return the rebalance that a leave began, or else the one that it fell into."""
    until = piece.ended_at + NOTICE_S
    starts = [(min((p.started_at for p in _rounds_of(i)), default=None), i) for i in found]
    begun = [(at, i) for at, i in starts if at is not None and piece.started_at <= at <= until]
    if begun:
        return [min(begun, key=lambda start: start[0])[1]]
    running = [island for island in found if _overlap(island, piece)]
    alone = [
        island
        for (at, island) in starts
        if at is None and island[0].started_at <= piece.started_at <= island[-1].ended_at + NOTICE_S
    ]
    return (running or alone)[:1]
