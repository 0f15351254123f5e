"""Kafka Streams instances: semantics.md section 2, and the streams layer in section 3."""

from collections.abc import Callable

import msgspec
import pytest
from msgspec.structs import replace

from metrics.model.sample import Outcome, Sample, SampleKind, Scope
from metrics.model.signals import InstanceKey, Member, Signal, streams_thread
from metrics.model.snapshot import MemberRow
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker
from tests.metrics.given import (
    C1,
    STATIC,
    T1,
    T2,
    codes,
    demand,
    failed,
    joined,
    left,
    of_kind,
    raised,
    run,
    seen,
    synced,
)

CONFIG = StatusConfig()
STALE_S = CONFIG.stale_after_s


@pytest.fixture
def tracker() -> Tracker:
    return Tracker(CONFIG)


def streams(tracker: Tracker, *signals: Signal) -> list[Sample]:
    """Apply the signals and return the instance's samples."""
    return [each for each in run(tracker, *signals) if each.scope is Scope.STREAMS]


def instance(tracker: Tracker, now: float) -> MemberRow | None:
    rows = tracker.snapshot(now).instances
    return rows[0] if rows else None


def gauge(tracker: Tracker, now: float) -> int | None:
    row = instance(tracker, now)
    return None if row is None else row.status


class TestMax:
    """The largest of the embedded consumers, and only upward."""

    def test_instance_is_the_max_of_its_consumers(self, tracker: Tracker) -> None:
        samples = streams(tracker, raised(1, 10.0, T1), raised(6, 11.0, T2))

        assert [each.to for each in samples] == [1, 6]

    def test_driven_to_6_and_1_it_stays_at_6_until_all_is_at_zero(self, tracker: Tracker) -> None:
        run(tracker, raised(6, 10.0, T1), raised(1, 11.0, T2))

        assert streams(tracker, synced(12.0, T1)) == []
        assert gauge(tracker, 12.0) == 6
        assert [each.to for each in streams(tracker, synced(13.0, T2))] == [0]

    def test_lower_consumer_of_a_higher_instance_is_no_signal_of_it(self, tracker: Tracker) -> None:
        assert [each.to for each in streams(tracker, raised(6, 10.0, T1), raised(1, 11.0, T2))] == [
            6
        ]
        assert "suppressed" not in tracker.snapshot(12.0).counts

    def test_plain_consumer_has_no_instance(self, tracker: Tracker) -> None:
        assert streams(tracker, raised(1, 10.0), synced(11.0)) == []
        assert tracker.snapshot(11.0).instances == ()

    def test_quiet_instance_stays_at_zero(self, tracker: Tracker) -> None:
        tracker.apply(seen(10.0, T1))

        tracker.advance(1e9)

        assert gauge(tracker, 1e9) == 0

    def test_reason_of_the_instance_is_the_consumers(self, tracker: Tracker) -> None:
        (sample,) = streams(tracker, raised(1, 10.0, T1, reason="its words"))

        assert (sample.reason, sample.ts) == ("its words", "1970-01-01T00:00:10.000000Z")

    def test_instance_has_its_own_episodes(self, tracker: Tracker) -> None:
        samples = run(tracker, raised(1, 10.0, T1), synced(11.0, T1))

        names = {each.scope: each.episode for each in samples}
        assert len(set(names.values())) == 2

    def test_end_of_an_episode_tells_how(self, tracker: Tracker) -> None:
        samples = streams(tracker, raised(1, 10.0, T1), synced(11.0, T1))

        assert [each.outcome for each in samples] == [None, Outcome.SYNCED]

    def test_fatal_error_of_the_last_busy_thread_ends_it_as_failed(self, tracker: Tracker) -> None:
        samples = streams(tracker, raised(1, 10.0, T1), failed(11.0, T1, reason="why"))

        assert (samples[-1].outcome, samples[-1].reason) == (Outcome.FAILED, "why")


