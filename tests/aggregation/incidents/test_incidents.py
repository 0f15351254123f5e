"""Incidents of invented histories; the expected results were written by hand from incidents.md."""

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from aggregation.explain.incident_words import lag_growth, reason_of, summarize
from aggregation.incidents.answers import answer_of
from aggregation.incidents.incidents import analyze, recent
from aggregation.incidents.model import DepartureMode, Incident, IncidentKind
from aggregation.incidents.recommendations import recommend
from aggregation.incidents.settings import ClientKind
from aggregation.rebalances.rebalances import RETURN_S, explain_rebalances
from aggregation.rebalances.root_cause import Certainty
from metrics.model.sample import (
    NO_REASON_BACK,
    UNEXPLAINED,
    Sample,
    SampleKind,
    Scope,
    format_time,
    parse_time,
)
from metrics.model.signals import FollowUp, Member, Signal, SignalKind, SourceKind
from metrics.model.status import RebalanceStatus
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker
from tests.aggregation.rebalances.test_rebalances import (
    NEW,
    START,
    A,
    B,
    C,
    D,
    left,
    records,
    round_of,
)
from tests.metrics.given import raised, signal

K = IncidentKind
AT_ONCE = "triggered followup rebalance scheduled for 0"
REVOKES = FollowUp(status=RebalanceStatus.REVOCATION_NEEDED, at=101.0, reason="to revoke: t-0")


def incidents(*signals: Signal, now: float | None = None) -> list[Incident]:
    """Return the incidents behind the start of a group of three."""
    return analyze(records(*START, *signals), now=now).incidents[1:]


def names(incident: Incident) -> list[str]:
    return [member.client_id for member in incident.members]


def kinds(found: Iterable[Incident]) -> list[tuple[IncidentKind, list[str]]]:
    return [(each.kind, names(each)) for each in found]


def went(incident: Incident) -> list[tuple[str, DepartureMode, bool]]:
    return [
        (each.member.client_id, each.how, each.returned_at is not None)
        for each in incident.departures
    ]


def by_broker(each: Signal) -> Signal:
    return replace(each, source=SourceKind.BROKER_LOG)


def by_proxy(record: Sample) -> Sample:
    """Return a proxy's records of the same: a little later, with the peer's address."""
    return replace(
        record,
        id=f"proxy-{record.id}",
        ts=format_time(parse_time(record.ts) + 0.004),
        agent="proxy",
        host=f"10.0.0.{ord(record.client_id or 'a')}",
        episode=f"proxy-{record.episode}",
        source="wire",
    )


def reads(at: float, member: Member, *partitions: str) -> Signal:
    return replace(signal(SignalKind.SEEN, at, member), assigned=partitions)


def joined(at: float, member: Member) -> list[Signal]:
    """Return a join without a rebalance, as a static member's."""
    return [signal(kind, at, member) for kind in (SignalKind.JOIN, SignalKind.SYNC)]


def leave_of_a(at: float) -> list[Signal]:
    return [left(at, A, "closed"), *round_of(2, at + 1, B, C)]


def at_second(at: float) -> float:
    """Return the Unix time of a record at this second of a history."""
    (record, *_) = records(raised(1, at, A))
    return parse_time(record.ts)


def without_generation(signals: list[Signal]) -> list[Signal]:
    return [replace(each, generation=None) for each in signals]


def alone(member: Member, *signals: Signal) -> list[Incident]:
    """Return the incidents behind the start of a group of one."""
    start = round_of(1, 0.0, member, causes={member.client_id: NEW})
    return analyze(records(*without_generation(start), *signals)).incidents[1:]


def lags(*steps: tuple[float, int, int]) -> list[Sample]:
    """Return the records of a group's changed lag: time, before, after."""
    (given,) = records(raised(1, 0.0, A))
    nobody = {"client_id": None, "host": "", "to": None, "episode": None}
    return [
        replace(
            given,
            id=f"lag-{at}",
            kind=SampleKind.CHANGE,
            scope=Scope.GROUP,
            ts=format_time(at_second(at)),
            subject="group",
            field="lag",
            before=str(before),
            after=str(after),
            **nobody,
        )
        for at, before, after in steps
    ]


def behind_agents(lost: set[str], *signals: Signal) -> list[Incident]:
    """Return the incidents where the agents of some members went before second 50, for others."""
    found = [
        replace(record, agent=f"{record.client_id}-{record.ts > format_time(at_second(50.0))}")
        if record.client_id in lost
        else replace(record, agent="b")
        for record in records(*START, *signals)
    ]
    return analyze(found).incidents[1:]


def after(changes: list[Sample], *signals: Signal) -> list[Incident]:
    """Return the incidents behind the start of a group, with other records of it."""
    return analyze([*records(*START, *signals), *changes]).incidents[1:]


def versions(*steps: tuple[float, str]) -> list[Sample]:
    """Return the records of the application's version: time, value of new members."""
    return [
        replace(record, scope=Scope.CONSUMER, subject="member", field="version", after=version)
        for (record, (_, version)) in zip(
            lags(*((at, 0, 0) for at, _ in steps)), steps, strict=True
        )
    ]


