"""Hours in which agents were present: two of the same members share them."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession

from aggregation.spark.rollups.empty_agents import AT_NIGHT, find_empty_hours
from aggregation.spark.rollups.rollups import observation_rows, timestamps
from metrics.model.sample import Outcome, Sample
from tests.aggregation.spark.conftest import Frame
from tests.aggregation.spark.histories import START_AT, Client

HOURS = range(6)


def samples(agents: Mapping[str, Sequence[int]], client_ids: Sequence[str]) -> list[Sample]:
    """Write each agent's periodic samples of some hours, of some members."""
    members = [Client(group="g", client_id=client_id) for client_id in client_ids]
    return [
        member.record(START_AT + 3600 * hour, agent=agent, kind="sample", to=0)
        for member in members
        for agent, hours in agents.items()
        for hour in hours
    ]


def present(records: DataFrame) -> dict[str, list[int]]:
    rows = observation_rows(timestamps(records)).where("what = 'quality'").collect()
    return {row.host: [hour for hour in range(24) if row.bucket >> hour & 1] for row in rows}


def test_records_of_twins_are_of_either_of_them(frame: Frame) -> None:
    """Both wrote all, with equal ids: the tables have one of them."""
    twins = samples({"a": [0, 3, 5], "b": [1, 2, 4]}, ["m1", "m2"])
    assert present(frame(twins)) == {"a": [*HOURS], "b": [*HOURS]}


def test_agent_of_other_members_covers_no_outage(frame: Frame) -> None:
    own = samples({"a": [0, 1, 4, 5]}, ["m1"])
    others = samples({"b": HOURS}, ["m1", "m2"])
    assert present(frame([*own, *others])) == {"a": [0, 1, 4, 5], "b": [*HOURS]}


def test_time_without_members_is_no_outage(frame: Frame) -> None:
    """Both members leave in hour 1 and are back in hour 4; of c's two members only one leaves.

    In the evening those of b leave, and d's stay.
    """
    records: list[Sample] = []
    for agent, gone, evening in (("a", 2, 0), ("b", 2, 2), ("c", 1, 0), ("d", 0, 0)):
        members = [Client(group=agent, client_id=f"m{n}", host=agent) for n in range(2)]
        for n, member in enumerate(members):
            for hour in (0, 1, 4, 5):
                at = START_AT + 3600 * hour
                records.append(member.record(at, agent=agent, kind="sample", to=0))
            for hour, leavers in ((1, gone), (5, evening)):
                if n < leavers:
                    at = START_AT + 3600 * hour + 600
                    records.append(member.record(at, agent=agent, from_=0, to=6))
                    left = {"from_": 6, "to": 0, "outcome": Outcome.LEFT}
                    records.append(member.record(at, agent=agent, **left))
    seen = timestamps(frame(records))
    rows = observation_rows(seen, find_empty_hours(seen, frame(records)))
    found = {row.host: row.bucket for row in rows.where("what = 'quality'").collect()}
    without = sum(1 << hour for hour in (0, 1, 4, 5))
    assert found == {
        "a": (1 << 6) - 1,
        "b": (1 << AT_NIGHT + 1) - 1,
        "c": without,
        "d": without,
    }


def test_time_behind_an_expiry_is_no_outage(spark: SparkSession, frame: Frame) -> None:
    """All members of a expire in hour 2; of b, one; that of c an hour too late; d is out."""
    agents = {"a": ["m0", "m1"], "b": ["m0", "m1"], "c": ["m0"], "d": ["m0"]}
    records = [
        Client(group=agent, client_id=client_id, host=agent).record(
            START_AT + 3600 * hour + 3000, agent=agent, kind="sample", to=0
        )
        for agent, client_ids in agents.items()
        for client_id in client_ids
        for hour in (0, 1, 4, 5)
    ]
    rebalances = spark.createDataFrame(
        [
            ("prod-eu", group, datetime.fromtimestamp(START_AT + at, UTC), [(name, group, kind)])
            for group, at, name, kind in (
                ("a", 7300.0, "m0", "expired"),
                ("a", 7400.0, "m1", "expired"),
                ("b", 7300.0, "m0", "expired"),
                ("b", 7400.0, "m1", "dropped"),
                ("c", 10300.0, "m0", "expired"),
            )
        ],
        "cluster string, `group` string, started_at timestamp, "
        "departures array<struct<client_id string, host string, kind string>>",
    )
    seen = timestamps(frame(records))
    empty = find_empty_hours(seen, frame(records), rebalances)
    assert {(each.agent, each.hour) for each in empty} == {("a", 1)}


def test_marker_is_no_sign_of_its_group(frame: Frame) -> None:
    """Whoever posts one may leave the group out, or mistype it."""
    own = samples({"a": [0, 1]}, ["m1"])
    markers = [
        Client(group=group, client_id="m1", app="").record(
            START_AT + 60, agent="a", kind="annotation", client_id=None, reason="release 7"
        )
        for group in ("", "gg", "g")
    ]
    rows = observation_rows(timestamps(frame([*own, *markers]))).where("what = 'observed'")

    assert [(row.group, row.seconds) for row in rows.collect()] == [("g", 3600.0)]
