"""Transport of functions to Spark's Python workers.

A worker may import other packages under this project's package names. So it gets a function as
bytes, and `kafka_rebalance_agent.worker` loads it once the names are bound to this project. A
nested function wraps the bytes, because Spark sends nested functions by code and not by name.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812 - pyspark's own convention

from kafka_rebalance_agent.worker import call

if TYPE_CHECKING:
    from pyspark.sql.group import GroupedData
    from pyspark.sql.pandas.group_ops import PandasCogroupedOps

Batches = Iterable[pa.RecordBatch]


def map_batches(
    frame: DataFrame, function: Callable[[Batches], Batches], schema: T.StructType
) -> DataFrame:
    """Map the batches of each partition."""
    pickled = _pickle(function)

    def run(batches: Batches) -> Batches:
        yield from call(pickled, batches)

    return frame.mapInArrow(run, schema)


def map_groups(
    groups: "GroupedData", function: Callable[[pa.Table], pa.Table], schema: T.StructType
) -> DataFrame:
    """Map the rows of each group."""
    pickled = _pickle(function)

    def run(rows: pa.Table) -> pa.Table:
        return call(pickled, rows)

    return groups.applyInArrow(run, schema)


def map_pairs(
    pairs: "PandasCogroupedOps",
    function: Callable[[pa.Table, pa.Table], pa.Table],
    schema: T.StructType,
) -> DataFrame:
    """Map the rows of two frames' groups that have the same key."""
    pickled = _pickle(function)

    def run(left: pa.Table, right: pa.Table) -> pa.Table:
        return call(pickled, left, right)

    return pairs.applyInArrow(run, schema)


def _pickle(function: Callable[..., object]) -> bytes:
    pickled: bytes = cloudpickle.dumps(function)  # type: ignore[no-untyped-call]
    return pickled
