"""Group rebalances from the records that a real tracker writes of members' signals."""

import random
from collections.abc import Iterable, Mapping

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from aggregation.rebalances.departures import Departure, DepartureKind, workload
from aggregation.rebalances.rebalances import ExplainedRebalance, explain_rebalances
from aggregation.rebalances.root_cause import Certainty, Straggler
from aggregation.rebalances.segments import MemberRef
from metrics.model.sample import Sample, SampleKind, Scope, format_time, parse_time
from metrics.model.signals import Member, Signal, SignalKind, SourceKind
from metrics.model.status import RebalanceStatus as Status
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker
from tests.metrics.given import demand, raised, run, signal

A, B, C = (Member(cluster="k", group="g", client_id=c, origin=c, host=f"h-{c}") for c in "abc")
B_REF = MemberRef("b", "h-b")
REMOVED = "ops-bad-host"


def round_of(
    generation: int,
    at: float,
    *members: Member,
    causes: Mapping[str, tuple[int, str | None]] | None = None,
    joins: dict[str, float] | None = None,
) -> list[Signal]:
    """Every member is told (1) or has a cause of its own, joins, and syncs half a second later."""
    causes, joins, out = causes or {}, joins or {}, list[Signal]()
    end = max([at, *joins.values()]) + 0.5
    for member in members:
        code, reason = causes.get(member.client_id, (1, None))
        began = at if member.client_id in causes else at + 0.1
        out.append(raised(code, began, member, reason=reason))
        out.append(signal(SignalKind.JOIN, joins.get(member.client_id, began), member))
        out.append(signal(SignalKind.SYNC, end, member, generation=generation))
    return sorted(out, key=lambda each: each.at)


def gaining(generation: int, at: float, **gained: int | None) -> list[Signal]:
    """Return a round of all members, with what each of them gains."""
    return [
        msgspec.structs.replace(each, gained=gained[each.member.client_id])
        if each.kind is SignalKind.SYNC
        else each
        for each in round_of(generation, at, A, B, C)
    ]


def left(at: float, member: Member, reason: str | None = None) -> Signal:
    return signal(SignalKind.LEAVE, at, member, reason=reason)


NEW = (2, "need to re-join with the given member-id")
START = round_of(1, 0.0, A, B, C, causes={"a": NEW, "b": NEW, "c": NEW})


def records(*signals: Signal) -> list[Sample]:
    tracker = Tracker(StatusConfig())
    return run(tracker, *sorted(signals, key=lambda each: each.at)) + tracker.flush()


def episodes(*signals: Signal) -> list[ExplainedRebalance]:
    """Explain a history and leave out how the group began."""
    return explain_rebalances(records(*START, *signals))[1:]


def client(member: MemberRef | None) -> str | None:
    return None if member is None else member.client_id


def story(found: Iterable[ExplainedRebalance]) -> list[tuple[Certainty, str | None, int | None]]:
    return [(e.trigger.certainty, client(e.trigger.member), e.trigger.code) for e in found]


def went(departures: Iterable[Departure]) -> list[tuple[str, DepartureKind]]:
    return [(each.member.client_id, each.kind) for each in departures]


