"""Assignments of members of which an agent has no generation: hints to the time of a clock. Pure.

Theory of operation. Without a generation two reports of one assignment have no common name, and
their times alone do not show an offset. But where another event has proven one, they show whether
it was already in force: an assignment of one agent has a partner at the other, either with the
offset or without it. If it has both, or if one of them cannot be checked, it is no hint. So a clock
that was set is seen in the log of kafkajs, of which the leave alone is compared.

Source: decision 0050.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from metrics.model.sample import Outcome, Sample, Scope, parse_time

NEAR_S = 0.5
"""Two agents report one assignment with less between them: kafka-go's log has whole seconds."""
_MEMBERS_MAX = 5_000
_AGENTS_MAX = 16
"""Agents of one member: a hostile one may have many names."""
_SHARED_MAX = 64
"""Members of two agents that are compared while records arrive one by one."""

_Member = tuple[str, str]
"""Group and member id, as not each agent knows the cluster."""


class SyncTimes(NamedTuple):
    """An agent's times of a member's assignments; the field names of a checkpoint."""

    member: _Member
    agent: str
    times: list[float]
    """Unix seconds, in order."""
    is_unnumbered: bool
    """Whether it reports them without a generation."""
    is_cut: bool
    """Whether older times are forgotten."""


class Hint(NamedTuple):
    """An assignment that two agents report: its time by the first one's clock, and the offset."""

    at: float
    seconds: float


class UnnumberedSyncs:
    """Times of assignments by member and agent."""

    def __init__(self, known: Iterable[SyncTimes] = (), kept: int | None = None) -> None:
        """Start with a `state`; of each member and agent the latest ``kept`` are kept."""
        self._kept = kept
        self._syncs: dict[_Member, dict[str, SyncTimes]] = {}
        self._shared: dict[tuple[str, str], dict[_Member, None]] = {}
        """Members of two agents, of which one has no generations; the newest is last."""
        for each in known:
            self._syncs.setdefault(each.member, {})[each.agent] = each
        for member in self._syncs:
            self._share(member)

    def state(self) -> list[SyncTimes]:
        """Return what a restart needs."""
        return [
            each
            for own in self._syncs.values()
            if any(each.is_unnumbered for each in own.values())
            for each in own.values()
        ]

    def observe(self, record: Sample, agent: str) -> Iterable[tuple[str, str]]:
        """Take a record; return the pairs of agents, in order, that have more to compare."""
        is_sync = record.outcome is Outcome.SYNCED and record.scope is Scope.CONSUMER
        if record.member_id is None or not is_sync:
            return ()
        member = record.group, record.member_id
        own = self._syncs.setdefault(member, {})
        if agent not in own:
            if len(own) >= _AGENTS_MAX:
                return ()
            own[agent] = SyncTimes(member, agent, [], record.generation is None, is_cut=False)
            self._share(member)
            self._bound()
        known = own[agent]
        insort(known.times, parse_time(record.ts))
        if self._kept is not None and len(known.times) > self._kept:
            del known.times[0]
            own[agent] = known._replace(is_cut=True)
        return [pair for pair in _pairs_of(own, agent) if member in self._shared.get(pair, ())]

    def find_hints(self, agent: str, other: str, offsets: Sequence[float]) -> Iterator[Hint]:
        """Yield the assignments of which one alone of these offsets, or none, is in force."""
        pair = min(agent, other), max(agent, other)
        for member in self._shared.get(pair, ()):
            own = self._syncs[member]
            yield from _compare(own[agent], own[other], offsets)

    def _share(self, member: _Member) -> None:
        own = self._syncs[member]
        for agent, known in own.items():
            for pair in _pairs_of(own, agent):
                if known.is_unnumbered:
                    shared = self._shared.setdefault(pair, {})
                    shared[member] = None
                    if self._kept is not None and len(shared) > _SHARED_MAX:
                        del shared[next(iter(shared))]

    def _bound(self) -> None:
        for member in list(islice(self._syncs, max(0, len(self._syncs) - _MEMBERS_MAX))):
            own = self._syncs.pop(member)
            for agent in own:
                for pair in _pairs_of(own, agent):
                    shared = self._shared.get(pair, {})
                    shared.pop(member, None)
                    if not shared:
                        self._shared.pop(pair, None)


def _pairs_of(own: Iterable[str], agent: str) -> Iterator[tuple[str, str]]:
    for other in own:
        if other != agent:
            yield min(agent, other), max(agent, other)


def _compare(own: SyncTimes, other: SyncTimes, offsets: Sequence[float]) -> Iterator[Hint]:
    for at in own.times:
        found = [_find_partner(other, at - seconds) for seconds in offsets]
        if None in found:
            continue
        partners = [
            Hint(at, at - partner) for near in found if near is not None for partner in near
        ]
        if len(partners) == 1:
            yield partners[0]


def _find_partner(other: SyncTimes, at: float) -> list[float] | None:
    """Return the agent's assignment near an instant, if any; None: it may be forgotten."""
    times = other.times
    if other.is_cut and at < times[0]:
        return None
    begin, end = bisect_left(times, at - NEAR_S), bisect_right(times, at + NEAR_S)
    near = times[begin:end]
    return [min(near, key=lambda each: abs(each - at))] if near else []
