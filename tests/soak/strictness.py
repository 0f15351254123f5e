"""The strictness of a soak's oracle: it gets missing and additional transitions, and must notice.

The oracle leaves some facts open (tests/soak/lives.py), and that could hide an error of the agent.
This measures the share of hidden errors. Transitions are removed, one at a time; and after a 0 a
rebalance of code 1 is added, one at a time. Each change that the oracle does not notice is printed,
with their number. The folder is one of a soak with --keep.
"""

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

import click

from tests.faults.agent_process import spooled
from tests.soak.comparing import compared, is_of

Row = dict[str, Any]
Change = Callable[[Row], list[Row]]


@click.command(help=__doc__)
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--sample", default=600, show_default=True, help="So many of each, by chance.")
@click.option("--seed", default=1, show_default=True)
def main(folder: Path, sample: int, seed: int) -> None:
    logs, chance = sorted((folder / "clients").glob("*.log.debug")), random.Random(seed)
    rows = [
        row
        for row in spooled(folder / "agent" / "state" / "spool")
        if row["kind"] != "sample" and any(is_of(row["client_id"] or "", log) for log in logs)
    ]
    moves = [row for row in rows if row["kind"] == "transition"]
    ends = [row for row in moves if row["to"] == 0]
    for what, every, change in [("left out", moves, left_out), ("too many", ends, one_more)]:
        those = chance.sample(every, min(sample, len(every)))
        count = 0
        with click.progressbar(those, label=what, file=sys.stderr) as each:
            for row in unnoticed(logs, rows, each, change):
                count += 1
                click.echo(f"{what}: {row['ts']} {row['client_id']} {row['from']}>{row['to']}")
        click.echo(f"{what}: {count} of {len(those)} not noticed")


def left_out(_: Row) -> list[Row]:
    """Return no record in place of a transition."""
    return []


def one_more(row: Row) -> list[Row]:
    """Return a transition to 0, and a rebalance after it that did not happen."""
    return [row, {**row, "to": 1}, row]


def unnoticed(
    logs: Sequence[Path], rows: Sequence[Row], those: Iterator[Row], change: Change
) -> Iterator[Row]:
    """Yield the records with a change, made one at a time, that the oracle does not notice."""
    for row in those:
        (log,) = (log for log in logs if is_of(row["client_id"], log))
        of_log = [each for each in rows if is_of(each["client_id"] or "", log)]
        place = next(place for place, each in enumerate(of_log) if each is row)
        changed = [*of_log[:place], *change(row), *of_log[place + 1 :]]
        with redirect_stderr(StringIO()):
            found = compared([log], changed, "changed")
        if not found["differences"]:
            yield row


if __name__ == "__main__":
    main()
