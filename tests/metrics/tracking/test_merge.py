"""One member, several sources: an event is one transition, whoever tells it first."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from metrics.model.sample import REMOVED_AND_ENDED, Outcome, Sample, SampleKind, Scope
from metrics.model.signals import FollowUp, Member, Signal, SignalKind, SourceKind
from metrics.model.status import RebalanceStatus as Status
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker, TrackerState
from tests.metrics.given import C1, codes, demand, joined, of_kind, raised, run, signal

LOGS, WIRE = SourceKind.LOGS, SourceKind.WIRE
LOG = replace(C1, member_id="c1-u", host="pod-1", software=None)
ADDRESS = replace(LOG, origin="10.0.0.5:40000", host="10.0.0.5", software="apache-kafka-java 3.9")
BROKERS = replace(LOG, origin="broker_log:g/c1#0", host="")
STATS = replace(C1, origin="stats.sock#rdkafka#consumer-1")
BY_LOOKS = SourceKind.STATS
CONFIG = StatusConfig()


@pytest.fixture
def tracker() -> Tracker:
    return Tracker(CONFIG)


def wire(kind: SignalKind, at: float, status: int = 0, reason: str | None = None) -> Signal:
    return signal(kind, at, ADDRESS, status=Status(status), source=WIRE, reason=reason)


def synced(at: float, generation: int | None = None, *, by: SourceKind = WIRE) -> Signal:
    member = ADDRESS if by is WIRE else LOG
    return signal(SignalKind.SYNC, at, member, source=by, generation=generation)


def raised_by(source: SourceKind, status: int, at: float, reason: str | None = None) -> Signal:
    return raised(status, at, ADDRESS if source is WIRE else LOG, source=source, reason=reason)


def left_by(source: SourceKind, at: float) -> Signal:
    member = ADDRESS if source is WIRE else LOG
    return signal(SignalKind.LEAVE, at, member, source=source, reason="it is closed")


def seen_by(source: SourceKind) -> Signal:
    return signal(SignalKind.SEEN, 1.0, ADDRESS if source is WIRE else LOG, source=source)


def reasons(samples: Iterable[Sample]) -> list[str | None]:
    return [each.reason for each in samples]


class TestEcho:
    """A second source's report of an event only confirms it."""

    def test_cause_is_told_once(self, tracker: Tracker) -> None:
        samples = run(tracker, wire(SignalKind.RAISE, 10.0, 1, "error 27"), raised(1, 10.1, LOG))

        assert codes(samples) == [1]
        assert [each.kind for each in samples] == [SampleKind.TRANSITION, SampleKind.CHANGE]

    def test_late_cause_does_not_open_a_closed_episode(self, tracker: Tracker) -> None:
        run(tracker, wire(SignalKind.RAISE, 10.0, 1), synced(12.0, 5))

        assert run(tracker, raised(1, 10.1, LOG), synced(12.1, 5, by=SourceKind.LOGS)) == []

    def test_late_end_does_not_end_the_next_round(self, tracker: Tracker) -> None:
        run(tracker, wire(SignalKind.RAISE, 10.0, 1), synced(12.0, 5))
        run(tracker, wire(SignalKind.RAISE, 12.05, 1))

        assert run(tracker, raised(1, 10.1, LOG), synced(12.1, 5, by=SourceKind.LOGS)) == []

    def test_rounds_of_different_generations_are_two(self, tracker: Tracker) -> None:
        run(tracker, raised(1, 10.0, LOG), synced(11.0, 5))

        samples = run(tracker, raised(1, 11.5, LOG), synced(12.0, 6, by=SourceKind.LOGS))

        assert codes(samples) == [1, 0]

    def test_each_telling_is_claimed_once(self, tracker: Tracker) -> None:
        run(tracker, wire(SignalKind.RAISE, 10.0, 1), synced(10.5, 5))

        samples = run(tracker, raised(1, 10.1, LOG), raised(1, 11.0, LOG))

        assert codes(samples) == [1]

    def test_it_claims_the_nearest_of_several(self, tracker: Tracker) -> None:
        for number, at in enumerate((10.0, 11.0)):
            run(tracker, wire(SignalKind.RAISE, at, 1), synced(at + 0.5, number))

        samples = run(tracker, raised(1, 11.1, LOG), raised(1, 12.2, LOG))

        assert codes(samples) == [1]

    @pytest.mark.parametrize("first", [WIRE, SourceKind.LOGS])
    def test_what_was_told_twice_is_no_echo_of_the_next_round(
        self, tracker: Tracker, first: SourceKind
    ) -> None:
        """A log has two lines for one answer to SyncGroup."""
        second = SourceKind.LOGS if first is WIRE else WIRE
        run(tracker, raised(1, 10.0, LOG), wire(SignalKind.RAISE, 10.0, 1), raised(1, 10.0, LOG))
        run(tracker, synced(10.1, 4, by=first), synced(10.1, 4, by=second))

        samples = run(tracker, wire(SignalKind.RAISE, 11.0, 1))

        assert codes(samples) == [1]

    @pytest.mark.parametrize("first", [WIRE, SourceKind.LOGS])
    def test_what_came_behind_an_end_is_no_cause_of_the_next_round(
        self, tracker: Tracker, first: SourceKind
    ) -> None:
        """Once a source has reported an end, its later reports of earlier causes are ignored."""
        second = SourceKind.LOGS if first is WIRE else WIRE
        run(tracker, seen_by(second), raised_by(first, 6, 10.0), synced(10.6, 5, by=first))
        run(tracker, raised_by(second, 1, 10.5), synced(10.6, 5, by=second))

        assert codes(run(tracker, raised_by(first, 1, 11.6))) == [1]
        assert run(tracker, raised_by(second, 1, 11.6)) == []

    @pytest.mark.parametrize("first", [WIRE, SourceKind.LOGS])
    def test_who_has_told_the_end_too_is_behind_it_whatever_its_clock(
        self, tracker: Tracker, first: SourceKind
    ) -> None:
        second = SourceKind.LOGS if first is WIRE else WIRE
        run(tracker, seen_by(second), raised_by(first, 1, 10.0), synced(10.6, 5, by=first))
        run(tracker, raised_by(second, 1, 10.0), synced(10.5, 5, by=second))

        samples = run(tracker, raised_by(second, 1, 10.55), raised_by(first, 1, 10.65))

        assert codes(samples) == [1]

    def test_end_of_another_generation_is_news(self, tracker: Tracker) -> None:
        run(tracker, wire(SignalKind.RAISE, 10.0, 1), synced(11.0, 5))
        run(tracker, wire(SignalKind.RAISE, 11.4, 1))

        assert codes(run(tracker, synced(12.0, 6, by=SourceKind.LOGS))) == []
        assert codes(tracker.advance(17.0)) == [0]

    def test_it_is_known_for_a_minute(self, tracker: Tracker) -> None:
        run(tracker, wire(SignalKind.RAISE, 10.0, 1), synced(12.0, 5))
        tracker.advance(69.9)

        assert run(tracker, raised(1, 10.1, LOG)) == []
        assert "late" not in tracker.snapshot(70.0).counts

    def test_no_more_than_a_bound_is_remembered(self, tracker: Tracker) -> None:
        run(tracker, *(wire(SignalKind.RAISE, 10.0 + number, 1) for number in range(100)))

        (entry,) = tracker.state().consumers
        assert len(entry.observations) == 32

    def test_follow_up_of_a_told_end_is_news(self, tracker: Tracker) -> None:
        run(tracker, wire(SignalKind.RAISE, 10.0, 1), synced(12.0, 5))
        own = demand(10, 12.2, reason="need to revoke")

        (sample,) = run(tracker, signal(SignalKind.SYNC, 12.1, LOG, generation=5, own=own))

        assert (sample.to, sample.reason) == (10, "need to revoke")
        assert (sample.source, sample.generation) == ("logs", 5)

    @pytest.mark.parametrize(
        ("cause", "found"),
        [
            ([raised(8, 12.0, LOG, reason="received assignment does not match")], []),
            ([], [10]),
        ],
    )
    def test_follow_up_of_a_round_that_its_teller_has_left_behind_moves_nothing(
        self, tracker: Tracker, cause: list[Signal], found: list[int]
    ) -> None:
        """A client rejects an assignment: its log shows the reason, then the wire the follow-up."""
        run(tracker, seen_by(WIRE), raised(8, 12.0, LOG), synced(12.0, 5, by=SourceKind.LOGS))
        run(tracker, *cause)
        own = demand(10, 12.01, reason="need to revoke")
        end = signal(SignalKind.SYNC, 12.01, ADDRESS, source=WIRE, generation=5, own=own)

        samples = run(tracker, end)

        assert codes(samples) == found
        assert [(each.to, each.reason) for each in samples] == [(10, "need to revoke")]

    @pytest.mark.parametrize(
        ("own", "layer", "found"),
        [
            (None, demand(11, 12.01, 60.0, "probing"), ("streams", "s", 11, "probing")),
            (demand(10, 12.01), None, ("consumer", "s-StreamThread-1-consumer", 10, None)),
        ],
    )
    def test_what_would_have_been_taken_is_recorded_of_whom_it_is_demanded(
        self,
        tracker: Tracker,
        own: FollowUp | None,
        layer: FollowUp | None,
        found: tuple[str, str, int, str | None],
    ) -> None:
        thread = replace(LOG, client_id="s-StreamThread-1-consumer")
        on_wire = replace(ADDRESS, client_id=thread.client_id)
        run(tracker, signal(SignalKind.SEEN, 9.0, on_wire, source=WIRE), raised(8, 11.0, thread))
        run(tracker, signal(SignalKind.SYNC, 12.0, thread, generation=5), raised(8, 12.0, thread))
        end = signal(
            SignalKind.SYNC, 12.01, on_wire, source=WIRE, generation=5, own=own, layer=layer
        )

        (sample,) = [each for each in run(tracker, end) if each.kind == "signal"]

        assert (sample.scope, sample.client_id, sample.to, sample.reason) == found
        assert sample.from_ == 8

    def test_what_an_echo_of_a_cause_demands_is_news_whatever_came_behind(
        self, tracker: Tracker
    ) -> None:
        thread = replace(LOG, client_id="s-StreamThread-1-consumer")
        on_wire = replace(ADDRESS, client_id=thread.client_id)
        run(tracker, signal(SignalKind.SEEN, 9.0, on_wire, source=WIRE))
        run(tracker, raised(1, 10.0, thread), raised(7, 10.1, thread))

        samples = run(tracker, raised(1, 10.0, on_wire, source=WIRE, layer=demand(11, 10.2, 60.0)))

        assert codes(samples, Scope.STREAMS) == [11]

    def test_follow_up_is_told_once_too(self, tracker: Tracker) -> None:
        own = demand(10, 12.0)
        end = signal(SignalKind.SYNC, 12.0, ADDRESS, source=WIRE, generation=5, own=own)
        run(tracker, wire(SignalKind.RAISE, 10.0, 1), end)

        assert run(tracker, signal(SignalKind.SYNC, 12.1, LOG, generation=5, own=own)) == []

    def test_it_confirms_the_status(self, tracker: Tracker) -> None:
        run(tracker, wire(SignalKind.RAISE, 10.0, 1), raised(1, 11.0, LOG))

        assert tracker.advance(10.5 + CONFIG.stale_after_s) == []
        assert codes(tracker.advance(11.0 + CONFIG.stale_after_s)) == [None]

    def test_end_that_another_has_told_explains_its_own_join(self, tracker: Tracker) -> None:
        run(tracker, wire(SignalKind.RAISE, 10.0, 2), synced(12.0, 5))

        samples = run(tracker, joined(12.05, LOG), synced(12.1, 5, by=SourceKind.LOGS))

        assert [each.field for each in samples + run(tracker, synced(20.0, 6))] == ["joined"]
        assert "late" not in tracker.snapshot(13.0).counts

    def test_join_before_an_end_that_is_known_is_late(self, tracker: Tracker) -> None:
        run(tracker, synced(12.0, 5), joined(11.0, LOG), synced(20.0, 6), joined(13.0, LOG))

        assert tracker.snapshot(13.0).counts["late"] == 2