class TestKinds:
    def test_start_of_a_group_is_one_join_of_all(self) -> None:
        (found,) = analyze(records(*START)).incidents

        assert kinds([found]) == [(K.MEMBER_JOINED, ["a", "b", "c"])]
        assert found.cost.unread_partition_seconds is None

    def test_leave_without_a_successor(self) -> None:
        (found,) = incidents(left(100.0, A, "closed"), *round_of(2, 101.0, B, C))

        assert kinds([found]) == [(K.MEMBER_LEFT, ["a"])]
        assert went(found) == [("a", DepartureMode.LEFT, False)]
        assert not found.is_ongoing

    def test_leave_and_return_of_one_is_a_restart(self) -> None:
        (found,) = incidents(
            left(100.0, A, "closed"),
            *round_of(2, 101.0, B, C),
            *round_of(3, 130.0, A, B, C, causes={"a": NEW}),
        )

        assert kinds([found]) == [(K.RESTART, ["a"])]
        assert went(found) == [("a", DepartureMode.LEFT, True)]
        assert [span.generations for span in found.rebalances] == [(2,), (3,)]

    def test_leave_and_return_after_eleven_minutes_are_two(self) -> None:
        """A group that is scaled down at night, and up in the morning, has no restart."""
        found = incidents(
            left(100.0, A, "closed"),
            *round_of(2, 101.0, B, C),
            *round_of(3, 760.0, A, B, C, causes={"a": NEW}),
        )

        assert kinds(found) == [(K.MEMBER_LEFT, ["a"]), (K.MEMBER_JOINED, ["a"])]
        assert went(found[0]) == [("a", DepartureMode.LEFT, False)]
        assert (found[0].ended_at or 0.0) < at_second(110.0)

    def test_stop_of_all_and_a_start_of_all_days_later_are_no_rollout(self) -> None:
        day = 86_400.0
        found = incidents(
            left(100.0, A, "closed"),
            *round_of(2, 101.0, B, C),
            left(103.0, B, "closed"),
            *round_of(3, 103.5, C),
            left(105.0, C, "closed"),
            *round_of(4, day, A, causes={"a": NEW}),
            *round_of(5, day + 40.0, A, B, causes={"b": NEW}),
            *round_of(6, day + 80.0, A, B, C, causes={"c": NEW}),
        )

        assert kinds(found) == [
            (K.MEMBER_LEFT, ["a", "b", "c"]),
            (K.MEMBER_JOINED, ["a"]),
            (K.MEMBER_JOINED, ["b"]),
            (K.MEMBER_JOINED, ["c"]),
        ]

    def test_expired_member_that_joins_again_hours_later_is_a_new_one(self) -> None:
        found = incidents(
            *round_of(2, 100.0, B, C), *round_of(3, 7_300.0, A, B, C, causes={"a": NEW})
        )

        assert kinds(found) == [(K.SESSION_EXPIRED, ["a"]), (K.MEMBER_JOINED, ["a"])]
        assert went(found[0]) == [("a", DepartureMode.EXPIRED, False)]

    def test_return_within_the_rebalance_of_a_leave_is_no_other_cause(self) -> None:
        (found,) = incidents(
            left(100.0, A, "closed"), *round_of(2, 100.5, A, B, C, causes={"a": NEW})
        )

        assert kinds([found]) == [(K.RESTART, ["a"])]
        assert found.also == ()

    def test_leave_whose_records_are_of_two_agents_is_a_leave(self) -> None:
        """An agent that replaces another writes the history again; either copy may be kept."""
        (found,) = analyze(
            [
                replace(record, agent="next", seq=1) if record.to == 0 else replace(record, seq=500)
                for record in records(
                    *START,
                    left(100.0, A, "closed"),
                    *round_of(2, 101.0, B, C),
                    *round_of(3, 130.0, A, B, C, causes={"a": NEW}),
                )
            ]
        ).incidents[1:]

        assert kinds([found]) == [(K.RESTART, ["a"])]
        assert went(found) == [("a", DepartureMode.LEFT, True)]

    def test_restarts_of_two_are_a_rollout(self) -> None:
        (found,) = incidents(
            left(100.0, A, "closed"),
            *round_of(2, 101.0, B, C),
            *round_of(3, 130.0, A, B, C, causes={"a": NEW}),
            left(200.0, B, "closed"),
            *round_of(4, 201.0, A, C),
            *round_of(5, 230.0, A, B, C, causes={"b": NEW}),
        )

        assert kinds([found]) == [(K.ROLLOUT, ["a", "b"])]
        assert len(found.rebalances) == 4

    def test_member_that_restarts_twice_in_a_rollout_is_part_of_it(self) -> None:
        signals = list[Signal]()
        for number, member in enumerate((A, B, B, C)):
            at, generation = 100.0 + 60 * number, 2 + 2 * number
            others = [each for each in (A, B, C) if each is not member]
            signals += [left(at, member, "closed"), *round_of(generation, at + 1, *others)]
            new = {member.client_id: NEW}
            signals += round_of(generation + 1, at + 20, A, B, C, causes=new)

        (found,) = incidents(*signals)

        assert kinds([found]) == [(K.ROLLOUT, ["a", "b", "c"])]
        assert [name for name, *_ in went(found)] == ["a", "b", "b", "c"]
        assert len(found.rebalances) == 8

    def test_rollout_names_the_version_that_it_brings(self) -> None:
        def once(at: float, member: Member) -> list[Signal]:
            return [left(at, member, "closed"), raised(2, at + 20.0, member)]

        signals = [
            *once(2000.0, A),
            *round_of(2, 2020.5, A, B, C),
            *once(2060.0, B),
            *round_of(3, 2080.5, A, B, C),
        ]
        (found,) = after(versions((10.0, "1.4"), (2020.2, "1.5"), (2080.2, "1.5")), *signals)

        assert found.kind is K.ROLLOUT
        assert found.detail == {"field": "version", "before": "1.4", "after": "1.5"}

    def test_restart_has_the_longest_session_timeout_of_its_members(self) -> None:
        """Static membership is proposed with no shorter one."""
        signals = [
            left(2000.0, A, "closed"),
            *round_of(2, 2000.5, B, C),
            raised(2, 2020.0, A),
            *round_of(3, 2020.5, A, B, C),
        ]
        timeout = {"field": "session.timeout.ms", "subject": "member", "scope": Scope.CONSUMER}
        sessions = [
            replace(lags((10.0, 0, 0))[0], client_id=name, host=A.host, after=after, **timeout)
            for name, after in (("a", "10000"), ("b", "30000"))
        ]
        assert after([], *signals)[0].detail == {}
        (found,) = after(sessions, *signals)
        assert found.kind is K.RESTART
        assert found.detail == {"session_timeout_ms": 10_000}

    def test_rollout_that_two_agents_see_is_one_incident_with_all_rebalances(self) -> None:
        """Each return is recorded twice; the third one is of a restart that was merged already."""
        signals, generation = list[Signal](), 1
        for number, member in enumerate((A, B, C)):
            at, others = 100.0 * (number + 1), [each for each in (A, B, C) if each != member]
            signals += [left(at, member, "closed"), *round_of(generation + 1, at + 1, *others)]
            came = {member.client_id: NEW}
            signals += round_of(generation + 2, at + 30, A, B, C, causes=came)
            generation += 2
        here = [replace(r, member_id=f"{r.client_id}-id") for r in records(*START, *signals)]
        found = analyze([*here, *map(by_proxy, here)])

        rollout = found.incidents[-1]
        assert kinds([rollout]) == [(K.ROLLOUT, ["a", "b", "c"])]
        assert [member.host for member in rollout.members] == ["h-a", "h-b", "h-c"]
        in_incidents = [span.id for each in found.incidents for span in each.rebalances]
        assert sorted(in_incidents) == sorted(each.round.id for each in found.rebalances)

    def test_three_times_within_ten_minutes_is_a_crash_loop(self) -> None:
        signals = list[Signal]()
        for number in range(3):
            at, generation = 100.0 + 60 * number, 2 + 2 * number
            signals += [left(at, A, "closed"), *round_of(generation, at + 1, B, C)]
            signals += round_of(generation + 1, at + 20, A, B, C, causes={"a": NEW})

        (found,) = incidents(*signals)

        assert kinds([found]) == [(K.CRASH_LOOP, ["a"])]
        assert len(found.departures) == 3

    def test_rollout_beside_a_crash_loop_is_an_incident_of_its_own(self) -> None:
        signals = list[Signal]()
        for number, member in enumerate((B, A, C, A, A)):
            at, generation = 100.0 + 60 * number, 2 + 2 * number
            others = [each for each in (A, B, C) if each is not member]
            signals += [left(at, member, "closed"), *round_of(generation, at + 1, *others)]
            new = {member.client_id: NEW}
            signals += round_of(generation + 1, at + 20, A, B, C, causes=new)

        rollout, loop = incidents(*signals)

        assert kinds([rollout, loop]) == [(K.ROLLOUT, ["b", "c"]), (K.CRASH_LOOP, ["a"])]
        assert [name for name, *_ in went(rollout)] == ["b", "c"]
        assert [name for name, *_ in went(loop)] == ["a", "a", "a"]
        spans = [span.generations for span in rollout.rebalances]
        assert spans == [(2,), (3,), (6,), (7,)]
        assert len(loop.rebalances) == 6

    def test_whoever_expired_beside_it_once_is_no_part_of_the_loop(self) -> None:
        signals = [
            *round_of(2, 110.0, C),
            *round_of(3, 120.0, A, B, C, causes={"a": NEW, "b": NEW}),
        ]
        for number in range(2):
            at, generation = 160.0 + 60 * number, 4 + 2 * number
            signals += [left(at, A, "closed"), *round_of(generation, at + 1, B, C)]
            signals += round_of(generation + 1, at + 20, A, B, C, causes={"a": NEW})

        loops = [each for each in incidents(*signals) if each.kind is K.CRASH_LOOP]

        assert kinds(loops) == [(K.CRASH_LOOP, ["a"])]

    def test_final_stop_is_no_part_of_a_loop(self) -> None:
        """It came and went twice, and then all stop; one that comes back again is in a loop."""
        steps: list[Signal] = []
        for number, at in enumerate((100.0, 200.0)):
            again = round_of(3 + 2 * number, at + 20.0, A, B, C, causes={"a": NEW})
            steps += [*leave_of_a(at), *again]
        stop = [left(300.0, A), *round_of(6, 301.0, B, C), left(305.0, B), left(306.0, C)]
        back = round_of(7, 400.0, A, causes={"a": NEW})

        assert K.CRASH_LOOP not in {each.kind for each in incidents(*steps, *stop)}
        assert K.CRASH_LOOP in {each.kind for each in incidents(*steps, *stop, *back)}

    def test_loop_that_ends_with_a_stop_of_all_is_a_loop(self) -> None:
        """It came back each time, within the minute before the stop."""
        steps: list[Signal] = []
        for number, at in enumerate((100.0, 110.0, 120.0)):
            again = round_of(3 + 2 * number, at + 4.0, A, B, C, causes={"a": NEW})
            left_ = [left(at, A, "closed"), *round_of(2 + 2 * number, at + 1.0, B, C)]
            steps += [*left_, *again]
        stop = [left(130.0, C), *round_of(8, 131.0, A, B), left(133.0, B), left(134.0, A)]

        found = incidents(*steps, *stop)

        assert kinds(found)[0] == (K.CRASH_LOOP, ["a"])

    def test_member_that_leaves_within_the_return_of_another_is_of_the_rollout(self) -> None:
        """Its leave waits behind its join, so it has no rebalance of its own."""
        (found,) = incidents(
            left(100.0, A, "closed"),
            *round_of(2, 101.0, B, C),
            *round_of(3, 110.0, A, C, causes={"a": NEW}),
            left(110.3, B, "closed"),
            *round_of(4, 115.0, A, B, C, causes={"b": NEW}),
        )

        assert kinds([found]) == [(K.ROLLOUT, ["a", "b"])]

    def test_member_that_is_killed_and_back_within_a_restart_makes_it_a_rollout(self) -> None:
        (found,) = incidents(
            left(100.0, A, "closed"),
            *round_of(2, 101.0, B, C),
            *round_of(3, 110.0, A, C, causes={"a": NEW}, joins={"a": 110.4}),
            raised(2, 110.2, B, reason=NEW[1]),
            signal(SignalKind.SYNC, 110.9, B, generation=3),
        )

        assert kinds([found]) == [(K.ROLLOUT, ["a", "b"])]

    def test_member_that_is_gone_again_when_the_next_is_back_was_part_of_the_rollout(self) -> None:
        (found,) = incidents(
            left(100.0, A, "closed"),
            left(100.1, B, "closed"),
            *round_of(2, 101.0, C),
            *round_of(3, 110.0, A, C, causes={"a": NEW}),
            *round_of(4, 130.0, B, C, causes={"b": NEW}),
        )

        assert kinds([found]) == [(K.ROLLOUT, ["a", "b"])]
        assert went(found) == [
            ("a", DepartureMode.LEFT, True),
            ("b", DepartureMode.LEFT, True),
            ("a", DepartureMode.EXPIRED, False),
        ]

    def test_all_that_stop_within_a_minute_are_one(self) -> None:
        (found,) = incidents(
            left(100.0, A),
            *round_of(2, 101.0, B, C),
            left(110.0, B),
            *round_of(3, 111.0, C),
            left(120.0, C),
        )

        assert kinds([found]) == [(K.MEMBER_LEFT, ["a", "b", "c"])]

    def test_drop_goes_on_until_the_member_is_back(self) -> None:
        dropped = raised(5, 100.0, A, reason="poll interval expired")
        others = round_of(2, 101.0, B, C)
        back = [raised(2, 130.0, A), signal(SignalKind.SYNC, 130.6, A, generation=3)]

        (out,) = incidents(dropped, *others, now=110.0)
        (over,) = incidents(dropped, *others, *back, *round_of(3, 130.1, B, C))

        assert kinds([out, over]) == [(K.POLL_TIMEOUT, ["a"])] * 2
        assert (out.is_ongoing, over.is_ongoing) == (True, False)
        assert [m.client_id for m in out.members_out] == ["a"]
        assert went(over) == [("a", DepartureMode.DROPPED, True)]

    @pytest.mark.parametrize("out_s", [30.0, 7_200.0])
    def test_member_that_is_back_is_not_dropped_again(self, out_s: float) -> None:
        """Within an hour its return is part of the drop; later it joins as any other does."""
        dropped = raised(5, 100.0, A, reason="poll interval expired")
        at = 101.0 + out_s
        back = [signal(SignalKind.SYNC, at + 0.6, A, generation=3)]

        drop, *joins = incidents(
            dropped, *round_of(2, 101.0, B, C), *back, *round_of(3, at + 0.1, B, C)
        )

        assert kinds([drop]) == [(K.POLL_TIMEOUT, ["a"])]
        assert went(drop) == [("a", DepartureMode.DROPPED, True)]
        assert kinds(joins) == ([(K.MEMBER_JOINED, ["a"])] if out_s > RETURN_S else [])

    def test_next_drop_of_a_muted_member_is_an_incident_of_its_own(self) -> None:
        """Its log shows drops alone, so its return was not seen."""
        drops = [
            replace(raised(5, at, A, reason="poll interval expired"), is_muted=True)
            for at in (100.0, 1_000.0)
        ]
        tracker, found = Tracker(StatusConfig()), list[Sample]()
        for drop in drops:
            found += [*tracker.advance(drop.at), *tracker.apply(drop)]

        first, second = analyze(found, now=1_010.0).incidents
        rebalances = explain_rebalances(found)

        assert kinds([first, second]) == [(K.POLL_TIMEOUT, ["a"])] * 2
        assert (first.is_ongoing, second.is_ongoing) == (False, True)
        assert went(first) == went(second) == [("a", DepartureMode.DROPPED, False)]
        assert [each.caused_by for each in rebalances] == [None, None]

    def test_leave_is_a_drop_where_the_return_shows_it(self) -> None:
        """On the wire a leave has no reason in most clients; it waits for none."""
        back = signal(
            SignalKind.NOTE,
            120.0,
            A,
            status=RebalanceStatus.DROPPED_GROUP,
            reason="no reason given, back 20.0 s later on the same connection",
        )
        again = round_of(3, 120.0, A, B, C, causes={"a": NEW})

        (found,) = incidents(left(100.0, A), *round_of(2, 101.0, B, C), back, *again)

        assert kinds([found]) == [(K.POLL_TIMEOUT, ["a"])]
        assert found.certainty is Certainty.INFERRED
        assert went(found) == [("a", DepartureMode.DROPPED, True)]

    def test_process_that_goes_on_is_no_crash_loop(self) -> None:
        """It left three times without a reason, and each time joined on the same connection."""
        signals: list[Signal] = []
        for number, at in enumerate((100.0, 150.0, 200.0)):
            back = signal(
                SignalKind.NOTE,
                at + 20.0,
                A,
                status=RebalanceStatus.USER_REQUESTED,
                reason="no reason given, back 20.0 s later on the same connection",
            )
            again = round_of(3 + 2 * number, at + 20.0, A, B, C, causes={"a": NEW})
            signals += [left(at, A), *round_of(2 + 2 * number, at + 1.0, B, C), back, *again]

        found = incidents(*signals)

        assert kinds(found) == [(K.RESTART, ["a"])] * 3
        assert {each.certainty for each in found} == {Certainty.INFERRED}

    def test_drop_that_is_printed_with_the_return_explains_the_leave(self) -> None:
        """confluent-kafka-python prints librdkafka's lines at the next poll."""
        printed = raised(5, 119.9, A, reason="poll interval exceeded by 475ms")
        again = round_of(3, 120.0, A, B, C, causes={"a": NEW})

        (found,) = incidents(left(100.0, A), *round_of(2, 101.0, B, C), printed, *again)

        assert kinds([found]) == [(K.POLL_TIMEOUT, ["a"])]
        assert len(found.rebalances) == 2
        assert went(found) == [("a", DepartureMode.DROPPED, True)]

    @pytest.mark.parametrize(("at", "expected"), [(110.0, K.SESSION_EXPIRED), (101.0, K.UNKNOWN)])
    def test_silent_member_of_a_share_group_has_expired(
        self, at: float, expected: IncidentKind
    ) -> None:
        """Its partitions have no owners: the end of its connections shows it."""
        a, b, c = (replace(each, group_type="share") for each in (A, B, C))
        start = round_of(1, 0.0, a, b, c, causes={"a": NEW, "b": NEW, "c": NEW})
        others = [raised(1, at, each) for each in (b, c)]
        ends = [signal(SignalKind.SYNC, at + 0.5, each, generation=2) for each in (b, c)]
        found = records(*start, *others, *ends)
        (silence,) = lags((160.0, 0, 0))
        of_a = {"field": "silent.ms", "after": "60000", "group_type": "share"}
        silence = replace(
            silence, **of_a, scope=Scope.CONSUMER, subject="member", client_id="a", host=A.host
        )

        (_, incident) = analyze([*found, silence]).incidents

        assert incident.kind is expected
        if expected is K.SESSION_EXPIRED:
            assert went(incident) == [("a", DepartureMode.EXPIRED, False)]

    def test_follow_up_that_goes_on_belongs_to_what_it_follows(self) -> None:
        """A member still has to revoke, and the next generation is not known yet."""
        joins = [raised(2, 100.0, A, reason=NEW[1]), raised(1, 100.2, B), raised(1, 100.2, C)]
        first = [
            signal(SignalKind.SYNC, 101.0, A, generation=3),
            signal(SignalKind.SYNC, 101.0, B, generation=3, own=REVOKES),
            signal(SignalKind.SYNC, 101.0, C, generation=3),
        ]
        again = [raised(1, 101.8, C), raised(6, 101.9, A, reason=AT_ONCE)]

        (found,) = incidents(
            left(50.0, A), *round_of(2, 51.0, B, C), *joins, *first, *again, now=102.0
        )[-1:]

        assert found.is_ongoing
        assert found.kind is not K.UNKNOWN
        assert len(found.rebalances) == 2

    def test_log_without_instance_ids_is_of_the_member_on_the_wire(self) -> None:
        """Librdkafka's log has none. The timeout that the wire shows is the member's, too."""
        seen = records(*START, *round_of(2, 100.0, B, C))
        logs = [replace(record, member_id=f"{record.client_id}-1") for record in seen]
        wire = [
            replace(
                by_proxy(record),
                group_instance_id=f"i-{record.client_id}",
                field="session.timeout.ms",
                kind=SampleKind.CHANGE,
                subject="member",
                after="10000",
            )
            for record in logs
            if record.client_id == "a"
        ]

        (_, found) = analyze([*logs, *wire]).incidents

        assert (found.kind, names(found)) == (K.SESSION_EXPIRED, ["a"])
        assert found.members[0].group_instance_id == "i-a"
        assert found.detail["session_timeout_ms"] == 10_000

    @pytest.mark.parametrize("second_at", [103.0, 130.0])
    def test_static_members_that_close_within_one_session(self, second_at: float) -> None:
        """The rebalance at the end of the first one's session waits for that of the second one."""
        close_a, close_b = (
            replace(signal(SignalKind.SEEN, at, each), closes=True, assigned=())
            for at, each in ((100.0, A), (second_at, B))
        )
        asked = [raised(1, 145.3, C), signal(SignalKind.JOIN, 145.3, C)]

        found = incidents(close_b, close_a, *asked, now=at_second(146.0))

        assert kinds(found) == [(K.MEMBER_LEFT, ["a"])]
        assert found[0].certainty is Certainty.SEEN
        assert [each.member.client_id for each in found[0].waiting_for] == ["b"]

    def test_close_without_a_leave_right_behind_a_rebalance_costs_for_the_leave(self) -> None:
        """A Streams thread: its partitions are unread until its session has expired."""
        change = round_of(2, 100.0, A, B, C, causes={"a": (8, "s")})
        owns = [reads(100.6, A, "t-0"), reads(100.6, B, "t-1")]
        closed = replace(signal(SignalKind.SEEN, 101.0, A), closes=True, assigned=())
        taken = reads(107.5, B, "t-0", "t-1")

        changed, gone = incidents(*change, *owns, closed, *round_of(3, 107.0, B, C), taken)

        assert kinds([changed, gone]) == [(K.SUBSCRIPTION_CHANGED, ["a"]), (K.MEMBER_LEFT, ["a"])]
        assert changed.cost.unread_partition_seconds == 0.0
        assert gone.cost.unread_partition_seconds == pytest.approx(6.5)

    def test_static_member_that_came_back_from_a_close_is_not_closed(self) -> None:
        """Its group did not notice the restart. Then it was killed."""
        closed = replace(signal(SignalKind.SEEN, 50.0, A), closes=True, assigned=())
        back = [reads(60.0, A, "t-0")]
        start = [reads(1.5, A, "t-0")]

        (stays_closed,) = incidents(*start, closed, *round_of(2, 100.0, B, C))
        (killed,) = incidents(*start, closed, *back, *round_of(2, 100.0, B, C))

        assert (stays_closed.kind, killed.kind) == (K.MEMBER_LEFT, K.SESSION_EXPIRED)

    def test_generations_that_one_log_shows_no_end_of_are_one_rebalance(self) -> None:
        """B's log (kafka-python) has no line of the generations that the next one overtakes."""
        drop = raised(5, 100.0, A, reason="poll interval expired")
        of_c = [
            each
            for generation, at in ((2, 101.0), (3, 102.0), (4, 104.0))
            for each in (
                raised(1, at, C),
                signal(SignalKind.SYNC, at + 0.5, C, generation=generation),
            )
        ]
        of_b = [raised(1, 100.5, B), signal(SignalKind.SYNC, 104.5, B, generation=4)]
        back = [raised(2, 103.5, A), signal(SignalKind.SYNC, 104.5, A, generation=4)]

        (found,) = incidents(drop, *of_c, *of_b, *back)

        assert kinds([found]) == [(K.POLL_TIMEOUT, ["a"])]
        assert went(found) == [("a", DepartureMode.DROPPED, True)]

    def test_drop_within_the_rebalance_of_another_is_its_departure(self) -> None:
        """A cause that is seen after its effect began is no cause of it."""
        (found,) = incidents(
            *round_of(2, 100.0, B, C, causes={"b": (8, "topics")}, joins={"c": 110.0}),
            raised(5, 105.0, A, reason="poll interval expired"),
        )

        assert kinds([found]) == [(K.SUBSCRIPTION_CHANGED, ["b"])]
        assert went(found) == [("a", DepartureMode.DROPPED, False)]

    def test_silent_member_has_expired(self) -> None:
        (found,) = incidents(*round_of(2, 100.0, B, C))

        assert kinds([found]) == [(K.SESSION_EXPIRED, ["a"])]
        assert found.certainty is Certainty.INFERRED

    def test_expired_member_that_returns_belongs_to_its_expiry(self) -> None:
        (found,) = incidents(
            *round_of(2, 100.0, B, C), *round_of(3, 140.0, A, B, C, causes={"a": (3, "unknown")})
        )

        assert kinds([found]) == [(K.SESSION_EXPIRED, ["a"])]
        assert went(found) == [("a", DepartureMode.EXPIRED, True)]

    @pytest.mark.parametrize(("code", "is_new"), [(3, False), (2, True)])
    def test_expired_member_that_joins_as_new_is_no_pause(self, code: int, is_new: bool) -> None:
        """A process that went on learns that it was removed."""
        (found,) = incidents(
            *round_of(2, 100.0, B, C), *round_of(3, 140.0, A, B, C, causes={"a": (code, "back")})
        )

        assert kinds([found]) == [(K.SESSION_EXPIRED, ["a"])]
        assert [each.returned_as_new for each in found.departures] == [is_new]
        assert found.detail.get("returned_as_new", False) is is_new

    def test_member_that_goes_with_its_agent_and_is_back_with_another_has_expired(self) -> None:
        """A killed pod takes its sidecar with it; the next one's agent has another name."""
        (found,) = behind_agents(
            {"a"}, *round_of(2, 100.0, B, C), *round_of(3, 140.0, A, B, C, causes={"a": NEW})
        )

        assert kinds([found]) == [(K.SESSION_EXPIRED, ["a"])]
        assert found.certainty is Certainty.INFERRED
        assert went(found) == [("a", DepartureMode.EXPIRED, True)]
        assert len(found.rebalances) == 2

    def test_one_of_two_that_went_with_their_agents_is_not_named_by_its_return(self) -> None:
        found = behind_agents(
            {"a", "b"}, *round_of(2, 100.0, C), *round_of(3, 140.0, A, C, causes={"a": NEW})
        )

        assert kinds(found)[0] == (K.UNKNOWN, [])

    def test_round_long_before_a_new_process_is_not_of_the_one_before(self) -> None:
        found = behind_agents(
            {"a"}, *round_of(2, 100.0, B, C), *round_of(3, 900.0, A, B, C, causes={"a": NEW})
        )

        assert kinds(found)[0] == (K.UNKNOWN, [])

    def test_member_that_learns_that_it_was_removed_went_once_and_is_back(self) -> None:
        """It joins again as new, within the same episode."""
        (found,) = incidents(
            raised(3, 100.0, A, reason="UNKNOWN_MEMBER_ID"),
            raised(2, 100.1, A),
            *round_of(2, 100.2, A, B, C),
        )

        assert kinds([found]) == [(K.SESSION_EXPIRED, ["a"])]
        assert went(found) == [("a", DepartureMode.EXPIRED, True)]

    def test_word_of_a_removed_member_is_the_cause_of_the_round_without_it(self) -> None:
        """A client without generations in its log: its own line comes after its expiry."""
        other = without_generation(round_of(2, 100.0, A))
        back = [raised(3, 103.0, B), *without_generation(round_of(3, 104.0, A, B))]

        (found,) = alone(A, *other, *back)

        assert kinds([found]) == [(K.SESSION_EXPIRED, ["b"])]
        assert [each.started_at for each in found.rebalances] == pytest.approx(
            [at_second(100.1), at_second(103.0)]
        )
        assert went(found) == [("b", DepartureMode.EXPIRED, True)]

    def test_word_of_a_removed_member_that_took_part_is_no_cause_of_that_round(self) -> None:
        rounds = without_generation(round_of(2, 100.0, A, B))
        back = [raised(3, 113.0, B), *without_generation(round_of(3, 114.0, A, B))]

        found = alone(A, *rounds, *back)

        assert kinds(found) == [(K.UNKNOWN, []), (K.SESSION_EXPIRED, ["b"])]

    @pytest.mark.parametrize("is_log_first", [False, True])
    def test_topic_of_a_pattern_is_one_cause_by_log_and_wire(self, *, is_log_first: bool) -> None:
        words = "subscription has changed from [{}] to [{}]".format
        log = raised(7, 101.0, A, reason="subscription updated from metadata change")
        wire = raised(8, 101.001, A, source=SourceKind.WIRE, reason=words("t-0", "t-0, t-1"))
        before = round_of(1, 90.0, A, B, causes={"a": (8, words("", "t-0"))})
        both = [log, wire] if is_log_first else [wire, log]

        found = incidents(*before, *both, *round_of(2, 101.002, A, B))

        assert kinds(found[-1:]) == [(K.SUBSCRIPTION_CHANGED, ["a"])]
        assert found[-1].started_at >= 101.0
        assert found[-1].detail["added"] == ["t-1"]

    def test_followers_that_join_again_and_keep_their_generation_are_no_rebalance(self) -> None:
        """The leader is not asked: it has not gone, and its partitions are read."""
        again = round_of(1, 100.0, B, C, causes={"b": (7, "metadata"), "c": (7, "metadata")})
        found = incidents(*again, *round_of(2, 101.0, A, B, C, causes={"a": (7, "metadata")}))

        assert kinds(found) == [(K.METADATA_CHANGED, [])]
        assert [each.generations for each in found[0].rebalances] == [(2,)]
        assert went(found[0]) == []

    def test_follower_that_joins_again_before_its_log_is_read_is_no_rebalance(self) -> None:
        """The wire shows a join without a cause; the log's cause comes a moment later."""
        found = records(
            *START,
            *round_of(1, 100.0, B, causes={"b": (7, "metadata")}),
            *round_of(2, 101.0, A, B, C, causes={"a": (7, "metadata")}),
        )
        synced = next(each for each in found if each.ts > found[0].ts and each.reason == "metadata")
        note = replace(
            synced, id="join", kind=SampleKind.SIGNAL, reason=UNEXPLAINED, to=None, episode=None
        )

        (_, *later) = analyze([*found, note]).incidents

        assert [[each.generations for each in one.rebalances] for one in later] == [[(2,)]]
        assert went(later[0]) == []

    def test_static_member_that_gets_its_generation_again_makes_nobody_absent(self) -> None:
        """Its log shows a drop, the wire its join under another member id, a moment later."""
        first, again = (replace(A, group_instance_id="i", member_id=f"i-{n}") for n in (1, 2))
        start = round_of(1, 0.0, first, B, C, causes={"a": NEW})
        drop = raised(5, 100.0, first, reason="poll interval exceeded by 159ms")
        found = records(*start, drop, signal(SignalKind.SYNC, 100.1, again, generation=1))
        synced = next(each for each in found if each.reason and "exceeded" in each.reason)
        join = {"reason": UNEXPLAINED, "to": None, "episode": None, "member_id": "i-2"}
        wire = replace(synced, id="join", kind=SampleKind.SIGNAL, source="wire", **join)

        (_, incident) = analyze([*found, wire]).incidents

        assert kinds([incident]) == [(K.POLL_TIMEOUT, ["a"])]
        assert went(incident) == [("a", DepartureMode.DROPPED, True)]
        assert incident.also == ()

    def test_return_without_a_visible_cause_begins_the_second_rebalance_of_a_restart(self) -> None:
        """Java's consumers below 2.8 log no reason for a join; it follows within two seconds."""
        found = incidents(
            *leave_of_a(100.0),
            signal(SignalKind.JOIN, 101.8, A),
            *round_of(3, 102.0, B, C),
            signal(SignalKind.SYNC, 102.5, A, generation=3),
        )

        assert kinds(found) == [(K.RESTART, ["a"])]
        assert [each.generations for each in found[0].rebalances] == [(2,), (3,)]

    def test_return_whose_log_shows_an_earlier_join_than_a_new_member_is_of_its_restart(
        self,
    ) -> None:
        """The new member's log shows why it joins, the other one's that it does."""
        found = incidents(
            *leave_of_a(100.0),
            signal(SignalKind.JOIN, 103.0, A),
            *round_of(3, 103.2, B, C, D, causes={"d": NEW}),
            signal(SignalKind.SYNC, 103.7, A, generation=3),
        )

        assert kinds(found) == [(K.RESTART, ["a"])]
        assert [each.generations for each in found[0].rebalances] == [(2,), (3,)]

    def test_member_that_learns_late_of_its_removal_names_a_rebalance_that_another_one_ended(
        self,
    ) -> None:
        """The other one was stuck in it, too, so it may have waited for either of them."""
        told = raised(1, 100.0, B)
        begin = round_of(1, 0.0, A, B, causes={"a": NEW, "b": NEW})
        last = round_of(3, 118.0, A, D, causes={"a": (3, "Heartbeat: UNKNOWN_MEMBER_ID")})
        given = records(*begin, told, *round_of(2, 112.0, D, causes={"d": NEW}), *last)
        (request,) = (each for each in given if each.client_id == "b" and each.to == 1)
        lost = {"from_": 1, "to": None, "ts": format_time(parse_time(request.ts) + 16.0)}

        (_, *found) = analyze([*given, replace(request, id="l", kind=SampleKind.LOST, **lost)])[1]

        assert kinds(found) == [(K.SESSION_EXPIRED, ["a"])]
        assert found[0].certainty is Certainty.SEEN

    def test_member_that_hangs_behind_its_join_took_part(self) -> None:
        """It joins again without a word, is never heard of again, and is removed for that."""
        found = incidents(
            signal(SignalKind.JOIN, 100.2, B),
            *round_of(2, 100.0, A, C, causes={"a": (7, "metadata")}),
            *round_of(3, 106.0, A, C),
        )

        assert kinds(found) == [(K.METADATA_CHANGED, []), (K.SESSION_EXPIRED, ["b"])]
        assert [went(each) for each in found] == [[], [("b", DepartureMode.EXPIRED, False)]]

    def test_leave_just_after_a_round_that_one_has_not_synced_begins_the_next(self) -> None:
        """It goes on to work after its join, and hears of the next round with its sync."""
        causes = {"a": (7, "metadata")}
        round_2 = round_of(2, 100.0, A, B, C, causes=causes, joins={"b": 103.0})
        late = [each for each in round_2 if each.kind is SignalKind.SYNC and each.member == C]
        found = incidents(
            *(each for each in round_2 if each not in late),
            left(103.6, B, "closed"),
            raised(1, 103.8, A),
            signal(SignalKind.JOIN, 103.9, C),
            signal(SignalKind.JOIN, 103.9, A),
            *(signal(SignalKind.SYNC, 106.0, each, generation=3) for each in (A, C)),
        )

        assert kinds(found) == [(K.METADATA_CHANGED, []), (K.MEMBER_LEFT, ["b"])]

    @pytest.mark.parametrize(
        ("over_ms", "kind", "how"),
        [
            (439, K.POLL_TIMEOUT, DepartureMode.DROPPED),
            (9_800, K.SESSION_EXPIRED, DepartureMode.EXPIRED),
        ],
    )
    def test_drop_whose_line_comes_late_was_no_expiry(
        self, over_ms: int, kind: IncidentKind, how: DepartureMode
    ) -> None:
        """confluent-kafka-python prints it at the next poll; a frozen process was over for long."""
        words = f"Application maximum poll interval (10000ms) exceeded by {over_ms}ms"
        found = incidents(
            *round_of(2, 100.0, B, C),
            raised(5, 104.0, A, reason=words),
            *round_of(3, 104.2, A, B, C),
        )

        assert kinds(found) == [(kind, ["a"])]
        assert went(found[0]) == [("a", how, True)]

    def test_static_member_that_is_dropped_costs_its_session_too(self) -> None:
        """It sends no leave, so its group waits until its session has expired."""
        timeouts = {"session_timeout_s": 6.0, "max_poll_interval_s": 10.0}
        static = replace(A, group_instance_id="i", **timeouts)
        drop = raised(5, 104.0, static, reason="poll interval exceeded by 439ms")
        new = dict.fromkeys("abc", NEW)
        start = [*round_of(1, 0.0, static, B, C, causes=new), reads(1.0, static, "t-0")]
        others = [reads(100.6, B, "t-0"), *round_of(2, 100.0, B, C)]

        found = analyze(records(*start, *others, drop, *round_of(3, 104.2, static, B, C))).incidents

        assert kinds(found[-1:]) == [(K.POLL_TIMEOUT, ["a"])]
        assert found[-1].detail["between_polls_ms"] == pytest.approx(20_000, abs=300)
        assert found[-1].cost.unread_partition_seconds == pytest.approx(16.6, abs=0.2)

    @pytest.mark.parametrize(("later_s", "rebalances"), [(6.0, [1]), (20.0, [1, 1])])
    def test_round_without_a_cause_some_seconds_after_a_leave_is_its_own(
        self, later_s: float, rebalances: list[int]
    ) -> None:
        """Some clients send a heartbeat only between two messages."""
        found = incidents(left(100.0, A, "closed"), *round_of(2, 100 + later_s, B, C))

        assert [len(each.rebalances) for each in found] == rebalances

    def test_nobody_has_changed_the_metadata(self) -> None:
        (found,) = incidents(*round_of(2, 100.0, A, B, C, causes={"a": (7, "metadata")}))

        assert kinds([found]) == [(K.METADATA_CHANGED, [])]
        assert found.detail == {}

    def test_topic_has_grown_though_the_log_cuts_the_times_of_its_partitions(self) -> None:
        """The response on the wire has microseconds, and its partitions in the log milliseconds."""
        given = records(
            *round_of(1, 0.0, A, causes={"a": NEW}),
            reads(50.0, A, "t-0", "t-1"),
            reads(99.4, A),
            signal(SignalKind.JOIN, 99.5, A),
            reads(100.6, A, "t-0", "t-1", "t-2"),
            signal(SignalKind.SYNC, 100.600331, A, generation=2),
        )

        (_, found) = analyze(given).incidents

        assert found.kind is K.METADATA_CHANGED
        assert found.detail["topics"] == [{"topic": "t", "before": 2, "after": 3}]

    @pytest.mark.parametrize(
        ("given_up_at", "kind"), [(99.4, K.METADATA_CHANGED), (90.0, K.UNKNOWN)]
    )
    def test_topic_that_all_read_before_and_after_has_grown(
        self, given_up_at: float, kind: IncidentKind
    ) -> None:
        """The leader joins again for it, without a word; the others hear of it later."""
        (*_, found) = incidents(
            reads(50.0, A, "t-0", "t-1"),
            reads(50.0, B, "t-2", "t-3"),
            reads(50.0, C, "t-4"),
            reads(given_up_at, A),
            signal(SignalKind.JOIN, 99.5, A),
            *round_of(2, 100.0, B, C),
            signal(SignalKind.SYNC, 100.6, A, generation=2),
            reads(100.7, A, "t-0", "t-1"),
            reads(100.7, B, "t-2", "t-3"),
            reads(100.7, C, "t-4", "t-5"),
        )

        assert found.kind is kind
        grown = [{"topic": "t", "before": 5, "after": 6}]
        assert found.detail.get("topics") == (grown if kind is K.METADATA_CHANGED else None)

    def test_member_with_another_id_is_another_process(self) -> None:
        """aiokafka's log has no cause of a join; its member id is new."""
        first, again = (replace(A, member_id=f"a-{number}") for number in (1, 2))
        (*_, found) = incidents(
            *round_of(2, 100.0, first, B, C, causes={"b": (7, "metadata")}),
            signal(SignalKind.JOIN, 200.0, again),
            *round_of(3, 200.1, B, C),
            signal(SignalKind.SYNC, 200.7, again, generation=3),
        )

        assert kinds([found]) == [(K.RESTART, ["a"])]
        assert found.certainty is Certainty.INFERRED
        assert went(found) == [("a", DepartureMode.EXPIRED, True)]

    @pytest.mark.parametrize("readers", ["", "bc", "abc"])
    def test_member_of_a_new_protocol_that_says_it_was_removed(self, readers: str) -> None:
        """Its partitions are better evidence, if it had any, and a source shows them."""
        a, b, c = (replace(each, group_type="consumer") for each in (A, B, C))
        start = round_of(1, 10.0, a, b, c, causes={"a": NEW, "b": NEW, "c": NEW})
        owned = [reads(11.0, each, f"t-{n}") for n, each in enumerate((a, b, c))]
        found = analyze(
            records(
                *start,
                *(each for each in owned if each.member.client_id in readers),
                *round_of(2, 100.0, b),
                raised(3, 104.0, a, reason="UNKNOWN_MEMBER_ID"),
                signal(SignalKind.JOIN, 104.1, a),
                signal(SignalKind.SYNC, 105.0, a, generation=3),
            )
        ).incidents[1:]

        expired = (K.SESSION_EXPIRED, ["a"])
        assert kinds(found) == ([(K.UNKNOWN, []), expired] if "a" in readers else [expired])

    def test_leave_of_an_expired_member_is_no_incident(self) -> None:
        """Its network was cut off, so it could not leave before."""
        found = incidents(
            *round_of(2, 100.0, B, C),
            left(112.0, A),
            left(170.0, B, "closed"),
            *round_of(3, 170.2, C),
        )

        assert kinds(found) == [(K.SESSION_EXPIRED, ["a"]), (K.MEMBER_LEFT, ["b"])]
        assert went(found[0]) == [("a", DepartureMode.EXPIRED, False)]

    def test_stop_begins_behind_the_last_return(self) -> None:
        found = incidents(
            *round_of(2, 90.0, A, C),  # B has expired
            *(left(100.0, A, "closed"), *round_of(3, 100.2, C)),
            *round_of(4, 110.0, B, C, causes={"b": (3, "heartbeat answered UNKNOWN_MEMBER_ID")}),
            *(left(130.0, C, "closed"), *round_of(5, 130.2, B), left(131.0, B, "closed")),
        )

        left_first, stopped = (K.MEMBER_LEFT, ["a"]), (K.MEMBER_LEFT, ["c", "b"])
        assert kinds(found) == [(K.SESSION_EXPIRED, ["b"]), left_first, stopped]

    def test_member_that_was_assigned_since_did_not_expire_before(self) -> None:
        """Its restart ends after a rebalance without a cause; an admin removes it soon after."""
        a, b, c = (replace(each, group_type="consumer") for each in (A, B, C))
        found = analyze(
            records(
                *round_of(1, 10.0, a, b, c, causes={"a": NEW, "b": NEW, "c": NEW}),
                left(80.0, a, "closed"),
                *round_of(2, 81.0, b),
                *round_of(3, 100.0, b),
                *round_of(4, 120.0, a, c, causes={"a": NEW}),
                raised(3, 124.0, a, reason="UNKNOWN_MEMBER_ID"),
                signal(SignalKind.SYNC, 124.5, a, generation=5),
            )
        ).incidents[1:]

        expired = (K.SESSION_EXPIRED, ["a"])
        assert kinds(found) == [(K.RESTART, ["a"]), (K.UNKNOWN, []), expired]

    @pytest.mark.parametrize(
        ("news", "also"),
        [
            ("from (version1: {t=2}) to (version2: {t=2, u=3})", []),
            ("from [t] to [t, u]", []),
            ("from (version1: {t=2}) to (version2: {t=3})", [K.SUBSCRIPTION_CHANGED]),
        ],
    )
    def test_pattern_that_matches_a_new_topic_is_nobodys_doing(
        self, news: str, also: list[IncidentKind]
    ) -> None:
        """The leader notices it, too, and before the members have joined."""
        words = {"b": (8, "subscription has changed from [t] to [t, u]"), "a": (7, news)}
        (found,) = incidents(*round_of(2, 100.0, A, B, C, causes=words))

        assert found.kind is K.METADATA_CHANGED
        assert [each.kind for each in found.also] == also

    def test_leader_that_subscribes_to_a_topic_and_then_sees_its_partitions(self) -> None:
        """Its next metadata have the topic: it is no new one, and no pattern matched it."""
        news = "from (version7: {t=4}) to (version8: {t=4, u=2})"
        later = raised(7, 100.05, A, reason=news)
        words = {"a": (8, "subscription has changed from [t] to [t, u]")}
        (first, *rest) = round_of(2, 100.0, A, B, C, causes=words)

        (found,) = incidents(first, later, *rest)

        assert kinds([found]) == [(K.SUBSCRIPTION_CHANGED, ["a"])]
        assert found.also == ()

    @pytest.mark.parametrize("unknown", ["", "u=[], "])
    def test_metadata_of_a_topic_that_a_member_has_just_subscribed_to(self, unknown: str) -> None:
        """Since 4.0 the leader prints a topic without partitions before it has its metadata."""
        news = f"from (version7: {{{unknown}t=4}}) to (version8: {{u=[NO_RACKS], t=4}})"
        (found,) = incidents(
            *round_of(2, 100.0, A, B, C, causes={"a": (8, "from [t] to [t, u]")}),
            *round_of(3, 101.0, A, B, C, causes={"a": (7, news)}),
        )

        assert kinds([found]) == [(K.SUBSCRIPTION_CHANGED, ["a"])]
        assert len(found.rebalances) == 2

    @pytest.mark.parametrize(("wire_at", "number"), [(99.999, 1), (100.001, 1), (104.0, 2)])
    def test_refusal_in_a_log_without_names_is_that_of_the_wire(
        self, wire_at: float, number: int
    ) -> None:
        """aiokafka's log does not name its client."""
        d = replace(A, client_id="d", origin="10.0.0.4:9")
        blank = replace(A, client_id="", origin="log")
        found = incidents(
            signal(SignalKind.FAIL, 100.0, blank, reason="[Error 23] InconsistentGroupProtocol"),
            signal(SignalKind.FAIL, wire_at, d, source=SourceKind.WIRE,
                   reason="JoinGroup answered INCONSISTENT_GROUP_PROTOCOL"),
        )  # fmt: skip

        assert len(found) == number
        assert (K.JOIN_FAILED, ["d"]) in kinds(found)

    def test_threads_that_lose_a_right_long_after_each_other_are_two_incidents(self) -> None:
        names = [f"s-StreamThread-{number}-consumer" for number in (1, 2)]
        threads = [replace(A, client_id=name, origin=name) for name in names]
        lost = [
            signal(SignalKind.FAIL, at, each, reason="Not authorized to access group: g")
            for at, each in zip((100.0, 400.0), threads, strict=True)
        ]
        start = round_of(1, 0.0, *threads, causes={each.client_id: NEW for each in threads})

        found = analyze(records(*start, *lost)).incidents[1:]

        assert kinds(found) == [(K.JOIN_FAILED, [each.client_id]) for each in threads]

    @pytest.mark.parametrize("others", [0, 1])
    def test_member_of_a_share_group_that_expired_in_one_of_several(self, others: int) -> None:
        """A member takes part in no rebalance that leaves its partitions as they are."""
        a, b, c = (replace(each, group_type="share") for each in (A, B, C))
        found = analyze(
            records(
                *round_of(1, 0.0, a, b, c, causes={"a": NEW, "b": NEW, "c": NEW}),
                *(round_of(2, 50.0, b, c) if others else ()),
                *round_of(3, 100.0, b, c),
                *round_of(4, 130.0, a, causes={"a": (3, "UNKNOWN_MEMBER_ID")}),
            )
        ).incidents[1:]

        expired = (K.SESSION_EXPIRED, ["a"])
        unknown: tuple[IncidentKind, list[str]] = (K.UNKNOWN, [])
        assert kinds(found) == ([unknown, unknown, expired] if others else [expired])

    def test_member_of_a_new_protocol_that_is_back_right_after_its_expiry(self) -> None:
        """Its new process reports partitions, as a member whose clock differs would."""
        a, b = (replace(each, group_type="consumer") for each in (A, B))
        (found,) = analyze(
            records(
                *round_of(1, 0.0, a, b, causes={"a": NEW, "b": NEW}),
                *(reads(1.0, a, "t-0"), reads(1.0, b, "t-1")),
                *(*round_of(2, 100.0, b), reads(100.5, b, "t-0", "t-1")),
                *round_of(3, 102.0, a, causes={"a": (2, "joins with member epoch 0")}),
                *(reads(102.3, b, "t-1"), reads(102.6, a, "t-0")),
            )
        ).incidents[1:]

        assert kinds([found]) == [(K.SESSION_EXPIRED, ["a"])]
        assert went(found) == [("a", DepartureMode.EXPIRED, True)]

    def test_threads_of_a_streams_group_that_expire_with_their_instance(self) -> None:
        a, b, c = (
            replace(each, client_id=f"s-StreamThread-{number}-consumer", host=host,
                    group_type="streams", origin=f"{number}")
            for number, (each, host) in enumerate([(A, "h"), (B, "h"), (C, "other")])
        )  # fmt: skip
        start = round_of(1, 0.0, a, b, c, causes={each.client_id: NEW for each in (a, b, c)})
        words = (3, "heartbeat answered UNKNOWN_MEMBER_ID")
        removed = round_of(2, 100.0, a, causes={a.client_id: words})
        also = round_of(2, 100.1, b, causes={b.client_id: words})

        (found,) = analyze(records(*start, *removed, *also)).incidents[1:]

        assert kinds([found]) == [(K.SESSION_EXPIRED, [a.client_id, b.client_id])]
        assert len(found.rebalances) == 1

    @pytest.mark.parametrize("apart_s", [0.03, 3.0])
    def test_threads_that_join_in_different_epochs_and_leave_soon(self, apart_s: float) -> None:
        """By a broker's log, the first thread has its epoch after it has got its tasks."""
        a, b, c = (
            replace(each, client_id=f"{n}-consumer", host="h", group_type="streams", origin=n)
            for n, each in zip(
                ["s-StreamThread-1", "s-StreamThread-2", "t-StreamThread-1"], (A, B, C), strict=True
            )
        )
        start = round_of(1, 0.0, c, causes={c.client_id: NEW})
        waits = [raised(2, 100.0, a), signal(SignalKind.SYNC, 101.2, a, generation=3)]
        joins = [
            raised(2, 100.0 + apart_s, b),
            signal(SignalKind.SYNC, 100.01 + apart_s, b, generation=2),
            raised(1, 101.0 + apart_s, b),
            signal(SignalKind.SYNC, 102.0 + apart_s, b, generation=3),
        ]
        leaves = [left(120.0, a), left(120.1, b), *round_of(4, 121.0, c)]

        found = analyze(records(*start, *waits, *joins, *leaves)).incidents[1:]

        both = [a.client_id, b.client_id]
        assert kinds(found)[-1] == (K.MEMBER_LEFT, both)
        assert [name for each in found[:-1] for name in names(each)] == both
        assert {each.kind for each in found[:-1]} == {K.MEMBER_JOINED}
        if apart_s < 1.0:
            assert [each.generations for each in found[0].rebalances] == [(2, 3)]

    def test_leave_that_the_others_could_not_follow_before_a_drop(self) -> None:
        """The slow member was requested to join, and was dropped before it polled."""
        (found,) = incidents(
            *(left(100.0, A, "closed"), left(100.1, B, "closed")),
            raised(1, 101.0, C),
            raised(5, 106.0, C, reason="consumer poll timeout has expired."),
            signal(SignalKind.JOIN, 112.0, C),
            signal(SignalKind.SYNC, 112.5, C, generation=2),
        )

        assert kinds([found]) == [(K.MEMBER_LEFT, ["a", "b"])]
        assert [wait.member.client_id for wait in found.waiting_for] == ["c"]

    def test_drop_of_a_new_process_is_not_what_closed_the_one_before(self) -> None:
        """Java before 2.2 prints no cause of its first join."""
        joins = [signal(SignalKind.JOIN, 130.0, A), *round_of(3, 130.2, B, C)]
        synced = signal(SignalKind.SYNC, 130.7, A, generation=3)
        drop = raised(5, 160.0, A, reason="consumer poll timeout has expired.")
        rounds = [*round_of(4, 161.0, B, C), *round_of(5, 170.0, A, B, C, causes={"a": NEW})]

        found = incidents(left(100.0, A), *round_of(2, 101.0, B, C), *joins, synced, drop, *rounds)

        assert kinds(found) == [(K.RESTART, ["a"]), (K.POLL_TIMEOUT, ["a"])]

    def test_partitions_of_a_static_member_that_left_are_no_growth(self) -> None:
        """They stay its own until its session expires. A later rebalance moves nothing of its."""
        a, b = (
            replace(each, group_type="consumer", group_instance_id=f"i-{each.client_id}",
                    origin=f"i-{each.client_id}")
            for each in (A, B)
        )  # fmt: skip
        left_, unknown = analyze(
            records(
                *round_of(1, 0.0, a, b, causes={"a": NEW, "b": NEW}),
                *(reads(1.0, a, "t-0"), reads(1.0, b, "t-1")),
                *(left(50.0, a), reads(50.0, a)),
                *(*round_of(2, 95.0, b), reads(95.6, b, "t-0", "t-1")),
                *(*round_of(3, 300.0, b), reads(300.6, b, "t-0", "t-1")),
            )
        ).incidents[1:]

        assert kinds([left_, unknown]) == [(K.MEMBER_LEFT, ["a"]), (K.UNKNOWN, [])]
        assert len(left_.rebalances) == 2

    def test_session_of_a_static_member_that_was_dropped_ends_behind_another_join(self) -> None:
        """It left with member epoch -2: the others get its partitions once its session is over."""
        a, b, c = (
            replace(each, group_type="consumer", group_instance_id=f"i-{each.client_id}")
            for each in (A, B, C)
        )
        start = [*round_of(1, 0.0, a, b, causes={"a": NEW, "b": NEW}), reads(1.0, a, "t-0")]
        found = analyze(
            records(
                *(*start, reads(1.0, b, "t-1")),
                *(raised(5, 100.0, a, reason="poll timeout has expired"), reads(101.0, a)),
                *round_of(2, 100.1, b, c, causes={"c": NEW}),
                *(raised(1, 106.0, b), reads(106.2, b, "t-0", "t-1")),
                signal(SignalKind.SYNC, 106.3, b, generation=3),
            )
        ).incidents[1:]

        assert kinds(found) == [(K.POLL_TIMEOUT, ["a"]), (K.MEMBER_JOINED, ["c"])]
        assert len(found[0].rebalances) == 2

    def test_partitions_that_another_member_was_about_to_get_are_no_growth(self) -> None:
        """It expired before it had them, and their owner before has them again."""
        a, b = (replace(each, group_type="consumer") for each in (A, B))
        found = analyze(
            records(
                *(raised(2, 0.0, a), signal(SignalKind.SYNC, 0.5, a, generation=1)),
                reads(0.5, a, "t-0", "t-1"),
                *(raised(2, 50.0, b), signal(SignalKind.SYNC, 50.2, b, generation=2)),
                *(raised(1, 51.0, a), reads(51.5, a, "t-0")),
                signal(SignalKind.SYNC, 51.5, a, generation=2),
                *(raised(1, 95.0, a), reads(95.5, a, "t-0", "t-1")),
                signal(SignalKind.SYNC, 95.5, a, generation=3),
            )
        ).incidents

        assert [each.kind for each in found][2:] == [K.UNKNOWN]

    def test_member_of_a_new_protocol_that_leaves_while_it_joins(self) -> None:
        """Its join and its leave are two group epochs."""
        a, b = (replace(each, group_type="consumer") for each in (A, B))
        found = analyze(
            records(
                *(raised(2, 0.0, a), signal(SignalKind.SYNC, 0.5, a, generation=1)),
                *(raised(2, 50.0, b), left(55.0, b)),
                *(raised(1, 51.0, a), signal(SignalKind.SYNC, 51.5, a, generation=2)),
                *(raised(1, 55.8, a), signal(SignalKind.SYNC, 56.0, a, generation=3)),
            )
        ).incidents[1:]

        assert kinds(found) == [(K.MEMBER_JOINED, ["b"]), (K.MEMBER_LEFT, ["b"])]

    def test_member_that_was_closed_before_it_could_join_is_no_incident(self) -> None:
        a, b = (replace(each, group_type="consumer") for each in (A, B))
        (found,) = analyze(
            records(
                *(raised(2, 0.0, a), signal(SignalKind.SYNC, 0.5, a, generation=1)),
                *(raised(2, 50.0, b), left(50.6, b)),
                signal(SignalKind.SEEN, 90.0, a),
            )
        ).incidents

        assert names(found) == ["a"]

    def test_dead_member_whose_rebalance_waits_for_another_one(self) -> None:
        """The group does not wait for a member that expired, however long the other one takes."""
        asked = [*round_of(2, 100.0, B)[:1], *round_of(2, 100.0, C)[:2]]
        later = replace(signal(SignalKind.SYNC, 130.1, C, generation=2))
        sampled = replace(records(raised(1, 130.0, C))[0], kind=SampleKind.SAMPLE, episode=None)
        now = [*records(*START, *asked), sampled]

        for written in (now, records(*START, *asked, raised(5, 130.0, B), later)):
            found = analyze(written, now=130.2).incidents[-1]
            assert (found.kind, names(found)) == (K.SESSION_EXPIRED, ["a"])
            assert [each.member.client_id for each in found.waiting_for] == ["b"]

    def test_member_whose_first_heartbeat_had_no_answer_was_in_no_rebalance(self) -> None:
        """Java's log: it goes from JOINING to PREPARE_LEAVING. The others rebalance for c."""
        a, b, c = (replace(each, group_type="share") for each in (A, B, C))
        unanswered = "transitioned from JOINING to PREPARE_LEAVING"

        def moves(left_at: float, joins: SourceKind = SourceKind.LOGS) -> list[tuple[K, list[str]]]:
            written = records(
                *(raised(2, 0.0, a), signal(SignalKind.SYNC, 0.5, a, generation=1)),
                *(left(20.0, a), raised(2, 21.0, b), left(left_at, b, unanswered)),
                *(raised(2, 60.5, c), signal(SignalKind.SYNC, 62.5, c, generation=2)),
            )
            join = next(record for record in written if record.client_id == "b")
            seen = [replace(join, source=joins.value) if r is join else r for r in written]
            return kinds(analyze(seen).incidents[1:])

        never_in = [(K.MEMBER_LEFT, ["a"]), (K.MEMBER_JOINED, ["c"])]
        assert moves(22.5) == never_in
        assert moves(60.9) == never_in
        assert (K.MEMBER_JOINED, ["b"]) in moves(22.5, SourceKind.WIRE)

    def test_process_that_finds_its_poll_interval_expired_behind_its_session(self) -> None:
        """It goes on as another member does: its own rounds are in two rebalances."""
        a, b, c = (replace(each, group_type="consumer") for each in (A, B, C))
        start = round_of(1, 0.0, a, b, c, causes={"a": NEW, "b": NEW, "c": NEW})
        owned = [reads(1.0, each, f"t-{n}") for n, each in enumerate((a, b, c))]
        found = analyze(
            records(
                *(*start, *owned),
                *(raised(1, 100.0, b), reads(100.5, b, "t-0", "t-1")),
                signal(SignalKind.SYNC, 100.5, b, generation=2),
                *(raised(3, 130.0, c), signal(SignalKind.SYNC, 130.3, c, generation=4)),
                raised(5, 130.003, a, reason="consumer poll timeout has expired."),
                reads(130.01, a),
                *(raised(2, 130.1, a), signal(SignalKind.SYNC, 130.4, a, generation=4)),
                *(raised(1, 131.0, b), signal(SignalKind.SYNC, 131.5, b, generation=4)),
            )
        ).incidents[1:]

        assert kinds(found) == [(K.SESSION_EXPIRED, ["a"]), (K.SESSION_EXPIRED, ["c"])]

    def test_leader_that_joins_again_for_its_changed_subscription_without_a_reason(self) -> None:
        again = [
            signal(kind, 104.0 + n / 2, A, generation=3 if n else None)
            for n, kind in enumerate((SignalKind.JOIN, SignalKind.SYNC))
        ]
        found = incidents(
            *round_of(2, 100.0, A, B, C, causes={"a": (8, "from [t] to [t, u]")}),
            *(*again, *round_of(3, 104.0, B, C)),
        )

        assert kinds(found) == [(K.SUBSCRIPTION_CHANGED, ["a"])]
        assert len(found[0].rebalances) == 2

    def test_topic_that_grows_after_a_changed_subscription_without_a_reason(self) -> None:
        """A leader before 3.2 joins again without a reason: the partitions show what it saw."""
        again = [
            signal(kind, 109.0 + n / 2, A, generation=3 if n else None)
            for n, kind in enumerate((SignalKind.JOIN, SignalKind.SYNC))
        ]
        found = incidents(
            *(reads(1.0, A, "t-0"), reads(1.0, B, "t-1"), reads(1.0, C, "t-2")),
            *round_of(2, 100.0, A, B, C, causes={"a": (8, "from [t] to [t, u]")}),
            reads(100.6, A, "t-0", "u-0"),
            *(*again, *round_of(3, 109.0, B, C)),
            reads(109.6, A, "t-0", "t-3", "u-0"),
        )

        assert kinds(found) == [(K.SUBSCRIPTION_CHANGED, ["a"]), (K.METADATA_CHANGED, [])]
        assert found[1].detail == {"topics": [{"topic": "t", "before": 3, "after": 4}]}

    def test_cause_that_hides_its_own_consequence_at_the_same_instant(self) -> None:
        """The KIP-848 client's log shows 8 only with the new assignment (1)."""
        a, b, c = (replace(each, group_type="consumer") for each in (A, B, C))
        start = round_of(1, 0.0, a, b, c, causes={"a": NEW, "b": NEW, "c": NEW})
        leave = [left(100.0, a), *round_of(2, 101.0, b, c)]
        change = [
            raised(8, 104.0, b, reason="Subscribed to topic(s): t, u"),
            raised(1, 104.0, b, reason="transitioned from STABLE to RECONCILING"),
            signal(SignalKind.SYNC, 104.5, b, generation=3),
        ]

        found = analyze(records(*start, *leave, *change)).incidents[1:]

        assert kinds(found) == [(K.MEMBER_LEFT, ["a"]), (K.SUBSCRIPTION_CHANGED, ["b"])]

    def test_streams_application_that_fails_by_the_news_that_its_leader_noticed(self) -> None:
        """A topic has grown, and an internal one has not: each leader fails in its turn."""
        a, b, c = (
            replace(each, client_id=f"s{number}-StreamThread-1-consumer", origin=f"s{number}")
            for number, each in enumerate((A, B, C))
        )
        words = "rebalance failed due to 'Existing internal topic has invalid partitions'"
        news = (7, "from (version6: {t=4}) to (version7: {t=6})")
        start = round_of(1, 0.0, a, b, c, causes={each.client_id: NEW for each in (a, b, c)})
        then = round_of(2, 100.0, a, b, c, causes={a.client_id: news})
        fails = [
            replace(each, kind=SignalKind.FAIL, reason=words)
            if each.kind is SignalKind.SYNC and each.member != c
            else each
            for each in then
        ]

        changed, failed = analyze(records(*start, *fails)).incidents[1:]

        assert kinds([changed]) == [(K.METADATA_CHANGED, [])]
        assert changed.detail["topics"] == [{"topic": "t", "before": 4, "after": 6}]
        assert kinds([failed]) == [(K.JOIN_FAILED, [a.client_id, b.client_id])]
        assert failed.detail == {"errors": 2}
        # a's 0.5 s are part of the rebalance, as c's are; b's are of no other incident
        assert changed.cost.member_seconds == pytest.approx(0.9)
        assert failed.cost.member_seconds == pytest.approx(0.4)

    def test_rebalance_whose_only_participant_fails_has_its_incident(self) -> None:
        """B has ended; A, which is asked to rejoin, cannot assign the topics that have grown."""
        words = "rebalance failed due to 'Existing internal topic has invalid partitions'"
        found = analyze(
            records(
                *round_of(1, 0.0, A, B),
                reads(1.0, A, "t-0"),
                reads(1.0, B, "t-1"),
                raised(1, 106.0, A),
                signal(SignalKind.JOIN, 106.1, A),
                signal(SignalKind.FAIL, 106.5, A, generation=2, reason=words),
                left(107.0, A, "the consumer unsubscribed from all topics"),
            )
        ).incidents[1:]

        assert (K.SESSION_EXPIRED, ["b"]) in kinds(found)
        assert (K.JOIN_FAILED, ["a"]) in kinds(found)

    def test_join_whose_follow_up_round_fails(self) -> None:
        """The others give partitions up for d, which is frozen; then their leader's topics fail."""
        a, b, d = (
            replace(each, client_id=f"s{number}-StreamThread-1-consumer", origin=f"s{number}")
            for number, each in enumerate((A, B, D))
        )
        words = "rebalance failed due to 'Existing internal topic has invalid partitions'"
        start = round_of(1, 0.0, a, b, causes={each.client_id: NEW for each in (a, b)})
        unknown = "SyncGroup answered UNKNOWN_MEMBER_ID"
        given = [
            raised(2, 100.0, d, reason=NEW[1]),
            *(raised(1, 100.1, each) for each in (a, b)),
            *(signal(SignalKind.SYNC, 100.5, each, generation=2, own=REVOKES) for each in (a, b)),
            *(signal(SignalKind.FAIL, 107.0, m, generation=3, reason=words) for m in (a, b)),
            replace(raised(3, 120.0, d, reason=unknown), generation=2),
            signal(SignalKind.FAIL, 121.0, d, generation=5, reason=words),
        ]

        joined, failed = analyze(records(*start, *given)).incidents[1:]

        assert kinds([joined]) == [(K.MEMBER_JOINED, [d.client_id])]
        assert kinds([failed]) == [(K.JOIN_FAILED, [each.client_id for each in (a, b, d)])]
        seconds = [each.cost.member_seconds for each in (joined, failed)]
        assert seconds == [pytest.approx(2 * 6.9 + 21.0), 0.0]

    def test_episode_with_an_error_that_does_not_end_it_costs_once(self) -> None:
        """KIP-1071: a removed member joins again, its topics do not fit, and its thread ends."""
        words = "heartbeat answered INCORRECTLY_PARTITIONED_TOPICS: Existing topic t"
        given = [
            raised(3, 100.0, A),
            signal(SignalKind.REFUSE, 100.5, A, reason=words),
            left(101.0, A, "closed"),
        ]

        found = incidents(*given)

        assert found[-1].kind is K.JOIN_FAILED
        assert sum(each.cost.member_seconds for each in found) == pytest.approx(1.0)

    @pytest.mark.parametrize("has_joined", [False, True])
    def test_dropped_member_that_joins_and_leaves_before_an_assignment(
        self, has_joined: bool
    ) -> None:
        """Its return is the cause of the round that it leaves."""
        drop = raised(5, 100.0, A, reason="consumer poll timeout has expired.")
        joins = [signal(SignalKind.JOIN, 114.0, A)] if has_joined else []
        leave = left(118.0, A, "the consumer is being closed")
        rounds = [*round_of(2, 101.0, B, C), *round_of(3, 114.4, B, C, joins={"b": 118.2})]

        found = incidents(drop, *joins, leave, *rounds)

        dropped = (K.POLL_TIMEOUT, ["a"])
        assert kinds(found) == ([dropped] if has_joined else [dropped, (K.UNKNOWN, [])])

    @pytest.mark.parametrize(("after", "kinds_"), [("b-0 b-1 b-2", 2), ("b-0 b-1", 1)])
    def test_topic_that_grows_after_a_changed_subscription_is_no_part_of_it(
        self, after: str, kinds_: int
    ) -> None:
        """The wire shows changed metadata without numbers; the members' partitions show them."""
        found = incidents(
            reads(50.0, A, "t-0"),
            *round_of(2, 100.0, A, B, C, causes={"b": (8, "subscribed to: t, b")}),
            *(reads(100.6, A, "t-0"), reads(100.6, B, "b-0", "b-1")),
            *round_of(3, 110.0, A, B, C, causes={"a": (7, "cached metadata has changed")}),
            *(reads(110.6, A, "t-0"), reads(110.6, B, *after.split())),
        )

        assert [each.kind for each in found] == [K.SUBSCRIPTION_CHANGED, K.METADATA_CHANGED][
            :kinds_
        ]
        grown = {"topics": [{"topic": "b", "before": 2, "after": 3}]}
        assert [each.detail for each in found[1:]] == [grown][: kinds_ - 1]

    @pytest.mark.parametrize("news", ["from (v1: {t=2}) to (v2: {t=[]})", "cached metadata"])
    def test_topic_that_a_leader_does_not_see_for_a_moment_began_nothing(self, news: str) -> None:
        """A broker that has just started names no partitions; the wire shows no numbers."""
        reading = [reads(50.0, A, "t-0"), reads(50.0, B, "t-1")]
        again = [reads(100.6, A, "t-0"), reads(100.6, B, "t-1")]
        leader = {"a": (7, news)}
        new = replace(A, client_id="d", origin="d", host="h-d")
        joins = round_of(2, 100.0, A, B, C, new, causes=leader | {"d": NEW})
        alone_ = round_of(2, 100.0, A, B, C, causes=leader)

        (joined_,) = incidents(*reading, *joins, *again)
        (found,) = incidents(*reading, *alone_, *again)

        assert kinds([joined_, found]) == [(K.MEMBER_JOINED, ["d"]), (K.METADATA_CHANGED, [])]
        assert joined_.also == ()
        assert found.detail == ({"unseen_topics": ["t"]} if "t=" in news else {})

    def test_topic_that_is_gone_or_has_other_partitions_is_the_cause(self) -> None:
        news = {"a": (7, "from (v1: {t=1, u=2}) to (v2: {t=1, u=[]})"), "c": NEW}
        reading = [reads(50.0, A, "t-0"), reads(50.0, B, "u-0", "u-1")]
        for after in ((), ("u-0", "u-1", "u-2")):
            again = [reads(100.6, A, "t-0"), reads(100.6, B, *after)]
            (found,) = incidents(*reading, *round_of(2, 100.0, A, B, C, causes=news), *again)

            assert found.kind is K.METADATA_CHANGED
            assert "topics" in found.detail

    def test_static_members_that_start_at_once_are_all_named(self) -> None:
        """Nothing shows a static join but its sync; the others that came with it are as new."""
        start = [signal(SignalKind.JOIN, 0.1, each) for each in (A, B)]
        start += [signal(SignalKind.SYNC, 1.0, each, generation=1) for each in (A, B)]

        (found,) = analyze(records(*start)).incidents

        assert (found.kind, sorted(names(found))) == (K.MEMBER_JOINED, ["a", "b"])

    def test_topics_that_came_went_or_grew_are_its_detail(self) -> None:
        words = (
            "cached metadata has changed from (version3: {t=[NO_RACKS, NO_RACKS], u=1}) at the"
            " beginning of the rebalance to (version4: {t=[NO_RACKS, NO_RACKS, NO_RACKS], v=2})"
        )
        (found,) = incidents(*round_of(2, 100.0, A, B, C, causes={"a": (7, words)}))

        assert found.detail == {
            "topics": [
                {"topic": "t", "before": 2, "after": 3},
                {"topic": "u", "before": 1, "after": None},
                {"topic": "v", "before": None, "after": 2},
            ]
        }

    def test_interval_and_time_between_two_polls_are_the_detail_of_a_drop(self) -> None:
        late = replace(A, max_poll_interval_s=60.0)
        dropped = raised(5, 100.0, late, reason="poll interval expired")
        back = [raised(2, 130.0, late), signal(SignalKind.SYNC, 130.6, late, generation=3)]
        (out,) = incidents(dropped, *round_of(2, 101.0, B, C), now=110.0)
        (over,) = incidents(dropped, *round_of(2, 101.0, B, C), *back, *round_of(3, 130.1, B, C))

        since = "1970-01-01T00:00:40.000000Z"
        assert out.detail == {"max_poll_interval_ms": 60000, "since": since}
        assert over.detail == out.detail | {"between_polls_ms": 90000}

    def test_enforced_has_its_words(self) -> None:
        (found,) = incidents(*round_of(2, 100.0, A, B, C, causes={"b": (6, "new rules")}))

        assert (found.kind, names(found), found.reason) == (K.ENFORCED, ["b"], "new rules")

    def test_removal_by_an_admin(self) -> None:
        note = signal(SignalKind.NOTE, 99.9, A, reason="ops-bad-host", source=SourceKind.WIRE)
        (found,) = incidents(note, *round_of(2, 100.0, A, B, C, causes={"a": (3, "unknown")}))

        assert kinds([found]) == [(K.REMOVED_BY_ADMIN, ["a"])]
        assert found.reason == "ops-bad-host"

    def test_removal_by_an_admin_in_a_new_protocol(self) -> None:
        """The admin names two members; each learns it by its next request."""
        a, b, c = (replace(each, group_type="consumer") for each in (A, B, C))
        notes = [
            signal(SignalKind.NOTE, 100.0, each, reason="bad host", source=SourceKind.WIRE)
            for each in (a, b)
        ]
        start = round_of(1, 0.0, a, b, c, causes={"a": NEW, "b": NEW, "c": NEW})
        before = round_of(2, 95.0, c)
        then = round_of(3, 100.4, a, b, c, causes={"a": (3, "unknown"), "b": (3, "unknown")})

        found = analyze(records(*start, *before, *notes, *then)).incidents[-1]

        assert kinds([found]) == [(K.REMOVED_BY_ADMIN, ["a", "b"])]
        assert len(found.rebalances) == 1
        removed = DepartureMode.REMOVED
        assert went(found) == [("a", removed, True), ("b", removed, True)]

    @pytest.mark.parametrize("is_on_wire", [False, True])
    def test_frozen_member_of_a_new_protocol_that_is_dropped_on_its_return(
        self, *, is_on_wire: bool
    ) -> None:
        """It finds its poll interval expired, long after the coordinator has removed it."""
        a, b, c = (replace(each, group_type="consumer") for each in (A, B, C))
        start = round_of(1, 10.0, a, b, c, causes={"a": NEW, "b": NEW, "c": NEW})
        owned = [reads(11.0, each, f"t-{number}") for number, each in enumerate((a, b, c))]
        removed = [*round_of(2, 100.0, b, c), reads(100.6, b, "t-1", "t-0")]
        drop = [raised(5, 120.0, a, reason="Consumer poll timeout has expired.")]
        if is_on_wire:
            words = "no reason given, back 0.1 s later on the same connection"
            status = RebalanceStatus.DROPPED_GROUP
            note = signal(SignalKind.NOTE, 120.1, a, status=status, reason=words)
            drop = [left(120.0, a), note]
        back = round_of(3, 120.1, a, b, c, causes={"a": (2, "joins with member epoch 0")})

        (found,) = analyze(records(*start, *owned, *removed, *drop, *back)).incidents[1:]

        assert kinds([found]) == [(K.SESSION_EXPIRED, ["a"])]
        assert len(found.rebalances) == 2
        assert went(found) == [("a", DepartureMode.EXPIRED, True)]

    @pytest.mark.parametrize("first", [3, 7])
    def test_topics_of_a_member_that_was_removed_before_are_no_cause(self, first: int) -> None:
        """A frozen leader looks at its metadata before it sends the heartbeat that is refused."""
        start = [*START, *(reads(11.0, each, f"t-{n}") for n, each in enumerate((A, B, C)))]
        removed = [*round_of(2, 100.0, B, C), reads(100.6, B, "t-1", "t-0")]
        back = [
            raised(first, 120.0, A, reason="cached metadata has changed"),
            raised(3, 120.03, A, reason="encountered UNKNOWN_MEMBER_ID"),
            signal(SignalKind.JOIN, 120.05, A),
        ]
        then = [each for each in round_of(3, 120.1, A, B, C) if each.kind is not SignalKind.RAISE]
        asked = [raised(1, 120.08, each) for each in (B, C)]

        (found,) = analyze(records(*start, *removed, *back, *asked, *then)).incidents[1:]

        assert kinds([found]) == [(K.SESSION_EXPIRED, ["a"])]
        assert len(found.rebalances) == 2

    def test_fenced_member_that_ends_instead_of_joining_again_leaves_nothing(self) -> None:
        """Kafka Streams shuts down if its threads fail meanwhile; the group went on without it."""
        a, b, c = (replace(each, group_type="streams") for each in (A, B, C))
        start = round_of(1, 10.0, a, b, c, causes={"a": NEW, "b": NEW, "c": NEW})
        removed = round_of(2, 100.0, b, c)
        words = "transitioned from FENCED to UNSUBSCRIBED"
        end = [raised(3, 102.0, a, reason="member a is unknown"), left(102.3, a, words)]

        found = analyze(records(*start, *removed, *end)).incidents[1:]

        assert kinds(found) == [(K.SESSION_EXPIRED, ["a"])]

    @pytest.mark.parametrize("given_up_at", [150.0, 149.9])
    def test_partitions_of_a_leave_count_for_it_while_a_member_is_stuck(
        self, given_up_at: float
    ) -> None:
        """The stuck member's rebalance runs at the moment of the leave."""
        a, b, c = (replace(each, group_type="consumer") for each in (A, B, C))
        start = round_of(1, 10.0, a, b, c, causes={"a": NEW, "b": NEW, "c": NEW})
        owned = [reads(11.0, each, f"t-{number}") for number, each in enumerate((a, b, c))]
        stuck = [*round_of(2, 100.0, a, b), raised(3, 102.0, c, reason="member c is unknown")]
        leave = [reads(given_up_at, a), left(150.0, a)]
        taken = [*round_of(3, 152.0, b), reads(152.5, b, "t-0", "t-1")]

        found = analyze(records(*start, *owned, *stuck, *leave, *taken)).incidents

        assert kinds(found)[-1] == (K.MEMBER_LEFT, ["a"])
        assert found[-1].cost.unread_partition_seconds == pytest.approx(152.5 - given_up_at)

    @pytest.mark.parametrize(
        "before", [[(2, "joins")], [(1, "assignment")], [(2, "joins"), (1, "assignment")]]
    )
    def test_drop_of_a_new_protocol_within_its_own_assignment_is_its_own_incident(
        self, before: list[tuple[int, str]]
    ) -> None:
        """Nobody waits for it: the others' rebalance begins with the drop."""
        a, b, c = (replace(each, group_type="consumer") for each in (A, B, C))
        start = round_of(1, 10.0, b, c, causes={"b": NEW, "c": NEW})
        stalls = [raised(code, 100.0 + n, a, reason=why) for n, (code, why) in enumerate(before)]
        drop = raised(5, 108.0, a, reason="Consumer poll timeout has expired.")
        others = round_of(2, 108.3, b, c)

        found = analyze(records(*start, *stalls, drop, *others)).incidents

        assert kinds(found)[-1] == (K.POLL_TIMEOUT, ["a"])
        assert len(found[-1].rebalances) == 1

    def test_drop_that_a_higher_code_hides(self) -> None:
        """The member was to give partitions up, and its status stays at RevocationNeeded (10)."""
        a, b, c = (replace(each, group_type="consumer") for each in (A, B, C))
        start = round_of(1, 10.0, a, b, c, causes={"a": NEW, "b": NEW, "c": NEW})
        joins = [raised(2, 99.0, b, reason="joins"), raised(1, 100.0, a), raised(10, 100.0, a)]
        settles = [signal(SignalKind.SYNC, 100.5, b, generation=2)]
        drop = raised(5, 108.0, a, reason="Consumer poll timeout has expired.")
        back = [
            raised(2, 111.0, a, reason="joins"),
            signal(SignalKind.SYNC, 111.5, a, generation=4),
        ]

        found = analyze(
            records(*start, *joins, *settles, drop, *round_of(3, 108.3, c), *back)
        ).incidents[1:]

        assert kinds(found)[-1] == (K.POLL_TIMEOUT, ["a"])
        assert went(found[-1]) == [("a", DepartureMode.DROPPED, True)]

    def test_drop_of_a_leader_that_revokes_for_long(self) -> None:
        """Its callback runs before it joins, so its poll interval ends first."""
        found = incidents(
            raised(7, 100.0, A, reason="cached metadata has changed"),
            raised(5, 108.0, A, reason="consumer poll timeout has expired."),
            *round_of(2, 108.3, B, C),
            *round_of(3, 112.0, A, B, C, causes={"a": (2, "rejoins")}),
        )

        assert [one for each in found for one in went(each)] == [("a", DepartureMode.DROPPED, True)]

    def test_join_right_after_the_drop_that_showed_a_return(self) -> None:
        """A frozen process finds its poll interval expired when it goes on, and joins again."""
        a, b, c = (replace(each, group_type="consumer") for each in (A, B, C))
        start = round_of(1, 10.0, a, b, c, causes={"a": NEW, "b": NEW, "c": NEW})
        owned = [reads(11.0, each, f"t-{n}") for n, each in enumerate((a, b, c))]
        expired = [*round_of(2, 100.0, b), reads(100.5, b, "t-0", "t-1")]
        resumed = [
            raised(5, 140.0, a, reason="Consumer poll timeout has expired."),
            raised(3, 140.05, c, reason="heartbeat answered UNKNOWN_MEMBER_ID"),
            raised(2, 140.1, a, reason="joins with member epoch 0"),
            *(signal(SignalKind.SYNC, 140.3, each, generation=3) for each in (a, c)),
        ]

        found = analyze(records(*start, *owned, *expired, *resumed)).incidents[1:]

        assert kinds(found) == [(K.SESSION_EXPIRED, ["a"]), (K.SESSION_EXPIRED, ["c"])]
        assert [each.also for each in found] == [(), ()]

    def test_new_member_within_the_rebalance_of_a_return(self) -> None:
        """It is a cause of its own, and stands beside the incident that goes on."""
        found = incidents(
            *(left(100.0, A, "closed"), *round_of(2, 101.0, B, C)),
            *round_of(3, 110.0, A, B, C, causes={"a": NEW}, joins={"a": 110.4}),
            *(raised(2, 110.2, D), signal(SignalKind.SYNC, 110.9, D, generation=3)),
        )

        assert kinds(found) == [(K.RESTART, ["a"])]
        (beside,) = found[0].also
        assert (beside.kind, [each.client_id for each in beside.members]) == (
            K.MEMBER_JOINED,
            ["d"],
        )

    def test_leave_of_a_removed_member_that_is_back_at_once(self) -> None:
        """On the wire a drop is a leave without a reason, and the member's return shows it."""
        a, b, c = (replace(each, group_type="consumer") for each in (A, B, C))
        start = round_of(1, 10.0, a, b, c, causes={"a": NEW, "b": NEW, "c": NEW})
        owned = [reads(11.0, each, f"t-{n}") for n, each in enumerate((a, b, c))]
        expired = [*round_of(2, 100.0, b), reads(100.5, b, "t-0", "t-1")]
        words = f"{NO_REASON_BACK} 0.1 s later on the same connection"
        resumed = [
            left(140.0, a),
            replace(raised(6, 140.1, a, reason=words), kind=SignalKind.NOTE),
            raised(2, 140.1, a, reason="joins with member epoch 0"),
            signal(SignalKind.SYNC, 140.3, a, generation=3),
        ]

        (found,) = analyze(records(*start, *owned, *expired, *resumed)).incidents[1:]

        assert (found.kind, names(found)) == (K.SESSION_EXPIRED, ["a"])
        assert went(found) == [("a", DepartureMode.EXPIRED, True)]

    @pytest.mark.parametrize("group_type", ["consumer", "share", "streams"])
    def test_join_that_no_coordinator_answered(self, group_type: str) -> None:
        """A log shows the member's wish alone, and the group did not rebalance."""
        a, d = (replace(each, group_type=group_type) for each in (A, D))
        start = round_of(1, 10.0, a, causes={"a": NEW})
        asked = raised(2, 100.0, d, reason="transitioned from UNSUBSCRIBED to JOINING")
        given = records(*start, asked)
        lost = replace(
            given[-1],
            id="lost",
            kind=SampleKind.LOST,
            ts=format_time(at_second(116.0)),
            from_=2,
            to=None,
            reason="not confirmed",
        )

        assert kinds(analyze([*given, lost]).incidents[1:]) == []

    def test_departure_within_another_incident_is_no_part_of_a_crash_loop(self) -> None:
        joins = {"a": NEW, "d": NEW}
        found = incidents(
            *(
                left(100.0, A),
                *round_of(2, 101.0, B, C),
                *round_of(3, 110.0, A, B, C, causes=joins),
            ),
            *(
                left(130.0, A),
                *round_of(4, 131.0, B, C),
                *round_of(5, 140.0, A, B, C, causes=joins),
            ),
            *round_of(6, 150.0, B, C, D, causes=joins),
        )

        assert kinds(found) == [(K.CRASH_LOOP, ["a"]), (K.MEMBER_JOINED, ["d"])]

    def test_leader_that_notices_topics_and_leaves_at_once(self) -> None:
        """Kafka Streams fails if its topics have grown; the others keep the partitions."""
        reading = [reads(1.5, A, "t-0"), reads(1.5, B, "t-1"), reads(1.5, C, "t-2")]
        leader = [
            raised(7, 100.0, A, reason="cached metadata has changed"),
            signal(SignalKind.JOIN, 100.0, A),
            raised(6, 100.2, A, reason="the consumer unsubscribed from all topics"),
            left(100.2, A),
            reads(100.2, A),
        ]
        others = [*round_of(2, 100.1, B, C), reads(100.7, B, "t-0", "t-1")]

        found = incidents(*reading, *leader, *others)

        assert kinds(found) == [(K.METADATA_CHANGED, [])]
        assert went(found[0]) == [("a", DepartureMode.LEFT, False)]

    def test_return_within_a_rebalance_that_another_expiry_began(self) -> None:
        """The one that stays is late; meanwhile, the one that expired before comes back."""
        away = round_of(2, 50.0, A, B)
        asked = raised(1, 100.0, A), signal(SignalKind.JOIN, 105.0, A)
        back = raised(3, 103.0, C, reason="unknown"), signal(SignalKind.JOIN, 103.1, C)
        synced = [signal(SignalKind.SYNC, 105.1, each, generation=3) for each in (A, C)]

        found = incidents(*away, *asked, *back, *synced)

        assert kinds(found) == [(K.SESSION_EXPIRED, ["c"]), (K.SESSION_EXPIRED, ["b"])]
        expired = DepartureMode.EXPIRED
        assert [went(each) for each in found] == [[("c", expired, True)], [("b", expired, False)]]
        assert [len(each.rebalances) for each in found] == [1, 1]

    def test_join_within_a_rebalance_without_a_known_cause_stands_beside_it(self) -> None:
        d = replace(A, client_id="d", origin="d", host="h-d")
        asked = [raised(1, 100.0, each) for each in (A, B, C)]
        new = raised(2, 106.0, d, reason=NEW[1])
        synced = [signal(SignalKind.SYNC, 106.5, each, generation=2) for each in (A, B, C, d)]

        (found,) = incidents(*asked, new, *synced)

        assert kinds([found]) == [(K.UNKNOWN, [])]
        assert [(each.kind, [m.client_id for m in each.members]) for each in found.also] == [
            (K.MEMBER_JOINED, ["d"])
        ]

    def test_removal_by_an_admin_while_a_new_member_takes_the_partitions(self) -> None:
        """The removed member learns it a second later, when the join has ended."""
        a, b, d = (replace(A, client_id=c, origin=c, group_type="consumer") for c in "abd")
        start = round_of(1, 0.0, a, b, causes={"a": NEW, "b": NEW})
        owned = [reads(1.0, a, "t-0"), reads(1.0, b, "t-1")]
        came = round_of(2, 100.0, d, causes={"d": NEW})
        note = signal(SignalKind.NOTE, 100.1, a, reason="bad host", source=SourceKind.WIRE)
        note = replace(note, by='{"client_id":"admin-1","host":"ops"}')
        back = round_of(3, 101.0, a, causes={"a": (3, "heartbeat answered UNKNOWN_MEMBER_ID")})
        moved = [reads(100.4, d, "t-0"), reads(101.1, a), reads(101.6, a, "t-0")]
        given = [reads(101.5, d)]

        found = analyze(records(*start, *owned, *came, note, *back, *moved, *given)).incidents[1:]

        assert kinds(found) == [(K.MEMBER_JOINED, ["d"]), (K.REMOVED_BY_ADMIN, ["a"])]
        assert [went(each) for each in found] == [[], [("a", DepartureMode.REMOVED, True)]]

    def test_removal_of_an_instance_that_only_the_admin_names(self) -> None:
        """Its connection alone was seen; the victim's log names the client."""
        by = '{"client_id":"admin-1","host":"ops"}'
        named = replace(A, group_instance_id="i-a", member_id="a-1")
        blank = Member(cluster="k", group="g", client_id="", origin="i-a", group_instance_id="i-a")
        note = signal(SignalKind.NOTE, 99.9, blank, reason="bad host", source=SourceKind.WIRE)
        start = round_of(1, 0.0, named, B, causes={"a": NEW, "b": NEW})
        then = round_of(2, 100.0, named, B, causes={"a": (3, "unknown")})

        (_, found) = analyze(records(*start, replace(note, by=by), *then)).incidents

        assert kinds([found]) == [(K.REMOVED_BY_ADMIN, ["a"])]
        assert found.reason == "bad host"
        assert found.detail == {"by": {"client_id": "admin-1", "host": "ops"}}
        assert went(found) == [("a", DepartureMode.REMOVED, True)]

    def test_refused_joins_are_an_incident_without_a_rebalance(self) -> None:
        d = replace(A, client_id="d", origin="d", host="h-d")
        reason = "JoinGroup answered INCONSISTENT_GROUP_PROTOCOL"
        errors = [signal(SignalKind.FAIL, at, d, reason=reason) for at in (100.0, 105.0)]

        (found,) = incidents(*errors, now=110.0)

        assert kinds([found]) == [(K.JOIN_FAILED, ["d"])]
        assert found.detail == {"errors": 2, "error": "INCONSISTENT_GROUP_PROTOCOL"}
        assert (found.rebalances, found.is_ongoing) == ((), True)

    def test_two_lines_of_one_refused_join_count_once(self) -> None:
        d = replace(A, client_id="d", origin="d", host="h-d")
        lines = [
            "JoinGroup failed due to fatal error: Group authorization failed.",
            "rebalance failed due to 'Not authorized' (GroupAuthorizationException)",
        ]
        errors = [
            signal(SignalKind.FAIL, at + 0.01 * number, d, reason=reason)
            for at in (100.0, 100.5)
            for number, reason in enumerate(lines)
        ]

        (found,) = incidents(*errors, now=110.0)

        assert found.detail == {"errors": 2, "error": "GROUP_AUTHORIZATION_FAILED"}

    def test_refused_join_that_two_agents_see_counts_once(self) -> None:
        """Replicas of one client id are refused at the same time, each in its own log."""
        reason = "JoinGroup failed due to fatal error: Group authorization failed."
        answer = "JoinGroup answered GROUP_AUTHORIZATION_FAILED"
        replicas = [replace(A, client_id="d", origin=f"d{n}", host=f"pod-{n}") for n in (1, 2)]
        node = [replace(each, host=f"10.0.0.{n}") for n, each in enumerate(replicas)]
        logged = [signal(SignalKind.FAIL, 100.0, each, reason=reason) for each in replicas]
        sent = [
            signal(SignalKind.FAIL, 100.01, each, reason=answer, source=SourceKind.WIRE)
            for each in node
        ]
        made = [*records(*logged), *records(*sent)]

        found = analyze(made, now=110.0).incidents

        assert [(i.kind, [m.host for m in i.members]) for i in found] == [
            (K.JOIN_FAILED, ["pod-1"]),
            (K.JOIN_FAILED, ["pod-2"]),
        ]

    def test_members_that_lose_the_right_to_their_group(self) -> None:
        """They read until poll() looks up the coordinator; their start in a group of its own."""
        owned = [reads(5.0, each, f"t-{n}") for n, each in enumerate((A, B))]
        words = "Heartbeat answered GROUP_AUTHORIZATION_FAILED"
        refused = [
            signal(SignalKind.REFUSE, at, each, reason=words)
            for at in (100.0, 103.0)
            for each in (A, B)
        ]
        words = "GroupAuthorizationException: Not authorized"
        failed = [signal(SignalKind.FAIL, 106.0, each, reason=words) for each in (A, B)]
        back = round_of(2, 120.0, A, B, causes={"a": NEW, "b": NEW})
        again = [reads(122.0, each, f"t-{n}") for n, each in enumerate((A, B))]

        (found,) = incidents(*owned, *refused, *failed, *back, *again, left(129.0, C, "closed"))[:1]

        assert kinds([found]) == [(K.JOIN_FAILED, ["a", "b"])]
        assert found.started_at == at_second(100.0)
        assert found.detail["lost_right"] == "group"
        assert len(found.rebalances) == 1
        assert found.cost.unread_partition_seconds == pytest.approx(32.0)
        shown = summarize(answer_of(found))
        assert shown == "a, b lost the right to the group (GROUP_AUTHORIZATION_FAILED)"

    def test_member_with_credentials_that_are_refused(self) -> None:
        """It stopped if it has to join again; else they were refused for a moment."""
        words = "Connection to node 1 (b/10.0.0.1:9092) failed authentication due to: invalid"
        refused = signal(SignalKind.REFUSE, 100.0, A, reason=words)
        owned, others = reads(5.0, A, "t-0"), round_of(2, 106.0, B, C)
        taken = reads(107.0, B, "t-0")
        back = round_of(3, 150.0, A, B, C, causes={"a": NEW})

        (found, *_) = incidents(owned, refused, *others, taken, *back)
        (passing,) = incidents(owned, refused, now=900.0)

        assert kinds([found, passing]) == [(K.JOIN_FAILED, ["a"])] * 2
        assert found.detail["error"] == "SASL_AUTHENTICATION_FAILED"
        assert found.detail["lost_right"] == "cluster"
        assert found.cost.unread_partition_seconds == pytest.approx(7.0)
        assert (passing.cost.unread_partition_seconds, passing.is_ongoing) == (0.0, False)

    def test_refused_heartbeats_alone_stop_nobody(self) -> None:
        words = "Heartbeat answered GROUP_AUTHORIZATION_FAILED"
        owned = reads(5.0, A, "t-0")

        (found,) = incidents(owned, signal(SignalKind.REFUSE, 100.0, A, reason=words), now=150.0)

        assert (found.kind, found.is_ongoing) == (K.JOIN_FAILED, False)
        assert found.cost.unread_partition_seconds == 0.0

    @pytest.mark.parametrize(
        ("errors", "unread", "is_ongoing"),
        [
            ((100.0,), 40.0, False),  # the application died of it: until another process reads
            ((100.0, 105.0, 110.0), 10.0, True),  # it polled on, and reads since
        ],
    )
    def test_member_that_loses_the_right_to_its_topics(
        self, errors: tuple[float, ...], unread: float, *, is_ongoing: bool
    ) -> None:
        """No sync ends it: a member of the group polls in vain."""
        refused = [
            signal(SignalKind.REFUSE, at, A, reason="Not authorized to read from partition t-0")
            for at in errors
        ]
        owned, again = reads(5.0, A, "t-0"), [] if is_ongoing else [reads(140.0, A, "t-0")]
        other = [] if is_ongoing else [reads(139.9, A)]

        found = incidents(owned, *refused, *other, *again, now=150.0)[0]

        assert kinds([found]) == [(K.JOIN_FAILED, ["a"])]
        assert found.detail["error"] == "TOPIC_AUTHORIZATION_FAILED"
        assert found.is_ongoing == is_ongoing
        assert found.cost.unread_partition_seconds == pytest.approx(unread)

    def test_refusal_within_a_rebalance_removes_nobody(self) -> None:
        words = "Metadata answered TOPIC_AUTHORIZATION_FAILED for t"
        refused = signal(SignalKind.REFUSE, 100.5, B, reason=words, source=SourceKind.WIRE)

        found = incidents(*round_of(2, 100.0, A, B, C, causes={"a": (7, "t grew")}), refused)

        assert K.REMOVED_BY_ADMIN not in {each.kind for each in found}

    def test_process_that_joins_with_the_id_of_another_in_the_new_protocol(self) -> None:
        """The client logs why it fails, and a moment later that it has failed."""
        d = replace(A, client_id="d", origin="d", host="h-d", group_instance_id="i2")
        words = "ConsumerGroupHeartbeatRequest failed due to unreleased instance id i2: owned by x"
        errors = [
            signal(SignalKind.FAIL, 100.0, d, reason=words),
            signal(SignalKind.FAIL, 100.03, d, reason="transitioned from JOINING to FATAL"),
        ]

        (found,) = incidents(*errors, now=110.0)

        assert kinds([found]) == [(K.FENCED, ["d"])]
        assert found.detail == {"errors": 1, "error": "UNRELEASED_INSTANCE_ID"}

    def test_fenced_member(self) -> None:
        fenced = signal(SignalKind.FAIL, 100.0, A, reason="Heartbeat answered FENCED_INSTANCE_ID")

        (found,) = incidents(fenced, now=110.0)

        assert kinds([found]) == [(K.FENCED, ["a"])]
        assert went(found) == [("a", DepartureMode.FENCED, False)]

    @pytest.mark.parametrize("gives_up", [True, False])
    def test_process_that_took_the_id_of_another_has_its_partitions(self, gives_up: bool) -> None:
        """The fenced process gives up its partitions when it closes; it returns 30 s later."""
        first = replace(A, group_instance_id="i1", member_id="i1-1")
        second = replace(first, member_id="i1-2", client_id="d", origin="d", host="h-d")
        again = replace(first, member_id="i1-3")
        fenced = "Heartbeat answered FENCED_INSTANCE_ID"

        (found,) = incidents(
            *joined(90.0, first),
            reads(90.1, first, "t-0"),
            *joined(99.8, second),
            reads(99.9, second, "t-0"),
            signal(SignalKind.FAIL, 100.0, first, reason=fenced),
            *([reads(105.0, first)] if gives_up else []),
            reads(130.0, again, "t-0"),
            now=140.0,
        )

        assert kinds([found]) == [(K.FENCED, ["a"])]
        assert found.cost.unread_partition_seconds == 0.0
        assert found.detail["processes"] == [
            {"client_id": "a", "host": "h-a", "member_id": "i1-1"},
            {"client_id": "d", "host": "h-d", "member_id": "i1-2"},
        ]

    @pytest.mark.parametrize(
        ("host", "words"), [("h-d", "a (h-a), a (h-d)"), ("h-a", "a (i1-1), a (i1-2)")]
    )
    def test_processes_that_share_all_ids_are_named_apart(self, host: str, words: str) -> None:
        """By their hosts if two agents see them, else by their member ids."""
        first = replace(A, group_instance_id="i1", member_id="i1-1")
        second = replace(first, member_id="i1-2", origin="d", host=host)
        fenced = signal(SignalKind.FAIL, 100.0, first, reason="Heartbeat: FENCED_INSTANCE_ID")
        of_first = records(*joined(90.0, first), fenced)
        of_second = [replace(each, agent="b") for each in records(*joined(99.8, second))]

        (found,) = analyze([*of_first, *of_second], now=110.0).incidents[-1:]

        text = f"a fenced: two processes use one instance id: {words} (FENCED_INSTANCE_ID)"
        assert summarize(answer_of(found)) == text

    def test_a_member_that_expires_while_a_broker_waits_for_joins_is_no_cause(self) -> None:
        """A coordinator prints its steps in their order, however short the time between them."""
        d = replace(A, client_id="d", group_instance_id="d", origin="d", host="h-d")
        asked = [raised(1, 100.0, each) for each in (A, B, C)]
        gone = [raised(3, 100.36, B), signal(SignalKind.FAIL, 100.37, B)]
        done = [signal(SignalKind.SYNC, 100.4, each, generation=2) for each in (A, C)]
        came = [signal(SignalKind.JOIN, 100.0, d), signal(SignalKind.SYNC, 100.4, d, generation=2)]

        seen = [*START, *asked, came[0], *gone, *done, came[1]]
        found = analyze(records(*map(by_broker, seen))).incidents[-1]

        assert (found.kind, names(found)) == (K.MEMBER_JOINED, ["d"])
        assert went(found) == [("b", DepartureMode.EXPIRED, False)]

    def test_rebalance_without_a_visible_cause_is_unknown(self) -> None:
        (found,) = incidents(*round_of(2, 100.0, A, B, C))

        assert (found.kind, names(found)) == (K.UNKNOWN, [])
        assert "broker_log" in found.missing


