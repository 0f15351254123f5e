"""Which pieces of a group's members are one rebalance of the group: pure.

Theory of operation. Pieces that share a generation (an epoch, in the new protocols) are one
rebalance, whatever the clocks say; pieces without one go by time.

Source: semantics.md section 6.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from aggregation.pieces import MemberRef, Piece, pieces
from metrics.sample import Sample, SampleKind, Scope, digest
from metrics.status import RebalanceStatus

SKEW_S = 600.0
"""Equal generations further apart than this are of two lives of a group."""


class GroupRef(NamedTuple):
    """A group of a cluster."""

    cluster: str
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """The pieces of one rebalance of a group, by their start."""

    ref: GroupRef
    app: str
    group_type: str
    pieces: tuple[Piece, ...]

    @property
    def consumers(self) -> tuple[Piece, ...]:
        """The members' own pieces, without what Streams instances repeat of them."""
        return tuple(p for p in self.pieces if p.scope is Scope.CONSUMER and not p.is_mark)

    @property
    def started_at(self) -> float:
        """Unix seconds."""
        return min(p.started_at for p in self.consumers or self.pieces)

    @property
    def ended_at(self) -> float:
        """Unix seconds; of an open one, when it was last heard of."""
        return max(p.ended_at for p in self.consumers or self.pieces)

    @property
    def is_open(self) -> bool:
        """Whether a member is still in it."""
        return any(p.is_open for p in self.consumers)

    @property
    def generations(self) -> tuple[int, ...]:
        """What was synced, in order."""
        return tuple(sorted(frozenset().union(*(p.generations for p in self.pieces))))

    @property
    def id(self) -> str:
        """The same however often and by whomever it is computed."""
        first = self.generations[0] if self.generations else f"{self.started_at:.6f}"
        return digest(*self.ref, "rebalance", first)[:16]


def rounds(records: Iterable[Sample]) -> list[Round]:
    """Return the rebalances of all groups that records tell of, by their start."""
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


def _rounds(records: list[Sample]) -> list[Round]:
    latest = max(records, key=lambda record: record.ts)
    ref = GroupRef(latest.cluster, latest.group)
    cut = _named([piece for piece in pieces(records) if not _is_pending(piece)])
    return [
        Round(ref=ref, app=latest.app, group_type=latest.group_type, pieces=tuple(together))
        for together in _join(cut)
    ]


def _named(cut: list[Piece]) -> list[Piece]:
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


def _is_pending(piece: Piece) -> bool:
    """Tell a probing rebalance that is scheduled: raised after the zero, none is going on."""
    probing = RebalanceStatus.ASSIGNMENT_PROBING
    return piece.scope is Scope.STREAMS and piece.steps[:1] != () and piece.steps[0].code is probing


def _join(cut: list[Piece]) -> list[list[Piece]]:
    """Put pieces together: by generation, then what has none by time."""
    found: list[list[Piece]] = []
    for piece in cut:
        if piece.generations:
            same = [island for island in found if _same_generation(island, piece)]
            found = [island for island in found if island not in same]
            found.append([*(p for island in same for p in island), piece])
    for piece in cut:
        if not piece.generations:
            _attach(found, piece)
    return [sorted(island, key=lambda p: p.started_at) for island in found]


def _same_generation(island: list[Piece], piece: Piece) -> bool:
    return any(
        other.generations & piece.generations
        and piece.started_at - other.ended_at <= SKEW_S
        and other.started_at - piece.ended_at <= SKEW_S
        for other in island
    )


def _attach(found: list[list[Piece]], piece: Piece) -> None:
    """Add a piece to the first rebalance that it can have begun, else to one that ran."""
    touching = [island for island in found if _touches(island, piece)]
    if not touching:
        found.append([piece])
        return
    begun = [i for i in touching if min(p.started_at for p in i) >= piece.started_at]
    min(begun or touching, key=lambda i: min(p.started_at for p in i)).append(piece)


def _touches(island: list[Piece], piece: Piece) -> bool:
    return any(
        other.started_at <= piece.reaches_at and piece.started_at <= other.reaches_at
        for other in island
    )
