"""Members and signals for the tests of the core, and short forms of samples."""

from collections.abc import Iterable

import msgspec
from hypothesis import strategies as st
from msgspec.structs import replace

from metrics.model.sample import Sample, SampleKind, Scope
from metrics.model.signals import FollowUp, Member, Signal, SignalKind, SourceKind
from metrics.model.status import RebalanceStatus as Status
from metrics.tracking.tracker import Tracker

C1 = Member(cluster="k", group="g", client_id="c1", origin="c1.log", host="h")
C2 = replace(C1, client_id="c2", origin="c2.log")
STATIC = replace(C1, client_id="c3", group_instance_id="i3")
T1 = replace(C1, client_id="s-StreamThread-1-consumer", origin="s.log")
T2 = replace(T1, client_id="s-StreamThread-2-consumer")


def signal(
    kind: SignalKind,
    at: float,
    member: Member = C1,
    *,
    status: Status = Status.NONE,
    source: SourceKind = SourceKind.LOGS,
    reason: str | None = None,
    generation: int | None = None,
    own: FollowUp | None = None,
    layer: FollowUp | None = None,
) -> Signal:
    return Signal(
        kind=kind,
        at=at,
        member=member,
        status=status,
        source=source,
        reason=reason,
        generation=generation,
        follow_up=own,
        streams_follow_up=layer,
    )


def raised(
    status: int,
    at: float,
    member: Member = C1,
    *,
    source: SourceKind = SourceKind.LOGS,
    reason: str | None = None,
    layer: FollowUp | None = None,
) -> Signal:
    return signal(
        SignalKind.RAISE,
        at,
        member,
        status=Status(status),
        source=source,
        reason=reason,
        layer=layer,
    )


def synced(  # one argument a way in which syncs differ
    at: float,
    member: Member = C1,
    *,
    source: SourceKind = SourceKind.LOGS,
    own: FollowUp | None = None,
    layer: FollowUp | None = None,
) -> Signal:
    return signal(SignalKind.SYNC, at, member, source=source, own=own, layer=layer)


def left(at: float, member: Member = C1, reason: str | None = None) -> Signal:
    return signal(SignalKind.LEAVE, at, member, reason=reason)


def failed(at: float, member: Member = C1, reason: str | None = None) -> Signal:
    return signal(SignalKind.FAIL, at, member, reason=reason)


def joined(at: float, member: Member = C1) -> Signal:
    return signal(SignalKind.JOIN, at, member)


def seen(at: float, member: Member = C1, source: SourceKind = SourceKind.LOGS) -> Signal:
    return signal(SignalKind.SEEN, at, member, source=source)


def demand(
    status: int, at: float, due_at: float | None = None, reason: str | None = None
) -> FollowUp:
    return FollowUp(status=Status(status), at=at, due_at=due_at, reason=reason)


def run(tracker: Tracker, *signals: Signal) -> list[Sample]:
    return [sample for each in signals for sample in tracker.apply(each)]


def codes(samples: Iterable[Sample], scope: Scope = Scope.CONSUMER) -> list[int | None]:
    """Return the statuses of the transitions, in order; None is lost."""
    moves = {SampleKind.TRANSITION, SampleKind.LOST}
    return [each.to for each in samples if each.kind in moves and each.scope is scope]


def of_kind(samples: Iterable[Sample], kind: SampleKind) -> list[Sample]:
    return [each for each in samples if each.kind is kind]


_OWN = [None, demand(10, 0.001)]
_LAYERS = [demand(code, 0.002, 60.0 if code == 11 else None) for code in (10, 11, 12, 13)]
_SOURCES = [SourceKind.LOGS, SourceKind.WIRE]
_MEMBERS = [C1, STATIC, T1, T2]
_RAISES = [
    *(raised(code, 0.0, member) for code in range(1, 11) for member in _MEMBERS),
    *(raised(code, 0.0, T1, layer=layer) for code in (0, 1, 6) for layer in _LAYERS),
]
_SYNCS = [
    *(synced(0.0, member, own=own) for member in _MEMBERS for own in _OWN),
    *(
        synced(0.0, member, own=own, layer=layer)
        for member in (T1, T2)
        for own in _OWN
        for layer in _LAYERS
    ),
]
_OTHERS = [
    signal(kind, 0.0, member)
    for kind in SignalKind
    for member in _MEMBERS
    if kind not in {SignalKind.RAISE, SignalKind.SYNC}
]
# mostly forward; a clock that steps back; silences in which statuses get stale
_STEPS = [0.0, 0.001, 0.25, 1.0, 1.0, 15.0, 700.0, -0.5, -3600.0]


def _shifted(follow_up: FollowUp | None, at: float) -> FollowUp | None:
    if follow_up is None:
        return None
    due_at = None if follow_up.due_at is None else at + follow_up.due_at
    return replace(follow_up, at=at + follow_up.at, due_at=due_at)


def _timed(rows: list[tuple[Signal, SourceKind, float]]) -> list[Signal]:
    at, out = 1e9, []
    for each, source, step in rows:
        at += step
        out.append(
            msgspec.structs.replace(
                each,
                at=at,
                source=source,
                reason=each.kind,
                follow_up=_shifted(each.follow_up, at),
                streams_follow_up=_shifted(each.streams_follow_up, at),
            )
        )
    return out


signal_lists = st.lists(
    st.tuples(
        st.one_of([st.sampled_from(each) for each in (_RAISES, _SYNCS, _OTHERS)]),
        st.sampled_from(_SOURCES),
        st.sampled_from(_STEPS),
    ),
    max_size=30,
).map(_timed)
"""Any signals that sources may make, of two plain consumers and the two threads of an instance."""
