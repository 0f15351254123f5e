"""One law a test: semantics.md section 3, and member identity of section 5."""

import msgspec
import pytest
from msgspec.structs import replace

from metrics.model.sample import Outcome, SampleKind, Scope
from metrics.model.signals import Member, Signal, SignalKind, SourceKind
from metrics.model.snapshot import GroupKey
from metrics.model.status import RebalanceStatus as Status
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker
from tests.metrics.given import (
    C1,
    C2,
    STATIC,
    T1,
    codes,
    demand,
    failed,
    joined,
    left,
    of_kind,
    raised,
    run,
    seen,
    signal,
    synced,
)

CONFIG = StatusConfig()
STALE_S = CONFIG.stale_after_s
GROUP = GroupKey("k", "g", "g", "classic")


@pytest.fixture
def tracker() -> Tracker:
    return Tracker(CONFIG)


def gauge(tracker: Tracker, now: float, member: Member = C1) -> int | None:
    """Return the value of the consumer's gauge; None: there is no series."""
    rows = tracker.snapshot(now).consumers
    return next((row.status for row in rows if row.client_id == member.client_id), None)


def test_member_that_its_broker_removed_is_forgotten(tracker: Tracker) -> None:
    """It stayed at 0 as long as the broker's log was there."""
    broker = SourceKind.BROKER_LOG
    removed = [
        raised(3, 10.0, source=broker),
        signal(SignalKind.FAIL, 11.0, source=broker, reason="no member any more"),
    ]
    run(tracker, *removed)
    shown = []
    for now in (310.0, 311.0):
        tracker.advance(now)
        shown.append(gauge(tracker, now))
    run(tracker, *(replace(each, at=each.at + 400.0) for each in removed))
    run(tracker, raised(2, 420.0, source=broker), synced(421.0, source=broker))
    tracker.advance(1_000.0)

    assert (shown, gauge(tracker, 1_000.0)) == ([0, None], 0)


class TestEnd:
    """Signals that return a status to zero."""

    def test_sync_ends_the_episode(self, tracker: Tracker) -> None:
        samples = run(tracker, raised(1, 10.0), synced(12.0))

        assert codes(samples) == [1, 0]
        assert samples[-1].outcome is Outcome.SYNCED

    def test_demanded_revocation_raises_without_passing_zero(self, tracker: Tracker) -> None:
        samples = run(tracker, raised(1, 10.0), synced(12.0, own=demand(10, 12.1)), synced(13.0))

        assert codes(samples) == [1, 10, 0]

    def test_rounds_of_a_held_zero_are_one_episode(self, tracker: Tracker) -> None:
        samples = run(tracker, raised(1, 10.0), synced(12.0, own=demand(10, 12.1)), synced(13.0))

        assert len({each.episode for each in samples}) == 1

    def test_follow_up_speaks_with_its_own_time_and_words(self, tracker: Tracker) -> None:
        follow_up = demand(10, 12.1, reason="need to revoke")

        (rise,) = run(tracker, raised(1, 10.0), synced(12.0, own=follow_up))[1:]

        assert (rise.ts, rise.reason) == ("1970-01-01T00:00:12.100000Z", "need to revoke")

    def test_next_rounds_are_held_as_long_as_they_demand(self, tracker: Tracker) -> None:
        samples = run(
            tracker,
            raised(1, 10.0),
            synced(12.0, own=demand(10, 12.1)),
            synced(13.0, own=demand(10, 13.1)),
            synced(14.0),
        )

        assert codes(samples) == [1, 10, 0]

    def test_lower_codes_within_an_episode_are_masked(self, tracker: Tracker) -> None:
        samples = run(tracker, raised(1, 10.0), synced(12.0, own=demand(10, 12.1)), raised(1, 12.5))

        assert codes(samples) == [1, 10]

    def test_join_is_no_end(self, tracker: Tracker) -> None:
        assert codes(run(tracker, raised(1, 10.0), joined(11.0))) == [1]

    def test_each_episode_has_its_own_name(self, tracker: Tracker) -> None:
        samples = run(tracker, raised(1, 10.0), synced(11.0), raised(1, 11.0), synced(12.0))

        names = [each.episode for each in samples]
        assert names[0] == names[1]
        assert names[2] == names[3]
        assert names[0] != names[2]

    def test_episodes_of_one_instant_have_different_names(self, tracker: Tracker) -> None:
        samples = run(tracker, left(10.0), left(10.0))

        names = [each.episode for each in samples]
        assert names[0] == names[1] != names[2] == names[3]

    def test_sync_at_zero_moves_nothing(self, tracker: Tracker) -> None:
        assert run(tracker, synced(10.0)) == []