class TestLayer:
    """Follow-ups that the assignment requires of the instance."""

    def test_it_overrides_the_consumers(self, tracker: Tracker) -> None:
        run(tracker, synced(10.0, T1, layer=demand(12, 10.1)), raised(9, 11.0, T2))

        assert gauge(tracker, 11.0) == 12

    @pytest.mark.parametrize("code", [10, 12, 13])
    def test_demand_rises_without_passing_zero(self, tracker: Tracker, code: int) -> None:
        samples = streams(tracker, raised(1, 10.0, T1), synced(11.0, T1, layer=demand(code, 11.1)))

        assert [each.to for each in samples] == [1, code]

    def test_consumer_goes_to_zero_and_then_to_six(self, tracker: Tracker) -> None:
        samples = run(
            tracker,
            raised(1, 10.0, T1),
            synced(11.0, T1, layer=demand(12, 11.1)),
            raised(6, 11.2, T1),
            joined(11.3, T1),
            synced(12.0, T1),
        )

        assert codes(samples) == [1, 0, 6, 0]
        assert codes(samples, Scope.STREAMS) == [1, 12, 0]

    def test_demand_speaks_with_its_own_time_and_words(self, tracker: Tracker) -> None:
        (sample,) = streams(tracker, synced(11.0, T1, layer=demand(13, 11.1, reason="why")))

        assert (sample.reason, sample.ts) == ("why", "1970-01-01T00:00:11.100000Z")

    def test_it_holds_as_long_as_syncs_demand(self, tracker: Tracker) -> None:
        samples = streams(
            tracker,
            synced(11.0, T1, layer=demand(12, 11.1)),
            synced(12.0, T1, layer=demand(12, 12.1)),
            synced(13.0, T1, layer=demand(13, 13.1)),
            synced(14.0, T1, layer=demand(10, 14.1)),
            synced(15.0, T1),
        )

        assert [each.to for each in samples if each.kind is SampleKind.TRANSITION] == [12, 13, 0]

    def test_masked_demand_is_recorded_and_counted(self, tracker: Tracker) -> None:
        samples = streams(
            tracker,
            synced(11.0, T1, layer=demand(13, 11.1)),
            synced(12.0, T1, layer=demand(12, 12.1, reason="masked")),
        )

        (masked,) = of_kind(samples, SampleKind.SIGNAL)
        assert (masked.from_, masked.to, masked.reason) == (13, 12, "masked")
        assert masked.ts == "1970-01-01T00:00:12.100000Z"
        assert tracker.snapshot(13.0).counts == {"suppressed": 1}

    def test_demand_that_another_threads_layer_masks_is_recorded(self, tracker: Tracker) -> None:
        samples = streams(
            tracker,
            synced(11.0, T1, layer=demand(13, 11.1)),
            synced(12.0, T2, layer=demand(12, 12.1)),
        )

        assert [each.kind for each in samples] == [SampleKind.TRANSITION, SampleKind.SIGNAL]

    def test_own_revocation_holds_the_consumer_and_its_layer(self, tracker: Tracker) -> None:
        samples = run(
            tracker,
            synced(11.0, T1, layer=demand(12, 11.1)),
            synced(12.0, T1, own=demand(10, 12.1)),
            synced(13.0, T1),
        )

        assert codes(samples) == [10, 0]
        assert codes(samples, Scope.STREAMS) == [12, 0]

    def test_revocation_of_consumer_and_layer_at_once(self, tracker: Tracker) -> None:
        sync = synced(11.0, T1, own=demand(10, 11.1, reason="own"), layer=demand(10, 11.2))

        samples = run(tracker, raised(1, 10.0, T1), sync)

        assert codes(samples) == [1, 10]
        assert codes(samples, Scope.STREAMS) == [1, 10]

    def test_own_revocation_moves_the_instance_with_its_words(self, tracker: Tracker) -> None:
        (sample,) = streams(tracker, synced(11.0, T1, own=demand(10, 11.1, reason="own")))

        assert (sample.to, sample.reason) == (10, "own")
        assert (sample.ts, sample.outcome) == ("1970-01-01T00:00:11.100000Z", None)

    def test_raise_of_the_layer_alone_leaves_the_consumer(self, tracker: Tracker) -> None:
        samples = run(tracker, raised(0, 10.0, T1, layer=demand(12, 10.1, reason="why")))

        assert codes(samples) == []
        assert codes(samples, Scope.STREAMS) == [12]
        assert samples[0].reason == "why"

    def test_layer_of_a_plain_consumer_shows_nowhere(self, tracker: Tracker) -> None:
        assert run(tracker, synced(10.0, layer=demand(12, 10.1))) == []
        assert tracker.advance(1e9) == []

    def test_one_threads_sync_clears_its_own_layer_only(self, tracker: Tracker) -> None:
        run(tracker, synced(10.0, T1, layer=demand(12, 10.1)), synced(11.0, T2))

        assert gauge(tracker, 11.0) == 12

    @pytest.mark.parametrize("end", [left, failed])
    def test_thread_that_has_gone_demands_nothing(
        self, tracker: Tracker, end: Callable[[float, Member], Signal]
    ) -> None:
        run(tracker, synced(10.0, T1, layer=demand(12, 10.1)), seen(10.0, T2))

        samples = streams(tracker, end(11.0, T1))

        assert [each.to for each in samples][-1] == 0


