"""Steps of one log's clock: a generation is one moment of all its members."""

import pytest
from msgspec.structs import replace

from aggregation.explain.incident_words import clock_steps
from aggregation.incidents.answers import answer_of
from aggregation.incidents.incidents import analyze
from aggregation.incidents.model import IncidentKind
from aggregation.rebalances.clock_steps import correct_clock_steps
from metrics.model.sample import Sample
from metrics.model.signals import Member, Signal, SignalKind, SourceKind
from tests.aggregation.rebalances.test_rebalances import START, A, B, C, records, round_of
from tests.metrics.given import raised, signal

ROUNDS = [
    round_of(number, at, A, B, C, causes={"c": (8, f"subscription has changed to t{number}")})
    for number, at in ((2, 100.0), (3, 200.0), (4, 300.0))
]


def stepped(signals: list[Signal], member: Member, since: float, seconds: float) -> list[Signal]:
    """Return what a log shows of it, whose clock is set at an instant; no time runs back."""
    own = sorted((s for s in signals if s.member == member), key=lambda each: each.at)
    out, last = [s for s in signals if s.member != member], 0.0
    behind = 0.0
    for each in own:
        at = each.at + (seconds if each.at >= since else 0.0)
        if at < last and not behind:
            behind = last - at + 0.001
        last = at + behind
        out.append(replace(each, at=last))
    return out


def times(found: list[Sample]) -> list[tuple[str | None, str, str]]:
    return sorted((each.client_id, each.ts[:19], each.reason or "") for each in found)


HISTORY = [*START, *(each for one in ROUNDS for each in one)]


@pytest.mark.parametrize("seconds", [120.0, -120.0, 3600.0])
@pytest.mark.parametrize("member", [A, B, C])
def test_step_of_a_clock_is_taken_out(member: Member, seconds: float) -> None:
    wrong = records(*stepped(HISTORY, member, 150.0, seconds))

    steady = correct_clock_steps(wrong)

    assert times(steady.records) == times(records(*HISTORY))
    assert [step.member.client_id for step in steady.steps] == [member.client_id]


def test_step_that_is_taken_back() -> None:
    rounds = [round_of(number, 100.0 * number, A, B, C) for number in (5, 6, 7)]
    history = [*HISTORY, *(each for one in rounds for each in one)]
    there = stepped(history, A, 150.0, 120.0)
    back = [replace(s, at=s.at - 120.0) if s.member == A and s.at > 550.0 else s for s in there]

    found = correct_clock_steps(records(*back))

    assert times(found.records) == times(records(*history))


def test_member_that_is_slow_to_sync_or_to_join_has_no_other_clock() -> None:
    """It sent its join with the others, and its own stall delays its sync each time."""
    slow = [
        replace(each, at=each.at + 40.0)
        if each.member == B and each.kind is SignalKind.SYNC and each.at > 50.0
        else each
        for each in HISTORY
    ]
    late = [*HISTORY, *round_of(5, 400.0, A, B, C, joins={"b": 440.0})]

    for history in (slow, late):
        given = records(*history)
        assert correct_clock_steps(given) == (given, [], [])


def test_follower_that_joins_a_generation_again_has_no_other_clock() -> None:
    again = [
        signal(kind, at, B, generation=generation)
        for generation, at in ((2, 130.0), (3, 230.0))
        for kind in (SignalKind.JOIN, SignalKind.SYNC)
    ]
    given = records(*HISTORY, *again)

    assert correct_clock_steps(given).steps == []


def test_one_generation_is_no_proof() -> None:
    given = records(*stepped(HISTORY, A, 250.0, 120.0))

    assert correct_clock_steps(given).steps == []


def test_times_of_the_wire_are_not_moved() -> None:
    wire = [replace(each, source=SourceKind.WIRE) if each.member == A else each for each in HISTORY]
    given = records(*stepped(wire, replace(A), 150.0, 120.0))

    assert correct_clock_steps(given).steps == []


def test_incident_names_the_clock_that_stepped() -> None:
    found = analyze(records(*stepped(HISTORY, A, 150.0, 120.0))).incidents

    (named,) = [each for each in found if "clock_steps" in each.detail]
    assert named.detail["clock_steps"] == [{"client_id": "a", "host": "h-a", "seconds": 120.0}]
    words = ["the clock of a on h-a was 2 min ahead from then on: its times are corrected"]
    assert clock_steps(answer_of(named)) == words


