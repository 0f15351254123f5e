"""The folder of tables has the place of their rows, and refuses impossible places."""

from datetime import date
from pathlib import Path

import pytest

from aggregation.spark.errors import SparkSetupError
from aggregation.spark.rollups.rollup_manifest import Manifest, RollupBatch
from aggregation.spark.rollups.rollup_store import check_tables
from aggregation.spark.rollups.rollup_tables import manifest_of, rollup_format
from aggregation.spark.tables.table_place import TableFormat, TablePlace, keep_place, read_place
from aggregation.spark.tables.tables import open_tables

DELTA, ICEBERG, PARQUET = TableFormat.DELTA, TableFormat.ICEBERG, TableFormat.PARQUET


def written(tables: Path, kind: TableFormat, table: str = "transitions") -> Path:
    """Create the files of a first commit."""
    sign = {
        DELTA: "_delta_log/00000000000000000000.json",
        ICEBERG: "metadata/v1.metadata.json",
        PARQUET: "day=2025-11-24/part.parquet",
    }[kind]
    path = tables / table / sign
    path.parent.mkdir(parents=True)
    path.touch()
    return tables


def test_new_folder_gets_parquet_or_what_is_asked(tmp_path: Path) -> None:
    assert open_tables(tmp_path).format is PARQUET
    assert open_tables(tmp_path, ICEBERG).format is ICEBERG


@pytest.mark.parametrize("kind", list(TableFormat))
def test_folder_keeps_its_format(tmp_path: Path, kind: TableFormat) -> None:
    assert open_tables(written(tmp_path, kind)).format is kind
    other = DELTA if kind is not DELTA else PARQUET
    with pytest.raises(SparkSetupError, match=f"of format {kind}, wanted {other}; leave out"):
        open_tables(tmp_path, other)


@pytest.mark.parametrize("kind", list(TableFormat))
def test_rollups_have_the_format_of_the_tables(tmp_path: Path, kind: TableFormat) -> None:
    written(tmp_path, kind)
    assert rollup_format(tmp_path) is kind
    assert manifest_of(tmp_path).folder.name == ("rollups" if kind is PARQUET else "_rollups")


def test_rollups_that_exist_keep_their_format(tmp_path: Path) -> None:
    old, removed = written(tmp_path / "old", DELTA), written(tmp_path / "removed", DELTA, "rollups")
    Manifest(old / "rollups").mark(date(2025, 11, 24), RollupBatch(files=""))
    assert (rollup_format(old), rollup_format(removed)) == (PARQUET, DELTA)


def test_place_is_remembered(tmp_path: Path) -> None:
    assert read_place(tmp_path) is None
    place = TablePlace("s3a://bucket/tables", ICEBERG)
    assert open_tables(tmp_path, ICEBERG, "s3a://bucket/tables/").place == place
    keep_place(tmp_path, place)
    for again in (open_tables(tmp_path), open_tables(tmp_path, None, "s3a://bucket/tables")):
        assert (again.place, again.format) == (place, ICEBERG)
    assert rollup_format(tmp_path) is ICEBERG
    check_tables(tmp_path)  # its rows are not looked for in the folder


def test_catalog_is_of_iceberg(tmp_path: Path) -> None:
    place = open_tables(tmp_path, None, "lake.kafka.rebalances").place
    assert place == TablePlace("lake.kafka.rebalances", ICEBERG)


@pytest.mark.parametrize(
    ("kind", "place", "said"),
    [
        (None, "s3a://b/t", r"tables at a URL \(s3a://b/t\) need commits, which Parquet has not"),
        (PARQUET, "file:///t", "give --table-format delta or iceberg"),
        (DELTA, "lake.db", r"tables in a catalog \(lake.db\) are Iceberg's, not delta"),
        (PARQUET, "lake.db", r"tables in a catalog \(lake.db\) are Iceberg's, not parquet"),
        (DELTA, "/mnt/t", "'/mnt/t': wanted a URL or CATALOG.NAMESPACE"),
        (DELTA, "lake", "'lake': wanted a URL or CATALOG.NAMESPACE"),
    ],
)
def test_place_that_cannot_be_is_refused(
    tmp_path: Path, kind: TableFormat | None, place: str, said: str
) -> None:
    with pytest.raises(SparkSetupError, match=said):
        open_tables(tmp_path, kind, place)


def test_folder_has_one_place(tmp_path: Path) -> None:
    here, there = written(tmp_path / "here", DELTA), tmp_path / "there"
    there.mkdir()
    keep_place(there, TablePlace("s3a://b/t", DELTA))
    with pytest.raises(SparkSetupError, match="has tables in itself; give another --tables"):
        open_tables(here, DELTA, "s3a://b/t")
    with pytest.raises(SparkSetupError, match="are stored in s3a://b/t, not in s3a://b/u"):
        open_tables(there, DELTA, "s3a://b/u")
    with pytest.raises(SparkSetupError, match="of format delta, wanted iceberg"):
        open_tables(there, ICEBERG)


def test_folder_at_a_url_names_the_option() -> None:
    with pytest.raises(SparkSetupError, match="`ingest --stored-in URL` stores its rows elsewhere"):
        open_tables(Path("s3a://bucket/tables"))
