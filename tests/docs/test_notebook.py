"""The analysts' notebook reads what a table has, not all files of its folder."""

from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

INCIDENTS = {
    "batch": date(2026, 3, 4),
    "day": date(2026, 3, 4),
    "cluster": "prod",
    "group": "payments",
    "kind": "rollout",
    "plan": "planned",
    "rebalances": 4,
    "unread_partition_seconds": 7.5,
    "member_seconds": 20.0,
    "away_partition_seconds": 5.0,
}
REBALANCES = {
    "batch": date(2026, 3, 4),
    "cluster": "prod",
    "group": "payments",
    "straggler": "payments-1",
    "straggler_host": "a",
    "waited_seconds": 2.5,
}
ROWS = {
    "transitions": INCIDENTS,
    "incidents": INCIDENTS,
    "rebalances": REBALANCES,
    "rollups": INCIDENTS,
}


def test_rows_of_delta_that_a_report_has_replaced_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of replaced rows stay in the folder of Delta for seven days."""
    delta = pytest.importorskip("deltalake")
    for table, row in ROWS.items():
        rows, place = pa.Table.from_pylist([row]), str(tmp_path / table)
        delta.write_deltalake(place, rows, partition_by=["batch"])
        delta.write_deltalake(place, rows, mode="overwrite", predicate="batch = '2026-03-04'")
        assert len(list((tmp_path / table).glob("batch=*/*.parquet"))) == 2
    monkeypatch.setenv("REBALANCE_TABLES", str(tmp_path))
    notebook = msgspec.json.decode(Path("docs/analysts.ipynb").read_bytes())
    found: dict[str, Any] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), found)
    assert found["kinds"]["incidents"].sum() == 1
    assert found["away"]["waits_s"].sum() == 5.0
    assert found["slow"]["times"].sum() == 1
