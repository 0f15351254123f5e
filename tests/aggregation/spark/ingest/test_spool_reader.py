"""Files of a spool, and files that are none, as a worker reads them."""

import os
from datetime import date
from pathlib import Path

import pytest

from aggregation.spark.ingest.record_parser import Row
from aggregation.spark.ingest.spool_reader import LINKED, REMOVED, SPECIAL, read_file
from tests.aggregation.spark.histories import write_lines

DAY = date(2026, 1, 2)


def rows(path: Path, root: Path) -> list[Row]:
    return list(read_file(str(path), DAY, str(root)))


def fault(path: Path, text: str) -> Row:
    return {"file": str(path), "fault": text, "text": None, "day": DAY}


def test_link_to_another_file_is_not_followed(tmp_path: Path) -> None:
    secret, spool = tmp_path / "secret", tmp_path / "spool"
    secret.write_text("root:x:0:0\n")
    spool.mkdir()
    link = spool / "x.jsonl"
    link.symlink_to(secret)

    assert rows(link, spool) == [fault(link, LINKED)]


def test_link_of_a_folder_is_not_followed(tmp_path: Path) -> None:
    write_lines(tmp_path / "elsewhere", b"x\n", name="a")
    spool = tmp_path / "spool"
    spool.mkdir()
    (spool / "pod-1").symlink_to(tmp_path / "elsewhere")
    behind = spool / "pod-1" / "a.jsonl"

    assert rows(behind, spool) == [fault(behind, LINKED)]


def test_spool_itself_may_be_behind_a_link(tmp_path: Path) -> None:
    write_lines(tmp_path / "spool", b"x\n", name="a")
    (tmp_path / "link").symlink_to(tmp_path / "spool")
    (row,) = rows(tmp_path / "link" / "a.jsonl", tmp_path / "link")
    assert (row["offset"], row["text"]) == (0, "x")


@pytest.mark.timeout(20)
def test_pipe_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "x.jsonl"
    os.mkfifo(pipe)
    assert rows(pipe, tmp_path) == [fault(pipe, SPECIAL)]


def test_removed_file_is_a_fault(tmp_path: Path) -> None:
    gone = tmp_path / "gone.jsonl"
    assert rows(gone, tmp_path) == [fault(gone, REMOVED)]
