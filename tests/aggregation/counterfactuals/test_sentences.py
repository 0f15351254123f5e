"""Changes in one sentence."""

import pytest

from aggregation.counterfactuals.changes import find_changes
from aggregation.counterfactuals.sentences import describe_change, format_span
from tests.aggregation.counterfactuals.given import H, K, away, incident


def test_static_membership_of_a_week() -> None:
    restarts = [
        incident(f"r{n}", K.RESTART, absences=away(5.0), unread_s=70.0, away_s=10.0)
        for n in range(41)
    ]
    (change,) = find_changes(restarts)
    assert describe_change(change, 112, 6.9 * 86_400) == (
        "static membership (group.instance.id: one stable id for each member, with "
        "session.timeout.ms=45000) would have avoided 82 of 112 rebalances, 41 min unread "
        "in 7 days"
    )


def test_setting_has_its_new_value_and_nothing_avoided_is_left_out() -> None:
    pause = incident(
        "e",
        K.SESSION_EXPIRED,
        absences=away(6.0, how=H.EXPIRED),
        session_timeout_s=10.0,
        silent_since=90.0,
    )
    (change,) = find_changes([pause])
    assert describe_change(change, 2, 300.0) == (
        "session.timeout.ms=24000 would have avoided 2 of 2 rebalances in 5 min"
    )
    (change,) = find_changes([incident("j", K.MEMBER_JOINED, unread_s=50.0, moved_s=30.0)])
    assert describe_change(change, 9, 3.1 * 86_400) == (
        "the cooperative assignor would have avoided 20 s unread in 3 days"
    )


def test_ids_that_two_share_are_no_new_static_membership() -> None:
    (change,) = find_changes([incident("f", K.FENCED, is_static=True, unread_s=12.0)])
    assert describe_change(change, 2, 300.0) == (
        "group.instance.id (one id for each process) would have avoided 2 of 2 rebalances, "
        "12 s unread in 5 min"
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.25, "0.25 s"),
        (41.0, "41 s"),
        (51.6, "51 s"),
        (2460.0, "41 min"),
        (4678.0, "77 min"),
        (7200.0, "2 h"),
        (20_950.0, "5.8 h"),
        (67_790.0, "18.8 h"),
        (356_400.0, "99 h"),
    ],
)
def test_span_has_one_unit_and_is_never_more(seconds: float, text: str) -> None:
    assert format_span(seconds) == text