class TestMask:
    """Causes that a higher status hides are kept for root causes."""

    @pytest.mark.parametrize("code", [3, 5])
    def test_lower_or_equal_signal_is_recorded(self, tracker: Tracker, code: int) -> None:
        tracker.apply(raised(5, 10.0))

        (sample,) = tracker.apply(raised(code, 11.0, reason="its words"))

        assert sample.kind is SampleKind.SIGNAL
        assert (sample.from_, sample.to, sample.status) == (5, code, Status(code).label)
        assert sample.reason == "its words"

    def test_masked_signal_is_counted(self, tracker: Tracker) -> None:
        run(tracker, raised(5, 10.0), raised(3, 11.0), raised(5, 12.0), raised(6, 13.0))

        assert tracker.snapshot(14.0).counts["suppressed"] == 2

    def test_note_is_recorded_without_any_status(self, tracker: Tracker) -> None:
        note = signal(SignalKind.NOTE, 11.0, reason="removed by an admin")
        tracker.apply(raised(1, 10.0))

        (sample,) = tracker.apply(note)

        assert (sample.kind, sample.from_, sample.to) == (SampleKind.SIGNAL, 1, None)
        assert sample.reason == "removed by an admin"

    def test_note_of_a_code_keeps_it(self, tracker: Tracker) -> None:
        (sample,) = tracker.apply(signal(SignalKind.NOTE, 11.0, status=Status.USER_REQUESTED))

        assert (sample.from_, sample.to) == (0, 6)
        assert gauge(tracker, 11.0) == 0

    def test_refused_request_is_recorded_once_in_a_while_and_moves_nothing(
        self, tracker: Tracker
    ) -> None:
        tracker.apply(raised(1, 10.0))

        found = [
            each
            for at in (11.0, 11.5, 15.9, 16.0)
            for each in tracker.apply(signal(SignalKind.REFUSE, at, reason="not authorized"))
        ]

        shown = [(each.kind, each.from_, each.to, each.outcome) for each in found]
        assert shown == [(SampleKind.SIGNAL, 1, None, Outcome.FAILED)] * 2
        assert gauge(tracker, 16.0) == 1

    def test_note_is_no_suppressed_signal(self, tracker: Tracker) -> None:
        tracker.apply(signal(SignalKind.NOTE, 11.0))

        assert "suppressed" not in tracker.snapshot(12.0).counts


class TestLeave:
    """Leaving by the user: close, unsubscribe."""

    def test_episode_ends_with_the_leave_at_its_time(self, tracker: Tracker) -> None:
        samples = tracker.apply(left(10.0, reason="the consumer is being closed"))

        assert codes(samples) == [6, 0]
        assert {each.ts for each in samples} == {"1970-01-01T00:00:10.000000Z"}
        assert {each.reason for each in samples} == {"the consumer is being closed"}
        assert samples[-1].outcome is Outcome.LEFT

    def test_later_join_is_an_episode_of_its_own(self, tracker: Tracker) -> None:
        samples = run(tracker, left(10.0), raised(2, 11.0), synced(12.0))

        assert codes(samples) == [6, 0, 2, 0]
        assert samples[0].episode != samples[2].episode

    def test_leave_during_a_higher_status_ends_it(self, tracker: Tracker) -> None:
        samples = run(tracker, raised(9, 9.0), left(10.0))

        assert codes(samples) == [9, 0]
        assert samples[-1].outcome is Outcome.LEFT

    def test_six_lingers_in_the_gauge(self, tracker: Tracker) -> None:
        tracker.apply(left(10.0))

        assert [gauge(tracker, at) for at in (10.0, 69.9, 70.0)] == [6, 6, 0]

    def test_linger_is_configurable(self) -> None:
        tracker = Tracker(StatusConfig(linger_s=5.0))

        tracker.apply(left(10.0))

        assert [gauge(tracker, at) for at in (14.9, 15.0)] == [6, 0]

    def test_linger_ends_with_the_next_episode(self, tracker: Tracker) -> None:
        run(tracker, left(10.0), raised(2, 11.0), synced(12.0))

        assert gauge(tracker, 13.0) == 0

    def test_next_episode_shows_its_own_code(self, tracker: Tracker) -> None:
        run(tracker, left(10.0), raised(2, 11.0))

        assert gauge(tracker, 12.0) == 2

    def test_seconds_do_not_know_of_the_linger(self, tracker: Tracker) -> None:
        tracker.apply(left(10.0))

        (row,) = tracker.snapshot(40.0).consumers

        assert row.counts.seconds == {Status.NONE: 30.0, Status.USER_REQUESTED: 0.0}

    def test_samples_do_not_know_of_the_linger(self, tracker: Tracker) -> None:
        tracker.apply(left(10.0))

        (sample,) = tracker.sample(30.0, 15.0)

        assert (sample.to, sample.peak) == (0, 0)

    def test_durations_do_not_know_of_the_linger(self, tracker: Tracker) -> None:
        run(tracker, raised(1, 8.0), left(10.0), seen(60.0))

        assert tracker.snapshot(61.0).durations[GROUP].sum_s == 2.0

    def test_closed_member_is_forgotten_after_its_time(self, tracker: Tracker) -> None:
        tracker.apply(left(10.0))

        tracker.advance(309.9)
        assert gauge(tracker, 310.0) == 0
        tracker.advance(310.0)
        assert gauge(tracker, 310.0) is None

    def test_member_that_came_back_is_not_forgotten(self, tracker: Tracker) -> None:
        run(tracker, left(10.0), joined(11.0))

        tracker.advance(1e6)

        assert gauge(tracker, 1e6) == 0

    @pytest.mark.parametrize("kind", [SignalKind.SEEN, SignalKind.NOTE])
    def test_bystander_does_not_bring_it_back(self, tracker: Tracker, kind: SignalKind) -> None:
        run(tracker, left(10.0), signal(kind, 20.0))

        tracker.advance(310.0)

        assert gauge(tracker, 310.0) is None

    def test_group_stays_when_its_members_are_forgotten(self, tracker: Tracker) -> None:
        tracker.apply(left(10.0))

        tracker.advance(1e6)

        assert tracker.snapshot(1e6).groups == (GROUP,)

    def test_leave_after_the_end_of_a_stream_still_lingers(self, tracker: Tracker) -> None:
        tracker.apply(left(10.0))

        tracker.detach("c1.log", 10.1)

        assert gauge(tracker, 11.0) == 6
        tracker.advance(310.0)
        assert gauge(tracker, 310.0) is None