class TestWords:
    """The better reason wins."""

    def test_client_s_own_words_replace_an_error_while_it_lasts(self, tracker: Tracker) -> None:
        run(
            tracker, wire(SignalKind.RAISE, 10.0, 1, "error 27"), raised(1, 10.1, LOG, reason="its")
        )

        (row,) = tracker.snapshot(11.0).consumers
        assert row.reason == "its"

    def test_words_for_a_reason_that_was_recorded_are_not_recorded(self, tracker: Tracker) -> None:
        run(tracker, wire(SignalKind.RAISE, 10.0, 1, "error 27"))

        assert run(tracker, raised(1, 10.1, LOG, reason="its")) == []

    def test_error_does_not_replace_the_client_s_own_words(self, tracker: Tracker) -> None:
        run(
            tracker, raised(1, 10.0, LOG, reason="its"), wire(SignalKind.RAISE, 10.1, 1, "error 27")
        )

        (row,) = tracker.snapshot(11.0).consumers
        assert row.reason == "its"

    def test_reason_where_the_transition_had_none_is_recorded(self, tracker: Tracker) -> None:
        run(tracker, wire(SignalKind.RAISE, 10.0, 8))

        (sample,) = run(tracker, raised(8, 10.1, LOG, reason="its words"))

        assert (sample.kind, sample.from_, sample.to) == (SampleKind.SIGNAL, 8, 8)
        assert sample.reason == "its words"

    def test_words_for_what_is_over_change_nothing(self, tracker: Tracker) -> None:
        run(tracker, wire(SignalKind.RAISE, 10.0, 8), synced(11.0, 5))

        assert run(tracker, raised(8, 10.1, LOG, reason="its words")) == []
        assert tracker.snapshot(12.0).consumers[0].reason is None

    def test_words_for_a_lower_cause_leave_the_higher_one_s(self, tracker: Tracker) -> None:
        run(tracker, wire(SignalKind.RAISE, 10.0, 1), wire(SignalKind.RAISE, 10.5, 9, "error 14"))

        assert run(tracker, raised(1, 10.1, LOG, reason="its words")) == []
        assert tracker.snapshot(12.0).consumers[0].reason == "error 14"

    def test_of_two_that_know_it_equally_well_the_first_has_the_words(
        self, tracker: Tracker
    ) -> None:
        again = replace(ADDRESS, origin="10.0.0.5:40001")
        run(tracker, wire(SignalKind.RAISE, 10.0, 1, "error 27"))

        assert run(tracker, raised(1, 10.1, again, source=WIRE, reason="error 28")) == []
        assert tracker.snapshot(12.0).consumers[0].reason == "error 27"


