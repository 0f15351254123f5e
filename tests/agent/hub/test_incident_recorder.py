"""Incidents that a hub or a standalone agent counts, shows and records."""

import asyncio
import json
from dataclasses import replace

import msgspec
import pytest

from agent.hub.incident_recorder import IncidentRecorder
from agent.hub.recent_records import RecentRecords
from agent.hub.recorder_io import RecorderIO
from aggregation.incidents.counter import REFRESH_S
from aggregation.incidents.records import IncidentRecord, decode_any
from aggregation.incidents.restarts import RESTART_S
from aggregation.rebalances.counter import SETTLE_S
from metrics.model.sample import Sample, SampleKind, encode
from metrics.model.signals import Signal, SignalKind
from tests.aggregation.rebalances.test_rebalances import START, A, B, C, left, records, round_of
from tests.metrics.given import raised, signal

LEAVE = [left(2_000.0, A, "closed"), *round_of(2, 2_001.0, B, C)]
BACK = [
    raised(2, 2_100.0, A),
    signal(SignalKind.SYNC, 2_100.5, A, generation=3),
]
DROP = [raised(5, 2_000.0, A, reason="poll interval expired"), *round_of(2, 2_000.5, B, C)]
RETURN = [raised(2, 4_000.0, A), signal(SignalKind.SYNC, 4_000.5, A, generation=3)]


class Watch:
    """A recorder with the test's clock and one agent."""

    def __init__(self, spooled: list[Sample] | None = None) -> None:
        self.now, self.awaited_until = 0.0, float("inf")
        self.history = RecentRecords(spooled or [], watermark_of=self.watermark)
        self.taken: list[Sample] = []
        io = RecorderIO(
            history=self.history,
            spooled=spooled or [],
            limit=10,
            take=self.taken.extend,
            agents=self,
            clock=lambda: self.now,
        )
        self.recorder = IncidentRecorder(io)

    def watermark(self, _: str) -> float:
        return self.now

    def is_pending(self, _: str, until: float) -> bool:
        return until > self.awaited_until

    def read(self, at: float, *signals: Signal) -> None:
        """Add the records of a group's signals, each record once; the group began at 0."""
        self.now = at
        known = {record.id for record in self.history.records()}
        self.history.add([r for r in records(*START, *signals) if r.id not in known], at)

    def check(self, at: float) -> dict[str, int]:
        """Look at an instant; return the totals by kind."""
        self.now = at
        asyncio.run(self.recorder.check())
        return {key.kind: number for key, number in self.recorder.totals().final.items()}

    @property
    def ongoing(self) -> dict[str, int]:
        return {key.kind: number for key, number in self.recorder.totals().ongoing.items()}


def test_incident_is_counted_once_and_only_when_it_is_final() -> None:
    watch = Watch()
    watch.read(2_050.0, *LEAVE)

    assert watch.check(2_050.0) == {}
    assert watch.check(2_050.0 + SETTLE_S) == {"member_joined": 1}
    assert watch.check(2_001.5 + RESTART_S - 1) == {"member_joined": 1}
    assert watch.check(2_001.5 + RESTART_S) == {"member_joined": 1, "member_left": 1}
    assert watch.check(9_000.0) == {"member_joined": 1, "member_left": 1}
    assert len(watch.taken) == 2


def test_kind_is_that_of_the_final_incident() -> None:
    watch = Watch()
    watch.read(2_050.0, *LEAVE)
    watch.check(2_050.0)
    watch.read(2_101.0, *LEAVE, *BACK)

    watch.check(2_101.0)
    assert watch.check(2_100.5 + RESTART_S) == {"member_joined": 1, "restart": 1}


