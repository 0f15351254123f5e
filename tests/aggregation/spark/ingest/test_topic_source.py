"""A topic without a broker: its checks, and the reading of its records."""

import re
import socket
from datetime import date
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.listener import StreamingQueryProgress

from aggregation.spark.errors import SparkSetupError
from aggregation.spark.ingest.topic_identity import KnownTopic
from aggregation.spark.ingest.topic_source import (
    PartitionRange,
    ReadOffsets,
    TopicSource,
    count_outstanding,
    is_of_another,
    read_records,
)
from aggregation.spark.tables.schema import PARSED
from metrics.model.sample import encode
from tests.aggregation.spark.histories import START_AT, Client


def test_address_names_brokers_and_topic() -> None:
    source = TopicSource.parse("kafka://a:1,[::1]:2/t", {"security.protocol": "SSL"})
    assert (source.brokers, source.topic) == ("a:1,[::1]:2", "t")
    assert source.name == "kafka://a:1,[::1]:2/t"


@pytest.mark.parametrize("url", ["kafka://h:9092", "kafka:///t", "kafka://h:1/", "kafka://h:1/t/u"])
def test_another_address_is_told(url: str) -> None:
    with pytest.raises(SparkSetupError, match=re.escape("is not kafka://HOST:PORT")):
        TopicSource.parse(url, {})


def test_one_broker_that_is_there_is_enough_and_none_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        there = f"127.0.0.1:{server.getsockname()[1]}"
        TopicSource.parse(f"kafka://nowhere.invalid:1,{there}/t", {}).check()
    with pytest.raises(
        SparkSetupError, match=rf"no broker of kafka://{there},h/t takes conn.*'h':"
    ):
        TopicSource.parse(f"kafka://{there},h/t", {}).check()


def test_records_are_rows_and_what_is_none_has_its_offset() -> None:
    sample = Client(group="g", client_id="c").move(START_AT, 2)
    day = date(2026, 1, 2)
    values = [encode(sample).rstrip(b"\n"), None, b"{"]
    batch = pa.RecordBatch.from_pylist(
        [
            {"value": value, "file": "t-3", "offset": 7 + n, "arrived_on": day}
            for n, value in enumerate(values)
        ]
    )
    (rows,) = read_records(iter([batch]), to_arrow_schema(PARSED))
    good, empty, bad = rows.to_pylist()
    assert (good["id"], good["day"], good["fault"]) == (sample.id, date(2025, 11, 24), None)
    assert (empty["offset"], empty["fault"], empty["text"]) == (8, "empty", "")
    assert (bad["file"], bad["offset"], bad["day"]) == ("t-3", 9, day)
    assert bad["fault"] == "Input data was truncated"


def test_records_that_retention_removed_are_counted_once(tmp_path: Path) -> None:
    starts = dict[str, int]()
    offsets = ReadOffsets(tmp_path, lambda: starts)
    first = {"t-0": PartitionRange(7, 9, 3), "t-1": PartitionRange(0, 0, 1)}
    assert offsets.count_gone(first) == 0, "what was before a first batch is nothing that was lost"
    offsets.keep(first)

    later = {"t-0": PartitionRange(15, 20, 4), "t-1": PartitionRange(1, 3, 3)}
    gone = ReadOffsets(tmp_path, lambda: starts).count_gone(later)
    assert gone == (15 - 10) + (6 - 4), "no broker tells where a partition begins"
    starts = {"t-0": 15, "t-1": 0}
    assert offsets.count_gone(later) == 15 - 10, "t-0 and t-1 have markers of transactions"
    starts = {"t-0": 14}
    assert offsets.count_gone(later) == 14 - 10

    offsets.keep(later)
    assert offsets.count_gone(later) == 0, "a batch that comes again"
    again = {"t-0": PartitionRange(5, 29, 25), "t-1": PartitionRange(4, 6, 3)}
    assert offsets.count_gone(again) == 0, "part of it was read before"


def progress_of(**offsets: object) -> StreamingQueryProgress:
    """Return a report as pyspark makes it of Spark's JSON."""
    source = {
        "description": "KafkaV2[Subscribe[t]]",
        "startOffset": None,
        "endOffset": None,
        "latestOffset": None,
        "numInputRows": 0,
        "inputRowsPerSecond": 0.0,
        "processedRowsPerSecond": 0.0,
    }
    return StreamingQueryProgress.fromJson(
        {
            "id": str(UUID(int=1)),
            "runId": str(UUID(int=2)),
            "name": None,
            "timestamp": "2026-03-01T00:00:00.000Z",
            "batchId": 1,
            "batchDuration": 1,
            "durationMs": {},
            "stateOperators": [],
            "sources": [source | offsets],
            "sink": {"description": "ForeachBatchSink", "numOutputRows": -1},
            "numInputRows": 0,
            "inputRowsPerSecond": 0.0,
            "processedRowsPerSecond": 0.0,
        }
    )


@pytest.mark.parametrize(
    ("start", "end", "is_another"),
    [
        ({"t": {"0": 10, "1": 20}}, {"t": {"0": 10, "1": 20}}, False),
        ({"t": {"0": 10, "1": 20}}, {"t": {"0": 40, "1": 20, "2": 7}}, False),
        ({"t": {"0": 10, "1": 20}}, {"t": {"0": 40, "1": 19}}, True),
        (None, {"t": {"0": 9}}, False),
        ({"t": {"0": 9}}, None, False),
    ],
)
def test_batch_that_ends_before_its_start_is_of_another_topic(
    start: object, end: object, is_another: bool
) -> None:
    """The topic was deleted and made again: Spark goes on at its end, without a word."""
    assert is_of_another(progress_of(startOffset=start, endOffset=end)) is is_another


@pytest.mark.parametrize(
    ("latest", "end", "left"),
    [({"t": {"0": 10, "1": 20}}, {"t": {"0": 10, "1": 15}}, 5), (None, None, 0)],
)
def test_records_that_a_batch_left(latest: object, end: object, left: int) -> None:
    assert count_outstanding(progress_of(latestOffset=latest, endOffset=end)) == left


@pytest.mark.parametrize(
    ("answers", "is_another"),
    [
        (["first", "first"], [False, False]),
        (["first", "second", "second"], [False, True, True]),
        ([None, "first", None, "first"], [False, False, False, False]),
        ([None, None], [False, False]),
    ],
)
def test_topic_of_another_id_is_another(
    tmp_path: Path, answers: list[str | None], is_another: list[bool]
) -> None:
    """A broker that does not answer, or is too old for ids, tells nothing."""
    checkpoint = tmp_path / "new"
    assert is_another == [
        KnownTopic(checkpoint, lambda answer=answer: answer).is_another_now()  # type: ignore[misc]
        for answer in answers
    ]
