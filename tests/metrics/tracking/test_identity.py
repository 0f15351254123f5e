"""Member identity if several sources name one member, each in its own way."""

import msgspec
import pytest
from msgspec.structs import replace

from metrics.model.sample import Sample, SampleKind, Scope
from metrics.model.signals import Member, SignalKind, SourceKind
from metrics.model.snapshot import MemberRow
from metrics.model.status import RebalanceStatus as Status
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker, TrackerState
from metrics.tracking.verdicts import PENDING_S
from tests.metrics.given import (
    C1,
    C2,
    T1,
    T2,
    codes,
    demand,
    left,
    raised,
    run,
    seen,
    signal,
    synced,
)

CONFIG = StatusConfig()
WIRE, LOGS, STATS = SourceKind.WIRE, SourceKind.LOGS, SourceKind.STATS
LOG = replace(C1, host="pod-1")
ADDRESS = replace(C1, origin="10.0.0.5:40000", host="10.0.0.5", software="java 3.9")
BY_STATS = replace(C1, origin="stats.sock")
OTHER_LOG = replace(LOG, origin="other.log")
OTHER_ADDRESS = replace(ADDRESS, origin="10.0.0.5:40001")


def called(member: Member, member_id: str) -> Member:
    return replace(member, member_id=member_id)


@pytest.fixture
def tracker() -> Tracker:
    return Tracker(CONFIG)


def only(tracker: Tracker, now: float = 100.0) -> MemberRow:
    (row,) = tracker.snapshot(now).consumers
    return row


def statuses(tracker: Tracker) -> list[int]:
    return sorted(row.status for row in tracker.snapshot(100.0).consumers)


def both_on_the_wire(tracker: Tracker) -> None:
    """Let two members of one client id be seen on the wire, as x and y."""
    for member, member_id in ((ADDRESS, "x"), (OTHER_ADDRESS, "y")):
        run(tracker, seen(1.0, called(member, member_id), WIRE))


class TestLink:
    """Evidence that joins two sources' members."""

    def test_member_id(self, tracker: Tracker) -> None:
        run(
            tracker,
            seen(1.0, called(ADDRESS, "x"), WIRE),
            seen(1.0, called(OTHER_ADDRESS, "y"), WIRE),
        )

        samples = run(tracker, raised(2, 2.0, called(LOG, "y")))

        assert [each.member_id for each in samples] == ["y"]
        assert statuses(tracker) == [0, 2]

    def test_the_only_one_of_its_name_while_an_id_is_missing(self, tracker: Tracker) -> None:
        """A client of Kafka 3.9 joins before it has an id, and says so before it sends anything."""
        run(tracker, raised(2, 1.0, LOG), raised(2, 1.8, ADDRESS, source=WIRE))

        assert only(tracker).counts.transitions == {2: 1}

    def test_statistics_never_tell_an_id(self, tracker: Tracker) -> None:
        run(tracker, raised(1, 1.0, called(ADDRESS, "x"), source=WIRE))

        run(tracker, raised(1, 1.1, BY_STATS, source=STATS))

        assert only(tracker).counts.transitions == {1: 1}

    def test_group_instance_id(self, tracker: Tracker) -> None:
        run(tracker, seen(1.0, replace(LOG, cluster="", group_instance_id="i")))
        run(tracker, seen(1.0, replace(ADDRESS, group_instance_id="i"), WIRE))

        assert only(tracker).group_instance_id == "i"

    @pytest.mark.parametrize("wire_first", [False, True])
    def test_member_id_of_a_static_member_without_a_client_id(
        self, tracker: Tracker, wire_first: bool
    ) -> None:
        """franz-go's log names a static member by its instance id, as its member id begins."""
        log = called(replace(LOG, client_id="i", group_instance_id="i"), "i-x")
        wire = called(replace(ADDRESS, group_instance_id="i"), "i-x")
        signals = [raised(1, 1.0, log), raised(1, 1.1, wire, source=WIRE)]

        run(tracker, *signals[:: -1 if wire_first else 1])

        assert only(tracker).counts.transitions == {1: 1}

    def test_cluster_that_is_not_known_yet_may_be_any(self, tracker: Tracker) -> None:
        run(tracker, seen(1.0, replace(called(LOG, "x"), cluster="")))
        run(tracker, seen(2.0, called(ADDRESS, "x"), WIRE))

        assert only(tracker).cluster == "k"

    def test_source_that_learns_its_cluster_is_the_same(self, tracker: Tracker) -> None:
        run(tracker, raised(1, 1.0, replace(LOG, cluster="")), raised(3, 2.0, LOG))

        row = only(tracker)
        assert (row.cluster, row.counts.transitions) == ("k", {1: 1, 3: 1})