class TestProbing:
    """11 is raised after the zero and holds through the probing rebalance's sync."""

    def test_it_is_raised_after_the_zero(self, tracker: Tracker) -> None:
        samples = run(
            tracker, raised(1, 10.0, T1), synced(11.0, T1, layer=demand(11, 11.1, due_at=71.0))
        )

        assert codes(samples) == [1, 0]
        assert codes(samples, Scope.STREAMS) == [1, 0, 11]

    def test_zero_before_it_has_the_time_of_the_sync(self, tracker: Tracker) -> None:
        run(tracker, raised(1, 10.0, T1))

        zero, rise = streams(tracker, synced(11.0, T1, layer=demand(11, 11.1, due_at=71.0)))

        assert (zero.ts, zero.outcome) == ("1970-01-01T00:00:11.000000Z", Outcome.SYNCED)
        assert (rise.ts, rise.outcome) == ("1970-01-01T00:00:11.100000Z", None)

    def test_zero_comes_first_after_another_demand_too(self, tracker: Tracker) -> None:
        samples = streams(
            tracker,
            synced(10.0, T1, layer=demand(12, 10.1)),
            synced(11.0, T1, layer=demand(11, 11.1, due_at=71.0)),
        )

        assert [each.to for each in samples] == [12, 0, 11]

    def test_it_holds_through_the_probing_rebalance(self, tracker: Tracker) -> None:
        run(tracker, synced(11.0, T1, layer=demand(11, 11.1, due_at=71.0)))

        samples = run(tracker, raised(6, 71.0, T1, layer=demand(11, 71.0)), joined(71.1, T1))

        assert codes(samples) == [6]
        assert codes(samples, Scope.STREAMS) == []

    def test_sync_of_the_probing_rebalance_ends_it(self, tracker: Tracker) -> None:
        run(tracker, synced(11.0, T1, layer=demand(11, 11.1, due_at=71.0)), raised(6, 71.0, T1))

        assert [each.to for each in streams(tracker, synced(72.0, T1))] == [0]

    def test_next_probe_passes_zero(self, tracker: Tracker) -> None:
        run(tracker, synced(11.0, T1, layer=demand(11, 11.1, due_at=71.0)))

        samples = streams(tracker, synced(72.0, T1, layer=demand(11, 72.1, due_at=132.0)))

        assert [each.to for each in samples] == [0, 11]

    def test_ten_of_the_probing_rebalance_is_masked(self, tracker: Tracker) -> None:
        samples = streams(
            tracker,
            synced(11.0, T1, layer=demand(11, 11.1, due_at=71.0)),
            synced(72.0, T1, own=demand(10, 72.1)),
            synced(72.5, T1, layer=demand(10, 72.6)),
            synced(73.0, T1),
        )

        assert [each.to for each in samples if each.kind is SampleKind.TRANSITION] == [11, 0]

    def test_own_revocation_and_a_probe_from_one_sync(self, tracker: Tracker) -> None:
        sync = synced(
            11.0, T1, own=demand(10, 11.1, reason="own"), layer=demand(11, 11.2, due_at=71.0)
        )

        samples = run(tracker, raised(1, 10.0, T1), sync)

        assert codes(samples) == [1, 10]
        assert codes(samples, Scope.STREAMS) == [1, 10, 11]

    def test_it_is_valid_until_its_time_plus_stale_after(self, tracker: Tracker) -> None:
        run(tracker, synced(11.0, T1, layer=demand(11, 11.1, due_at=5000.0)))

        assert tracker.advance(4999.9 + STALE_S) == []
        (sample,) = tracker.advance(5000.0 + STALE_S)

        assert (sample.kind, sample.from_, sample.scope) == (SampleKind.LOST, 11, Scope.STREAMS)
        assert (sample.ts, sample.reason) == ("1970-01-01T01:33:20.000000Z", "not confirmed")
        assert tracker.snapshot(1e4).counts == {"lost": 1}

    def test_later_schedule_counts(self, tracker: Tracker) -> None:
        run(tracker, synced(11.0, T1, layer=demand(11, 11.1, due_at=71.0)))
        run(tracker, raised(0, 12.0, T1, layer=demand(11, 12.0, due_at=900.0)))

        assert tracker.advance(899.9 + STALE_S) == []
        assert codes(tracker.advance(900.0 + STALE_S), Scope.STREAMS) == [None]

    def test_repeated_without_a_schedule_it_keeps_the_one_it_had(self, tracker: Tracker) -> None:
        run(tracker, synced(11.0, T1, layer=demand(11, 11.1, due_at=900.0)))
        run(tracker, raised(0, 12.0, T1, layer=demand(11, 12.0)))

        assert tracker.advance(899.9 + STALE_S) == []

    def test_without_a_schedule_it_is_stale_like_any_other(self, tracker: Tracker) -> None:
        run(tracker, synced(11.0, T1, layer=demand(11, 11.0)))

        assert codes(tracker.advance(11.0 + STALE_S), Scope.STREAMS) == [None]

    def test_schedule_ends_with_what_it_was_for(self, tracker: Tracker) -> None:
        run(
            tracker,
            synced(11.0, T1, layer=demand(11, 11.1, due_at=5000.0)),
            synced(12.0, T1),
            raised(0, 13.0, T1, layer=demand(11, 13.0)),
        )

        assert codes(tracker.advance(13.0 + STALE_S), Scope.STREAMS) == [None]


