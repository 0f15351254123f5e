import os
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest

from agent.hub.recent_records import read_spool
from agent.outputs.spool import line_reader
from agent.outputs.spool.directory import remove_file
from agent.outputs.spool.identity import spool_id
from agent.outputs.spool.line_reader import LINE_MAX_BYTES, read_lines
from agent.outputs.spool.reader import batch_after, newest_seq
from agent.outputs.spool.spool import JsonlSpool, SpoolConfig
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker
from tests.metrics.given import raised, run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a spool of ten lines: two published files and one that still grows."""
    tracker = Tracker(StatusConfig())
    spool = JsonlSpool(SpoolConfig(dir=tmp_path, roll_s=10.0), agent="a", now=100.0)
    for number in range(10):
        spool.write(run(tracker, raised(1, 100.0 + number)))
        spool.commit()
        if number in {3, 7}:
            spool.tick(200.0 * (number + 1))
    return tmp_path


def numbers(folder: Path, seq: int, lines: int = 100, size: int = 1 << 20) -> list[int]:
    batch = batch_after(folder, seq, lines, size)
    return [] if batch is None else [batch.first, batch.last, len(batch.lines)]


def test_reads_published_and_growing_files_in_order(folder: Path) -> None:
    assert len(list(folder.glob("*.jsonl"))) == 2
    assert numbers(folder, 0) == [1, 10, 10]


@pytest.mark.parametrize("seq", range(10))
def test_goes_on_from_any_number(folder: Path, seq: int) -> None:
    assert numbers(folder, seq) == [seq + 1, 10, 10 - seq]


def test_nothing_new_is_none(folder: Path) -> None:
    assert batch_after(folder, 10, 100, 1 << 20) is None


def test_batches_are_bounded_in_lines_and_bytes(folder: Path) -> None:
    assert numbers(folder, 2, lines=3) == [3, 5, 3]
    assert numbers(folder, 2, size=1) == [3, 3, 1]


def test_torn_line_waits_for_its_end(folder: Path) -> None:
    (part,) = folder.glob(".*.part")
    whole = part.read_bytes()
    part.write_bytes(whole[:-20])

    assert numbers(folder, 0) == [1, 9, 9]


@pytest.mark.parametrize(
    "malformed", [b"\0" * 9, b'{"seq":2,"id":"\xff"}', b'{"x":' + b"[" * 100_000]
)
def test_what_is_no_line_is_passed_over(folder: Path, malformed: bytes) -> None:
    first = min(folder.glob("*.jsonl"))
    lines = first.read_bytes().splitlines()
    first.write_bytes(b"\n".join([lines[0], malformed, *lines[2:], b""]))

    assert numbers(folder, 0) == [1, 10, 9]


@pytest.mark.parametrize("size", [4_000, 4_001, 12_345])
def test_of_a_line_without_end_a_part_is_held(
    folder: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file with a hole of gigabytes was read as one line."""
    monkeypatch.setattr(line_reader, "LINE_MAX_BYTES", 4_000)
    first = min(folder.glob("*.jsonl"))
    lines = first.read_bytes().splitlines()
    long = b'{"seq":2,"id":"b","x":"%b"}' % (b"x" * size)
    first.write_bytes(b"\n".join([lines[0], long, *lines[2:], b""]))

    assert numbers(folder, 0) == [1, 10, 9]
    assert sum(len(line) for line in read_lines(BytesIO(long + b"\nlast\n"))) == 4_005
    assert remove_file(first) == len(lines)


def test_last_line_without_end_is_read_up_to_its_bound() -> None:
    file = BytesIO(b"x" * LINE_MAX_BYTES)

    assert [len(line) for line in read_lines(file)] == [LINE_MAX_BYTES]


def link(path: Path) -> None:
    elsewhere = path.parents[1] / "elsewhere"
    elsewhere.write_text('{"seq":99,"id":"a"}\n')
    path.symlink_to(elsewhere)


@pytest.mark.parametrize("make", [link, os.mkfifo, Path.mkdir])
def test_link_pipe_or_folder_is_no_file_of_the_spool(
    folder: Path, make: Callable[[Path], None]
) -> None:
    """A reader waits for ever for a pipe's writer: an agent or hub did not start."""
    spool = folder / "spool"
    spool.mkdir()
    for file in folder.glob("*.jsonl"):
        file.rename(spool / file.name)
    make(spool / "20261121T063151400Z-a-000000000099.jsonl")
    make(spool / ".20261121T063151400Z-a-000000000098.jsonl.part")

    assert numbers(spool, 0) == [1, 8, 8]
    assert newest_seq(spool) == 8
    assert len(read_spool(spool)) == 8
    JsonlSpool(SpoolConfig(dir=spool), agent="a", now=100.0).close()
    assert len(list(spool.iterdir())) == 5  # two files, two others, and the lock


def test_oldest_file_gone_shows_as_a_later_first_number(folder: Path) -> None:
    min(folder.glob("*.jsonl")).unlink()

    assert numbers(folder, 0) == [5, 10, 6]


def test_spool_has_one_name_for_ever(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")

    assert spool_id(folder) == spool_id(folder)
    assert spool_id(folder) != spool_id(other)