class TestTrigger:
    def test_earliest_cause_wins_not_the_highest(self) -> None:
        causes = {"a": (7, "metadata"), "b": (8, "subscription")}
        found = episodes(
            *round_of(2, 100.0, A, causes=causes), *round_of(2, 100.2, B, C, causes=causes)
        )

        assert story(found) == [(Certainty.SEEN, "a", Status.METADATA_CHANGED)]
        assert found[0].trigger.reason == "metadata"
        assert found[0].highest is Status.SUBSCRIPTION_CHANGED

    def test_leave_begins_the_rebalance_of_those_who_stay(self) -> None:
        found = episodes(left(100.0, A, "closed"), *round_of(2, 102.5, B, C))

        assert story(found) == [(Certainty.SEEN, "a", Status.USER_REQUESTED)]
        assert found[0].round.started_at == 100.0

    @pytest.mark.parametrize(("generation", "rebalances"), [(3, 1), (4, 2)])
    def test_leave_of_the_last_member_begins_no_rebalance(
        self, generation: int, rebalances: int
    ) -> None:
        """The empty group counts a generation; the log shows no cause of the next join."""
        d = replace(A, client_id="d", origin="d", host="h-d")
        join = [
            signal(SignalKind.JOIN, 105.2, d),
            signal(SignalKind.SYNC, 105.5, d, generation=generation),
        ]
        *_, last = found = episodes(*round_of(2, 50.0, A), left(100.0, A, "closed"), *join)

        assert len(found) == 1 + rebalances
        assert client(last.trigger.member) == ("a" if rebalances == 1 else "d")

    def test_leave_that_two_agents_see_begins_one_late_rebalance(self) -> None:
        of_log = records(*START, left(100.0, A), *round_of(2, 104.8, B, C))
        of_wire = [
            msgspec.structs.replace(
                record,
                id=f"w{record.id}",
                agent="wire",
                episode=record.episode and f"w{record.episode}",
                ts=format_time(parse_time(record.ts) + 0.005),
            )
            for record in of_log
            if record.client_id == "a"
        ]
        found = explain_rebalances([*of_log, *of_wire])[1:]

        assert story(found) == [(Certainty.SEEN, "a", Status.USER_REQUESTED)]

    def test_member_that_leaves_while_it_is_to_join_is_of_that_rebalance(self) -> None:
        """Its leave is answered when the others have joined, shortly before the next rebalance."""
        d = replace(A, client_id="d", origin="d", host="h-d")
        running = [
            raised(2, 100.0, d),
            *(raised(1, 100.01, member) for member in (A, B, C)),
            left(106.5, A),
            *(signal(SignalKind.SYNC, 106.6, each, generation=2) for each in (B, C, d)),
        ]
        found = episodes(*running, left(109.7, d), *round_of(3, 109.7, B, C))

        assert [each.round.generations for each in found] == [(2,), (3,)]
        assert [went(each.departures) for each in found] == [
            [("a", DepartureKind.LEFT)],
            [("d", DepartureKind.LEFT)],
        ]
        assert story(found) == [
            (Certainty.SEEN, "d", Status.NEW_MEMBER),
            (Certainty.SEEN, "d", Status.USER_REQUESTED),
        ]

    def test_member_that_leaves_after_its_assignment_is_of_the_next_rebalance(self) -> None:
        slow = [
            *(raised(1, 100.0, member) for member in (A, B, C)),
            signal(SignalKind.SYNC, 101.0, A, generation=2),
            raised(1, 101.2, A),
            left(101.3, A),
            *(signal(SignalKind.SYNC, 101.5, each, generation=2) for each in (B, C)),
        ]
        found = episodes(*slow, *round_of(3, 101.6, B, C))

        assert [went(each.departures) for each in found] == [[], [("a", DepartureKind.LEFT)]]

    def test_two_that_leave_one_after_the_other_are_one_rebalance(self) -> None:
        found = episodes(left(100.0, A), left(100.5, B), *round_of(2, 101.0, C))

        assert story(found) == [(Certainty.SEEN, "a", Status.USER_REQUESTED)]

    def test_dropped_member_triggers_twice_and_the_second_follows_from_the_first(self) -> None:
        dropped = raised(5, 100.0, A, reason="poll interval expired")
        back = [raised(2, 130.0, A), signal(SignalKind.SYNC, 130.6, A, generation=3)]
        found = episodes(dropped, *round_of(2, 101.0, B, C), *back, *round_of(3, 130.1, B, C))

        first, second = found
        assert story(found) == [(Certainty.SEEN, "a", 5), (Certainty.SEEN, "a", 2)]
        assert second.caused_by == first.round.id
        assert first.seconds < 2.0

    def test_dropped_member_that_says_so_twice_comes_back_when_it_joins(self) -> None:
        dropped = [raised(5, at, A, reason="poll interval expired") for at in (100.0, 100.01)]
        back = [raised(2, 130.0, A), signal(SignalKind.SYNC, 130.6, A, generation=3)]
        found = episodes(*dropped, *round_of(2, 101.0, B, C), *back, *round_of(3, 130.1, B, C))

        assert [each.round.started_at for each in found] == [100.0, 130.0]

    def test_masked_cause_counts(self) -> None:
        found = episodes(
            raised(7, 100.0, B),
            raised(6, 99.9, A),
            raised(2, 99.95, A),
            *(signal(SignalKind.SYNC, 100.5, m, generation=2) for m in (A, B)),
        )

        assert story(found) == [(Certainty.SEEN, "a", Status.USER_REQUESTED)]

    @pytest.mark.parametrize(
        "reason",
        [
            "triggered followup rebalance scheduled for 0",
            "Triggering the followup rebalance scheduled for 1970-01-01T00:00:00Z",
        ],
    )
    def test_follow_up_at_once_blames_nobody(self, reason: str) -> None:
        found = episodes(*round_of(2, 100.0, A, causes={"a": (6, reason)}))

        assert story(found) == [(Certainty.UNKNOWN, None, None)]

    def test_follow_up_at_a_set_time_is_the_probing_rebalance(self) -> None:
        reason = "triggered followup rebalance scheduled for 1795243069000"
        found = episodes(*round_of(2, 100.0, A, B, C, causes={"a": (6, reason)}))

        assert story(found) == [(Certainty.SEEN, "a", Status.ASSIGNMENT_PROBING)]

    def test_removed_by_an_admin_speaks_in_the_admins_words(self) -> None:
        note = signal(SignalKind.NOTE, 99.0, A, reason=REMOVED, source=SourceKind.WIRE)
        found = episodes(note, *round_of(2, 100.0, A, B, C, causes={"a": (3, "unknown member")}))

        assert story(found) == [(Certainty.SEEN, "a", Status.UNKNOWN_MEMBER)]
        assert found[0].trigger.reason == REMOVED
        assert went(found[0].departures) == [("a", DepartureKind.REMOVED)]