def by_log_and_wire(member: Member, since: float, seconds: float) -> list[Signal]:
    """Return the history as both sources show it; the log of one member has another clock."""
    named = [
        replace(each, member=replace(each.member, member_id=f"id-{each.member.client_id}"))
        for each in HISTORY
    ]
    wire = [
        replace(each, source=SourceKind.WIRE, member=replace(each.member, origin="10.0.0.7"))
        for each in named
    ]
    own = replace(member, member_id=f"id-{member.client_id}")
    return [*wire, *stepped(named, own, since, seconds)]


@pytest.mark.parametrize("seconds", [120.0, -50.0, -120.0, 3600.0])
@pytest.mark.parametrize("since", [-10.0, 150.0, 250.0])
def test_identity_beats_time_where_a_log_and_the_wire_show_a_member(
    since: float, seconds: float
) -> None:
    """One generation of one member id is one event: a step needs no other proof."""
    right = analyze(records(*by_log_and_wire(A, 0.0, 0.0)))

    found = analyze(records(*by_log_and_wire(A, since, seconds)))

    assert [each.round.generations for each in found.rebalances] == [(1,), (2,), (3,), (4,)]
    assert [each.seconds for each in found.rebalances] == [
        pytest.approx(each.seconds, abs=0.2) for each in right.rebalances
    ]
    assert [(i.kind, i.members, i.waiting_for) for i in found.incidents] == [
        (i.kind, i.members, i.waiting_for) for i in right.incidents
    ]


@pytest.mark.parametrize("member", [A, B])
@pytest.mark.parametrize("seconds", [30.0, -30.0])
def test_of_two_clocks_either_can_be_wrong(member: Member, seconds: float) -> None:
    """Nothing shows the one that was set; without an offset nobody has held up the other."""
    history = [each for each in HISTORY if each.member != C]
    wrong = records(*stepped(history, member, 150.0, seconds))

    found = analyze(wrong)

    assert [each.straggler for each in found.rebalances] == [None] * 4
    assert [each.seconds for each in found.rebalances] == [
        pytest.approx(each.seconds, abs=0.2) for each in analyze(records(*history)).rebalances
    ]
    (named,) = [each for each in found.incidents if "clock_steps" in each.detail]
    ahead, other = sorted([A, B], key=lambda each: (each == member) != (seconds > 0))
    names = f"{ahead.client_id} on {ahead.host} and of {other.client_id} on {other.host}"
    (words,) = clock_steps(answer_of(named))
    assert words == (
        f"the clocks of {names} were 30.0 s apart from then on, and either can be wrong: the times"
        f" of {ahead.client_id} are corrected"
    )


@pytest.mark.parametrize("seconds", [0.0, 120.0])
def test_drop_in_a_log_whose_clock_is_ahead_explains_the_leave_on_the_wire(seconds: float) -> None:
    """On the wire the drop is a leave, and the return an episode of its own."""
    own = replace(A, member_id="id-a")
    back = replace(A, member_id="id-2")
    others = [
        *(each for each in HISTORY if each.member != A),
        *round_of(5, 400.2, B, C),
        *round_of(6, 405.0, B, C),
    ]
    log = [
        *(replace(each, member=own) for each in HISTORY if each.member == A),
        raised(5, 400.0, own, reason="consumer poll timeout has expired."),
        signal(SignalKind.JOIN, 405.0, back),
        signal(SignalKind.SYNC, 405.5, back, generation=6),
    ]
    wire = [
        *(replace(each, member=own) for each in HISTORY if each.member == A),
        signal(SignalKind.LEAVE, 400.0, own),
        raised(2, 405.0, back, reason="JoinGroup answered MEMBER_ID_REQUIRED"),
        signal(SignalKind.JOIN, 405.0, back),
        signal(SignalKind.SYNC, 405.5, back, generation=6),
    ]
    by_wire = [
        replace(s, source=SourceKind.WIRE, member=replace(s.member, origin="10.0.0.7"))
        for s in wire
    ]
    late = [replace(s, at=s.at + seconds) if s.at > 350.0 else s for s in log]

    found = analyze(records(*others, *by_wire, *late)).incidents

    (dropped,) = [each for each in found if each.kind is IncidentKind.POLL_TIMEOUT]
    assert len(dropped.rebalances) == 2
    assert [each.how for each in dropped.departures] == ["dropped"]