class TestOngoing:
    def test_names_who_has_not_joined(self) -> None:
        d = replace(A, client_id="d", origin="d", host="h-d")
        (found,) = incidents(
            raised(2, 100.0, d),
            signal(SignalKind.JOIN, 100.0, d),
            raised(1, 100.5, A),
            signal(SignalKind.JOIN, 100.6, A),
            raised(1, 100.7, B),
            now=104.0,
        )

        assert (found.kind, names(found), found.is_ongoing) == (K.MEMBER_JOINED, ["d"], True)
        assert sorted(wait.member.client_id for wait in found.waiting_for) == ["b", "c"]
        assert {wait.seconds for wait in found.waiting_for} == {4.0}

    def test_late_join_held_it_up(self) -> None:
        joins = {"a": 100.0, "b": 103.0, "c": 100.5}
        (found,) = incidents(*round_of(2, 100.0, A, B, C, causes={"a": (8, "s")}, joins=joins))

        (wait,) = found.waiting_for
        assert (wait.member.client_id, wait.seconds) == ("b", 2.5)

    def test_late_join_of_a_round_that_was_repeated_held_it_up(self) -> None:
        """A first round failed after it had waited for b; in the second all joined at once."""
        joins = {"a": 104.0, "b": 104.1, "c": 104.2}
        first = [signal(SignalKind.JOIN, at, m) for at, m in ((100.2, A), (103.5, B), (100.3, C))]
        raises, *_ = round_of(2, 100.0, A, B, C, causes={"a": (8, "s")}, joins=joins)
        rest = round_of(2, 100.0, A, B, C, causes={"a": (8, "s")}, joins=joins)

        (found,) = incidents(raises, *first, *rest)

        (wait,) = found.waiting_for
        assert wait.member.client_id == "b"
        assert wait.seconds == pytest.approx(3.2)

    def test_join_in_a_clients_log_comes_before_the_brokers_line_of_it(self) -> None:
        """The first round waited for a; it was repeated, as another member left meanwhile."""
        d = replace(A, client_id="d", origin="d", host="h-d")
        (found,) = incidents(
            signal(SignalKind.JOIN, 99.99, d),
            by_broker(raised(2, 100.0, d)),
            *(by_broker(raised(1, 100.0, member)) for member in (A, B, C)),
            *(signal(SignalKind.JOIN, at, m) for at, m in ((100.3, B), (100.4, C), (103.5, A))),
            *(signal(SignalKind.JOIN, 104.0, member) for member in (d, A, B, C)),
            *(signal(SignalKind.SYNC, 104.1, m, generation=3) for m in (d, A, B, C)),
        )

        (wait,) = found.waiting_for
        assert wait.member.client_id == "a"
        assert wait.seconds == pytest.approx(3.1)

    def test_log_of_a_broker_shows_who_may_have_been_late(self) -> None:
        """It shows the trigger and the end of the rebalance, not the joins between."""
        d = replace(A, client_id="d", origin="d", host="h-d")
        slow = [
            raised(2, 100.0, d),
            *(raised(1, 100.0, member) for member in (A, B)),
            *(signal(SignalKind.SYNC, 120.0, m, generation=2) for m in (A, B, d)),
        ]
        start = round_of(1, 0.0, A, B, causes={"a": NEW, "b": NEW})

        (_, found) = analyze(records(*map(by_broker, [*start, *slow]))).incidents

        waits = [(w.member.client_id, w.seconds, w.certainty) for w in found.waiting_for]
        assert waits == [("a", 20.0, Certainty.INFERRED), ("b", 20.0, Certainty.INFERRED)]


