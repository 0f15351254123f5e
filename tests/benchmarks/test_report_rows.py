"""Engines' rows are held to each other one by one, and each engine is watched to its end."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"
Differences = Callable[[Path, Path], tuple[int, tuple[Any, ...] | None]]

_ROW: dict[str, Any] = {
    **dict.fromkeys(("cluster", "app", "scope", "client_id", "host", "kind", "bucket")),
    "batch": "d",
    "day": "d",
    "what": "member",
    "group": "g",
    "code": 1,
    "times": 2,
    "seconds": 3.5,
}
_OTHER = _ROW | {"code": None, "seconds": None}


@pytest.fixture
def differences(monkeypatch: pytest.MonkeyPatch) -> Differences:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return cast("Differences", import_module("report").differences)


def written(folder: Path, *rows: dict[str, Any]) -> Path:
    folder.mkdir()
    table = pa.Table.from_pylist(list(rows))
    kinds = {"bucket": pa.int32(), "code": pa.int32(), "seconds": pa.float64()}
    schema = pa.schema(
        [
            (name, kinds.get(name, pa.int64() if name == "times" else pa.string()))
            for name in table.column_names
        ]
    )
    pq.write_table(table.cast(schema), folder / "rows.parquet")
    return folder


def test_rows_are_equal_in_any_order_and_but_for_rounding(
    tmp_path: Path, differences: Differences
) -> None:
    one = written(tmp_path / "one", _ROW, _OTHER)
    other = written(tmp_path / "other", _OTHER, _ROW | {"seconds": 3.5000001})
    assert differences(one, other) == (0, None)


@pytest.mark.parametrize(
    "rows",
    [
        [_ROW],
        [_ROW, _OTHER, _ROW | {"code": 2}],
        [_ROW | {"times": 3}, _OTHER],
        [_ROW | {"seconds": 3.6}, _OTHER],
        [_ROW | {"seconds": None}, _OTHER],
        [_ROW, _OTHER | {"seconds": 0.0}],
    ],
)
def test_a_row_that_differs_is_shown(
    tmp_path: Path, differences: Differences, rows: list[dict[str, Any]]
) -> None:
    one, other = written(tmp_path / "one", _ROW, _OTHER), written(tmp_path / "other", *rows)
    for count, example in (differences(one, other), differences(other, one)):
        assert count == 1
        assert example is not None


class _Ending:
    """A process that ends, and is waited for, between two questions of who watches it."""

    def is_running(self) -> bool:
        self.asked = not getattr(self, "asked", False)
        return self.asked

    def status(self) -> str:
        raise psutil.NoSuchProcess(1)


def test_an_engine_may_end_while_it_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    peak = [1.0, 2.0]

    import_module("report")._watch(_Ending(), peak)

    assert peak == [1.0, 2.0]