class TestLost:
    """Statuses that nothing confirms."""

    def test_instance_is_lost_with_the_thread_that_held_it(self, tracker: Tracker) -> None:
        tracker.apply(raised(1, 10.0, T1))

        samples = tracker.advance(1e4)

        assert [(each.scope, each.to) for each in samples] == [
            (Scope.CONSUMER, None),
            (Scope.STREAMS, None),
        ]
        assert tracker.snapshot(1e4).counts == {"lost": 2}
        assert instance(tracker, 1e4) is None

    def test_it_stays_while_another_thread_holds_it(self, tracker: Tracker) -> None:
        run(tracker, raised(6, 10.0, T1), raised(5, 11.0, T2))

        assert codes(tracker.advance(1e4), Scope.STREAMS) == []
        assert gauge(tracker, 1e4) == 6

    def test_any_signal_of_a_thread_brings_it_back(self, tracker: Tracker) -> None:
        tracker.apply(raised(1, 10.0, T1))
        tracker.advance(1e4)

        tracker.apply(seen(2e4, T1))

        row = instance(tracker, 2e4)
        assert row is not None
        assert (row.status, row.since_at) == (0, 2e4)

    @pytest.mark.parametrize("code", [10, 12, 13])
    def test_layer_is_confirmed_by_its_consumer(self, tracker: Tracker, code: int) -> None:
        run(tracker, synced(10.0, T1, layer=demand(code, 10.1)), raised(6, 500.0, T1))

        assert tracker.advance(499.0 + STALE_S) == []
        assert codes(tracker.advance(500.0 + STALE_S), Scope.STREAMS) == [None]

    def test_layer_that_was_lost_demands_nothing(self, tracker: Tracker) -> None:
        run(tracker, synced(10.0, T1, layer=demand(13, 10.1)))
        tracker.advance(1e4)

        assert [each.to for each in streams(tracker, raised(1, 2e4, T1))] == [1]

    def test_dropped_thread_outlives_its_stale_layer(self, tracker: Tracker) -> None:
        run(tracker, synced(10.0, T1, layer=demand(12, 10.1)), raised(5, 11.0, T1))

        assert tracker.advance(1e4) == []
        assert gauge(tracker, 1e4) == 12
        assert [each.to for each in streams(tracker, synced(2e4, T1))] == [0]

    def test_end_of_a_dropped_threads_source_loses_the_instance(self, tracker: Tracker) -> None:
        tracker.apply(raised(5, 10.0, T1))

        samples = tracker.detach("s.log", 11.0)

        assert codes(samples, Scope.STREAMS) == [None]
        assert {each.reason for each in samples} == {"its source has ended"}
        assert tracker.snapshot(11.0).instances == ()

    def test_instance_at_zero_has_nothing_to_lose(self, tracker: Tracker) -> None:
        run(tracker, synced(10.0, T1, layer=demand(12, 10.1)), left(11.0, T1))

        assert tracker.detach("s.log", 12.0) == []


