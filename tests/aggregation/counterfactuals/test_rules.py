"""What each rule proposes; the numbers were computed by hand from its docstring."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from aggregation.counterfactuals.change import Change, Confidence, PastIncidents
from aggregation.counterfactuals.changes import find_changes
from aggregation.counterfactuals.facts import IncidentFacts
from aggregation.counterfactuals.rules import propose_poll_interval, propose_static_membership
from aggregation.counterfactuals.shape_rules import (
    propose_consumer_protocol,
    propose_cooperative,
    propose_pacing,
)
from aggregation.counterfactuals.timeouts import choose, draw_curve, round_up
from aggregation.incidents.model import IncidentKind
from tests.aggregation.counterfactuals.given import H, K, away, incident

Rule = Callable[[PastIncidents], Change | None]


def changes(*facts: IncidentFacts) -> dict[str, Change]:
    return {each.setting: each for each in find_changes(facts)}


def lines(change: Change) -> dict[str, str]:
    return dict(change.lines)


class TestStaticMembership:
    def test_restarts_within_the_timeout_are_avoided(self) -> None:
        back = [
            incident(f"r{n}", K.RESTART, absences=away(20.0), unread_s=100.0, away_s=40.0)
            for n in range(5)
        ]
        change = changes(*back, incident("j", K.MEMBER_JOINED, rebalances=1))["group.instance.id"]
        # 1.5 x 20 s is less than the default of 45 s; 5 x 2 rebalances; own: 2 x 20 s = 40 s
        assert "session.timeout.ms=45000" in change.proposed
        assert change.rebalances_avoided == 10
        assert change.unread_avoided_s == pytest.approx(5 * 60.0)
        assert "wait for it (3 min unread stay, more if restarts take longer), and" in change.price
        assert change.now is None
        assert change.confidence is Confidence.MEDIUM
        assert change.incidents == ("r0", "r1", "r2", "r3", "r4")
        assert change.members == ("m0",)

    def test_member_that_is_late_costs_two_rebalances(self) -> None:
        rollout = incident(
            "r", K.ROLLOUT, absences=away(10.0, 20.0, None), rebalances=6, unread_s=90.0
        )
        # the member that stays away is missed after 45 s; 4 of 6 rebalances are 5.3 member seconds
        assert not changes(rollout)
        larger = incident(
            "r", K.ROLLOUT, absences=away(10.0, 20.0, None), rebalances=6, member_s=90.0
        )
        assert changes(larger)["group.instance.id"].rebalances_avoided == 4
        assert changes(larger)["group.instance.id"].unread_avoided_s is None

    def test_partitions_of_a_late_member_wait_for_the_timeout_and_its_rebalances(self) -> None:
        """Of three that were away for 1, 2 and 60 s one is late; each has two partitions."""
        rollout = incident(
            "r", K.ROLLOUT, absences=away(1.0, 2.0, 60.0), rebalances=6, member_s=900.0,
            unread_s=300.0, away_s=2 * 63.0, session_timeout_s=10.0,
        )  # fmt: skip
        change = propose_static_membership(PastIncidents([rollout], [rollout]))
        assert change is not None
        timeouts = {point.timeout_s: point for point in change.curve}
        assert timeouts[10.0].rebalances == 4
        assert timeouts[10.0].unread_s == pytest.approx(300.0 - 100.0 - 2 * (1.0 + 2.0 + 10.0))
        assert timeouts[90.0].unread_s == pytest.approx(300.0 - 2 * 63.0)

    def test_crash_that_is_noticed_later_is_the_price(self) -> None:
        restart = incident("r", K.RESTART, absences=away(100.0), member_s=500.0)
        crash = incident(
            "c", K.SESSION_EXPIRED, absences=away(None, how=H.EXPIRED), session_timeout_s=30.0
        )
        change = changes(restart, crash)["group.instance.id"]
        # 1.5 x 100 s; the crash was noticed after 30 s, so 120 s later
        assert "session.timeout.ms=150000" in change.proposed
        assert "120 s in all" in change.price

    def test_crashes_that_cost_more_are_no_proposal(self) -> None:
        restart = incident("r", K.RESTART, absences=away(100.0), member_s=119.0)
        crash = incident(
            "c", K.SESSION_EXPIRED, absences=away(None, how=H.EXPIRED), session_timeout_s=30.0
        )
        assert changes(restart, crash) == {}

    def test_static_members_and_killed_ones_do_not_count(self) -> None:
        assert not changes(incident("r", K.RESTART, absences=away(5.0), is_static=True))
        assert not changes(incident("r", K.RESTART, absences=away(5.0), is_planned=False))

    def test_successor_that_comes_first_has_to_wait(self) -> None:
        """Two processes with one id fence each other."""
        surge = incident("r", K.ROLLOUT, absences=away(0.0, 0.0), rebalances=4, unread_s=9.0)
        change = changes(surge)["group.instance.id"]
        assert "; 2 times a successor started before its predecessor had left" in change.price
        assert "maxSurge: 0" in lines(change)["Kubernetes"]
        assert (change.rebalances_avoided, change.unread_avoided_s) == (4, None)
        assert change.confidence is Confidence.LOW

    def test_lines_are_for_each_client(self) -> None:
        text = lines(changes(incident("r", K.RESTART, absences=away(20.0)))["group.instance.id"])
        assert set(text) == {"Java", "Spring", "Streams", "librdkafka", "broker"}
        assert "session.timeout.ms=45000" in text["Java"].splitlines()
        assert (
            "spring.kafka.consumer.properties.group.instance.id=${HOSTNAME}"
            in text["Spring"].splitlines()
        )
        assert "consumer.session.timeout.ms=45000" in text["Streams"].splitlines()

    def test_new_protocol_has_its_session_timeout_on_the_broker(self) -> None:
        one = incident("r", K.RESTART, absences=away(20.0), group_type="consumer", group="it's; g")
        change = changes(one)["group.instance.id"]
        text = lines(change)
        assert "session.timeout.ms" not in text["Java"]
        assert change.proposed.endswith("with consumer.session.timeout.ms=45000")
        assert "--add-config consumer.session.timeout.ms=45000" in text["broker"]
        assert "--entity-name 'it'\"'\"'s; g'" in text["broker"]


def _pause(away_s: float, id_: str = "e", **fields: Any) -> IncidentFacts:
    """Return an expired member that came back; 45 s of silence before it expired."""
    given = {"silent_since": 55.0, "unread_s": 900.0, "away_s": 85.0} | fields
    return incident(
        id_, K.SESSION_EXPIRED, absences=away(away_s, how=H.EXPIRED), member_s=900.0, **given
    )


class TestSessionTimeout:
    def test_silence_within_the_timeout_is_avoided(self) -> None:
        pause = incident(
            "e",
            K.SESSION_EXPIRED,
            absences=away(6.0, how=H.EXPIRED),
            session_timeout_s=10.0,
            silent_since=90.0,
            unread_s=100.0,
            away_s=32.0,
        )
        change = changes(pause)["session.timeout.ms"]
        # silent from 90 to 106: 16 s, x 1.5 = 24 s; own 2 x 16 s = 32 s
        assert (change.now, change.proposed) == ("10000", "24000")
        assert change.rebalances_avoided == 2
        assert change.unread_avoided_s == pytest.approx(68.0)
        assert change.confidence is Confidence.HIGH

    def test_timeout_that_is_not_seen_makes_the_proposal_relative(self) -> None:
        change = changes(incident("e", K.SESSION_EXPIRED, absences=away(6.0, how=H.EXPIRED)))[
            "session.timeout.ms"
        ]
        assert (change.now, change.proposed) == (None, "its value now + 9000")
        assert change.confidence is Confidence.LOW

    @pytest.mark.parametrize("group_type", ["consumer", "share", "streams"])
    def test_groups_of_new_protocols_have_it_at_the_broker(self, group_type: str) -> None:
        pause = _pause(40.0, group_type=group_type, group="g")
        name = f"{group_type}.session.timeout.ms"
        change = changes(pause)[name]
        # 45 s and 40 s of silence; 1.5 x 85 s = 127.5 s, in tens of seconds 130 s
        assert (change.now, change.proposed) == ("45000", "130000")
        assert change.confidence is Confidence.MEDIUM
        assert change.because.endswith(
            "; 45 s is the broker's default, no source shows this group's"
        )
        assert change.price.endswith(
            f"; brokers allow 60 s unless group.{group_type}.max.session.timeout.ms is higher"
        )
        assert set(lines(change)) == {"broker"}
        assert f"--entity-name g --add-config {name}=130000" in lines(change)["broker"]

    def test_timeout_of_a_group_that_is_seen_counts(self) -> None:
        pause = _pause(6.0, group_type="consumer", session_timeout_s=46.0)
        change = changes(pause)["consumer.session.timeout.ms"]
        assert (change.now, change.proposed) == ("46000", "80000")
        assert change.because.endswith("would have been within it")
        assert change.confidence is Confidence.HIGH

    def test_silence_below_the_default_shows_that_it_is_not_in_force(self) -> None:
        pause = _pause(1.0, group_type="consumer", silent_since=89.0)
        change = changes(pause)["consumer.session.timeout.ms"]
        assert (change.now, change.proposed) == (None, "18000")
        assert change.because.endswith("; no source shows the timeout now, it is at most 12 s")
        assert "max.session.timeout" not in change.price

    def test_timeout_of_another_protocol_does_not_count(self) -> None:
        before = _pause(6.0, session_timeout_s=10.0, id_="a", group_type="classic")
        after = _pause(6.0, group_type="consumer", id_="b")
        change = changes(before, after)["consumer.session.timeout.ms"]
        assert (change.now, change.incidents) == ("45000", ("b",))

    def test_process_that_started_again_is_no_pause(self) -> None:
        """With a longer timeout the group would wait for the process that is gone."""
        assert changes(_pause(6.0, session_timeout_s=10.0))
        assert not changes(_pause(6.0, session_timeout_s=10.0, returned_as_new=True))

    @pytest.mark.parametrize(("away_s", "is_worth_it"), [(29.0, True), (31.0, False)])
    def test_time_away_counts_where_no_source_shows_partitions(
        self, away_s: float, is_worth_it: bool
    ) -> None:
        """Others had the member's partitions meanwhile; with a longer timeout nobody would."""
        pause = incident(
            "e", K.SESSION_EXPIRED, absences=away(away_s, how=H.EXPIRED), member_s=30.0
        )
        assert bool(changes(pause)) is is_worth_it

    @pytest.mark.parametrize("returned_as_new", [False, True])
    def test_group_waits_longer_for_members_that_are_back_later(
        self, *, returned_as_new: bool
    ) -> None:
        """Of four pauses a longer timeout would have avoided three; 2 partitions each."""
        pauses = [
            incident(
                f"e{number}",
                K.SESSION_EXPIRED,
                absences=away(span, how=H.EXPIRED),
                session_timeout_s=10.0,
                silent_since=90.0,
                member_s=60.0,
                unread_s=100.0,
                away_s=2 * (10.0 + span),
                returned_as_new=returned_as_new and span > 6.0,
            )
            for number, span in enumerate((6.0, 6.0, 6.0, 400.0))
        ]
        change = changes(*pauses)["session.timeout.ms"]
        # the fourth one's partitions are unread for 14 s more: 3 x 68 s - 2 x 14 s
        assert (change.proposed, change.rebalances_avoided) == ("24000", 6)
        assert change.unread_avoided_s == pytest.approx(176.0)
        assert change.incidents == ("e0", "e1", "e2")
        assert "14 s in all for those of this period" in change.price

    def test_longer_timeout_that_costs_late_members_more_is_no_proposal(self) -> None:
        """Their 8 partitions are unread for 14 s more; the pause costs 68 s."""
        pauses = [
            incident(
                f"e{number}",
                K.SESSION_EXPIRED,
                absences=away(span, how=H.EXPIRED),
                session_timeout_s=10.0,
                silent_since=90.0,
                member_s=600.0,
                unread_s=100.0,
                away_s=owned * (10.0 + span),
            )
            for number, (span, owned) in enumerate(((6.0, 2), (400.0, 8)))
        ]
        assert "session.timeout.ms" not in changes(*pauses)

    def test_member_that_died_or_was_away_for_long_is_no_pause(self) -> None:
        for span in (None, 301.0):
            gone = incident("e", K.SESSION_EXPIRED, absences=away(span, how=H.EXPIRED))
            assert not changes(gone)


