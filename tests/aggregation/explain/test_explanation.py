import re
from dataclasses import replace

import msgspec
import pytest

from aggregation.explain.explanation import (
    Explanation,
    choose,
    choose_incidents,
    explain,
    explanations,
)
from aggregation.explain.recommendations import load_recommendations
from aggregation.incidents.incidents import Analysis, analyze
from aggregation.incidents.model import IncidentKind
from aggregation.rebalances.inspection_findings import Finding
from aggregation.rebalances.rebalances import ExplainedRebalance, explain_rebalances
from metrics.model.signals import Signal
from metrics.model.status import BY_LABEL
from metrics.model.status import RebalanceStatus as Status
from tests.aggregation.rebalances.test_rebalances import (
    NEW,
    START,
    A,
    B,
    C,
    gaining,
    left,
    records,
    round_of,
)
from tests.metrics.given import raised


def story() -> list[ExplainedRebalance]:
    return explain_rebalances(
        records(
            *START,
            *round_of(2, 100.0, A, B, C, causes={"a": (5, "poll interval exceeded")}),
            *round_of(3, 200.0, A, B, C, causes={"a": (5, "poll interval exceeded")}),
            left(300.0, B, "closed"),
            *round_of(4, 300.2, A, C, joins={"c": 304.0, "a": 300.3}),
            raised(7, 400.0, C, reason="metadata"),
        )
    )


def test_answer_names_who_caused_most_and_whom_the_group_waited_for() -> None:
    got = explain("k", "g", story()[1:])

    assert got.answer.startswith("g rebalanced 4 times in 5 min; 2 of them were caused by client a")
    assert "on host h-a (DroppedGroup: poll interval exceeded)" in got.answer
    assert "waited mostly for client c on host h-c; " in got.answer
    assert got.answer.endswith("; it cost 11.0 s of its members' time.")


def test_cost_names_the_partitions_that_moved() -> None:
    got = explain(
        "k", "g", explain_rebalances(records(*START, *gaining(2, 100.0, a=1, b=0, c=0)))[1:]
    )

    assert got.answer.endswith("; it cost 1.2 s of its members' time, and 1 partition moved.")
    assert (got.partitions_moved, got.happened[0].partitions_moved) == (1, 1)
    assert got.happened[0].member_seconds == pytest.approx(1.2)


def test_one_rebalance_that_still_runs() -> None:
    got = explain("k", "g", story()[-1:])

    assert got.answer == (
        "g rebalanced once, at 1970-01-01 00:06:40 UTC, and still does; it was caused by client c"
        " on host h-c (MetadataChanged: metadata); the group was rebalancing for 0 ms in total."
    )
    assert got.happened[0].is_open


def test_cost_names_the_records_that_waited() -> None:
    begun, *_, again = story()
    behind = [
        replace(begun, findings=(Finding(1.0, "k", 2, 1),)),
        replace(again, findings=(_cost(1_234),)),
    ]

    assert explain("k", "g", behind[:1]).answer.endswith(
        "s of its members' time, and 2 partitions moved; 1 record waited afterwards."
    )
    assert explain("k", "g", behind).answer.endswith("; 1,234 records waited afterwards at worst.")
    assert [each.lag for each in explain("k", "g", behind).happened] == [1, 1_234]


def _cost(lag: int) -> Finding:
    return Finding(1.0, "k", None, lag)


def test_long_reason_is_shortened_in_the_answer_alone() -> None:
    reason = "metadata " * 25
    (found,) = explain_rebalances(records(raised(7, 400.0, C, reason=reason)))

    got = explain("k", "g", [found])

    assert "metadata metadata …); " in got.answer
    assert got.happened[0].reason == reason


def test_no_rebalance() -> None:
    assert explain("k", "g", []).answer == "g did not rebalance, as far as was seen."


def test_inferred_says_so() -> None:
    found = explain_rebalances(records(*START, *round_of(2, 100.0, B, C)))[1:]

    got = explain("k", "g", found)

    assert "client a on host h-a (UnknownMember: it took no part any more" in got.answer
    assert ", as far as can be inferred; " in got.answer
    assert got.happened[0].certainty == "inferred"


def test_unknown_says_what_is_missing() -> None:
    found = explain_rebalances(records(*START, *round_of(2, 100.0, A, B, C)))[1:]

    got = explain("k", "g", found)

    assert "who began it was not seen" in got.answer
    assert got.happened[0].reason == "the member that began it: no agent sees it"
    assert got.advice == (load_recommendations().unseen,)


def test_advice_begins_with_the_costliest_cause_and_the_slow_member() -> None:
    explanation = explain("k", "g", story()[1:])

    cost = dict.fromkeys(Status, 0.0)
    for rebalance in explanation.happened:
        if rebalance.status is not None:
            cost[BY_LABEL[rebalance.status]] += rebalance.member_seconds
    costliest = max(cost, key=cost.__getitem__)
    known = load_recommendations()
    assert explanation.advice[:2] == (known.by_status[costliest][0], known.slow_member)


def test_totals_are_the_sums() -> None:
    found = explain_rebalances(records(*START, *round_of(2, 100.0, A, B, C, causes={"a": NEW})))[1:]

    got = explain("k", "g", found)

    assert got.rebalances == 1
    assert got.seconds == pytest.approx(0.5)
    assert got.member_seconds == pytest.approx(0.5 + 2 * 0.4)