class TestApart:
    """Evidence that separates two members."""

    def test_two_candidates(self, tracker: Tracker) -> None:
        run(tracker, seen(1.0, LOG), seen(1.0, OTHER_LOG))

        run(tracker, raised(1, 2.0, ADDRESS, source=WIRE))

        assert statuses(tracker) == [0, 0, 1]

    def test_of_two_candidates_the_one_that_joins_now(self, tracker: Tracker) -> None:
        """Replicas of one machine; their logs have no member ids, as Java's before 3.0."""
        run(tracker, raised(1, 1.0, OTHER_LOG), synced(2.0, OTHER_LOG), seen(1.0, LOG))
        run(tracker, signal(SignalKind.JOIN, 9.0, LOG))

        run(tracker, raised(2, 9.1, called(ADDRESS, "x"), source=WIRE))

        rows = tracker.snapshot(9.2).consumers
        assert {(row.member_id, row.status.value) for row in rows} == {("x", 2), (None, 0)}

    def test_a_new_process_of_a_log_whose_last_one_was_on_the_wire(self, tracker: Tracker) -> None:
        """It was killed: the id that the wire showed is not that of the log's new process."""
        run(tracker, seen(1.0, OTHER_LOG))
        run(tracker, signal(SignalKind.JOIN, 2.0, LOG))
        run(tracker, raised(2, 2.1, called(ADDRESS, "x"), source=WIRE))
        tracker.detach(ADDRESS.origin, 5.0)
        run(tracker, signal(SignalKind.JOIN, 9.0, LOG))

        run(tracker, raised(2, 9.1, called(OTHER_ADDRESS, "y"), source=WIRE))

        assert {row.member_id for row in tracker.snapshot(9.2).consumers} == {"y", None}

    def test_a_new_process_that_the_traffic_takes_for_another_one(self, tracker: Tracker) -> None:
        """The traffic knows the address alone; another log shows that its member joins."""
        run(tracker, signal(SignalKind.JOIN, 2.0, LOG))
        run(tracker, raised(2, 2.1, called(ADDRESS, "x"), source=WIRE))
        run(tracker, signal(SignalKind.JOIN, 9.0, OTHER_LOG))

        run(tracker, raised(2, 9.1, called(ADDRESS, "y"), source=WIRE))
        run(tracker, raised(5, 9.2, LOG))

        rows = tracker.snapshot(9.3).consumers
        assert {(row.member_id, row.status.value) for row in rows} == {("x", 5), ("y", 2)}

    def test_a_log_that_shows_a_new_member_joins(self, tracker: Tracker) -> None:
        """A log of KIP-848 shows no request."""
        run(tracker, seen(1.0, OTHER_LOG), raised(2, 9.0, LOG))

        run(tracker, raised(2, 9.1, called(ADDRESS, "x"), source=WIRE))

        assert statuses(tracker) == [0, 2]

    def test_ids_of_both_that_differ(self, tracker: Tracker) -> None:
        run(tracker, seen(1.0, called(LOG, "x")), raised(1, 2.0, called(ADDRESS, "y"), source=WIRE))

        assert statuses(tracker) == [0, 1]

    def test_two_sources_of_one_kind(self, tracker: Tracker) -> None:
        run(tracker, seen(1.0, LOG), raised(1, 2.0, OTHER_LOG))

        assert statuses(tracker) == [0, 1]

    def test_member_whose_sources_have_ended(self, tracker: Tracker) -> None:
        run(tracker, raised(1, 1.0, LOG))
        tracker.detach(LOG.origin, 2.0)

        run(tracker, seen(3.0, ADDRESS, WIRE))

        assert statuses(tracker) == [0, 1]

    @pytest.mark.parametrize(
        "other",
        [
            replace(ADDRESS, cluster="l"),
            replace(ADDRESS, group="h"),
            replace(ADDRESS, client_id="d"),
        ],
    )
    def test_another_place(self, tracker: Tracker, other: Member) -> None:
        run(tracker, seen(1.0, called(LOG, "x")), seen(2.0, called(other, "x"), WIRE))

        assert statuses(tracker) == [0, 0]

    def test_static_members(self, tracker: Tracker) -> None:
        run(tracker, seen(1.0, replace(LOG, group_instance_id="i")))
        run(tracker, seen(1.0, replace(ADDRESS, group_instance_id="j"), WIRE))

        assert statuses(tracker) == [0, 0]

    def test_two_members_of_one_name_seen_twice_each(self, tracker: Tracker) -> None:
        for member_id, log, address in (("x", LOG, ADDRESS), ("y", OTHER_LOG, OTHER_ADDRESS)):
            run(tracker, raised(2, 1.0, called(address, member_id), source=WIRE), seen(1.0, log))
            run(tracker, raised(2, 1.1, called(log, member_id)))

        rows = tracker.snapshot(2.0).consumers
        assert [row.counts.transitions for row in rows] == [{2: 1}, {2: 1}]

    def test_who_turns_out_to_be_another_takes_nothing_from_the_first(
        self, tracker: Tracker
    ) -> None:
        run(tracker, seen(1.0, LOG), seen(2.0, called(ADDRESS, "x"), WIRE))

        run(tracker, seen(3.0, called(LOG, "y")), raised(2, 4.0, called(ADDRESS, "x"), source=WIRE))

        assert statuses(tracker) == [0, 2]


