"""What can be said of a topic without a broker, and how its records are read."""

import json
import re
import socket
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from aggregation.spark.errors import SparkSetupError
from aggregation.spark.ingest.topic_source import (
    PartitionRange,
    ReadOffsets,
    TopicSource,
    count_outstanding,
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
    good, bad = rows.to_pylist()
    assert (good["id"], good["day"], good["fault"]) == (sample.id, date(2025, 11, 24), None)
    assert (bad["file"], bad["offset"], bad["day"]) == ("t-3", 9, day)
    assert bad["fault"] == "Input data was truncated"


def test_records_that_retention_removed_are_counted_once(tmp_path: Path) -> None:
    offsets = ReadOffsets(tmp_path)
    first = {"t-0": PartitionRange(7, 9, 3), "t-1": PartitionRange(0, 0, 1)}
    assert offsets.count_gone(first) == 0, "what was before a first batch is nothing that was lost"
    offsets.keep(first)

    later = {"t-0": PartitionRange(15, 20, 4), "t-1": PartitionRange(1, 3, 3)}
    gone = ReadOffsets(tmp_path).count_gone(later)
    assert gone == (15 - 10) + (6 - 4)

    offsets.keep(later)
    assert offsets.count_gone(later) == 0, "a batch that comes again"


@pytest.mark.parametrize(
    ("latest", "end", "left"),
    [
        ({"t": {"0": 10, "1": 20}}, {"t": {"0": 10, "1": 15}}, 5),
        (None, None, 0),
        ("x", "7", 0),
    ],
)
def test_records_that_a_batch_left(latest: object, end: object, left: int) -> None:
    """As Spark 4.1 reports them; texts that are no offsets of a topic leave nothing."""
    texts = [json.dumps(each) if isinstance(each, dict) else each for each in (latest, end)]
    source: dict[str, Any] = {"latestOffset": texts[0], "endOffset": texts[1]}
    assert count_outstanding({"sources": [source]}) == left
