"""How `pytest -n` shares the tests: a file is one worker's, and what takes long begins first."""

import pytest
from xdist.scheduler import LoadScopeScheduling

_SPARK = "tests/aggregation/spark/"
_FORMATS = "tests/aggregation/spark/test_formats.py"
"""Starts programs with Spark sessions of their own."""
_LONG = (
    _FORMATS,
    _SPARK,
    "tests/system/test_quiet_fleet.py",
    "tests/system/test_kill_spark.py",
    "tests/system/test_inspection",
    "tests/system/test_demo.py",
    "tests/benchmarks/",
    "tests/soak/",
    "tests/deploy/",
    "tests/system/",
    "tests/faults/",
    "tests/dashboards/",
    "tests/agent/hub/",
    "tests/agent/sources/",
    "tests/agent/inspection/",
    "tests/agent/web/",
    "tests/agent/wire/",
)
"""In the order of their beginnings; the rest, which is short, fills the gaps of the end."""


class Lanes(LoadScopeScheduling):
    """What shares a module's fixtures stays together, and so does what shares a Spark session."""

    def _split_scope(self, nodeid: str) -> str:
        path, _, _ = nodeid.partition("::")
        return _SPARK if path.startswith(_SPARK) and path != _FORMATS else path


def begin_with_the_long(items: list[pytest.Item]) -> None:
    """Sort by lanes; within one the order stays random."""
    items.sort(key=lambda item: _rank(item.nodeid))


def _rank(nodeid: str) -> int:
    return next((rank for rank, start in enumerate(_LONG) if nodeid.startswith(start)), len(_LONG))