STATIC_LOG = replace(LOG, group_instance_id="i")
BROKER = SourceKind.BROKER_LOG
BY_INSTANCE = Member(
    group="g",
    client_id="i",
    origin="broker_log:g/i#0",
    group_instance_id="i",
    member_id="i-u",
)
BY_MEMBER_ID = replace(BY_INSTANCE, client_id="x", group_instance_id=None, member_id="x")
STAND_INS = pytest.mark.parametrize(
    ("own", "stand_in"),
    [(STATIC_LOG, BY_INSTANCE), (called(LOG, "x"), BY_MEMBER_ID)],
    ids=["instance id", "member id"],
)


class TestStandIn:
    """A broker's log prints no client id of a static member and of one of the new protocols."""

    @STAND_INS
    def test_it_is_the_member_that_is_known(
        self, tracker: Tracker, own: Member, stand_in: Member
    ) -> None:
        samples = run(
            tracker,
            raised(1, 1.0, own),
            raised(1, 1.1, stand_in, source=BROKER),
            raised(3, 2.0, stand_in, source=BROKER),
        )

        assert [(each.client_id, each.to) for each in samples] == [("c1", 1), ("c1", 3)]
        assert only(tracker).client_id == "c1"

    @STAND_INS
    def test_new_one_waits_where_clients_tell_of_themselves(
        self, tracker: Tracker, own: Member, stand_in: Member
    ) -> None:
        run(tracker, seen(1.0, C2))

        samples = run(
            tracker,
            raised(1, 2.0, stand_in, source=BROKER),
            signal(SignalKind.SYNC, 2.5, stand_in, source=BROKER),
            raised(1, 2.1, own),
            synced(2.6, own),
        )

        assert [(each.client_id, each.to) for each in samples] == [("c1", 1), ("c1", 0)]

    def test_it_is_not_shown_while_it_waits(self, tracker: Tracker) -> None:
        run(tracker, seen(1.0, C2), raised(1, 2.0, BY_INSTANCE, source=BROKER))

        assert only(tracker).client_id == "c2"

    def test_it_is_its_own_member_where_nobody_names_it_in_time(self, tracker: Tracker) -> None:
        run(tracker, seen(1.0, C2), raised(1, 2.0, BY_INSTANCE, source=BROKER))
        run(tracker, raised(3, 2.1, BY_INSTANCE, source=BROKER))

        assert tracker.advance(9.9) == []
        assert [(each.client_id, each.to) for each in tracker.advance(10.0)] == [("i", 1), ("i", 3)]
        assert codes(run(tracker, raised(5, 10.1, BY_INSTANCE, source=BROKER))) == [5]
        assert statuses(tracker) == [0, 5]

    def test_member_whose_client_id_it_is_does_not_wait(self, tracker: Tracker) -> None:
        own = replace(STATIC_LOG, client_id="i")
        run(tracker, seen(1.0, C2), raised(1, 2.0, BY_INSTANCE, source=BROKER))

        assert codes(run(tracker, raised(3, 2.5, own))) == [3]

    def test_raise_of_nothing_waits_as_any_other(self, tracker: Tracker) -> None:
        """No source makes one; nothing that a source might make may stop the agent."""
        stand_in = replace(BY_MEMBER_ID, client_id="c1")
        run(tracker, seen(1.0, C2), raised(0, 2.0, stand_in, source=BROKER))

        assert codes(run(tracker, raised(1, 2.1, LOG))) == [1]

    def test_new_member_of_any_kind_waits(self, tracker: Tracker) -> None:
        """Its log may be found some seconds after the broker's line."""
        stand_in = replace(BY_MEMBER_ID, client_id="c1")
        run(tracker, seen(1.0, C2))

        samples = run(
            tracker,
            raised(2, 2.0, stand_in, source=BROKER),
            signal(SignalKind.SYNC, 2.1, stand_in, source=BROKER),
            raised(1, 2.2, stand_in, source=BROKER),
            signal(SignalKind.SYNC, 2.5, stand_in, source=BROKER),
            raised(2, 1.9, LOG),
            synced(2.51, called(LOG, "x")),
        )

        assert codes(samples + tracker.advance(20.0)) == [2, 0]

    def test_note_waits_too(self, tracker: Tracker) -> None:
        note = signal(SignalKind.NOTE, 2.0, BY_INSTANCE, source=BROKER, reason="why")
        run(tracker, seen(1.0, C2), note)

        assert [(each.client_id, each.reason) for each in tracker.flush()] == [("i", "why")]

    def test_no_more_than_a_bound_waits(self, tracker: Tracker) -> None:
        run(tracker, seen(1.0, C2))

        samples = run(tracker, *[raised(1, 2.0, BY_INSTANCE, source=BROKER)] * 101)

        assert samples[0].to == 1

    def test_it_waits_through_a_restart(self, tracker: Tracker) -> None:
        run(tracker, seen(1.0, C2), raised(1, 2.0, BY_INSTANCE, source=BROKER))
        state = msgspec.json.decode(msgspec.json.encode(tracker.state()), type=TrackerState)

        samples = run(Tracker(CONFIG, state=state), raised(1, 2.1, STATIC_LOG))

        assert [(each.client_id, each.to) for each in samples] == [("c1", 1)]

    @STAND_INS
    def test_member_that_is_told_by_itself_later_has_its_own_name(
        self, tracker: Tracker, own: Member, stand_in: Member
    ) -> None:
        samples = run(
            tracker,
            raised(1, 1.0, stand_in, source=BROKER),
            raised(1, 1.1, own),
            raised(3, 2.0, stand_in, source=BROKER),
            synced(3.0, own),
        )

        own_codes = [each.to for each in samples if each.client_id == "c1"]
        assert own_codes == [1, 3, 0]
        assert only(tracker).client_id == "c1"

    def test_its_open_episode_is_lost(self, tracker: Tracker) -> None:
        run(tracker, raised(1, 1.0, BY_INSTANCE, source=BROKER))

        (sample,) = run(tracker, seen(1.1, STATIC_LOG))

        assert (sample.kind, sample.client_id) == (SampleKind.LOST, "i")

    def test_member_that_learns_its_id_late_keeps_its_name(self, tracker: Tracker) -> None:
        """A client of Kafka 3.9 has no member id before the broker's first answer."""
        samples = run(
            tracker,
            raised(2, 1.0, LOG),
            raised(2, 1.1, BY_MEMBER_ID, source=BROKER),
            synced(2.0, called(LOG, "x")),
            raised(3, 3.0, BY_MEMBER_ID, source=BROKER),
        )

        assert [each.to for each in samples if each.client_id == "c1"] == [2, 0, 3]
        assert only(tracker).counts.transitions == {2: 1, 3: 1}

    def test_process_that_comes_back_goes_on_counting(self, tracker: Tracker) -> None:
        run(tracker, raised(1, 1.0, called(LOG, "w")), synced(2.0, called(LOG, "w")))
        run(tracker, raised(2, 3.0, BY_MEMBER_ID, source=BROKER))

        run(tracker, raised(2, 3.1, called(LOG, "x")))

        assert only(tracker).counts.transitions == {1: 1, 2: 1}

    def test_thread_of_a_static_instance_is_of_its_instance(self, tracker: Tracker) -> None:
        thread = replace(T1, group_instance_id="i-1")
        by_instance = replace(BY_INSTANCE, client_id="i-1", group_instance_id="i-1")
        run(tracker, seen(1.0, by_instance, BROKER))

        samples = run(tracker, raised(1, 2.0, thread))

        assert streams(samples) == [1]

    def test_both_voices_live(self, tracker: Tracker) -> None:
        run(tracker, seen(1.0, BY_INSTANCE, BROKER), seen(1.0, STATIC_LOG))

        tracker.detach(STATIC_LOG.origin, 2.0)
        assert only(tracker).client_id == "c1"
        tracker.detach(BY_INSTANCE.origin, 2.0)
        assert statuses(tracker) == []

    @pytest.mark.parametrize(
        "other",
        [
            replace(BY_INSTANCE, cluster="l"),
            replace(BY_INSTANCE, group="h"),
            replace(BY_INSTANCE, client_id="j", group_instance_id="j"),
            replace(BY_INSTANCE, group_instance_id="j"),
        ],
    )
    def test_another_place_or_id(self, tracker: Tracker, other: Member) -> None:
        run(tracker, seen(1.0, STATIC_LOG), seen(1.0, other, BROKER))
        tracker.advance(10.0)

        assert statuses(tracker) == [0, 0]

    def test_only_a_broker_uses_them(self, tracker: Tracker) -> None:
        other = replace(BY_INSTANCE, group_instance_id=None, member_id=None)
        run(tracker, seen(1.0, STATIC_LOG), seen(1.0, other, WIRE))

        assert statuses(tracker) == [0, 0]

    def test_heirs_have_its_client_id(self, tracker: Tracker) -> None:
        namesake = replace(OTHER_LOG, client_id="i")
        run(tracker, raised(1, 0.0, STATIC_LOG), synced(4.0, STATIC_LOG), seen(0.0, namesake))

        tracker.detach(STATIC_LOG.origin, 5.0)

        assert only(tracker).counts.transitions == {}


