"""Sums of a day's member episodes, computed in the tasks that read them: DataFrame to DataFrame.

Theory of operation. The moves of an episode are close to each other in a day's files, so one task
reads nearly all of its episodes whole. Each task sorts its moves by episode, follows every chain
and returns three kinds of sums instead of millions of rows. No shuffle sees a move of a whole
episode. An incomplete chain (midnight, the end of a chunk, a missing record, a clock that stepped
back) is returned move by move, and `aggregation.spark.rollups.member_episodes` puts it together.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812 - pyspark's own convention
from pyspark.sql.pandas.types import to_arrow_schema

from aggregation.spark.rollups.doubled_groups import NO_GROUPS, Groups
from aggregation.spark.rollups.member_episodes import (
    CODES,
    MEMBER,
    moves,
    moves_without_episode,
    select_columns,
)
from aggregation.spark.rollups.parquet_scan import map_shares, read_moves
from aggregation.spark.rollups.rollups import BUCKETS_PER_DOUBLING, LEAST_S
from aggregation.spark.session.workers import map_batches
from aggregation.spark.tables.period import MICROS

_GROUP = ("day", "cluster", "app", "group", "scope")
_OWNER = ("day", *MEMBER)
_TEXTS = (*MEMBER, "member_id", "agent", "episode", "kind")
_NAMES = (*_OWNER, "member_id", "agent", "episode")
_NUMBERS = ("code", "bucket", "to", "from")

SUMS = T.StructType(
    [
        T.StructField("what", T.StringType()),
        T.StructField("day", T.DateType()),
        *(T.StructField(name, T.StringType()) for name in _TEXTS),
        *(T.StructField(name, T.IntegerType()) for name in _NUMBERS),
        T.StructField("at", T.LongType()),
        T.StructField("times", T.LongType()),
        T.StructField("seconds", T.DoubleType()),
    ]
)
"""Rollups of whole episodes (``what`` is member, duration or status), and moves of all others
(``rest``)."""

_PLACE_BITS = 21
_CHUNK = 1 << _PLACE_BITS
"""Rows that a worker holds at a time: 400 MB with all intermediate values."""
_NUMBERS_MOST = 1 << 62

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def sum_episodes(
    records: DataFrame, files: Sequence[Path] | None = None, apart: Groups = NO_GROUPS
) -> DataFrame:
    """Sum the table ``transitions``, or some days of it: rows of `SUMS`.

    ``files`` are those of exactly these records (`parquet_scan.files_of`); they are read without
    Spark's reader. A key can have several rows, one from each task and chunk; they add up. Episodes
    of the groups ``apart`` are returned move by move: several agents see one member there.
    """
    add = partial(sum_moves, apart=apart)
    if files is None:
        return map_batches(select_columns(moves(records)), add, SUMS)
    named = map_shares(records.sparkSession, files, partial(_sum_files, apart), SUMS)
    nameless = map_batches(select_columns(moves_without_episode(records)), add, SUMS)
    return named.unionByName(nameless)


def _sum_files(apart: Groups, files: Iterable[Path]) -> Iterator[pa.RecordBatch]:
    return sum_moves(chain.from_iterable(map(read_moves, files)), apart=apart)


def sum_moves(
    batches: Iterable[pa.RecordBatch], chunk_rows: int = _CHUNK, apart: Groups = NO_GROUPS
) -> Iterator[pa.RecordBatch]:
    """Sum the moves (`select_columns`) that one task reads, at most 2^21 rows at a time."""
    for chunk in _chunks(batches, chunk_rows):
        chains = _Chains.of(chunk, apart)
        for rows in (_members(chains), _lengths(chains), _statuses(chains), _rest(chains)):
            yield from rows.to_batches()


def _chunks(batches: Iterable[pa.RecordBatch], most: int) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        for start in range(0, batch.num_rows, most):
            piece = batch.slice(start, most)
            if rows + piece.num_rows > most:
                yield _encode_names(pa.Table.from_batches(held))
                held, rows = [], 0
            held.append(piece)
            rows += piece.num_rows
    if held:
        yield _encode_names(pa.Table.from_batches(held))


def _encode_names(moves: pa.Table) -> pa.Table:
    """Encode every name as a number."""
    for place, name in enumerate(moves.column_names):
        if name in _NAMES and not pa.types.is_dictionary(moves[name].type):
            moves = moves.set_column(place, name, moves[name].dictionary_encode())
    return moves.unify_dictionaries().combine_chunks()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chains:
    """Moves in the order of episode and time, and the positions of whole episodes."""

    moves: pa.Table
    order: Numbers
    at: Numbers
    to: Numbers
    first: Numbers
    """Positions at which whole episodes start, and at which they end."""
    last: Numbers
    other: Flags
    """For each move, whether its episode is incomplete."""

    @classmethod
    def of(cls, moves: pa.Table, apart: Groups = NO_GROUPS) -> "_Chains":
        """Follow the chains in a table of moves; those of groups ``apart`` count as incomplete."""
        episodes, owners = _number_rows(moves, "episode"), _number_rows(moves, *_OWNER)
        order = _in_order(episodes, owners, moves["at"].to_numpy())
        at, to, left = (moves[name].to_numpy()[order] for name in ("at", "to", "from"))
        changes = (np.diff(episodes[order]) != 0) | (np.diff(owners[order]) != 0)
        is_first, is_last = np.r_[True, changes], np.r_[changes, True]
        linked = left == np.where(is_first, 0, np.r_[0, to[:-1]])
        moved = np.where(is_last, (to == 0) & (left > 0), (to > left) & (to <= CODES[-1]))
        starts, ends = np.flatnonzero(is_first), np.flatnonzero(is_last)
        together = ~_in_groups(moves, apart)[order] if apart else True
        whole = np.logical_and.reduceat(linked & moved & together, starts)
        return cls(
            moves=moves,
            order=order,
            at=at,
            to=to,
            first=starts[whole],
            last=ends[whole],
            other=np.repeat(~whole, ends - starts + 1),
        )

    def micros(self) -> Numbers:
        """Return the lengths of whole episodes."""
        return self.at[self.last] - self.at[self.first]


def _in_groups(moves: pa.Table, groups: Groups) -> Flags:
    """Return for each move whether it is of one of some groups."""
    numbers = _number_rows(moves, "cluster", "group")
    _, firsts, places = np.unique(numbers, return_index=True, return_inverse=True)
    names = moves.select(["cluster", "group"]).take(firsts).to_pylist()
    found = np.array([(name["cluster"], name["group"]) in groups for name in names], bool)
    flags: Flags = found[places]
    return flags


def _number_rows(moves: pa.Table, *names: str) -> Numbers:
    """Return one number for each combination of the columns' values."""
    numbers, count = np.zeros(moves.num_rows, np.int64), 1
    for name in names:
        column = moves[name].combine_chunks()
        width = len(column.dictionary) + 1
        if count * width > _NUMBERS_MOST:
            found, numbers = np.unique(numbers, return_inverse=True)
            count = len(found)
        own = column.indices.fill_null(width - 1).to_numpy()
        numbers, count = numbers * width + own, count * width
    return numbers


