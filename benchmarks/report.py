"""Cost of the analysis: the same table from Spark, DuckDB and Polars, with equal rows.

The input is a month of transitions, some of them missing. The output is all rollups of members'
episodes by day: numbers and seconds by member, first code and state, lengths by group and bucket,
seconds in each code by group, and incomplete episodes by agent. Each engine reads the same files
and writes Parquet in its own process, and its start is measured apart. Then its rows are compared
with DuckDB's, row by row. Spark alone computes root causes (`--causes`), since no other engine has
the rules. Missing peers are installed.
"""

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import date, timedelta
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from report_peers import ask_duckdb, ask_polars

FIRST = date(2026, 1, 1)
RATIO_MAX = 1.7
RSS_MAX_GB = 5.0
LARGE = 50_000_000
"""From this many transitions on, the JVM's compilers pay off, and the ratio is checked."""

# Rebalances of groups. An episode has 1 to 3 codes; of 1,000 episodes two lack a record, one ends
# with a record of the loss. In the order of time, as tables are written.
_GENERATE = """
COPY (
  WITH rounds AS (
    SELECT g, r, TIMESTAMP '{first}' + to_microseconds(CAST(
             (r + hash(g * 7919 + r) % 1000 / 1000.0) * {days} * 86400e6 / {rounds} AS BIGINT))
             AS began,
           hash(g, r) % 20000 / 1000.0 + 1 AS length_s
    FROM range({groups}) a(g), range({rounds}) b(r)
    WHERE began BETWEEN DATE '{day}' - INTERVAL 1 HOUR AND DATE '{day}' + INTERVAL 1 DAY
  ), members AS (
    SELECT *, CASE WHEN hash(g, r) % {members} = m THEN 2 + hash(r) % 7 ELSE 1 END AS cause,
           CASE WHEN hash(g, r, m) % 5 = 0 THEN [0, cause, 10, 0]
                WHEN hash(g, r, m) % 50 = 1 THEN [0, cause, 9, 10, 0] ELSE [0, cause, 0] END
             AS codes,
           len(codes) - 1 AS steps, hash(m, r, g) % 1000 AS fault
    FROM rounds, range({members}) c(m)
  ), moves AS (
    SELECT *, unnest(range(1, steps + 1)) AS step,
           began + to_microseconds(CAST((m * 0.01 + (step - 1) * length_s / (steps - 1)) * 1e6
             AS BIGINT)) AS ts
    FROM members
  )
  SELECT 1::BIGINT AS schema, md5(concat_ws('-', g, r, m, step)) AS id,
         CASE WHEN fault = 2 AND step = steps THEN 'lost' ELSE 'transition' END AS kind,
         ts, 'agent-' || (g % 50) AS agent, (r * 4 + step)::BIGINT AS seq, 'bench' AS cluster,
         'app-' || (g // 4) AS app, 'group-' || g AS "group", 'classic' AS group_type,
         'consumer' AS scope, 'client-' || m AS client_id, 'host-' || m AS host,
         codes[step]::BIGINT AS "from",
         CASE WHEN kind = 'transition' THEN codes[step + 1]::BIGINT END AS "to",
         CASE WHEN step < steps THEN r ELSE r + 1 END::BIGINT AS generation,
         substr(md5(concat_ws('-', g, r, m)), 1, 16) AS episode,
         CASE WHEN step = steps THEN 'synced' END AS outcome, 'logs' AS source
  FROM moves
  WHERE ts >= DATE '{day}' AND ts < DATE '{day}' + INTERVAL 1 DAY
    AND NOT (fault < 2 AND step = 1 + r % steps)
  ORDER BY ts
) TO '{folder}/day={day}/part-0.parquet' (FORMAT parquet)
"""