class TestPutRight:
    """Corrections by the first member id."""

    def test_provisional_member_without_a_past_goes_without_a_word(self, tracker: Tracker) -> None:
        run(
            tracker,
            seen(1.0, called(ADDRESS, "x"), WIRE),
            seen(1.0, called(OTHER_ADDRESS, "y"), WIRE),
        )
        run(tracker, seen(1.0, LOG))

        assert run(tracker, seen(2.0, called(LOG, "x"))) == []
        assert statuses(tracker) == [0, 0]

    def test_episode_of_a_provisional_member_is_lost(self, tracker: Tracker) -> None:
        run(
            tracker,
            seen(1.0, called(ADDRESS, "x"), WIRE),
            seen(1.0, called(OTHER_ADDRESS, "y"), WIRE),
        )
        run(tracker, raised(9, 1.0, LOG))

        (sample,) = run(tracker, seen(2.0, called(LOG, "x")))

        assert (sample.kind, sample.from_) == (SampleKind.LOST, 9)
        assert sample.reason == "another source reports it too"
        assert tracker.snapshot(2.0).counts == {"lost": 1}

    def test_guess_that_was_wrong_becomes_a_member_of_its_own(self, tracker: Tracker) -> None:
        run(tracker, raised(1, 1.0, called(ADDRESS, "x"), source=WIRE), seen(1.0, LOG))

        run(tracker, raised(2, 5.0, called(LOG, "y")))

        assert statuses(tracker) == [1, 2]

    def test_guess_that_was_wrong_goes_to_whose_id_it_has(self, tracker: Tracker) -> None:
        run(tracker, seen(1.0, called(ADDRESS, "x"), WIRE), seen(1.0, LOG))
        run(tracker, seen(1.0, called(OTHER_ADDRESS, "y"), WIRE))

        run(tracker, raised(2, 5.0, called(LOG, "y")))
        run(tracker, raised(3, 9.0, called(OTHER_ADDRESS, "y"), source=WIRE))

        assert statuses(tracker) == [0, 3]

    def test_client_whose_join_failed_has_the_next_id(self, tracker: Tracker) -> None:
        """The broker gave it an id that it never heard of. It was a second member at 9 for ever."""
        broker = SourceKind.BROKER_LOG
        lost = replace(called(C1, "x"), origin="server.log/x", host="")
        own = replace(called(C1, "y"), origin="server.log/y", host="")
        samples = run(
            tracker,
            seen(1.0, LOG),
            raised(2, 2.0, lost, source=broker),
            raised(9, 2.1, LOG),
            raised(2, 2.2, own, source=broker),
            synced(2.5, called(LOG, "y")),
        )

        row = only(tracker)
        assert (row.status, row.member_id) == (0, "y")
        assert len({each.episode for each in samples if each.episode}) == 1
        assert codes(samples) == [2, 9, 0]

    def test_guess_that_was_right_stays_through_later_ids(self, tracker: Tracker) -> None:
        run(tracker, seen(1.0, called(ADDRESS, "x"), WIRE), seen(1.0, called(LOG, "x")))

        run(tracker, seen(2.0, called(LOG, "y")), seen(3.0, called(ADDRESS, "y"), WIRE))

        assert only(tracker).member_id == "y"

    def test_first_id_may_be_either_source_s(self, tracker: Tracker) -> None:
        run(tracker, seen(1.0, LOG), seen(1.0, ADDRESS, WIRE), seen(2.0, called(LOG, "x")))

        run(tracker, raised(1, 3.0, called(ADDRESS, "x"), source=WIRE))

        assert only(tracker).member_id == "x"

    @pytest.mark.parametrize("order", ["wire first", "logs first", "in turns"])
    def test_two_whose_logs_are_mixed_up_stay_two(self, tracker: Tracker, order: str) -> None:
        """Two consumers of one log are removed: which of them got which id is a guess."""
        both_on_the_wire(tracker)
        run(tracker, seen(1.0, called(LOG, "x")), seen(1.0, called(OTHER_LOG, "y")))
        wire = [
            seen(2.0, called(ADDRESS, "x2"), WIRE),
            seen(2.0, called(OTHER_ADDRESS, "y2"), WIRE),
        ]
        logs = [raised(2, 2.0, called(LOG, "y2")), raised(2, 2.0, called(OTHER_LOG, "x2"))]
        both = {
            "wire first": [*wire, *logs],
            "logs first": [*logs, *wire],
            "in turns": [wire[0], *logs, wire[1]],
        }

        samples = run(tracker, *both[order])

        assert not [each for each in samples if each.kind is SampleKind.LOST]
        rows = tracker.snapshot(3.0).consumers
        assert sorted(row.member_id or "" for row in rows) == ["x2", "y2"]

    def test_two_that_turn_out_to_be_one_keep_both_sources(self, tracker: Tracker) -> None:
        run(tracker, seen(1.0, called(LOG, "x")), seen(1.0, called(ADDRESS, "y"), WIRE))

        run(tracker, seen(2.0, called(LOG, "y")))
        tracker.detach(LOG.origin, 3.0)

        assert only(tracker).member_id == "y"

    def test_two_that_turn_out_to_be_one_bring_all_their_sources(self, tracker: Tracker) -> None:
        run(tracker, seen(1.0, called(LOG, "x")), seen(1.0, BY_STATS, STATS))
        run(tracker, seen(1.0, called(ADDRESS, "y"), WIRE))

        run(tracker, seen(2.0, called(LOG, "y")))

        assert statuses(tracker) == [0]
        for stream in (LOG.origin, ADDRESS.origin):
            tracker.detach(stream, 3.0)
        assert statuses(tracker) == [0]

    def test_two_that_turn_out_to_be_one_have_the_ids_of_both(self, tracker: Tracker) -> None:
        run(tracker, seen(1.0, called(LOG, "x")), seen(1.0, called(ADDRESS, "y"), WIRE))
        run(tracker, seen(2.0, called(LOG, "y")))

        run(tracker, seen(3.0, called(OTHER_ADDRESS, "x"), WIRE))

        assert only(tracker).member_id == "y"

    def test_leave_that_waits_goes_with_its_member(self, tracker: Tracker) -> None:
        run(tracker, seen(1.0, called(LOG, "x")), seen(1.0, called(ADDRESS, "x"), WIRE))
        leave = signal(SignalKind.LEAVE, 2.0, called(ADDRESS, "x"), source=WIRE)
        run(tracker, leave, seen(2.0, called(OTHER_ADDRESS, "y"), WIRE))

        run(tracker, seen(2.0, called(LOG, "y")))

        assert codes(tracker.advance(7.0)) == [6, 0]