class TestRemovalByBroker:
    """A broker's log shows the removal of a member; another source shows all its other events."""

    def removed(self, at: float) -> Signal:
        reason = "removing member a on heartbeat expiration"
        return by_broker(raised(3, at, A, reason=reason))

    def test_join_that_names_the_removal_is_its_return(self) -> None:
        """A static member joins with a reason of KIP-800: that is one rebalance, and no removal."""
        a = replace(A, group_instance_id="i")
        start = round_of(1, 0.0, a, causes={"a": NEW})
        reason = "encountered UNKNOWN_MEMBER_ID from HEARTBEAT response"
        gone = [
            signal(SignalKind.NOTE, 100.0, a, reason="member was removed by an admin"),
            raised(3, 100.0, a, reason="member was removed by an admin"),
            signal(SignalKind.FAIL, 100.0, a, reason="no member any more"),
        ]
        back = [raised(3, 101.0, a, reason=reason), signal(SignalKind.SYNC, 101.4, a, generation=3)]

        found = analyze(records(*map(by_broker, [*start, *gone, *back]))).incidents[1:]

        assert kinds(found) == [(K.REMOVED_BY_ADMIN, ["a"])]
        assert len(found[0].rebalances) == 2

    def test_it_is_over_for_the_others_while_the_member_is_out(self) -> None:
        found, then = incidents(
            self.removed(100.0), *round_of(2, 100.0, B, C), *round_of(3, 200.0, B, C)
        )

        assert kinds([found]) == [(K.SESSION_EXPIRED, ["a"])]
        assert (found.is_ongoing, went(found)) == (False, [("a", DepartureMode.EXPIRED, False)])
        assert then.kind is not K.SESSION_EXPIRED

    def test_its_return_is_another_rebalance_of_it(self) -> None:
        (found,) = incidents(
            self.removed(100.0),
            *round_of(2, 100.0, B, C),
            *round_of(3, 110.0, A, B, C, causes={"a": (3, "Heartbeat answered UNKNOWN_MEMBER_ID")}),
        )

        assert kinds([found]) == [(K.SESSION_EXPIRED, ["a"])]
        assert went(found) == [("a", DepartureMode.EXPIRED, True)]
        assert len(found.rebalances) == 2

    def test_one_that_returns_at_once_takes_part_in_the_same_rebalance(self) -> None:
        back = {"a": (3, "Heartbeat answered UNKNOWN_MEMBER_ID")}
        (found,) = incidents(self.removed(100.0), *round_of(2, 100.2, A, B, C, causes=back))

        assert kinds([found]) == [(K.SESSION_EXPIRED, ["a"])]
        assert len(found.rebalances) == 1