class TestDropped:
    """DroppedGroup holds until the member is back."""

    def test_join_and_lower_codes_leave_it(self, tracker: Tracker) -> None:
        assert codes(run(tracker, raised(5, 10.0), joined(11.0), raised(2, 11.1))) == [5]

    def test_synced_generation_ends_it(self, tracker: Tracker) -> None:
        assert codes(run(tracker, raised(5, 10.0), joined(11.0), synced(12.0))) == [5, 0]

    def test_close_ends_it_with_a_six(self, tracker: Tracker) -> None:
        assert codes(run(tracker, raised(5, 10.0), left(99.0))) == [5, 6, 0]

    def test_it_is_never_stale(self, tracker: Tracker) -> None:
        tracker.apply(raised(5, 10.0))

        assert tracker.advance(1e6) == []
        assert gauge(tracker, 1e6) == 5

    def test_it_is_lost_where_the_log_shows_drops_alone(self, tracker: Tracker) -> None:
        drop = replace(raised(5, 10.0), is_muted=True)

        samples = [*tracker.apply(drop), *tracker.advance(1e4)]

        assert codes(samples) == [5, None]
        assert tracker.snapshot(1e4).counts["lost"] == 1

    def test_another_line_shows_that_its_log_has_more(self, tracker: Tracker) -> None:
        run(tracker, replace(raised(5, 10.0), is_muted=True), joined(11.0))

        assert tracker.advance(1e6) == []

    def test_end_of_its_source_loses_it(self, tracker: Tracker) -> None:
        tracker.apply(raised(5, 10.0))

        samples = tracker.detach("c1.log", 20.0)

        assert codes(samples) == [None]
        assert samples[0].ts == "1970-01-01T00:00:20.000000Z"
        assert samples[0].reason == "its source has ended"
        assert gauge(tracker, 20.0) is None

    def test_end_of_its_source_loses_every_member_of_it(self, tracker: Tracker) -> None:
        run(tracker, raised(5, 10.0), raised(5, 10.0, STATIC))

        assert codes(tracker.detach("c1.log", 20.0)) == [None, None]


class TestFailed:
    """Fatal join and sync errors."""

    def test_running_episode_ends_as_failed(self, tracker: Tracker) -> None:
        samples = run(tracker, raised(2, 10.0), failed(11.0, reason="GROUP_MAX_SIZE_REACHED"))

        assert codes(samples) == [2, 0]
        assert (samples[-1].outcome, samples[-1].reason) == (
            Outcome.FAILED,
            "GROUP_MAX_SIZE_REACHED",
        )

    def test_it_is_no_code(self, tracker: Tracker) -> None:
        assert run(tracker, failed(11.0)) == []

    def test_it_is_no_unexplained_join(self, tracker: Tracker) -> None:
        run(tracker, joined(10.0), failed(11.0), synced(12.0))

        assert "unexplained" not in tracker.snapshot(12.0).counts

    def test_it_does_not_linger(self, tracker: Tracker) -> None:
        run(tracker, raised(6, 10.0), failed(11.0))

        assert gauge(tracker, 11.0) == 0


class TestJoin:
    """A join without a visible cause."""

    def test_it_is_counted_and_recorded_without_a_code(self, tracker: Tracker) -> None:
        first, again, sample = run(tracker, joined(10.0), joined(10.5), synced(11.0))

        assert [first.field, again.field] == ["joined"] * 2
        assert (sample.kind, sample.from_, sample.to) == (SampleKind.SIGNAL, 0, None)
        assert sample.reason == "joined without a visible cause"
        assert tracker.snapshot(12.0).counts["unexplained"] == 1

    def test_what_its_assignment_shows_stands_behind(self, tracker: Tracker) -> None:
        sync = replace(synced(11.0), reason="Assignment{error=1")

        (_, sample) = run(tracker, joined(10.0), sync)

        assert sample.reason == "joined without a visible cause: Assignment{error=1"

    def test_it_is_counted_once(self, tracker: Tracker) -> None:
        run(tracker, joined(10.0), synced(11.0), synced(12.0))

        assert tracker.snapshot(12.0).counts["unexplained"] == 1

    def test_cause_before_the_join_explains_it(self, tracker: Tracker) -> None:
        samples = run(tracker, raised(1, 9.0), joined(10.0), synced(11.0))

        assert codes(samples) == [1, 0]
        assert "unexplained" not in tracker.snapshot(12.0).counts

    def test_cause_after_the_join_explains_it(self, tracker: Tracker) -> None:
        samples = run(tracker, joined(10.0), raised(2, 10.5), synced(11.0))

        assert codes(samples) == [2, 0]
        assert "unexplained" not in tracker.snapshot(12.0).counts

    def test_cause_that_was_lost_explained_it(self, tracker: Tracker) -> None:
        run(tracker, joined(10.0), raised(2, 10.5), synced(11.0 + STALE_S))

        assert "unexplained" not in tracker.snapshot(1e4).counts

    def test_it_is_counted_when_its_sync_demands_a_revocation(self, tracker: Tracker) -> None:
        samples = run(tracker, joined(10.0), synced(11.0, own=demand(10, 11.1)))

        assert [each.to for each in samples] == [None, None, 10]
        assert tracker.snapshot(12.0).counts["unexplained"] == 1

    def test_every_one_is_counted(self, tracker: Tracker) -> None:
        run(tracker, joined(10.0), synced(11.0), joined(12.0), synced(13.0))

        assert tracker.snapshot(13.0).counts["unexplained"] == 2

    def test_leave_settles_it(self, tracker: Tracker) -> None:
        run(tracker, joined(10.0), left(11.0), synced(12.0))

        assert "unexplained" not in tracker.snapshot(12.0).counts


