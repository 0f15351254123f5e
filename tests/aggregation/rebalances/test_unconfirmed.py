"""An agent that sees a member's requests shows for how long the member's statuses are valid."""

from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace

from aggregation.live.fleet import Fleet
from aggregation.rebalances.unconfirmed import end_unconfirmed_episodes
from metrics.model.sample import Sample, SampleKind, Scope, parse_time
from metrics.model.signals import Signal, SourceKind
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker
from tests.metrics.given import C1, joined, raised, run, synced

POLL_S = 10.0
CONFIG = StatusConfig()
BESIDE = replace(C1, member_id="c1-1")
ON_WIRE = replace(BESIDE, host="10.0.0.5", origin="10.0.0.5:40000", max_poll_interval_s=POLL_S)
VALID_S = 2 * POLL_S
Change = Callable[[Tracker], object]


def of_wire(*changes: Change) -> list[Sample]:
    """Return the records of a capture's agent that sees 3, and nothing more of the member."""
    tracker = Tracker(CONFIG)
    found = run(tracker, raised(3, 100.0, ON_WIRE, source=SourceKind.WIRE))
    for change in changes:
        change(tracker)
    return [replace(each, agent="wire") for each in [*found, *tracker.advance(1_000.0)]]


def of_log(*signals: Signal) -> list[Sample]:
    found = run(Tracker(CONFIG), raised(3, 99.5, BESIDE), *signals)
    return [replace(each, agent="log") for each in found]


def begin_again(tracker: Tracker) -> None:
    tracker.await_origins(lambda kind, _: kind is SourceKind.WIRE, 110.0)


def ends(records: Sequence[Sample], now: float = 500.0) -> list[float]:
    """Return when the log's episodes are lost; both agents have one name for the member."""
    named = [replace(each, host="h") for each in records]
    found = end_unconfirmed_episodes(named, now)
    return [
        parse_time(each.ts)
        for each in found
        if each.kind is SampleKind.LOST and each.agent == "log"
    ]


def test_status_is_lost_for_all_agents_when_the_one_that_knows_its_validity_loses_it() -> None:
    assert ends([*of_wire(), *of_log()]) == [100.0 + VALID_S]


def test_status_is_valid_from_the_last_confirmation_by_any_agent() -> None:
    assert ends([*of_wire(), *of_log(joined(115.0, BESIDE))]) == [115.0 + VALID_S]
    assert ends([*of_wire(), *of_log(joined(115.0, BESIDE))], now=115.0 + VALID_S) == []


def test_end_that_was_seen_stays() -> None:
    assert ends([*of_wire(), *of_log(synced(300.0, BESIDE))]) == []


def test_drop_lasts_until_the_member_is_back() -> None:
    """It may work on, and its log shows that: no record does."""
    assert ends([*of_wire(), *of_log(raised(5, 101.0, BESIDE))]) == []


def test_capture_that_began_again_ends_nothing() -> None:
    """It has missed what happened meanwhile, and joins no frames to what it had sent before."""
    assert ends([*of_wire(begin_again), *of_log()]) == []
    confirmed = raised(3, 115.0, ON_WIRE, source=SourceKind.WIRE)
    again = of_wire(begin_again, lambda tracker: tracker.apply(confirmed))
    assert ends([*again, *of_log()]) == [115.0 + VALID_S]


@pytest.mark.parametrize(("changes", "shown"), [((), [[3], []]), ((begin_again,), [[3], [3]])])
def test_hub_shows_no_status_that_is_lost(
    changes: Sequence[Change], shown: list[list[int]]
) -> None:
    members = Fleet(CONFIG)
    for record in of_log():
        members.apply("log", record)
    found = []
    for now, records in ((110.0, []), (125.0, of_wire(*changes))):
        members.record_contact("log", now)
        members.record_contact("wire", now)
        for record in records:
            members.apply("wire", record)
        found.append([int(row.status) for row in members.rows(Scope.CONSUMER, now)])

    assert found == shown
    assert bool(members.unseen(125.0)) == (shown[-1] == [])
