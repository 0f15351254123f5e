"""Functions of ours in Spark's workers: one way in."""

import re
from pathlib import Path

import aggregation.spark

FOLDER = Path(aggregation.spark.__path__[0])
_INTO_WORKERS = re.compile(
    r"\.(mapInArrow|mapInPandas|applyInArrow|applyInPandas\w*|mapPartitions\w*|foreachPartition)\("
    r"|\b(pandas_udf|arrow_udf|udf|udtf)\("
)


def test_no_function_goes_past_the_way_that_makes_our_names_ours() -> None:
    ways = {
        path.relative_to(FOLDER).as_posix()
        for path in FOLDER.rglob("*.py")
        if _INTO_WORKERS.search(path.read_text())
    }

    assert ways == {"session/workers.py"}