class TestLabels:
    """One of the sources names the member, whoever spoke last."""

    def test_best_source_s_labels_stay(self, tracker: Tracker) -> None:
        log, address = called(LOG, "x"), called(ADDRESS, "x")
        run(tracker, seen(1.0, address, WIRE), seen(2.0, log))

        hosts = [
            run(tracker, seen(3.0, each, source)) or only(tracker).host
            for each, source in ((address, WIRE), (log, LOGS), (address, WIRE))
        ]

        assert hosts == ["pod-1"] * 3

    def test_others_add_what_it_does_not_know(self, tracker: Tracker) -> None:
        run(tracker, seen(1.0, replace(LOG, cluster="")), seen(2.0, called(ADDRESS, "x"), WIRE))

        row = only(tracker)
        assert (row.cluster, row.host, row.software) == ("k", "pod-1", "java 3.9")

    def test_member_id_is_the_newest(self, tracker: Tracker) -> None:
        run(tracker, seen(1.0, called(LOG, "x")), seen(1.0, called(ADDRESS, "x"), WIRE))

        run(tracker, seen(2.0, called(ADDRESS, "y"), WIRE), seen(3.0, replace(called(LOG, "x"))))

        assert only(tracker).member_id == "y"

    def test_sample_says_who_told_it(self, tracker: Tracker) -> None:
        samples = run(
            tracker,
            raised(1, 1.0, called(ADDRESS, "x"), source=WIRE),
            raised(3, 2.0, called(LOG, "x")),
        )

        moves = [each for each in samples if each.kind is SampleKind.TRANSITION]
        assert [(each.source, each.host) for each in moves] == [
            ("wire", "10.0.0.5"),
            ("logs", "pod-1"),
        ]

    def test_ids_hang_on_the_first_source_alone(self, tracker: Tracker) -> None:
        run(tracker, seen(1.0, called(ADDRESS, "x"), WIRE))
        alone = run(tracker, raised(1, 2.0, called(ADDRESS, "x"), source=WIRE))
        both = Tracker(CONFIG)
        run(both, seen(1.0, called(ADDRESS, "x"), WIRE), seen(1.0, called(LOG, "x")))

        assert [each.id for each in run(both, raised(1, 2.0, called(LOG, "x")))] == [
            each.id for each in alone
        ]