class TestPolls:
    def test_interval_is_above_the_time_between_polls(self) -> None:
        slow = incident(
            "p",
            K.POLL_TIMEOUT,
            absences=away(12.0, how=H.DROPPED),
            max_poll_interval_s=60.0,
            between_polls_s=72.0,
            unread_s=200.0,
            away_s=144.0,
        )
        change = changes(slow)["max.poll.interval.ms"]
        # 1.5 x 72 s = 108 s, in tens of seconds 110 s; own 2 x 72 s = 144 s
        assert (change.now, change.proposed) == ("60000", "110000")
        assert change.unread_avoided_s == pytest.approx(56.0)
        assert "50 s later" in change.price

    def test_group_waits_longer_for_members_whose_work_takes_longer_still(self) -> None:
        slow = [
            incident(
                f"p{number}",
                K.POLL_TIMEOUT,
                absences=away(span, how=H.DROPPED),
                max_poll_interval_s=60.0,
                between_polls_s=60.0 + span,
                silent_since=40.0,
                member_s=300.0,
                unread_s=200.0,
                away_s=2 * (60.0 + span),
            )
            for number, span in enumerate((12.0, 12.0, 12.0, 700.0))
        ]
        change = propose_poll_interval(PastIncidents(slow, slow))
        assert change is not None
        # 3 x 56 s - 2 x 50 s
        assert change.proposed == "110000"
        assert change.unread_avoided_s == pytest.approx(68.0)

    def test_longer_wait_that_costs_more_than_it_saves_gives_way_to_fewer_records(self) -> None:
        """The others had the partitions after 60 s; with a longer interval nobody would."""
        slow = incident(
            "p",
            K.POLL_TIMEOUT,
            absences=away(112.0, how=H.DROPPED),
            max_poll_interval_s=60.0,
            unread_s=200.0,
            away_s=2 * 172.0,
        )
        found = changes(slow)
        assert set(found) == {"max.poll.records"}
        because = "1 took up to 172 s between two polls, 60 s are allowed"
        assert found["max.poll.records"].because == because

    def test_drop_to_return_stands_for_polls_that_were_not_seen(self) -> None:
        known = incident(
            "p",
            K.POLL_TIMEOUT,
            absences=away(12.0, how=H.DROPPED),
            max_poll_interval_s=60.0,
            member_s=20.0,
        )
        assert changes(known)["max.poll.interval.ms"].proposed == "110000"
        unknown = replace(known, max_poll_interval_s=None)
        change = changes(unknown)["max.poll.interval.ms"]
        assert (change.now, change.proposed) == (None, "its value now + 18000")

    def test_work_that_is_too_long_calls_for_fewer_records(self) -> None:
        slow = incident(
            "p", K.POLL_TIMEOUT, absences=away(600.0, how=H.DROPPED), max_poll_interval_s=300.0
        )
        change = changes(slow)["max.poll.records"]
        # 1.5 x 900 s / 300 s = 4.5 for full polls, 13.5 for those that are a third full
        assert change.proposed == "its value now / 14"
        assert change.price.endswith("a third of the value now or more")
        assert change.now is None
        assert "librdkafka" not in lines(change)


