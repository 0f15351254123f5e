"""Silences of agents in a hub: those that all records show; samples behind them stay."""

from agent.hub.recent_records import RecentRecords
from agent.hub.silence_tracker import SilenceTracker
from aggregation.incidents.model import IncidentKind
from aggregation.rebalances.rebalances import ExplainedRebalance
from aggregation.rebalances.silences import read_silences
from metrics.model.sample import Sample, SampleKind, parse_time
from tests.aggregation.rebalances.test_rebalances import NEW, A, B, C, round_of
from tests.aggregation.rebalances.test_silences import (
    CAME_BACK,
    HOUR_S,
    LONG_START,
    REPLACED,
    at_second,
    watched,
)

OUTAGE = [*LONG_START, *REPLACED, *CAME_BACK]
NOW = at_second(9 * HOUR_S)


def in_order(found: list[Sample]) -> list[Sample]:
    return sorted(found, key=lambda each: (each.ts, each.seq))


def tracked(found: list[Sample], max_agents: int = 10) -> SilenceTracker:
    tracker = SilenceTracker(max_agents)
    for each in in_order(found):
        tracker.add(each)
    return tracker


def heard(found: list[Sample]) -> RecentRecords:
    history = RecentRecords()
    for each in in_order(found):
        history.add([each], parse_time(each.ts))
    return history


def gone(found: list[ExplainedRebalance]) -> list[str]:
    return [departure.kind for each in found for departure in each.departures]


def test_silences_are_those_of_all_records() -> None:
    seen = watched(OUTAGE)
    assert tracked(seen).silences() == read_silences(seen)
    hourly = [
        each
        for each in seen
        if each.kind is not SampleKind.SAMPLE or parse_time(each.ts) % HOUR_S < 120.0
    ]
    assert tracked(hourly).silences() == read_silences(hourly)
    assert tracked([each for each in seen if each.kind is not SampleKind.SAMPLE]).silences() == {}


def test_agents_are_bounded() -> None:
    assert tracked(watched(OUTAGE), max_agents=1).silences() in ({}, read_silences(watched(OUTAGE)))
    assert len(tracked(watched(OUTAGE), max_agents=2)._agents) == 2


def test_hub_keeps_the_first_sample_of_each_member_behind_a_silence() -> None:
    kept = heard(watched(OUTAGE)).records()
    samples = [each for each in kept if each.kind is SampleKind.SAMPLE]
    assert [each.client_id for each in samples] == ["a"]


def test_restart_in_an_outage_is_no_crash_for_the_hub() -> None:
    history = heard(watched(OUTAGE))
    found = history.analyze(history.records(), NOW)
    assert IncidentKind.SESSION_EXPIRED not in {each.kind for each in found.incidents}
    assert "expired" not in gone(history.episodes(history.records(), NOW))


def test_crash_is_one_for_the_hub() -> None:
    back = round_of(4, 3 * HOUR_S, A, B, C, causes={"a": NEW})
    seen = watched([*LONG_START, *round_of(3, 2 * HOUR_S, B, C), *back], out=(0.0, 0.0))
    history = heard(seen)
    assert gone(history.episodes(history.records(), NOW)) == ["expired"]


def test_hub_that_starts_again_knows_what_its_spool_holds() -> None:
    seen = in_order(watched(OUTAGE))
    assert RecentRecords(seen).silences == heard(seen).silences