class TestOnlyOneSaw:
    """A cause that only the slower source saw."""

    def test_it_is_an_episode_of_its_own_where_nothing_has_moved(self, tracker: Tracker) -> None:
        run(tracker, wire(SignalKind.SEEN, 1.0), synced(12.0, 5))

        samples = run(tracker, raised(7, 10.0, LOG, reason="metadata"))

        assert codes(samples) == [7, 0]
        assert [each.ts[17:23] for each in samples] == ["10.000", "12.000"]
        assert samples[-1].outcome is Outcome.SYNCED

    def test_its_round_is_the_first_that_ended_after_it(self, tracker: Tracker) -> None:
        run(tracker, wire(SignalKind.SEEN, 1.0), synced(12.0, 5), synced(20.0, 6))

        assert run(tracker, raised(7, 10.0, LOG))[-1].ts[17:23] == "12.000"

    def test_round_whose_end_it_has_told_is_not_its_own(self, tracker: Tracker) -> None:
        """It is behind that end in its own order, though its clock says otherwise."""
        run(tracker, wire(SignalKind.SEEN, 1.0), synced(12.0, 5), synced(20.0, 6))
        run(tracker, synced(11.8, 5, by=SourceKind.LOGS))

        samples = run(tracker, raised(7, 11.9, LOG))

        assert codes(samples) == [7, 0]
        assert samples[-1].ts[17:23] == "20.000"

    def test_who_has_told_the_end_begins_the_next_round(self, tracker: Tracker) -> None:
        run(tracker, wire(SignalKind.SEEN, 1.0), synced(12.0, 5))
        run(tracker, synced(11.8, 5, by=SourceKind.LOGS))

        assert codes(run(tracker, raised(7, 11.9, LOG))) == [7]
        assert run(tracker, wire(SignalKind.RAISE, 12.1, 7)) == []

    def test_it_has_its_echo_behind_an_end_that_one_alone_has_told(self, tracker: Tracker) -> None:
        run(tracker, synced(5.0, 4), raised(7, 10.0, LOG))

        assert run(tracker, wire(SignalKind.RAISE, 10.1, 7)) == []

    def test_demand_of_an_assignment_is_none(self, tracker: Tracker) -> None:
        thread = replace(ADDRESS, client_id="s-StreamThread-1-consumer")
        run(tracker, signal(SignalKind.SYNC, 12.0, thread, source=WIRE, generation=5))

        in_log = replace(thread, origin=LOG.origin)
        assert run(tracker, raised(0, 10.0, in_log, layer=demand(11, 10.0, 60.0))) == []

    def test_round_that_failed_ends_as_failed(self, tracker: Tracker) -> None:
        run(tracker, wire(SignalKind.FAIL, 12.0, reason="fenced"))

        end = run(tracker, raised(9, 10.0, LOG))[-1]

        assert (end.outcome, end.reason, end.source) == (Outcome.FAILED, "fenced", "logs")

    def test_another_one_of_that_round_is_recorded(self, tracker: Tracker) -> None:
        run(tracker, synced(12.0, 5), raised(7, 10.0, LOG))

        (sample,) = run(tracker, raised(8, 10.5, LOG, reason="topics"))

        assert (sample.kind, sample.from_, sample.to) == (SampleKind.SIGNAL, 0, 8)

    def test_it_is_recorded_where_the_round_has_a_cause_already(self, tracker: Tracker) -> None:
        run(tracker, wire(SignalKind.RAISE, 9.0, 1), synced(12.0, 5))

        (sample,) = run(tracker, raised(7, 10.0, LOG, reason="metadata"))

        assert (sample.kind, sample.to, sample.reason) == (SampleKind.SIGNAL, 7, "metadata")

    @pytest.mark.parametrize("code", [6, 8])
    def test_it_is_one_though_the_clock_says_it_came_behind_the_end(
        self, tracker: Tracker, code: int
    ) -> None:
        """The client had not read the end yet: in its own order the cause is of that round."""
        run(tracker, raised(1, 5.0, LOG), synced(6.0, 4, by=SourceKind.LOGS), synced(6.0, 4))
        run(tracker, wire(SignalKind.RAISE, 9.0, 7), raised(7, 9.001, LOG), synced(12.0, 5))

        samples = run(
            tracker,
            raised(code, 12.003, LOG, reason="it is enforced"),
            synced(12.005, 5, by=SourceKind.LOGS),
        )

        assert codes(samples) == []
        assert [(each.kind, each.to, each.reason) for each in samples] == [
            (SampleKind.SIGNAL, code, "it is enforced")
        ]
        assert tracker.snapshot(13.0).counts["late"] == 1

    def test_cause_behind_an_end_is_news_to_who_tells_no_ends(self, tracker: Tracker) -> None:
        run(tracker, wire(SignalKind.RAISE, 9.0, 7), raised(7, 9.001, LOG), synced(12.0, 5))

        assert codes(run(tracker, raised(6, 12.003, LOG))) == [6]

    @pytest.mark.parametrize(
        ("ended_by", "at"), [([WIRE], 14.0), ([WIRE, SourceKind.LOGS], 12.003)]
    )
    def test_cause_well_behind_an_end_or_behind_its_own_is_news(
        self, tracker: Tracker, ended_by: list[SourceKind], at: float
    ) -> None:
        run(tracker, raised(1, 5.0, LOG), synced(6.0, 4, by=SourceKind.LOGS), synced(6.0, 4))
        run(tracker, wire(SignalKind.RAISE, 9.0, 7), raised(7, 9.001, LOG))
        run(tracker, *(synced(12.0, 5, by=each) for each in ended_by))

        assert codes(run(tracker, raised(6, at, LOG))) == [6]

    def test_cause_behind_the_end_of_a_round_unknown_to_its_voice_is_news(
        self, tracker: Tracker
    ) -> None:
        run(tracker, raised(1, 5.0, LOG), synced(6.0, 4, by=SourceKind.LOGS), synced(6.0, 4))
        run(tracker, wire(SignalKind.RAISE, 9.0, 7), synced(12.0, 5))

        assert codes(run(tracker, raised(6, 12.003, LOG))) == [6]

    @pytest.mark.parametrize("since", [[synced(14.0, 6)], [wire(SignalKind.RAISE, 13.0, 1)]])
    def test_cause_behind_an_end_that_ended_nothing_or_within_the_next_round_is_news(
        self, tracker: Tracker, since: list[Signal]
    ) -> None:
        run(tracker, raised(1, 5.0, LOG), synced(6.0, 4, by=SourceKind.LOGS), synced(6.0, 4))
        run(tracker, wire(SignalKind.RAISE, 9.0, 7), raised(7, 9.001, LOG), synced(12.0, 5))
        run(tracker, *since)

        assert codes(run(tracker, raised(6, since[-1].at + 0.003, LOG))) == [6]

    def test_cause_behind_an_end_without_a_generation_is_news(self, tracker: Tracker) -> None:
        """The next answer may already have come: an epoch of the new protocols has several."""
        run(tracker, raised(1, 5.0, LOG), synced(6.0, 4, by=SourceKind.LOGS), synced(6.0, 4))
        run(tracker, wire(SignalKind.RAISE, 9.0, 7), raised(7, 9.001, LOG), synced(12.0))

        assert codes(run(tracker, raised(6, 12.003, LOG))) == [6]

    def test_end_of_a_rebalance_that_its_source_confirmed_is_no_end_before_it(
        self, tracker: Tracker
    ) -> None:
        """An epoch of the new protocols may have two ends, and a log alone shows the first one."""
        given = [
            *(seen_by(each) for each in (LOGS, WIRE)),
            synced(10.0, 6, by=LOGS),
            *(raised(1, 11.0, LOG), wire(SignalKind.RAISE, 11.001, 1)),
            synced(11.05, 6, by=LOGS),
            replace(synced(11.07, 6), gained=1),
        ]

        done = [
            sample
            for each in given
            for sample in run(
                tracker, replace(each, member=replace(each.member, group_type="streams"))
            )
        ]

        assert [code for code in codes(done) if code is not None][-2:] == [1, 0]

    def test_wire_may_still_begin_the_next_round_with_it(self, tracker: Tracker) -> None:
        """The client has rejected the assignment, and joins again for that cause."""
        run(tracker, raised(1, 5.0, LOG), synced(6.0, 4, by=SourceKind.LOGS), synced(6.0, 4))
        run(tracker, wire(SignalKind.RAISE, 9.0, 7), raised(7, 9.001, LOG), synced(12.0, 5))
        run(tracker, raised(6, 12.003, LOG))

        assert codes(run(tracker, wire(SignalKind.RAISE, 12.1, 6))) == [6]

    def test_it_does_not_move_a_later_round(self, tracker: Tracker) -> None:
        run(
            tracker,
            wire(SignalKind.RAISE, 9.0, 1),
            synced(12.0, 5),
            wire(SignalKind.RAISE, 20.0, 1),
        )

        assert codes(run(tracker, raised(7, 10.0, LOG))) == []
        assert tracker.snapshot(21.0).consumers[0].status is Status.COORDINATOR_REQUESTED

    @pytest.mark.parametrize(
        ("of_another", "layer", "instance"),
        [([], None, [7, 0]), ([1], None, [1, 0]), ([], demand(10, 12.0), [10])],
    )
    def test_streams_instance_that_has_gone_on_does_not_move_again(
        self,
        tracker: Tracker,
        of_another: list[int],
        layer: FollowUp | None,
        instance: list[int],
    ) -> None:
        thread, other = (
            replace(ADDRESS, client_id=f"s-StreamThread-{n}-consumer", member_id=f"u{n}")
            for n in (1, 2)
        )
        in_log = replace(thread, origin=LOG.origin)

        samples = run(
            tracker,
            *(signal(SignalKind.SEEN, 1.0, each, source=WIRE) for each in (thread, other)),
            *(raised(code, 9.0, other, source=WIRE) for code in of_another),
            signal(SignalKind.SYNC, 12.0, thread, source=WIRE, generation=5, layer=layer),
            signal(SignalKind.SYNC, 12.1, other, source=WIRE, generation=5),
            raised(7, 10.0, in_log),
        )

        assert codes(each for each in samples if each.client_id == thread.client_id) == [7, 0]
        assert codes(samples, Scope.STREAMS) == instance

    def test_third_source_that_saw_it_too_is_an_echo(self, tracker: Tracker) -> None:
        run(tracker, wire(SignalKind.SEEN, 1.0), synced(12.0, 5), raised(7, 10.0, LOG))

        assert run(tracker, raised(7, 10.1, STATS, source=BY_LOOKS)) == []

    def test_what_is_too_old_to_be_compared_is_counted_only(self, tracker: Tracker) -> None:
        run(tracker, wire(SignalKind.RAISE, 9.0, 1), synced(12.0, 5))
        tracker.advance(1000.0)

        assert run(tracker, raised(1, 9.1, LOG)) == []
        assert tracker.snapshot(1000.0).counts["late"] == 1


