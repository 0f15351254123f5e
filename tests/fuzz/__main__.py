"""Fuzzes all targets, one after the other, each in a separate process, and counts executions.

Inputs of interest to libFuzzer are kept in ``.cache/fuzz`` for the next run. An input that fails is
kept in ``tests/fuzz/corpus``, so that the tests run it from then on.
"""

import re
import subprocess
import sys
import time
from collections import deque
from pathlib import Path

import click

from tests.fuzz.targets import TARGETS

_CORPUS = Path(__file__).parent / "corpus"
_FOUND = Path(".cache/fuzz")
_LENGTHS = {2_048: 10, 256: 90}
"""Percent of the runs by the longest input in bytes: short ones, of a few steps, are far faster."""
# The slowest inputs take some milliseconds, but the first one of a kind loads its layouts, and time
# is the wall's: a process of low priority waits. What an input costs in memory is seen as growth:
# Python and the instrumented code take 100 MiB.
_FLAGS = ("-timeout=60", "-rss_limit_mb=300", "-print_final_stats=1")
_EXECUTED = re.compile(r"stat::number_of_executed_units:\s+(\d+)")
_SO_FAR = re.compile(r"#(\d+)\s")
_TOLD_S = 20.0
"""How often to say how far it is; libFuzzer itself does so at new findings and powers of two."""
_LINES_KEPT = 400
"""Of libFuzzer's, for what has failed."""


@click.command(help=__doc__)
@click.option("--runs", default=10_000_000, help="Of each target.")
@click.argument("names", nargs=-1, metavar="[TARGET]...", type=click.Choice([*TARGETS]))
def main(runs: int, names: tuple[str, ...]) -> None:
    executed: dict[str, int] = {}
    failed: list[str] = []
    for name in names or TARGETS:
        started_at = time.monotonic()
        executed[name] = 0
        for length, percent in _LENGTHS.items():
            count, ok = _fuzz(name, runs * percent // 100, length)
            executed[name] += count
            if not ok:
                failed.append(name)
                break
        took_s = time.monotonic() - started_at
        rate = executed[name] / took_s
        click.echo(f"{name:<20}{executed[name]:>12,} in {took_s:6.0f} s {rate:10,.0f}/s")
    click.echo(f"all: {sum(executed.values()):,} executions; failed: {', '.join(failed) or 'none'}")
    sys.exit(1 if failed else 0)


def _fuzz(name: str, runs: int, length_max: int) -> tuple[int, bool]:
    """Return how many executions there were, and whether all went well."""
    found, kept = _FOUND / name, _CORPUS / name
    found.mkdir(parents=True, exist_ok=True)
    flags = [f"-runs={runs}", f"-max_len={length_max}", *_FLAGS]
    command = [sys.executable, "-m", "tests.fuzz.child", name, *flags]
    last, told_at = deque[str](maxlen=_LINES_KEPT), time.monotonic()
    with subprocess.Popen(
        [*command, f"-artifact_prefix={kept}/", str(found), str(kept)],
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as child:
        for line in child.stderr or ():
            last.append(line)
            so_far = _SO_FAR.match(line)
            if so_far and time.monotonic() - told_at > _TOLD_S:
                told_at = time.monotonic()
                click.echo(f"{name}: {int(so_far[1]):,} of {runs:,}", err=True)
    tail = "".join(last)
    match = _EXECUTED.search(tail)
    if child.returncode:
        click.echo(tail, err=True)
    return int(match[1]) if match else 0, not child.returncode


if __name__ == "__main__":
    main()