class TestInference:
    def test_one_member_that_took_no_part_is_named(self) -> None:
        found = episodes(*round_of(2, 100.0, B, C))

        assert story(found) == [(Certainty.INFERRED, "a", Status.UNKNOWN_MEMBER)]
        assert went(found[0].departures) == [("a", DepartureKind.EXPIRED)]

    def test_two_members_that_took_no_part_are_not(self) -> None:
        found = episodes(*round_of(2, 100.0, C))

        assert story(found) == [(Certainty.UNKNOWN, None, None)]
        assert found[0].trigger.missing == "what became of a, b: gone, and no source reported when"

    def test_long_rebalance_may_have_waited_for_a_member_that_then_expired(self) -> None:
        slow = round_of(2, 100.0, B, C)
        late = [replace_at(each, 109.0) if each.kind is SignalKind.SYNC else each for each in slow]

        assert story(episodes(*late)) == [(Certainty.UNKNOWN, None, None)]

    def test_long_rebalance_that_waited_for_another_member(self) -> None:
        joined_late = episodes(*round_of(2, 100.0, B, C, joins={"b": 112.0}))
        b, c = round_of(2, 100.0, B)[:1], round_of(2, 100.0, C)
        synced = [replace_at(each, 112.1) if each.kind is SignalKind.SYNC else each for each in c]
        dropped = episodes(*b, *synced, raised(5, 112.0, B))

        for found in (joined_late, dropped):
            assert story(found)[:1] == [(Certainty.INFERRED, "a", Status.UNKNOWN_MEMBER)]
            assert found[0].straggler is not None
            assert found[0].straggler.member == B_REF

    @pytest.mark.parametrize(
        ("later_s", "known"), [(5.0, Certainty.UNKNOWN), (30.0, Certainty.INFERRED)]
    )
    def test_rebalance_that_waits_for_another_member(
        self, later_s: float, known: Certainty
    ) -> None:
        """Whom nobody has asked by then is gone; the group waits for the one that was asked."""
        b, c = round_of(2, 100.0, B)[:1], round_of(2, 100.0, C)[:2]
        written = records(*START, *b, *c)
        now = 100.0 + later_s
        sampled = replace(written[-1], id="s", kind=SampleKind.SAMPLE, ts=format_time(now))

        (*_, found) = explain_rebalances([*written, sampled], now=now)

        assert found.round.is_open
        assert found.trigger.certainty is known

    def test_member_whose_agent_fell_silent_is_not_blamed(self) -> None:
        mine = [replace_agent(record, "agent-a") for record in records(*START)]
        others = records(*START, *round_of(2, 100.0, B, C))
        seen_by_b = [r for r in others if r.client_id != "a"]

        found = explain_rebalances([r for r in mine if r.client_id == "a"] + seen_by_b)[1:]

        assert story(found) == [(Certainty.UNKNOWN, None, None)]

    def test_all_took_part_and_nobody_had_a_cause(self) -> None:
        found = episodes(*round_of(2, 100.0, A, B, C))

        assert story(found) == [(Certainty.UNKNOWN, None, None)]
        assert found[0].trigger.missing == "the member that began it: no agent sees it"

    def test_join_without_a_cause_names_who_joined_while_others_were_told(self) -> None:
        d = replace(A, client_id="d", origin="d", group_instance_id="i-d")
        join = [signal(SignalKind.JOIN, 100.0, d), signal(SignalKind.SYNC, 100.5, d, generation=2)]
        found = episodes(*join, *round_of(2, 100.0, A, B, C))

        assert story(found) == [(Certainty.INFERRED, "d", Status.NEW_MEMBER)]

    @pytest.mark.parametrize("ends", [[], [left(100.0, each) for each in (A, B, C)]])
    def test_join_of_a_group_that_was_empty_names_who_joined(self, ends: list[Signal]) -> None:
        """A coordinator counts a generation, too, where its last member goes."""
        d = replace(A, client_id="d", origin="d", group_instance_id="i-d")
        join = [signal(SignalKind.JOIN, 130.0, d), signal(SignalKind.SYNC, 130.5, d, generation=3)]

        *_, found = episodes(*ends, *join)

        assert story([found]) == [(Certainty.INFERRED, "d", Status.NEW_MEMBER)]

    @pytest.mark.parametrize(("generations", "rebalances"), [(2, 1), (3, 3), (20, 20)])
    def test_loop_of_joins_without_a_cause_is_no_follow_up(
        self, generations: int, rebalances: int
    ) -> None:
        """A Connect worker with a CONFIG_MISMATCH; two may be one and its revocation."""
        loop = [
            signal(kind, 100.0 + n / 100, A, generation=n + 2 if kind is SignalKind.SYNC else None)
            for n in range(generations)
            for kind in (SignalKind.JOIN, SignalKind.SYNC)
        ]

        assert len(episodes(*loop)) == rebalances

    def test_static_member_that_comes_back_disturbs_nobody(self) -> None:
        d = replace(A, client_id="d", origin="d", group_instance_id="i-d")
        join = [signal(SignalKind.JOIN, 30.0, d), signal(SignalKind.SYNC, 30.1, d, generation=1)]

        assert episodes(*join) == []

    def test_expired_member_that_comes_back_is_told_of_once(self) -> None:
        found = episodes(
            *round_of(2, 100.0, B, C), *round_of(3, 120.0, A, B, C, causes={"a": (3, "unknown")})
        )

        first, second = found
        assert went(first.departures) == [("a", DepartureKind.EXPIRED)]
        assert went(second.departures) == []
        assert second.caused_by == first.round.id

    def test_static_member_with_an_old_generation_was_never_gone(self) -> None:
        found = episodes(
            *round_of(2, 100.0, B, C), *round_of(3, 110.0, A, B, C, causes={"a": (4, "stale")})
        )

        assert [went(each.departures) for each in found] == [[], []]