class TestLeave:
    """A response to a request from before a leave, or to one sent after it."""

    @pytest.mark.parametrize("code", [1, 3, 4])
    @pytest.mark.parametrize("first", [WIRE, SourceKind.LOGS])
    def test_answer_that_crossed_it_does_not_tell_it_twice(
        self, tracker: Tracker, first: SourceKind, code: int
    ) -> None:
        second = SourceKind.LOGS if first is WIRE else WIRE
        run(tracker, seen_by(second))

        samples = run(
            tracker, left_by(first, 10.0), raised_by(second, code, 10.04), left_by(second, 10.05)
        )

        assert codes(samples) == [6, 0]
        assert [each.to for each in of_kind(samples, SampleKind.SIGNAL)] == [code]

    def test_answer_to_what_it_asked_behind_it_begins_nothing(self, tracker: Tracker) -> None:
        """A join that was under way is answered, and the client syncs though it has left."""
        run(tracker, raised(1, 8.0, LOG), left_by(SourceKind.LOGS, 10.0), left_by(WIRE, 10.01))

        samples = run(tracker, wire(SignalKind.RAISE, 11.0, 3, "error 25"))

        assert codes(samples) == []
        assert reasons(samples) == ["error 25"]

    @pytest.mark.parametrize("back", [joined(10.5, LOG), raised(2, 10.5, LOG)])
    def test_who_is_back_is_answered_anew(self, tracker: Tracker, back: Signal) -> None:
        run(tracker, left_by(SourceKind.LOGS, 10.0), left_by(WIRE, 10.0), back)

        assert codes(run(tracker, wire(SignalKind.RAISE, 11.0, 3))) == [3]

    def test_cause_of_a_join_is_one_at_once(self, tracker: Tracker) -> None:
        run(tracker, left_by(SourceKind.LOGS, 10.0), left_by(WIRE, 10.0))

        assert codes(run(tracker, wire(SignalKind.RAISE, 10.1, 2))) == [2]

    def test_answer_is_not_under_way_for_longer_than_a_request(self, tracker: Tracker) -> None:
        """A client of before Kafka 2.2 joins again without a word on the wire."""
        run(tracker, left_by(WIRE, 10.0))

        assert codes(run(tracker, wire(SignalKind.RAISE, 39.9, 1))) == []
        assert codes(run(tracker, wire(SignalKind.RAISE, 40.0, 1))) == [1]


class TestUnclearLeave:
    """On the wire, a leave without a reason may be a drop or a close."""

    @pytest.fixture
    def tracker(self) -> Tracker:
        tracker = Tracker(CONFIG)
        run(tracker, synced(5.0, 1, by=SourceKind.LOGS), synced(5.0, 1))
        return tracker

    def test_it_waits_for_the_log(self, tracker: Tracker) -> None:
        assert run(tracker, wire(SignalKind.LEAVE, 10.0)) == []

    def test_log_knows_it_for_a_drop(self, tracker: Tracker) -> None:
        samples = run(
            tracker,
            wire(SignalKind.LEAVE, 10.0),
            wire(SignalKind.RAISE, 10.5, 2),
            raised(5, 9.999, LOG, reason="poll timeout"),
            synced(14.0, 2),
        )

        assert codes(samples) == [5, 0]

    def test_drop_that_the_log_told_first_is_no_leave(self, tracker: Tracker) -> None:
        samples = run(tracker, raised(5, 9.9, LOG), wire(SignalKind.LEAVE, 10.0), synced(14.0, 2))

        assert codes(samples) == [5, 0]

    def test_log_knows_it_for_a_close(self, tracker: Tracker) -> None:
        samples = run(
            tracker,
            wire(SignalKind.LEAVE, 10.0),
            signal(SignalKind.LEAVE, 9.9, LOG, reason="closed"),
        )

        assert codes(samples) == [6, 0]
        assert reasons(samples) == ["closed", "closed"]

    def test_it_is_a_leave_where_the_log_says_nothing_in_time(self, tracker: Tracker) -> None:
        run(tracker, wire(SignalKind.LEAVE, 10.0), wire(SignalKind.RAISE, 11.0, 2))

        assert tracker.advance(14.9) == []
        assert codes(tracker.advance(15.0)) == [6, 0, 2]

    def test_two_of_them_wait_one_after_the_other(self, tracker: Tracker) -> None:
        run(tracker, wire(SignalKind.LEAVE, 10.0))
        run(tracker, wire(SignalKind.RAISE, 10.5, 2), wire(SignalKind.LEAVE, 11.0))

        assert codes(tracker.advance(100.0)) == [6, 0, 2, 6, 0]

    def test_it_is_a_leave_once_the_log_tells_of_later_things(self, tracker: Tracker) -> None:
        run(tracker, wire(SignalKind.LEAVE, 10.0))

        samples = run(tracker, raised(2, 12.5, LOG))

        assert codes(samples) == [6, 0, 2]

    def test_it_is_a_leave_once_the_wire_is_far_ahead(self, tracker: Tracker) -> None:
        run(tracker, wire(SignalKind.LEAVE, 10.0))

        assert codes(run(tracker, wire(SignalKind.RAISE, 15.1, 2))) == [6, 0, 2]

    def test_it_does_not_wait_for_a_log_that_has_ended(self, tracker: Tracker) -> None:
        tracker.detach(LOG.origin, 6.0)

        assert codes(run(tracker, wire(SignalKind.LEAVE, 10.0))) == [6, 0]

    def test_end_of_all_sources_ends_the_wait(self, tracker: Tracker) -> None:
        run(tracker, wire(SignalKind.LEAVE, 10.0))

        samples = tracker.detach(LOG.origin, 11.0) + tracker.detach(ADDRESS.origin, 11.0)

        assert codes(samples) == [6, 0]

    def test_end_of_a_recording_ends_the_wait(self, tracker: Tracker) -> None:
        run(tracker, wire(SignalKind.LEAVE, 10.0))

        assert codes(tracker.flush()) == [6, 0]

    def test_it_waits_however_many_see_it_on_the_wire(self, tracker: Tracker) -> None:
        capture = replace(ADDRESS, origin="10.0.0.5:50000")
        leave = signal(SignalKind.LEAVE, 10.0, capture, source=WIRE)
        rejoins = raised(2, 10.6, capture, source=WIRE)

        samples = run(
            tracker,
            wire(SignalKind.LEAVE, 10.0),
            leave,
            wire(SignalKind.RAISE, 10.5, 2),
            rejoins,
            raised(5, 9.999, LOG),
        )

        assert codes(samples) == [5]

    def test_no_more_than_a_bound_waits(self, tracker: Tracker) -> None:
        run(tracker, wire(SignalKind.LEAVE, 10.0))

        samples = run(tracker, *(wire(SignalKind.RAISE, 10.0, 2) for _ in range(100)))

        assert codes(samples) == [6, 0, 2]

    def test_drop_that_comes_too_late_is_recorded(self, tracker: Tracker) -> None:
        run(tracker, wire(SignalKind.LEAVE, 10.0))
        tracker.advance(15.0)

        (sample,) = run(tracker, raised(5, 9.999, LOG, reason="poll timeout"))

        assert (sample.kind, sample.to, sample.reason) == (SampleKind.SIGNAL, 5, "poll timeout")
        assert "late" not in tracker.snapshot(16.0).counts

    def test_it_waits_through_a_restart(self, tracker: Tracker) -> None:
        run(tracker, wire(SignalKind.LEAVE, 10.0))
        state = msgspec.json.decode(msgspec.json.encode(tracker.state()), type=TrackerState)

        samples = run(Tracker(CONFIG, state=state), raised(5, 9.999, LOG))

        assert codes(samples) == [5]

    def test_leave_of_a_member_with_one_source_does_not_wait(self) -> None:
        assert codes(run(Tracker(CONFIG), wire(SignalKind.LEAVE, 10.0))) == [6, 0]