class TestStale:
    """A silent source is neither a rebalance nor the end of one."""

    def test_zero_stays(self, tracker: Tracker) -> None:
        tracker.apply(seen(10.0))

        assert tracker.advance(1e9) == []
        assert gauge(tracker, 1e9) == 0

    def test_unconfirmed_status_is_lost_at_its_deadline(self, tracker: Tracker) -> None:
        tracker.apply(raised(1, 10.0))

        assert tracker.advance(9.9 + STALE_S) == []
        (sample,) = tracker.advance(100.0 + STALE_S)

        assert (sample.kind, sample.from_, sample.to) == (SampleKind.LOST, 1, None)
        assert (sample.status, sample.outcome) == (None, None)
        assert sample.ts == "1970-01-01T00:10:10.000000Z"
        assert sample.reason == "not confirmed"

    def test_deadline_itself_is_too_late(self, tracker: Tracker) -> None:
        tracker.apply(raised(1, 10.0))

        assert codes(tracker.advance(10.0 + STALE_S)) == [None]

    def test_further_join_confirms_the_status(self, tracker: Tracker) -> None:
        """One round follows another: the wire reports the cause of the first round alone."""
        member = replace(C1, max_poll_interval_s=8.0)
        run(tracker, raised(1, 10.0, member), replace(seen(24.0, member), joins=True))

        assert tracker.advance(39.0) == []
        assert [each.kind for each in tracker.advance(41.0)] == [SampleKind.LOST]

    def test_lost_belongs_to_its_episode(self, tracker: Tracker) -> None:
        samples = [*tracker.apply(raised(1, 10.0)), *tracker.advance(1e4)]

        assert samples[0].episode == samples[1].episode is not None

    def test_what_comes_after_it_does_not(self, tracker: Tracker) -> None:
        tracker.apply(raised(1, 10.0))
        tracker.advance(1e4)

        (note,) = tracker.apply(signal(SignalKind.NOTE, 2e4))

        assert note.episode is None

    def test_nothing_after_an_end_belongs_to_the_episode(self, tracker: Tracker) -> None:
        run(tracker, raised(1, 10.0), synced(11.0))

        (note,) = tracker.apply(signal(SignalKind.NOTE, 12.0))

        assert note.episode is None

    def test_lost_is_no_completed_rebalance(self, tracker: Tracker) -> None:
        run(tracker, raised(1, 10.0), seen(11.0 + STALE_S))

        (row,) = tracker.snapshot(1e4).consumers
        assert row.counts.rebalances == {}
        assert tracker.snapshot(1e4).durations[GROUP].sum_s == 0.0

    def test_lost_status_leaves_no_series(self, tracker: Tracker) -> None:
        tracker.apply(raised(1, 10.0))
        tracker.advance(1e4)

        assert tracker.snapshot(1e4).consumers == ()
        assert tracker.sample(1e4, 15.0) == []

    def test_group_of_lost_members_alone_is_unseen(self, tracker: Tracker) -> None:
        run(tracker, raised(2, 10.0))
        tracker.advance(2_000.0)
        assert tracker.snapshot(2_000.0).unseen == {(C1.cluster, C1.group)}

        run(tracker, raised(2, 2_001.0))
        assert tracker.snapshot(2_001.0).unseen == set()

    def test_lost_is_counted(self, tracker: Tracker) -> None:
        run(tracker, raised(1, 10.0), raised(1, 11.0, C2), seen(12.0, STATIC))

        assert codes(tracker.advance(1e4)) == [None, None]
        assert tracker.snapshot(1e4).counts["lost"] == 2

    def test_next_signal_brings_the_series_back(self, tracker: Tracker) -> None:
        tracker.apply(raised(1, 10.0))
        tracker.advance(1e4)

        samples = tracker.apply(raised(2, 2e4))

        assert (samples[0].from_, samples[0].to) == (0, 2)
        assert gauge(tracker, 2e4) == 2

    def test_time_that_nobody_saw_counts_for_no_status(self, tracker: Tracker) -> None:
        run(tracker, raised(1, 10.0), raised(2, 2000.0))

        (row,) = tracker.snapshot(2001.0).consumers

        assert row.counts.seconds == {
            Status.NONE: 0.0,
            Status.COORDINATOR_REQUESTED: STALE_S,
            Status.NEW_MEMBER: 1.0,
        }

    def test_signal_after_the_deadline_loses_before_it_speaks(self, tracker: Tracker) -> None:
        samples = run(tracker, raised(3, 10.0), raised(1, 11.0 + STALE_S))

        assert codes(samples) == [3, None, 1]

    @pytest.mark.parametrize("code", [1, 3])
    def test_any_signal_of_the_rebalance_confirms(self, tracker: Tracker, code: int) -> None:
        run(tracker, raised(3, 10.0), raised(code, 500.0))

        assert tracker.advance(499.0 + STALE_S) == []
        assert codes(tracker.advance(500.0 + STALE_S)) == [None]

    @pytest.mark.parametrize("kind", [SignalKind.SEEN, SignalKind.NOTE])
    def test_bystander_confirms_no_status(self, tracker: Tracker, kind: SignalKind) -> None:
        run(tracker, raised(3, 10.0), signal(kind, 500.0))

        assert codes(tracker.advance(10.0 + STALE_S)) == [None]

    def test_clock_that_steps_back_does_not_take_the_confirmation_away(
        self, tracker: Tracker
    ) -> None:
        run(tracker, raised(3, 500.0), raised(1, 10.0))

        assert tracker.advance(499.0 + STALE_S) == []

    def test_known_poll_interval_counts_twice(self, tracker: Tracker) -> None:
        tracker.apply(raised(1, 10.0, replace(C1, max_poll_interval_s=20.0)))

        assert tracker.advance(49.9) == []
        assert codes(tracker.advance(50.0)) == [None]

    def test_end_of_a_quiet_members_stream_ends_its_series(self, tracker: Tracker) -> None:
        run(tracker, seen(10.0), seen(10.0, C2))

        assert tracker.detach("c2.log", 11.0) == []
        assert (gauge(tracker, 11.0), gauge(tracker, 11.0, C2)) == (0, None)

    def test_rebalance_outlives_its_stream_until_it_is_stale(self, tracker: Tracker) -> None:
        tracker.apply(raised(1, 10.0))

        assert tracker.detach("c1.log", 11.0) == []
        assert gauge(tracker, 11.0) == 1
        assert codes(tracker.advance(10.0 + STALE_S)) == [None]
        assert tracker.state().consumers == []

    def test_member_that_speaks_again_is_attached_again(self, tracker: Tracker) -> None:
        tracker.apply(raised(1, 10.0))
        tracker.detach("c1.log", 11.0)

        tracker.apply(synced(12.0))
        tracker.advance(13.0)

        assert gauge(tracker, 13.0) == 0

    def test_instance_that_waits_for_a_probe_ends_with_its_source(self, tracker: Tracker) -> None:
        tracker.apply(synced(10.0, T1, layer=demand(11, 10.1, due_at=70.0)))
        tracker.detach("s.log", 11.0)

        tracker.advance(70.0 + STALE_S)

        assert tracker.snapshot(1e4).consumers == tracker.snapshot(1e4).instances == ()