class TestTogether:
    def test_generation_joins_what_clocks_tear_apart(self) -> None:
        skewed = round_of(2, 160.0, B)
        found = episodes(*round_of(2, 100.0, A, causes={"a": (8, "s")}), *skewed)

        assert story(found) == [(Certainty.SEEN, "a", Status.SUBSCRIPTION_CHANGED)]

    def test_generations_of_one_episode_are_one_rebalance(self) -> None:
        held = signal(
            SignalKind.SYNC, 100.5, A, generation=2, own=demand(10, 100.5, reason="revoke")
        )
        found = episodes(
            raised(1, 100.1, A),
            held,
            signal(SignalKind.SYNC, 101.0, A, generation=3),
            *round_of(2, 100.0, B, causes={"b": NEW}),
            *round_of(3, 100.6, C),
        )

        assert story(found) == [(Certainty.SEEN, "b", Status.NEW_MEMBER)]
        assert found[0].round.generations == (2, 3)

    def test_next_generation_is_the_next_rebalance_though_they_overlap(self) -> None:
        first = round_of(2, 100.0, A, B, causes={"a": (7, "m")}, joins={"b": 100.4})
        found = episodes(*first, *round_of(3, 100.95, A, B, causes={"a": (8, "s")}))

        assert [code for *_, code in story(found)] == [7, 8]

    def test_same_generation_of_another_life_is_another_rebalance(self) -> None:
        found = episodes(*round_of(1, 9_000.0, A, causes={"a": NEW}))

        assert len(found) == 1

    def test_without_generations_time_rules(self) -> None:
        stats = [replace_generation(each) for each in round_of(2, 100.0, A, B, causes={"a": NEW})]
        found = episodes(*stats)

        assert story(found) == [(Certainty.SEEN, "a", Status.NEW_MEMBER)]
        assert {piece.member.client_id for piece in found[0].round.segments} == {"a", "b"}

    @pytest.mark.parametrize("kind", ["left", "expired"])
    def test_departure_that_two_agents_saw_is_one(self, kind: str) -> None:
        """The proxy knows the member by its member id, and shows the peer's address as host."""
        if kind == "left":
            signals = [left(100.0, B), *round_of(2, 100.2, A, C)]
        else:
            signals = round_of(2, 100.0, A, B, C, causes={"b": (3, "unknown member id")})
        here = [replace(r, member_id=f"{r.client_id}-id") for r in records(*START, *signals)]
        there = [
            replace(r, id=f"proxy-{r.id}", agent="proxy", host="10.0.0.7", episode=f"p{r.episode}")
            for r in here
            if r.client_id == "b" and r.ts > here[0].ts
        ]
        found = explain_rebalances([*here, *there])
        assert [(d.member.client_id, d.kind) for e in found for d in e.departures] == [("b", kind)]

    def test_id_that_a_cluster_gives_again_is_of_another_member(self) -> None:
        """librdkafka's mock cluster: an id is an address, which a later member may have."""
        before, after = replace(B, member_id="0x7f"), replace(A, member_id="0x7f")
        found = episodes(
            *round_of(2, 100.0, before, C, causes={"b": (8, "s")}),
            *round_of(3, 200.0, after, C, causes={"a": (5, "poll timeout")}),
        )

        assert client(found[-1].trigger.member) == "a"
        assert {client(piece.member) for piece in found[-1].round.segments} == {"a", "c"}

    def test_member_that_two_agents_saw_is_one(self) -> None:
        here = replace(A, member_id="a-1")
        there = replace(here, host="10.0.0.7", origin="wire")
        found = episodes(
            *round_of(2, 100.0, here, causes={"a": (8, "s")}),
            *round_of(2, 100.0, there, causes={"a": (8, "s")}),
        )

        assert len({piece.member for piece in found[0].round.segments}) == 1
        assert found[0].member_seconds == pytest.approx(0.5)

    def test_members_of_a_new_protocol_go_one_by_one(self) -> None:
        a, b = (replace(m, group_type="consumer") for m in (A, B))
        got = run(
            Tracker(StatusConfig()),
            raised(2, 0.0, b),
            signal(SignalKind.SYNC, 0.4, b, generation=3),
            signal(SignalKind.SEEN, 1.0, a, generation=2),
            raised(1, 1.2, a),
            signal(SignalKind.SYNC, 1.4, a, generation=2),
            raised(1, 4.9, b),
            signal(SignalKind.SYNC, 5.0, b, generation=3),
            left(7.0, b),
            raised(1, 9.0, a),
            signal(SignalKind.SYNC, 9.1, a, generation=4),
        )

        found = explain_rebalances(got)

        assert story(found) == [(Certainty.SEEN, "b", 2), (Certainty.SEEN, "b", 6)]
        assert [each.round.ended_at for each in found] == [5.0, 9.1]


