"""Lag of groups from a disturbance until it is as before."""

from collections.abc import Sequence

from agent.inspection.lag_growth import GIVE_UP_S, GroupLagLevel, LagChange, LagFollower


def play(growth: LagFollower, *polls: tuple[int, bool], step_s: float = 30.0) -> list[LagChange]:
    """Return the changes of a group's polls: lag, and whether the group is disturbed."""
    return [
        change
        for number, (lag, is_disturbed) in enumerate(polls)
        for change in growth.update([GroupLagLevel("g", lag, is_disturbed)], (number + 1) * step_s)
    ]


def quiet(*lags: int) -> Sequence[tuple[int, bool]]:
    return [(lag, False) for lag in lags]


def test_a_disturbance_has_its_growth_its_height_and_its_end() -> None:
    found = play(LagFollower(), *quiet(40, 100, 60), (100, True), (500, True), *quiet(520, 300, 50))

    assert found == [
        LagChange("g", 60, 100),
        LagChange("g", 100, 500),
        LagChange("g", 520, 50),
    ]


def test_the_lag_before_is_that_of_before_a_member_fell_silent() -> None:
    silent = [*quiet(*[10] * 9), *quiet(100, 200, 300, 400)]

    assert play(LagFollower(), *silent, (500, True))[0] == LagChange("g", 10, 500)


def test_polls_that_are_close_are_one_sample() -> None:
    silent = [*quiet(10), *quiet(*[900] * 20)]

    assert play(LagFollower(), *silent, (900, True), step_s=1.4)[0] == LagChange("g", 10, 900)


def test_a_lag_that_grows_in_quiet_times_is_no_change() -> None:
    assert play(LagFollower(), *quiet(0, 100, 10_000, 0)) == []


def test_a_disturbance_that_costs_nothing_is_no_change() -> None:
    assert play(LagFollower(), *quiet(10), (10, True), *quiet(9, 500)) == []


def test_a_group_at_its_old_lag_is_not_caught_up_while_it_rebalances() -> None:
    found = play(LagFollower(), *quiet(10), (100, True), (5, True), *quiet(5))

    assert found == [LagChange("g", 10, 100), LagChange("g", 100, 5)]


def test_a_group_that_never_catches_up_is_followed_for_an_hour() -> None:
    growth = LagFollower()

    found = play(growth, *quiet(0), (100, True), *quiet(100, 100, 0), step_s=GIVE_UP_S)

    assert found == [LagChange("g", 0, 100)]


def test_a_group_that_is_gone_is_forgotten() -> None:
    growth = LagFollower()
    play(growth, *quiet(0), (100, True))

    growth.forget(["g"])

    assert play(growth, *quiet(0)) == []