class TestRemoval:
    """A broker has done with a member long before the member learns that it was removed."""

    REMOVED = raised(3, 10.0, ADDRESS, source=SourceKind.BROKER_LOG)
    DONE = signal(SignalKind.FAIL, 11.0, ADDRESS, source=SourceKind.BROKER_LOG)

    def test_member_that_tells_of_itself_is_not_done_with(self, tracker: Tracker) -> None:
        run(tracker, signal(SignalKind.SEEN, 1.0, LOG))

        samples = run(
            tracker,
            self.REMOVED,
            self.DONE,
            raised(3, 14.0, LOG),
            synced(15.0, by=SourceKind.LOGS),
        )

        assert codes(samples) == [3, 0]

    def test_earlier_member_id_is_not_the_member(self, tracker: Tracker) -> None:
        """A client whose join failed gets another id; nobody uses the first one any more."""
        again = replace(LOG, member_id="c1-v")
        run(tracker, signal(SignalKind.SEEN, 1.0, LOG), raised(9, 4.0, LOG))
        run(tracker, raised(2, 5.0, again))

        removed = run(tracker, self.REMOVED, self.DONE)

        assert {each.kind for each in removed} <= {SampleKind.CHANGE}
        assert codes(run(tracker, signal(SignalKind.SYNC, 12.0, again))) == [0]

    def test_member_that_was_removed_before_it_joined_again_has_its_cause(
        self, tracker: Tracker
    ) -> None:
        """The broker's log is read late."""
        again = replace(LOG, member_id="c1-v")
        run(tracker, signal(SignalKind.SEEN, 1.0, LOG), raised(3, 14.0, LOG))
        run(tracker, raised(2, 14.5, again), signal(SignalKind.SYNC, 15.0, again))

        samples = run(tracker, self.REMOVED)

        assert 3 in {each.to for each in samples if each.kind is not SampleKind.CHANGE}

    def test_member_that_only_the_broker_tells_of_is(self, tracker: Tracker) -> None:
        assert codes(run(tracker, self.REMOVED, self.DONE)) == [3, 0]

    def test_member_whose_connections_end_is_done_with(self, tracker: Tracker) -> None:
        """It was killed: its log is there for ever, and shows nothing of it."""
        run(tracker, signal(SignalKind.SEEN, 1.0, LOG), wire(SignalKind.SEEN, 1.0))
        removed = replace(self.REMOVED, member=BROKERS), replace(self.DONE, member=BROKERS)
        run(tracker, *removed)

        (end,) = tracker.detach(ADDRESS.origin, 15.0)

        assert (end.to, end.outcome, end.reason) == (0, Outcome.FAILED, REMOVED_AND_ENDED)
        assert tracker.advance(14.0 + CONFIG.forget_after_s) == []
        assert len(tracker.snapshot(16.0).consumers) == 1
        tracker.advance(15.0 + CONFIG.forget_after_s)
        assert tracker.snapshot(16.0 + CONFIG.forget_after_s).consumers == ()

    def test_member_whose_connections_have_ended_is_done_with(self, tracker: Tracker) -> None:
        """It was killed a session timeout before the coordinator removes it."""
        run(tracker, signal(SignalKind.SEEN, 1.0, LOG), wire(SignalKind.SEEN, 1.0))
        assert tracker.detach(ADDRESS.origin, 4.0) == []
        state = msgspec.json.decode(msgspec.json.encode(tracker.state()), type=TrackerState)
        removed = replace(self.REMOVED, member=BROKERS), replace(self.DONE, member=BROKERS)

        *_, end = run(Tracker(CONFIG, state=state), *removed)

        assert (end.to, end.outcome, end.reason) == (0, Outcome.FAILED, REMOVED_AND_ENDED)

    @pytest.mark.parametrize("sign", [signal(SignalKind.SEEN, 5.0, LOG), raised(1, 5.0, LOG)])
    def test_member_that_reports_after_its_connections_goes_on(
        self, tracker: Tracker, sign: Signal
    ) -> None:
        """It lost its connections, and is removed while it tries again."""
        run(tracker, signal(SignalKind.SEEN, 1.0, LOG), wire(SignalKind.SEEN, 1.0))
        tracker.detach(ADDRESS.origin, 4.0)
        run(tracker, sign)

        run(tracker, replace(self.REMOVED, member=BROKERS), replace(self.DONE, member=BROKERS))

        assert codes(run(tracker, raised(3, 14.0, LOG), synced(15.0, by=SourceKind.LOGS))) == [0]

    def test_member_whose_connections_were_cut_goes_on(self, tracker: Tracker) -> None:
        run(tracker, signal(SignalKind.SEEN, 1.0, LOG), wire(SignalKind.SEEN, 1.0))
        tracker.detach(ADDRESS.origin, 4.0, is_cut=True)

        run(tracker, replace(self.REMOVED, member=BROKERS), replace(self.DONE, member=BROKERS))

        assert codes(run(tracker, raised(3, 14.0, LOG), synced(15.0, by=SourceKind.LOGS))) == [0]

    def test_member_that_is_back_before_its_old_connection_ends_goes_on(
        self, tracker: Tracker
    ) -> None:
        run(tracker, signal(SignalKind.SEEN, 1.0, LOG), wire(SignalKind.SEEN, 1.0))
        run(tracker, replace(self.REMOVED, member=BROKERS), replace(self.DONE, member=BROKERS))
        run(tracker, raised(3, 14.0, LOG))

        assert tracker.detach(ADDRESS.origin, 15.0) == []
        assert codes(run(tracker, synced(16.0, by=SourceKind.LOGS))) == [0]

    def test_brokers_end_of_another_status_removes_nobody(self, tracker: Tracker) -> None:
        """A coordinator that refuses the member's join: the member tries again."""
        run(tracker, signal(SignalKind.SEEN, 1.0, LOG), wire(SignalKind.SEEN, 1.0))
        run(tracker, raised(2, 10.0, LOG), replace(self.DONE, member=BROKERS))

        assert tracker.detach(ADDRESS.origin, 15.0) == []
        assert codes(run(tracker, synced(16.0, by=SourceKind.LOGS))) == [0]

    def test_fatal_error_on_the_wire_ends_it(self, tracker: Tracker) -> None:
        run(tracker, raised(9, 10.0, LOG))

        assert codes(run(tracker, wire(SignalKind.FAIL, 11.0))) == [0]