class TestStraggler:
    def test_is_who_joined_last(self) -> None:
        joins = {"a": 100.0, "b": 103.0, "c": 100.5}
        (found,) = episodes(*round_of(2, 100.0, A, B, C, causes={"a": (8, "s")}, joins=joins))

        assert found.straggler == Straggler(MemberRef("b", "h-b"), 2.5)

    def test_is_who_joined_last_where_another_agent_shows_no_join(self) -> None:
        """A broker's log shows the first join of a member alone."""
        joins = {"a": 100.0, "b": 103.0, "c": 100.5}
        signals = round_of(2, 100.0, A, B, C, causes={"a": (8, "s")}, joins=joins)
        broker = [
            msgspec.structs.replace(
                each,
                source=SourceKind.BROKER_LOG,
                member=replace(each.member, origin="server.log"),
                reason=None,
            )
            for each in signals
            if each.kind is not SignalKind.JOIN
        ]
        seen = [
            msgspec.structs.replace(record, agent=agent, id=f"{agent}{record.id}")
            for agent, of_agent in (("clients", signals), ("broker", broker))
            for record in records(*of_agent)
        ]
        (found,) = explain_rebalances(seen)

        assert found.straggler == Straggler(MemberRef("b", "h-b"), 2.5)

    def test_heartbeats_own_jitter_makes_nobody_slow(self) -> None:
        joins = {"a": 100.0, "b": 100.9, "c": 100.5}
        (found,) = episodes(*round_of(2, 100.0, A, B, C, causes={"a": (8, "s")}, joins=joins))

        assert found.straggler is None

    def test_is_whose_statistics_had_a_hole_where_no_join_tells(self) -> None:
        hole = signal(SignalKind.NOTE, 100.3, B, reason="suspected", source=SourceKind.STATS)
        (found,) = episodes(*round_of(2, 100.0, A, B, C, causes={"a": (8, "s")}), hole)

        assert found.straggler is not None
        assert found.straggler.member.client_id == "b"
        assert found.straggler.waited_s == pytest.approx(0.5)

    def test_is_who_was_waited_for_in_vain(self) -> None:
        slow = round_of(2, 100.0, B, C, causes={"b": (8, "s")})
        late = [replace_at(each, 109.0) if each.kind is SignalKind.SYNC else each for each in slow]
        (found,) = episodes(*late)

        assert found.straggler is not None
        assert found.straggler.member.client_id == "a"
        assert found.straggler.waited_s == pytest.approx(8.9)

    def test_is_who_was_dropped_where_all_others_had_joined(self) -> None:
        new = [
            raised(2, 100.0, C, reason="need to re-join with the given member-id"),
            signal(SignalKind.JOIN, 100.0, C),
            signal(SignalKind.SYNC, 400.5, C, generation=2),
        ]
        (found,) = explain_rebalances(
            records(
                *round_of(1, 0.0, A, causes={"a": NEW}),
                raised(1, 101.0, A),
                raised(5, 400.0, A, reason="consumer poll timeout has expired."),
                *new,
            )
        )[1:]

        assert (found.trigger.code, client(found.trigger.member)) == (2, "c")
        assert found.straggler == Straggler(MemberRef("a", "h-a"), 300.0)

    def test_a_drop_after_a_request_to_join_has_not_begun_the_rebalance(self) -> None:
        found = explain_rebalances(
            records(
                *round_of(1, 0.0, A, causes={"a": NEW}),
                raised(1, 100.0, A),
                raised(5, 397.0, A, reason="consumer poll timeout has expired."),
            )
        )[-1]

        assert (found.trigger.code, found.trigger.member) == (None, None)
        assert found.straggler == Straggler(MemberRef("a", "h-a"), 297.0)


class TestDepartures:
    def test_one_of_many_that_leaves_is_a_scale_down(self) -> None:
        pods = [replace(A, client_id="p", host=f"shop-7d9f8b6c5d-x2x9{n}", origin=n) for n in "bcd"]
        new = {"p": NEW}
        found = explain_rebalances(
            records(
                *round_of(1, 0.0, *pods, causes=new),
                left(9_000.0, pods[0], "closed"),
                *round_of(2, 9_001.0, *pods[1:]),
            )
        )

        assert went(found[-1].departures) == [("p", DepartureKind.SCALE_DOWN)]

    def test_replaced_within_minutes_is_a_rollout(self) -> None:
        pods = [replace(A, client_id="p", host=f"shop-7d9f8b6c5d-x2x9{n}", origin=n) for n in "bcd"]
        found = explain_rebalances(
            records(
                *round_of(1, 0.0, *pods[:2], causes={"p": NEW}),
                left(9_000.0, pods[0]),
                *round_of(2, 9_001.0, pods[1]),
                *round_of(3, 9_030.0, pods[2], causes={"p": NEW}),
                *round_of(3, 9_030.0, pods[1]),
            )
        )

        assert went(found[1].departures) == [("p", DepartureKind.ROLLOUT)]

    def test_surge_before_a_long_lived_member_goes_is_a_rollout(self) -> None:
        old, new = (replace(A, client_id=f"shop-{n}", origin=f"{n}") for n in (1, 2))
        found = explain_rebalances(
            records(
                *round_of(1, 0.0, old, causes={"shop-1": NEW}),
                *round_of(2, 9_000.0, old, new, causes={"shop-2": NEW}),
                left(9_040.0, old),
                *round_of(3, 9_041.0, new),
            )
        )

        assert went(found[-1].departures) == [("shop-1", DepartureKind.ROLLOUT)]

    def test_member_that_was_new_behind_an_error_came_as_new(self) -> None:
        late = [raised(9, 9_000.0, A), raised(2, 9_000.1, A), *round_of(2, 9_000.2, A)]
        found = episodes(*late, *round_of(2, 9_000.2, B, C), *round_of(3, 9_060.0, B, C))

        assert went(found[-1].departures) == [("a", DepartureKind.EXPIRED)]

    def test_one_that_comes_back_takes_nobodys_place(self) -> None:
        pods = [replace(A, client_id="p", host=f"shop-{n}", origin=str(n)) for n in range(3)]
        found = explain_rebalances(
            records(
                *round_of(1, 0.0, *pods, causes={"p": NEW}),
                raised(5, 9_000.0, pods[0]),
                *round_of(2, 9_001.0, *pods[1:]),
                left(9_010.0, pods[1]),
                *round_of(3, 9_011.0, pods[2]),
                raised(2, 9_030.0, pods[0]),
                *round_of(4, 9_030.0, pods[0], pods[2]),
            )
        )

        assert went(found[2].departures) == [("p", DepartureKind.SCALE_DOWN)]

    def test_alone_it_just_left(self) -> None:
        found = episodes(left(100.0, A, "closed"), *round_of(2, 101.0, B, C))

        assert went(found[0].departures) == [("a", DepartureKind.LEFT)]
        assert found[0].departures[0].reason == "closed"

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("shop-7d9f8b6c5d-x2x9b", "shop-6c8f7b5d4f-z4z7c"),
            ("shop-0", "shop-11"),
            ("s-1f0c1e1a-0f5b-4a53-9a39-0b4f8a1f2c3d-StreamThread-1-consumer",) * 2,
        ],
    )
    def test_workload_has_no_number(self, one: str, other: str) -> None:
        assert workload(MemberRef("c", one)) == workload(MemberRef("c", other))
        assert workload(MemberRef(one)) != workload(MemberRef("cart-0"))


