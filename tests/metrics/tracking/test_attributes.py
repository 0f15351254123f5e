"""Changed attributes of a member: partitions, session timeout, joins."""

import msgspec
import pytest
from msgspec.structs import replace

from metrics.model.sample import FETCHERS_PAUSED, Sample, SampleKind
from metrics.model.signals import Signal, SignalKind, SourceKind
from metrics.tracking import tracker as tracker_module
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import AWAIT_S, Tracker
from tests.metrics.given import C1, left, of_kind, raised, run, seen, synced

LOG = replace(C1, member_id="c1-u")
ADDRESS = replace(LOG, origin="10.0.0.5:40000")


@pytest.fixture
def tracker() -> Tracker:
    return Tracker(StatusConfig())


def is_log(kind: SourceKind, _: str) -> bool:
    return kind is SourceKind.LOGS


def assigned(at: float, *names: str, source: SourceKind = SourceKind.LOGS) -> Signal:
    member = ADDRESS if source is SourceKind.WIRE else LOG
    return msgspec.structs.replace(synced(at, member, source=source), assigned=names)


def changes(samples: list[Sample]) -> list[tuple[str | None, str | None, str | None]]:
    return [(s.field, s.before, s.after) for s in of_kind(samples, SampleKind.CHANGE)]


def test_changed_partitions_are_recorded_once(tracker: Tracker) -> None:
    first, second = assigned(1.0, "t-0", "t-1", "none"), assigned(2.0, "t-1", "t-0")

    assert changes(run(tracker, first, second)) == [("partitions", None, "t:0-1")]


def test_a_leave_takes_the_partitions(tracker: Tracker) -> None:
    samples = run(tracker, assigned(1.0, "t-0"), left(2.0, LOG))

    assert changes(samples)[1:] == [("partitions", "t:0", "")]


@pytest.mark.parametrize(
    ("reason", "recorded"),
    [(FETCHERS_PAUSED, FETCHERS_PAUSED), ("Revoke previously assigned partitions t-0", None)],
)
def test_words_of_a_pause_are_recorded_and_no_others(
    tracker: Tracker, reason: str, recorded: str | None
) -> None:
    run(tracker, assigned(1.0, "t-0"))

    samples = run(tracker, replace(seen(2.0, LOG), assigned=(), reason=reason))

    assert [each.reason for each in of_kind(samples, SampleKind.CHANGE)] == [recorded]


def test_a_new_member_takes_equal_partitions_again(tracker: Tracker) -> None:
    """It was dropped, and comes back: the time between would count as unread to the end."""
    run(tracker, assigned(1.0, "t-0"))

    samples = run(tracker, raised(5, 2.0, LOG), raised(2, 4.0, LOG), assigned(5.0, "t-0"))

    assert changes(samples) == [("partitions", "t:0", ""), ("partitions", "", "t:0")]


@pytest.mark.parametrize(("at", "found"), [(130.0, [("partitions", "", "")]), (2.5, [])])
def test_a_revocation_long_after_the_leave_is_of_a_clock_that_is_ahead(
    tracker: Tracker, at: float, found: list[tuple[str, str, str]]
) -> None:
    """Its time is corrected later: it is the first of the two. A second one is no news."""
    run(tracker, assigned(1.0, "t-0"), left(2.0, ADDRESS, "it is closed"))

    assert changes(run(tracker, assigned(at))) == found
    assert changes(run(tracker, assigned(at + 20.0))) == []


def test_the_best_source_reports_the_partitions(tracker: Tracker) -> None:
    run(tracker, assigned(1.0, "t-0"))

    assert changes(run(tracker, assigned(1.1, "t-9", source=SourceKind.WIRE))) == []


def test_a_leave_that_another_source_reads_late_takes_no_new_partitions(tracker: Tracker) -> None:
    """The wire shows a restart before the log's leave is read."""
    gone, wire = left(2.0, ADDRESS), SourceKind.WIRE
    run(
        tracker,
        seen(0.5, LOG),
        assigned(1.0, "t-0", source=wire),
        replace(gone, source=wire, assigned=()),
        raised(2, 3.0, ADDRESS, source=wire),
        assigned(4.0, "t-0", source=wire),
    )

    assert changes(run(tracker, left(2.0, LOG))) == []