def by_broker(kind: SignalKind, at: float, status: int = 0, generation: int | None = 5) -> Signal:
    """Return the broker log's signal for the member."""
    member, source = replace(LOG, origin="broker_log:g/c1#0", host=""), SourceKind.BROKER_LOG
    return signal(kind, at, member, status=Status(status), source=source, generation=generation)


BROKER_ENDS = by_broker(SignalKind.SYNC, 12.0)


class TestBrokersEnd:
    """A broker does not log the follow-up of an assignment: the member's own sources do."""

    END = signal(SignalKind.SYNC, 12.1, LOG, generation=5, own=demand(10, 12.2))

    @pytest.fixture
    def tracker(self) -> Tracker:
        tracker = Tracker(CONFIG)
        run(tracker, signal(SignalKind.SEEN, 1.0, LOG))
        return tracker

    @pytest.mark.parametrize("end", [END, msgspec.structs.replace(END, at=11.9)])
    def test_it_waits_for_the_member_s(self, tracker: Tracker, end: Signal) -> None:
        samples = run(
            tracker,
            by_broker(SignalKind.RAISE, 10.0, 1),
            raised(1, 10.1, LOG),
            BROKER_ENDS,
            end,
            synced(14.0, 6, by=SourceKind.LOGS),
        )

        assert codes(samples) == [1, 10, 0]

    def test_it_does_not_wait_for_one_that_was_told(self, tracker: Tracker) -> None:
        run(tracker, raised(1, 10.1, LOG), self.END)

        samples = run(tracker, BROKER_ENDS, by_broker(SignalKind.RAISE, 13.0, 3))

        assert codes(samples) == []
        assert [(each.from_, each.to) for each in samples] == [(10, 3)]

    def test_member_that_is_under_way_ends_by_itself(self, tracker: Tracker) -> None:
        """The user's callback may take minutes before the client goes on."""
        run(tracker, raised(1, 5.0, LOG), synced(6.0, 4, by=SourceKind.LOGS))
        run(tracker, raised(1, 10.0, LOG), BROKER_ENDS)

        assert tracker.advance(100.0) == []
        assert codes(run(tracker, self.END)) == [10]

    def test_join_without_a_cause_is_under_way_too(self, tracker: Tracker) -> None:
        run(tracker, synced(6.0, 4, by=SourceKind.LOGS), joined(10.0, LOG))
        run(tracker, by_broker(SignalKind.RAISE, 10.1, 1), BROKER_ENDS)

        assert tracker.advance(100.0) == []

    def test_it_confirms_the_status(self, tracker: Tracker) -> None:
        run(tracker, synced(6.0, 4, by=SourceKind.LOGS), raised(1, 10.0, LOG), BROKER_ENDS)

        assert tracker.advance(11.0 + CONFIG.stale_after_s) == []
        assert codes(tracker.advance(12.0 + CONFIG.stale_after_s)) == [None]

    def test_member_that_never_tells_an_end_has_the_broker_s(self, tracker: Tracker) -> None:
        run(tracker, raised(1, 10.0, LOG), BROKER_ENDS)

        assert tracker.advance(16.9) == []
        assert codes(tracker.advance(17.0)) == [0]

    def test_round_that_only_the_broker_saw_has_the_broker_s(self, tracker: Tracker) -> None:
        run(tracker, raised(1, 5.0, LOG), synced(6.0, 4, by=SourceKind.LOGS))
        run(tracker, by_broker(SignalKind.RAISE, 10.0, 1), BROKER_ENDS)

        assert codes(tracker.advance(17.0)) == [0]

    @pytest.mark.parametrize("kind", [SignalKind.LEAVE, SignalKind.FAIL])
    def test_member_that_has_left_is_not_under_way(
        self, tracker: Tracker, kind: SignalKind
    ) -> None:
        run(
            tracker, synced(6.0, 4, by=SourceKind.LOGS), raised(1, 7.0, LOG), signal(kind, 8.0, LOG)
        )
        run(tracker, by_broker(SignalKind.RAISE, 10.0, 1), BROKER_ENDS)

        assert codes(tracker.advance(17.0)) == [0]

    def test_log_that_has_ended_is_not_waited_for(self, tracker: Tracker) -> None:
        run(tracker, synced(6.0, 4, by=SourceKind.LOGS), by_broker(SignalKind.RAISE, 10.0, 1))
        run(tracker, raised(1, 10.1, LOG))
        tracker.detach(LOG.origin, 11.0)

        assert codes(run(tracker, BROKER_ENDS)) == [0]

    def test_wire_decides_as_well(self, tracker: Tracker) -> None:
        tracker.detach(LOG.origin, 1.0)
        run(tracker, synced(6.0, 4), wire(SignalKind.RAISE, 10.0, 1), BROKER_ENDS)

        assert tracker.advance(100.0) == []

    def test_statistics_do_not(self) -> None:
        """They do not show the follow-up of an assignment either."""
        tracker = Tracker(CONFIG)
        run(tracker, raised(1, 10.0, STATS, source=BY_LOOKS))

        assert codes(run(tracker, BROKER_ENDS)) == [0]

    def test_who_is_under_way_is_known_after_a_restart(self, tracker: Tracker) -> None:
        run(tracker, synced(6.0, 4, by=SourceKind.LOGS), raised(1, 10.0, LOG))
        state = msgspec.json.decode(msgspec.json.encode(tracker.state()), type=TrackerState)
        again = Tracker(CONFIG, state=state)
        run(again, BROKER_ENDS)

        assert again.advance(100.0) == []


class TestLooks:
    """Statistics are polls of a client: the events that they show have happened before."""

    @pytest.fixture
    def tracker(self) -> Tracker:
        tracker = Tracker(CONFIG)
        run(tracker, wire(SignalKind.RAISE, 10.0, 1), synced(13.0))
        return tracker

    def test_round_between_two_looks_is_the_one_on_the_wire(self, tracker: Tracker) -> None:
        raise_ = raised(1, 13.5, STATS, source=BY_LOOKS)

        assert run(tracker, raise_, signal(SignalKind.SYNC, 13.5, STATS, source=BY_LOOKS)) == []

    def test_another_cause_of_it_is_recorded(self, tracker: Tracker) -> None:
        (sample,) = run(tracker, raised(3, 13.5, STATS, source=BY_LOOKS))

        assert (sample.kind, sample.to) == (SampleKind.SIGNAL, 3)

    def test_look_that_came_first_has_its_echo(self) -> None:
        tracker = Tracker(CONFIG)
        run(tracker, wire(SignalKind.SEEN, 1.0), raised(1, 13.5, STATS, source=BY_LOOKS))

        assert run(tracker, wire(SignalKind.RAISE, 10.0, 1)) == []

    def test_what_comes_long_after_is_news(self, tracker: Tracker) -> None:
        assert codes(run(tracker, raised(1, 30.0, STATS, source=BY_LOOKS))) == [1]

    def test_join_of_it_is_late(self, tracker: Tracker) -> None:
        run(tracker, signal(SignalKind.JOIN, 13.5, STATS, source=BY_LOOKS))

        assert tracker.snapshot(14.0).counts["late"] == 1


class TestRequestOfJoin:
    """kafka-go logs its join when the response has come; the wire shows when it was sent."""

    def join(self, sent_at: float, at: float) -> Signal:
        return replace(signal(SignalKind.JOIN, at, ADDRESS, source=WIRE), sent_at=sent_at)

    def times(self, samples: Iterable[Sample]) -> list[tuple[str, str | None]]:
        return [(each.ts[17:20], each.joined_ts and each.joined_ts[17:20]) for each in samples]

    @pytest.mark.parametrize("sent_at", [10.0, 12.3])
    def test_it_is_recorded_where_the_log_shows_the_response(
        self, tracker: Tracker, sent_at: float
    ) -> None:
        run(tracker, seen_by(WIRE), signal(SignalKind.JOIN, 13.0, LOG))

        assert self.times(run(tracker, self.join(sent_at, 13.2))) == [("13.", f"{sent_at:.0f}.")]

    def test_it_is_no_news_where_the_log_shows_the_request(self, tracker: Tracker) -> None:
        run(tracker, seen_by(WIRE), signal(SignalKind.JOIN, 9.9, LOG))

        assert run(tracker, self.join(10.0, 13.2)) == []

    def test_late_join_has_its_time(self, tracker: Tracker) -> None:
        run(tracker, seen_by(WIRE), synced(13.4, 5, by=LOGS))

        assert self.times(run(tracker, self.join(10.0, 13.2))) == [("13.", "10.")]

    def test_late_join_without_it_is_no_news(self, tracker: Tracker) -> None:
        run(tracker, seen_by(WIRE), synced(13.4, 5, by=LOGS))

        assert run(tracker, wire(SignalKind.JOIN, 13.2)) == []


