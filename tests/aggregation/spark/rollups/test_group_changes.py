"""A deploy of another version is one change of its group, whoever its new members are."""

from datetime import date, timedelta

from aggregation.spark.rollups.daily_rebalances import Carried, GroupDays
from aggregation.spark.rollups.group_changes import find_group_changes
from metrics.model.sample import Sample, SampleKind
from metrics.model.status import RebalanceStatus as S
from tests.aggregation.spark.histories import DAY_S, START_AT, Client, rebalance

MONDAY = date(2025, 11, 24)


def deploy(day: int, version: str, field: str = "software", client_id: str = "c") -> list[Sample]:
    """Start two new pods, which have no value of their own before."""
    at = START_AT + day * DAY_S + 36_000
    pods = [Client(group="g", client_id=client_id, host=f"pod-{day}-{n}") for n in range(2)]
    rebalance(pods, at, S.NEW_MEMBER, 3.0)
    for n, pod in enumerate(pods):
        pod.record(
            at + n, kind=SampleKind.CHANGE, subject="member", field=field, after=version, to=None
        )
    return [record for pod in pods for record in pod.written]


def changes(*days: list[Sample]) -> list[tuple[int, str, str]]:
    """Return the changes of days in a row, with the number of the day."""
    found, carried = [], Carried()
    for n, events in enumerate(days):
        day = MONDAY + timedelta(n)
        rows = find_group_changes(day, carried.records, events)
        found += [(n, row["kind"], row["last_reason"]) for row in rows]
        group = GroupDays(carried)
        group.day(day, events, {})
        carried = Carried.decode(group.carried.encode())
    return found


def test_new_version_is_one_change_after_quiet_days() -> None:
    found = changes(deploy(0, "librdkafka 2.3"), [], [], deploy(3, "librdkafka 2.4"))
    assert found == [(3, "software", "librdkafka 2.3 → librdkafka 2.4")]


def test_value_that_a_member_had_before_is_known() -> None:
    pod = Client(group="g", client_id="c")
    pod.record(
        START_AT, kind=SampleKind.CHANGE, subject="g", field="assignor", before="a", after="b"
    )
    assert changes(pod.written) == [(0, "assignor", "a → b")]


def test_daily_deploys_show_the_version_of_the_day_before() -> None:
    found = changes(*(deploy(day, f"{day}.0", "version") for day in range(12)))
    assert found[-2:] == [(10, "version", "9.0 → 10.0"), (11, "version", "10.0 → 11.0")]


def test_version_before_is_that_of_the_same_program() -> None:
    other = [deploy(day, "7.1", "version", "other") for day in (1, 2)]
    found = changes(deploy(0, "1.0", "version"), *other, deploy(3, "2.0", "version"))
    assert found == [(1, "version", "1.0 → 7.1"), (3, "version", "1.0 → 2.0")]


def test_first_version_and_the_same_again_are_none() -> None:
    assert changes(deploy(0, "librdkafka 2.3"), deploy(1, "librdkafka 2.3")) == []


def test_time_of_a_join_is_no_setting() -> None:
    assert changes(deploy(0, "1", "joined"), deploy(1, "2", "joined")) == []
