"""Outages of agents: who left and came back unseen is not missed, and neither is a group."""

from collections.abc import Sequence

import msgspec
import pytest

from aggregation.incidents.incidents import analyze
from aggregation.incidents.model import IncidentKind
from aggregation.rebalances.departures import DepartureKind
from aggregation.rebalances.known_records import prepare_records
from aggregation.rebalances.rebalances import explain_known
from aggregation.rebalances.silences import SilentSpan, find_silences, read_silences
from aggregation.rebalances.slots import SLOT_S
from metrics.model.sample import Sample, SampleKind, format_time, parse_time
from metrics.model.signals import Member, Signal
from tests.aggregation.rebalances.test_rebalances import (
    NEW,
    START,
    A,
    B,
    C,
    left,
    records,
    round_of,
)

HOUR_S = 3600.0
OUT = 0.9 * HOUR_S, 5 * HOUR_S
"""The agent of `a` sees nothing from 3,240 s to 18,000 s (after the first record)."""
SAMPLED = range(60, int(8 * HOUR_S), 120)
LONG_START = [*START, *round_of(2, 1800.0, A, B, C)]
REPLACED = [left(2 * HOUR_S, A), *round_of(3, 2 * HOUR_S + 0.1, B, C)]
CAME_BACK = round_of(4, 2 * HOUR_S + 40.0, A, B, C, causes={"a": NEW})
LATER = round_of(5, 7 * HOUR_S, A, B, C, causes={"b": (7, "metadata")})


BEGAN_AT = min(parse_time(each.ts) for each in records(*START))


def at_second(second: float) -> float:
    return BEGAN_AT + second


def watched(
    signals: Sequence[Signal], *, out: tuple[float, float] = OUT, sampled: bool = True
) -> list[Sample]:
    """Return the records of an agent for each member; that of `a` loses those of its outage.

    Each writes a periodic sample every two minutes of a member at 0, until that leaves.
    """
    found = [
        msgspec.structs.replace(each, agent=f"agent-{each.client_id}") for each in records(*signals)
    ]
    shown = [
        msgspec.structs.replace(
            member,
            id=f"{member.client_id}-{second}",
            kind=SampleKind.SAMPLE,
            ts=format_time(at_second(second)),
            from_=None,
            to=0,
            episode=None,
            outcome=None,
        )
        for name in "abc"
        for member in [next(each for each in found if each.client_id == name)]
        for second in SAMPLED
        if sampled and is_there(found, name, at_second(second))
    ]
    since, until = map(at_second, out)
    return [
        each
        for each in [*found, *shown]
        if each.client_id != "a" or not since <= parse_time(each.ts) < until
    ]


def is_there(found: Sequence[Sample], name: str, at: float) -> bool:
    """Check that a member is in its group: its last record is no leave."""
    own = [each for each in found if each.client_id == name and parse_time(each.ts) <= at]
    return bool(own) and own[-1].outcome == "synced"


def expired(found: list[Sample]) -> list[str]:
    """Return the members that expired, by rebalances and by incidents, which agree."""
    by_rebalance = [
        departure.member.client_id
        for each in explain_known(prepare_records(found))
        for departure in each.departures
        if departure.kind is DepartureKind.EXPIRED
    ]
    by_incident = [
        member.client_id
        for each in analyze(found).incidents
        if each.kind is IncidentKind.SESSION_EXPIRED
        for member in each.members
    ]
    assert by_rebalance == by_incident
    return by_rebalance


class TestMemberThatWasThere:
    def test_restart_in_an_outage_is_no_crash(self) -> None:
        """Its agent samples it again behind the outage, and saw no join."""
        assert expired(watched([*LONG_START, *REPLACED, *CAME_BACK])) == []

    def test_next_rebalance_shows_so_where_nothing_is_sampled(self) -> None:
        """Its coordinator asks it to join, as it asks members only."""
        seen = watched([*LONG_START, *REPLACED, *CAME_BACK, *LATER], sampled=False)
        assert expired(seen) == []

    def test_leave_behind_the_outage_shows_that_it_was_there(self) -> None:
        stop = [left(6 * HOUR_S, A), *round_of(5, 6 * HOUR_S + 0.1, B, C)]
        assert expired(watched([*LONG_START, *REPLACED, *CAME_BACK, *stop])) == []

    def test_member_that_took_part_unseen_is_not_missed(self) -> None:
        seen = watched([*LONG_START, *round_of(3, 2 * HOUR_S, A, B, C)])
        assert expired(seen) == []

    def test_rebalance_right_before_the_next_sample_is_not_seen(self) -> None:
        """Nothing shows when within its ten minutes an agent went."""
        assert expired(watched([*LONG_START, *round_of(3, OUT[0] + 9.0, A, B, C)])) == []