@pytest.mark.parametrize(("late", "gap"), [(0.5, 0.01), (8.0, 0.01), (8.0, -0.4)])
def test_a_drop_whose_log_is_read_late_is_no_restart(late: float, gap: float) -> None:
    """The wire shows a leave without a reason, and waits for the log some seconds only."""

    def on_wire(each: Signal) -> Signal:
        member = replace(each.member, origin="10.0.0.1:5", member_id="a-1")
        return replace(each, source=SourceKind.WIRE, member=member)

    start = [
        pair for each in START for pair in (each, on_wire(each)) if each.member == A or pair is each
    ]
    drop = raised(5, 100.0 + gap, A, reason="consumer poll timeout has expired.")
    back = round_of(3, 112.0, A, causes={"a": NEW})
    arrivals = [(each.at, each) for each in start]
    arrivals += [(each.at, each) for each in [*round_of(2, 100.5, B, C), *round_of(3, 112.0, B, C)]]
    arrivals += [(each.at, on_wire(each)) for each in [left(100.0, A), *back]]
    arrivals += [(each.at + late, each) for each in [drop, *back]]
    tracker, out = Tracker(StatusConfig()), list[Sample]()
    for at, each in sorted(arrivals, key=lambda pair: pair[0]):
        out += [*tracker.advance(at), *tracker.apply(each)]
    out += tracker.flush()

    (found,) = analyze(sorted(out, key=lambda record: record.ts)).incidents[1:]

    assert kinds([found]) == [(K.POLL_TIMEOUT, ["a"])]
    assert went(found) == [("a", DepartureMode.DROPPED, True)]