class TestOrder:
    """Within one source the read order rules; between sources, time."""

    def test_within_a_source_the_read_order_rules(self, tracker: Tracker) -> None:
        assert codes(run(tracker, raised(1, 10.0), synced(9.0))) == [1, 0]

    def test_recorded_time_does_not_step_back_with_the_clock(self, tracker: Tracker) -> None:
        samples = run(tracker, raised(1, 10.0), synced(9.0))

        assert {each.ts for each in samples} == {"1970-01-01T00:00:10.000000Z"}

    def test_older_signal_of_another_source_moves_nothing(self, tracker: Tracker) -> None:
        samples = run(tracker, raised(1, 10.0), synced(9.9, source=SourceKind.WIRE))

        assert codes(samples) == [1]
        assert tracker.apply(synced(9.8, source=SourceKind.WIRE)) == []
        assert tracker.snapshot(11.0).counts["late"] == 2

    def test_signal_of_another_source_at_the_same_time_moves(self, tracker: Tracker) -> None:
        assert codes(run(tracker, raised(1, 10.0), synced(10.0, source=SourceKind.WIRE))) == [1, 0]

    def test_masked_signal_does_not_take_the_status_over(self, tracker: Tracker) -> None:
        samples = run(
            tracker,
            raised(5, 10.0),
            raised(1, 11.0, source=SourceKind.WIRE),
            synced(9.0, source=SourceKind.WIRE),
        )

        assert codes(samples) == [5]

    def test_two_streams_of_a_static_member_are_two_sources(self, tracker: Tracker) -> None:
        another = replace(STATIC, origin="another.log")

        samples = run(tracker, raised(1, 10.0, STATIC), synced(9.9, another))

        assert codes(samples) == [1]

    def test_source_reads_on_after_its_own_zero_in_read_order(self, tracker: Tracker) -> None:
        samples = run(
            tracker,
            raised(1, 9.0),
            synced(10.0),
            raised(1, 11.0, source=SourceKind.WIRE),
            raised(2, 9.5),
        )

        assert codes(samples) == [1, 0, 1, 2]

    def test_older_signal_does_not_undo_a_loss(self, tracker: Tracker) -> None:
        tracker.apply(raised(1, 10.0))
        tracker.advance(10.0 + STALE_S)

        assert run(tracker, raised(1, 9.0 + STALE_S, source=SourceKind.WIRE)) == []

    def test_signal_before_anything_has_moved_is_not_late(self, tracker: Tracker) -> None:
        samples = run(tracker, joined(10.0), raised(2, 9.999, source=SourceKind.WIRE))

        assert codes(samples) == [2]

    def test_source_that_moved_the_status_last_rules(self, tracker: Tracker) -> None:
        samples = run(
            tracker,
            raised(1, 10.0),
            raised(5, 11.0, source=SourceKind.WIRE),
            synced(9.0, source=SourceKind.WIRE),
        )

        assert codes(samples) == [1, 5, 0]

    def test_periodic_sample_makes_no_signal_late(self, tracker: Tracker) -> None:
        tracker.apply(seen(10.0))
        tracker.sample(30.0, 15.0)

        samples = run(tracker, raised(1, 29.8), synced(29.9, source=SourceKind.WIRE))

        assert codes(samples) == [1, 0]

    def test_late_signal_confirms_nothing(self, tracker: Tracker) -> None:
        run(tracker, raised(1, 10.0), synced(100.0), raised(2, 110.0, source=SourceKind.WIRE))

        assert run(tracker, synced(105.0)) == []
        assert codes(tracker.advance(110.0 + STALE_S)) == [None]

    def test_note_is_never_late(self, tracker: Tracker) -> None:
        note = signal(SignalKind.NOTE, 9.0, source=SourceKind.WIRE, reason="ops")

        samples = run(tracker, raised(3, 10.0), note)

        assert [each.reason for each in of_kind(samples, SampleKind.SIGNAL)] == ["ops"]
        assert "late" not in tracker.snapshot(11.0).counts