class TestSources:
    """Sources of one member come and go one by one."""

    def test_member_goes_with_its_last_source(self, tracker: Tracker) -> None:
        run(tracker, seen(1.0, LOG), seen(1.0, ADDRESS, WIRE))

        tracker.detach(LOG.origin, 2.0)
        assert statuses(tracker) == [0]
        tracker.detach(ADDRESS.origin, 2.0)
        assert statuses(tracker) == []

    def test_dropped_member_is_lost_with_its_last_source(self, tracker: Tracker) -> None:
        run(tracker, raised(5, 1.0, LOG), seen(1.0, ADDRESS, WIRE))

        assert tracker.detach(ADDRESS.origin, 2.0) == []
        assert codes(tracker.detach(LOG.origin, 2.0)) == [None]

    def test_bound_of_sources(self, tracker: Tracker) -> None:
        for port in range(10):
            run(tracker, seen(1.0, called(replace(ADDRESS, origin=f"h:{port}"), "x"), WIRE))
            tracker.detach(f"h:{port}", 1.0) if port == 1 else None

        for port in (0, 7, 8):
            tracker.detach(f"h:{port}", 2.0)
        assert statuses(tracker) == [0]
        for port in (6, 9):
            tracker.detach(f"h:{port}", 2.0)
        assert statuses(tracker) == []

    def test_bound_of_ids(self, tracker: Tracker) -> None:
        for number in range(6):
            run(tracker, seen(1.0, called(ADDRESS, str(number)), WIRE))

        run(tracker, seen(2.0, called(LOG, "2")))
        run(tracker, seen(2.0, called(OTHER_LOG, "0")))

        assert statuses(tracker) == [0, 0]

    def test_links_stay_through_a_restart(self, tracker: Tracker) -> None:
        run(tracker, raised(1, 1.0, called(ADDRESS, "x"), source=WIRE), seen(1.0, called(LOG, "x")))
        state = msgspec.json.decode(msgspec.json.encode(tracker.state()), type=TrackerState)

        end = msgspec.structs.replace(synced(2.0, LOG), generation=2)
        again = Tracker(CONFIG, state=state)

        assert run(again, raised(1, 1.1, LOG), end) == []
        assert codes(again.advance(2.0 + PENDING_S)) == [0]


