"""The laws of the core (style.md 2.7). Laws of time and order run the whole tracker."""

from collections import defaultdict
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregation.live.live import live
from metrics.model.sample import Sample, SampleKind, Scope
from metrics.model.signals import Signal, SignalKind, SourceKind
from metrics.model.status import RebalanceStatus as Status
from metrics.model.transition import (
    NONE,
    PeakWindow,
    add_to_window,
    instance_target,
    peak,
    stale_at,
    transition,
)
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker
from metrics.tracking.verdicts import PENDING_S
from tests.metrics.given import codes, raised, run, seen, signal, signal_lists, synced

statuses = st.sampled_from(Status)
causes = st.sampled_from([status for status in Status if status is not NONE])
consumer_statuses = st.sampled_from([status for status in Status if status <= 10])
layer_statuses = st.sampled_from([NONE, *(status for status in Status if status >= 10)])


class Visit(NamedTuple):
    """A status that was held for a while."""

    status: Status
    entered_at: float
    left_at: float


def _visits(moves: list[tuple[Status, float]]) -> list[Visit]:
    at, out = 0.0, []
    for status, held_s in moves:
        out.append(Visit(status, at, at + held_s))
        at += held_s
    return out


histories = st.lists(st.tuples(statuses, st.sampled_from([0.0, 0.5, 1.0, 7.0])), max_size=40).map(
    _visits
)


def _steps(visits: list[Visit]) -> PeakWindow:
    steps: PeakWindow = ()
    for visit in visits:
        steps = add_to_window(steps, visit.status, visit.left_at)
    return steps


def _by_track(samples: list[Sample]) -> dict[tuple[object, ...], list[Sample]]:
    out = defaultdict[tuple[object, ...], list[Sample]](list)
    for each in samples:
        out[each.scope, each.client_id, each.group_instance_id].append(each)
    return out


class TestLaw1OnlyUpwardOrToNone:
    @given(statuses, statuses)
    def test_transition(self, current: Status, wanted: Status) -> None:
        after = transition(current, wanted)

        assert after is NONE or after >= current
        assert after in {NONE, current, wanted}

    @given(signal_lists)
    def test_every_track_in_an_unbroken_chain(self, signals: list[Signal]) -> None:
        for samples in _by_track(run(Tracker(StatusConfig()), *signals)).values():
            status = 0
            for each in samples:
                if each.kind is SampleKind.TRANSITION:
                    assert each.to is not None
                    assert each.from_ == status
                    assert each.to == 0 != status or each.to > status
                    assert each.status == Status(each.to).label
                if each.kind is SampleKind.LOST:
                    assert each.from_ == status != 0
                if each.kind in {SampleKind.TRANSITION, SampleKind.LOST}:
                    status = each.to or 0

    @given(signal_lists)
    def test_consumers_stay_below_the_streams_codes(self, signals: list[Signal]) -> None:
        samples = run(Tracker(StatusConfig()), *signals)

        assert all((each.to or 0) <= 10 for each in samples if each.scope is Scope.CONSUMER)


class TestLaw2RaisingIsAJoin:
    @given(statuses, causes)
    def test_idempotent(self, current: Status, cause: Status) -> None:
        once = transition(current, cause)

        assert transition(once, cause) is once

    @given(statuses, causes, causes)
    def test_commutative(self, current: Status, one: Status, two: Status) -> None:
        assert transition(transition(current, one), two) is transition(
            transition(current, two), one
        )

    @given(causes, causes, causes)
    def test_associative(self, one: Status, two: Status, three: Status) -> None:
        assert transition(transition(one, two), three) is transition(one, transition(two, three))

    @given(st.lists(causes, min_size=1))
    def test_any_order_ends_at_the_max(self, signals: list[Status]) -> None:
        status = NONE
        for each in signals:
            status = transition(status, each)

        assert status is max(signals)


class TestLaw3TimelyNoneSettles:
    @given(statuses)
    def test_transition(self, current: Status) -> None:
        assert transition(current, NONE) is NONE

    @given(signal_lists)
    def test_sync_without_a_demand(self, signals: list[Signal]) -> None:
        tracker = Tracker(StatusConfig())
        run(tracker, *signals)

        run(tracker, *(synced(2e9, each.member) for each in signals))
        tracker.advance(2e9 + PENDING_S)  # one without a generation waits for the wire

        snapshot = tracker.snapshot(2e9 + PENDING_S)
        assert {row.status for row in snapshot.consumers + snapshot.instances} <= {NONE}


