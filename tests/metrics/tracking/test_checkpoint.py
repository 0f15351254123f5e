"""Records do not depend on restarts, and ids do not depend on periodic samples."""

import dataclasses
from collections import Counter, defaultdict
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import ValidationError
from msgspec.structs import replace

from metrics.model.sample import Sample, SampleKind, Scope
from metrics.model.signals import Signal
from metrics.model.status import RebalanceStatus as Status
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker, TrackerState
from tests.metrics.given import C1, T1, T2, codes, demand, left, raised, run, signal_lists, synced

_MOVES = {SampleKind.TRANSITION, SampleKind.LOST}

CONFIG = StatusConfig(members=3, groups=1)


def restarted(tracker: Tracker) -> Tracker:
    """Return a tracker that goes on from the other's state, as JSON carried it."""
    line = msgspec.json.encode(tracker.state())
    return Tracker(CONFIG, state=msgspec.json.decode(line, type=TrackerState))


def play(tracker: Tracker, signals: list[Signal], *, detaches: bool = True) -> list[Sample]:
    """Apply the signals; time passes, samples fall due, and each tenth signal a stream ends."""
    out = list[Sample]()
    for number, each in enumerate(signals):
        out += tracker.apply(each)
        if number % 5 == 3:
            out += tracker.advance(each.at + 200.0)
            out += tracker.sample(1e9 + 15.0 * number, 15.0)
        if detaches and number % 10 == 9:
            out += tracker.detach(each.member.origin, each.at)
    return out


class TestRestart:
    @given(st.data(), signal_lists)
    def test_samples_are_those_of_an_uninterrupted_run(
        self, data: st.DataObject, signals: list[Signal]
    ) -> None:
        """The tail is played on its own, so that both runs let the same time pass."""
        cut = data.draw(st.integers(0, len(signals)))
        uninterrupted = Tracker(CONFIG)
        play(uninterrupted, signals[:cut])
        after_restart = restarted(uninterrupted)

        expected = play(uninterrupted, signals[cut:])

        assert play(after_restart, signals[cut:]) == expected
        assert after_restart.snapshot(2e9) == uninterrupted.snapshot(2e9)

    @given(signal_lists)
    def test_state_survives_json(self, signals: list[Signal]) -> None:
        tracker = Tracker(CONFIG)
        play(tracker, signals)

        assert restarted(tracker).state() == tracker.state()

    def test_events_of_one_instant_take_no_room(self) -> None:
        """A log without times has one for all its lines; each name that was kept took ten bytes."""
        few, many = Tracker(CONFIG), Tracker(CONFIG)
        run(few, *[raised(1, 10.0), synced(10.0)] * 20)
        samples = run(many, *[raised(1, 10.0), synced(10.0)] * 1000)

        assert len({each.id for each in samples}) == 2000
        few_bytes, many_bytes = (len(msgspec.json.encode(each.state())) for each in (few, many))
        assert many_bytes < few_bytes + 100

    def test_events_of_one_instant_in_an_older_releases_state(self) -> None:
        """It held each event's name as often as it was."""
        before, signals = Tracker(CONFIG), [raised(1, 10.0), synced(10.0)]
        run(before, *signals * 2)
        state = msgspec.to_builtins(before.state())
        (consumer,) = state["consumers"]
        counts = consumer["track"].pop("counted")
        consumer["track"]["named"] = list(Counter(counts).elements())

        after = Tracker(CONFIG, state=msgspec.convert(state, type=TrackerState))

        assert run(after, *signals) == run(before, *signals)

    def test_members_of_a_stream_end_in_the_same_order(self) -> None:
        """The member that was reported last is last in a checkpoint's state."""
        before, other = Tracker(CONFIG), replace(C1, client_id="c2")
        run(before, raised(5, 10.0), raised(5, 11.0, other), raised(5, 12.0))
        after = restarted(before)

        samples = before.detach(C1.origin, 20.0)

        assert [each.client_id for each in samples] == ["c1", "c2"]
        assert after.detach(C1.origin, 20.0) == samples

    def test_mid_episode_of_an_instance(self) -> None:
        before = Tracker(CONFIG)
        opening = run(
            before,
            raised(1, 10.0, T1),
            raised(6, 10.5, T2),
            synced(11.0, T1, layer=demand(11, 11.1, due_at=71.0)),
        )

        closing = run(restarted(before), synced(12.0, T2), synced(72.0, T1))

        chain = [each.to for each in opening + closing if each.scope is Scope.STREAMS]
        assert chain == [1, 6, 11, 0]
        assert len({each.episode for each in opening + closing if each.scope is Scope.STREAMS}) == 1

    def test_closed_member_is_forgotten_in_time(self) -> None:
        before = Tracker(CONFIG)
        before.apply(left(10.0))

        after = restarted(before)
        after.advance(310.0)

        assert after.snapshot(310.0).consumers == ()

    def test_empty_state_is_a_fresh_start(self) -> None:
        assert Tracker(CONFIG, state=TrackerState()).state() == Tracker(CONFIG).state()


