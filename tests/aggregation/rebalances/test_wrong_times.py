"""One record with a wrong time costs nothing, and hides no cause."""

import pytest
from msgspec.structs import replace

from aggregation.incidents.incidents import Analysis, analyze
from aggregation.incidents.model import IncidentKind
from metrics.model.sample import Sample, SampleKind, format_time, parse_time
from tests.aggregation.rebalances.test_rebalances import NEW, A, B, C, records, round_of

DAY_S = 86_400.0
ROOT = {"b": (7, "cached metadata has changed")}
AT = 400 * DAY_S
GOT = records(
    *round_of(1, AT, A, B, C, causes={"a": NEW, "b": NEW, "c": NEW}),
    *round_of(2, AT + 1_000.0, A, B, C, causes=ROOT),
    *round_of(3, AT + 5_000.0, A, B, C, causes=ROOT),
)
RIGHT = analyze(GOT)
MOVED = [
    (is_start, by_s)
    for is_start in (True, False)
    for by_s in (-10.0, -2 * DAY_S, -365 * DAY_S, 10.0, 2 * DAY_S, 365 * DAY_S)
    if abs(by_s) > 10.0 or is_start is (by_s > 0)  # else it is a little longer
]


def moved(records_: list[Sample], wrong: Sample, by_s: float) -> list[Sample]:
    late = replace(wrong, ts=format_time(parse_time(wrong.ts) + by_s))
    return [late if record is wrong else record for record in records_]


def move(client_id: str, *, is_start: bool, generation: int) -> Sample:
    """Return the record that begins or ends a member's part in a round."""
    return next(
        record
        for record in GOT
        if record.client_id == client_id
        and record.generation == (generation - 1 if is_start else generation)
        and (record.from_ == 0) is is_start
    )


def check_cost(found: Analysis) -> None:
    assert len(found.rebalances) == len(RIGHT.rebalances)
    for each, wanted in zip(found.rebalances, RIGHT.rebalances, strict=True):
        assert each.seconds == pytest.approx(wanted.seconds, abs=0.11)
        assert each.member_seconds <= wanted.member_seconds + 0.11
        assert each.round.is_open is False


@pytest.mark.parametrize(("is_start", "by_s"), MOVED)
def test_wrong_time_of_the_root_costs_nothing_and_keeps_it(is_start: bool, by_s: float) -> None:
    found = analyze(moved(GOT, move("b", is_start=is_start, generation=2), by_s))

    check_cost(found)
    assert [each.kind for each in found.incidents] == [each.kind for each in RIGHT.incidents]
    assert [each.trigger.member for each in found.rebalances] == [
        each.trigger.member for each in RIGHT.rebalances
    ]
    waits = [each.waiting_for for each in found.incidents]
    assert waits == [each.waiting_for for each in RIGHT.incidents]


@pytest.mark.parametrize(("is_start", "by_s"), MOVED)
def test_wrong_time_of_another_member_costs_nothing(is_start: bool, by_s: float) -> None:
    found = analyze(moved(GOT, move("c", is_start=is_start, generation=2), by_s))

    check_cost(found)
    assert [each.kind for each in found.incidents][1:] == [IncidentKind.METADATA_CHANGED] * 2


def test_end_at_the_time_of_another_round_is_of_its_own() -> None:
    """Generations tell them apart."""
    found = analyze(moved(GOT, move("b", is_start=False, generation=3), -4_000.0))

    check_cost(found)
    assert [each.kind for each in found.incidents] == [each.kind for each in RIGHT.incidents]


def test_wrong_time_of_a_record_between_start_and_end_costs_nothing() -> None:
    end = move("c", is_start=False, generation=2)
    between = replace(end, id="between", to=10, outcome=None, ts=end.ts)
    whole = [replace(r, from_=10) if r is end else r for r in GOT]
    check_cost(analyze(moved([*whole, between], between, -2 * DAY_S)))


def test_sample_at_0_shows_that_the_end_of_a_last_episode_is_wrong() -> None:
    """Nothing else is known of the member for days."""
    end = move("b", is_start=False, generation=3)
    strayed = moved(GOT, end, 2 * DAY_S)
    ts = format_time(parse_time(end.ts) + 900.0)
    sample = replace(end, id="s", kind=SampleKind.SAMPLE, ts=ts, episode=None, from_=None, to=0)

    check_cost(analyze([*strayed, replace(sample, outcome=None)]))
    held = analyze([*strayed, replace(sample, outcome=None, to=7)])
    assert held.rebalances[-1].seconds > DAY_S