def test_a_join_within_a_rebalance_is_recorded(tracker: Tracker) -> None:
    joining = msgspec.structs.replace(seen(2.0, LOG), joins=True)

    assert changes(run(tracker, joining)) == []
    assert changes(run(tracker, raised(1, 1.0, LOG), joining)) == [("joined", None, None)]


def test_a_changed_session_timeout_is_recorded(tracker: Tracker) -> None:
    members = [replace(LOG, session_timeout_s=seconds) for seconds in (10.0, 10.0, 45.0)]

    samples = run(tracker, *(seen(float(at), member) for at, member in enumerate(members)))

    assert changes(samples) == [
        ("session.timeout.ms", None, "10000"),
        ("session.timeout.ms", "10000", "45000"),
    ]


@pytest.mark.parametrize("group_type", ["consumer", "share", "streams"])
def test_session_timeout_of_a_client_is_not_in_force_in_new_protocols(
    tracker: Tracker, group_type: str
) -> None:
    member = replace(LOG, session_timeout_s=45.0, group_type=group_type)

    assert changes(run(tracker, seen(0.0, member))) == []


def test_an_origin_that_no_source_reads_takes_its_members(tracker: Tracker) -> None:
    run(tracker, raised(1, 1.0, LOG))

    (lost,) = tracker.remove_origins(is_log, 2.0)

    assert (lost.kind, lost.reason) == (SampleKind.LOST, "its source is not configured")
    snapshot = tracker.snapshot(3.0)
    assert (snapshot.consumers, snapshot.groups) == ((), ())


def test_a_member_of_another_source_too_stays(tracker: Tracker) -> None:
    run(tracker, seen(1.0, LOG), seen(1.0, ADDRESS, SourceKind.WIRE))

    assert tracker.remove_origins(is_log, 2.0) == []
    snapshot = tracker.snapshot(3.0)
    assert (len(snapshot.consumers), len(snapshot.groups)) == (1, 1)


def test_a_member_that_has_left_goes_with_its_source(tracker: Tracker) -> None:
    run(tracker, seen(0.0, LOG), left(1.0, LOG))

    assert tracker.remove_origins(is_log, 2.0) == []
    assert tracker.snapshot(3.0).consumers == ()


class TestRestart:
    """A restarted source does not know the connections that have ended in between."""

    @pytest.fixture
    def tracker(self, tracker: Tracker) -> Tracker:
        run(tracker, synced(1.0, ADDRESS, source=SourceKind.WIRE))
        tracker.await_origins(lambda kind, _: kind is SourceKind.WIRE, 10.0)
        return tracker

    @pytest.mark.parametrize(("last_at", "members"), [(None, 0), (11.0, 1)])
    def test_a_member_that_is_not_seen_again_has_gone(
        self, tracker: Tracker, last_at: float | None, members: int
    ) -> None:
        if last_at is not None:
            tracker.apply(seen(last_at, ADDRESS, SourceKind.WIRE))

        tracker.advance(9.0 + AWAIT_S)
        before = len(tracker.snapshot(9.0 + AWAIT_S).consumers)
        tracker.advance(10.0 + AWAIT_S)

        assert (before, len(tracker.snapshot(10.0 + AWAIT_S).consumers)) == (1, members)

    def test_a_member_ends_with_the_connection_that_it_has_now(self, tracker: Tracker) -> None:
        now = replace(ADDRESS, origin="10.0.0.5:40001")
        tracker.apply(seen(11.0, now, SourceKind.WIRE))
        tracker.advance(10.0 + AWAIT_S)

        tracker.detach(now.origin, 20.0 + AWAIT_S)

        assert tracker.snapshot(20.0 + AWAIT_S).consumers == ()

    def test_a_quiet_log_of_it_goes_on(self, tracker: Tracker) -> None:
        """The source may see no packets at all."""
        tracker.apply(seen(2.0, LOG))

        tracker.advance(10.0 + AWAIT_S)

        assert len(tracker.snapshot(10.0 + AWAIT_S).consumers) == 1


