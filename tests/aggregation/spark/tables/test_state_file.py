"""Damaged files beside the tables: an error names file and remedy, and nothing is guessed."""

from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from aggregation.spark.errors import SparkJobError
from aggregation.spark.ingest.spool_stream import ReadFiles
from aggregation.spark.ingest.topic_source import ReadOffsets
from aggregation.spark.rollups.final_days import count_rolled_up
from aggregation.spark.rollups.rollup_manifest import Manifest, RollupBatch
from aggregation.spark.tables.retention import raise_horizon, retention_horizon
from aggregation.spark.tables.state_file import write_state
from aggregation.spark.tables.table_fingerprint import count_parquet, parquet_fingerprints
from aggregation.spark.tables.table_place import TableFormat, folder_format, read_place

DAY = date(2025, 11, 24)
MARK = f"batch={DAY}/_made.json"
READERS: dict[str, Callable[[Path], object]] = {
    "_stored_in.json": read_place,
    "_retention.json": retention_horizon,
    "next_offsets.json": lambda folder: ReadOffsets(folder, dict),
    MARK: lambda folder: Manifest(folder).entries(),
}


def write(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 64,
        b"\xff\xfe",
        b'{"files":',
        b"[" * 100_000,
        b'{"stored_in":[]}',
        b'{"stored_in":"nowhere","format":"delta"}',
        b'{"stored_in":"s3a://b/t","format":"csv"}',
        b'{"first":"9999-99-99"}',
        b'{"files":"x","layout":1e400}',
        b'{"files":"x","since":"never"}',
    ],
)
def test_damaged_file_is_named_with_its_remedy(tmp_path: Path, name: str, content: bytes) -> None:
    path = write(tmp_path / name, content)
    with pytest.raises(SparkJobError) as error:
        READERS[name](tmp_path)
    assert str(error.value).startswith(f"{str(path)!r} is damaged (")
    assert path.read_bytes() == content


@pytest.mark.parametrize("name", READERS)
def test_file_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir(parents=True)
    with pytest.raises(SparkJobError, match=r"cannot read .*: Is a directory"):
        READERS[name](tmp_path)


def test_file_that_cannot_be_written_is_named_and_the_one_before_stays(tmp_path: Path) -> None:
    raise_horizon(tmp_path, DAY)
    (tmp_path / "_retention.json.part").symlink_to("/dev/full")
    with pytest.raises(SparkJobError, match=r"cannot write '.*_retention\.json': No space left"):
        raise_horizon(tmp_path, date(2025, 12, 1))
    assert retention_horizon(tmp_path) == DAY
    write_state(tmp_path / "new" / "file", RollupBatch(files="x"))


@pytest.mark.parametrize("name", ["x", "2025-13-44", "0000-01-01", ""])
def test_folder_that_no_day_names_is_an_error(tmp_path: Path, name: str) -> None:
    write(tmp_path / f"batch={name}" / "_made.json", b'{"files":"x"}')
    with pytest.raises(SparkJobError, match="is named by no day; move it away"):
        Manifest(tmp_path).entries()


@pytest.mark.parametrize("name", ["2025-13-44", "0000-01-01"])
def test_day_that_the_calendar_lacks_is_an_error(tmp_path: Path, name: str) -> None:
    write(tmp_path / "samples" / f"day={name}" / "part.parquet", b"")
    with pytest.raises(SparkJobError, match="is named by no day; move it away"):
        parquet_fingerprints(tmp_path)


@pytest.mark.parametrize("content", [b"", b"x", b"PAR1" * 9])
def test_broken_file_is_named_with_its_remedy(tmp_path: Path, content: bytes) -> None:
    table = write(tmp_path / "samples" / f"day={DAY}" / "part.parquet", content)
    with pytest.raises(SparkJobError) as error:
        count_parquet(tmp_path, [DAY])
    assert str(error.value).startswith(f"{table} is broken or no Parquet file; move it away")
    rollup = write(tmp_path / "rollups" / f"batch={DAY}" / "part.parquet", content)
    with pytest.raises(SparkJobError) as error:
        count_rolled_up(tmp_path / "rollups", [DAY])
    said = f"{rollup} is broken or no Parquet file; remove {rollup.parent}/_made.json and run again"
    assert str(error.value).startswith(said)


def test_file_that_goes_meanwhile_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "samples" / f"day={DAY}"
    folder.mkdir(parents=True)
    (folder / "part.parquet").symlink_to(tmp_path / "gone")
    with pytest.raises(SparkJobError, match="went while it was being read; run it again"):
        count_parquet(tmp_path, [DAY])


@pytest.mark.parametrize("damaged", [b"b", b"5", b"", b"\xff", b"\0" * 9, b"[" * 100_000])
def test_file_of_a_damaged_line_is_read_again_and_no_other(tmp_path: Path, damaged: bytes) -> None:
    path = write(tmp_path / "files", b'"a"\n' + damaged + b'\n"c"\n')
    read = ReadFiles(tmp_path)
    assert (len(read), "a" in read, "c" in read) == (2, True, True)
    assert path.read_bytes() == b'"a"\n"c"\n'


@pytest.mark.parametrize(
    ("metadata", "file"),
    [
        ("_delta_log", f"day={DAY}/part.parquet"),
        ("_delta_log", f"batch={DAY}/part.parquet"),
        ("metadata", f"data/day={DAY}/part.parquet"),
    ],
)
def test_table_whose_log_is_gone_is_no_other_table(
    tmp_path: Path, metadata: str, file: str
) -> None:
    """Read as plain Parquet, rows that the log has removed would be back."""
    (tmp_path / metadata).mkdir()
    assert folder_format(tmp_path) is None
    write(tmp_path / file, b"")
    with pytest.raises(SparkJobError, match=f"{metadata}' lists no version of the table"):
        folder_format(tmp_path)
    write(tmp_path / "_delta_log" / "00000000000000000000.json", b"{}")
    assert folder_format(tmp_path) is TableFormat.DELTA
