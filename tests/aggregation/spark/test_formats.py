"""Delta and Iceberg hold each id once, too; few files, and the days that are to be kept."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.cli.spark_jars import jars_of_tables
from aggregation.spark.session.jars import Need
from aggregation.spark.tables.table_place import TableFormat, TablePlace, keep_place
from aggregation.spark.tables.tables import session_settings
from tests.aggregation.spark.conftest import QUICK_JVM, need_jars
from tests.aggregation.spark.table_story import SMALL_FILES

pytestmark = pytest.mark.spark
CATALOG = "spark.sql.catalog.lake"


def run_story(name: str, *arguments: str | Path) -> dict[str, Any]:
    """Run a separate program with the jars of a format; return its output."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", f"tests.aggregation.spark.{name}", *arguments],
        env=os.environ | {"JAVA_TOOL_OPTIONS": QUICK_JVM},
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("kind", ["delta", pytest.param("iceberg", marks=pytest.mark.field)])
@pytest.mark.timeout(2000)
def test_batches_that_come_twice_are_there_once_and_small_files_merged(
    kind: str, tmp_path: Path
) -> None:
    need_jars(Need(kind))
    assert run_story("table_story", kind, tmp_path / "t") == {
        "appended": [4] * (1 + SMALL_FILES) + [0],
        "once": True,
        "removed": {"2025-11-24": 4},
        "files": [1 + SMALL_FILES, 1],
        "days": ["2025-11-25"],
        "rows": 4 * SMALL_FILES,
        "comment": "Time of the event (UTC)",
        "widened": ["reason", "Why the line is no record"],
    }


@pytest.mark.field  # up to 15 minutes beside others
@pytest.mark.parametrize(
    ("kind", "stored_in"), [("delta", "file://{}/lake"), ("iceberg", "lake.kafka")]
)
@pytest.mark.timeout(2000)
def test_reader_during_a_report_never_misses_a_day_at_a_url_or_in_a_catalog(
    kind: str, stored_in: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_jars(Need(kind))
    conf = tmp_path / "spark-defaults.conf"
    conf.write_text(
        f"{CATALOG} org.apache.iceberg.spark.SparkCatalog\n"
        f"{CATALOG}.type hadoop\n{CATALOG}.warehouse {tmp_path}/lake\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert run_story("rollup_story", kind, tmp_path, stored_in.format(tmp_path)) == {
        "widened": [[0, 0, 0], 1],
        "days": [["2025-11-30", "2025-12-01"], ["2025-12-01", "2025-12-03"]],
        "missed": [],
        "was_read": True,
        "as_parquet": True,
        "is_month": True,
        "idle": [],
    }
    assert not list((tmp_path / kind).rglob("*.parquet"))
    where = tmp_path / "lake" / ("" if kind == "delta" else "kafka")
    names = {"transitions", "samples", "quarantine", "rollups", "rebalances", "incidents"}
    others = {"carry_groups", "carry_members", "months"}
    assert {path.name for path in where.iterdir()} == names | others


def test_jdbc_catalog_without_views_takes_the_tables(tmp_path: Path) -> None:
    """Spark looks for a view where there is no table, and such a catalog refuses to."""
    need_jars(Need.ICEBERG)
    names = ("transitions", "samples", "quarantine")
    assert run_story("catalog_story", tmp_path) == dict.fromkeys(names, 0)


def test_report_of_rows_elsewhere_needs_only_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")  # as under spark-submit: no jar is fetched
    assert jars_of_tables(tmp_path, print) == ((), session_settings([TableFormat.PARQUET]))
    place = TablePlace("s3a://bucket/tables", TableFormat.DELTA)
    keep_place(tmp_path, place)
    settings = session_settings([TableFormat.DELTA], place)
    assert jars_of_tables(tmp_path, print) == ((), settings)
    assert settings["spark.hadoop.fs.file.impl"] == "org.apache.hadoop.fs.LocalFileSystem"
