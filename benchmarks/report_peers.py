"""The rollups of members' episodes by DuckDB and Polars, in their cheapest known formulation.

An episode is whole if it leaves 0 once, arrives at 0 once, and the sums of its codes at arrival and
at departure are equal (a status only rises, so a missing record shows in the difference). Time in a
code is the sum of exits less the sum of entries, over the moves of whole episodes. The few episodes
that cross a midnight have their moves looked up. Labels are constant here during an episode.
"""

import time
from pathlib import Path

_LOST = 100
"""Stands for where a lost member went to: no code."""
_WHO = ["cluster", "app", "group", "scope", "client_id", "host", "agent", "episode"]
_KEY = ["group", "client_id", "episode"]

_SQL = f"""
CREATE VIEW moves AS
  SELECT ts, cluster, app, "group", scope, client_id, host, agent, episode, kind, "from", "to"
  FROM read_parquet('{{tables}}/transitions/*/*.parquet');

CREATE TABLE chains AS
  SELECT * EXCLUDE (heads, ends, losses, lacking, gravest, began, ended),
         ended::DATE AS batch, began::DATE AS day, epoch_us(ended) - epoch_us(began) AS micros,
         CASE WHEN heads = 0 THEN 'headless' WHEN losses > 0 THEN 'lost'
              WHEN heads = 1 AND ends = 1 AND lacking = 0 THEN 'ended'
              WHEN ends = 0 AND lacking = gravest THEN 'open' ELSE 'gap' END AS kind
  FROM (
    SELECT cluster, app, "group", scope, client_id, host, agent, episode,
           min(ts) AS began, max(ts) AS ended, min("to") FILTER ("to" > 0) AS code,
           max("to") AS gravest, count(*) FILTER ("from" = 0) AS heads,
           count(*) FILTER ("to" = 0) AS ends, count(*) FILTER (kind = 'lost') AS losses,
           sum((coalesce("to", {_LOST}) - "from")::INTEGER) AS lacking
    FROM moves GROUP BY ALL
  );

CREATE TABLE odd AS FROM chains WHERE kind <> 'ended' OR batch <> day;

CREATE TABLE exits AS
  SELECT ts::DATE AS batch, ts::DATE AS day, cluster, app, "group", scope, "from", "to",
         sum(epoch_us(ts)) AS micros
  FROM moves ANTI JOIN odd USING ("group", client_id, episode) GROUP BY ALL
  UNION ALL
  SELECT odd.batch, odd.day, moves.cluster, moves.app, moves."group", moves.scope, "from", "to",
         sum(epoch_us(ts)) AS micros
  FROM moves JOIN odd USING ("group", client_id, episode) WHERE odd.kind = 'ended' GROUP BY ALL;

COPY (
  SELECT batch, 'member' AS what, day, cluster, app, "group", scope, client_id, host, kind, code,
         NULL::INTEGER AS bucket, count(*) AS times,
         sum(micros) FILTER (kind = 'ended') / 1e6 AS seconds
  FROM chains GROUP BY ALL
  UNION ALL BY NAME
  SELECT batch, 'duration' AS what, day, cluster, app, "group", 'member' AS kind,
         floor(log2(greatest(micros / 1e6, 0.001)) * 8)::INTEGER AS bucket, count(*) AS times
  FROM chains WHERE kind = 'ended' AND scope = 'consumer' GROUP BY ALL
  UNION ALL BY NAME
  SELECT batch, 'status' AS what, day, cluster, app, "group", scope, code,
         sum(micros) / 1e6 AS seconds
  FROM (SELECT *, "from" AS code FROM exits UNION ALL SELECT * REPLACE (-micros AS micros), "to"
        FROM exits)
  WHERE code > 0 GROUP BY ALL HAVING seconds > 0
  UNION ALL BY NAME
  SELECT batch, 'quality' AS what, day, agent AS host, kind, count(*) AS times
  FROM odd WHERE kind <> 'ended' GROUP BY ALL
) TO '{{out}}/rows.parquet' (FORMAT parquet);
"""


def ask_duckdb(tables: Path, out: Path) -> float:
    import duckdb  # noqa: PLC0415 - installed by the benchmark

    began = time.perf_counter()
    db = duckdb.connect(config={"threads": 2, "preserve_insertion_order": False})
    db.execute(_SQL.format(tables=tables, out=out))
    return time.perf_counter() - began


