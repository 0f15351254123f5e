"""Ends of a group's last members: nobody is left who could notice them."""

import pytest
from msgspec.structs import replace

from aggregation.incidents.incidents import analyze
from aggregation.incidents.model import DepartureMode, Incident, IncidentKind
from aggregation.rebalances.root_cause import Certainty
from metrics.model.sample import NOT_CONFIRMED, Sample, SampleKind, Scope, format_time
from metrics.model.signals import Member, Signal, SignalKind
from tests.aggregation.incidents.test_incidents import joined, kinds, lags, reads, went
from tests.aggregation.rebalances.test_rebalances import NEW, START, A, B, C, records, round_of
from tests.metrics.given import raised, signal

K = IncidentKind
PARTITIONS = (reads(1.5, A, "t-0"), reads(1.5, B, "t-1"), reads(1.5, C, "t-2"))
SESSION_S = 45.0


def silence(member: Member, since: float, at: float) -> Sample:
    """Return the record of a client that ended its connections."""
    (record,) = lags((at, 0, 0))
    return replace(
        record,
        id=f"silent-{member.client_id}-{at}",
        ts=format_time(at),
        field="silent.ms",
        after=str(int((at - since) * 1000)),
        scope=Scope.CONSUMER,
        subject="member",
        client_id=member.client_id,
        host=member.host,
    )


def closed(at: float, member: Member) -> Signal:
    return replace(signal(SignalKind.SEEN, at, member), closes=True, assigned=())


def incidents(*more: Sample, now: float, signals: tuple[Signal, ...] = ()) -> list[Incident]:
    """Return the incidents behind the start of a group of three with a partition each."""
    known = records(*START, *PARTITIONS, *signals)
    return analyze([*known, *more], now=now).incidents[1:]


def test_last_members_that_died_have_expired() -> None:
    dead = [silence(each, 100.0, 170.0) for each in (A, B, C)]

    (found,) = incidents(*dead, now=170.0)

    assert (found.kind, found.certainty) == (K.SESSION_EXPIRED, Certainty.INFERRED)
    assert found.started_at == pytest.approx(100.0 + SESSION_S)
    assert not found.rebalances
    assert found.ended_at is not None
    assert went(found) == [(name, DepartureMode.EXPIRED, False) for name in "abc"]
    assert found.cost.unread_partition_seconds is None


def test_members_that_may_still_be_in_the_group_have_not() -> None:
    dead = [silence(each, 100.0, 170.0) for each in (A, B)]

    assert incidents(*dead, now=170.0) == []


def test_session_that_goes_on_has_not_ended() -> None:
    dead = [silence(each, 140.0, 170.0) for each in (A, B, C)]

    assert incidents(*dead, now=170.0) == []


def test_members_that_come_later_end_what_nobody_read() -> None:
    dead = [silence(each, 100.0, 300.0) for each in (A, B, C)]
    d = replace(A, client_id="d", host="other", origin="other")
    later = (*round_of(3, 200.0, d, causes={"d": NEW}), reads(201.0, d, "t-0", "t-1", "t-2"))

    expired, joined = incidents(*dead, signals=later, now=300.0)

    assert kinds([expired, joined]) == [
        (K.SESSION_EXPIRED, ["a", "b", "c"]),
        (K.MEMBER_JOINED, ["d"]),
    ]
    assert expired.cost.unread_partition_seconds == pytest.approx(3 * 101.0)


@pytest.mark.parametrize(("until", "seconds"), [(180.0, 78.0), (191.0, 88.0), (900.0, 88.0)])
def test_topic_that_a_later_member_does_not_read_counts_while_the_group_lives(
    until: float, seconds: float
) -> None:
    """A static member unsubscribes and expires. The next one reads one of its two topics."""
    d = replace(A, client_id="d", host="other", origin="other")
    story = (
        *(reads(1.5, A, "t-0", "u-0"), reads(102.0, A)),
        *(*round_of(3, 160.0, d, causes={"d": NEW}), reads(160.5, d, "t-0")),
        *(reads(190.0, d), closed(190.1, d)),
    )
    dead = [silence(A, 101.0, 158.0), *(silence(each, 99.0, 158.0) for each in (B, C))]
    known = records(*START, *(each for each in story if each.at <= until))

    (expired, *_) = analyze([*known, *dead], now=until).incidents[1:]

    assert expired.kind is K.SESSION_EXPIRED
    assert expired.cost.unread_partition_seconds == pytest.approx(58.5 + seconds, abs=0.01)


