"""Members' episodes, against plain Python that follows each record, and by hand."""

import random
from dataclasses import astuple

import pytest
from msgspec.structs import replace
from pyspark.sql import Row

from aggregation.spark.rollups.member_episodes import CODES, member_episodes
from metrics.model.sample import Sample, SampleKind, format_time, parse_time
from tests.aggregation.spark import oracle
from tests.aggregation.spark.conftest import Frame
from tests.aggregation.spark.histories import DAY_S, START_AT, Client

pytestmark = pytest.mark.spark


def wander(rng: random.Random) -> list[Sample]:
    """Let members rise, settle and be lost at random."""
    out: list[Sample] = []
    for number in range(8):
        client = Client(group=f"g{number % 3}", client_id=f"c{number}")
        at = START_AT
        for _ in range(40):
            at += rng.choice((0.0 if client.status else 1.0, 0.25, 2.5, 60.0))
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
    return out


def found(frame: Frame, samples: list[Sample]) -> list[Row]:
    return member_episodes(frame(samples)).orderBy("started_at").collect()


def as_oracle(row: Row) -> oracle.Episode:
    held = [(code, row[f"held_{code}_s"]) for code in CODES]
    return oracle.Episode(
        group=row.group,
        client_id=row.client_id,
        started_at=row.started_at.timestamp(),
        cause=row.cause or 0,
        gravest=row.gravest,
        state=row.state,
        seconds=row.seconds,
        held=tuple((code, seconds) for code, seconds in held if seconds),
    )


def key(episode: oracle.Episode) -> tuple[object, ...]:
    return tuple(round(v, 6) if isinstance(v, float) else str(v) for v in astuple(episode)[:-1])


@pytest.mark.parametrize("kept", [1.0, 0.85])
def test_equal_what_plain_python_follows(frame: Frame, kept: float) -> None:
    rng = random.Random(kept)
    samples = [sample for sample in wander(rng) if rng.random() < kept]
    truth = sorted(oracle.read(samples), key=key)
    rng.shuffle(samples)

    rows = sorted(map(as_oracle, found(frame, samples)), key=key)

    assert [key(each) for each in truth] == [key(each) for each in rows]
    assert {each.state for each in rows} >= {"ended", "lost", "open"}
    for expected, got in zip(truth, rows, strict=True):
        nonzero = {code: s for code, s in expected.held if s}
        assert pytest.approx(nonzero) == dict(got.held)


def test_one_record_missing_is_a_gap_without_a_length(frame: Frame) -> None:
    client = Client(group="g", client_id="c")
    client.move(START_AT, 1)
    missing = client.move(START_AT + 3, 10)
    client.settle(START_AT + 4)
    (row,) = found(frame, [s for s in client.written if s is not missing])
    assert (row.state, row.seconds) == ("gap", None)


@pytest.mark.parametrize(
    ("code", "end_s"), [(1, -10.0), (1, 2 * 86_400.0), (5, -10.0), (5, 365 * 86_400.0)]
)
def test_end_before_the_start_or_long_behind_it_is_a_gap(
    frame: Frame, code: int, end_s: float
) -> None:
    client = Client(group="g", client_id="c")
    client.move(START_AT, code)
    client.settle(START_AT + end_s)
    (row,) = found(frame, client.written)
    assert (row.state, row.seconds) == ("gap", None)


def test_dropped_member_can_be_out_for_days(frame: Frame) -> None:
    client = Client(group="g", client_id="c")
    client.move(START_AT, 5)
    client.settle(START_AT + 2 * 86_400.0)
    (row,) = found(frame, client.written)
    assert (row.state, row.seconds) == ("ended", 2 * 86_400.0)


def test_gap_is_no_long_rebalance_where_episodes_have_no_names(frame: Frame) -> None:
    client = Client(group="g", client_id="c")
    client.move(START_AT, 1)
    missing = client.settle(START_AT + 3)
    client.move(START_AT + 900, 6)
    client.settle(START_AT + 904)
    nameless = [replace(s, episode=None) for s in client.written if s is not missing]
    rows = found(frame, nameless)
    assert [(row.state, row.seconds) for row in rows] == [("open", None), ("ended", 4.0)]


def test_transitions_of_one_instant_are_one_episode(frame: Frame) -> None:
    client = Client(group="g", client_id="c")
    client.move(START_AT, 1, seq=0)
    client.move(START_AT, 10, seq=0)
    client.settle(START_AT + 1)
    client.move(START_AT + 5, 6, seq=0)
    client.move(START_AT + 5, 0, seq=0)
    rows = found(frame, client.written)
    assert [(r.cause, r.gravest, r.seconds) for r in rows] == [(1, 10, 1.0), (6, 6, 0.0)]


def test_namesakes_of_two_processes_are_told_apart_by_their_episodes(frame: Frame) -> None:
    one, other = Client(group="g", client_id="rdkafka"), Client(group="g", client_id="rdkafka")
    one.move(START_AT, 1)
    other.move(START_AT + 1, 2)
    one.settle(START_AT + 2)
    other.settle(START_AT + 4)
    rows = found(frame, one.written + other.written)
    assert [row.seconds for row in rows] == [2.0, 3.0]


def test_leave_that_two_agents_see_counts_once(frame: Frame) -> None:
    """It takes no time, so the two overlap for none; a new member of the name leaves, too."""
    client = Client(group="g", client_id="c")
    client.move(START_AT, 1)
    client.settle(START_AT + 2)
    for at in (START_AT + 60, START_AT + 60.5):
        client.move(at, 6)
        client.settle(at)
    here = [
        replace(each, member_id="first" if n < 4 else "second")
        for n, each in enumerate(client.written)
    ]
    there = [
        replace(
            each,
            id=f"proxy-{each.id}",
            agent="proxy",
            host="10.0.0.7",
            episode=f"proxy-{each.episode}",
            ts=format_time(parse_time(each.ts) + 0.004),
        )
        for each in here
    ]
    rows = found(frame, here + there)
    assert [(row.cause, round(row.seconds, 2)) for row in rows] == [(1, 2.0), (6, 0.0), (6, 0.0)]


def test_labels_that_change_meanwhile_and_midnight_cut_nothing(frame: Frame) -> None:
    client = Client(group="g", client_id="c", host="")
    client.move(START_AT + DAY_S - 1, 1)
    client.host = "pod-1"
    client.settle(START_AT + DAY_S + 1)
    (row,) = found(frame, client.written)
    assert (row.state, row.seconds, row.host) == ("ended", 2.0, "pod-1")


def test_no_records_are_no_episodes(frame: Frame) -> None:
    assert found(frame, []) == []


def test_event_that_is_told_twice_makes_a_gap_and_no_length(frame: Frame) -> None:
    client = Client(group="g", client_id="c")
    client.move(START_AT, 1)
    client.settle(START_AT + 1)
    first, last = client.written
    again = replace(first, ts=format_time(START_AT + DAY_S))
    (row,) = found(frame, [first, last, again])
    assert (row.state, row.seconds) == ("gap", None)