class TestLaw4Order:
    @given(causes.filter(lambda cause: cause <= 10), st.floats(-1e6, 1e6))
    def test_within_a_source_the_read_order_rules(self, cause: Status, step: float) -> None:
        stale_s = StatusConfig().stale_after_s
        samples = run(Tracker(StatusConfig()), raised(cause, 1e8), synced(1e8 + step))

        assert codes(samples) == [cause, 0 if step < stale_s or cause == 5 else None]

    @given(st.sampled_from([SignalKind.SYNC, SignalKind.LEAVE, SignalKind.FAIL]), st.booleans())
    def test_between_sources_older_undoes_no_status(self, kind: SignalKind, late: bool) -> None:
        tracker = Tracker(StatusConfig())
        tracker.apply(raised(2, 10.0))

        at = 9.999 if late else 10.0
        tracker.apply(signal(kind, at, source=SourceKind.WIRE, reason="closed"))

        (row,) = tracker.snapshot(11.0).consumers
        assert (row.counts.rebalances == {}) is late

    @given(causes.filter(lambda cause: cause <= 10), st.booleans())
    def test_between_sources_older_undoes_no_zero(self, cause: Status, late: bool) -> None:
        tracker = Tracker(StatusConfig())
        run(tracker, raised(2, 1.0), synced(10.0))

        tracker.apply(raised(cause, 9.999 if late else 10.0, source=SourceKind.WIRE))

        (row,) = tracker.snapshot(11.0).consumers
        assert row.status is (NONE if late else cause)

    @given(consumer_statuses.filter(bool), consumer_statuses.filter(bool))
    def test_in_which_order_two_sources_raise_is_all_one(self, one: Status, two: Status) -> None:
        log, wire = raised(one, 10.001), raised(two, 10.0, source=SourceKind.WIRE)
        trackers = [Tracker(StatusConfig()) for _ in range(2)]

        run(trackers[0], log, wire)
        run(trackers[1], wire, log)

        rows = [tracker.snapshot(11.0).consumers[0] for tracker in trackers]
        assert [row.status for row in rows] == [max(one, two)] * 2


class TestLaw5TimesNeverRunBack:
    @given(signal_lists, st.floats(0.001, 1000.0))
    def test_of_any_track(self, signals: list[Signal], interval_s: float) -> None:
        tracker, samples, now = Tracker(StatusConfig()), list[Sample](), 1e9
        for each in signals:
            samples += tracker.apply(each)
            now += interval_s
            samples += tracker.sample(now, interval_s)

        for chain in _by_track(samples).values():
            times = [each.ts for each in chain]
            assert times == sorted(times)


class TestLaw6Peak:
    @given(histories, statuses, st.floats(0, 40), st.floats(0, 10))
    def test_equals_a_brute_force_oracle(
        self, visits: list[Visit], current: Status, window_s: float, later_s: float
    ) -> None:
        entered_at = visits[-1].left_at if visits else 0.0
        now = entered_at + later_s

        held = [each.status for each in visits if each.left_at >= now - window_s]

        assert peak(current, _steps(visits), now, window_s) is max([current, *held])

    @given(histories, statuses, st.floats(0, 400), st.floats(0, 40))
    def test_is_never_below_the_status(
        self, visits: list[Visit], current: Status, now: float, window_s: float
    ) -> None:
        assert peak(current, _steps(visits), now, window_s) >= current

    @given(signal_lists)
    def test_scrape_changes_nothing(self, signals: list[Signal]) -> None:
        scraped, alone = Tracker(StatusConfig()), Tracker(StatusConfig())

        for each in signals:
            assert scraped.apply(each) == alone.apply(each)
            assert scraped.snapshot(each.at) == scraped.snapshot(each.at)

        assert scraped.snapshot(2e9) == alone.snapshot(2e9)