def test_member_whose_status_was_lost_long_after_its_last_request_is_dead() -> None:
    """It was requested to join, and never did. The next member joins without a visible cause."""
    start = [*round_of(1, 0.0, A, causes={"a": NEW}), reads(1.5, A, "t-0")]
    (asked,) = records(raised(1, 100.0, A, reason="Heartbeat answered REBALANCE_IN_PROGRESS"))
    lost = replace(
        asked, id="lost", kind=SampleKind.LOST, ts=format_time(300.0), from_=1, to=None,
        reason=NOT_CONFIRMED,
    )  # fmt: skip
    d = replace(A, client_id="d", host="other", origin="other", group_instance_id="d")
    later = [replace(each, member=d, generation=3) for each in joined(400.0, A)]
    known = records(*start, *later, reads(400.0, d, "t-0"))

    found = analyze([*known, asked, lost, silence(A, 101.0, 350.0)], now=500.0).incidents[1:]

    assert kinds(found) == [
        (K.UNKNOWN, []),
        (K.SESSION_EXPIRED, ["a"]),
        (K.MEMBER_JOINED, ["d"]),
    ]
    assert found[1].cost.unread_partition_seconds == pytest.approx(299.0)


def test_member_that_reads_again_was_not_dead() -> None:
    dead = [silence(each, 100.0, 170.0) for each in (A, B, C)]

    assert incidents(*dead, signals=(reads(160.0, A, "t-0", "t-3"),), now=170.0) == []


def test_last_members_that_closed_without_a_leave_have_left() -> None:
    """A static member closes so, and a thread of Kafka Streams."""
    ends = tuple(closed(100.0 + at, each) for at, each in enumerate((A, B, C)))

    (found,) = incidents(signals=ends, now=160.0)

    assert (found.kind, found.certainty) == (K.MEMBER_LEFT, Certainty.SEEN)
    assert (found.started_at, found.ended_at) == pytest.approx((100.0, 102.0), abs=0.002)
    assert incidents(signals=ends, now=130.0) == []


def test_members_that_ended_minutes_apart_are_two_incidents() -> None:
    ends = [silence(A, 100.0, 170.0), silence(B, 103.0, 170.0), silence(C, 400.0, 470.0)]

    found = incidents(*ends, now=480.0)

    assert kinds(found) == [(K.SESSION_EXPIRED, ["a", "b"]), (K.SESSION_EXPIRED, ["c"])]


@pytest.mark.parametrize(("since", "kind"), [(60.0, K.SESSION_EXPIRED), (80.0, K.UNKNOWN)])
def test_session_that_ended_as_the_others_were_asked_began_their_rebalance(
    since: float, kind: IncidentKind
) -> None:
    """They were asked to join and never did, so nobody else shows who was missing."""
    session = replace(silence(A, 0.0, 1.0), id="s", field="session.timeout.ms", after="45000")
    asked = records(*START, *PARTITIONS, raised(1, 106.0, B), raised(1, 106.5, C))
    lost = [
        replace(each, id=f"l{each.id}", kind=SampleKind.LOST, from_=1, to=None, ts=format_time(136))
        for each in asked
        if each.to == 1 and each.ts > format_time(100)
    ]

    found = analyze([*asked, *lost, session, silence(A, since, 300.0)], now=300.0).incidents[1]

    assert kinds([found]) == [(kind, ["a"] if kind is K.SESSION_EXPIRED else [])]
    assert went(found) == [("a", DepartureMode.EXPIRED, False)]


def test_close_counts_as_soon_as_the_silence_shows_that_the_session_is_over() -> None:
    """The session began with the last request, shortly before the closing line."""
    closes = tuple(closed(104.0, each) for each in (A, B, C))
    dead = [silence(each, 100.0, 146.0) for each in (A, B, C)]

    (found,) = incidents(*dead, now=147.0, signals=closes)

    assert found.kind is K.MEMBER_LEFT
    assert found.started_at == pytest.approx(104.0, abs=0.002)