class TestThreads:
    """An instance lives as long as its threads."""

    def test_thread_that_left_goes_and_the_instance_stays(self, tracker: Tracker) -> None:
        run(tracker, seen(10.0, T1), left(10.0, T2))

        tracker.advance(310.0)

        assert [row.client_id for row in tracker.snapshot(310.0).consumers] == [T1.client_id]
        assert gauge(tracker, 310.0) == 0

    def test_instance_goes_with_its_last_thread(self, tracker: Tracker) -> None:
        run(tracker, left(10.0, T1), left(20.0, T2))

        tracker.advance(310.0)
        assert gauge(tracker, 310.0) == 0
        tracker.advance(320.0)
        assert gauge(tracker, 320.0) is None

    def test_new_thread_after_that_is_a_new_instance(self, tracker: Tracker) -> None:
        tracker.apply(left(10.0, T1))
        tracker.advance(310.0)

        run(tracker, raised(1, 400.0, T1))

        row = instance(tracker, 401.0)
        assert row is not None
        assert row.counts.seconds == {0: 0.0, 1: 1.0}

    def test_six_of_a_leave_lingers_on_the_instance(self, tracker: Tracker) -> None:
        samples = streams(tracker, left(10.0, T1, reason="closed"))

        assert [(each.to, each.outcome, each.reason) for each in samples] == [
            (6, None, "closed"),
            (0, Outcome.LEFT, "closed"),
        ]
        assert [gauge(tracker, at) for at in (10.0, 69.9, 70.0)] == [6, 6, 0]

    def test_linger_ends_with_the_instances_next_episode(self, tracker: Tracker) -> None:
        run(tracker, left(10.0, T1), raised(1, 11.0, T2), synced(12.0, T2))

        assert gauge(tracker, 12.0) == 0

    def test_leave_that_ends_nothing_does_not_linger(self, tracker: Tracker) -> None:
        run(tracker, raised(1, 9.0, T2), left(10.0, T1), synced(11.0, T2))

        assert gauge(tracker, 11.0) == 0

    def test_linger_counts_from_the_recorded_time(self, tracker: Tracker) -> None:
        run(tracker, seen(50.0, T1), raised(1, 50.0, T2), synced(50.0, T2), left(10.0, T1))

        assert [gauge(tracker, at) for at in (109.9, 110.0)] == [6, 0]

    def test_row_of_the_instance_shows_who_it_is(self, tracker: Tracker) -> None:
        signal = raised(1, 10.0, replace(T1, member_id="m-1"))
        tracker.apply(msgspec.structs.replace(signal, generation=7))

        row = instance(tracker, 10.0)

        assert row is not None
        assert (row.cluster, row.app, row.group, row.client_id) == ("k", "g", "g", "s")
        assert (row.host, row.generation, row.member_id, row.instance) == ("h", 7, None, None)

    def test_sample_of_the_instance_names_no_member(self, tracker: Tracker) -> None:
        member = replace(T1, member_id="m-1", group_instance_id="i-1")

        signal = msgspec.structs.replace(raised(1, 10.0, member), generation=7)
        (sample,) = streams(tracker, signal)

        assert (sample.client_id, sample.member_id, sample.group_instance_id) == ("s", None, None)
        assert (sample.app, sample.generation, sample.source) == ("g", 7, "logs")

    def test_application_of_the_instance_is_the_groups(self) -> None:
        tracker = Tracker(CONFIG, app_of=lambda group: f"app of {group}")

        (sample,) = streams(tracker, raised(1, 10.0, T1))

        assert sample.app == "app of g"


