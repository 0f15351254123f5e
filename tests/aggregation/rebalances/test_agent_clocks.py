"""Clocks of agents that see the same members: one event of a member has one time."""

from typing import Any

import pytest
from msgspec.structs import replace

from aggregation.rebalances.agent_clocks import AgentClocks, align_agents, correct_records
from metrics.model.sample import (
    UNEXPLAINED,
    Outcome,
    Sample,
    SampleKind,
    Scope,
    format_time,
    parse_time,
)

START = 1_795_000_000.0
WIRE, LOG, BROKER = "wire", "logs", "broker_log"


def record(
    agent: str,
    at: float,
    ahead_s: float = 0.0,
    *,
    source: str = LOG,
    generation: int | None = None,
    joined: float | None = None,
    outcome: Outcome | None = Outcome.SYNCED,
    **fields: Any,
) -> Sample:
    """Return the end of an episode, as an agent has it whose clock is ahead."""
    given: dict[str, Any] = {
        "kind": SampleKind.TRANSITION,
        "member_id": "m-1",
        "client_id": "m",
        "from_": 1,
        "to": 0,
    }
    return Sample(
        id=f"{agent}-{at}",
        ts=format_time(START + at + ahead_s),
        joined_ts=None if joined is None else format_time(START + joined + ahead_s),
        agent=agent,
        cluster="",
        app="g",
        group="g",
        scope=Scope.CONSUMER,
        generation=generation,
        outcome=outcome,
        source=source,
        **(given | fields),
    )


def joins(ahead_s: float, agent: str = "log", **fields: Any) -> list[Sample]:
    """Return three assignments that a log and the wire show."""
    found = []
    for number in (1, 2, 3):
        at = 100.0 * number
        found.append(record("tap", at, source=WIRE, generation=number, joined=at - 0.5, **fields))
        found.append(
            record(agent, at + 0.01, ahead_s, generation=number, joined=at - 0.501, **fields)
        )
    return found


def leads(records: list[Sample]) -> dict[str, float]:
    return {agent: round(seconds, 1) for agent, seconds in align_agents(records).leads.items()}


@pytest.mark.parametrize("ahead_s", [3.0, -20.0, 3600.0, -86_400.0])
def test_log_has_the_time_of_the_wire(ahead_s: float) -> None:
    wrong, right = joins(ahead_s), joins(0.0)

    aligned = align_agents(wrong)

    assert leads(wrong) == {"log": ahead_s}
    for one, other, given in zip(aligned.records, right, wrong, strict=True):
        assert parse_time(one.ts) == pytest.approx(parse_time(other.ts), abs=0.02)
        assert one.joined_ts is not None
        assert other.joined_ts is not None
        joined = parse_time(other.joined_ts)
        assert parse_time(one.joined_ts) == pytest.approx(joined, abs=0.02)
        assert one.id == given.id


@pytest.mark.parametrize("ahead_s", [0.0, 0.9, -0.9])
def test_small_offset_is_left_alone(ahead_s: float) -> None:
    given = joins(ahead_s)

    assert align_agents(given) == (given, {})


def test_single_agent_keeps_its_times() -> None:
    given = joins(3.0, agent="tap")

    assert align_agents(given) == (given, {})


def test_aligned_records_stay_as_they_are() -> None:
    """What a hub has corrected, the report does not correct again."""
    once = align_agents(joins(3.0)).records

    assert align_agents(once) == (once, {})


def test_slow_poll_is_no_offset() -> None:
    """The client prints its assignment at the next poll; its request shows the clock."""
    given = [
        record("tap", 100.0, source=WIRE, generation=1, joined=99.0),
        record("log", 108.0, generation=1, joined=98.999),
    ]

    assert leads(given) == {}


def test_join_that_is_printed_at_its_response_is_no_offset() -> None:
    """So does kafka-python."""
    given = [
        record("tap", 100.0, source=WIRE, generation=1, joined=95.0),
        record("log", 100.001, generation=1, joined=100.0),
    ]

    assert leads(given) == {}


def test_one_join_is_a_proof_and_one_late_assignment_is_none() -> None:
    tap = record("tap", 100.0, source=WIRE, generation=1, joined=99.5)
    join = record("log", 103.0, generation=1, joined=102.5)
    late = record("log", 103.0, generation=1)

    assert leads([tap, join]) == {"log": 3.0}
    assert leads([tap, late]) == {}


def test_join_without_a_visible_cause_shows_the_offset() -> None:
    """kafka-go's first join: the request is a record of its own."""
    fields: dict[str, Any] = {
        "kind": SampleKind.SIGNAL,
        "reason": UNEXPLAINED,
        "outcome": None,
        "from_": 0,
    }
    joined: dict[str, Any] = {
        "kind": SampleKind.CHANGE,
        "field": "joined",
        "outcome": None,
        "from_": None,
    }
    given = [
        record("log", 102.5, joined=102.5, **joined),
        record("log", 103.0, generation=1, **(fields | {"to": None})),
        record("tap", 100.0, source=WIRE, generation=1, joined=99.5),
    ]

    assert leads(given) == {"log": 3.0}


def test_leave_of_a_dynamic_member_is_a_proof() -> None:
    def of(member: str | None) -> list[Sample]:
        return [
            record(agent, at, source=source, outcome=Outcome.LEFT, group_instance_id=member)
            for agent, at, source in (("tap", 100.0, WIRE), ("log", 120.0, LOG))
        ]

    assert leads(of(None)) == {"log": 20.0}
    assert leads(of("static-1")) == {}


