"""One Spark session for all tests that need one."""

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from agent.cli.spark_jars import find_jars
from aggregation.spark.errors import SparkSetupError
from aggregation.spark.ingest.record_parser import read_line
from aggregation.spark.session.jars import Need
from aggregation.spark.session.session import spark_session
from aggregation.spark.tables.schema import RECORD
from metrics.model.sample import Sample, encode

QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Many small jobs never earn back what compilers cost."""

Frame = Callable[[Sequence[Sample]], DataFrame]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Pass over the sockets that pyspark leaves to the garbage collector."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))


@pytest.fixture(autouse=True, scope="module")
def _collect_sockets() -> Iterator[None]:
    """Let them go here, and not in somebody else's module."""
    yield
    gc.collect()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", QUICK_JVM)
        with spark_session("tests", lambda _: None) as session:
            yield session


def need_jars(need: Need) -> None:
    """Skip a test if its jars cannot be fetched, except in CI."""
    try:
        find_jars([need], None, print, offline=False)
    except SparkSetupError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"no jars: {error}")


def table_of(spark: SparkSession, samples: Sequence[Sample]) -> DataFrame:
    """Make the table of some samples, by the way that their lines take."""
    rows = [read_line(encode(sample)) for sample in samples]
    ordered = [tuple(row[name] for name in RECORD.fieldNames()) for row in rows]
    return spark.createDataFrame(ordered, RECORD)


@pytest.fixture
def frame(spark: SparkSession) -> Frame:
    return partial(table_of, spark)