class TestDeadProcess:
    """The file of a dead process stays: only its connections show that it has ended."""

    def test_ends_with_its_connections(self, tracker: Tracker) -> None:
        run(tracker, synced(1.0, LOG), seen(1.0, ADDRESS, SourceKind.WIRE))

        tracker.detach(ADDRESS.origin, 100.0)

        assert tracker.snapshot(101.0).consumers == ()

    def test_is_not_dead_if_its_log_has_gone_on(self, tracker: Tracker) -> None:
        run(tracker, synced(1.0, LOG), seen(1.0, ADDRESS, SourceKind.WIRE), synced(90.0, LOG))

        tracker.detach(ADDRESS.origin, 100.0)

        assert len(tracker.snapshot(101.0).consumers) == 1

    def test_is_not_dead_if_statistics_report_it(self, tracker: Tracker) -> None:
        statistics = replace(LOG, origin="stats")
        run(
            tracker,
            seen(1.0, LOG),
            seen(1.0, ADDRESS, SourceKind.WIRE),
            seen(1.0, statistics, SourceKind.STATS),
        )

        tracker.detach(ADDRESS.origin, 100.0)

        assert len(tracker.snapshot(101.0).consumers) == 1

    def test_that_is_dropped_is_lost(self, tracker: Tracker) -> None:
        run(tracker, raised(5, 1.0, LOG), seen(1.0, ADDRESS, SourceKind.WIRE))

        (lost,) = tracker.detach(ADDRESS.origin, 100.0)

        assert (lost.kind, lost.reason) == (SampleKind.LOST, "its source has ended")
        assert tracker.snapshot(101.0).consumers == ()


def test_changed_assignors_are_recorded_from_the_second_join_on(tracker: Tracker) -> None:
    one, two = (replace(LOG, assignors=names) for names in (("range",), ("sticky", "range")))

    assert changes(run(tracker, seen(1.0, one), seen(2.0, one))) == []
    assert changes(run(tracker, seen(3.0, two))) == [("assignors", "range", "sticky,range")]


def test_a_new_leader_is_recorded_once_by_itself(tracker: Tracker) -> None:
    other = replace(LOG, client_id="c2", member_id="c2-u")
    led = [replace(each, leader="c2-u") for each in (LOG, other)]
    leads = [replace(each, leader="c1-u") for each in (LOG, other)]

    assert changes(run(tracker, *(seen(1.0, each) for each in led))) == []
    assert changes(run(tracker, *(seen(2.0, each) for each in leads))) == [
        ("leader", "c2-u", "c1-u")
    ]
    assert changes(run(tracker, *(seen(3.0, each) for each in leads))) == []


def test_the_first_leader_that_is_seen_is_no_change(tracker: Tracker) -> None:
    assert changes(run(tracker, seen(1.0, replace(LOG, leader="c1-u")))) == []


def test_a_drop_records_the_interval_in_force(tracker: Tracker) -> None:
    polling = replace(LOG, max_poll_interval_s=300.0)

    samples = run(tracker, seen(1.0, polling), raised(5, 2.0, polling))

    assert changes(samples) == [("max.poll.interval.ms", None, "300000")]


def test_a_new_member_records_its_poll_interval(tracker: Tracker) -> None:
    polling = replace(LOG, max_poll_interval_s=300.0)

    assert changes(run(tracker, raised(2, 2.0, polling))) == [
        ("max.poll.interval.ms", None, "300000")
    ]


def test_whoever_removed_a_member_is_recorded(tracker: Tracker) -> None:
    run(tracker, seen(1.0, LOG))
    removed = msgspec.structs.replace(raised(3, 2.0, LOG), by="admin-1")

    assert changes(run(tracker, removed)) == [("removed_by", None, "admin-1")]


def test_a_removed_member_that_was_never_seen_has_no_series(tracker: Tracker) -> None:
    run(tracker, msgspec.structs.replace(raised(3, 2.0, LOG), by="admin-1"))

    assert tracker.snapshot(3.0).consumers == ()


def test_partitions_of_a_source_that_is_overtaken_are_not_taken(tracker: Tracker) -> None:
    run(tracker, seen(0.5, LOG), assigned(4.0, "t-0", source=SourceKind.WIRE))

    assert changes(run(tracker, assigned(3.0, "t-9"))) == []


