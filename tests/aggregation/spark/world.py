"""A world of groups with the truth of each rebalance, computed as it is written.

It knows nothing of how the product finds rebalances. There are several clusters and applications,
groups of all protocols, some of static members, days of many kinds, rebalances over midnight and
over a month's end, records that come late, and an agent that was down for a while.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from msgspec.structs import replace

from metrics.model.sample import Outcome, Sample, parse_time
from metrics.model.status import RebalanceStatus as S
from tests.aggregation.spark.histories import DAY_S, START_AT, Client

_CAUSES = (S.SUBSCRIPTION_CHANGED, S.UNKNOWN_MEMBER, S.NEW_MEMBER, S.METADATA_CHANGED)
_TYPES = ("classic", "consumer", "classic", "streams", "share")
_STATIC_EVERY = 3
_HEARTBEAT_S = 3.0
_APART_S = 400.0


class Truth(NamedTuple):
    """One rebalance of a group. Instants are Unix seconds."""

    cluster: str
    group: str
    app: str
    cause: S
    start: float
    end: float
    member_s: float

    @property
    def day(self) -> date:
        """The day of its start."""
        return datetime.fromtimestamp(self.start, UTC).date()


class Cell(NamedTuple):
    """Sums over the rebalances of a group or an application in a period."""

    times: int
    seconds: float
    member_s: float


Key = tuple[str, str, date]
"""Cluster, group or application, and the first day of day, week or month."""


@dataclass
class World:
    """Records, and the truth of them."""

    samples: list[Sample] = field(default_factory=list)
    truth: list[Truth] = field(default_factory=list)

    def without(self, is_held: Callable[[str, float], bool]) -> "World":
        """Return the world as it is seen before the records of some groups and times come."""
        return World(
            [each for each in self.samples if not is_held(each.group, parse_time(each.ts))],
            [each for each in self.truth if not is_held(each.group, each.start)],
        )

    def parts(self) -> list["Part"]:
        """Return each rebalance as a part of sums."""
        return [
            Part(
                each.cluster,
                each.group,
                each.app,
                each.day,
                Cell(1, each.end - each.start, each.member_s),
            )
            for each in self.truth
        ]


class Part(NamedTuple):
    """Sums over the rebalances of one group on one day."""

    cluster: str
    group: str
    app: str
    day: date
    cell: Cell


def sum_up(parts: Iterable[Part], by: str, first_of: Callable[[date], date]) -> dict[Key, Cell]:
    """Return sums by group or application, and by day, week or month."""
    sums: dict[Key, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
    for part in parts:
        cell = sums[part.cluster, getattr(part, by), first_of(part.day)]
        for n, value in enumerate(part.cell):
            cell[n] += value
    return {key: Cell(int(times), *rest) for key, (times, *rest) in sums.items()}


def first_of_week(day: date) -> date:
    """Return the Monday of a day's week."""
    return day - timedelta(days=day.weekday())


def first_of_month(day: date) -> date:
    """Return the first day of a day's month."""
    return day.replace(day=1)


def make_world(seed: int, days: int, groups: int) -> World:
    """Write some days from Monday, 24 November 2025, on; each day is of its own kind."""
    rng, world = random.Random(seed), World()
    kinds: dict[tuple[str, str], tuple[str, bool]] = {}
    for number in range(groups):
        cluster = "prod-us" if number % 4 == 3 else "prod-eu"
        name, app = f"group-{number - 7 if number % 8 == 7 else number}", f"app-{number // 2}"
        group_type, is_static = _TYPES[number % len(_TYPES)], number % _STATIC_EVERY == 1
        kinds[cluster, name] = group_type, is_static and group_type != "share"
        causes = _CAUSES if group_type == "classic" else _CAUSES[:-1]
        members = [
            Client(
                group=name,
                client_id=f"c{n}",
                app=app,
                cluster=cluster,
                host=f"{cluster}-{name}-{n}",
            )
            for n in range(rng.randint(2, 6))
        ]
        at = START_AT + rng.uniform(1_000.0, 20_000.0)
        for day in range(days):
            midnight = START_AT + (day + 1) * DAY_S
            for _ in range(rng.choice((0, 1, 1, 2, 6))):
                at = max(at, midnight - DAY_S) + _APART_S + rng.expovariate(1 / 9_000.0)
                if at < midnight - 3_600.0:
                    at = _rebalance(world, rng, members, at, causes)
            if rng.random() < 0.2:
                at = _rebalance(world, rng, members, midnight - rng.uniform(0.5, 2.5), causes)
        last = START_AT + days * DAY_S
        for member in members:
            for hour in range(int(days * 24)):
                member.sample(START_AT + 3_600.0 * hour)
            member.sample(last - 1.0)
        world.samples += [record for member in members for record in member.written]
    world.samples = [_of_kind(each, *kinds[each.cluster, each.group]) for each in world.samples]
    rng.shuffle(world.samples)
    return world


def _of_kind(record: Sample, group_type: str, is_static: bool) -> Sample:
    static_id = f"id-{record.client_id}" if is_static else None
    return replace(record, agent=record.group, group_type=group_type, group_instance_id=static_id)


def _rebalance(
    world: World, rng: random.Random, members: list[Client], start: float, causes: Sequence[S]
) -> float:
    """Write a rebalance and its truth; returns its end."""
    rng.shuffle(members)
    cause, (first, *others) = rng.choice(causes), members
    start = round(start, 6)
    starts = {0: start} | {
        n: round(start + rng.uniform(0.05, _HEARTBEAT_S), 6) for n in range(1, len(members))
    }
    sync = max(starts.values()) + rng.uniform(0.1, 20.0)
    ends = {n: round(sync + rng.uniform(0.005, 0.05), 6) for n in starts}
    first.move(start, cause, "a cause")
    for n, member in enumerate(others, start=1):
        member.move(starts[n], S.COORDINATOR_REQUESTED, "group is already rebalancing")
    generation = max(member.generation for member in members)
    for n, member in enumerate(members):
        member.generation = generation
        member.settle(ends[n], Outcome.SYNCED)
    world.truth.append(
        Truth(
            first.cluster,
            first.group,
            first.app,
            cause,
            start,
            max(ends.values()),
            sum(ends[n] - at for n, at in starts.items()),
        )
    )
    return max(ends.values())
