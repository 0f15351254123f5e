"""Places of spools: a folder, a tree, a pattern."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from aggregation.spark.errors import SparkSetupError
from aggregation.spark.ingest.spool_source import SpoolSource, find_arrival
from aggregation.spark.tables.tables import open_tables
from tests.aggregation.spark.histories import write_lines


def test_folder_a_pattern_and_a_url_are_places(tmp_path: Path) -> None:
    write_lines(tmp_path / "spools" / "pod-1", b"x\n", name="a", compress=True)
    for place in (tmp_path / "spools", tmp_path / "spools" / "*", tmp_path / "sp*" / "pod-[12]"):
        SpoolSource(str(place)).check()
        assert SpoolSource(str(place)).has_files()
    url = SpoolSource((tmp_path / "spools").as_uri())
    url.check()
    assert url.has_files()


@pytest.mark.parametrize("place", ["none", "none/*", "spools/pod-[34]"])
def test_place_without_a_folder_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "spools" / "pod-1").mkdir(parents=True)
    with pytest.raises(SparkSetupError, match="there is no spool folder"):
        SpoolSource(str(tmp_path / place)).check()


def test_hidden_and_other_files_are_none_of_a_spool(tmp_path: Path) -> None:
    write_lines(tmp_path, b"x\n", name=".a")
    write_lines(tmp_path / "_checkpoints", b"x\n", name="a")
    (tmp_path / "notes.txt").write_text("x")
    assert not SpoolSource(str(tmp_path)).has_files()
    assert not SpoolSource(tmp_path.joinpath("none").as_uri()).has_files()


@pytest.mark.parametrize("url", ["s3a://bucket/tables", "hdfs://host/tables"])
def test_tables_at_a_url_are_refused(url: str) -> None:
    with pytest.raises(SparkSetupError, match="is a URL"):
        open_tables(Path(url))


@pytest.mark.parametrize("changed_at", [1e12, 1e15, -1e12, float(1 << 62)])
def test_a_time_that_python_has_not_is_no_time_of_arrival(changed_at: float) -> None:
    """File systems of 64 bits have them (tmpfs, XFS), and archives bring them."""
    before = datetime.now(UTC).date()
    assert before <= find_arrival(changed_at) <= datetime.now(UTC).date()