class TestShape:
    def test_cooperative_saves_what_did_not_move_and_no_rebalance(self) -> None:
        join = incident("j", K.MEMBER_JOINED, unread_s=50.0, moved_s=30.0)
        change = changes(join)["partition.assignment.strategy"]
        # 50 s - 3 x 10 s
        assert change.unread_avoided_s == pytest.approx(20.0)
        assert change.rebalances_avoided == 0
        assert change.confidence is Confidence.LOW

    def test_cooperative_hands_over_in_a_second_round_after_a_heartbeat(self) -> None:
        """Two of three partitions come from members that stay; the heartbeat's interval is 3 s."""
        join = incident(
            "j", K.MEMBER_JOINED, unread_s=20.0, moved=3, moved_s=3 * 1.0, handed_over=2
        )
        change = changes(join)["partition.assignment.strategy"]
        assert change.unread_avoided_s == pytest.approx(20.0 - 1.0 - 2 * 3.0)

    def test_second_round_takes_as_long_as_a_long_first_one(self) -> None:
        join = incident(
            "j", K.MEMBER_JOINED, unread_s=90.0, moved=2, moved_s=2 * 10.0, handed_over=2
        )  # one in each of two rebalances
        change = propose_cooperative(PastIncidents([join], [join]))
        assert change is not None
        # the leader works for half of the 7 s that are no heartbeat
        assert change.unread_avoided_s == pytest.approx(90.0 - 2 * (10.0 + 3.5))

    def test_new_owner_of_a_freed_partition_works_before_it_learns_of_it(self) -> None:
        leave = incident(
            "l", K.MEMBER_LEFT, unread_s=90.0, moved=2, moved_s=2 * 10.0, handed_over=0
        )
        change = propose_cooperative(PastIncidents([leave], [leave]))
        assert change is not None
        assert change.unread_avoided_s == pytest.approx(90.0 - 2 * (10.0 + 7.0))

    def test_leader_and_new_owner_work_as_the_joins_of_the_group_show(self) -> None:
        """Six Java members that work 1 s: rebalances of 1.4 s, the rest of their work 0.5 s.

        Recorded in a backtest: 1.84 s happened for each that was handed over, 2.6 s for each other.
        """
        seen: dict[str, Any] = {"poll_wait_s": 0.5, "joins_without_poll": False, "group_size": 7}
        join = incident(
            "j", K.MEMBER_JOINED, unread_s=12.0, moved=1, moved_s=1.4, handed_over=1, **seen
        )
        leave = incident(
            "l", K.MEMBER_LEFT, unread_s=12.0, moved=2, moved_s=2 * 1.4, handed_over=0, **seen
        )
        change = propose_cooperative(PastIncidents([join, leave], [join, leave]), heartbeat_s=0.5)
        assert change is not None
        works_s = 0.5 * 6 / 7  # the member that joined last is still in its poll
        assert change.unread_avoided_s == pytest.approx(
            24.0 - (1.4 + works_s) - 2 * (1.4 + 2 * works_s)
        )

    def test_owners_that_give_up_later_wait_less_for_the_second_round(self) -> None:
        """Three of four members hand over, each at its own poll: half of the rest on average."""
        join = incident(
            "j", K.MEMBER_JOINED, unread_s=90.0, moved=3, moved_s=3 * 4.0, handed_over=3,
            poll_wait_s=2.0, group_size=4, rebalances=1,
        )  # fmt: skip
        change = propose_cooperative(PastIncidents([join], [join]), heartbeat_s=0.5)
        assert change is not None
        assert change.unread_avoided_s == pytest.approx(90.0 - 3 * (4.0 + 2.0 * (3 / 4 - 2 / 4)))

    @pytest.mark.parametrize(("notice_s", "counts_s"), [(0.2, 0.2), (None, 0.5), (3.0, 1.3)])
    def test_librdkafka_joins_again_without_a_poll(
        self, notice_s: float | None, counts_s: float
    ) -> None:
        """Six librdkafka members that work 1 s: rebalances of 1.3 s, but 0.2 s to learn of it."""
        seen: dict[str, Any] = {
            "poll_wait_s": 0.4, "joins_without_poll": True, "notice_s": notice_s
        }  # fmt: skip
        join = incident(
            "j", K.MEMBER_JOINED, unread_s=9.0, moved=1, moved_s=1.3, handed_over=1, **seen
        )
        leave = incident(
            "l", K.MEMBER_LEFT, unread_s=9.0, moved=2, moved_s=2.6, handed_over=0, **seen
        )
        change = propose_cooperative(PastIncidents([join, leave], [join, leave]), heartbeat_s=0.5)
        assert change is not None
        assert change.unread_avoided_s == pytest.approx(18.0 - 0.5 - 2 * (counts_s + 0.4))

    def test_cooperative_needs_moves_and_an_eager_group(self) -> None:
        assert not changes(incident("j", K.MEMBER_JOINED, unread_s=50.0))
        for fields in ({"group_type": "consumer"}, {"assignor": "cooperative-sticky"}):
            made = changes(incident("j", K.MEMBER_JOINED, unread_s=50.0, moved_s=3.0, **fields))
            assert "partition.assignment.strategy" not in made

    @pytest.mark.parametrize("propose", [propose_cooperative, propose_consumer_protocol])
    @pytest.mark.parametrize(("kind", "size"), [(K.RESTART, 1), (K.ROLLOUT, 3)])
    def test_time_without_any_member_is_saved_by_no_other_assignor_or_protocol(
        self, propose: Rule, kind: IncidentKind, size: int
    ) -> None:
        """Nobody was there to read on: a group of one restarts, or all stop and start."""
        waits = {"unread_s": 132.0, "moved": 0, "moved_s": 0.0, "handed_over": 0, "away_s": 132.0}
        members = tuple(f"m{number}" for number in range(size))
        alone = incident("a", kind, members=members, group_size=size, **waits)
        alone = replace(alone, absences=away(*(30.0 + number for number in range(size))))
        assert propose(PastIncidents([alone], [alone])) is None

        beside = replace(alone, group_size=size + 1)
        assert propose(PastIncidents([beside], [beside])) is not None

    @pytest.mark.parametrize("propose", [propose_cooperative, propose_consumer_protocol])
    def test_leave_of_the_last_member_is_saved_by_no_other_assignor_or_protocol(
        self, propose: Rule
    ) -> None:
        """No rebalance followed: its partitions were unread until another member joined."""
        last = incident("l", K.MEMBER_LEFT, unread_s=236.0, moved=0, moved_s=0.0, rebalances=0)
        assert propose(PastIncidents([last], [last])) is None

        noticed = replace(last, rebalances=1)
        assert propose(PastIncidents([noticed], [noticed])) is not None

    def test_new_protocol_is_better_where_rebalances_are_long(self) -> None:
        """Half a heartbeat's interval is 2.5 s; the rebalance took 60 s."""
        join = incident("j", K.MEMBER_JOINED, unread_s=360.0, moved=3, moved_s=180.0)
        change = changes(join)["group.protocol"]
        assert (change.now, change.proposed) == ("classic", "consumer")
        assert change.unread_avoided_s == pytest.approx(360.0 - 3 * 2.5)
        assert change.rebalances_avoided == 0
        assert "group.protocol=consumer" in lines(change)["librdkafka"].splitlines()
        assert change.price.endswith(
            "; with older ones the cooperative assignor would have avoided 9 s"
        )
        assert "cooperative-sticky" in lines(change)["librdkafka, brokers before 4.0"]
        assert not changes(
            incident(
                "j", K.MEMBER_JOINED, unread_s=9.0, moved=3, moved_s=1.0, group_type="consumer"
            )
        )

    def test_new_protocol_waits_for_the_polls_of_those_that_take_freed_partitions(self) -> None:
        """The rebalance took 7 s: a heartbeat of 3 s and 4 s of work, of which half is 2 s."""
        leave = incident("l", K.MEMBER_LEFT, unread_s=90.0, moved=4, moved_s=28.0, handed_over=0)

        change = changes(leave)["group.protocol"]

        assert change.unread_avoided_s == pytest.approx(90.0 - 4 * 2.5 - 4 * 2.0)

    def test_new_protocol_takes_partitions_at_the_next_poll(self) -> None:
        """Three members that work 3 s; the rest of their work is 1.5 s, the interval 1 s.

        A member that joins takes the first partition at once, and two behind its first work.
        """
        seen: dict[str, Any] = {"rebalances": 1, "poll_wait_s": 1.5}
        join = incident(
            "j", K.MEMBER_JOINED, unread_s=30.0, moved=3, moved_s=9.0, handed_over=3, **seen
        )
        leave = incident(
            "l", K.MEMBER_LEFT, unread_s=30.0, moved=3, moved_s=9.0, handed_over=0, **seen
        )
        change = propose_consumer_protocol(
            PastIncidents([join, leave], [join, leave]), heartbeat_s=1.0
        )
        assert change is not None
        assert change.unread_avoided_s == pytest.approx(60.0 - 6 * 0.5 - (2 + 3) * 1.5)

    def test_joins_of_a_start_are_one_rebalance(self) -> None:
        start = incident("j", K.MEMBER_JOINED, members=("a", "b", "c"), rebalances=3, unread_s=7.0)
        change = changes(start)["group.initial.rebalance.delay.ms"]
        assert (change.proposed, change.rebalances_avoided) == ("15000", 2)
        assert change.unread_avoided_s == 7.0
        assert lines(change) == {"broker": "group.initial.rebalance.delay.ms=15000"}

    def test_start_of_slow_members_needs_no_delay_that_all_groups_wait_for(self) -> None:
        start = incident("j", K.MEMBER_JOINED, rebalances=3, started_at=100.0, ended_at=152.0)
        assert "group.initial.rebalance.delay.ms" not in changes(start)

    def test_joins_of_several_incidents_are_one_start(self) -> None:
        """3 s apart; the second one stopped the first member, which the delay avoids."""
        first = incident("a", K.MEMBER_JOINED, rebalances=1, unread_s=0.0, ended_at=100.5)
        second = incident(
            "b", K.MEMBER_JOINED, rebalances=1, unread_s=6.0, started_at=103.0, ended_at=104.0
        )
        change = changes(first, second)["group.initial.rebalance.delay.ms"]
        assert (change.proposed, change.rebalances_avoided) == ("5000", 1)
        assert change.unread_avoided_s == 6.0
        busy = incident("p", K.POLL_TIMEOUT, max_poll_interval_s=3.0, started_at=50.0)
        assert "group.initial.rebalance.delay.ms" not in changes(busy, first, second)
        late = incident("b", K.MEMBER_JOINED, rebalances=1, started_at=106.0, ended_at=107.0)
        assert "group.initial.rebalance.delay.ms" not in changes(first, late)

    def test_the_first_rebalance_of_a_start_stays_whichever_incident_has_it(self) -> None:
        first = incident("a", K.MEMBER_JOINED, rebalances=0, ended_at=100.5)
        second = incident("b", K.MEMBER_JOINED, rebalances=3, started_at=103.0, ended_at=104.0)
        change = changes(first, second)["group.initial.rebalance.delay.ms"]
        assert change.rebalances_avoided == 2

    def test_one_join_that_stopped_nobody_for_long_needs_no_delay(self) -> None:
        first = incident("a", K.MEMBER_JOINED, rebalances=1, unread_s=0.0, ended_at=100.5)
        second = incident(
            "b", K.MEMBER_JOINED, rebalances=1, unread_s=0.04, started_at=103.0, ended_at=104.0
        )
        assert "group.initial.rebalance.delay.ms" not in changes(first, second)

    def test_delay_is_never_below_the_default(self) -> None:
        start = incident("j", K.MEMBER_JOINED, members=("a", "b"), rebalances=3, ended_at=100.6)
        assert changes(start)["group.initial.rebalance.delay.ms"].proposed == "3000"

    @pytest.mark.parametrize(
        ("rebalances", "fields", "expected"),
        [
            # 6 of 12 partitions went, for 5 s each; of the other 66 s 3 of 11 parts stay
            (12, {"unread_s": 96.0, "moved": 12, "moved_s": 60.0, "handed_over": 6}, (8, 48.0)),
            # each was back within one rebalance: halves wait for the slowest of them
            (6, {"unread_s": 40.0, "moved": 0, "moved_s": 0.0}, (4, 0.0)),
            (12, {}, (8, None)),
        ],
    )
    def test_rollout_by_halves_stops_the_others_less(
        self, rebalances: int, fields: dict[str, Any], expected: tuple[int, float | None]
    ) -> None:
        members = tuple("abcdef")
        rollout = incident("r", K.ROLLOUT, members=members, rebalances=rebalances, **fields)
        change = propose_pacing(PastIncidents([rollout], [rollout]))
        assert change is not None
        assert (change.rebalances_avoided, change.unread_avoided_s) == expected

    def test_small_groups_have_no_larger_steps(self) -> None:
        for members, rebalances in (("ab", 6), ("abcd", 4)):
            rollout = incident("r", K.ROLLOUT, members=tuple(members), rebalances=rebalances)
            found = propose_pacing(PastIncidents([rollout], [rollout]))
            assert (found is None) == (members == "ab")

    def test_stop_and_start_of_a_whole_group_has_no_fewer_steps(self) -> None:
        """The stop has no rebalance: each of those that it has is a member's start."""
        rollout = incident("r", K.ROLLOUT, members=("a", "b", "c"), rebalances=3, unread_s=376.0)
        stopped = replace(rollout, absences=away(40.0, 70.0, 99.0))
        assert propose_pacing(PastIncidents([stopped], [stopped])) is None
        (first, *others) = stopped.absences
        late = first._replace(at=180.0, returned_at=190.0)
        in_turn = replace(stopped, absences=(late, *others))
        assert propose_pacing(PastIncidents([in_turn], [in_turn])) is not None


def test_curve_weighs_what_it_saves_against_what_is_missed_later() -> None:
    curve = draw_curve([10.0, 40.0, 20.0], lambda _: [], lambda t: t)
    assert [(point.timeout_s, point.later_s) for point in curve] == [(10, 10), (20, 20), (40, 40)]
    assert choose(curve) is None


def test_round_times() -> None:
    assert [round_up(each) for each in (0.1, 16.0, 40.0, 72.0)] == [1.0, 24.0, 60.0, 110.0]
