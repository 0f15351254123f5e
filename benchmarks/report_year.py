"""Cost of a year's report: the whole command over generated rollups, start of Spark included.

The rollups are those of 600 M transitions, in the files that the job writes: a row for each day,
group and member, code or bucket, as many as for a generated day. A first report of the last day
merges the months, as daily reports would have done. Then the year's report is timed. The peer is
DuckDB, which runs one of the page's queries on the same days.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from datetime import date, timedelta
from importlib.util import find_spec
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import NamedTuple

import psutil

from aggregation.spark.rollups.rollup_manifest import LAYOUT, Manifest, RollupBatch
from aggregation.spark.tables.table_fingerprint import digest_days

YEAR_MAX_S = 25.0
FIRST = date(2025, 1, 1)
"""A whole year that is over: records of a wrong clock, ahead of ours, are left out."""

# Of 37 rebalances a day and group: about so many members, buckets and codes are met at least once.
_ROWS = """
WITH groups AS (
  SELECT d, DATE '{day}' + CAST(d AS INTEGER) AS day, g, 'app-' || (g // 4) AS app,
         'group-' || g AS "group"
  FROM range({first}, {last}) a(d), range({groups}) b(g)
), rows AS (
  SELECT 'rebalance' AS what, *, 'seen' AS kind, n + 2 AS code FROM groups, range(7) c(n)
  UNION ALL BY NAME
  SELECT 'duration' AS what, *, 'group' AS kind, n + 8 AS bucket FROM groups, range(20) c(n)
  UNION ALL BY NAME
  SELECT 'duration' AS what, *, 'member' AS kind, n AS bucket FROM groups, range(25) c(n)
  UNION ALL BY NAME
  SELECT 'status' AS what, *, 'consumer' AS scope, n + 1 AS code FROM groups, range(9) c(n)
  UNION ALL BY NAME
  SELECT 'observed' AS what, * FROM groups
  UNION ALL BY NAME
  SELECT 'member' AS what, *, 'ended' AS kind, n % 3 + 1 AS code, 'consumer' AS scope,
         'client-' || n // 3 AS client_id, 'host-' || n // 3 AS host
  FROM groups, range(60) c(n)
  UNION ALL BY NAME
  SELECT 'trigger' AS what, *, (n + d) % 7 + 2 AS code, 'client-' || (n * 3 + d) % 20 AS client_id,
         'host-' || (n * 3 + d) % 20 AS host,
         CAST(day AS TIMESTAMP) + to_seconds(CAST(random() * 86400 AS INTEGER)) AS last_at,
         'need to re-join with the given member-id' AS last_reason
  FROM groups, range(33) c(n)
  UNION ALL BY NAME
  SELECT 'straggler' AS what, *, 'client-' || (n + d) % 20 AS client_id,
         'host-' || (n + d) % 20 AS host
  FROM groups, range(4) c(n)
  UNION ALL BY NAME
  SELECT 'departure' AS what, *, CASE WHEN n < 2 THEN 'dropped' ELSE 'expired' END AS kind,
         'client-' || (n * 3 + d) % 20 AS client_id, 'host-' || (n * 3 + d) % 20 AS host
  FROM groups, range(10) c(n)
  UNION ALL BY NAME
  SELECT 'storm' AS what, *, CAST(day AS TIMESTAMP) AS last_at FROM groups WHERE g % 50 = d % 50
  UNION ALL BY NAME
  SELECT 'hour' AS what, d, day, n AS bucket FROM groups, range(24) c(n) WHERE g = 0
  UNION ALL BY NAME
  SELECT unnest(['quality', 'skew']) AS what, d, day, 'agent-' || g AS host, 'records' AS kind
  FROM groups WHERE g < 50
)
SELECT day AS batch, what, day, 'bench' AS cluster, app, "group", scope, client_id, host, kind,
       code::INTEGER AS code, bucket::INTEGER AS bucket,
       CASE WHEN what <> 'departure' THEN CAST(1 + random() * 6 AS BIGINT)
            WHEN random() < 0.95 THEN 1 ELSE CAST(2 + random() AS BIGINT) END AS times,
       CASE what WHEN 'observed' THEN 86000 ELSE 1 + random() * 60 END AS seconds,
       CASE WHEN what <> 'observed' THEN 1 + random() * 200 END AS member_seconds, last_at,
       last_reason
FROM rows ORDER BY batch, what, day, "group"
"""


def generate(tables: Path, groups: int, days: int, start: date = FIRST) -> int:
    """Write generated rollups, and the names of their input files."""
    import duckdb  # noqa: PLC0415 - installed by this script

    tables.mkdir()
    db = duckdb.connect(config={"threads": 2, "memory_limit": "6GB"})
    for first in range(0, days, 15):
        last = min(first + 15, days)
        rows = _ROWS.format(first=first, last=last, groups=groups, day=start)
        db.execute(
            f"COPY ({rows}) TO '{tables}/rollups' (FORMAT parquet, PARTITION_BY (batch), APPEND)"
        )
    all_days = [start + timedelta(n) for n in range(days)]
    for day in all_days:
        (tables / "transitions" / f"day={day}").mkdir(parents=True)
        (tables / "transitions" / f"day={day}" / "part-0.parquet").touch()
    for day, files in digest_days((day, "part-0.parquet") for day in all_days).items():
        Manifest(tables / "rollups").mark(day, RollupBatch(files=files, layout=LAYOUT))
    found = db.execute(f"SELECT count(*) FROM '{tables}/rollups/*/*.parquet'").fetchone()
    return 0 if found is None else int(found[0])


class Cost(NamedTuple):
    """Of a command and all that it has started."""

    seconds: float
    user_s: float
    system_s: float
    peak_mib: float

    def __str__(self) -> str:
        return (
            f"{self.seconds:.1f} s, {self.user_s + self.system_s:.0f} CPU s"
            f" ({self.user_s:.0f} user, {self.system_s:.0f} system), {self.peak_mib:,.0f} MiB"
        )


def report(tables: Path, output: Path, *options: str) -> Cost:
    """Write a report."""
    command = ["-P", "-m", "agent", "report", "--tables", tables, "--output", output, *options]
    began, peak, before = time.perf_counter(), 0, getrusage(RUSAGE_CHILDREN)
    with psutil.Popen([sys.executable, *map(str, command)], stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            with suppress(psutil.NoSuchProcess):
                family = [process, *process.children(recursive=True)]
                peak = max(peak, sum(each.memory_info().rss for each in family))
            time.sleep(0.2)
    if process.returncode != 0:
        raise SystemExit(f"report: exit code {process.returncode}")
    after = getrusage(RUSAGE_CHILDREN)
    return Cost(
        seconds=time.perf_counter() - began,
        user_s=after.ru_utime - before.ru_utime,
        system_s=after.ru_stime - before.ru_stime,
        peak_mib=peak / 2**20,
    )


def peer(tables: Path) -> float:
    """Return DuckDB's time for the groups that lose the most time."""
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
        last = str(FIRST + timedelta(days - 1))
        first = report(tables, output, "--from", last)
        year = report(tables, output)
        page = (output / "report.html").stat().st_size
        print(f"{days} days, {groups:,} groups, {rows:,} rows: {page:,} bytes of page")
        print(f"a day's, with all months to put together: {first}")
        print(f"the year's (wanted <= {YEAR_MAX_S:.0f} s): {year}")
        print(f"DuckDB, one of its questions, from the days: {peer(tables):.1f} s")
    sys.exit(0 if year.seconds <= YEAR_MAX_S else 1)


if __name__ == "__main__":
    main()