def test_a_new_version_of_the_application_is_recorded_once_for_each_member() -> None:
    first = Tracker(StatusConfig(), workload={"version": "1.4", "image": "pay:1.4"})

    samples = run(first, seen(1.0, LOG), synced(2.0, LOG))

    assert changes(samples) == [("version", None, "1.4"), ("image", None, "pay:1.4")]
    second = Tracker(StatusConfig(), state=first.state(), workload={"version": "1.5"})
    assert changes(run(second, synced(3.0, LOG), synced(4.0, LOG))) == [("version", "1.4", "1.5")]


NEW = replace(ADDRESS, group_type="consumer", protocol_type=None)
WIRE = SourceKind.WIRE


def heartbeat(at: float, *names: str) -> Signal:
    return msgspec.structs.replace(seen(at, NEW, source=WIRE), assigned=names or None)


@pytest.mark.parametrize("code", [3, 4])
def test_a_fenced_member_has_the_time_since_its_last_request(tracker: Tracker, code: int) -> None:
    """The broker has the session timeout, so nothing else shows when it stopped."""
    run(tracker, heartbeat(1.0, "t-0"), heartbeat(2.0))

    samples = run(tracker, raised(code, 20.0, NEW, source=WIRE))

    assert changes(samples) == [("silent.ms", None, "18000")]


def test_a_successor_shows_since_when_the_process_before_it_was_dead(tracker: Tracker) -> None:
    run(tracker, heartbeat(1.0, "t-0"), heartbeat(2.0))

    samples = run(tracker, raised(2, 20.0, NEW, source=WIRE))

    assert ("silent.ms", None, "18000") in changes(samples)


@pytest.mark.parametrize(("at", "is_shown"), [(8.0, True), (6.0, False)])
def test_in_the_classic_protocol_a_join_behind_the_session_shows_it(
    tracker: Tracker, at: float, *, is_shown: bool
) -> None:
    of_session = replace(ADDRESS, session_timeout_s=6.0)
    run(tracker, msgspec.structs.replace(assigned(1.0, "t-0", source=WIRE), member=of_session))

    samples = run(tracker, msgspec.structs.replace(seen(at, ADDRESS, source=WIRE), assigned=()))

    assert (("silent.ms", None, "7000") in changes(samples)) == is_shown


@pytest.mark.parametrize(("at", "is_shown"), [(20.0, True), (9.0, False)])
def test_a_leave_behind_a_long_silence_shows_it(
    tracker: Tracker, at: float, *, is_shown: bool
) -> None:
    """A frozen process goes on, finds its poll interval expired, and leaves: it had expired."""
    run(tracker, heartbeat(1.0, "t-0"), heartbeat(2.0))

    samples = run(tracker, msgspec.structs.replace(heartbeat(at), kind=SignalKind.LEAVE))

    assert (("silent.ms", None, "18000") in changes(samples)) == is_shown


def test_a_first_process_has_no_predecessor(tracker: Tracker) -> None:
    run(tracker, heartbeat(1.0))

    samples = run(tracker, raised(2, 20.0, NEW, source=WIRE))

    assert "silent.ms" not in {name for name, *_ in changes(samples)}


def test_a_close_without_a_leave_is_recorded(tracker: Tracker) -> None:
    run(tracker, seen(1.0, NEW))

    samples = run(tracker, msgspec.structs.replace(seen(2.0, NEW), closes=True))

    assert changes(samples) == [("closed", None, None)]


def test_a_member_that_is_fenced_between_two_heartbeats_was_not_silent(tracker: Tracker) -> None:
    run(tracker, heartbeat(1.0, "t-0"))

    assert changes(run(tracker, raised(4, 3.0, NEW, source=WIRE))) == []


def test_in_the_classic_protocol_its_session_timeout_shows_it(tracker: Tracker) -> None:
    run(tracker, assigned(1.0, "t-0", source=WIRE))

    assert changes(run(tracker, raised(3, 20.0, ADDRESS, source=WIRE))) == []