class TestInVain:
    def test_never_joined_and_was_removed_for_it(self) -> None:
        """Its callback blocked for longer than the coordinator waits."""
        d = replace(A, client_id="d", origin="d", host="h-d")
        joins = {"d": 100.0, "a": 100.2, "b": 100.3}
        synced = [
            replace(each, at=104.0) if each.kind is SignalKind.SYNC else each
            for each in round_of(2, 100.0, A, B, d, causes={"d": NEW}, joins=joins)
        ]
        back = round_of(3, 112.0, A, B, C, d)
        found = incidents(raised(1, 100.5, C), *synced, *back, now=120.0)[0]

        assert kinds([found]) == [(K.MEMBER_JOINED, ["d"])]
        waits = [(wait.member.client_id, round(wait.seconds, 3)) for wait in found.waiting_for]
        assert ("c", 3.7) in waits

    def test_new_static_member_on_the_wire_joined_when_its_request_was_sent(self) -> None:
        """Its id is in the response alone, which comes when the late one has joined, too."""
        wire, static = SourceKind.WIRE, replace(D, group_instance_id="i-d")
        joins = [
            raised(1, 102.0, A, source=wire),
            signal(SignalKind.JOIN, 102.1, A, source=wire),
            raised(1, 103.0, B, source=wire),
            signal(SignalKind.JOIN, 108.0, B, source=wire),
            replace(signal(SignalKind.JOIN, 108.1, static, source=wire), sent_at=101.5),
        ]
        members = (A, B, static)
        ends = [signal(SignalKind.SYNC, 108.3, m, generation=2, source=wire) for m in members]

        found = analyze(records(*round_of(1, 0.0, A, B), *joins, *ends)).incidents[-1]

        assert kinds([found]) == [(K.MEMBER_JOINED, ["d"])]
        waits = [(wait.member.client_id, round(wait.seconds, 1)) for wait in found.waiting_for]
        assert waits == [("b", 5.9)]

    def test_join_after_a_rebalance_began_is_not_what_began_it(self) -> None:
        """A is dead, B was asked to rejoin and is slow, and D joins meanwhile."""
        wire, static = SourceKind.WIRE, replace(D, group_instance_id="i-d")
        start = [replace(each, source=wire) for each in round_of(1, 0.0, A, B)]
        ends = [signal(SignalKind.SYNC, 106.0, m, generation=2, source=wire) for m in (B, static)]

        (found,) = analyze(
            records(
                *start,
                raised(1, 100.0, B, source=wire),
                signal(SignalKind.JOIN, 105.5, B, source=wire),
                replace(signal(SignalKind.JOIN, 105.8, static, source=wire), sent_at=104.5),
                *ends,
            )
        ).incidents[1:]

        assert kinds([found]) == [(K.SESSION_EXPIRED, ["a"])]
        assert found.certainty is Certainty.INFERRED

    def test_first_join_that_met_an_error_is_what_began_its_rebalance(self) -> None:
        """A has expired, and nobody was there to notice."""
        wire, static = SourceKind.WIRE, replace(D, group_instance_id="i-d")
        start = [replace(each, source=wire) for each in round_of(1, 0.0, A)]
        *_, found = analyze(
            records(
                *start,
                raised(9, 100.0, static, source=wire, reason="COORDINATOR_LOAD_IN_PROGRESS"),
                signal(SignalKind.JOIN, 100.1, static, source=wire),
                signal(SignalKind.SYNC, 100.3, static, generation=4, source=wire),
            )
        ).incidents

        assert kinds([found]) == [(K.MEMBER_JOINED, ["d"])]

    def test_member_whose_rejoin_met_an_error_has_not_restarted(self) -> None:
        """The coordinator gave it another id meanwhile (2.6.3, by its log)."""
        before, after = (replace(A, member_id=f"a-{number}") for number in (1, 2))

        (found,) = analyze(
            records(
                *round_of(1, 0.0, before),
                raised(9, 100.0, before, reason="NotCoordinatorException"),
                signal(SignalKind.JOIN, 100.1, before),
                signal(SignalKind.SYNC, 106.0, after, generation=3),
            )
        ).incidents[1:]

        assert found.kind is not K.RESTART

    def test_dead_member_that_a_round_waits_for_was_silent_for_its_session(self) -> None:
        """It died at the start of the round; the others join twice for that round."""
        start = [reads(1.0, each, f"t-{n}") for n, each in enumerate((A, B, C))]
        session = lags((2.0, 0, 0))[0]
        timeout = {"field": "session.timeout.ms", "after": "6000", "subject": "member"}
        session = replace(session, **timeout, client_id="c", host=C.host, scope=Scope.CONSUMER)
        waits = [
            raised(1, 100.0, B),
            signal(SignalKind.JOIN, 100.1, B),
            raised(7, 99.9, A, reason="metadata"),
            signal(SignalKind.JOIN, 100.0, A),
            *(signal(SignalKind.JOIN, 106.2, each) for each in (A, B)),
            *(signal(SignalKind.SYNC, 106.4, each, generation=2) for each in (A, B)),
            reads(106.5, A, "t-0", "t-2"),
        ]

        (found,) = after([session], *start, *waits)

        assert went(found) == [("c", DepartureMode.EXPIRED, False)]
        assert [(w.member.client_id, round(w.seconds, 1)) for w in found.waiting_for] == [
            ("c", 6.1)
        ]
        assert found.cost.unread_partition_seconds == pytest.approx(6.6, abs=0.05)