class TestIncompleteEnd:
    """kafkajs' log has no generation, and the time of its lines is cut to milliseconds."""

    def ends(self, samples: Iterable[Sample]) -> list[tuple[str, int | None]]:
        return [(each.ts[17:23], each.generation) for each in samples if each.to == 0]

    def test_it_waits_for_the_wire_that_showed_the_begin(self, tracker: Tracker) -> None:
        begin = [synced(1.0, 4), raised_by(WIRE, 1, 10.0), raised_by(LOGS, 1, 10.001)]

        samples = run(tracker, seen_by(LOGS), *begin, synced(10.4, by=LOGS), synced(10.4005, 5))

        assert self.ends(samples) == [("10.400", 5)]

    def test_it_ends_by_itself_where_the_wire_is_silent(self, tracker: Tracker) -> None:
        begin = [synced(1.0, 4), raised_by(WIRE, 1, 10.0)]
        run(tracker, seen_by(LOGS), *begin, synced(10.4, by=LOGS))

        samples = tracker.advance(16.0)

        assert self.ends(samples) == [("10.400", None)]

    def test_it_has_the_partitions_that_the_wire_counts(self, tracker: Tracker) -> None:
        """A log's line has the generation, and may come first by its cut time."""
        begin = [synced(1.0, 4), raised_by(WIRE, 1, 10.0), raised_by(LOGS, 1, 10.001)]
        counted = msgspec.structs.replace(synced(10.4005, 5), gained=2)

        samples = run(tracker, seen_by(LOGS), *begin, synced(10.4, 5, by=LOGS), counted)

        (end,) = [each for each in samples if each.to == 0]
        assert (end.generation, end.gained) == (5, 2)

    def test_it_ends_though_the_end_of_the_wire_is_older_than_a_cause_between(
        self, tracker: Tracker
    ) -> None:
        """A client asks for a rebalance while the response to its sync waits to be read."""
        begin = [synced(1.0, 4), raised_by(WIRE, 1, 10.0), raised_by(LOGS, 1, 10.001)]
        run(tracker, seen_by(LOGS), *begin)

        done = run(
            tracker,
            *(raised_by(LOGS, 6, 14.701), synced(14.702, 5, by=LOGS)),
            *(synced(14.695, 5), raised_by(WIRE, 1, 15.69)),
            synced(15.76, 6),
        )

        assert codes(done) == [6, 0, 1, 0]

    def test_the_next_record_has_the_generation_that_the_wire_confirms(
        self, tracker: Tracker
    ) -> None:
        begin = [synced(1.0, 4), raised_by(LOGS, 1, 10.0)]

        samples = run(tracker, *begin, synced(10.4, by=LOGS), synced(10.4005, 5))
        later = run(tracker, raised_by(LOGS, 1, 20.0))

        assert self.ends(samples) == [("10.400", None)]
        assert [each.generation for each in later if each.to == 1] == [5]


class TestOwnEnd:
    """A source that ends its own episode repeats no other source."""

    def test_it_is_no_echo_of_an_earlier_end(self, tracker: Tracker) -> None:
        run(tracker, signal(SignalKind.SEEN, 1.0, LOG), synced(10.0))

        samples = run(tracker, raised(1, 10.5, LOG), synced(11.0, by=SourceKind.LOGS))

        assert codes(samples) == [1, 0]


@dataclass(frozen=True, kw_only=True)
class Round:
    """A round as it happened: causes a while after one another, then its end."""

    causes: tuple[Status, ...]
    revokes: bool
    ends: SignalKind
    pause_s: float


ROUNDS = st.lists(
    st.builds(
        Round,
        causes=st.lists(
            st.sampled_from([code for code in Status if 1 <= code <= 9]),
            unique=True,
            max_size=3,
        ).map(tuple),
        revokes=st.booleans(),
        ends=st.sampled_from([SignalKind.SYNC, SignalKind.SYNC, SignalKind.LEAVE]),
        pause_s=st.sampled_from([0.5, 1.0, 30.0]),
    ),
    min_size=1,
    max_size=6,
)
_STEP_S = 0.5


def got(rounds: list[Round]) -> list[Signal]:
    """Return the log's signals for a history."""
    at, out = 100.0, list[Signal]()
    for generation, each in enumerate(rounds):
        out.append(joined(at := at + each.pause_s, LOG))
        out += [raised(code, at := at + _STEP_S, LOG, reason=str(code)) for code in each.causes]
        at += _STEP_S
        own = demand(10, at) if each.revokes and each.ends is SignalKind.SYNC else None
        out.append(
            signal(each.ends, at, LOG, generation=generation, own=own, reason=str(each.ends))
        )
    return out


def on_the_wire(signals: Iterable[Signal], shifts: list[float]) -> list[Signal]:
    """Return the wire's signals for the same: a little earlier or later, in the same order."""
    return [
        msgspec.structs.replace(
            each, member=ADDRESS, source=WIRE, at=each.at + shifts[i % len(shifts)], reason="wire"
        )
        for i, each in enumerate(signals)
    ]


def by_the_broker(signals: Iterable[Signal], shifts: list[float]) -> list[Signal]:
    """Return the broker log's signals for the same: without joins and follow-ups."""
    return [
        msgspec.structs.replace(
            each, member=BROKER_ENDS.member, source=BROKER_ENDS.source, follow_up=None
        )
        for each in on_the_wire(signals, shifts)
        if each.kind is not SignalKind.JOIN
    ]


SHIFTS = st.lists(st.floats(-0.2, 0.2), min_size=1, max_size=5)


def interleaved(data: st.DataObject, one: list[Signal], other: list[Signal]) -> list[Signal]:
    """Return both in any order of arrival that keeps each one's own."""
    rest, out = [one[::-1], other[::-1]], list[Signal]()
    turns = iter(data.draw(st.lists(st.integers(0, 1), max_size=60)))
    while all(rest):
        out.append(rest[next(turns, 0)].pop())
    return out + rest[0][::-1] + rest[1][::-1]


def moves(samples: Iterable[Sample]) -> list[tuple[int | None, int | None]]:
    return [(each.from_, each.to) for each in of_kind(samples, SampleKind.TRANSITION)]


