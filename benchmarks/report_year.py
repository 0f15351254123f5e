"""What a year's report costs: the whole command over made rollups, start of Spark included.

The rollups are those of 600 M transitions: a row for each day, group and member, code or bucket.
The peer is DuckDB, which answers one of the page's questions from the same files.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

YEAR_MAX_S = 25.0

_ROWS = """
WITH groups AS (
  SELECT d, DATE '2026-01-01' + CAST(d AS INTEGER) AS day, g, 'app-' || (g // 4) AS app,
         'group-' || g AS "group"
  FROM range({first}, {last}) a(d), range({groups}) b(g)
), rows AS (
  SELECT 'rebalance' AS what, *, 'seen' AS kind, n + 1 AS code FROM groups, range(5) c(n)
  UNION ALL BY NAME
  SELECT 'duration' AS what, *, 'group' AS kind, n + 8 AS bucket FROM groups, range(15) c(n)
  UNION ALL BY NAME
  SELECT 'duration' AS what, *, 'member' AS kind, n AS bucket FROM groups, range(25) c(n)
  UNION ALL BY NAME
  SELECT 'status' AS what, *, 'consumer' AS scope, n + 1 AS code FROM groups, range(4) c(n)
  UNION ALL BY NAME
  SELECT 'observed' AS what, * FROM groups
  UNION ALL BY NAME
  SELECT 'member' AS what, *, 'ended' AS kind, n % 3 + 1 AS code, 'consumer' AS scope,
         'client-' || n // 3 AS client_id, 'host-' || n // 3 AS host
  FROM groups, range(60) c(n)
  UNION ALL BY NAME
  SELECT 'trigger' AS what, *, n % 5 + 2 AS code, 'client-' || (n + d) % 20 AS client_id,
         'host-' || n AS host, CAST(day AS TIMESTAMP) AS last_at, 'a reason' AS last_reason
  FROM groups, range(10) c(n)
  UNION ALL BY NAME
  SELECT 'straggler' AS what, *, 'client-' || n AS client_id, 'host-' || n AS host
  FROM groups, range(4) c(n)
  UNION ALL BY NAME
  SELECT 'departure' AS what, *, 'rollout' AS kind, 'client-' || n AS client_id,
         'host-' || n AS host FROM groups, range(6) c(n)
  UNION ALL BY NAME
  SELECT 'storm' AS what, *, CAST(day AS TIMESTAMP) AS last_at FROM groups WHERE g % 50 = d % 50
  UNION ALL BY NAME
  SELECT 'hour' AS what, d, day, n AS bucket FROM groups, range(24) c(n) WHERE g = 0
  UNION ALL BY NAME
  SELECT 'quality' AS what, d, day, 'agent-' || g AS host, 'records' AS kind
  FROM groups WHERE g < 50
  UNION ALL BY NAME
  SELECT 'batch' AS what, d, day, 'made' AS kind, '' AS last_reason, '' AS host
  FROM groups WHERE g = 0
)
SELECT day AS batch, what, day, 'bench' AS cluster, app, "group", scope, client_id, host, kind,
       code::INTEGER AS code, bucket::INTEGER AS bucket, 7::BIGINT AS times,
       CAST(CASE what WHEN 'observed' THEN 86000 ELSE 1 + hash(d, "group", what) % 60 END AS DOUBLE)
         AS seconds,
       CASE WHEN what <> 'observed' THEN CAST(20 AS DOUBLE) END AS member_seconds, last_at,
       last_reason
FROM rows ORDER BY batch, what
"""


def generate(tables: Path, groups: int, days: int) -> int:
    import duckdb  # noqa: PLC0415 - installed by this script

    (tables / "transitions").mkdir(parents=True)
    db = duckdb.connect(config={"threads": 2, "memory_limit": "6GB"})
    for first in range(0, days, 15):
        rows = _ROWS.format(first=first, last=min(first + 15, days), groups=groups)
        db.execute(
            f"COPY ({rows}) TO '{tables}/rollups' (FORMAT parquet, PARTITION_BY (batch), APPEND)"
        )
    found = db.execute(f"SELECT count(*) FROM '{tables}/rollups/*/*.parquet'").fetchone()
    return 0 if found is None else int(found[0])


def peer(tables: Path) -> float:
    """Return how long DuckDB takes for who loses the most time."""
    import duckdb  # noqa: PLC0415 - installed by this script

    began = time.perf_counter()
    duckdb.connect(config={"threads": 2}).execute(
        'SELECT "group", sum(times), sum(member_seconds) AS lost_s '
        f"FROM '{tables}/rollups/*/*.parquet' WHERE what = 'rebalance' GROUP BY 1 ORDER BY 3"
    ).fetchall()
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--short", action="store_true", help="a month of 20 groups")
    asked = parser.parse_args()
    groups, days = (20, 30) if asked.short else (asked.groups, asked.days)
    if not find_spec("duckdb"):
        subprocess.check_call([sys.executable, "-m", "pip", "install", "-q", "duckdb"])
    with tempfile.TemporaryDirectory() as folder:
        tables, output = Path(folder, "tables"), Path(folder, "report")
        rows = generate(tables, groups, days)
        command = ["-P", "-m", "agent", "report", "--tables", tables, "--output", output]
        began = time.perf_counter()
        subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - began
        page = (output / "report.html").stat().st_size
        print(f"{days} days, {groups:,} groups, {rows:,} rows: {page:,} bytes of page")
        one = peer(tables)
        print(
            f"report {seconds:.1f} s (wanted <= {YEAR_MAX_S:.0f}), DuckDB one question {one:.1f} s"
        )
    sys.exit(0 if seconds <= YEAR_MAX_S else 1)


if __name__ == "__main__":
    main()