class TestBrokerLog:
    def test_join_under_another_member_id_is_no_restart(self) -> None:
        """The leader joins for a reason that nobody sees, loses its id, and joins as new."""
        note = signal(SignalKind.NOTE, 100.0, A, reason="Leader a re-joining group during Stable")
        again = replace(A, origin="a-2")
        then = [
            raised(2, 103.0, again),
            raised(1, 103.0, A),
            raised(3, 109.0, A, reason="has failed"),
            signal(SignalKind.FAIL, 109.1, A, reason="no member any more"),
            signal(SignalKind.SYNC, 109.1, again, generation=3),
        ]
        start = round_of(1, 0.0, A, causes={"a": NEW})

        (_, found) = analyze(records(*map(by_broker, [*start, note, *then]))).incidents

        assert kinds([found]) == [(K.UNKNOWN, [])]
        assert went(found) == []

    def test_join_under_another_member_id_right_after_its_assignment_follows_from_it(self) -> None:
        """Its sync failed for a reason that no broker logs: the earlier incident continues."""
        again = replace(A, origin="a-2")
        then = [
            signal(SignalKind.NOTE, 100.0, A, reason="Leader a re-joining group during Stable"),
            raised(1, 100.0, A),
            signal(SignalKind.SYNC, 100.1, A, generation=2),
            raised(2, 100.4, again),
            raised(1, 100.4, A),
            raised(3, 106.0, A, reason="has failed"),
            signal(SignalKind.FAIL, 106.1, A, reason="no member any more"),
            signal(SignalKind.SYNC, 106.1, again, generation=3),
        ]
        start = round_of(1, 0.0, A, causes={"a": NEW})

        (_, found) = analyze(records(*map(by_broker, [*start, *then]))).incidents

        assert kinds([found]) == [(K.UNKNOWN, [])]
        assert len(found.rebalances) == 2

    def test_round_a_second_later_is_no_follow_up(self) -> None:
        start = round_of(1, 0.0, A, B, causes={"a": NEW, "b": NEW})
        then = round_of(2, 2.1, A, B)

        found = analyze(records(*map(by_broker, [*start, *then]))).incidents

        assert kinds(found) == [(K.MEMBER_JOINED, ["a", "b"]), (K.UNKNOWN, [])]


class TestCost:
    def test_counts_from_the_revocation_to_the_next_owner(self) -> None:
        (found,) = incidents(
            reads(1.0, A, "t-0"),
            reads(1.0, B, "t-1"),
            left(100.0, A, "closed"),
            *round_of(2, 101.0, B, C),
            reads(102.0, C, "t-0"),
        )

        assert found.cost.unread_partition_seconds == 2.0

    def test_of_a_leave_right_behind_a_rebalance_does_not_count_that_rebalance(self) -> None:
        """A gave its partition up twice in a second: for its own rebalance, and as it closed."""
        found = incidents(
            reads(1.0, A, "t-0"),
            reads(1.0, B, "t-1"),
            reads(100.0, A),
            *round_of(2, 100.0, A, B, C, causes={"a": (6, "because")}),
            reads(100.6, A, "t-0"),
            reads(100.8, A),
            left(100.9, A, "closed"),
            *round_of(3, 101.0, B, C),
            reads(102.0, C, "t-0"),
        )

        assert [each.kind for each in found] == [K.ENFORCED, K.MEMBER_LEFT]
        costs = [each.cost.unread_partition_seconds for each in found]
        assert costs == [pytest.approx(0.6), pytest.approx(1.2)]

    def test_counts_for_a_drop_from_the_last_poll(self) -> None:
        """An earlier rebalance ended just then: it costs nothing."""
        late = replace(A, max_poll_interval_s=50.0)
        found = incidents(
            *round_of(2, 50.0, A, B, C, causes={"b": (8, "s")}),
            reads(50.5, late, "t-0"),
            raised(5, 100.5, late, reason="poll interval expired"),
            *round_of(3, 101.0, B, C),
            reads(102.5, C, "t-0"),
        )

        assert [each.cost.unread_partition_seconds for each in found] == [0.0, 52.0]

    def test_ends_with_the_rebalance_in_which_an_unseen_member_takes_them(self) -> None:
        """The others have the rest of the topic then: all of it is assigned."""
        found = self.drop_of_a_beside_one_that_nobody_sees()

        assert found[0].cost.unread_partition_seconds == pytest.approx(51.0 + 51.1 + 0.5)

    def test_of_an_unseen_member_ends_there_though_the_dropped_one_stays_away(self) -> None:
        """It is no end of the group."""
        found = self.drop_of_a_beside_one_that_nobody_sees(back_at=1_500.0)

        assert found[0].cost.unread_partition_seconds == pytest.approx(51.0 + 51.1 + 0.5)

    def test_of_a_topic_that_no_other_member_reads_ends_with_the_return(self) -> None:
        found = self.drop_of_a_beside_one_that_nobody_sees(topic="u")

        assert found[0].cost.unread_partition_seconds == pytest.approx(90.1 + 51.1 + 0.5)

    def test_of_the_only_reader_of_a_topic_lasts_as_long_as_it_is_out(self) -> None:
        """The group lives on: nobody else reads the topic for 24 minutes."""
        found = self.drop_of_a_beside_one_that_nobody_sees(topic="u", back_at=1_500.0)

        assert found[0].cost.unread_partition_seconds == pytest.approx(1_450.1 + 51.1 + 0.5)

    @pytest.mark.parametrize("until", [300.0, 1_500.0])
    def test_of_the_only_reader_of_a_topic_grows_while_it_is_out(self, until: float) -> None:
        late = replace(A, max_poll_interval_s=50.0)
        seen = [reads(10.0, late, "u-0"), reads(10.0, B, "t-1"), reads(10.0, C, "t-3")]
        dropped = raised(5, 100.5, late, reason="poll interval expired")
        (found,) = incidents(*seen, dropped, *round_of(2, 101.0, B, C), now=at_second(until))

        assert found.cost.unread_partition_seconds == pytest.approx(until - 50.5)

    @pytest.mark.parametrize(
        ("until", "seconds"), [(300.0, 199.5), (3_000.0, 2_899.5), (9_000.0, 3_600.0)]
    )
    def test_of_a_dead_only_reader_grows_for_an_hour_at_most(
        self, until: float, seconds: float
    ) -> None:
        """A later return is another incident."""
        owned = [reads(10.0, A, "u-0"), reads(10.0, B, "t-1"), reads(10.0, C, "t-3")]
        expired = by_broker(raised(3, 100.5, A, reason="heartbeat expiration"))
        seen = [*START, *owned, expired, *round_of(2, 101.0, B, C)]
        found = analyze(records(*seen), now=at_second(until)).incidents[1]

        assert found.kind is K.SESSION_EXPIRED
        assert found.cost.unread_partition_seconds == pytest.approx(seconds)

    def test_of_a_member_that_left_for_good_ends_with_its_subscription(self) -> None:
        """Nobody subscribes to the topic any more: a later member brings it anew."""
        (found, _) = incidents(
            *(reads(10.0, A, "u-0"), reads(10.0, B, "t-1"), reads(99.9, A)),
            *leave_of_a(100.0),
            *round_of(3, 1_500.0, A, B, C, causes={"a": NEW}),
            reads(1_500.6, A, "u-0"),
        )

        assert found.cost.unread_partition_seconds == 0.0

    def test_of_a_group_that_stops_later_counts_until_then(self) -> None:
        """A's topic is unread for 19 minutes, then the group ends for a night."""
        late = replace(A, max_poll_interval_s=50.0)
        found = incidents(
            *(reads(10.0, late, "u-0"), reads(10.0, B, "t-1"), reads(10.0, C, "t-3")),
            raised(5, 100.5, late, reason="poll interval expired"),
            *round_of(2, 101.0, B, C),
            *(reads(1_199.9, each) for each in (B, C)),
            *(left(1_200.0, each, "closed") for each in (B, C)),
            *round_of(1, 30_000.0, late, B, C, causes={"a": NEW, "b": NEW, "c": NEW}),
            *(reads(30_001.0, late, "u-0"), reads(30_001.0, B, "t-1"), reads(30_001.0, C, "t-3")),
        )

        assert found[0].cost.unread_partition_seconds == pytest.approx(1_200.0 - 50.5)

    def test_of_a_rebalance_of_a_quarter_of_an_hour_counts(self) -> None:
        """All have stopped for it and wait for one that is busy: the group has not gone."""
        slow = [
            replace(each, at=1_000.0) if each.at > 100.4 else each
            for each in round_of(2, 100.0, A, B, C, causes={"b": (8, "s")})
        ]
        (found,) = incidents(
            *(reads(10.0, A, "t-0"), reads(10.0, B, "t-1")),
            *(reads(100.0, each) for each in (A, B)),
            *slow,
            *(reads(1_000.1, A, "t-0"), reads(1_000.1, B, "t-1")),
        )

        assert found.cost.unread_partition_seconds == pytest.approx(2 * 900.1)

    def test_of_an_unseen_taker_ends_with_the_rebalance_in_new_protocols_too(self) -> None:
        """Others read the topic: the coordinator has given the partition to one of them."""
        share = [replace(each, group_type="consumer") for each in (A, B, C)]
        (a, b, c) = share
        found = analyze(
            records(
                *(
                    replace(
                        each, member=next(m for m in share if m.client_id == each.member.client_id)
                    )
                    for each in START
                ),
                *(reads(10.0, a, "t-0"), reads(10.0, b, "t-1"), reads(10.0, c, "t-2")),
                by_broker(raised(3, 100.5, a, reason="heartbeat expiration")),
                *round_of(2, 101.0, b, c),
                *round_of(3, 1_500.0, a, b, c, causes={"a": NEW}),
                reads(1_500.6, a, "t-0"),
            )
        ).incidents[1]

        assert found.cost.unread_partition_seconds == pytest.approx(46.0)

    def test_does_not_end_with_a_rebalance_whose_members_have_not_polled(self) -> None:
        """One of them may have got the partition, and gives it up before it polls."""
        found = self.drop_of_a_beside_one_that_nobody_sees(is_c_late=True)

        assert found[0].cost.unread_partition_seconds == pytest.approx(90.1 + 51.1 + 0.5 + 39.55)

    def test_of_a_static_member_that_is_not_removed_ends_with_its_return(self) -> None:
        """A rebalance of the others assigns its partitions to it."""
        found = self.drop_of_a_beside_one_that_nobody_sees(instance="a-1")

        assert found[0].cost.unread_partition_seconds == pytest.approx(90.1 + 51.1 + 0.5)

    def drop_of_a_beside_one_that_nobody_sees(
        self,
        topic: str = "t",
        back_at: float = 140.0,
        instance: str | None = None,
        *,
        is_c_late: bool = False,
    ) -> list[Incident]:
        """A has two partitions. While it is out, B has one of them, and a fourth member the other.

        A lost them with its last poll, at 50.5 s.
        """
        late = replace(A, max_poll_interval_s=50.0, group_instance_id=instance)
        of_a = f"{topic}-0"
        revoked = [reads(101.05, C)] if is_c_late else []
        return incidents(
            *(reads(10.0, late, of_a, "t-1"), reads(10.0, B, "t-2"), reads(10.0, C, "t-3")),
            raised(5, 100.5, late, reason="poll interval expired"),
            *round_of(2, 101.0, B, C),
            *revoked,
            reads(101.6, B, "t-1", "t-2"),
            *round_of(3, back_at, late, B, C, causes={"a": (5, "s")}),
            *(reads(back_at - 0.01, late), reads(back_at + 0.1, B, "t-2")),
            *(
                reads(back_at + 0.6, each, *own)
                for each, own in ((late, (of_a, "t-1")), (C, ("t-3",)))
            ),
        )

    def test_partitions_that_stay_cost_nothing(self) -> None:
        (found,) = incidents(
            reads(1.0, A, "t-0"), *round_of(2, 100.0, A, B, C, causes={"b": (8, "s")})
        )

        assert found.cost.unread_partition_seconds == 0.0

    def test_topic_that_nobody_wants_any_more_costs_nothing(self) -> None:
        """Its only reader leaves it out, and takes it up again a minute later."""
        words = "subscription has changed from [t, u] to [t]"
        (found,) = incidents(
            *(reads(50.0, A, "t-0"), reads(50.0, B, "t-1", "u-0")),
            reads(100.0, B),
            *round_of(2, 100.0, A, B, C, causes={"b": (8, words)}),
            *(reads(100.6, B, "t-1"), reads(160.0, B, "t-1", "u-0")),
        )

        assert found.detail == {"added": [], "removed": ["u"]}
        assert found.cost.unread_partition_seconds == pytest.approx(0.6)

    @pytest.mark.parametrize(
        "words",
        [
            "subscription has changed from [t, u] to [t]",
            "Subscribed to topic(s): t",
        ],
    )
    def test_topic_that_a_member_drops_while_another_leaves_costs_nothing_more(
        self, words: str
    ) -> None:
        """The leave is the incident; B's change of its subscription is within its rebalance."""
        (found,) = incidents(
            *(reads(50.0, A, "t-0"), reads(50.0, B, "t-1", "u-0"), reads(50.0, C, "t-2")),
            left(100.0, A, "closed"),
            reads(100.4, B),
            *round_of(2, 100.4, B, C, causes={"b": (8, words)}),
            reads(101.0, B, "t-0", "t-1"),
            now=at_second(160.0),
        )

        assert found.kind is K.MEMBER_LEFT
        assert found.cost.unread_partition_seconds == pytest.approx(1.0 + 0.6)

    @pytest.mark.parametrize(
        "words",
        [
            "subscription has changed from [t, u] to [t]",
            "received assignment [u-0, t-1] does not match the current subscription Subscribe(t)",
        ],
    )
    def test_topic_that_a_member_drops_in_the_next_incident_counts_until_then(
        self, words: str
    ) -> None:
        """B gives all up for new metadata, and subscribes to less before it has them again."""
        found = incidents(
            *(reads(50.0, A, "t-0"), reads(50.0, B, "t-1", "u-0"), reads(100.0, B)),
            *round_of(2, 100.0, A, B, C, causes={"b": (7, "cached metadata has changed")}),
            *round_of(3, 100.7, A, B, C, causes={"b": (8, words)}),
            reads(101.3, B, "t-1"),
            now=at_second(160.0),
        )

        assert [each.kind for each in found] == [K.METADATA_CHANGED, K.SUBSCRIPTION_CHANGED]
        costs = [each.cost.unread_partition_seconds for each in found]
        assert costs == [pytest.approx(1.3 + 0.7), 0.0]

    def test_is_not_known_where_no_source_shows_assignments(self) -> None:
        (found,) = incidents(*round_of(2, 100.0, A, B, C, causes={"b": (8, "s")}))

        assert found.cost.unread_partition_seconds is None


class TestWhatNoSettingSaves:
    """A read t-0, B read t-1 and t-2; A left, and came back."""

    def history(self) -> Incident:
        (found,) = incidents(
            reads(1.0, A, "t-0"),
            reads(1.0, B, "t-1", "t-2"),
            reads(99.9, A),
            left(100.0, A, "closed"),
            *round_of(2, 100.5, B, C),
            reads(100.5, B),
            reads(101.5, B, "t-1"),
            reads(101.5, C, "t-0", "t-2"),
            *round_of(3, 110.0, A, B, C, causes={"a": NEW}),
            reads(110.0, B),
            reads(110.0, C),
            reads(111.0, B, "t-1"),
            reads(111.0, C, "t-2"),
            reads(111.0, A, "t-0"),
        )
        return found

    def test_time_that_the_member_was_away_counts_for_its_own_partition(self) -> None:
        found = self.history()
        (went,) = found.departures
        assert went.returned_at is not None
        assert found.cost.away_partition_seconds == pytest.approx(went.returned_at - 100.0)

    def test_fewest_moves_count_from_the_leave_to_the_end(self) -> None:
        """B had two and C none, then C two and B one: one had to move. Then A gained one."""
        found = self.history()
        (first, second) = found.rebalances
        assert found.cost.partitions_to_move == 2
        assert found.cost.partitions_handed_over == 1
        assert found.cost.moved_partition_seconds == pytest.approx(
            (first.ended_at - 100.0) + (second.ended_at - second.started_at)
        )

    def test_members_of_other_topics_do_not_change_places(self) -> None:
        """A gave u-1 up; B, which had one of t, has got t-1, too: A cannot have had its place."""
        (found,) = incidents(
            reads(1.0, A, "u-0", "u-1"),
            reads(1.0, B, "t-0"),
            *round_of(2, 100.0, A, B, C, causes={"b": (8, "s")}),
            *(reads(100.1, each) for each in (A, B)),
            reads(100.6, A, "u-0"),
            reads(100.6, B, "t-0", "t-1"),
        )
        assert found.cost.partitions_to_move == 1

    def test_killed_member_owns_nothing_when_it_is_back_hours_later(self) -> None:
        """It reported no revocation, so the partitions move to it."""
        owned = {"a": ["t-0", "t-1"], "b": ["t-2", "t-3"], "c": ["t-4", "t-5"]}
        others = {"b": ["t-0", "t-2", "t-3"], "c": ["t-1", "t-4", "t-5"]}
        after = {"a": ["t-2", "t-4"], "b": ["t-0", "t-3"], "c": ["t-1", "t-5"]}
        found = incidents(
            *(reads(11.0, each, *owned[each.client_id]) for each in (A, B, C)),
            *round_of(2, 100.0, B, C),
            *(reads(101.0, each, *others[each.client_id]) for each in (B, C)),
            *round_of(3, 7_300.0, A, B, C, causes={"a": NEW}),
            *(reads(7_301.0, each, *after[each.client_id]) for each in (A, B, C)),
        )

        assert kinds(found) == [(K.SESSION_EXPIRED, ["a"]), (K.MEMBER_JOINED, ["a"])]
        assert [each.cost.partitions_to_move for each in found] == [2, 2]
        assert found[1].cost.partitions_handed_over == 2

    def test_not_known_where_no_source_shows_assignments(self) -> None:
        (found,) = incidents(*round_of(2, 100.0, A, B, C, causes={"b": (8, "s")}))
        assert found.cost.away_partition_seconds is None
        assert found.cost.moved_partition_seconds is None


def test_members_of_one_name_with_and_without_an_instance_id_may_be_equally_late() -> None:
    static = replace(A, group_instance_id="i", origin="i")
    refused = [signal(SignalKind.FAIL, 100.0, each, reason="UNKNOWN") for each in (A, static)]
    late = round_of(2, 100.0, B, A, static, joins={"b": 99.0, "a": 103.0})

    assert analyze(records(*START, *round_of(1, 0.0, static), *late)).incidents
    assert len(incidents(*refused, now=110.0)) == 2


def test_order_of_records_does_not_matter() -> None:
    found = records(*START, left(100.0, A), *round_of(2, 101.0, B, C))

    assert analyze(found).incidents == analyze(reversed(found)).incidents


def test_records_without_a_cluster_join_the_only_known_one() -> None:
    found = records(*START)
    nameless = [replace(each, cluster="") if each.client_id == "c" else each for each in found]

    assert [each.ref.cluster for each in analyze(nameless).incidents] == ["k"]


def test_group_that_loops_is_read_in_linear_time() -> None:
    """The work is counted in incidents of one group: each of 300 rebalances is one."""
    tracker, found = Tracker(StatusConfig()), list[Sample]()
    for each in START:
        found += tracker.apply(each)
    for number in range(300):
        at = 100.0 + 60 * number
        for each in round_of(2 + number, at, A, B, C, causes={"a": (7, "metadata")}):
            found += tracker.apply(each)

    analysis = analyze(found)

    assert len(analysis.rebalances) == len(analysis.incidents) == 301
    assert all(r.trigger.code is RebalanceStatus.METADATA_CHANGED for r in analysis.rebalances[1:])


def test_host_that_is_learned_late_makes_no_second_member() -> None:
    late = replace(A, host="vm", member_id="a-1")
    early = replace(A, host="127.0.0.1", member_id="a-1")
    found = records(
        *round_of(1, 0.0, early, B, causes={"a": NEW, "b": NEW}),
        *round_of(2, 100.0, late, B, causes={"a": (8, "topics")}),
    )

    hosts = {m.host for each in analyze(found).incidents for m in each.members}
    assert hosts == {"vm", "h-b"}


def test_records_that_name_no_member_are_left_out_where_others_do() -> None:
    nameless = replace(A, client_id="", origin="log")
    found = records(*START, *round_of(2, 100.0, A, B, C, nameless, causes={"a": (8, "s")}))

    assert kinds(analyze(found).incidents[1:]) == [(K.SUBSCRIPTION_CHANGED, ["a"])]