def ask_polars(tables: Path, out: Path) -> float:
    import polars as pl  # noqa: PLC0415 - installed by the benchmark

    began = time.perf_counter()
    moves = pl.scan_parquet(f"{tables}/transitions/*/*.parquet", hive_partitioning=False).select(
        *_WHO, "ts", "from", "to", pl.col("kind").alias("event")
    )
    at, left, to = pl.col("ts").dt.epoch("us"), pl.col("from"), pl.col("to")
    is_whole = (pl.col("heads") == 1) & (pl.col("ends") == 1) & (pl.col("lacking") == 0)
    is_open = (pl.col("ends") == 0) & (pl.col("lacking") == pl.col("gravest"))
    chains = (
        moves.group_by(_WHO)
        .agg(
            to.filter(to > 0).min().alias("code"),
            to.max().alias("gravest"),
            pl.col("ts").max().dt.date().alias("batch"),
            pl.col("ts").min().dt.date().alias("day"),
            ((at.max() - at.min()) / 1e6).alias("seconds"),
            (left == 0).sum().alias("heads"),
            (to == 0).sum().alias("ends"),
            (pl.col("event") == "lost").sum().alias("losses"),
            (to.fill_null(_LOST) - left).sum().alias("lacking"),
        )
        .with_columns(
            pl.when(pl.col("heads") == 0)
            .then(pl.lit("headless"))
            .when(pl.col("losses") > 0)
            .then(pl.lit("lost"))
            .when(is_whole)
            .then(pl.lit("ended"))
            .when(is_open)
            .then(pl.lit("open"))
            .otherwise(pl.lit("gap"))
            .alias("kind")
        )
        .drop("heads", "ends", "losses", "lacking", "gravest")
        .collect(engine="streaming")
    )
    whole, others = (chains.filter((pl.col("kind") == "ended") == flag) for flag in (True, False))
    late = whole.filter(pl.col("batch") != pl.col("day"))
    odd = pl.concat([others.select(_KEY), late.select(_KEY)])
    of_group = ["batch", "day", "cluster", "app", "group"]
    day = pl.col("ts").dt.date()
    in_order = moves.join(odd.lazy(), on=_KEY, how="anti").with_columns(batch=day, day=day)
    across = moves.join(late.lazy().select(*_KEY, "batch", "day"), on=_KEY)
    exits = [
        found.group_by(*of_group, "scope", "from", "to")
        .agg((at - 1_700_000_000_000_000).sum().alias("at"))
        .collect(engine="streaming")
        for found in (in_order, across)
    ]
    ways = [
        found.select(*of_group, "scope", pl.col(name).alias("code"), pl.col("at") * sign)
        for found in exits
        for name, sign in (("from", 1), ("to", -1))
    ]
    statuses = (
        pl.concat(ways)
        .filter(pl.col("code") > 0)
        .group_by(*of_group, "scope", "code")
        .agg((pl.sum("at") / 1e6).alias("seconds"))
        .filter(pl.col("seconds") > 0)
    )
    bucket = (pl.col("seconds").clip(lower_bound=0.001).log(2) * 8).floor().cast(pl.Int32)
    times, seconds = pl.len().alias("times"), pl.sum("seconds")
    members = [*of_group, "scope", "client_id", "host", "kind", "code"]
    consumers = whole.filter(pl.col("scope") == "consumer")
    found = {
        "member": pl.concat(
            [
                whole.group_by(members).agg(times, seconds),
                others.group_by(members).agg(times, pl.lit(None, pl.Float64).alias("seconds")),
            ]
        ),
        "duration": consumers.group_by(*of_group, bucket.alias("bucket"))
        .agg(times)
        .with_columns(kind=pl.lit("member")),
        "status": statuses,
        "quality": others.group_by("batch", "day", pl.col("agent").alias("host"), "kind").agg(
            times
        ),
    }
    rows = [frame.with_columns(what=pl.lit(what)) for what, frame in found.items()]
    pl.concat(rows, how="diagonal_relaxed").write_parquet(out / "rows.parquet")
    return time.perf_counter() - began