class TestCost:
    def test_is_the_members_time(self) -> None:
        (found,) = episodes(*round_of(2, 100.0, A, B, C, causes={"a": (8, "s")}))

        assert found.seconds == pytest.approx(0.5)
        assert found.member_seconds == pytest.approx(0.5 + 2 * 0.4)


def history() -> list[Sample]:
    return records(
        *START,
        left(100.0, A, "closed"),
        *round_of(2, 101.0, B, C),
        raised(5, 200.0, B),
        *round_of(3, 201.0, C),
        *round_of(4, 300.0, B, C, causes={"b": (2, None)}),
        *round_of(5, 400.0, B, C, causes={"c": (7, "m")}),
    )


@given(st.integers(), st.lists(st.sampled_from(range(12))))
def test_order_and_doubles_change_nothing(seed: int, again: list[int]) -> None:
    got = history()
    shuffled = got + [got[i] for i in again]
    random.Random(seed).shuffle(shuffled)

    assert explain_rebalances(shuffled) == explain_rebalances(got)


@given(st.sets(st.sampled_from("abc")))
def test_with_some_members_unseen_no_wrong_name(seen: set[str]) -> None:
    got = history()
    whole = {each.round.generations: each.trigger for each in explain_rebalances(got)}

    for each in explain_rebalances([record for record in got if record.client_id in seen]):
        truth = whole.get(each.round.generations)
        if each.trigger.member is not None and truth is not None and each.round.generations != (1,):
            assert each.trigger.member == truth.member


def replace_agent(record: Sample, agent: str) -> Sample:

    return msgspec.structs.replace(record, agent=agent)


def replace_generation(got: Signal) -> Signal:
    return signal(got.kind, got.at, got.member, status=got.status, reason=got.reason)


def replace_at(got: Signal, at: float) -> Signal:
    return signal(got.kind, at, got.member, generation=got.generation)


def test_follower_that_joins_again_alone_makes_nobody_absent() -> None:
    """The coordinator repeats its generation to it, and asks nobody else: no rebalance."""
    again = [
        raised(6, 100.0, B, reason="enforced"),
        signal(SignalKind.JOIN, 100.0, B),
        signal(SignalKind.SYNC, 100.1, B, generation=1),
    ]

    assert episodes(*again) == []


def test_absent_member_that_was_only_late_is_no_trigger() -> None:
    """Who is told that its generation is old had not been removed: another has begun it."""
    found = episodes(
        *round_of(2, 100.0, B, C), *round_of(3, 103.0, A, B, C, causes={"a": (4, "old")})
    )

    assert [(each.trigger.certainty, each.departures) for each in found[:1]] == [
        (Certainty.UNKNOWN, ())
    ]
    assert found[1].trigger.member == MemberRef("a", "h-a")


D = Member(cluster="k", group="g", client_id="d", origin="d", host="h-d")


class TestJoinWithoutSync:
    """A process that ends between its join and its sync: the coordinator has it as a member."""

    def test_began_the_rebalance_and_then_its_session_expires(self) -> None:
        found = episodes(
            signal(SignalKind.JOIN, 99.6, D),
            *round_of(2, 100.0, A, B, C),
            *round_of(3, 106.0, A, B, C),
        )

        assert story(found) == [
            (Certainty.INFERRED, "d", Status.NEW_MEMBER),
            (Certainty.INFERRED, "d", Status.UNKNOWN_MEMBER),
        ]

    def test_is_for_the_generation_that_the_wire_shows(self) -> None:
        on_wire = replace(signal(SignalKind.JOIN, 100.2, D, generation=5), source=SourceKind.WIRE)

        found = episodes(on_wire, *round_of(2, 100.0, A, B, C))

        assert found[0].trigger.certainty is Certainty.UNKNOWN

    def test_that_was_refused_began_nothing(self) -> None:
        refused = signal(SignalKind.FAIL, 100.2, D, reason="GROUP_AUTHORIZATION_FAILED")

        found = episodes(signal(SignalKind.JOIN, 99.6, D), refused, *round_of(2, 100.0, A, B, C))

        assert found[0].trigger.certainty is Certainty.UNKNOWN

    def test_is_none_if_the_sync_follows(self) -> None:
        found = episodes(
            signal(SignalKind.JOIN, 99.6, D),
            *round_of(2, 100.0, A, B, C),
            *round_of(3, 101.0, A, B, C),
            signal(SignalKind.SYNC, 101.5, D, generation=3),
        )

        assert [client(each.trigger.member) for each in found] == [None, "d"]