def _in_order(episodes: Numbers, owners: Numbers, at: Numbers) -> Numbers:
    """Return the order by episode and time; equal rows keep their order."""
    # one number made of episode and place sorts faster than places sorted by episode
    places = np.arange(len(episodes))
    order = np.sort((episodes << _PLACE_BITS) | places) & (_CHUNK - 1)
    is_confused = (np.diff(at[order]) < 0) | (np.diff(owners[order]) != 0)
    if np.any(is_confused & (np.diff(episodes[order]) == 0)):
        return np.lexsort((at, owners, episodes))
    return order


def _members(chains: _Chains) -> pa.Table:
    of = _Owners.by(_OWNER, chains)
    sums = of.sum_by(chains.to[chains.first], chains.micros(), number="code")
    return _to_schema(sums, what="member", kind="ended")


def _lengths(chains: _Chains) -> pa.Table:
    of, micros = _Owners.by(_GROUP, chains), chains.micros()
    doublings = np.log2(np.maximum(micros / MICROS, LEAST_S))
    buckets = np.floor(doublings * BUCKETS_PER_DOUBLING).astype(np.int64)
    sums = of.sum_by(buckets, micros, number="bucket")
    return _to_schema(sums.drop_columns("seconds"), what="duration", kind="member")


def _statuses(chains: _Chains) -> pa.Table:
    of = _Owners.by(_GROUP, chains)
    entered = np.flatnonzero(~chains.other & (chains.to != 0))
    held = chains.at[entered + 1] - chains.at[entered]
    lasting = held > 0
    each = of.repeat(chains.last - chains.first).where(lasting)
    sums = each.sum_by(chains.to[entered][lasting], held[lasting], number="code")
    return _to_schema(sums.drop_columns("times"), what="status", kind=None)


def _rest(chains: _Chains) -> pa.Table:
    rows = chains.moves.take(chains.order[chains.other])
    return _to_schema(rows, what="rest", kind=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Owners:
    """The owners of a list of items."""

    labels: pa.Table
    """The owners' columns, in the order of their numbers."""
    indices: Numbers

    @classmethod
    def by(cls, names: Sequence[str], chains: _Chains) -> "_Owners":
        """Return the owners of whole episodes."""
        firsts = chains.moves.select(names).take(chains.order[chains.first])
        encoded = pa.array(_number_rows(firsts, *names)).dictionary_encode()
        whose = encoded.indices.to_numpy().astype(np.int64)
        any_of = np.empty(len(encoded.dictionary), np.int64)
        any_of[whose] = np.arange(len(whose))
        return cls(labels=firsts.take(any_of), indices=whose)

    def repeat(self, counts: Numbers) -> "_Owners":
        """Return the owners of lists: each owner's entry stands as often as its count."""
        return _Owners(labels=self.labels, indices=np.repeat(self.indices, counts))

    def where(self, wanted: Flags) -> "_Owners":
        """Return the owners of selected items."""
        return _Owners(labels=self.labels, indices=self.indices[wanted])

    def sum_by(self, numbers: Numbers, micros: Numbers, *, number: str) -> pa.Table:
        """Sum by owner and by a small number."""
        least = numbers.min(initial=0)
        width = int(numbers.max(initial=0) - least) + 1
        keys = self.indices * width + (numbers - least)
        times = np.bincount(keys)
        found = np.flatnonzero(times)
        seconds = np.bincount(keys, weights=micros)[found] / MICROS
        added = {number: found % width + least, "times": times[found], "seconds": seconds}
        rows = self.labels.take(found // width)
        for name, column in added.items():
            rows = rows.append_column(name, pa.array(column))
        return rows


def _to_schema(rows: pa.Table, *, what: str, kind: str | None) -> pa.Table:
    """Return rows with the columns of `SUMS`."""
    schema, count = to_arrow_schema(SUMS), rows.num_rows
    given = {name: rows[name] for name in rows.column_names} | {
        "what": pa.repeat(what, count),
        "kind": pa.repeat(pa.scalar(kind, pa.string()), count),
    }
    arrays = [
        given[field.name].cast(field.type) if field.name in given else pa.nulls(count, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)
