"""Members' records, cut into what each has to do with one rebalance of its group: pure.

Theory of operation. The records of a member give its episodes. An episode is cut into *pieces*: the
round in which it gets its assignment, and, where it left or was dropped, the moment at which it
went: that one belongs to the rebalance of those who stay.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from metrics.model.sample import UNEXPLAINED, Outcome, Sample, SampleKind, Scope, parse_time
from metrics.model.status import RebalanceStatus

DROPPED_GROUP = RebalanceStatus.DROPPED_GROUP


class MemberRef(NamedTuple):
    """A member as people know it."""

    client_id: str
    host: str = ""
    group_instance_id: str | None = None

    @property
    def key(self) -> tuple[str, ...]:
        """What stays the same over restarts: a static member may come back by another name."""
        own = self.group_instance_id
        return (self.client_id, self.host) if own is None else (own,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One cause that a member had. ``at`` is Unix seconds."""

    at: float
    member: MemberRef
    scope: Scope
    before: RebalanceStatus
    code: RebalanceStatus
    """NONE: no code of anybody's, such as an admin's leave."""
    reason: str | None = None
    masked: bool = False
    """Recorded, and hidden behind a higher status."""
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """What one member has to do with one rebalance of its group. Instants are Unix seconds."""

    member: MemberRef
    scope: Scope
    started_at: float
    ended_at: float
    """Of an open piece: when it was last heard of."""
    steps: tuple[Step, ...]
    generations: frozenset[int] = frozenset()
    is_open: bool = False
    is_exit: bool = False
    """The member went: it is out of the group from then on."""
    outcome: Outcome | None = None
    notes: tuple[Step, ...] = ()
    """What was told of it that is nobody's code."""
    is_note: bool = False
    """A recorded cause without an episode, such as an admin's leave."""
    joined_at: float | None = None
    """When it last asked to join, where that was seen."""
    gained: int | None = None
    """How many partitions moved to it, where that was seen."""
    member_id: str | None = None
    agent: str = ""

    @property
    def is_round(self) -> bool:
        """Whether the member got, or waited for, an assignment."""
        return not self.is_exit and not self.is_note


def segments(records: Sequence[Sample]) -> list[Segment]:
    """Cut the records of one group into pieces, by their start."""
    chains: dict[tuple[object, ...], list[Sample]] = defaultdict(list)
    marks: list[Segment] = []
    for record in records:
        if record.episode is None:
            marks += _mark(record)
        else:
            chains[record.scope, record.client_id, record.episode].append(record)
    found = [piece for chain in chains.values() for piece in _cut(chain)] + marks
    return sorted(found, key=lambda piece: (piece.started_at, piece.member.key, piece.scope))


def _mark(record: Sample) -> list[Segment]:
    """Return what was recorded outside any episode: an admin's leave, a join without a cause."""
    if record.kind is not SampleKind.SIGNAL:
        return []
    step = _step(record)
    joined = record.reason == UNEXPLAINED
    return [
        Segment(
            member=step.member,
            scope=record.scope,
            started_at=step.at,
            ended_at=step.at,
            steps=() if joined else (step,),
            notes=(step,) if record.to is None and not joined else (),
            generations=_known(record.generation) if joined else frozenset(),
            outcome=Outcome.SYNCED if joined else None,
            is_note=not joined,
            member_id=record.member_id,
            agent=record.agent,
        )
    ]


def _cut(chain: list[Sample]) -> list[Segment]:
    """Return the pieces of one episode: how it went, and the round that ended it."""
    chain.sort(key=_order)
    moves = [record for record in chain if record.kind is not SampleKind.SIGNAL]
    if not moves:
        return [piece for record in chain for piece in _mark(record)]
    steps = tuple(_step(record) for record in chain if record.to)
    notes = [each for each in chain if each.kind is SampleKind.SIGNAL and each.to is None]
    last = moves[-1]
    whole = Segment(
        member=_member(last),
        scope=last.scope,
        started_at=parse_time(moves[0].ts),
        ended_at=parse_time(last.ts),
        steps=steps,
        notes=tuple(_step(record) for record in notes if record.reason != UNEXPLAINED),
        generations=_generations(moves),
        is_open=last.kind is SampleKind.TRANSITION and bool(last.to),
        outcome=last.outcome,
        joined_at=_joined_at(moves),
        gained=last.gained,
        member_id=last.member_id,
        agent=last.agent,
    )
    if last.outcome is Outcome.LEFT:
        return [replace(whole, is_exit=True, generations=frozenset())]
    dropped = next((s for s in steps if s.code is DROPPED_GROUP and not s.masked), None)
    return [whole] if dropped is None else _split_drop(whole, dropped)


def _split_drop(whole: Segment, dropped: Step) -> list[Segment]:
    """Cut an episode at the poll interval's end: from there on its member is out of the group."""
    went = replace(
        whole,
        ended_at=dropped.at,
        steps=tuple(step for step in whole.steps if step.at <= dropped.at),
        generations=frozenset(),
        is_exit=True,
        is_open=False,
        outcome=None,
        joined_at=None,
    )
    if whole.outcome is not Outcome.SYNCED:
        return [went]
    later = (step for step in whole.steps if step.at > dropped.at)
    after = tuple(step for step in later if step.code is not DROPPED_GROUP)  # it says so again
    came_at = after[0].at if after else whole.joined_at
    came = dropped if not after else replace(after[0], masked=False)
    return [
        went,
        replace(
            whole,
            started_at=whole.ended_at if came_at is None else came_at,
            steps=(replace(came, at=came_at or whole.ended_at), *after[1:]),
        ),
    ]


def _generations(moves: list[Sample]) -> frozenset[int]:
    """Return what was synced within an episode: its start still tells the generation before.

    One that ends in the generation in which it began tells nothing: a follower's idle rejoin, or a
    member of a new protocol whose epoch rises only after it has given its partitions up.
    """
    told = frozenset(m.generation for m in moves if m.generation is not None)
    return told - _known(moves[0].generation)


def _known(generation: int | None) -> frozenset[int]:
    return frozenset() if generation is None else frozenset({generation})


def _joined_at(moves: list[Sample]) -> float | None:
    told = [m.joined_ts for m in moves if m.joined_ts is not None]
    return parse_time(told[-1]) if told else None


def _step(record: Sample) -> Step:
    return Step(
        at=parse_time(record.ts),
        member=_member(record),
        scope=record.scope,
        before=RebalanceStatus(record.from_ or 0),
        code=RebalanceStatus(record.to or 0),
        reason=record.reason,
        masked=record.kind is SampleKind.SIGNAL,
        source=record.source,
    )


def _member(record: Sample) -> MemberRef:
    return MemberRef(record.client_id or "", record.host, record.group_instance_id)


def _order(record: Sample) -> tuple[str, int, int]:
    # at one instant a status rises or falls to 0 at last
    return record.ts, record.seq, record.to or len(RebalanceStatus)