class TestHeirs:
    """A counter over members of equal labels does not fall when one of them is forgotten."""

    def test_counts_of_a_forgotten_member_stay(self, tracker: Tracker) -> None:
        run(tracker, raised(1, 0.0, LOG), synced(4.0, LOG), seen(0.0, OTHER_LOG))

        tracker.detach(LOG.origin, 5.0)

        counts = only(tracker, 10.0).counts
        assert (counts.transitions, counts.rebalances) == ({1: 1}, {1: 1})
        assert counts.seconds == {Status.NONE: 11.0, Status.COORDINATOR_REQUESTED: 4.0}

    def test_time_after_a_loss_is_nobody_s(self, tracker: Tracker) -> None:
        run(tracker, raised(1, 0.0, LOG), seen(0.0, OTHER_LOG))
        tracker.advance(CONFIG.stale_after_s)

        tracker.detach(LOG.origin, 1e4)

        assert only(tracker).counts.seconds[Status.COORDINATOR_REQUESTED] == CONFIG.stale_after_s

    def test_other_labels_are_no_heir(self, tracker: Tracker) -> None:
        run(tracker, raised(1, 0.0, LOG), synced(4.0, LOG))
        run(tracker, seen(0.0, replace(OTHER_LOG, host="pod-2")))

        tracker.detach(LOG.origin, 5.0)

        assert only(tracker).counts.transitions == {}

    def test_last_of_its_labels_takes_its_counts_with_it(self, tracker: Tracker) -> None:
        run(tracker, left(1.0, LOG))
        tracker.advance(1e4)

        run(tracker, seen(2e4, LOG))

        assert only(tracker, 2e4).counts.transitions == {}


def streams(samples: list[Sample]) -> list[int | None]:
    return codes(samples, Scope.STREAMS)


WIRE_1 = replace(T1, origin="process-id", host="10.0.0.5")
WIRE_2 = replace(T2, origin="process-id", host="10.0.0.5")


