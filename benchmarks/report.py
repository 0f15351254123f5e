"""What the analysis costs: the same questions to Spark, DuckDB and Polars, equal answers demanded.

Three groupings of members' episodes are asked of the transitions of a month; each
engine runs in a process of its own, its start apart. Root causes (`--causes`) are asked of Spark
alone, for no other engine has the rules. It installs its peers where they are missing.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil

Answers = dict[str, dict[str, list[float]]]
RATIO_MAX = 2.5
RSS_MAX_GB = 5.0
_CODES = range(1, 14)
_ENTRIES = [f"entered_{code}" for code in _CODES]

# A rebalance of a group is 2 or 3 transitions of each member: 1 or a cause, sometimes 10, then 0.
_GENERATE = """
COPY (
  WITH rounds AS (
    SELECT g, r, TIMESTAMP '2026-01-01' + to_microseconds(CAST(
             (r + hash(g * 7919 + r) % 1000 / 1000.0) * {days} * 86400e6 / {rounds} AS BIGINT))
             AS began,
           hash(g, r) % 20000 / 1000.0 + 1 AS length_s
    FROM range({groups}) a(g), range({rounds}) b(r)
  ), members AS (
    SELECT *, CASE WHEN hash(g, r) % {members} = m THEN 2 + hash(r) % 7 ELSE 1 END AS cause,
           hash(g, r, m) % 5 = 0 AS revokes
    FROM rounds, range({members}) c(m)
  ), moves AS (
    SELECT *, 0 AS step, 0 AS "from", cause AS "to" FROM members
    UNION ALL SELECT *, 1, cause, 10 FROM members WHERE revokes
    UNION ALL SELECT *, 2, CASE WHEN revokes THEN 10 ELSE cause END, 0 FROM members
  )
  SELECT 1::BIGINT AS schema, md5(concat_ws('-', g, r, m, step)) AS id, 'transition' AS kind,
         began + to_microseconds(CAST((m * 0.01 + step * length_s / 2) * 1e6 AS BIGINT)) AS ts,
         'agent-' || (g % 50) AS agent, (r * 3 + step)::BIGINT AS seq, 'bench' AS cluster,
         'app-' || (g // 4) AS app, 'group-' || g AS "group", 'classic' AS group_type,
         'consumer' AS scope, 'client-' || m AS client_id, 'host-' || m AS host,
         "from"::BIGINT AS "from", "to"::BIGINT AS "to",
         CASE WHEN step = 0 THEN r ELSE r + 1 END::BIGINT AS generation,
         substr(md5(concat_ws('-', g, r, m)), 1, 16) AS episode,
         CASE WHEN step = 2 THEN 'synced' END AS outcome, 'logs' AS source,
         CAST(ts AS DATE) AS day
  FROM moves
) TO '{folder}' (FORMAT parquet, PARTITION_BY (day))
"""

_CHAINS = """
  SELECT "group", {entries}, max(ts) FILTER ("to" = 0) AS ended
  FROM moves GROUP BY "group", client_id, episode
"""


def generate(folder: Path, transitions: int, groups: int, members: int, days: int) -> None:
    import duckdb  # noqa: PLC0415 - installed by this script

    rounds = max(1, round(transitions / (groups * members * 2.2)))
    duckdb.connect(config={"threads": 2, "memory_limit": "4GB"}).execute(
        _GENERATE.format(folder=folder, groups=groups, members=members, days=days, rounds=rounds)
    )


def ask_duckdb(tables: Path) -> tuple[float, Answers]:
    import duckdb  # noqa: PLC0415 - installed by this script

    began = time.perf_counter()
    db = duckdb.connect(config={"threads": 2})
    db.execute(
        f"CREATE VIEW moves AS SELECT * FROM read_parquet('{tables}/transitions/*/*.parquet')"
    )
    entries = ", ".join(
        f'min(ts) FILTER ("to" = {code}) AS {name}'
        for code, name in zip(_CODES, _ENTRIES, strict=True)
    )
    db.execute(f"CREATE TABLE chains AS {_CHAINS.format(entries=entries)}")
    start = f"least({', '.join(_ENTRIES)})"
    cause = " ".join(f"WHEN {name} IS NOT NULL THEN {c}" for c, name in enumerate(_ENTRIES, 1))
    db.execute(
        f"CREATE VIEW episodes AS SELECT *, CASE {cause} END AS cause, "
        f"epoch_us(ended) - epoch_us({start}) AS micros FROM chains WHERE ended IS NOT NULL"
    )
    held = ", ".join(
        f"sum(coalesce(epoch_us(least({', '.join([*_ENTRIES[n + 1 :], 'ended'])})) "
        f"- epoch_us({name}), 0)) / 1e6"
        for n, name in enumerate(_ENTRIES)
    )
    bucket = "floor(log2(greatest(micros / 1e6, 0.001)) * 8)"
    queries = {
        "causes": 'SELECT "group", cause, count(*), sum(micros) / 1e6 FROM episodes GROUP BY 1, 2',
        "lengths": f'SELECT "group", {bucket}, count(*) FROM episodes GROUP BY 1, 2',
        "statuses": f'SELECT "group", {held} FROM episodes GROUP BY 1',
    }
    answers = {name: _answer(name, db.execute(sql).fetchall()) for name, sql in queries.items()}
    return time.perf_counter() - began, answers


def ask_polars(tables: Path) -> tuple[float, Answers]:
    import polars as pl  # noqa: PLC0415 - installed by this script

    began = time.perf_counter()
    columns = ["group", "client_id", "episode", "ts", "to"]
    moves = pl.scan_parquet(f"{tables}/transitions/*/*.parquet").select(columns)
    ts, to = pl.col("ts"), pl.col("to")
    entries = [ts.filter(to == c).min().alias(name) for c, name in enumerate(_ENTRIES, 1)]
    micros = (pl.col("ended") - pl.min_horizontal(_ENTRIES)).dt.total_microseconds()
    codes = [
        pl.when(pl.col(name).is_not_null()).then(pl.lit(code))
        for code, name in zip(_CODES, _ENTRIES, strict=True)
    ]
    episodes = (
        moves.group_by("group", "client_id", "episode")
        .agg(*entries, ts.filter(to == 0).max().alias("ended"))
        .filter(pl.col("ended").is_not_null())
        .with_columns(micros.alias("micros"), pl.coalesce(codes).alias("cause"))
        .collect(engine="streaming")
        .lazy()
    )
    held = [
        (pl.min_horizontal([*_ENTRIES[n + 1 :], "ended"]) - pl.col(name))
        .dt.total_microseconds()
        .sum()
        .truediv(1e6)
        .alias(f"held_{n + 1}")
        for n, name in enumerate(_ENTRIES)
    ]
    seconds = pl.col("micros") / 1e6
    bucket = (seconds.clip(lower_bound=0.001).log(2) * 8).floor().alias("bucket")
    found = {
        "causes": episodes.group_by("group", "cause").agg(pl.len(), seconds.sum()),
        "lengths": episodes.group_by("group", bucket).agg(pl.len()),
        "statuses": episodes.group_by("group").agg(held),
    }
    answers = {name: _answer(name, frame.collect().rows()) for name, frame in found.items()}
    return time.perf_counter() - began, answers


def ask_spark(tables: Path) -> tuple[float, Answers]:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - of the extra [spark]

    from aggregation.spark.member_episodes import parts  # noqa: PLC0415
    from aggregation.spark.rollups import HELD, summed  # noqa: PLC0415
    from aggregation.spark.schema import Table, read_table  # noqa: PLC0415

    with _session() as spark:
        began = time.perf_counter()
        sums = summed(parts(read_table(spark, tables, Table.TRANSITIONS))).persist()
        members = sums.where("part = 'member'")
        found = {
            "causes": members.groupBy("group", "code").agg(F.sum("times"), F.sum("seconds")),
            "lengths": sums.where("part = 'length'").groupBy("group", "bucket").agg(F.sum("times")),
            "statuses": members.groupBy("group").agg(*(F.sum(name) for name in HELD)),
        }
        answers = {name: _answer(name, frame.collect()) for name, frame in found.items()}
        return time.perf_counter() - began, answers


def ask_causes(tables: Path) -> tuple[float, Answers]:
    """Explain every rebalance by the live rules."""
    from aggregation.spark.functions import group_rebalances  # noqa: PLC0415
    from aggregation.spark.schema import Table, read_table  # noqa: PLC0415

    with _session() as spark:
        began = time.perf_counter()
        rows = group_rebalances(read_table(spark, tables, Table.TRANSITIONS))
        count = rows.where("cause IS NOT NULL").count()
        return time.perf_counter() - began, {"explained": {"all": [count]}}


def _session() -> Any:
    from aggregation.spark.session import spark_session  # noqa: PLC0415

    settings = {"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": "16"}
    return spark_session("benchmark", lambda _: None, settings=settings)


ENGINES: dict[str, Callable[[Path], tuple[float, Answers]]] = {
    "duckdb": ask_duckdb,
    "polars": ask_polars,
    "spark": ask_spark,
    "causes": ask_causes,
}
_KEYS = {"causes": 2, "lengths": 2, "statuses": 1}


def _answer(name: str, rows: list[Any]) -> dict[str, list[float]]:
    keys = _KEYS[name]
    told = ([*map(str, row[:1]), *(int(k) for k in row[1:keys])] for row in rows)
    return {
        " ".join(map(str, key)): [float(value) for value in row[keys:]]
        for key, row in zip(told, rows, strict=True)
    }


def differences(one: Answers, other: Answers) -> list[str]:
    """Return where answers differ by more than rounding."""
    found = []
    for name in one:
        for key in one[name].keys() | other[name].keys():
            a, b = one[name].get(key), other[name].get(key)
            if a is None or b is None or any(abs(x - y) > 1e-3 for x, y in zip(a, b, strict=True)):
                found.append(f"{name} {key}: {a} and {b}")
    return found


def measure(engine: str, tables: Path) -> tuple[float, float, Answers]:
    """Return seconds, the peak of all its processes' memory in GB, and the answers."""
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [sys.executable, __file__, "--engine", engine, "--tables", tables]
        child = psutil.Popen([*map(str, command), "--out", out.name])
        peak = [0]
        watcher = threading.Thread(target=_watch, args=(child, peak), daemon=True)
        watcher.start()
        if child.wait() != 0:
            raise SystemExit(f"{engine} failed")
        watcher.join()
        told = json.loads(Path(out.name).read_text())
    return told["seconds"], peak[0] / 1e9, told["answers"]


def _watch(child: psutil.Popen, peak: list[int]) -> None:
    while child.is_running() and child.status() != psutil.STATUS_ZOMBIE:
        try:
            family = [child, *child.children(recursive=True)]
            peak[0] = max(peak[0], sum(each.memory_info().rss for each in family))
        except psutil.NoSuchProcess:
            continue
        time.sleep(0.2)


def compare(tables: Path) -> bool:
    """Ask all engines and print what it took; tell whether answers are equal and bounds hold."""
    found = {engine: measure(engine, tables) for engine in ("duckdb", "polars", "spark")}
    base, good = found["duckdb"][0], True
    for engine, (seconds, memory_gb, answers) in found.items():
        wrong = differences(found["duckdb"][2], answers)
        good = good and not wrong
        same = "equal" if not wrong else f"{len(wrong)} DIFFER, such as {wrong[0]}"
        print(
            f"{engine:8} {seconds:7.1f} s  x {seconds / base:4.1f}  {memory_gb:4.1f} GB  "
            f"answers {same}"
        )
    memory_gb = found["spark"][1]
    print(f"wanted: spark <= {RATIO_MAX} x duckdb at 50 M, <= {RSS_MAX_GB} GB")
    return good and memory_gb <= RSS_MAX_GB


def explain(tables: Path, transitions: int) -> None:
    """Print how fast root causes are found."""
    seconds, memory_gb, answers = measure("causes", tables)
    count = answers["explained"]["all"][0]
    print(
        f"causes   {seconds:7.1f} s for {count:,.0f} rebalances: {transitions / seconds:,.0f} "
        f"transitions/s, {memory_gb:.1f} GB"
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
        seconds, answers = ENGINES[asked.engine](asked.tables)
        asked.out.write_text(json.dumps({"seconds": seconds, "answers": answers}))
        return
    if not (find_spec("duckdb") and find_spec("polars")):
        subprocess.check_call([sys.executable, "-m", "pip", "install", "-q", "duckdb", "polars"])
    if asked.short:
        asked.transitions, asked.groups, asked.days = [20_000], 20, 3
    good = True
    for transitions in map(int, asked.transitions):
        with tempfile.TemporaryDirectory() as folder:
            tables = Path(folder)
            generate(tables / "transitions", transitions, asked.groups, asked.members, asked.days)
            print(f"{transitions:,} transitions of {asked.groups:,} groups, {asked.days} days")
            good = compare(tables) and good
            if asked.causes:
                explain(tables, transitions)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