def generate(folder: Path, transitions: int, groups: int, members: int, days: int) -> None:
    import duckdb  # noqa: PLC0415 - installed by this script

    rounds = max(1, round(transitions / (groups * members * 2.24)))
    db = duckdb.connect(config={"threads": 2, "memory_limit": "4GB"})
    for n in range(days):
        day = FIRST + timedelta(days=n)
        (folder / f"day={day}").mkdir(parents=True)
        sizes = {
            "groups": groups,
            "members": members,
            "days": days,
            "rounds": rounds,
            "first": FIRST,
        }
        db.execute(_GENERATE.format(folder=folder, day=day, **sizes))


def ask_spark(tables: Path, out: Path) -> float:
    from aggregation.spark.rollups.parquet_scan import files_of  # noqa: PLC0415
    from aggregation.spark.rollups.rollup_job import all_member_rollups  # noqa: PLC0415
    from aggregation.spark.tables.schema import Table, read_table  # noqa: PLC0415 - of the extra [spark]

    with _session() as spark:
        began = time.perf_counter()
        files = files_of(tables, Table.TRANSITIONS)
        rows = all_member_rollups(read_table(spark, tables, Table.TRANSITIONS), files)
        rows.write.mode("append").parquet(str(out))
        return time.perf_counter() - began


def ask_causes(tables: Path, out: Path) -> float:
    """Explain every rebalance by the live rules."""
    from aggregation.spark.api import group_rebalances  # noqa: PLC0415
    from aggregation.spark.tables.schema import Table, read_table  # noqa: PLC0415

    with _session() as spark:
        began = time.perf_counter()
        rows = group_rebalances(read_table(spark, tables, Table.TRANSITIONS))
        rows.where("cause IS NOT NULL").write.mode("append").parquet(str(out))
        return time.perf_counter() - began


def _session() -> Any:
    from aggregation.spark.session.session import spark_session  # noqa: PLC0415

    settings = {"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": "16"}
    return spark_session("benchmark", lambda _: None, settings=settings)


ENGINES: dict[str, Callable[[Path, Path], float]] = {
    "duckdb": ask_duckdb,
    "polars": ask_polars,
    "spark": ask_spark,
    "causes": ask_causes,
}


_KEYS = """batch, what, day, cluster, app, "group", scope, client_id, host, kind, code, bucket"""
_DIFFERENCES = f"""
SELECT {_KEYS},
       sum(times) FILTER (side = 1) AS times, sum(times) FILTER (side = 2) AS other_times,
       sum(seconds) FILTER (side = 1) AS seconds, sum(seconds) FILTER (side = 2) AS other_seconds
FROM (SELECT {_KEYS}, times, seconds, 1 AS side FROM read_parquet('{{one}}/*.parquet')
      UNION ALL
      SELECT {_KEYS}, times, seconds, 2 AS side FROM read_parquet('{{other}}/*.parquet'))
GROUP BY ALL
HAVING count(DISTINCT side) < 2 OR times IS DISTINCT FROM other_times
    OR (seconds IS NULL) <> (other_seconds IS NULL) OR abs(seconds - other_seconds) > 1e-3
"""


def differences(one: Path, other: Path) -> tuple[int, tuple[Any, ...] | None]:
    """Return how many rows differ by more than rounding, and one of them."""
    import duckdb  # noqa: PLC0415 - installed by this script

    db = duckdb.connect(config={"threads": 2, "memory_limit": "2GB"})
    db.execute(f"CREATE TABLE found AS {_DIFFERENCES.format(one=one, other=other)}")
    return _count(db, "found"), db.execute("FROM found LIMIT 1").fetchone()


def _count(db: Any, rows: str) -> int:
    return int(db.execute(f"SELECT count(*) FROM {rows}").fetchone()[0])


def rows_in(out: Path) -> int:
    """Return how many rows an engine has written."""
    import duckdb  # noqa: PLC0415 - installed by this script

    return _count(duckdb.connect(), f"read_parquet('{out}/*.parquet')")


class Cost(NamedTuple):
    """The cost of an engine, all its processes together; CPU time with its start."""

    seconds: float
    cpu_s: float
    memory_gb: float