def test_new_protocol_needs_two_events() -> None:
    """A member's acknowledgement is the next heartbeat, which can be seconds later."""
    found = joins(3.0, group_type="consumer")
    syncs = [each for each in found if each.generation == 1]
    targets = [
        record(agent, at, source=source, generation=1, group_type="consumer", outcome=None, to=1)
        for agent, at, source in (("tap", 90.0, WIRE), ("log", 93.0, LOG))
    ]
    plain = [replace(each, joined_ts=None) for each in syncs]

    assert leads(plain) == {}
    assert leads([*plain, *targets]) == {"log": 3.0}


def test_time_of_most_agents_is_the_right_one() -> None:
    one = joins(3.0, agent="log-1", member_id="m-1", client_id="m1")
    other = joins(3.1, agent="log-2", member_id="m-2", client_id="m2")

    assert leads([*one, *other]) == {"tap": -3.0}


def test_agents_are_compared_over_others() -> None:
    """A broker's log and a client's log have no common event; the wire has both."""
    by_broker = [record("kafka", 100.0 * n + 40.0, source=BROKER, generation=n) for n in (1, 2, 3)]

    assert leads([*joins(-20.0), *by_broker]) == {"kafka": 40.0, "log": -20.0}


def test_clock_that_is_set_has_another_offset_from_then_on() -> None:
    before, after = joins(20.0), joins(0.0)
    given = [*before[:4], *after[4:]]
    later = [
        record("tap", 400.0, source=WIRE, generation=4, joined=399.5),
        record("log", 400.01, generation=4, joined=399.499),
    ]
    right = [*after, *later]

    aligned = align_agents([*given, *later])

    assert aligned.leads == {}
    for one, other in zip(aligned.records, right, strict=True):
        assert parse_time(one.ts) == pytest.approx(parse_time(other.ts), abs=0.02)


def test_logs_of_several_clocks_keep_their_times() -> None:
    first = joins(3.0, member_id="m-1", client_id="m1")
    second = joins(-20.0, member_id="m-2", client_id="m2")

    assert leads([*first, *second]) == {}


def test_offsets_survive_a_restart() -> None:
    clocks = AgentClocks(kept=8)
    for each in joins(3.0):
        clocks.observe(each)

    again = AgentClocks(clocks.state(), kept=8)

    assert again.leads() == clocks.leads() == {"log": pytest.approx(3.0, abs=0.02)}


def without_generations(step_s: float, stepped: str) -> list[Sample]:
    """Return five assignments that a log has without a generation, and its leave.

    The clock of one agent is set between the second and the third.
    """
    found = []
    for number, at in enumerate((100.0, 130.0, 170.0, 220.0, 280.0)):
        ahead = {stepped: step_s if number > 1 else 0.0}
        tap_s, log_s = ahead.get("tap", 0.0), ahead.get("log", 0.0)
        joined: dict[str, Any] = {"generation": number, "joined": at - 0.5}
        found.append(record("tap", at, tap_s, source=WIRE, **joined))
        found.append(record("log", at + 0.01, log_s))
    ahead = {stepped: step_s}
    left: dict[str, Any] = {"outcome": Outcome.LEFT, "from_": 6, "group_type": "classic"}
    found.append(record("tap", 300.0, ahead.get("tap", 0.0), source=WIRE, **left))
    found.append(record("log", 300.01, ahead.get("log", 0.0), **left))
    return found


@pytest.mark.parametrize("step_s", [3600.0, -3600.0, 25.0])
@pytest.mark.parametrize("stepped", ["log", "tap"])
def test_assignments_without_generations_show_when_a_clock_was_set(
    step_s: float, stepped: str
) -> None:
    given = without_generations(step_s, stepped)
    right = without_generations(0.0, stepped)

    clocks = AgentClocks(kept=8)
    for each in given:
        clocks.observe(each)
    restored = AgentClocks(clocks.state(), 8, clocks.syncs())

    wire_s = step_s if stepped == "tap" else 0.0  # of two agents the wire has the right clock
    expected = [
        parse_time(each.ts) + (wire_s if parse_time(each.ts) > START + 150.0 else 0.0)
        for each in right
    ]
    for each_of in (clocks, restored):
        found = correct_records(given, each_of.spans())
        times = [parse_time(each.ts) for each in found]
        assert times == pytest.approx(expected, abs=0.02)
        assert round(each_of.leads()["log"]) == (step_s if stepped == "log" else -step_s)


@pytest.mark.parametrize("ahead_s", [3.0, 30.0, -30.0])
def test_assignments_at_the_same_distance_hide_no_offset(ahead_s: float) -> None:
    """Assignments every 30 s: each has a neighbour there by the clock as it is, too."""
    given = []
    for number in range(8):
        at = 30.0 * number
        given.append(record("tap", at, source=WIRE, generation=number, joined=at - 0.5))
        given.append(record("log", at + 0.01, ahead_s))
    left: dict[str, Any] = {"outcome": Outcome.LEFT, "from_": 6, "group_type": "classic"}
    given.append(record("tap", 300.0, source=WIRE, **left))
    given.append(record("log", 300.01, ahead_s, **left))

    assert leads(given) == {"log": ahead_s}


def test_offsets_that_agree_in_the_order_of_one_clock_alone_are_none() -> None:
    """By the other clock the event that contradicts them is between them."""
    events = ((0, 250), (300, 250), (0, 0), (200, 250))
    found = [
        record(agent, at + ahead_s, generation=generation, joined=at + ahead_s - 0.5)
        for generation, (at, behind_s) in enumerate(events)
        for agent, ahead_s in (("b", 0), ("a", behind_s))
    ]

    assert align_agents(found).records == found
    assert leads(found) == {}
