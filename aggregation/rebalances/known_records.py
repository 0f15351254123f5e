"""Records of any number of agents, made ready for an explanation. Pure.

One place, so that report, `explain` and live views have the same rebalances: one identity a member,
times by the clocks of most members, and an end for each episode that nobody ends any more.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from aggregation.rebalances.agent_clocks import align_agents
from aggregation.rebalances.clock_steps import ClockStep, Doubt, correct_clock_steps
from aggregation.rebalances.identities import unify_identities
from aggregation.rebalances.lost_episodes import end_lost_episodes
from aggregation.rebalances.moved_groups import end_moved_episodes
from aggregation.rebalances.silences import Silences, read_silences
from aggregation.rebalances.unconfirmed import end_unconfirmed_episodes
from aggregation.rebalances.wrong_times import correct_wrong_times
from metrics.model.sample import Sample, parse_time

Watermark = Callable[[str], float]
"""Up to when an agent has reported all that it saw (Unix seconds)."""

_place_of = attrgetter("ts", "seq")
"""A record's place: a restart reads them by time, not as they arrived. Those of `replay` have no
number and stay in their order."""


class KnownRecords(NamedTuple):
    """Records as they are explained."""

    records: Sequence[Sample]
    heard: Mapping[str, float]
    """Time of each agent's last report (Unix seconds)."""
    now: float
    """An open rebalance lasts until then (Unix seconds)."""
    silences: Silences
    clock_steps: Sequence[ClockStep]
    """Steps of clocks that are taken out of all times."""
    doubts: Sequence[Doubt]
    """What later records may show otherwise: steps of clocks, and ends of episodes."""
    leads: Mapping[str, float] = {}
    """Seconds that agents' clocks are ahead; they are taken out of all times."""


def prepare_records(
    records: Iterable[Sample],
    watermark: Watermark | None = None,
    now: float | None = None,
    *,
    clocks: Iterable[ClockStep] = (),
    silences: Silences | None = None,
) -> KnownRecords:
    """Return records of all groups as they are explained; repeated ones count once.

    An agent has reported at least all up to its last record, or ``watermark`` knows more. ``now``
    is Unix seconds, by default the latest of these times. ``clocks`` are steps of clocks that older
    records have shown. ``silences`` are those of agents; by default the records show them.
    """
    aligned = align_agents(sorted(records, key=_place_of))
    in_order = sorted(aligned.records, key=_place_of)
    unified = unify_identities(in_order)
    silences = read_silences(unified) if silences is None else silences
    steady = correct_clock_steps(unified, clocks)
    heard = last_heard(steady.records, watermark)
    now = max(heard.values(), default=0.0) if now is None else now
    ended = end_moved_episodes(correct_wrong_times(steady.records))
    known = end_lost_episodes(end_unconfirmed_episodes(ended, now), heard, now)
    doubts = [*steady.doubts, *known.doubts]
    return KnownRecords(known.records, heard, now, silences, steady.steps, doubts, aligned.leads)


def last_heard(records: Iterable[Sample], watermark: Watermark | None = None) -> dict[str, float]:
    """Return the time of each agent's last report (Unix seconds)."""
    latest: dict[str, str] = {}
    for record in records:
        latest[record.agent] = max(record.ts, latest.get(record.agent, ""))
    heard = {agent: parse_time(ts) for agent, ts in latest.items()}
    if watermark is None:
        return heard
    return {agent: max(at, watermark(agent)) for agent, at in heard.items()}
