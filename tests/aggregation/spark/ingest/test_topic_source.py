"""What can be said of a topic without a broker, and how its records are read."""

import re
import socket
from datetime import date

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from aggregation.spark.errors import SparkSetupError
from aggregation.spark.ingest.topic_source import TopicSource, read_records
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