def test_leave_of_a_member_that_was_asked_to_join_began_nothing() -> None:
    """Below 3.2 the wire shows a poll timeout so, too: the other's session had expired before."""
    found = episodes(
        *round_of(2, 100.0, A, B, C, D, causes={"d": NEW}),
        *round_of(3, 200.0, B, C),
        *(raised(1, 200.1, A), left(203.0, A)),
    )

    assert story(found)[1:] == [(Certainty.INFERRED, "d", Status.UNKNOWN_MEMBER)]
    assert {name for name, _ in went(found[1].departures)} == {"a", "d"}


def test_drop_of_a_member_that_was_asked_is_within_the_rebalance_that_runs() -> None:
    """It joins again, and that is the next rebalance."""
    found = episodes(
        *(raised(2, 100.0, D), signal(SignalKind.JOIN, 100.0, D)),
        *(raised(1, 100.9, B), raised(1, 100.9, C), raised(1, 100.95, A)),
        *(raised(5, 107.0, A), signal(SignalKind.SYNC, 107.1, B, generation=2)),
        *(signal(SignalKind.SYNC, 107.1, each, generation=2) for each in (C, D)),
        *(raised(2, 110.0, A), left(110.2, A)),
        *round_of(3, 112.0, B, C, D),
    )

    assert found[0].round.generations == (2,)
    assert went(found[0].departures) == [("a", DepartureKind.DROPPED)]


class TestConvertedGroup:
    """KIP-848: a group is converted when its first member joins by the new protocol, and back."""

    def test_classic_generations_stay_what_they_were(self) -> None:
        new = replace(D, group_type="consumer")
        found = explain_rebalances(
            records(
                *START,
                *round_of(2, 100.0, A, B),
                *(left(150.0, A), left(150.0, B)),
                *(raised(2, 160.0, new), signal(SignalKind.SYNC, 160.5, new, generation=4)),
            )
        )

        assert [each.round.group_type for each in found] == [*["classic"] * 3, "consumer"]
        assert story(found)[1] == (Certainty.INFERRED, "c", Status.UNKNOWN_MEMBER)

    def test_log_that_shows_a_new_member_a_little_earlier_shows_the_same_rebalance(self) -> None:
        """A dialect may know the classic protocol only; its clock may be behind."""
        new = replace(D, group_type="consumer")
        found = explain_rebalances(
            records(
                *(raised(2, 100.0, A), signal(SignalKind.SYNC, 100.5, A, generation=2)),
                *(raised(2, 100.4, new), signal(SignalKind.SYNC, 100.9, new, generation=2)),
            )
        )

        assert [each.round.group_type for each in found] == ["consumer"]

    def test_classic_members_go_one_by_one_while_a_new_one_is_there(self) -> None:
        new = replace(D, group_type="consumer")
        found = explain_rebalances(
            records(
                *START,
                *(raised(2, 100.0, new), signal(SignalKind.SYNC, 100.5, new, generation=2)),
                *(raised(1, 101.0, A), signal(SignalKind.SYNC, 101.2, A, generation=2)),
                left(200.0, new),
                *round_of(3, 203.0, A, B, C),
                *round_of(4, 300.0, A, B),
            )
        )

        assert [each.round.group_type for each in found] == [
            *("classic", "consumer", "consumer", "classic")
        ]
        assert story(found)[-1] == (Certainty.INFERRED, "c", Status.UNKNOWN_MEMBER)


def test_thread_that_leaves_takes_no_instance_along() -> None:
    thread = replace(A, client_id="s-StreamThread-1-consumer")
    other = replace(B, client_id="s-StreamThread-2-consumer")
    (*_, found) = explain_rebalances(
        records(*round_of(1, 0.0, thread, other, causes={}), left(100.0, thread, "closed"))
    )

    assert [d.member.client_id for d in found.departures] == ["s-StreamThread-1-consumer"]


def test_member_that_expired_and_came_back_was_not_replaced() -> None:
    twin = Member(cluster="k", group="g", client_id="a-2", origin="s", host="h-a-2")
    a = replace(A, client_id="a-1", host="h-a-1")
    there = round_of(1, 0.0, a, B, causes={"a-1": NEW, "b": NEW})
    gone = round_of(2, 100.0, B)
    back = round_of(3, 130.0, a, B, causes={"a-1": (3, "unknown")})
    other = round_of(4, 200.0, a, B, twin, causes={"a-2": NEW})

    found = explain_rebalances(records(*there, *gone, *back, *other))

    assert [d.kind for d in found[1].departures] == [DepartureKind.EXPIRED]


class TestPartitionsMoved:
    def test_is_what_all_members_have_gained(self) -> None:
        (found,) = episodes(*gaining(2, 100.0, a=0, b=2, c=1))

        assert found.partitions_moved == 3

    def test_is_not_known_where_a_member_does_not_tell(self) -> None:
        (found,) = episodes(*gaining(2, 100.0, a=0, b=2, c=None))

        assert found.partitions_moved is None

    def of_two_agents(self, **gained: int | None) -> ExplainedRebalance:
        """Return the rebalance of one member; each agent has the partitions that it counted."""
        seen = list[Sample]()
        for agent, count in gained.items():
            member = replace(A, member_id="a-1", origin=agent)
            sync = signal(SignalKind.SYNC, 101.0, member, generation=2)
            got = records(raised(8, 100.0, member), msgspec.structs.replace(sync, gained=count))
            seen += [msgspec.structs.replace(record, agent=agent) for record in got]
        (found,) = explain_rebalances(seen)
        assert len(found.round.segments) == len(gained)
        return found

    def test_of_a_member_that_two_agents_see_counts_once(self) -> None:
        assert self.of_two_agents(one=2, other=2).partitions_moved == 2

    def test_of_a_member_is_what_one_of_its_agents_counts(self) -> None:
        """A client's log has no number, and a broker's log neither; the traffic has."""
        assert self.of_two_agents(log=None, wire=2, broker=None).partitions_moved == 2

    def test_of_a_member_whose_agents_count_none_is_not_known(self) -> None:
        assert self.of_two_agents(log=None, broker=None).partitions_moved is None

    def test_of_one_that_nobody_has_synced_is_not_known(self) -> None:
        (found,) = episodes(raised(7, 100.0, A))

        assert found.partitions_moved is None