class TestCrash:
    @pytest.mark.parametrize("sampled", [True, False])
    def test_is_one_beside_an_agent_that_lives(self, sampled: bool) -> None:
        crash = round_of(3, 2 * HOUR_S, B, C)
        seen = watched([*LONG_START, *crash, *LATER], out=(0.0, 0.0), sampled=sampled)
        back = round_of(4, 3 * HOUR_S, A, B, C, causes={"a": NEW})
        assert expired(watched([*LONG_START, *crash, *back], out=(0.0, 0.0))) == ["a"]
        assert expired([each for each in seen if each.ts < format_time(at_second(6 * HOUR_S))]) == (
            ["a"] if sampled else []
        )

    def test_agent_without_members_is_silent_and_not_out(self) -> None:
        """A pod's own agent has nothing to sample until the member is back, which joins as new."""
        crash = round_of(3, 2 * HOUR_S, B, C)
        back = round_of(4, 5 * HOUR_S, A, B, C, causes={"a": NEW})
        seen = watched([*LONG_START, *crash, *back], out=(2 * HOUR_S - 45.0, 5 * HOUR_S - 1.0))
        assert expired(seen) == ["a"]


class TestGroupThatWentOn:
    @staticmethod
    def by_one_agent(*signals: Signal, gone: Member = C) -> list[Sample]:
        """Return the records of one agent for all, which was out; ``gone`` left meanwhile."""
        since, until = map(at_second, OUT)
        left_at = at_second(OUT[0])
        return [
            msgspec.structs.replace(each, agent="agent")
            for each in watched(signals, out=(0.0, 0.0))
            if not since <= parse_time(each.ts) < until
            and not (each.client_id == gone.client_id and parse_time(each.ts) >= left_at)
        ]

    def test_member_that_left_unseen_is_no_crash(self) -> None:
        unseen = round_of(6, 3 * HOUR_S, A, B)
        seen = self.by_one_agent(*LONG_START, *unseen, *round_of(7, 6 * HOUR_S, A, B))
        assert expired(seen) == []

    def test_member_that_left_unseen_is_forgotten(self) -> None:
        later = [*round_of(7, 6 * HOUR_S, A, B), *round_of(8, 7 * HOUR_S, A, B)]
        assert expired(self.by_one_agent(*LONG_START, *later)) == []

    def test_member_of_the_generation_before_is_missed(self) -> None:
        """The group did not rebalance meanwhile, so it was there until now."""
        assert expired(self.by_one_agent(*LONG_START, *round_of(3, 6 * HOUR_S, A, B))) == ["c"]

    def test_member_that_is_shown_behind_the_outage_is_missed(self) -> None:
        seen = self.by_one_agent(*LONG_START, *round_of(7, 6 * HOUR_S, A, B))
        since = at_second(OUT[1])
        shown = [
            msgspec.structs.replace(each, agent="agent")
            for each in watched(LONG_START, out=(0.0, 0.0))
            if each.client_id == "c" and since <= parse_time(each.ts) < since + HOUR_S
        ]
        assert expired([*seen, *shown]) == ["c"]


class TestSilences:
    def test_lies_between_two_slots(self) -> None:
        assert find_silences([1, 2, 3, 7, 8]) == [SilentSpan(3 * SLOT_S, 7 * SLOT_S)]
        assert find_silences([5]) == []

    def test_agent_that_samples_hourly_is_silent_in_two_hours(self) -> None:
        assert find_silences(range(0, 60, 6)) == []
        assert find_silences([0, 6, 12, 24, 30]) == [SilentSpan(12 * SLOT_S, 24 * SLOT_S)]

    def test_has_the_ten_minutes_at_both_its_ends(self) -> None:
        silence = SilentSpan(600.0, 1800.0)
        assert [silence.covers(at) for at in (599.9, 600.0, 2399.9, 2400.0)] == [
            False,
            True,
            True,
            False,
        ]

    def test_agent_without_periodic_samples_has_none(self) -> None:
        seen = watched([*LONG_START, *REPLACED, *CAME_BACK])
        assert list(read_silences(seen)) == ["agent-a"]
        assert read_silences([each for each in seen if each.kind is not SampleKind.SAMPLE]) == {}