class TestPeriodicSamples:
    """The samples of `Tracker.sample`."""

    def test_it_tells_what_is_held_and_the_highest_since_the_last(self, tracker: Tracker) -> None:
        run(tracker, raised(9, 16.0), synced(20.0), raised(1, 29.0, reason="why"))

        (sample,) = tracker.sample(30.0, 15.0)

        assert (sample.kind, sample.to, sample.peak) == (SampleKind.SAMPLE, 1, 9)
        assert (sample.from_, sample.status) == (None, "CoordinatorRequested")
        assert (sample.ts, sample.reason) == ("1970-01-01T00:00:30.000000Z", "why")

    def test_what_ended_before_the_interval_is_no_peak(self, tracker: Tracker) -> None:
        run(tracker, raised(9, 10.0), synced(14.0))

        assert [each.peak for each in tracker.sample(30.0, 15.0)] == [0]

    def test_member_that_is_ahead_of_the_deadline_is_left_out(self, tracker: Tracker) -> None:
        run(tracker, seen(10.0), raised(1, 31.0), seen(30.0, C2))

        assert [each.client_id for each in tracker.sample(30.0, 15.0)] == ["c2"]

    def test_signal_read_after_the_sample_has_its_time(self, tracker: Tracker) -> None:
        tracker.apply(seen(10.0))
        tracker.sample(30.0, 15.0)

        (sample,) = tracker.apply(raised(1, 29.9))

        assert sample.ts == "1970-01-01T00:00:30.000000Z"

    def test_instances_have_samples_of_their_own(self, tracker: Tracker) -> None:
        tracker.apply(raised(1, 10.0, T1))

        samples = tracker.sample(15.0, 15.0)

        assert [(each.scope, each.client_id, each.to) for each in samples] == [
            (Scope.CONSUMER, T1.client_id, 1),
            (Scope.STREAMS, "s", 1),
        ]


class TestCounts:
    """The counts in a member's row."""

    def test_rebalances_count_by_their_highest_code(self, tracker: Tracker) -> None:
        run(tracker, raised(1, 10.0), raised(9, 11.0), synced(12.0), raised(2, 13.0), synced(14.0))
        run(tracker, raised(2, 15.0), synced(16.0))

        (row,) = tracker.snapshot(16.0).consumers

        assert row.counts.rebalances == {Status.RETRY_ON_ERROR: 1, Status.NEW_MEMBER: 2}

    def test_transitions_count_entries_into_each_code(self, tracker: Tracker) -> None:
        run(tracker, raised(1, 10.0), raised(9, 11.0), synced(12.0), raised(1, 13.0))

        (row,) = tracker.snapshot(16.0).consumers

        assert row.counts.transitions == {Status.COORDINATOR_REQUESTED: 2, Status.RETRY_ON_ERROR: 1}

    def test_seconds_count_what_is_held_now(self, tracker: Tracker) -> None:
        run(tracker, seen(1.0), raised(1, 10.0), raised(9, 12.0), synced(15.0), raised(1, 16.0))

        (row,) = tracker.snapshot(20.0).consumers

        assert row.counts.seconds == {
            Status.NONE: 10.0,
            Status.COORDINATOR_REQUESTED: 6.0,
            Status.RETRY_ON_ERROR: 3.0,
        }

    def test_clock_behind_the_events_takes_no_seconds_away(self, tracker: Tracker) -> None:
        tracker.apply(raised(1, 10.0))

        (row,) = tracker.snapshot(5.0).consumers

        assert row.counts.seconds[Status.COORDINATOR_REQUESTED] == 0.0

    def test_durations_of_a_groups_members(self, tracker: Tracker) -> None:
        run(tracker, raised(1, 10.0), raised(2, 11.0), synced(12.0), raised(6, 10.0, C2))
        run(tracker, synced(10.05, C2))

        durations = tracker.snapshot(20.0).durations[GROUP]

        assert durations.sum_s == pytest.approx(2.05)
        assert durations.buckets == (1, 0, 0, 0, 1, *([0] * 9))

    def test_snapshot_is_frozen(self, tracker: Tracker) -> None:
        run(tracker, raised(1, 10.0), synced(11.0))
        (row,) = (before := tracker.snapshot(12.0)).consumers
        counts = (dict(row.counts.rebalances), dict(row.counts.transitions))

        run(tracker, raised(1, 13.0), synced(14.0), raised(1, 15.0), raised(1, 16.0))

        assert (row.counts.rebalances, row.counts.transitions) == counts
        assert "suppressed" not in before.counts


