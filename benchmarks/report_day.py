"""Cost of one new day after a year, beside the same day alone and the whole year recomputed.

The rollups of one day of transitions are computed alone, and after a year of generated rollups and
as many days of files, in turns. The whole year is extrapolated from a measured week. Each run is
its own process. Spark's start is measured apart. The search for changes is part of the run. The
cost of merging a month, which is due on its last day, is printed beside it.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path

import psutil
import report
import report_year

HISTORY_MAX, YEAR_LEAST = 1.10, 50.0
YEAR_DAYS = 365
A_DAY = 1640
"""Transitions of a group on a day: 600 M a year for 1,000 groups."""
MEMBERS = 20
_DAY = report.FIRST
_MONTHS = 12
Cost = dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Of a run."""

    groups: int = 200
    rounds: int = 3
    history_days: int = YEAR_DAYS
    anew_days: int = 7
    a_day: int = A_DAY


SHORT = Size(groups=2, rounds=1, history_days=20, anew_days=2, a_day=200)
_INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def make(tables: Path, size: Size, days: int) -> None:
    tables.mkdir(exist_ok=True)
    transitions = size.groups * size.a_day * days
    report.generate(tables / "transitions", transitions, size.groups, MEMBERS, days)


def update(tables: Path) -> Cost:
    """Compute missing days; return wall and CPU seconds after Spark's start."""
    from aggregation.spark.rollups.rollup_store import RollupStore  # noqa: PLC0415 - of the extra [spark]
    from aggregation.spark.session.session import spark_session  # noqa: PLC0415

    with spark_session("benchmark", lambda _: None) as spark:
        began, spent_s = time.perf_counter(), _cpu_s()
        days = RollupStore(spark, tables).update(lambda _: None)
        wall_s = time.perf_counter() - began
        return {"wall": wall_s, "cpu": _cpu_s() - spent_s, "days": len(days)}


def _cpu_s() -> float:
    me = psutil.Process()
    return sum(sum(each.cpu_times()[:2]) for each in (me, *me.children(recursive=True)))


def measure(tables: Path) -> Cost:
    """Update in a process of its own."""
    command = [sys.executable, __file__, "--update", str(tables)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    found: Cost = json.loads(done.stdout)
    return found


def run(size: Size, cost_of: Callable[[Path], Cost], folder: Path) -> bool:
    alone, after, anew = folder / "alone", folder / "after", folder / "anew"
    make(alone, size, 1)
    began = _DAY - timedelta(size.history_days)
    rows = report_year.generate(after, size.groups, size.history_days, began)
    months = cost_of(after) if size.history_days == YEAR_DAYS else None
    shutil.copytree(alone / "transitions", after / "transitions", dirs_exist_ok=True)
    a_day = size.groups * size.a_day
    print(f"{size.groups} groups x {MEMBERS} members, {a_day:,} transitions a day")
    print(f"history: {size.history_days} days, {rows:,} rows of rollups\n")
    found: dict[Path, list[Cost]] = {alone: [], after: []}
    for _ in range(size.rounds):
        for tables, name in ((alone, "alone"), (after, "after them")):
            cost = cost_of(shutil.copytree(tables, folder / "copy"))
            shutil.rmtree(folder / "copy")
            if cost["days"] != 1:
                raise SystemExit(f"{name}: {cost['days']} days were done instead of one")
            found[tables].append(cost)
            print(f"{name:>14}: {cost['wall']:6.1f} s, {cost['cpu']:6.1f} CPU s", flush=True)
    make(anew, size, size.anew_days)
    whole = cost_of(anew)
    print(f"{size.anew_days:>9} days: {whole['wall']:6.1f} s, {whole['cpu']:6.1f} CPU s")
    if months is not None:
        print(f"putting a month together: {months['cpu'] / _MONTHS:.1f} CPU s")
    year = {key: whole[key] * YEAR_DAYS / size.anew_days for key in whole}
    return judge(found[alone], found[after], year)


def judge(alone: Sequence[Cost], after: Sequence[Cost], year: Cost) -> bool:
    """Print both ratios and return whether they hold."""
    print()
    good = True
    for key, unit in (("wall", "s"), ("cpu", "CPU s")):
        day = min(cost[key] for cost in after)
        history = day / min(cost[key] for cost in alone)
        times = year[key] / day
        print(
            f"{unit:>5}: after them / alone {history:.2f} (wanted <= {HISTORY_MAX:.2f});"
            f" a year anew, extrapolated, {year[key]:,.0f} = {times:.0f} x the day"
            f" (wanted >= {YEAR_LEAST:.0f})"
        )
        good = good and history <= HISTORY_MAX and times >= YEAR_LEAST
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=Size().groups)
    parser.add_argument("--rounds", type=int, default=Size().rounds)
    parser.add_argument(
        "--short", action="store_true", help="twenty days of two groups, all in one process"
    )
    parser.add_argument("--update", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.update:
        print(json.dumps(update(asked.update)))
        return
    if not find_spec("duckdb"):
        subprocess.check_call([sys.executable, "-m", "pip", "install", "-q", "duckdb"])
    with tempfile.TemporaryDirectory() as folder:
        if asked.short:
            good = run_short(Path(folder))
        else:
            good = run(Size(groups=asked.groups, rounds=asked.rounds), measure, Path(folder))
    sys.exit(0 if good else 1)


def run_short(folder: Path) -> bool:
    """Show that it works: what one process does first takes it longer."""
    from aggregation.spark.session.session import spark_session  # noqa: PLC0415 - of the extra [spark]

    with spark_session("benchmark", lambda _: None, settings=_INTERPRETED, quick=True):
        return run(SHORT, update, folder)


if __name__ == "__main__":
    main()