class TestLaw7PeakMemory:
    @given(histories)
    def test_is_a_staircase_of_13_steps_at_most(self, visits: list[Visit]) -> None:
        steps = _steps(visits)

        assert len(steps) <= 13
        assert [each.status for each in steps] == sorted(
            {each.status for each in steps}, reverse=True
        )
        assert [each.left_at for each in steps] == sorted(each.left_at for each in steps)

    def test_zero_takes_no_step(self) -> None:
        assert add_to_window((), NONE, 1.0) == ()

    def test_flapping_down_the_whole_scale_takes_all_13(self) -> None:
        falling = [(status, 1.0) for status in reversed(Status)]

        assert len(_steps(_visits(falling * 100))) == 13


class TestLaw8StreamsOverrideIsAMax:
    @given(st.lists(layer_statuses), st.lists(consumer_statuses))
    def test_since_consumer_codes_end_where_layer_codes_begin(
        self, layers: list[Status], consumers: list[Status]
    ) -> None:
        assert instance_target(layers, consumers) is max([*layers, *consumers], default=NONE)

    def test_layer_overrides_even_a_higher_consumer(self) -> None:
        assert instance_target([Status(10)], [Status(11)]) is Status(10)

    @given(signal_lists)
    def test_instance_is_at_zero_when_all_of_it_is(self, signals: list[Signal]) -> None:
        tracker = Tracker(StatusConfig())
        for each in signals:
            tracker.apply(each)
            state = tracker.state()
            threads = [entry for entry in state.consumers if entry.track.member.instance_key]
            held = [max(entry.track.status, entry.streams_follow_up.status) for entry in threads]
            for own in state.instances:
                assert (own.status is NONE) is (max(held) is NONE)

    @given(signal_lists)
    def test_instance_is_never_below_its_consumers(self, signals: list[Signal]) -> None:
        tracker = Tracker(StatusConfig())
        for each in signals:
            tracker.apply(each)
            snapshot = tracker.snapshot(2e9)  # nothing lingers
            threads = [row.status for row in snapshot.consumers if row.instance == "s"]
            for row in snapshot.instances:
                assert row.status >= max(threads, default=NONE)


class TestLaw9GroupsAreAPlainMax:
    @given(signal_lists)
    def test_of_what_is_exported(self, signals: list[Signal]) -> None:
        tracker = Tracker(StatusConfig())
        for each in signals:
            tracker.apply(each)
            snapshot = tracker.snapshot(each.at)
            rows, shown = snapshot.consumers + snapshot.instances, live(snapshot)

            (group,) = shown.groups
            assert group.status is max(row.status for row in rows)
            assert group.peak is max(row.peak for row in rows)
            assert [(app.status, app.peak) for app in shown.apps] == [(group.status, group.peak)]


class TestLaw10NoDataIsNoSeries:
    def test_nothing_seen_is_nothing_shown(self) -> None:
        tracker = Tracker(StatusConfig())

        assert tracker.advance(1e9) == tracker.sample(1e9, 15.0) == []
        shown = live(tracker.snapshot(1e9))
        assert shown.consumers + shown.instances == ()
        assert (shown.groups, shown.apps) == ((), ())

    @given(st.floats(0, 1e10))
    def test_quiet_client_with_a_live_source_stays_at_zero(self, silence_s: float) -> None:
        tracker = Tracker(StatusConfig())
        tracker.apply(seen(10.0))

        assert tracker.advance(10.0 + silence_s) == []
        assert [row.status for row in tracker.snapshot(10.0 + silence_s).consumers] == [NONE]


class TestStaleAt:
    @pytest.mark.parametrize("status", [Status.NONE, Status.DROPPED_GROUP])
    def test_zero_and_dropped_never_are(self, status: Status) -> None:
        assert stale_at(status, 10.0, 20.0, 600.0) is None

    @pytest.mark.parametrize(
        "status", [status for status in Status if status not in {0, 5, Status.ASSIGNMENT_PROBING}]
    )
    def test_others_are_when_nothing_confirms_them(self, status: Status) -> None:
        assert stale_at(status, 10.0, 99.0, 600.0) == 610.0

    def test_probing_is_valid_until_its_time(self) -> None:
        assert stale_at(Status.ASSIGNMENT_PROBING, 10.0, 99.0, 600.0) == 699.0

    def test_overdue_probing_counts_from_its_confirmation(self) -> None:
        assert stale_at(Status.ASSIGNMENT_PROBING, 10.0, 9.0, 600.0) == 610.0

    def test_probing_without_a_time_is_like_the_others(self) -> None:
        assert stale_at(Status.ASSIGNMENT_PROBING, 10.0, None, 600.0) == 610.0