class TestBounds:
    """Input beyond a bound is counted, never dropped silently."""

    def test_longest_silent_member_goes_first(self) -> None:
        tracker = Tracker(StatusConfig(members=2))

        run(tracker, seen(1.0), seen(2.0, C2), seen(3.0), seen(4.0, STATIC))

        assert [row.client_id for row in tracker.snapshot(5.0).consumers] == ["c1", "c3"]
        assert tracker.snapshot(5.0).counts["evicted"] == 1

    def test_evicted_status_is_recorded_as_lost(self) -> None:
        tracker = Tracker(StatusConfig(members=1))

        samples = run(tracker, raised(1, 10.0), raised(2, 11.0, C2))

        assert [(each.client_id, each.kind) for each in samples] == [
            ("c1", SampleKind.TRANSITION),
            ("c1", SampleKind.LOST),
            ("c2", SampleKind.TRANSITION),
        ]
        assert (samples[1].ts, samples[1].reason) == (
            "1970-01-01T00:00:11.000000Z",
            "evicted: too many members",
        )

    def test_where_memory_is_short_a_new_member_takes_the_place_of_the_longest_silent(self) -> None:
        tracker = Tracker(StatusConfig(members=3))
        run(tracker, seen(1.0), seen(2.0, C2))

        tracker.freeze_limits()
        run(tracker, seen(3.0, STATIC))
        assert [row.client_id for row in tracker.snapshot(4.0).consumers] == ["c2", "c3"]
        assert tracker.snapshot(4.0).counts["evicted"] == 1

        tracker.restore_limits()
        run(tracker, seen(5.0), seen(6.0, replace(C2, client_id="c4")))
        assert [row.client_id for row in tracker.snapshot(7.0).consumers] == ["c3", "c1", "c4"]

    def test_a_tracker_that_is_empty_when_memory_is_short_keeps_one(self) -> None:
        tracker = Tracker(StatusConfig())
        tracker.freeze_limits()

        run(tracker, seen(1.0), seen(2.0, C2))

        assert [row.client_id for row in tracker.snapshot(3.0).consumers] == ["c2"]

    def test_evicted_thread_takes_its_instance_with_it(self) -> None:
        tracker = Tracker(StatusConfig(members=1))
        tracker.apply(synced(10.0, T1, layer=demand(12, 10.0)))

        samples = tracker.apply(seen(11.0))

        assert codes(samples, Scope.STREAMS) == [None]
        assert samples[0].reason == "evicted: too many members"
        assert tracker.snapshot(12.0).instances == ()

    def test_smaller_bound_after_a_reload_holds(self) -> None:
        tracker = Tracker(CONFIG)
        run(tracker, raised(1, 1.0), raised(1, 2.0, C2), seen(3.0, STATIC), seen(4.0, T1))

        tracker = Tracker(StatusConfig(members=2), state=tracker.state())
        samples = tracker.apply(seen(5.0, T1))

        assert [each.client_id for each in samples] == ["c1", "c2"]
        snapshot = tracker.snapshot(5.0)
        assert [row.client_id for row in snapshot.consumers] == ["c3", T1.client_id]
        assert snapshot.counts["evicted"] == 2

    def test_groups_are_bounded(self) -> None:
        tracker = Tracker(StatusConfig(groups=1))

        run(tracker, seen(1.0), seen(2.0, replace(C2, group="other")))

        snapshot = tracker.snapshot(3.0)
        assert [key.group for key in snapshot.groups] == ["other"]
        assert snapshot.counts["groups_evicted"] == 1


class TestIdentity:
    """Identity of members."""

    def test_member_id_is_no_identity(self, tracker: Tracker) -> None:
        samples = run(
            tracker,
            raised(2, 10.0, replace(C1, member_id="c1-a")),
            synced(11.0, replace(C1, member_id="c1-b")),
        )

        assert codes(samples) == [2, 0]
        assert [each.member_id for each in samples] == ["c1-a", "c1-b"]

    def test_equal_client_ids_of_two_streams_are_tracked_apart(self, tracker: Tracker) -> None:
        run(tracker, raised(1, 10.0), synced(11.0, replace(C1, origin="another.log")))

        assert [row.status for row in tracker.snapshot(12.0).consumers] == [1, 0]

    def test_static_member_is_the_same_on_any_stream(self, tracker: Tracker) -> None:
        samples = run(
            tracker, raised(1, 10.0, STATIC), synced(11.0, replace(STATIC, origin="another.log"))
        )

        assert codes(samples) == [1, 0]
        assert {each.group_instance_id for each in samples} == {"i3"}

    def test_groups_and_clusters_are_apart(self, tracker: Tracker) -> None:
        run(tracker, raised(1, 1.0), seen(1.0, replace(C1, group="g2")))
        run(tracker, seen(1.0, replace(C1, cluster="k2")))

        assert [row.status for row in tracker.snapshot(1.0).consumers] == [1, 0, 0]

    def test_application_is_named_by_the_configuration(self) -> None:
        tracker = Tracker(CONFIG, app_of=lambda group: f"app of {group}")

        (sample,) = tracker.apply(raised(1, 10.0))

        assert sample.app == "app of g"
        assert tracker.snapshot(11.0).groups == (GROUP._replace(app="app of g"),)

    def test_application_is_the_group_by_default(self, tracker: Tracker) -> None:
        assert tracker.apply(raised(1, 10.0))[0].app == "g"

    def test_generation_is_kept_until_another_is_told(self, tracker: Tracker) -> None:
        samples = run(
            tracker,
            msgspec.structs.replace(raised(1, 10.0), generation=3),
            raised(2, 11.0),
            msgspec.structs.replace(synced(12.0), generation=4),
        )

        assert [each.generation for each in samples] == [3, 3, 4]

    def test_row_shows_who_it_is(self, tracker: Tracker) -> None:
        member = replace(
            STATIC,
            client_id=T1.client_id,
            member_id="m-1",
            assignor="stream",
            software="java 4.3.0",
            group_type="consumer",
            protocol_type="connect",
        )
        signal = raised(1, 10.0, member, reason="its words")
        tracker.apply(msgspec.structs.replace(signal, generation=7))

        row = tracker.snapshot(11.0).consumers[0]

        assert (row.cluster, row.app, row.group, row.group_type) == ("k", "g", "g", "consumer")
        assert (row.client_id, row.host, row.instance) == (T1.client_id, "h", "s")
        assert (row.member_id, row.group_instance_id, row.protocol_type) == ("m-1", "i3", "connect")
        assert (row.assignor, row.software, row.generation) == ("stream", "java 4.3.0", 7)
        assert (row.status, row.peak, row.since_at, row.reason) == (1, 1, 10.0, "its words")

    def test_sample_tells_who_it_is(self, tracker: Tracker) -> None:
        member = replace(STATIC, member_id="m-1", group_type="share", protocol_type="connect")

        (sample,) = tracker.apply(raised(1, 10.0, member))

        assert (sample.cluster, sample.group, sample.group_type) == ("k", "g", "share")
        assert (sample.protocol_type, sample.scope, sample.source) == (
            "connect",
            Scope.CONSUMER,
            "logs",
        )
        assert (sample.client_id, sample.host) == ("c3", "h")
        assert (sample.member_id, sample.group_instance_id) == ("m-1", "i3")


