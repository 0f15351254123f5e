"""A worker's scan of members' moves, straight from the Parquet files of a table.

Theory of operation. Spark's reader turns files into rows and rows into Arrow, one string at a time.
That costs ten times the computation. Arrow reads names as numbers with a dictionary. So tasks get
the files of whole days of a Parquet table, which is on a shared disk. They select the same moves as
`aggregation.spark.rollups.member_episodes`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812 - pyspark's own convention

from aggregation.spark.rollups.member_episodes import KINDS, MEMBER, SCOPES
from aggregation.spark.session.workers import Batches, map_batches
from aggregation.spark.tables.schema import Table, table_format
from aggregation.spark.tables.table_place import TableFormat
from metrics.model.sample import SampleKind

_SHARE_BYTES = 32 << 20
_TEXTS = (*MEMBER, "member_id", "agent", "kind", "episode")
_DAY = "day="
_COLUMNS = (*_TEXTS, "ts", "to", "from")
OBSERVERS = ("member_id", "agent")


def files_of(tables: Path, table: Table, days: Iterable[date] | None = None) -> list[Path] | None:
    """Return the files of a table's days, by default of all; None if it is not plain Parquet."""
    if table_format(tables, table) is not TableFormat.PARQUET:
        return None
    folder = tables / table
    names = folder.glob(f"{_DAY}*") if days is None else (folder / f"{_DAY}{day}" for day in days)
    return sorted(
        path for name in names for path in name.glob("*.parquet") if path.name[0] not in "._"
    )


def shares(files: Iterable[Path]) -> list[list[Path]]:
    """Distribute files to tasks; small files of one day stay together."""
    found: list[list[Path]] = []
    size = _SHARE_BYTES
    for path in files:
        if size >= _SHARE_BYTES:
            found.append([])
            size = 0
        found[-1].append(path)
        size += path.stat().st_size
    return found


def read_moves(path: Path) -> Iterator[pa.RecordBatch]:
    """Read the moves of named episodes, in the columns of `member_episodes.select_columns`.

    Raises:
        OSError: the file cannot be read; the text has Spark's form.

    """
    day = date.fromisoformat(path.parent.name.removeprefix(_DAY))
    for read in _read_groups(path, _COLUMNS):
        yield from _select_moves(read, day).to_batches()


def read_observers(path: Path) -> Iterator[pa.RecordBatch]:
    """Read each member id with each agent that wrote of it, once for a part of the file.

    Raises:
        OSError: the file cannot be read; the text has Spark's form.

    """
    for read in _read_groups(path, OBSERVERS):
        if read.column_names == list(OBSERVERS):
            seen = read.unify_dictionaries().group_by(list(OBSERVERS)).aggregate([])
            texts = [seen[name].cast(pa.string()) for name in OBSERVERS]
            yield from pa.table(texts, names=list(OBSERVERS)).drop_null().to_batches()


def map_shares(
    spark: SparkSession,
    files: Iterable[Path],
    function: Callable[[Iterable[Path]], Batches],
    schema: T.StructType,
) -> DataFrame:
    """Map files to rows in Python workers, some files a task."""
    dealt = shares(files)
    numbers = spark.range(0, len(dealt), numPartitions=max(1, len(dealt)))
    return map_batches(numbers, partial(_map_dealt, dealt, function), schema)


def _map_dealt(
    dealt: Sequence[Sequence[Path]], function: Callable[[Iterable[Path]], Batches], numbers: Batches
) -> Batches:
    for batch in numbers:
        for number in batch["id"].to_pylist():
            yield from function(dealt[number])


def _read_groups(path: Path, columns: Iterable[str]) -> Iterator[pa.Table]:
    """Read the columns that a file has, one part of it after the other."""
    try:
        footer = pq.read_metadata(path)
        names = [name for name in columns if name in footer.schema.names]
        texts = [name for name in _TEXTS if name in names]
        with pq.ParquetFile(path, metadata=footer, read_dictionary=texts) as file:
            for group in range(file.num_row_groups):
                yield file.read_row_group(group, columns=names, use_threads=False)
    except (OSError, pa.ArrowException) as error:
        why = "FILE_NOT_EXIST" if isinstance(error, FileNotFoundError) else "NO_HINT"
        text = f"[FAILED_READ_FILE.{why}] Encountered error while reading file {path.as_uri()}. "
        raise OSError(text) from error


def _select_moves(read: pa.Table, day: date) -> pa.Table:
    """Select rows and columns like `member_episodes.moves_with_episode` and `select_columns`."""
    rows = read.num_rows
    given = {name: _column(read, name) for name in _COLUMNS}
    is_transition = _is_in(given["kind"], [SampleKind.TRANSITION])
    own = {name: given[name] for name in (*MEMBER, "member_id", "episode")}
    moves = pa.table(
        own
        | {
            "agent": _fill_nulls(given["agent"]),
            "day": pa.repeat(pa.scalar(day), rows),
            "at": given["ts"].cast(pa.timestamp("us"), safe=False).cast(pa.int64()),
            "to": pc.if_else(is_transition, pc.fill_null(given["to"], 0), -1),
            "from": pc.fill_null(given["from"], -1),
        }
    )
    is_move = pc.and_(_is_in(given["kind"], KINDS), _is_in(given["scope"], SCOPES))
    kept = pc.and_(is_move, given["episode"].is_valid())
    return moves if pc.all(kept, skip_nulls=False).as_py() else moves.filter(kept)


def _column(read: pa.Table, name: str) -> pa.ChunkedArray:
    if name in read.column_names:
        return read[name]
    kind = pa.dictionary(pa.int32(), pa.string()) if name in _TEXTS else pa.int64()
    return pa.chunked_array([pa.nulls(read.num_rows, kind)])


def _fill_nulls(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not column.null_count:
        return column
    return column.cast(pa.string()).fill_null("").dictionary_encode()


def _is_in(column: pa.ChunkedArray, values: Sequence[str]) -> pa.ChunkedArray:
    wanted = pa.array(values, pa.string())
    found = [pc.is_in(each.dictionary, wanted).take(each.indices) for each in column.chunks]
    return pa.chunked_array(found, pa.bool_())