class TestStreams:
    """A Streams instance with threads that two sources report."""

    def test_threads_of_both_sources_are_one_instance(self, tracker: Tracker) -> None:
        samples = run(
            tracker,
            raised(2, 1.0, called(WIRE_1, "x"), source=WIRE),
            raised(2, 1.1, called(T2, "y")),
            raised(2, 1.2, called(T1, "x")),
            raised(2, 1.3, called(WIRE_2, "y"), source=WIRE),
            synced(2.0, called(WIRE_1, "x"), source=WIRE),
            synced(2.1, called(T1, "x")),
            msgspec.structs.replace(synced(2.2, called(T2, "y")), generation=1),
        )
        samples += tracker.advance(2.2 + PENDING_S)

        assert streams(samples) == [2, 0]
        assert len(tracker.snapshot(3.0).instances) == 1

    def test_demand_is_told_once(self, tracker: Tracker) -> None:
        layer = demand(12, 2.0)
        samples = run(
            tracker,
            raised(1, 1.0, called(WIRE_1, "x"), source=WIRE),
            synced(2.0, called(WIRE_1, "x"), source=WIRE, layer=layer),
            synced(2.01, called(T1, "x"), layer=demand(12, 2.02)),
        )

        assert streams(samples) == [1, 12]
        assert len([each for each in samples if each.scope is Scope.STREAMS]) == 2

    def test_demand_that_only_the_log_shows_is_news(self, tracker: Tracker) -> None:
        samples = run(
            tracker,
            raised(1, 1.0, called(WIRE_1, "x"), source=WIRE),
            synced(2.0, called(WIRE_1, "x"), source=WIRE),
            synced(2.01, called(T1, "x"), layer=demand(12, 2.02)),
        )

        assert streams(samples) == [1, 0, 12]

    def test_two_instances_of_one_name_stay_apart(self, tracker: Tracker) -> None:
        run(tracker, seen(1.0, T1), seen(1.0, replace(T1, origin="other.log")))
        run(tracker, seen(1.0, called(WIRE_2, "y"), WIRE))

        assert len(tracker.snapshot(3.0).instances) == 3

    def test_other_thread_of_a_source_is_of_its_instance(self, tracker: Tracker) -> None:
        run(tracker, seen(1.0, called(WIRE_1, "x"), WIRE), seen(1.0, called(T1, "x")))
        run(tracker, seen(1.0, T2))

        assert len(tracker.snapshot(3.0).instances) == 1

    def test_static_instances_are_their_ids(self, tracker: Tracker) -> None:
        run(tracker, seen(1.0, replace(T1, group_instance_id="i-1")))
        run(tracker, seen(1.0, replace(WIRE_2, group_instance_id="j-2"), WIRE))

        assert len(tracker.snapshot(3.0).instances) == 2

    def test_dynamic_thread_is_of_no_static_instance(self, tracker: Tracker) -> None:
        run(tracker, seen(1.0, replace(T1, group_instance_id="i-1")), seen(1.0, WIRE_2, WIRE))

        assert len(tracker.snapshot(3.0).instances) == 2

    def test_clusters_are_apart(self, tracker: Tracker) -> None:
        run(tracker, seen(1.0, T1), seen(1.0, replace(WIRE_2, cluster="l"), WIRE))

        assert len(tracker.snapshot(3.0).instances) == 2

    def test_instance_of_a_provisional_thread_goes_with_it(self, tracker: Tracker) -> None:
        other = replace(WIRE_1, origin="other process")
        run(tracker, seen(1.0, called(WIRE_1, "x"), WIRE), seen(1.0, called(other, "y"), WIRE))
        run(tracker, seen(1.0, T1))

        run(tracker, seen(2.0, called(T1, "x")))

        assert len(tracker.snapshot(3.0).instances) == 2


def test_broker_log_follows_the_process_that_takes_the_place_of_a_static_member(
    tracker: Tracker,
) -> None:
    """Both have the instance id in the broker's log; the later one has another client id."""
    first, second = called(STATIC_LOG, "i-x"), called(STATIC_LOG, "i-y")
    second = replace(second, client_id="c1b", origin="c1b.log")
    by_broker = {id_: replace(BY_INSTANCE, member_id=id_) for id_ in ("i-x", "i-y")}
    run(tracker, seen(1.0, first), seen(2.0, by_broker["i-x"], BROKER))
    run(tracker, raised(3, 3.0, by_broker["i-x"], source=BROKER))
    run(tracker, seen(4.0, by_broker["i-y"], BROKER), seen(5.0, second))

    run(tracker, raised(1, 6.0, by_broker["i-y"], source=BROKER))

    found = {row.client_id: int(row.status) for row in tracker.snapshot(7.0).consumers}
    assert found == {"c1": 3, "c1b": 1}