class TestChoose:
    def test_last(self) -> None:
        assert choose(story(), 2, None) == story()[-2:]

    @pytest.mark.parametrize(("at", "began_at"), [(250.0, 200.0), (200.2, 200.0), (1e9, 400.0)])
    def test_at_an_instant_is_the_one_that_ran_or_the_last_before(
        self, at: float, began_at: float
    ) -> None:
        (found,) = choose(story(), 20, at)

        assert began_at <= found.round.started_at < began_at + 60.0

    def test_before_everything_is_nothing(self) -> None:
        assert choose(story(), 20, -1.0) == []


def test_groups_are_explained_apart() -> None:
    one, other = story(), explain_rebalances(records(*START))

    assert [got.rebalances for got in explanations(one + other, 3, None)] == [3]


def test_each_setting_is_advised_once_with_the_largest_number() -> None:
    analysis = slow_members(30.0, 90.0, 60.0)
    shown = choose_incidents(analysis.incidents, 3, None)

    advice = explain("k", "g", analysis.rebalances, incidents=shown).advice

    about = [each for each in advice if each.startswith("max.poll.interval.ms")]
    assert [each.partition(":")[0] for each in about] == ["max.poll.interval.ms 60000 to 230000"]


def slow_members(*away_s: float) -> Analysis:
    """Member b exceeds a poll interval of a minute, and is back after each of these times."""
    signals = list[Signal]()
    slow = msgspec.structs.replace(B, max_poll_interval_s=60.0)
    for number, away in enumerate(away_s):
        at = 1_000.0 + 1_000.0 * number
        signals += [
            raised(5, at, slow, reason="consumer poll timeout has expired."),
            *round_of(2 + 2 * number, at + 0.5, A, C),
            *round_of(3 + 2 * number, at + away, A, slow, C, causes={"b": NEW}),
        ]
    return analyze(records(*START, *signals), now=9_000.0)


def of_settings(found: Explanation) -> set[str]:
    return {re.split("[ =:]", each)[0] for each in found.advice}


def test_timeout_that_leaves_more_unread_is_not_advised() -> None:
    """Either alone: with the longer interval of both, more is unread than was."""
    found = slow_members(30.0, 60.0)
    costs = iter([(5.0, 25.0), (70.0, 60.0)])  # unread, and away: minus 20 and plus 10
    incidents = [
        replace(each, cost=replace(each.cost, unread_partition_seconds=u, away_partition_seconds=a))
        for each in found.incidents
        if each.kind is IncidentKind.POLL_TIMEOUT
        for u, a in [next(costs)]
    ]
    (explained,) = explanations(found.rebalances, 20, None, incidents)
    assert not {each.setting for each in explained.changes} & {"max.poll.interval.ms"}
    assert "max.poll.interval.ms" not in of_settings(explained)
    assert "max.poll.records" in of_settings(explained)
    shown = {each.setting for one in explained.incidents for each in one.recommendations}
    assert "max.poll.interval.ms" not in shown
    (better,) = explanations(found.rebalances, 20, None, incidents[1:])
    assert "max.poll.interval.ms" in of_settings(better)


def test_sum_with_a_lower_bound_is_one() -> None:
    """No source shows the session timeout of c, which expires; the drops of b are known."""
    found = slow_members(30.0, 60.0)
    costs = iter([10.0, 20.0, 30.0])
    incidents = [
        replace(each, cost=replace(each.cost, unread_partition_seconds=next(costs)))
        for each in found.incidents
        if each.kind is IncidentKind.POLL_TIMEOUT
    ]
    (known,) = explanations(found.rebalances, 20, None, incidents)
    assert "time and 30.0 partition-seconds unread" in known.answer
    assert "(20.0 partition-seconds unread)" in known.answer
    bound: dict[str, object] = {"unknown_timeout": "session.timeout.ms"}
    shown = [*incidents[:1], replace(incidents[1], detail=bound)]
    (least,) = explanations(found.rebalances, 20, None, shown)
    assert "time and at least 30.0 partition-seconds unread" in least.answer
    assert "(at least 20.0 partition-seconds unread)" in least.answer


def test_setting_that_would_have_saved_most_is_the_first_advice() -> None:
    """B restarted twice: four rebalances that static membership avoids, of five."""
    back = [
        left(100.0, B, "closed"),
        *round_of(2, 100.5, A, C),
        *round_of(3, 103.0, A, B, C, causes={"b": NEW}),
        left(2_000.0, B, "closed"),
        *round_of(4, 2_000.5, A, C),
        *round_of(5, 2_003.0, A, B, C, causes={"b": NEW}),
    ]
    analysis = analyze(records(*START, *back), now=9_000.0)
    (found,) = explanations(analysis.rebalances, 1, None, analysis.incidents)

    change = found.changes[0]
    total = sum(len(each.rebalances) for each in analysis.incidents)
    assert (change.setting, change.rebalances_avoided) == ("group.instance.id", 4)
    assert f"would have avoided 4 of {total} rebalances in 3" in change.text
    assert found.advice[0] == f"{change.text}; the price: {change.price}."
    assert not [each for each in found.advice[1:] if each.startswith("group.instance.id")]
    (at,) = explanations(analysis.rebalances, 1, 150.0, analysis.incidents)
    assert at.changes == ()