def measure(engine: str, tables: Path, out: Path) -> Cost:
    """Run an engine in its own process and return its cost; its rows are in ``out``."""
    out.mkdir()
    command = [sys.executable, __file__, "--engine", engine, "--tables", tables, "--out", out]
    child = psutil.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)
    peak = [0.0, 0.0]
    watcher = threading.Thread(target=_watch, args=(child, peak), daemon=True)
    watcher.start()
    told, _ = child.communicate()
    if child.returncode != 0:
        raise SystemExit(f"{engine} failed")
    watcher.join()
    return Cost(float(told), peak[1], peak[0] / 1e9)


def _watch(child: psutil.Popen, peak: list[float]) -> None:
    while child.is_running():
        try:
            if child.status() == psutil.STATUS_ZOMBIE:
                return
            family = [child, *child.children(recursive=True)]
            peak[0] = max(peak[0], sum(each.memory_info().rss for each in family))
            peak[1] = max(peak[1], sum(sum(each.cpu_times()[:4]) for each in family))
        except psutil.NoSuchProcess:  # one of them has ended meanwhile
            continue
        time.sleep(0.2)


def compare(tables: Path, transitions: int) -> bool:
    """Run all engines and print their cost; return whether rows are equal and bounds hold."""
    base, good = 0.0, True
    for engine in ("duckdb", "polars", "spark"):
        out = tables / engine
        cost = measure(engine, tables, out)
        base = base or cost.seconds
        count, example = differences(tables / "duckdb", out)
        same = f"{rows_in(out):,} rows equal" if not count else f"{count:,} rows DIFFER: {example}"
        fits = engine != "spark" or _fits(cost, transitions, base)
        good = good and not count and fits
        print(
            f"{engine:8} {cost.seconds:7.1f} s  x {cost.seconds / base:4.1f}  "
            f"{cost.cpu_s:6.1f} s of CPU  {cost.memory_gb:4.1f} GB  {same}",
            flush=True,
        )
    print(f"wanted: spark <= {RATIO_MAX} x duckdb at 50 M, <= {RSS_MAX_GB} GB")
    return good


def _fits(cost: Cost, transitions: int, base_s: float) -> bool:
    fast = transitions < LARGE or cost.seconds <= RATIO_MAX * base_s
    return fast and cost.memory_gb <= RSS_MAX_GB


def explain(tables: Path, transitions: int) -> None:
    """Print how fast root causes are found."""
    cost = measure("causes", tables, tables / "causes")
    print(
        f"causes   {cost.seconds:7.1f} s for {rows_in(tables / 'causes'):,} rebalances: "
        f"{transitions / cost.seconds:,.0f} transitions/s, {cost.memory_gb:.1f} GB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transitions", type=float, nargs="+", default=[10e6, 50e6])
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--members", type=int, default=20)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--short", action="store_true", help="small sizes: does it still run")
    parser.add_argument("--causes", action="store_true", help="also the root causes, slow")
    parser.add_argument("--engine", choices=ENGINES, help=argparse.SUPPRESS)
    parser.add_argument("--tables", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.engine:
        print(ENGINES[asked.engine](asked.tables, asked.out))
        return
    if not (find_spec("duckdb") and find_spec("polars")):
        subprocess.check_call([sys.executable, "-m", "pip", "install", "-q", "duckdb", "polars"])
    if asked.short:
        asked.transitions, asked.groups, asked.days = [20_000], 20, 3
    peers = ", ".join(f"{name} {version(name)}" for name in ("duckdb", "polars"))
    good = True
    for transitions in map(int, asked.transitions):
        with tempfile.TemporaryDirectory() as folder:
            tables = Path(folder)
            generate(tables / "transitions", transitions, asked.groups, asked.members, asked.days)
            size = f"{transitions:,} transitions of {asked.groups:,} groups, {asked.days} days"
            print(f"{size}; {peers}")
            good = compare(tables, transitions) and good
            if asked.causes:
                explain(tables, transitions)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
