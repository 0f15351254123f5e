"""Kinds that the recordings lack: invented histories, each with an answer written by hand."""

import pytest

from metrics.model.sample import Sample, SampleKind, Scope, parse_time
from tests.aggregation.incidents.invented import NAMES, answers, read, records, shown


@pytest.mark.parametrize("name", NAMES)
def test_answer_is_as_written_by_hand(name: str) -> None:
    assert shown(name) == read(name)["incidents"]


@pytest.mark.parametrize("name", NAMES)
def test_member_seconds_are_the_seconds_of_all_statuses_but_0(name: str) -> None:
    """The law of incidents.md 1a.8: each member's episode counts once."""
    cost = sum(each.cost.member_seconds for each in answers(name))

    assert cost == pytest.approx(_status_seconds(records(name), read(name)["now"]), abs=1e-3)


def _status_seconds(found: list[Sample], now: float) -> float:
    seconds, since = 0.0, dict[str, float]()
    for record in sorted(found, key=lambda each: (each.ts, each.seq)):
        if record.scope is not Scope.CONSUMER or record.episode is None:
            continue
        if record.kind is SampleKind.TRANSITION and record.to:
            since.setdefault(record.episode, parse_time(record.ts))
        elif record.kind in {SampleKind.TRANSITION, SampleKind.LOST}:
            seconds += parse_time(record.ts) - since.pop(record.episode)
    return seconds + sum(now - at for at in since.values())


@pytest.mark.parametrize("name", ["restart-before-expiry"])
def test_members_have_their_last_member_id(name: str) -> None:
    (_, restart) = answers(name)

    assert [member.member_id for member in restart.members] == ["a-2"]
