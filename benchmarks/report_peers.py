"""The report's questions for DuckDB and Polars, in the cheapest formulation that we know.

An episode is whole if it leaves 0 once, arrives at 0 once, and its codes add up to the same where
it arrives and where it leaves (a status only rises, so a missing record shows in the difference).
Time in a code is the sum of exits less the sum of entries, over the moves of whole episodes.
"""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Answers = dict[str, dict[str, list[float]]]
_KEYS = {"causes": 2, "lengths": 2, "statuses": 2, "faults": 1}
_LOST = 100
"""Stands for where a lost member went to: no code."""

_CHAINS = f"""
CREATE TABLE chains AS
  SELECT "group", client_id, episode, min("to") FILTER ("to" > 0) AS cause,
         epoch_us(max(ts)) - epoch_us(min(ts)) AS micros,
         count(*) FILTER ("from" = 0) = 1 AND count(*) FILTER ("to" = 0) = 1
         AND sum((coalesce("to", {_LOST}) - "from")::INTEGER) = 0 AS whole
  FROM moves GROUP BY ALL
"""
_EXITS = """
CREATE TABLE exits AS
  SELECT "group", "from", "to", sum(epoch_us(ts)) AS micros
  FROM moves ANTI JOIN (FROM chains WHERE NOT whole) USING ("group", client_id, episode)
  GROUP BY ALL
"""
_QUERIES = {
    "causes": """
      SELECT "group", cause, count(*), sum(micros) / 1e6 FROM chains WHERE whole GROUP BY ALL
    """,
    "lengths": """
      SELECT "group", floor(log2(greatest(micros / 1e6, 0.001)) * 8) AS bucket, count(*)
      FROM chains WHERE whole GROUP BY ALL
    """,
    "statuses": """
      SELECT "group", code, sum(micros) / 1e6 AS seconds
      FROM (SELECT "group", "from" AS code, micros FROM exits
            UNION ALL SELECT "group", "to", -micros FROM exits)
      WHERE code > 0 GROUP BY ALL HAVING seconds > 0
    """,
    "faults": 'SELECT "group", count(*) FROM chains WHERE NOT whole GROUP BY ALL',
}


def ask_duckdb(tables: Path) -> tuple[float, Answers]:
    import duckdb  # noqa: PLC0415 - installed by the benchmark

    began = time.perf_counter()
    db = duckdb.connect(config={"threads": 2})
    db.execute(
        f"CREATE VIEW moves AS SELECT * FROM read_parquet('{tables}/transitions/*/*.parquet')"
    )
    db.execute(_CHAINS)
    db.execute(_EXITS)
    answers = {name: answer(name, db.execute(sql).fetchall()) for name, sql in _QUERIES.items()}
    return time.perf_counter() - began, answers


def ask_polars(tables: Path) -> tuple[float, Answers]:
    import polars as pl  # noqa: PLC0415 - installed by the benchmark

    began = time.perf_counter()
    key = ["group", "client_id", "episode"]
    moves = pl.scan_parquet(f"{tables}/transitions/*/*.parquet").select([*key, "ts", "from", "to"])
    at, left, to = pl.col("ts").dt.epoch("us"), pl.col("from"), pl.col("to")
    chains = (
        moves.group_by(key)
        .agg(
            to.filter(to > 0).min().alias("cause"),
            at.max().alias("ended"),
            at.min().alias("began"),
            (left == 0).sum().alias("heads"),
            (to == 0).sum().alias("ends"),
            (to.fill_null(_LOST) - left).sum().alias("missing"),
        )
        .collect(engine="streaming")
    )
    is_whole = (pl.col("heads") == 1) & (pl.col("ends") == 1) & (pl.col("missing") == 0)
    seconds = (pl.col("ended") - pl.col("began")) / 1e6
    whole, others = chains.filter(is_whole), chains.filter(~is_whole)
    bucket = (seconds.clip(lower_bound=0.001).log(2) * 8).floor().alias("bucket")
    exits = (
        moves.join(others.lazy().select(key), on=key, how="anti")
        .group_by("group", "from", "to")
        .agg((at - 1_700_000_000_000_000).sum().alias("at"))
        .collect(engine="streaming")
    )
    ways = [
        exits.select("group", pl.col(name).alias("code"), pl.col("at") * sign)
        for name, sign in (("from", 1), ("to", -1))
    ]
    statuses = (
        pl.concat(ways).filter(pl.col("code") > 0).group_by("group", "code").agg(pl.sum("at") / 1e6)
    )
    found = {
        "causes": whole.group_by("group", "cause").agg(pl.len(), seconds.sum().alias("seconds")),
        "lengths": whole.group_by("group", bucket).agg(pl.len()),
        "statuses": statuses.filter(pl.col("at") > 0),
        "faults": others.group_by("group").agg(pl.len()),
    }
    answers = {name: answer(name, frame.rows()) for name, frame in found.items()}
    return time.perf_counter() - began, answers


def answer(name: str, rows: Iterable[Any]) -> dict[str, list[float]]:
    """Return the answer to a question: numbers by what they are of."""
    keys = _KEYS[name]
    return {
        " ".join([row[0], *(str(int(key)) for key in row[1:keys])]): [float(v) for v in row[keys:]]
        for row in rows
    }
