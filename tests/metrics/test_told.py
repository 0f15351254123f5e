import pytest

from metrics.signals import SourceKind
from metrics.told import REMEMBERED_S, Fact, forget

NOW = 1_000.0


def fact(at: float) -> Fact:
    return Fact(name="raise 2", at=at, source=SourceKind.LOGS, by=("logs s",))


@pytest.mark.parametrize("age", [0.0, 1.0, REMEMBERED_S])
def test_fact_of_the_last_minute_is_remembered(age: float) -> None:
    told = [fact(NOW - age)]

    forget(told, NOW)

    assert len(told) == 1


def test_older_ones_go_and_the_last_minutes_stay() -> None:
    told = [fact(NOW - REMEMBERED_S - 1.0), fact(NOW - REMEMBERED_S), fact(NOW)]

    forget(told, NOW)

    assert [each.at for each in told] == [NOW - REMEMBERED_S, NOW]