class TestPeak:
    """The peak gauge: statuses that a scrape would miss."""

    def test_it_remembers_for_the_window(self, tracker: Tracker) -> None:
        run(tracker, raised(9, 10.0), synced(11.0))

        peaks = [tracker.snapshot(at).consumers[0].peak for at in (11.0, 131.0, 131.1)]

        assert peaks == [9, 9, 0]

    def test_it_is_never_below_a_lingering_six(self) -> None:
        tracker = Tracker(StatusConfig(peak_window_s=1.0))

        tracker.apply(left(10.0))

        assert tracker.snapshot(60.0).consumers[0].peak == 6

    def test_scrape_changes_nothing(self, tracker: Tracker) -> None:
        run(tracker, raised(9, 10.0), synced(11.0))

        assert tracker.snapshot(12.0) == tracker.snapshot(12.0)


def test_tracker_without_signals_shows_nothing(tracker: Tracker) -> None:
    snapshot = tracker.snapshot(10.0)

    assert (snapshot.at, snapshot.consumers, snapshot.instances) == (10.0, (), ())
    assert (snapshot.groups, snapshot.durations, snapshot.counts) == ((), {}, {})


class TestGained:
    """The transition by a sync has the partitions that the episode's syncs gave the member."""

    def gave(self, at: float, gained: int | None, code: int | None = None) -> Signal:
        own = None if code is None else demand(code, at)
        return msgspec.structs.replace(signal(SignalKind.SYNC, at, own=own), gained=gained)

    def test_is_the_sum_over_the_rounds_of_an_episode(self, tracker: Tracker) -> None:
        *_, end = run(tracker, raised(1, 10.0), self.gave(11.0, 2, 10), self.gave(12.0, 3))

        assert end.gained == 5

    def test_of_syncs_that_do_not_tell_is_none(self, tracker: Tracker) -> None:
        got = run(tracker, raised(1, 10.0), self.gave(11.0, None))

        assert [each.gained for each in got] == [None, None]

    def test_belongs_to_one_episode(self, tracker: Tracker) -> None:
        run(tracker, raised(1, 10.0), self.gave(11.0, 2), self.gave(12.0, 4))

        *_, end = run(tracker, raised(1, 20.0), self.gave(21.0, 0))

        assert end.gained == 0

    def test_of_a_leave_is_none(self, tracker: Tracker) -> None:
        *_, end = run(tracker, raised(1, 10.0), self.gave(11.0, 2, 10), left(12.0))

        assert end.gained is None


class TestJoinedAt:
    """The transition that a sync ends tells when the member last asked to join."""

    def test_of_a_sync_is_the_last_join(self, tracker: Tracker) -> None:
        *_, end = run(tracker, raised(1, 10.0), joined(10.5), joined(11.0), synced(12.0))

        assert end.joined_ts == "1970-01-01T00:00:11.000000Z"

    def test_belongs_to_one_round(self, tracker: Tracker) -> None:
        run(tracker, raised(1, 10.0), joined(10.5), synced(12.0))

        got = run(tracker, raised(1, 20.0), synced(22.0))

        assert [each.joined_ts for each in got] == [None, None]

    def test_belongs_to_the_rebalance_of_a_member_at_0(self, tracker: Tracker) -> None:
        """A broker's log shows no join of a member that the leader asks to join."""
        run(tracker, joined(10.5), synced(12.0))

        assert [each.joined_ts for each in run(tracker, raised(1, 20.0), synced(22.0))] == [
            None,
            None,
        ]

    def test_of_a_leave_is_none(self, tracker: Tracker) -> None:
        (_, *leave) = run(tracker, joined(9.0), left(10.0))

        assert [each.joined_ts for each in leave] == [None, None]


def test_members_and_groups_of_no_known_cluster_take_the_only_one(tracker: Tracker) -> None:
    nameless = replace(C1, cluster="")
    tracker.apply(raised(2, 10.0, nameless))
    tracker.apply(signal(SignalKind.SYNC, 12.0, nameless, generation=3))
    tracker.apply(raised(2, 10.0, C2))
    tracker.apply(signal(SignalKind.SYNC, 11.0, C2, generation=3))

    assert tracker.name_cluster("k") == []

    shown = tracker.snapshot(13.0)
    names = {(row.client_id, row.cluster) for row in shown.consumers}
    assert (len(shown.consumers), names) == (2, {("c1", "k"), ("c2", "k")})
    assert [row.counts.rebalances for row in shown.consumers] == [{2: 1}, {2: 1}]
    (found,) = shown.durations.items()
    assert (found[0].cluster, sum(found[1].buckets), found[1].sum_s) == ("k", 2, 3.0)
    assert [key.cluster for key in shown.groups] == ["k"]