def test_line_without_a_name_makes_a_leave_a_drop() -> None:
    """The wire shows that a member leaves; its log shows the reason and names no member."""
    nameless = replace(A, client_id="", origin="log")
    leave = left(100.0, A)
    (found,) = [
        each
        for each in analyze(
            records(
                *START,
                replace(leave, source=SourceKind.WIRE),
                raised(5, 100.0, nameless, reason="Heartbeat poll expired, leaving group"),
                *round_of(2, 101.0, B, C),
                *round_of(3, 110.0, A, B, C, causes={"a": NEW}),
            )
        ).incidents
        if each.started_at >= 100.0
    ]

    assert kinds([found]) == [(K.POLL_TIMEOUT, ["a"])]
    assert went(found) == [("a", DepartureMode.DROPPED, True)]
    assert found.reason == "Heartbeat poll expired, leaving group"


class TestLag:
    def test_has_the_lag_before_its_height_and_when_it_was_as_before(self) -> None:
        grown = lags((101.0, 40, 900), (111.0, 900, 5300), (151.0, 5400, 30))

        (found,) = after(grown, *leave_of_a(100.0))

        cost = found.cost
        assert (cost.lag_before, cost.lag, cost.caught_up_at) == (40, 5400, at_second(151.0))
        assert lag_growth(answer_of(found)) == [
            "lag from 40 to 5,400 records, caught up at 1970-01-01 00:02:31"
        ]

    def test_has_no_end_while_the_group_is_behind(self) -> None:
        (found,) = after(lags((101.0, 40, 900)), *leave_of_a(100.0))

        assert (found.cost.lag, found.cost.caught_up_at) == (900, None)
        assert lag_growth(answer_of(found)) == ["lag from 40 to 900 records, not caught up yet"]

    def test_is_each_incidents_own_and_both_have_the_end(self) -> None:
        grown = lags((101.0, 40, 900), (501.0, 900, 7000), (551.0, 7000, 0))
        second = round_of(3, 500.0, B, C, causes={"b": (8, "s")})

        first, other = after(grown, *leave_of_a(100.0), *second)

        assert [each.cost.lag for each in (first, other)] == [900, 7000]
        assert {each.cost.caught_up_at for each in (first, other)} == {at_second(551.0)}

    def test_is_not_known_where_no_lag_was_read(self) -> None:
        (found,) = after([], *leave_of_a(100.0))

        assert (found.cost.lag, found.cost.lag_before, found.cost.caught_up_at) == (
            None,
            None,
            None,
        )
        assert lag_growth(answer_of(found)) == []


def test_leave_on_a_clock_that_is_behind_is_no_expiry() -> None:
    """By the leaving member's clock, the others rebalance before its leave."""
    made = records(
        *START,
        *round_of(2, 100.0, A, B),
        left(101.4, C, "closed"),
        signal(SignalKind.SEEN, 150.0, A),
    )

    found = analyze(made, now=200.0).incidents[1:]

    assert kinds(found) == [(K.MEMBER_LEFT, ["c"])]
    assert [(went.how, went.returned_at) for went in found[0].departures] == [
        (DepartureMode.LEFT, None)
    ]
    assert (found[0].certainty, found[0].reason) == (Certainty.SEEN, "closed")


def test_recent_incidents_are_whole() -> None:
    """A stuck member that came back a minute ago was dropped before the last two minutes."""
    dropped = raised(5, 1_000.0, A, reason="poll interval expired")
    back = [raised(2, 1_300.0, A), signal(SignalKind.SYNC, 1_300.6, A, generation=3)]
    made = records(*START, dropped, *round_of(2, 1_001.0, B, C), *back, *round_of(3, 1_300.1, B, C))
    whole = analyze(made, now=1_360.0)

    last = recent(whole, since=1_240.0)

    (found,) = last.incidents
    assert (found.kind, len(found.rebalances)) == (K.POLL_TIMEOUT, 2)
    assert {each.round.id for each in last.rebalances} == {span.id for span in found.rebalances}
    assert recent(whole, since=1_301.0).incidents == []


class TestAdviceOnAssignors:
    def test_is_given_where_others_stop_for_a_join(self) -> None:
        (found,) = incidents(*self.join_of_d())

        assert "partition.assignment.strategy" in settings(found)

    def test_is_not_given_to_members_that_are_alone(self) -> None:
        (found,) = analyze(records(*START)).incidents

        assert "partition.assignment.strategy" not in settings(found)

    def test_is_not_given_to_a_group_of_the_new_protocol(self) -> None:
        (found,) = incidents(*self.join_of_d(group_type="consumer"))

        assert found.kind is K.MEMBER_JOINED
        assert settings(found).isdisjoint(
            {"partition.assignment.strategy", "group.initial.rebalance.delay.ms"}
        )

    @pytest.mark.parametrize("assignor", ["cooperative-sticky", "range"])
    def test_is_not_given_to_a_cooperative_group(self, assignor: str) -> None:
        (found,) = incidents(*self.join_of_d(assignor=assignor))

        assert ("partition.assignment.strategy" in settings(found)) == (assignor == "range")

    def test_is_not_given_to_threads_of_streams(self) -> None:
        one, two = (replace(A, client_id=f"s-StreamThread-{n}-consumer", origin="s") for n in "12")
        signals = (
            *round_of(1, 0.0, one, causes={one.client_id: NEW}),
            *round_of(2, 90.0, one, two, causes={two.client_id: NEW}),
        )

        found = analyze(records(*signals)).incidents[-1]

        assert found.kind is K.MEMBER_JOINED
        assert "partition.assignment.strategy" not in settings(found)

    @staticmethod
    def join_of_d(**attributes: str) -> list[Signal]:
        new = replace(A, client_id="d", origin="d", host="h-d")
        members = [replace(each, **attributes) for each in (A, B, C, new)]
        return round_of(2, 100.0, *members, causes={"d": NEW})


def settings(incident: Incident) -> set[str | None]:
    return {each.setting for each in recommend(incident)}


def test_source_of_the_cause_is_one_of_the_incidents() -> None:
    drop = raised(5, 100.0, A, reason="poll interval expired", source=SourceKind.LOGS)
    back = signal(SignalKind.SYNC, 130.6, A, generation=3, source=SourceKind.WIRE)
    stay = [replace(each, source=SourceKind.WIRE) for each in round_of(2, 100.5, B, C)]

    (found,) = incidents(drop, *stay, back)

    assert found.sources == ("logs", "wire")


@pytest.mark.parametrize(
    ("member", "kind"),
    [
        (A, ClientKind.CONSUMER),
        (replace(A, protocol_type="connect"), ClientKind.CONNECT),
        (replace(A, client_id="s-StreamThread-1-consumer", origin="s"), ClientKind.STREAMS),
    ],
)
def test_kind_of_clients_is_that_of_the_members(member: Member, kind: ClientKind) -> None:
    (found,) = incidents(*round_of(2, 100.0, member, B))
    assert found.client_kind is kind


class TestPodNames:
    """Client ids that are the names of a Deployment's pods, on hosts of any name."""

    OLD, NEWS = (
        [
            Member(cluster="k", group="g", client_id=f"app-{tag}", origin=tag, host=f"node-{n}")
            for n, tag in enumerate(tags)
        ]
        for tags in (
            ("7d9f8b6c5d-bcdfg", "7d9f8b6c5d-hjklm"),
            ("5c4d7b9f6f-bbcdf", "5c4d7b9f6f-ghjkl"),
        )
    )

    def test_wave_of_new_pods_before_the_old_ones_leave_is_one_rollout(self) -> None:
        """maxSurge: no workload label links them."""
        old, new = self.OLD, self.NEWS
        history = [
            *round_of(1, 0.0, *old, causes=dict.fromkeys((m.client_id for m in old), NEW)),
            *round_of(2, 100.0, *old, new[0], causes={new[0].client_id: NEW}),
            left(110.0, old[0], "closed"),
            *round_of(3, 111.0, old[1], new[0]),
            *round_of(4, 120.0, old[1], *new, causes={new[1].client_id: NEW}),
            left(130.0, old[1], "closed"),
            *round_of(5, 131.0, *new),
        ]

        (_, found) = analyze(records(*history)).incidents

        assert found.kind is K.ROLLOUT
        assert len(found.rebalances) == 4

    def test_young_pods_of_one_release_that_come_and_go_are_scaling(self) -> None:
        old, _ = self.OLD
        come = replace(old, client_id="app-7d9f8b6c5d-npqrs", origin="n", host="node-9")
        history = [
            *round_of(1, 0.0, old, A, causes={old.client_id: NEW, "a": NEW}),
            *round_of(2, 50.0, old, come, A, causes={come.client_id: NEW}),
            left(60.0, old, "closed"),
            *round_of(3, 61.0, come, A),
        ]

        found = analyze(records(*history)).incidents

        assert [each.kind for each in found[1:]] == [K.MEMBER_JOINED, K.MEMBER_LEFT]

    def test_numbers_alone_are_no_pods(self) -> None:
        d = replace(A, client_id="d", origin="d", host="h-d")
        came = round_of(2, 100.0, A, B, C, d, causes={"d": NEW})

        found = incidents(*came, left(110.0, A, "closed"), *round_of(3, 111.0, B, C, d))

        assert kinds(found) == [(K.MEMBER_JOINED, ["d"]), (K.MEMBER_LEFT, ["a"])]


class TestKilledProcesses:
    def crash(self, number: int, at: float) -> list[Signal]:
        """Return an expiry of C that the others notice, and its return as a new process."""
        new = replace(C, member_id=f"c-{number}")
        return [
            *round_of(2 * number, at, A, B),
            *round_of(2 * number + 1, at + 10.0, A, B, new, causes={"c": NEW}),
        ]

    def test_crash_loop_of_a_killed_process_is_nobodys_request(self) -> None:
        history = [each for n in (1, 2, 3) for each in self.crash(n, 100.0 * n)]

        found = incidents(*history)[0]
        answer = answer_of(found)

        assert found.kind is K.CRASH_LOOP
        assert {each.how for each in answer.departures} == {"expired"}
        assert reason_of(answer) is None

    def test_step_of_the_protocol_is_no_reason(self) -> None:
        words = "need to re-join with the given member-id: c-1"
        d = replace(A, client_id="d", origin="d", host="h-d")
        came = round_of(2, 100.0, A, B, C, d, causes={"d": (2, words)})

        (found,) = incidents(*came)

        assert found.reason == words
        assert reason_of(answer_of(found)) is None


def test_member_of_the_new_protocol_that_polls_late_is_waited_for_and_costs() -> None:
    """Its log shows the new assignment at once, and the revocation when it polls again."""
    a, b, d = (
        Member(cluster="k", group="g", client_id=c, origin=c, host=c, group_type="consumer")
        for c in "abd"
    )
    start = [
        each
        for member in (a, b)
        for each in (
            raised(2, 0.0, member),
            reads(1.0, member, f"{member.client_id}-0", f"{member.client_id}-1"),
            signal(SignalKind.SYNC, 1.0, member, generation=2),
        )
    ]
    slow = [
        raised(1, 101.0, a, reason="transitioned from STABLE to RECONCILING"),
        raised(10, 113.0, a, reason="Revoking previously assigned partitions [a-1]"),
        reads(113.0, a, "a-0"),
        signal(SignalKind.SYNC, 113.1, a, generation=3),
    ]
    new = [
        raised(2, 100.0, d),
        signal(SignalKind.SYNC, 100.5, d, generation=3),
        raised(1, 113.5, d),
        reads(114.0, d, "a-1"),
        signal(SignalKind.SYNC, 114.0, d, generation=3),
    ]

    found = analyze(records(*start, *slow, *new)).incidents[-1]

    assert kinds([found]) == [(K.MEMBER_JOINED, ["d"])]
    assert [(w.member.client_id, round(w.seconds, 1)) for w in found.waiting_for] == [("a", 12.1)]
    assert found.cost.unread_partition_seconds == pytest.approx(13.0)


def test_member_of_the_new_protocol_that_changes_its_topics_right_behind_an_assignment() -> None:
    """What it gives up by the second one was not taken by the first: nobody reads it any more."""
    a, d = (replace(each, group_type="consumer") for each in (A, D))
    signals = [
        raised(2, 0.0, a),
        reads(1.0, a, "t-0", "t-1", "u-0"),
        signal(SignalKind.SYNC, 1.0, a, generation=2),
        raised(2, 100.0, d),
        signal(SignalKind.SYNC, 100.1, d, generation=3),
        raised(1, 100.2, a, reason="transitioned from STABLE to RECONCILING"),
        raised(10, 100.3, a, reason="Revoking previously assigned partitions [t-1]"),
        reads(100.3, a, "t-0", "u-0"),
        signal(SignalKind.SYNC, 100.4, a, generation=3),
        raised(8, 100.5, a, reason="Subscribed to topic(s): t"),
        raised(1, 100.5, a, reason="transitioned from STABLE to RECONCILING"),
        raised(10, 100.8, a, reason="Revoking previously assigned partitions [u-0]"),
        reads(100.8, a, "t-0"),
        signal(SignalKind.SYNC, 100.9, a, generation=4),
        raised(1, 101.0, d),
        reads(101.2, d, "t-1"),
        signal(SignalKind.SYNC, 101.2, d, generation=3),
    ]

    joined_, changed = analyze(records(*signals), now=at_second(160.0)).incidents[1:]

    assert kinds([joined_, changed]) == [(K.MEMBER_JOINED, ["d"]), (K.SUBSCRIPTION_CHANGED, ["a"])]
    costs = [each.cost.unread_partition_seconds for each in (joined_, changed)]
    assert costs == [pytest.approx(1.0), 0.0]


def test_topic_has_grown_though_a_member_leaves_right_behind_the_rebalance() -> None:
    a, b = (replace(each, group_type="consumer") for each in (A, B))
    signals = [
        each
        for member, own, new, at in ((a, ("t-0", "t-1"), "t-4", 100.0), (b, ("t-2",), "t-3", 100.5))
        for each in (
            raised(2, 0.0, member),
            reads(1.0, member, *own),
            signal(SignalKind.SYNC, 1.0, member, generation=2),
            raised(1, at, member, reason="new assignment in epoch 3"),
            reads(at + 0.2, member, *own, new),
            signal(SignalKind.SYNC, at + 0.2, member, generation=3),
        )
    ]

    leave = (reads(101.3, a), left(101.3, a, "closed"))
    grown, gone = analyze(records(*signals, *leave)).incidents[1:]

    assert kinds([grown, gone]) == [(K.METADATA_CHANGED, []), (K.MEMBER_LEFT, ["a"])]
    assert grown.detail == {"topics": [{"topic": "t", "before": 3, "after": 5}]}


def dead_beside_one_that_hangs(*more: Signal) -> list[Incident]:
    """Return the incidents of a group of KIP-848: A died, B took its partition, C hangs since."""
    a, b, c = (replace(each, group_type="consumer") for each in (A, B, C))
    start = [
        each
        for number, member in enumerate((a, b, c))
        for each in (
            raised(2, 0.0, member),
            reads(1.0, member, f"t-{number}"),
            signal(SignalKind.SYNC, 1.0, member, generation=2),
        )
    ]
    taken = [
        raised(1, 100.0, b, reason="new assignment in epoch 3"),
        reads(100.2, b, "t-0", "t-1"),
        signal(SignalKind.SYNC, 100.2, b, generation=3),
        raised(1, 103.0, c, reason="new assignment in epoch 3"),
        raised(10, 103.0, c, reason="the new assignment takes 1 away"),
    ]
    known = records(*start, *taken, *more)
    return analyze(known, now=at_second(150.0)).incidents[1:]


def test_member_of_the_new_protocol_has_expired_though_another_one_hangs() -> None:
    """B got its partition; C is asked for its own, and does not answer: the rebalance is open."""
    b = replace(B, group_type="consumer")
    (found,) = dead_beside_one_that_hangs(reads(120.0, b, "t-0", "t-1", "t-3"))

    assert (found.is_ongoing, kinds([found])) == (True, [(K.SESSION_EXPIRED, ["a"])])


def test_failed_join_within_a_rebalance_did_not_begin_it() -> None:
    """The next heartbeat of C is refused, 3 s behind the effect of A's end."""
    c = replace(C, group_type="consumer")
    refused = signal(
        SignalKind.REFUSE, 102.9, c, reason="heartbeat answered INCORRECTLY_PARTITIONED_TOPICS"
    )

    (found, *_) = dead_beside_one_that_hangs(
        refused, signal(SignalKind.SYNC, 103.5, c, generation=3)
    )

    assert kinds([found]) == [(K.SESSION_EXPIRED, ["a"])]


def test_partitions_of_a_member_that_nobody_sees_are_no_new_ones() -> None:
    """Each member that is seen was told to rebalance, so another one began: it has left."""
    start = [*round_of(1, 0.0, A, causes={"a": NEW}), reads(1.0, A, "t-0", "t-1")]
    then = [*round_of(2, 100.0, A), reads(100.2, A), reads(101.0, A, "t-0", "t-1", "t-2")]

    found = analyze(records(*start, *then)).incidents[-1]

    assert (found.kind, found.detail) == (K.UNKNOWN, {})


class TestConnect:
    WORKERS = tuple(replace(each, protocol_type="connect") for each in (A, B, C))

    def joins(self, generation: int, at: float, shown: str | None = None) -> list[Signal]:
        """Return a round that all workers join by themselves; their assignment shows more."""
        members = self.WORKERS
        out = [signal(SignalKind.JOIN, at, each) for each in members]
        return out + [
            signal(SignalKind.SYNC, at + 0.1, each, generation=generation, reason=shown)
            for each in members
        ]

    def analyze(self, *signals: Signal) -> list[Incident]:
        causes = {"a": NEW, "b": NEW, "c": NEW}
        return analyze(records(*round_of(1, 0.0, *self.WORKERS, causes=causes), *signals)).incidents

    def test_newer_configuration_on_the_wire(self) -> None:
        words = "newer Connect configuration: offset 5, 2 before"

        (_, found) = self.analyze(*self.joins(2, 100.0, words))

        assert kinds([found]) == [(K.TASK_CONFIGURATION, [])]
        assert (found.certainty, found.reason) == (Certainty.INFERRED, words)

    def test_next_newer_configuration_on_the_wire_is_another_rebalance(self) -> None:
        """A connector's tasks follow at once: no revocation made that generation necessary."""
        (_, found) = self.analyze(
            *self.joins(2, 100.0, "newer Connect configuration: offset 2, -1 before"),
            *self.joins(3, 100.4, "newer Connect configuration: offset 4, 2 before"),
        )

        assert kinds([found]) == [(K.TASK_CONFIGURATION, [])]
        assert [each.generations for each in found.rebalances] == [(2,), (3,)]

    def test_joins_without_any_evidence_stay_unknown(self) -> None:
        (_, found) = self.analyze(*self.joins(2, 100.0))

        assert found.kind is K.UNKNOWN

    @pytest.mark.parametrize(("gap_s", "number"), [(2.0, 1), (60.0, 2)])
    def test_tasks_are_configured_right_after_their_connector(
        self, gap_s: float, number: int
    ) -> None:
        first = {"a": (7, "Connector files config updated")}
        then = {"b": (7, "Tasks [files-0] configs updated")}

        found = self.analyze(
            *round_of(2, 100.0, *self.WORKERS, causes=first),
            *round_of(3, 100.5 + gap_s, *self.WORKERS, causes=then),
        )

        assert [each.kind for each in found[1:]] == [K.TASK_CONFIGURATION] * number
        assert sum(len(each.rebalances) for each in found[1:]) == 2

    @pytest.mark.parametrize(("at", "kind"), [(400.0, K.MEMBER_LEFT), (300.0, K.UNKNOWN)])
    def test_workers_join_again_behind_the_delay_of_a_leave(
        self, at: float, kind: IncidentKind
    ) -> None:
        """Tasks of the worker that left wait five minutes for it."""
        left_at = left(99.9, self.WORKERS[0], "closed")
        after = [
            replace(each, reason="rebalance delay: 300000")
            if each.kind is SignalKind.SYNC
            else each
            for each in round_of(2, 99.5, *self.WORKERS[1:])
        ]
        rejoin = [each for each in self.joins(3, at) if each.member is not self.WORKERS[0]]

        found = self.analyze(left_at, *after, *rejoin)

        assert found[-1].kind is kind
