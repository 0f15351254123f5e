"""Episodes and the time in each status, against an oracle and by hand."""

import random
from datetime import date

import pytest
from msgspec.structs import replace
from pyspark.sql import Row
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention

from aggregation.spark.rollups import Period, clip, episodes, links, observed, status_spans
from metrics.sample import Sample, SampleKind
from tests.aggregation.spark import oracle
from tests.aggregation.spark.conftest import Frame
from tests.aggregation.spark.histories import START_AT, Client

pytestmark = pytest.mark.spark


def wander(rng: random.Random, *, named: bool) -> list[Sample]:
    """Let members rise and settle at random; without names their episodes are one chain."""
    out: list[Sample] = []
    for number in range(8):
        client = Client(group=f"g{number % 3}", client_id=f"c{number}")
        at = START_AT
        for _ in range(40):
            at += rng.choice((0.0, 0.25, 2.5, 60.0))
            above = [code for code in range(client.status + 1, 14) if rng.random() < 0.3]
            if client.status and (not above or rng.random() < 0.4):
                if rng.random() < 0.1:
                    client.record(at, kind=SampleKind.LOST, from_=client.status, to=None)
                    client.status, client.episode = 0, None
                else:
                    client.settle(at)
            elif above:
                client.move(at, above[0])
        out += client.written
    return out if named else [replace(sample, episode=None) for sample in out]


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("kept", [1.0, 0.85])
def test_episodes_equal_the_oracle(frame: Frame, *, named: bool, kept: float) -> None:
    rng = random.Random(f"{named} {kept}")
    samples = [sample for sample in wander(rng, named=named) if rng.random() < kept]
    truth = oracle.read(samples)
    rng.shuffle(samples)

    chained = links(frame(samples)).persist()
    found = episodes(chained).collect()

    assert sorted(
        (e.member, e.started_at, e.cause, e.gravest, e.state, _rounded(e.seconds))
        for e in truth.episodes
    ) == sorted(
        (
            (row.group, row.client_id),
            row.started_at.timestamp(),
            row.cause or 0,
            row.gravest or 0,
            row.state,
            _rounded(row.seconds),
        )
        for row in found
    )
    assert truth.gaps == chained.where("gap").count()
    held = status_spans(chained).groupBy("group", "status")
    spent = held.agg(
        F.sum(F.expr("unix_micros(ended_at) - unix_micros(started_at)") / 1e6).alias("s")
    )
    assert {key: _rounded(s) for key, s in truth.held.items()} == {
        (row.group, row.status): _rounded(row.s) for row in spent.collect()
    }
    chained.unpersist()


def _rounded(seconds: float | None) -> float:
    return -1.0 if seconds is None else round(seconds, 6)


def test_gap_is_no_long_rebalance(frame: Frame) -> None:
    client = Client(group="g", client_id="c")
    client.move(START_AT, 1)
    client.settle(START_AT + 3)
    client.move(START_AT + 900, 6)
    client.settle(START_AT + 904)
    lost_end = [s for s in client.written if s.to != 0 or s.ts.endswith("15:04.000000Z")]
    without_names = [replace(sample, episode=None) for sample in lost_end]

    rows = episodes(links(frame(without_names))).orderBy("started_at").collect()

    assert [(row.state, row.seconds) for row in rows] == [("open", None), ("ended", 4.0)]


def test_transitions_of_one_instant_keep_their_order(frame: Frame) -> None:
    client = Client(group="g", client_id="c")
    client.move(START_AT, 1, seq=0)
    client.move(START_AT, 10, seq=0)
    client.settle(START_AT + 1)
    client.move(START_AT + 5, 6, seq=0)
    client.move(START_AT + 5, 0, seq=0)

    rows = episodes(links(frame(client.written))).orderBy("started_at").collect()

    assert [(r.cause, r.gravest, r.seconds) for r in rows] == [(1, 10, 1.0), (6, 6, 0.0)]


def test_namesakes_of_two_processes_are_told_apart_by_their_episodes(frame: Frame) -> None:
    one, other = Client(group="g", client_id="rdkafka"), Client(group="g", client_id="rdkafka")
    one.move(START_AT, 1)
    other.move(START_AT + 1, 2)
    one.settle(START_AT + 2)
    other.settle(START_AT + 4)

    chained = links(frame(one.written + other.written))

    assert sorted(row.seconds for row in episodes(chained).collect()) == [2.0, 3.0]
    assert chained.where("gap").count() == 0


def test_clip_cuts_at_the_bounds_of_the_period(frame: Frame) -> None:
    client = Client(group="g", client_id="c")
    client.move(START_AT - 10, 1)
    client.settle(START_AT + 5)
    period = Period(date(2025, 11, 24), date(2025, 11, 24))

    (row,) = clip(status_spans(links(frame(client.written))), period).collect()

    assert (row.started_at.timestamp(), row.seconds) == (START_AT, 5.0)


def test_observed_is_from_the_first_record_of_a_day_to_its_last(frame: Frame) -> None:
    client = Client(group="g", client_id="c")
    client.sample(START_AT + 15)
    client.move(START_AT + 20, 1)
    client.sample(START_AT + 45)
    client.sample(START_AT + 86_400)

    rows = observed([frame(client.written[:1]), frame(client.written[1:])]).collect()

    lengths = {row.day: (row.ended_at - row.started_at).total_seconds() for row in rows}
    assert {date(2025, 11, 24): 30.0, date(2025, 11, 25): 0.0} == lengths


def test_empty_tables_give_empty_rollups(frame: Frame) -> None:
    nothing: list[Row] = episodes(links(frame([]))).collect()
    assert nothing == []
