"""What members' episodes of a day add up to, summed where they are read: DataFrame to DataFrame.

Theory of operation. The moves of an episode lie near each other in a day's files, so what one task
reads holds nearly all episodes whole. Each task sorts its moves by episode, follows every chain,
and hands out three kinds of sums, not rows by the million: no shuffle sees a move of a whole
episode. What is no such chain here (midnight, the end of a chunk, a missing record, a clock that
stepped back) is handed out move by move, for `aggregation.spark.member_episodes` to put together.

Hashes name episodes. Two of one hash are no chain together, and so are handed out, too.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema

from aggregation.spark.member_episodes import CODES, MEMBER, moves, narrowed
from aggregation.spark.period import MICROS
from aggregation.spark.rollups import BUCKETS_PER_DOUBLING, LEAST_S

_GROUP = ("cluster", "app", "group", "scope")
_TEXTS = (*MEMBER, "agent", "episode")
_NUMBERS = ("code", "bucket", "to", "from")

SUMS = T.StructType(
    [
        T.StructField("part", T.StringType()),
        T.StructField("day", T.DateType()),
        *(T.StructField(name, T.StringType()) for name in _TEXTS),
        *(T.StructField(name, T.IntegerType()) for name in _NUMBERS),
        T.StructField("at", T.LongType()),
        T.StructField("times", T.LongType()),
        T.StructField("seconds", T.DoubleType()),
    ]
)
"""By ``part``: ``member`` adds up whole episodes by member and first code, ``length`` by group and
bucket, ``status`` their seconds by group and code; ``rest`` is a move of any other episode."""

_INDEX_BITS = 20
_CHUNK = 1 << _INDEX_BITS
"""Rows that a worker holds at a time: 250 MB with what is computed of them."""

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def summed(records: DataFrame) -> DataFrame:
    """Add up the table ``transitions``, or some days of it: rows of `SUMS`.

    Rows of one part and key can be several, one of each task: they add up.
    """
    keyed = (
        narrowed(moves(records))
        .withColumn("of_group", F.xxhash64("day", *map(_told, _GROUP)))
        .withColumn("of_member", F.xxhash64("of_group", _told("client_id"), _told("host")))
        .withColumn("of_episode", F.xxhash64("of_member", "episode"))
    )
    return keyed.mapInArrow(added_up, SUMS)


def _told(name: str) -> Column:
    return F.coalesce(name, F.lit("\0"))  # hashes pass over nulls


def added_up(
    batches: Iterable[pa.RecordBatch], chunk_rows: int = _CHUNK
) -> Iterator[pa.RecordBatch]:
    """Add up what one task reads, at most 2^20 rows at a time."""
    for chunk in _chunks(batches, chunk_rows):
        chains = _Chains.of(chunk)
        for rows in (_members(chains), _lengths(chains), _statuses(chains), _rest(chains)):
            yield from rows.to_batches()


def _chunks(batches: Iterable[pa.RecordBatch], most: int) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        for start in range(0, batch.num_rows, most):
            piece = batch.slice(start, most)
            if rows + piece.num_rows > most:
                yield pa.Table.from_batches(held)
                held, rows = [], 0
            held.append(piece)
            rows += piece.num_rows
    if held:
        yield pa.Table.from_batches(held)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chains:
    """Moves in the order of their episodes and of time, and which episodes are whole."""

    moves: pa.Table
    order: Numbers
    at: Numbers
    to: Numbers
    first: Numbers
    """Where the whole ones start, and where they end."""
    last: Numbers
    other: Flags
    """Of moves: whether its episode is not whole."""

    @classmethod
    def of(cls, moves: pa.Table) -> "_Chains":
        """Follow the chains of some moves."""
        order = _in_order(moves)
        names, at, to, left = (
            moves[name].to_numpy()[order] for name in ("of_episode", "at", "to", "from")
        )
        changes = names[1:] != names[:-1]
        is_first, is_last = np.r_[True, changes], np.r_[changes, True]
        linked = left == np.where(is_first, 0, np.r_[0, to[:-1]])
        moved = np.where(is_last, (to == 0) & (left > 0), (to > left) & (to <= CODES[-1]))
        starts, ends = np.flatnonzero(is_first), np.flatnonzero(is_last)
        whole = np.logical_and.reduceat(linked & moved, starts)
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
        """Return how long the whole ones took."""
        return self.at[self.last] - self.at[self.first]


def _in_order(moves: pa.Table) -> Numbers:
    """Sort by episode and time; equal ones stay as they are."""
    names, at = moves["of_episode"].to_numpy(), moves["at"].to_numpy()
    # one number of a part of the hash and the place is sorted faster than places by the hash
    places = np.arange(len(names), dtype=np.uint64)
    rest = np.uint64(_CHUNK - 1)
    order = (np.sort((names.view(np.uint64) & ~rest) | places) & rest).astype(np.int64)
    steps_back = np.diff(at[order]) < 0
    if np.any(steps_back & (np.diff(names[order]) == 0)):
        return np.lexsort((at, names))
    return order


def _members(chains: _Chains) -> pa.Table:
    of = _Named.by("of_member", chains)
    return of.added(chains.to[chains.first], chains.micros(), part="member", number="code")


def _lengths(chains: _Chains) -> pa.Table:
    of, micros = _Named.by("of_group", chains), chains.micros()
    doublings = np.log2(np.maximum(micros / MICROS, LEAST_S))
    buckets = np.floor(doublings * BUCKETS_PER_DOUBLING).astype(np.int64)
    return of.added(buckets, micros, part="length", number="bucket")


def _statuses(chains: _Chains) -> pa.Table:
    of = _Named.by("of_group", chains)
    entered = ~chains.other & (chains.to != 0)
    until = np.r_[chains.at[1:], 0]
    held = (until - chains.at)[entered]
    each = of.repeated(chains.last - chains.first)
    return each.added(chains.to[entered], held, part="status", number="code")


def _rest(chains: _Chains) -> pa.Table:
    moves = chains.moves.take(chains.order[chains.other])
    own = {name: moves[name] for name in moves.column_names if name in SUMS.names}
    return _shaped(moves.num_rows, part="rest", **own)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Named:
    """Whose each of some things is."""

    labels: pa.Table
    """Of those that are named, in the order of their numbers."""
    whose: Numbers

    @classmethod
    def by(cls, name: str, chains: _Chains) -> "_Named":
        """Number the owners of whole episodes."""
        rows = chains.order[chains.first]
        encoded = pa.array(chains.moves[name].to_numpy()[rows]).dictionary_encode()
        whose = encoded.indices.to_numpy().astype(np.int64)
        any_row = np.empty(len(encoded.dictionary), np.int64)
        any_row[whose] = rows
        texts = MEMBER if name == "of_member" else _GROUP
        return cls(labels=chains.moves.select(["day", *texts]).take(any_row), whose=whose)

    def repeated(self, times: Numbers) -> "_Named":
        """Return the owners of things of which each has some."""
        return _Named(labels=self.labels, whose=np.repeat(self.whose, times))

    def added(self, numbers: Numbers, micros: Numbers, *, part: str, number: str) -> pa.Table:
        """Add up by owner and by a small number."""
        least = numbers.min(initial=0)
        width = int(numbers.max(initial=0) - least) + 1
        keys = self.whose * width + (numbers - least)
        times = np.bincount(keys)
        found = np.flatnonzero(times)
        owners = self.labels.take(found // width)
        return _shaped(
            len(found),
            part=part,
            **{name: owners[name] for name in owners.column_names},
            **{number: pa.array(found % width + least)},
            times=pa.array(times[found]),
            seconds=pa.array(np.bincount(keys, weights=micros)[found] / MICROS),
        )


def _shaped(count: int, *, part: str, **columns: Any) -> pa.Table:
    """Bring columns into the shape of `SUMS`."""
    schema = to_arrow_schema(SUMS)
    given = columns | {"part": pa.repeat(part, count)}
    arrays = [
        given[field.name].cast(field.type) if field.name in given else pa.nulls(count, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)