def test_a_member_whose_connections_have_ended_has_it_too(tracker: Tracker) -> None:
    run(tracker, heartbeat(1.0, "t-0"))

    samples = tracker.detach(NEW.origin, 50.0)

    assert changes(samples) == [("silent.ms", None, "49000")]


def test_in_the_classic_protocol_too(tracker: Tracker) -> None:
    run(tracker, assigned(1.0, "t-0", source=WIRE))

    assert changes(tracker.detach(ADDRESS.origin, 50.0)) == [("silent.ms", None, "49000")]


def test_a_member_whose_broker_ended_the_connection_has_not(tracker: Tracker) -> None:
    run(tracker, heartbeat(1.0, "t-0"))

    assert changes(tracker.detach(NEW.origin, 50.0, is_cut=True)) == []


def test_its_log_that_is_still_there_hides_nothing(tracker: Tracker) -> None:
    log = replace(NEW, origin="/log/c1.log")
    run(tracker, seen(0.5, log), heartbeat(1.0, "t-0"))

    samples = tracker.detach(NEW.origin, 50.0)

    assert changes(samples) == [("silent.ms", None, "49000")]


def test_log_of_a_new_process_shows_it_before_its_request(tracker: Tracker) -> None:
    run(tracker, heartbeat(1.0, "t-0"))

    samples = run(tracker, msgspec.structs.replace(seen(20.0, NEW), assigned=()))

    assert ("silent.ms", None, "19000") in changes(samples)


def test_member_of_a_share_group_has_no_partitions_of_its_own(tracker: Tracker) -> None:
    share = replace(NEW, group_type="share")
    run(tracker, seen(1.0, share, source=WIRE))

    assert changes(tracker.detach(share.origin, 50.0)) == [("silent.ms", None, "49000")]


def test_successor_in_a_share_group_shows_since_when_the_one_before_it_was_dead(
    tracker: Tracker,
) -> None:
    share = replace(NEW, group_type="share")
    run(tracker, raised(2, 1.0, share, source=WIRE), seen(2.0, share, source=WIRE))

    samples = run(tracker, raised(2, 20.0, share, source=WIRE))

    assert ("silent.ms", None, "18000") in changes(samples)


def test_member_of_a_share_group_that_left_and_is_back_was_not_silent(tracker: Tracker) -> None:
    share = replace(NEW, group_type="share")
    leave = msgspec.structs.replace(left(2.0, share), source=WIRE)
    run(tracker, raised(2, 1.0, share, source=WIRE), leave)

    samples = run(tracker, raised(2, 20.0, share, source=WIRE))

    assert "silent.ms" not in {name for name, *_ in changes(samples)}


GONE = msgspec.structs.replace(left(2.0, NEW), source=WIRE)


def test_one_without_partitions_has_it_too(tracker: Tracker) -> None:
    """It may be the last member of its group."""
    run(tracker, heartbeat(1.0, "t-0"), heartbeat(2.0, "none"))

    assert changes(tracker.detach(NEW.origin, 50.0)) == [("silent.ms", None, "48000")]


def test_one_that_left_has_not(tracker: Tracker) -> None:
    run(tracker, heartbeat(1.0, "t-0"), GONE)

    assert changes(tracker.detach(NEW.origin, 50.0)) == []

    assert changes(tracker.detach(NEW.origin, 50.0)) == []


def test_partitions_of_all_members_are_bounded_and_those_of_members_that_are_gone_are_free(
    tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracker_module, "PARTITIONS_MAX", 5)
    names = ("t-0", "t-1", "t-2")
    first, second, third = (
        replace(assigned(at, *names), member=replace(LOG, client_id=name, member_id=name))
        for at, name in ((1.0, "a"), (2.0, "b"), (6.0, "c"))
    )

    assert [len(changes(run(tracker, each))) for each in (first, second)] == [1, 0]
    assert tracker.snapshot(3.0).counts["partitions_forgotten"] == 1

    tracker.apply(replace(left(4.0, LOG), member=first.member))
    assert len(changes(run(tracker, replace(second, at=5.0)))) == 1

    restarted = Tracker(StatusConfig(), state=tracker.state())
    assert changes(run(restarted, third)) == []
