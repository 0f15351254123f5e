"""The ranking of changes, and what holds of all histories."""

from collections import Counter, defaultdict
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregation.counterfactuals.changes import MAX, find_changes
from aggregation.counterfactuals.facts import Absence, IncidentFacts
from tests.aggregation.counterfactuals.given import H, K, away, incident

_SECONDS = st.floats(0.0, 2000.0, allow_nan=False)


def _maybe(what: st.SearchStrategy[float]) -> st.SearchStrategy[float | None]:
    return st.none() | what


@st.composite
def _facts(draw: st.DrawFn, number: int) -> IncidentFacts:
    started_at = draw(st.floats(0.0, 1e6))
    absences = tuple(
        Absence(
            f"m{n}",
            draw(st.sampled_from(H)),
            started_at,
            None if (span := draw(_maybe(_SECONDS))) is None else started_at + span,
        )
        for n in range(draw(st.integers(0, 4)))
    )
    return incident(
        f"i{number}",
        draw(st.sampled_from(K)),
        group=draw(st.sampled_from("gh")),
        group_type=draw(st.sampled_from([None, "classic", "consumer"])),
        is_planned=draw(st.booleans()),
        is_static=draw(st.booleans()),
        started_at=started_at,
        ended_at=started_at + draw(_SECONDS),
        rebalances=draw(st.integers(0, 12)),
        member_s=draw(_SECONDS),
        unread_s=draw(_maybe(_SECONDS)),
        moved=draw(st.none() | st.integers(0, 40)),
        moved_s=draw(_maybe(_SECONDS)),
        handed_over=draw(st.none() | st.integers(0, 40)),
        away_s=draw(_maybe(_SECONDS)),
        members=tuple(f"m{n}" for n in range(draw(st.integers(0, 5)))),
        absences=absences,
        session_timeout_s=draw(_maybe(_SECONDS)),
        max_poll_interval_s=draw(_maybe(_SECONDS)),
        between_polls_s=draw(_maybe(_SECONDS)),
        silent_since=draw(_maybe(st.just(started_at - 10.0))),
    )


_HISTORIES = st.integers(0, 12).flatmap(lambda n: st.tuples(*(_facts(each) for each in range(n))))


def test_more_partitions_handed_over_than_moved_save_no_more_than_was_unread() -> None:
    """A row of another version may have such numbers."""
    facts = incident("i", K.RESTART, unread_s=67.0, moved=11, moved_s=1570.0, handed_over=32)
    assert all((each.unread_avoided_s or 0.0) <= 67.0 for each in find_changes([facts]))


def test_an_interval_that_no_consumer_has_proposes_no_records() -> None:
    facts = (
        incident("i0", K.MEMBER_JOINED, max_poll_interval_s=3.4e-308),
        incident("i1", K.POLL_TIMEOUT, absences=away(601.0, how=H.REMOVED)),
    )
    assert "max.poll.records" not in {change.setting for change in find_changes(facts)}


@given(_HISTORIES, st.randoms(use_true_random=False))
def test_savings_are_within_what_was_recorded_and_order_does_not_count(
    facts: tuple[IncidentFacts, ...], random: Random
) -> None:
    found = find_changes(facts)
    by_id = {each.id: each for each in facts}
    rebalances: Counter[str] = Counter()
    unread: dict[str, float] = defaultdict(float)
    for change in found:
        assert (change.unread_avoided_s or 0.0) >= 0.0
        for saving in change.savings:
            id_ = saving.incident.id
            rebalances[id_] += saving.rebalances
            unread[id_] += saving.unread_s or 0.0
            assert saving.rebalances >= 0
    assert all(count <= by_id[id_].rebalances for id_, count in rebalances.items())
    assert all(total <= (by_id[id_].unread_s or 0.0) for id_, total in unread.items())
    named = [id_ for change in found for id_ in change.incidents]
    assert len(named) == len(set(named))
    assert max(Counter(change.group for change in found).values(), default=0) <= MAX
    shuffled = list(facts)
    random.shuffle(shuffled)
    assert find_changes(shuffled) == found


def test_best_proposal_takes_its_incidents() -> None:
    """A rollout that static membership avoids is no rollout to pace."""
    rollout = incident(
        "r", K.ROLLOUT, absences=away(5.0, 5.0, 5.0), members=("a", "b", "c"), rebalances=6
    )
    assert [each.setting for each in find_changes([rollout])] == ["group.instance.id"]


def test_groups_are_apart_and_the_costliest_is_first() -> None:
    found = find_changes(
        [
            incident(name, K.RESTART, group=name, absences=away(5.0), unread_s=unread, away_s=5.0)
            for name, unread in (("a", 20.0), ("b", 80.0))
        ]
    )
    assert [each.group for each in found] == ["b", "a"]
    assert [each.unread_avoided_s for each in found] == [pytest.approx(75.0), pytest.approx(15.0)]


def test_incident_that_comes_twice_counts_once() -> None:
    one = incident("r", K.RESTART, absences=away(5.0))
    assert find_changes([one, one])[0].rebalances_avoided == one.rebalances