class TestLaws:
    """Two sources that report one history."""

    @given(st.data(), ROUNDS, SHIFTS)
    def test_transitions_are_those_of_one(
        self, data: st.DataObject, rounds: list[Round], shifts: list[float]
    ) -> None:
        log = got(rounds)
        alone, both = Tracker(CONFIG), Tracker(CONFIG)
        expected = moves(run(alone, *log))

        samples = run(both, *interleaved(data, log, on_the_wire(log, shifts)))

        assert moves(samples) == expected
        assert len({each.id for each in samples}) == len(samples)
        (row,), (one,) = both.snapshot(1e4).consumers, alone.snapshot(1e4).consumers
        assert row.counts.rebalances == one.counts.rebalances
        assert row.counts.transitions == one.counts.transitions

    @given(ROUNDS, SHIFTS, st.floats(0.0, 4.0))
    def test_leave_without_a_reason_is_what_a_slow_log_says(
        self, rounds: list[Round], shifts: list[float], lag_s: float
    ) -> None:
        """In the log each leave was a drop, and that ends with the next sync."""
        log = [
            raised(5, each.at, LOG) if each.kind is SignalKind.LEAVE else each
            for each in got(rounds)
        ]
        traffic = [
            msgspec.structs.replace(each, reason=None) for each in on_the_wire(got(rounds), shifts)
        ]
        arriving = sorted(log + traffic, key=lambda s: s.at + (0.0 if s.source is WIRE else lag_s))
        expected = moves(run(Tracker(CONFIG), *log))
        both = Tracker(CONFIG)
        run(both, signal(SignalKind.SEEN, 1.0, LOG))

        samples = run(both, *arriving) + both.flush()

        assert moves(samples) == expected

    @given(ROUNDS, SHIFTS, st.floats(-4.0, 4.0))
    def test_broker_s_ends_do_not_part_what_the_log_holds_together(
        self, rounds: list[Round], shifts: list[float], lag_s: float
    ) -> None:
        # all rounds have one member id, and a broker never gives out one again that has left
        assume(sum(each.ends is SignalKind.LEAVE for each in rounds) < 2)
        log = got(rounds)
        expected = moves(run(Tracker(CONFIG), *log))
        arriving = sorted(
            log + by_the_broker(log, shifts),
            key=lambda s: s.at + (lag_s if s.source is SourceKind.LOGS else 0.0),
        )
        both = Tracker(CONFIG)
        run(both, signal(SignalKind.SEEN, 1.0, LOG))

        samples = run(both, *arriving) + both.flush()

        assert moves(samples) == expected

    @given(st.data(), ROUNDS, SHIFTS)
    def test_no_cause_is_lost_or_doubled_where_each_misses_some(
        self, data: st.DataObject, rounds: list[Round], shifts: list[float]
    ) -> None:
        history = got([dataclasses.replace(each, ends=SignalKind.SYNC) for each in rounds])
        seen = [data.draw(st.integers(1, 3)) for _ in history]
        ends = SignalKind.SYNC
        log = [s for s, who in zip(history, seen, strict=True) if who & 1 or s.kind is ends]
        traffic = on_the_wire(history, shifts)
        traffic = [s for s, who in zip(traffic, seen, strict=True) if who & 2 or s.kind is ends]
        expected = run(Tracker(CONFIG), *history)
        tracker = Tracker(CONFIG)
        run(tracker, signal(SignalKind.SEEN, 1.0, LOG), wire(SignalKind.SEEN, 1.0))

        samples = run(tracker, *interleaved(data, log, traffic))

        for code in Status:
            assert (
                codes(samples).count(code) <= len([s for s in expected if s.to == code])
                or code is Status.NONE
            )
        recorded = {each.to for each in samples} - {0, None}
        assert recorded == {each.to for each in expected} - {0, None}


class TestSeveralMembersAtOnce:
    """Pending signals of several members are applied together."""

    def waiting(self, tracker: Tracker) -> None:
        """Two members leave on the wire without a reason, while their logs live."""
        for name in ("c1", "c2"):
            log = replace(LOG, client_id=name, member_id=f"{name}-u", origin=f"{name}.log")
            got = replace(log, origin="10.0.0.5:40000", host="10.0.0.5")
            run(tracker, signal(SignalKind.SEEN, 9.0, log))
            assert run(tracker, signal(SignalKind.LEAVE, 10.0, got, source=WIRE)) == []

    def test_at_the_end(self, tracker: Tracker) -> None:
        self.waiting(tracker)

        assert [each.client_id for each in tracker.flush()] == ["c1", "c1", "c2", "c2"]

    def test_when_their_time_has_come(self, tracker: Tracker) -> None:
        self.waiting(tracker)

        assert [each.client_id for each in tracker.advance(60.0)] == ["c1", "c1", "c2", "c2"]

    def test_snapshot_counts_the_members_of_each_stream(self, tracker: Tracker) -> None:
        self.waiting(tracker)

        streams = tracker.snapshot(10.0).members_by_origin

        assert streams == {"c1.log": 1, "c2.log": 1, "10.0.0.5:40000": 2}


def test_threads_state_is_shown_whoever_names_the_member(tracker: Tracker) -> None:
    run(
        tracker,
        signal(SignalKind.SEEN, 9.0, replace(LOG, state="RUNNING")),
        wire(SignalKind.RAISE, 10.0, 1),
    )

    (row,) = tracker.snapshot(10.0).consumers

    assert (row.state, row.status) == ("RUNNING", 1)


def test_return_that_explains_a_leave_comes_behind_it(tracker: Tracker) -> None:
    """The leave waits for the log, and the return for the leave."""
    run(tracker, seen_by(SourceKind.LOGS))
    returned = wire(SignalKind.NOTE, 14.0, 5, "no reason given, back 4 s later")
    found = run(tracker, wire(SignalKind.LEAVE, 10.0), returned, wire(SignalKind.RAISE, 14.1, 2))
    found += tracker.advance(20.0)

    moves = [each for each in found if each.kind is not SampleKind.CHANGE]
    assert [(each.kind.value, each.ts[17:21], each.to) for each in moves] == [
        ("transition", "10.0", 6),
        ("transition", "10.0", 0),
        ("signal", "14.0", 5),
        ("transition", "14.1", 2),
    ]


class TestThreadsOfOneInstance:
    """The wire is read behind the log, which has no number of partitions."""

    FIRST, SECOND, THIRD = (
        replace(LOG, client_id=f"s-StreamThread-{n}-consumer", member_id=f"u{n}") for n in (1, 2, 3)
    )

    def on_wire(self, thread: Member) -> Member:
        return replace(thread, origin=ADDRESS.origin)

    def begin(self, *threads: Member) -> list[Signal]:
        """Two sources see that the threads rebalance, and their log that this ends."""
        return [
            *(signal(SignalKind.SEEN, 1.0, self.on_wire(each), source=WIRE) for each in threads),
            *(raised(1, 10.0, self.on_wire(each), source=WIRE) for each in threads),
            *(raised(1, 10.001, each) for each in threads),
            *(signal(SignalKind.SYNC, 10.4, each, generation=5) for each in threads),
        ]

    def end(self, thread: Member) -> Signal:
        return signal(SignalKind.SYNC, 10.4, self.on_wire(thread), source=WIRE, generation=5)

    def test_cause_of_a_new_thread_waits_for_the_ends_before_it(self, tracker: Tracker) -> None:
        begin, third = self.begin(self.FIRST, self.SECOND), self.THIRD
        held = run(tracker, *begin, raised(2, 10.6, third), signal(SignalKind.JOIN, 10.7, third))
        first = run(tracker, self.end(self.FIRST))
        both = run(tracker, self.end(self.SECOND))

        assert codes(held, Scope.STREAMS) == [1]
        assert codes(first, Scope.STREAMS) == []
        assert codes(both, Scope.STREAMS) == [0, 2]
        (cause,) = (each for each in both if each.scope is Scope.CONSUMER and each.to == 2)
        assert (both[-1].field, both[-1].episode) == ("joined", cause.episode)

    def test_later_end_holds_no_cause(self, tracker: Tracker) -> None:
        samples = run(tracker, *self.begin(self.FIRST), raised(2, 10.3, self.THIRD))

        assert codes(samples, Scope.STREAMS) == [1, 2]
        assert codes(each for each in samples if each.client_id == self.THIRD.client_id) == [2]

    def test_cause_is_applied_when_the_ends_have_waited_long_enough(self, tracker: Tracker) -> None:
        run(tracker, *self.begin(self.FIRST), raised(2, 10.6, self.THIRD))

        assert codes(tracker.advance(16.0), Scope.STREAMS) == [0, 2]

    def test_wire_that_shows_the_cause_does_not_wait(self, tracker: Tracker) -> None:
        run(tracker, *self.begin(self.FIRST), raised(2, 10.6, self.THIRD))

        samples = run(tracker, raised(2, 10.6, self.on_wire(self.THIRD), source=WIRE))

        assert codes(each for each in samples if each.client_id == self.THIRD.client_id) == [2]

    def test_plain_members_do_not_wait_for_each_other(self, tracker: Tracker) -> None:
        first, third = LOG, replace(LOG, client_id="other", member_id="u3")
        samples = run(tracker, *self.begin(first), raised(2, 10.6, third))

        assert codes(each for each in samples if each.client_id == "other") == [2]