class TestOfNewProtocols:
    """The others of a KIP-848 group get nothing of a member whose topic they do not read."""

    A, B, C = (replace(each, group_type="consumer") for each in (A, B, C))

    def incidents(
        self, *more: Sample, now: float, signals: tuple[Signal, ...] = ()
    ) -> list[Incident]:
        start = round_of(1, 0.0, self.A, self.B, self.C, causes={"a": NEW, "b": NEW, "c": NEW})
        owned = (reads(1.5, self.A, "t-0"), reads(1.5, self.B, "t-1"), reads(1.5, self.C, "u-0"))
        return analyze([*records(*start, *owned, *signals), *more], now=now).incidents[1:]

    def test_member_that_died_has_expired_though_nobody_noticed(self) -> None:
        (found,) = self.incidents(silence(self.C, 100.0, 170.0), now=200.0)

        assert kinds([found]) == [(K.SESSION_EXPIRED, ["c"])]
        assert found.certainty is Certainty.INFERRED
        assert found.started_at == pytest.approx(100.0 + SESSION_S)
        assert not found.rebalances
        assert went(found) == [("c", DepartureMode.EXPIRED, False)]
        assert found.cost.unread_partition_seconds == pytest.approx(100.0)

    def test_its_expiry_is_before_later_incidents(self) -> None:
        change = round_of(2, 300.0, self.A, self.B, causes={"a": (8, "subscription has changed")})

        found = self.incidents(silence(self.C, 100.0, 170.0), now=400.0, signals=tuple(change))

        assert kinds(found) == [(K.SESSION_EXPIRED, ["c"]), (K.SUBSCRIPTION_CHANGED, ["a"])]

    def test_rebalance_at_the_end_of_its_session_is_of_its_expiry(self) -> None:
        others = (*round_of(2, 145.2, self.A, self.B), reads(146.0, self.A, "t-0", "u-0"))

        (found,) = self.incidents(silence(self.C, 100.0, 170.0), now=400.0, signals=others)

        assert kinds([found]) == [(K.SESSION_EXPIRED, ["c"])]
        assert len(found.rebalances) == 1

    def test_member_that_may_still_be_in_the_group_has_not(self) -> None:
        assert not self.incidents(silence(self.C, 100.0, 140.0), now=140.0)

    def test_member_that_is_back_within_its_session_has_not(self) -> None:
        back = (raised(1, 120.0, self.C), reads(121.0, self.C, "u-0"))
        synced = signal(SignalKind.SYNC, 121.0, self.C, generation=2)

        found = self.incidents(silence(self.C, 100.0, 119.0), now=400.0, signals=(*back, synced))

        assert K.SESSION_EXPIRED not in [each.kind for each in found]


def session(seconds: float, member: Member) -> Sample:
    """Return the record of a member's session timeout."""
    return replace(
        silence(member, 0.0, 1.0),
        id=f"session-{member.client_id}",
        field="session.timeout.ms",
        after=str(int(seconds * 1000)),
    )


def asked(at: float) -> tuple[Signal, ...]:
    """Return the begin of a rebalance that goes on: one member is asked to join again."""
    return (raised(1, at, C, reason="Heartbeat answered REBALANCE_IN_PROGRESS"),)


SESSIONS = [session(6.0, each) for each in (A, B, C)]


def test_open_rebalance_is_that_of_the_member_whose_session_has_ended() -> None:
    """The other one closed later: its session goes on."""
    ends = (reads(97.0, A), closed(97.1, A), reads(100.0, B), closed(100.1, B))

    (found,) = incidents(*SESSIONS, signals=(*ends, *asked(103.2)), now=104.0)

    assert kinds([found]) == [(K.MEMBER_LEFT, ["a"])]


def test_open_rebalance_is_that_of_a_silent_member_whose_session_has_ended() -> None:
    """The log of its client has no closing line, as Java's before 2.7; another one closed later."""
    ends = (reads(97.0, A), reads(100.0, B), closed(100.1, B))

    (found,) = incidents(
        *SESSIONS, silence(A, 97.1, 104.0), signals=(*ends, *asked(103.2)), now=104.0
    )

    assert kinds([found]) == [(K.SESSION_EXPIRED, ["a"])]


def test_open_rebalance_before_any_session_has_ended_has_no_cause() -> None:
    ends = (reads(100.0, B), closed(100.1, B))

    (found,) = incidents(*SESSIONS, signals=(*ends, *asked(103.2)), now=104.0)

    assert kinds([found]) == [(K.UNKNOWN, [])]