class TestIdentity:
    """The consumers that are threads of an instance."""

    @pytest.mark.parametrize(
        "client_id",
        [
            "s-StreamThread-1-restore-consumer",
            "s-StreamThread-1-producer",
            "s-StateUpdater-1-restore-consumer",
            "s-StreamThread-x-consumer",
            f"s-StreamThread-{'9' * 5000}-consumer",
            "-StreamThread-1-consumer",
            "s-StreamThread-1-consumer-2",
            "s-admin",
            "c1",
        ],
    )
    def test_other_clients_are_no_threads(self, client_id: str) -> None:
        assert streams_thread(client_id) is None
        assert replace(C1, client_id=client_id).instance_key is None

    def test_client_id_names_instance_and_thread(self) -> None:
        assert streams_thread("a-StreamThread-b-StreamThread-12-consumer") == (
            "a-StreamThread-b",
            12,
        )

    def test_instance_of_a_dynamic_member_lives_on_its_stream(self) -> None:
        assert T1.instance_key == T2.instance_key == InstanceKey("k", "g", "s", "s.log")

    def test_equal_instances_of_two_streams_are_apart(self, tracker: Tracker) -> None:
        run(tracker, raised(1, 10.0, T1), seen(11.0, replace(T1, origin="another.log")))

        assert [row.status for row in tracker.snapshot(11.0).instances] == [1, 0]

    def test_threads_of_a_static_instance_share_its_instance_id(self) -> None:
        first = replace(T1, group_instance_id="i-1")
        second = replace(T2, group_instance_id="i-2", origin="another.log")

        assert first.instance_key == second.instance_key == InstanceKey("k", "g", "s", "i")

    def test_instance_id_is_cut_by_the_threads_own_number_only(self) -> None:
        assert replace(T1, group_instance_id="i-2").instance_key == ("k", "g", "s", "i-2")
        assert replace(T1, origin="s.log-1").instance_key == ("k", "g", "s", "s.log-1")

    def test_static_instance_is_the_same_on_any_stream(self, tracker: Tracker) -> None:
        first = replace(T1, group_instance_id="i-1")

        samples = streams(
            tracker, raised(1, 10.0, first), synced(11.0, replace(first, origin="another.log"))
        )

        assert [each.to for each in samples] == [1, 0]

    def test_static_consumer_is_no_thread(self) -> None:
        assert STATIC.instance_key is None