class TestIds:
    @given(signal_lists)
    def test_are_unique_within_a_run(self, signals: list[Signal]) -> None:
        """Of a member that is forgotten, and back at the very same instant, they are not."""
        tracker = Tracker(StatusConfig(forget_after_s=1e9))
        seen = Counter(each.id for each in play(tracker, signals, detaches=False))

        assert {name for name, times in seen.items() if times > 1} == set()

    @given(signal_lists)
    def test_are_unique_though_members_are_forgotten(self, signals: list[Signal]) -> None:
        forward, last_at = list[Signal](), 0.0
        for each in signals:
            if each.at >= last_at + 0.01:  # behind what its follow-ups are dated
                forward.append(each)
                last_at = each.at
        seen = Counter(each.id for each in play(Tracker(CONFIG), forward))

        assert {name for name, times in seen.items() if times > 1} == set()

    @given(signal_lists)
    def test_are_the_same_when_read_again(self, signals: list[Signal]) -> None:
        first, again = play(Tracker(CONFIG), signals), play(Tracker(CONFIG), signals)

        assert [each.id for each in first] == [each.id for each in again]

    @given(signal_lists, st.floats(0.1, 100.0))
    def test_of_events_do_not_hang_on_periodic_samples(
        self, signals: list[Signal], interval_s: float
    ) -> None:
        """A second reading has other deadlines of samples, or none, but the same ids."""
        sampled, alone, now = Tracker(CONFIG), Tracker(CONFIG), 1e9
        for each in signals:
            now += interval_s
            sampled.sample(now, interval_s)

            assert [s.id for s in sampled.apply(each)] == [s.id for s in alone.apply(each)]

    def test_of_a_leave_is_its_own_time_not_that_of_a_periodic_sample(self) -> None:
        sampled, alone = Tracker(CONFIG), Tracker(CONFIG)
        for tracker in (sampled, alone):
            tracker.apply(raised(1, 10.0))
        sampled.sample(12.0, 1.0)
        for tracker in (sampled, alone):
            tracker.apply(left(10.0))

        back = raised(1, 41.0)  # no answer any more that was under way

        assert codes(sampled.apply(back)) == codes(alone.apply(back)) == [1]

    def test_of_samples_hang_on_their_deadline_and_status_alone(self) -> None:
        tracker, another = Tracker(CONFIG), Tracker(CONFIG)
        tracker.apply(raised(1, 10.0))
        run(another, raised(1, 10.0), raised(1, 11.0))

        (sample,), (same,), (next_one,) = (
            tracker.sample(15.0, 15.0),
            another.sample(15.0, 15.0),
            tracker.sample(30.0, 15.0),
        )

        assert sample.id == same.id != next_one.id

    def test_quiet_member_remembers_no_ids(self) -> None:
        tracker = Tracker(CONFIG)
        tracker.apply(raised(1, 10.0))
        before = msgspec.json.encode(tracker.state())

        for deadline in range(15, 1500, 15):
            tracker.sample(float(deadline), 15.0)

        assert len(msgspec.json.encode(tracker.state())) < len(before) + 10


class TestCounts:
    @given(signal_lists)
    def test_rows_count_what_the_samples_tell(self, signals: list[Signal]) -> None:
        tracker = Tracker(StatusConfig())
        samples = run(tracker, *signals)

        snapshot = tracker.snapshot(2e9)
        entered = Counter(each.to for each in samples if each.kind is SampleKind.TRANSITION)
        counted, ended = Counter[int](), 0
        for row in snapshot.consumers + snapshot.instances:
            counted.update(row.counts.transitions)
            ended += sum(row.counts.rebalances.values())
        hidden = snapshot.counts.get("lost", 0)
        assert all(counted[code] <= entered[code] for code in Status if code)
        assert ended <= entered[0]
        assert hidden == sum(each.kind is SampleKind.LOST for each in samples)

    @given(signal_lists)
    def test_episodes_open_once_and_end_once(self, signals: list[Signal]) -> None:
        episodes = defaultdict[str, list[Sample]](list)
        for each in run(Tracker(StatusConfig()), *signals):
            if each.episode is not None and each.kind in _MOVES:
                episodes[each.episode].append(each)

        for chain in episodes.values():
            assert chain[0].from_ == 0
            assert all(before.to == after.from_ != 0 for before, after in pairwise(chain))

    @given(signal_lists)
    def test_members_never_exceed_their_bound(self, signals: list[Signal]) -> None:
        tracker = Tracker(StatusConfig(members=2))
        for each in signals:
            tracker.apply(each)

            assert len(tracker.state().consumers) <= 2
            assert len(tracker.state().instances) <= 2

    def test_evicted_member_that_returns_starts_anew(self) -> None:
        tracker = Tracker(StatusConfig(members=1))

        samples = run(tracker, raised(1, 10.0), raised(2, 11.0, T1), raised(3, 12.0, C1))

        assert [(each.from_, each.to) for each in samples if each.client_id == "c1"] == [
            (0, 1),
            (1, None),
            (0, 3),
        ]


class TestDamage:
    def test_thread_whose_instance_is_lost_has_a_new_one(self) -> None:
        """It went with the unusable position of its source."""
        tracker = Tracker(CONFIG)
        run(tracker, raised(1, 1.0, T1), synced(2.0, T1))
        state = dataclasses.replace(tracker.state(), instances=[])

        after = Tracker(CONFIG, state=state)

        (instance,) = after.snapshot(3.0).instances
        assert (instance.client_id, instance.status) == ("s", Status.NONE)
        assert codes(run(after, raised(1, 4.0, T1)), Scope.STREAMS) == [1]

    def test_key_of_an_instance_has_all_its_parts(self) -> None:
        tracker = Tracker(CONFIG)
        run(tracker, raised(1, 1.0, T1))
        state = tracker.state()
        state.instances[0].key = state.instances[0].key[:3]

        with pytest.raises(ValidationError, match="is no key of a Streams instance"):
            msgspec.json.decode(msgspec.json.encode(state), type=TrackerState)

    def test_key_of_a_threads_instance_has_all_its_parts(self) -> None:
        tracker = Tracker(CONFIG)
        run(tracker, raised(1, 1.0, T1))
        document = msgspec.json.decode(msgspec.json.encode(tracker.state()))
        document["consumers"][0]["instance"].pop()

        with pytest.raises(ValidationError, match="of length 4"):
            msgspec.json.decode(msgspec.json.encode(document), type=TrackerState)
