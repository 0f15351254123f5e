import asyncio

import msgspec
import pytest

from agent.hub.push_receiver import PENDING_TIMEOUT_S, PushReceiver, with_spool
from agent.hub.rebalance_recorder import RebalanceRecorder
from agent.hub.recent_records import RecentRecords
from agent.hub.recorder_io import RecorderIO
from aggregation.rebalances.counter import SETTLE_S
from metrics.model.sample import EpisodeRecord, Sample, SampleKind, encode
from metrics.tracking.status_track import StatusConfig
from tests.aggregation.rebalances.test_rebalances import START, A, B, C, left, records, round_of

TOLD = records(*START, left(100.0, A, "closed"), *round_of(2, 101.0, B, C))
ONE = [record for record in TOLD if record.client_id == "a"]
TWO = [record for record in TOLD if record.client_id != "a"]
BACK_AT = 1_000.0
"""When the hub is there again; the agents went on without it from 50.0 on."""


class Hub:
    """A hub with the test's clock, and two agents that push their records."""

    def __init__(self, recorded: list[Sample], saved: dict[str, object] | None = None) -> None:
        self.now = BACK_AT
        self.intake = PushReceiver("", StatusConfig(), saved)
        self.history = RecentRecords(recorded, watermark_of=self.watermark)
        self.episodes: list[Sample] = []
        io = RecorderIO(
            history=self.history,
            spooled=recorded,
            limit=10,
            take=self.episodes.extend,
            agents=self,
            clock=lambda: self.now,
        )
        self.watch = RebalanceRecorder(io)

    def watermark(self, agent: str) -> float:
        return self.intake.watermark_of(agent) or 0.0

    def is_pending(self, agent: str, until: float) -> bool:
        return self.intake.is_pending(agent, until, self.now)

    def push(self, spool: str, got: list[Sample]) -> None:
        numbered = [msgspec.structs.replace(r, agent="h", seq=n) for n, r in enumerate(got, 1)]
        taken = self.intake.apply_lines(spool, b"".join(map(encode, numbered)), self.now)
        self.history.add([with_spool(record, spool) for record in taken], self.now)

    def at(self, now: float) -> list[tuple[str | None, str, list[str]]]:
        """Check at an instant; return all rebalances that the recorder has counted so far."""
        self.now = now
        asyncio.run(self.watch.check())
        found = [each for each in self.episodes if isinstance(each, EpisodeRecord)]
        return [(each.client_id, each.certainty, each.departures) for each in found]

    @property
    def answers(self) -> list[tuple[str, list[str]]]:
        """Return the present explanation: trigger and departures of each rebalance."""
        found = self.history.episodes(self.history.records(), self.now)
        return [
            (each.trigger.certainty.value, [d.kind.value for d in each.departures])
            for each in found
        ]


@pytest.fixture
def hub() -> Hub:
    """A hub that was away while A left, and B and C rebalanced."""
    before = Hub([])
    before.now = 50.0
    for spool, got in (("one", ONE), ("two", TWO)):
        before.push(spool, [record for record in got if record.ts < "1970-01-01T00:00:50"])
    recorded = before.history.records()
    before.at(49.0 + SETTLE_S)
    before.at(51.0 + SETTLE_S)
    assert [each.kind for each in before.episodes] == [SampleKind.EPISODE]
    return Hub(recorded + before.episodes, before.intake.checkpoint())


def test_backlog_that_comes_first_names_nobody(hub: Hub) -> None:
    hub.push("two", TWO)
    hub.push("two", [])

    assert hub.answers[1:] == [("unknown", [])]


def test_nothing_is_settled_while_a_backlog_is_awaited(hub: Hub) -> None:
    hub.push("two", TWO)
    hub.push("two", [])
    assert hub.at(BACK_AT + SETTLE_S) == []

    hub.push("one", ONE)
    hub.push("one", [])

    assert hub.at(BACK_AT + 3 * SETTLE_S) == [("a", "seen", ["a: left"])]


def test_agent_that_does_not_come_back_is_not_awaited_for_ever(hub: Hub) -> None:
    hub.push("two", TWO)
    hub.at(BACK_AT + SETTLE_S)
    assert hub.at(BACK_AT + PENDING_TIMEOUT_S - 1) == []

    assert hub.at(BACK_AT + PENDING_TIMEOUT_S + 2 * SETTLE_S) == [(None, "unknown", [])]


def test_agent_that_lives_and_says_nothing_is_missed(hub: Hub) -> None:
    hub.push("two", TWO)
    hub.push("one", ONE[:2])
    hub.push("one", [])

    assert hub.at(BACK_AT + SETTLE_S) == [("a", "inferred", ["a: expired"])]


def test_what_no_earlier_run_has_counted_is_counted() -> None:
    hub = Hub([msgspec.structs.replace(record, agent="h/one") for record in TOLD])

    hub.at(BACK_AT + SETTLE_S)
    assert len(hub.at(BACK_AT + 2 * PENDING_TIMEOUT_S)) == 2
