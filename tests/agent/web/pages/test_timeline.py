from itertools import pairwise

import pytest

from agent.web.pages.timeline import (
    MAX_BARS,
    Lane,
    Piece,
    Window,
    choose_minutes,
    find_brackets,
    find_lanes,
    find_time_marks,
    join_short,
)
from aggregation.explain.incident_words import summarize
from aggregation.incidents.answers import answer_of
from aggregation.incidents.incidents import analyze
from aggregation.rebalances.twins import number_twins
from metrics.model.sample import Scope, parse_time
from metrics.model.snapshot import MemberRow, StatusCounts
from metrics.model.status import RebalanceStatus as Status
from tests.agent.web.pages.scene import BUSY, NOW, records, snapshot
from tests.aggregation.incidents.invented import records as invented
from tests.aggregation.rebalances.test_rebalances import START, A, B, C, left, round_of
from tests.aggregation.rebalances.test_rebalances import records as recorded
from tests.metrics.given import raised

HAPPENED = recorded(
    *START, left(100.0, A, "closed"), *round_of(2, 101.0, B, C), raised(7, 200.0, B)
)
WINDOW = Window(start_at=-90.0, end_at=210.0)


def row(client_id: str, status: Status = Status.NONE, since_at: float = 0.0) -> MemberRow:
    return MemberRow(
        cluster="", app="", group="g", group_type="classic", client_id=client_id,
        host=f"h-{client_id}", status=status, peak=status, since_at=since_at,
        counts=StatusCounts({}, {}, {}),
    )  # fmt: skip


def lanes(window: Window = WINDOW, now: float = 210.0) -> dict[str, Lane]:
    rows = [row("b", Status.METADATA_CHANGED, 200.0), row("c", Status.NONE, 101.5)]
    found = find_lanes(HAPPENED, [(Scope.CONSUMER, each) for each in rows], window, now)
    return {lane.client_id: lane for lane in found}


def busy(lane: Lane) -> list[tuple[Status, float, float]]:
    return [(each.status, each.start_at, each.end_at) for each in lane.pieces if each.status]


def test_a_bar_is_the_time_in_a_status() -> None:
    assert busy(lanes()["b"]) == [
        (Status.NEW_MEMBER, 0.0, 0.5),
        (Status.COORDINATOR_REQUESTED, 101.1, 101.5),
        (Status.METADATA_CHANGED, 200.0, 210.0),
    ]


def test_before_its_first_record_a_member_was_not_observed() -> None:
    first = lanes()["b"].pieces[0]

    assert (first.status, first.start_at, first.end_at) == (None, WINDOW.start_at, 0.0)


def test_a_member_that_left_has_nothing_more() -> None:
    assert max(each.end_at for each in lanes()["a"].pieces) <= 100.0


def test_a_bar_that_began_before_the_window_is_drawn_from_its_edge() -> None:
    window = Window(start_at=700.0, end_at=1000.0)

    (bar,) = lanes(window, 1000.0)["b"].pieces

    assert (bar.start_at, bar.end_at, bar.is_open) == (200.0, 1000.0, True)
    assert window.share(bar.start_at) == 0.0


def test_a_member_without_a_record_is_seen_since_its_state_is_known() -> None:
    (lane,) = find_lanes([], [(Scope.CONSUMER, row("d", since_at=60.0))], WINDOW, 210.0)

    assert [(each.status, each.start_at) for each in lane.pieces] == [
        (None, WINDOW.start_at),
        (Status.NONE, 60.0),
    ]


def test_the_busiest_member_is_first() -> None:
    assert next(iter(lanes())) == "b"


def test_many_short_bars_become_few_and_the_highest_status_stays() -> None:
    bars = [Piece(Status(1 + n % 9), float(n), n + 0.5) for n in range(MAX_BARS)]

    few = join_short(bars, 10)

    assert len(few) == 10
    assert sum(each.number for each in few) == len(bars)
    assert max(each.status or 0 for each in few) == 9
    assert all(a.end_at <= b.start_at for a, b in pairwise(few))


def test_incidents_that_overlap_have_rows_of_their_own() -> None:
    of_group = [each for each in records() if each.group == BUSY]
    window = Window(start_at=NOW - 900, end_at=NOW)
    incidents = [answer_of(each) for each in analyze(of_group, None, NOW).incidents]

    brackets = find_brackets(incidents, window, NOW)

    assert len(brackets) == len(incidents)
    by_row = [[each for each in brackets if each.row == n] for n in range(5)]
    assert all(a.end_at <= b.start_at for row_of in by_row for a, b in pairwise(row_of))


def test_a_short_incident_has_its_label_beside_it() -> None:
    """A label that began within it would lie over its border."""
    of_group = [each for each in records() if each.group == BUSY]
    incidents = [answer_of(each) for each in analyze(of_group, None, NOW).incidents]
    last_at = max(parse_time(each.ended_at or "") for each in incidents)

    for end_at in (NOW, last_at + 1.0):
        window = Window(start_at=end_at - 900, end_at=end_at)
        brackets = find_brackets(incidents, window, NOW)
        assert all(each.is_narrow for each in brackets)
        for each in brackets:
            assert each.label_at == (each.start_at if each.is_late else each.end_at)

    assert any(each.is_late for each in brackets)


@pytest.mark.parametrize(("part", "is_narrow"), [(0.05, True), (0.09, True), (0.95, False)])
def test_a_label_that_would_cross_the_border_is_beside(part: float, *, is_narrow: bool) -> None:
    of_group = [each for each in records() if each.group == BUSY]
    incidents = [answer_of(each) for each in analyze(of_group, None, NOW).incidents]
    incident = max(incidents, key=lambda each: len(summarize(each)))
    start_at, end_at = parse_time(incident.started_at), parse_time(incident.ended_at or "")
    begin_at = start_at - 1e-3
    window = Window(start_at=begin_at, end_at=begin_at + (end_at - begin_at) / part)

    (bracket,) = find_brackets([incident], window, NOW)

    assert bracket.is_narrow is is_narrow


def test_marks_of_time_are_round() -> None:
    for minutes in (5, 15, 60, 360, 1440):
        ticks = find_time_marks(Window(start_at=NOW - 60 * minutes + 7, end_at=NOW + 7))

        assert 2 <= len(ticks) <= 8
        assert all(tick.at % 60 == 0 for tick in ticks)
        assert all(0 < tick.share < 100 for tick in ticks)


@pytest.mark.parametrize(
    ("age_s", "minutes"),
    [(None, 15), (0.0, 5), (269.0, 5), (271.0, 15), (3000.0, 60), (90_000.0, 15)],
)
def test_a_window_holds_the_last_incident(age_s: float | None, minutes: int) -> None:
    assert choose_minutes(None if age_s is None else NOW - age_s, NOW) == minutes


def test_ten_thousand_members_are_lanes_in_a_moment() -> None:
    rows = [(Scope.CONSUMER, row(f"m{n}")) for n in range(10_000)]

    found = find_lanes(HAPPENED, rows, WINDOW, 210.0)

    assert len(found) == 10_003
    assert snapshot().consumers


def test_members_of_one_name_have_a_lane_each() -> None:
    found = find_lanes(
        number_twins(invented("replicas-on-one-host")),
        [],
        Window(start_at=0.0, end_at=1100.0),
        1100.0,
    )

    assert sorted(each.host for each in found) == ["h", "h (2)", "h (3)"]
    assert [len(busy(each)) for each in found] == [6, 6, 6]