class TestTolls:
    """What polls find goes to the rebalance that they follow."""

    def found(self, at: float, **got: int | str | None) -> Sample:
        (record,) = records(raised(1, at, A))
        columns = {"kind": SampleKind.SIGNAL, "scope": Scope.GROUP, "id": str(at), "episode": None}
        nobody = {"client_id": None, "host": "", "to": None}
        return msgspec.structs.replace(record, **(columns | nobody | got))

    def moved_and_lag(self, *found: Sample) -> list[tuple[int | None, int | None]]:
        got = records(*START, *round_of(2, 100.0, A, B, C), *round_of(3, 130.0, A, B, C))
        return [(e.partitions_moved, e.lag) for e in explain_rebalances([*got, *found])]

    def test_go_to_the_latest_that_had_begun(self) -> None:
        found = self.found(109.0, gained=3, lag=40), self.found(119.0, gained=None, lag=90)

        assert self.moved_and_lag(*found) == [(None, None), (3, 90), (None, None)]

    def test_long_after_it_belong_to_none(self) -> None:
        assert self.moved_and_lag(self.found(999.0, gained=3, lag=4)) == [(None, None)] * 3

    def test_of_another_cluster_belong_to_none(self) -> None:
        other = self.found(109.0, gained=3, lag=4, cluster="other")
        unnamed = self.found(110.0, gained=1, lag=2, cluster="")

        assert self.moved_and_lag(other, unnamed)[1] == (1, 2)

    @pytest.mark.parametrize(("to", "code"), [(2, Status.NEW_MEMBER), (None, None)])
    def test_name_who_came_or_went_where_nobody_has_seen_it(
        self, to: int | None, code: Status | None
    ) -> None:
        unseen = records(*START, *round_of(2, 100.0, A, B, C))
        found = self.found(105.0, client_id="z", host="h-z", to=to), self.found(115.0, lag=1)

        trigger = explain_rebalances([*unseen, *found])[-1].trigger

        assert (trigger.certainty, trigger.code) == (Certainty.INFERRED, code)
        assert trigger.member == MemberRef("z", "h-z")

    def test_name_who_came_before_the_others_heard_of_it(self) -> None:
        got = records(*START, *round_of(2, 100.0, A, B, C), *round_of(3, 120.0, A, B, C))

        *_, first, second = explain_rebalances([*got, self.found(116.0, client_id="z", to=2)])

        assert first.trigger.certainty is Certainty.UNKNOWN
        assert second.trigger.member == MemberRef("z")

    def test_name_nobody_where_two_came(self) -> None:
        unseen = records(*START, *round_of(2, 100.0, A, B, C))
        found = (self.found(at, client_id=name) for at, name in ((105.0, "y"), (115.0, "z")))

        assert explain_rebalances([*unseen, *found])[-1].trigger.certainty is Certainty.UNKNOWN

    def test_name_nobody_where_the_cause_was_seen(self) -> None:
        seen = records(*START, left(100.0, A), *round_of(2, 100.2, B, C))

        trigger = explain_rebalances([*seen, self.found(105.0, client_id="z")])[-1].trigger

        assert trigger.member == MemberRef("a", "h-a")


def test_instance_that_repeats_its_threads_links_no_generations() -> None:
    """One of its threads goes while another joins: the instance passes both generations."""
    old, new = (replace(A, client_id=f"s-StreamThread-{n}-consumer", origin="s") for n in (1, 2))
    found = explain_rebalances(
        records(
            *round_of(1, 0.0, old, B, causes={old.client_id: NEW, "b": NEW}),
            *round_of(2, 50.0, old, B, causes={"b": (8, "topics")}),
            raised(2, 100.0, new),
            raised(1, 100.1, B),
            raised(1, 100.2, old),
            *(signal(SignalKind.SYNC, 101.0, each, generation=3) for each in (B, new, old)),
        )
    )

    assert [each.round.generations for each in found] == [(1,), (2,), (3,)]


def test_threads_of_one_instance_are_in_their_own_generations() -> None:
    """A thread expires while a new one of its instance joins: the round before it is no part."""
    one, two, new = (
        Member(cluster="k", group="g", client_id=f"s-StreamThread-{n}-consumer", origin="s")
        for n in (1, 2, 3)
    )
    start = round_of(1, 0.0, one, two, causes={m.client_id: NEW for m in (one, two)})
    expiry = [
        raised(2, 120.0, new),
        raised(1, 120.1, one),
        raised(1, 120.1, two),
        raised(3, 125.0, two),
        *(signal(SignalKind.SYNC, 126.0, each, generation=3) for each in (one, two, new)),
    ]

    found = explain_rebalances(records(*start, *round_of(2, 100.0, one, two), *expiry))

    assert [each.round.generations for each in found] == [(1,), (2,), (3,)]
