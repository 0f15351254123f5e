"""Files of a spool, and files that are none, as a worker reads them."""

import gzip
import os
import tracemalloc
from datetime import UTC, date, datetime
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from aggregation.spark.ingest.record_parser import TEXT_MAX_CHARS, Row
from aggregation.spark.ingest.spool_reader import LINKED, REMOVED, SPECIAL, read_file, read_files
from aggregation.spark.tables.schema import PARSED
from metrics.model.sample import RECORD_MAX_BYTES, encode
from tests.aggregation.spark.histories import fleet, write_lines

DAY = date(2026, 1, 2)

_PARTITIONS = ",".join(f"t-{number}" for number in range(30_000))
"""A value of a change, almost as long as one may be."""


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


@pytest.mark.parametrize("kept_share", [0.5, 1.0])
def test_whole_lines_before_damage_of_a_packed_file_are_read(
    tmp_path: Path, kept_share: float
) -> None:
    """Up to a chunk of 1 MiB of lines was lost before the place where a file breaks off."""
    lines = [f"{number:x}\n".encode() for number in range(1, 40_000)]
    packed = gzip.compress(b"".join(lines))
    spool = tmp_path / "x.jsonl.gz"
    spool.write_bytes(packed[: int(len(packed) * kept_share) - 4])

    *found, damage = rows(spool, tmp_path)

    assert len(found) > len(lines) * kept_share * 0.8
    assert [row["text"] for row in found] == [line.decode().strip() for line in lines[: len(found)]]
    assert str(damage["fault"]).startswith("the compressed file is broken")


@pytest.mark.timeout(20)
def test_pipe_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "x.jsonl"
    os.mkfifo(pipe)
    assert rows(pipe, tmp_path) == [fault(pipe, SPECIAL)]


def test_removed_file_is_a_fault(tmp_path: Path) -> None:
    gone = tmp_path / "gone.jsonl"
    assert rows(gone, tmp_path) == [fault(gone, REMOVED)]


def test_of_a_line_without_end_a_part_is_held(tmp_path: Path) -> None:
    """64 MiB in one line, packed to 64 KiB: its row has its begin, and the next line its place."""
    spool = tmp_path / "x.jsonl.gz"
    spool.write_bytes(gzip.compress(b"x" * (64 << 20) + b"\nshort\n"))

    tracemalloc.start()
    long, short = rows(spool, tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert (long["offset"], long["fault"]) == (0, f"longer than {RECORD_MAX_BYTES:,} bytes")
    assert long["text"] == "x" * TEXT_MAX_CHARS
    assert (short["offset"], short["text"]) == ((64 << 20) + 1, "short")
    assert peak < 16 << 20


def test_rows_of_long_texts_are_few_in_a_batch(tmp_path: Path) -> None:
    schema = to_arrow_schema(PARSED)
    write_lines(tmp_path, b"".join(b"x" * TEXT_MAX_CHARS + b"\n" for _ in range(600)), name="a")
    files = pa.RecordBatch.from_pylist([{"path": str(tmp_path / "a.jsonl"), "day": DAY}])

    batches = list(read_files(iter([files]), schema, str(tmp_path)))

    assert [len(batch) for batch in batches] == [256, 256, 88]


def test_records_of_long_texts_are_few_in_a_batch(tmp_path: Path) -> None:
    schema, known = to_arrow_schema(PARSED), fleet(1, days=1).samples[0]
    change = msgspec.structs.replace(known, before=_PARTITIONS, after=_PARTITIONS)
    write_lines(tmp_path, encode(change) * 100, name="a")
    day = date.fromisoformat(known.ts[:10])
    files = pa.RecordBatch.from_pylist([{"path": str(tmp_path / "a.jsonl"), "day": day}])

    batches = list(read_files(iter([files]), schema, str(tmp_path)))

    assert sum(map(len, batches)) == 100
    assert max(map(len, batches)) <= 40


def test_a_row_stands_for_malformed_lines_without_end(tmp_path: Path) -> None:
    good = encode(fleet(1).samples[0])
    write_lines(tmp_path, b"{}\n" * 10_000 + b"[]\n" + good + b"{}\n" * 50_000 + good, name="a")
    files = pa.RecordBatch.from_pylist(
        [{"path": str(tmp_path / "a.jsonl"), "day": datetime.now(UTC).date()}]
    )

    batches = read_files(iter([files]), to_arrow_schema(PARSED), str(tmp_path))
    found = [row for batch in batches for row in batch.to_pylist()]

    assert [row["fault"] is None for row in found].count(True) == 2
    assert len(found) == 10_000 + 2 + 1
    assert (found[-1]["lines"], found[-1]["offset"]) == (50_001, 30_000)
    assert found[-1]["fault"].startswith("one of 50,001 more lines that are no records: ")
