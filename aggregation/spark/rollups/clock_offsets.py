"""Clock offsets of agents, and durations without them: pure.

Theory of operation. The members of a classic group get their assignments at one moment, the last
member's join. So the ends that several agents see show how far their clocks are apart. One late end
can also be a slow member. An offset is *steady* if most of an agent's rebalances show it. Starts
and ends of a rebalance are compared after the steady offsets are subtracted. Day by day, a group
remembers each agent's last offsets (`remember_offsets`), and records of an agent with a steady
offset are corrected before they are analyzed: a wrong clock makes no straggler either.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from msgspec.structs import replace

from aggregation.rebalances.clock_steps import ClockStep, ahead_at
from aggregation.rebalances.grouping import RebalanceSegments
from aggregation.rebalances.segments import MemberRef
from metrics.model.sample import Sample, format_time, parse_time

MIN_REBALANCES = 3
MIN_OFFSET_S = 1.0
"""Smaller offsets are those of heartbeats and networks, too."""
_SPREAD_S = 0.5
_MOST = 0.75
"""Share of the rebalances that show an offset within the spread."""

_PAIR = 2
_KEPT = 8
"""Offsets of an agent that are remembered: a clock that was set right is trusted soon."""

Offsets = Mapping[str, float]
NO_OFFSETS: Offsets = {}
Measured = Mapping[str, Sequence[float]]
"""Offsets of each agent, in the order of its rebalances."""
Steps = Mapping[MemberRef, Sequence[ClockStep]]
"""Steps of the clocks of a group's members, in order."""
NO_STEPS: Steps = {}


def clock_offsets(rebalance: RebalanceSegments, steps: Steps = NO_STEPS) -> dict[str, float]:
    """Return each agent's clock offset in seconds, if several agents saw the rebalance.

    ``steps`` of clocks that the times of the rebalance are without are added.
    """
    ends: dict[str, list[float]] = defaultdict(list)
    shown: dict[str, list[float]] = defaultdict(list)
    is_one = rebalance.group_type == "classic" and len(rebalance.generations) == 1
    for segment in rebalance.consumers:
        if segment.generations and is_one:
            ahead = ahead_at(steps.get(segment.member, ()), segment.ended_at)
            ends[segment.agent].append(segment.ended_at)
            shown[segment.agent].append(segment.ended_at + ahead)
    if len(ends) <= 1:
        return {}
    middle = median(at for agent in ends.values() for at in agent)
    return {agent: round(median(at) - middle, 6) for agent, at in sorted(shown.items())}


def by_member(steps: Iterable[ClockStep]) -> dict[MemberRef, list[ClockStep]]:
    """Return the steps of the members of one group."""
    found: dict[MemberRef, list[ClockStep]] = defaultdict(list)
    for step in steps:
        found[step.member].append(step)
    return found


def measure_offsets(
    rebalances: Iterable[RebalanceSegments], corrected: Offsets = NO_OFFSETS
) -> dict[str, list[float]]:
    """Return each agent's offsets; those that its records were ``corrected`` by are added.

    Two agents do not show which of their clocks is wrong: a rebalance with two of them, such as
    half of those of a rollout of three members, counts only where no other one has more.
    """
    measured: dict[str, list[float]] = defaultdict(list)
    found = [clock_offsets(rebalance) for rebalance in rebalances]
    for offsets in [each for each in found if len(each) > _PAIR] or found:
        for agent, offset in offsets.items():
            measured[agent].append(offset + corrected.get(agent, 0.0))
    return measured


def remember_offsets(known: Measured, measured: Measured) -> dict[str, tuple[float, ...]]:
    """Return the last offsets of each agent that has, or recently had, a large one."""
    found = {}
    for agent in {*known, *measured}:
        latest = (*known.get(agent, ()), *measured.get(agent, ()))[-_KEPT:]
        if any(abs(offset) >= MIN_OFFSET_S for offset in latest):
            found[agent] = latest
    return found


def steady_offsets(measured: Measured) -> dict[str, float]:
    """Return the offsets of agents with a clock that is steadily wrong."""
    steady = {}
    for agent, offsets in measured.items():
        middle = median(offsets)
        near = sum(abs(offset - middle) <= _SPREAD_S for offset in offsets)
        is_steady = len(offsets) >= MIN_REBALANCES and near >= _MOST * len(offsets)
        if is_steady and abs(middle) >= MIN_OFFSET_S:
            steady[agent] = middle
    return steady


def add_offsets(one: Offsets, other: Offsets) -> Offsets:
    """Return the offsets by which two corrections move each agent's times."""
    return {agent: one.get(agent, 0.0) + other.get(agent, 0.0) for agent in {*one, *other}}


def correct_times(records: Iterable[Sample], offsets: Offsets) -> list[Sample]:
    """Return the records with the times of a right clock."""
    if not offsets:
        return list(records)
    return [
        record if record.agent not in offsets else _shift(record, -offsets[record.agent])
        for record in records
    ]


def _shift(record: Sample, by_s: float) -> Sample:
    joined = record.joined_ts
    return replace(
        record,
        ts=format_time(parse_time(record.ts) + by_s),
        joined_ts=None if joined is None else format_time(parse_time(joined) + by_s),
    )


def span(rebalance: RebalanceSegments, offsets: Offsets) -> tuple[float, float]:
    """Return start and end of a rebalance in Unix seconds, without the agents' offsets."""
    own = rebalance.consumers or rebalance.segments
    if not any(segment.agent in offsets for segment in own):
        return rebalance.started_at, rebalance.ended_at
    started_at = min(s.started_at - offsets.get(s.agent, 0.0) for s in own)
    ended_at = max(s.ended_at - offsets.get(s.agent, 0.0) for s in own)
    return started_at, max(started_at, ended_at)