def test_nothing_is_analysed_while_nothing_is_new_or_due(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch()
    watch.read(1_000.0)
    watch.check(1_000.0)
    watch.check(1_000.0 + REFRESH_S)
    monkeypatch.setattr(RecentRecords, "analyze", None)

    assert watch.check(9_000.0) == {"member_joined": 1}


def test_ongoing_incident_is_shown_at_once_and_then_is_0() -> None:
    watch = Watch()
    watch.read(2_010.0, *DROP)
    watch.check(2_010.0)
    assert watch.ongoing == {"poll_timeout": 1}

    watch.read(4_001.0, *DROP, *RETURN)
    watch.check(4_001.0)

    assert watch.ongoing == {"poll_timeout": 0}
    assert watch.check(4_000.5 + RESTART_S)["poll_timeout"] == 1


def test_nothing_is_counted_while_an_agents_records_are_awaited() -> None:
    watch = Watch()
    watch.read(2_050.0, *LEAVE)
    watch.check(2_050.0)
    watch.awaited_until = 1_000.0

    assert watch.check(3_000.0) == {}
    watch.awaited_until = float("inf")
    assert watch.check(3_000.0 + REFRESH_S) == {"member_joined": 1, "member_left": 1}


def test_restart_counts_nothing_again() -> None:
    before = Watch()
    before.read(2_050.0, *LEAVE)
    before.check(2_050.0)
    before.check(2_050.0 + SETTLE_S)
    before.check(3_000.0)
    lines = [encode(each) for each in [*before.history.records(), *before.taken]]

    after = Watch([decode_any(line) for line in lines])

    after.check(3_010.0)
    assert after.check(3_010.0 + SETTLE_S) == {}
    assert after.check(9_000.0) == {}
    assert after.taken == []


def test_incident_that_became_final_between_two_runs_is_counted() -> None:
    before = Watch()
    before.read(2_050.0, *LEAVE)
    before.check(2_050.0)
    before.check(2_050.0 + SETTLE_S)
    after = Watch([*before.history.records(), *before.taken])

    after.check(3_000.0)
    assert after.check(3_000.0 + SETTLE_S) == {"member_left": 1}


def test_incident_without_the_records_of_its_begin_is_not_counted_again() -> None:
    watch = Watch()
    watch.read(2_101.0, *LEAVE, *BACK)
    watch.check(2_101.0)
    watch.check(3_000.0)
    rest = [each for each in watch.history.records() if each.ts > "1970-01-01T00:34"]
    watch.history = RecentRecords(rest)
    watch.recorder._io = replace(watch.recorder._io, history=watch.history)
    watch.recorder._read = 0

    watch.check(4_000.0)
    assert watch.check(4_000.0 + SETTLE_S) == {"member_joined": 1, "restart": 1}


def test_record_has_the_whole_answer() -> None:
    watch = Watch()
    watch.read(2_101.0, *LEAVE, *BACK)
    watch.check(2_101.0)
    watch.check(3_000.0)

    (*_, record) = watch.taken
    assert isinstance(record, IncidentRecord)
    data = json.loads(encode(record))
    assert (data["kind"], data["scope"], data["source"]) == ("incident", "group", "incidents")
    assert (data["client_id"], data["to"], data["status"]) == ("a", 6, "UserRequested")
    assert data["ts"] == data["incident"]["started_at"] == "1970-01-01T00:33:20.000000Z"
    assert data["ended_ts"] == data["incident"]["ended_at"] == "1970-01-01T00:35:00.500000Z"
    assert data["incident"]["kind"] == "restart"
    assert decode_any(encode(record)) == record


def test_record_of_a_later_version_is_a_record_without_its_own_fields() -> None:
    watch = Watch()
    watch.read(1_000.0)
    watch.check(1_000.0)
    watch.check(2_000.0)
    data = json.loads(encode(watch.taken[0]))
    for changed in ({"incident": "elsewhere"}, {"ended_ts": "later"}, {"ended_ts": "2026-W47-6"}):
        sample = decode_any(msgspec.json.encode(data | changed))

        assert (type(sample), sample.kind) == (Sample, SampleKind.INCIDENT)


def test_pause_goes_by_cpu_time_not_by_the_machines_load() -> None:
    watch, clock = Watch(), iter([5.0, 5.25])
    watch.recorder._cpu_clock = lambda: next(clock)
    watch.read(1_000.0)

    assert asyncio.run(watch.recorder.check()) == 0.25
    assert asyncio.run(watch.recorder.check()) == 0.0


def test_an_analysis_of_the_pages_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch()
    watch.read(2_050.0, *LEAVE)
    shown = watch.history.incidents.read(2_050.0)
    monkeypatch.setattr(RecentRecords, "analyze", None)

    watch.check(2_050.0)

    assert watch.history.incidents.read(2_050.0) == shown
    assert watch.recorder.totals().recent


def test_what_a_setting_would_have_avoided_is_shown_with_the_incident_that_ended() -> None:
    watch = Watch()
    watch.read(2_050.0, *DROP)
    watch.check(2_050.0)
    assert watch.recorder.totals().avoidable == {}

    watch.read(2_070.0, *DROP, raised(2, 2_060.0, A), *round_of(3, 2_060.5, A, B, C))
    watch.check(2_100.0)

    ((key, cost),) = watch.recorder.totals().avoidable.items()
    assert key.setting == "max.poll.interval.ms"
    assert 0 < cost.rebalances <= cost.of_rebalances
