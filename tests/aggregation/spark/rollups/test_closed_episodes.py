"""Sums of whole episodes, and the moves of all others, against plain Python."""

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import date
from typing import Any

import pyarrow as pa
import pytest

from aggregation.spark.rollups.closed_episodes import sum_moves
from aggregation.spark.rollups.rollup_job import all_member_rollups
from metrics.model.sample import Sample, SampleKind, parse_time
from tests.aggregation.spark import oracle
from tests.aggregation.spark.conftest import Frame
from tests.aggregation.spark.histories import DAY_S, START_AT, Client, chunks
from tests.aggregation.spark.rollups.test_member_episodes import wander

pytestmark = pytest.mark.spark


def moved(sample: Sample) -> dict[str, Any]:
    """Return what a task gets of a record."""
    to = (sample.to or 0) if sample.kind is SampleKind.TRANSITION else -1
    names = ("app", "group", "client_id", "host", "episode")
    texts = {name: getattr(sample, name) for name in names}
    numbers = {"at": round(parse_time(sample.ts) * 1e6), "to": to, "from": sample.from_}
    day = date.fromisoformat(sample.ts[:10])
    return {"day": day, **texts, **numbers, "cluster": "c", "scope": "consumer", "agent": "a"}


def summed(samples: Sequence[Sample], chunk_rows: int = 1 << 20) -> list[dict[str, Any]]:
    batches = (
        pa.RecordBatch.from_pylist([moved(each) for each in batch])
        for batch in chunks(list(samples), 50)
    )
    return [row for out in sum_moves(batches, chunk_rows) for row in out.to_pylist()]


def in_order(samples: Sequence[Sample]) -> list[Sample]:
    return sorted(samples, key=lambda each: (each.ts, each.seq))


def ended(samples: Sequence[Sample]) -> list[oracle.Episode]:
    return [each for each in oracle.read(samples) if each.state == "ended"]


def total(rows: Sequence[dict[str, Any]], what: str, name: str) -> dict[int, float]:
    """Add up seconds by one of the numbers."""
    found = defaultdict[int, float](float)
    for row in rows:
        if row["what"] == what:
            found[row[name]] += row["seconds"]
    return found


@pytest.mark.parametrize("kept", [1.0, 0.85])
def test_sums_are_those_of_whole_episodes_and_the_rest_is_all_others(kept: float) -> None:
    rng = random.Random(kept)
    samples = in_order([sample for sample in wander(rng) if rng.random() < kept])
    truth = ended(samples)
    rows = summed(samples)

    by_cause, by_code = defaultdict[int, float](float), defaultdict[int, float](float)
    for each in truth:
        by_cause[each.cause] += each.seconds or 0.0
        for code, seconds in each.held:
            by_code[code] += seconds
    assert total(rows, "member", "code") == pytest.approx(by_cause)
    assert total(rows, "status", "code") == pytest.approx(by_code)
    times = Counter(row["what"] for row in rows for _ in range(row["times"] or 1))
    assert times["member"] == times["duration"] == len(truth)
    others = {row["episode"] for row in rows if row["what"] == "rest"}
    assert len(others) == len({each.episode for each in samples}) - len(truth)


@pytest.mark.parametrize("chunk_rows", [3, 64])
def test_what_a_chunk_cuts_or_order_confuses_is_handed_out(chunk_rows: int) -> None:
    samples = wander(random.Random(chunk_rows))
    random.Random(1).shuffle(samples)
    rows = summed(samples, chunk_rows)

    rest = Counter(row["episode"] for row in rows if row["what"] == "rest")
    assert rest
    whole = [each for each in samples if each.episode not in rest]
    assert rest == Counter(each.episode for each in samples if each.episode in rest)
    assert sum(total(rows, "member", "code").values()) == pytest.approx(
        sum(each.seconds or 0.0 for each in ended(whole))
    )


def test_episodes_of_one_name_are_handed_out() -> None:
    one, other = Client(group="g", client_id="c"), Client(group="g", client_id="c")
    for client in (one, other):
        client.move(START_AT, 1)
        client.settle(START_AT + 1)
    for each in other.written:
        assert each.episode == one.written[0].episode
    rows = summed(one.written + other.written)
    assert [row["what"] for row in rows] == ["rest"] * 4


def test_rollups_of_a_history_are_those_of_plain_python(frame: Frame) -> None:
    rng = random.Random(7)
    samples = [sample for sample in wander(rng) if rng.random() < 0.95]
    late = Client(group="late", client_id="c")
    late.move(START_AT + DAY_S - 1, 3)
    late.settle(START_AT + DAY_S + 1)
    samples += late.written
    truth = oracle.read(samples)
    rng.shuffle(samples)

    rows = all_member_rollups(frame(samples)).collect()

    members = [row for row in rows if row.what == "member"]
    states, causes = Counter[str](), defaultdict[int, float](float)
    for row in members:
        states[row.kind] += row.times
        causes[row.code] += row.seconds or 0.0
    assert states == Counter(each.state for each in truth)
    for cause, seconds in causes.items():
        expected = sum(each.seconds or 0.0 for each in truth if each.cause == (cause or 0))
        assert seconds == pytest.approx(expected)
    held = sum(row.seconds for row in rows if row.what == "status")
    assert held == pytest.approx(sum(causes.values()))
    lengths = sum(row.times for row in rows if row.what == "duration")
    assert lengths == states["ended"]
    assert {str(row.batch) for row in members if row.group == "late"} == {"2025-11-25"}
