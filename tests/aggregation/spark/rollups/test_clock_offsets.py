"""A clock that is steadily wrong lengthens no rebalance; a slow member does."""

from msgspec.structs import replace

from aggregation.rebalances.rebalances import explain_rebalances
from aggregation.spark.rollups.group_rebalances import rows_of
from metrics.model.sample import Sample, format_time, parse_time
from metrics.model.status import RebalanceStatus as S
from tests.aggregation.spark.histories import START_AT, Client, rebalance


def history(times: int, skew_s: float, slow_at: int | None = None) -> list[Sample]:
    """Return rebalances of 5 s with a member that another agent sees by a clock of its own."""
    members = [Client(group="g", client_id=f"c{n}", host=f"pod-{n}") for n in range(4)]
    for n in range(times):
        rebalance(members, START_AT + 3600 * n, S.METADATA_CHANGED, 5.0)
    records = [sample for member in members[:3] for sample in member.written]
    for n, sample in enumerate(members[3].written):
        is_slow = slow_at is not None and n == 2 * slow_at + 1
        late_s = skew_s + (8.0 if is_slow else 0.0)
        shifted = format_time(parse_time(sample.ts) + late_s)
        records.append(replace(sample, agent="skewed", ts=shifted))
    return records


def seconds(records: list[Sample]) -> list[float]:
    return [round(row["seconds"]) for row in rows_of(explain_rebalances(records), {})]


def test_steady_offset_lengthens_no_rebalance() -> None:
    assert seconds(history(4, skew_s=3.5)) == [5] * 4
    assert seconds(history(4, skew_s=-3.5)) == [5] * 4


def test_one_slow_member_is_no_offset() -> None:
    assert seconds(history(4, skew_s=0.0, slow_at=2)) == [5, 5, 13, 5]


def test_two_rebalances_show_no_offset() -> None:
    assert seconds(history(2, skew_s=3.5)) == [9, 9]


def test_offsets_stay_in_the_rows() -> None:
    (*_, row) = rows_of(explain_rebalances(history(3, skew_s=3.5)), {})
    offsets = {offset["agent"]: round(offset["seconds"], 1) for offset in row["offsets"]}
    assert offsets == {"agent-1": 0.0, "skewed": 3.5}
