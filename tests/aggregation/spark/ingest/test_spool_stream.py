"""The files of a spool that are read, and the list of names that is kept of them."""

from pathlib import Path

from aggregation.spark.ingest.spool_stream import (
    BATCH_BYTES,
    ReadFiles,
    SpoolFile,
    cut_batches,
)


def test_names_are_kept_over_runs_whatever_they_are(tmp_path: Path) -> None:
    names = ["/a b/x.jsonl", "/line\nbreak.jsonl", "s3a://bucket/ä.jsonl.gz"]
    read = ReadFiles(tmp_path / "new")
    read.add(names[:2])
    read.add(names[2:])
    again = ReadFiles(tmp_path / "new")
    assert len(again) == 3
    assert all(name in again for name in names)


def test_name_that_a_kill_has_cut_is_read_again(tmp_path: Path) -> None:
    ReadFiles(tmp_path).add(["/one", "/two"])
    whole = (tmp_path / "files").read_bytes()
    (tmp_path / "files").write_bytes(whole[:-3])
    read = ReadFiles(tmp_path)
    assert ("/one" in read, "/two" in read) == (True, False)
    read.add(["/two"])
    assert len(ReadFiles(tmp_path)) == 2


def test_list_is_as_long_as_the_spool_after_years(tmp_path: Path) -> None:
    read = ReadFiles(tmp_path)
    for day in range(400):
        present = [f"/spool/{number}" for number in range(100 * day, 100 * day + 300)]
        read.forget(present)
        read.add([name for name in present if name not in read])
        assert all(name in read for name in present)
    again = ReadFiles(tmp_path)
    assert len(again) <= 1_700
    assert all(name in again for name in present)


def test_lists_of_spark_go(tmp_path: Path) -> None:
    (tmp_path / "sources" / "0").mkdir(parents=True)
    (tmp_path / "sources" / "0" / "9.compact").write_text("v1\n")
    ReadFiles(tmp_path)
    assert not (tmp_path / "sources").exists()


def test_batches_are_in_order_and_within_the_limit() -> None:
    large = SpoolFile("/large", 1.0, BATCH_BYTES + 1)
    first, second = SpoolFile("/b", 2.0, 5), SpoolFile("/a", 3.0, BATCH_BYTES - 5)
    third = SpoolFile("/c", 3.0, 1)
    assert list(cut_batches([third, second, first, large])) == [[large], [first, second], [third]]
    assert list(cut_batches([])) == []
