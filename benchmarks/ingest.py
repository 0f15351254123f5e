"""Throughput of ingest: 5,000 transitions a second for ten minutes on two cores.

A writer publishes a spool file every two seconds, as many agents on one volume would, and a
continuous ingest reads them. It prints the backlog in records over time, which must not grow, the
memory and CPU of the processes, and the share of time in batches: at 1 there is no reserve. At the
end the table must hold every record once.
"""

import argparse
import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from metrics.model.sample import Outcome, Sample, SampleKind, Scope, digest, encode, format_time

ROLL_S, LOOK_S = 2.0, 10.0
GROUPS, MEMBERS = 200, 20
SETTLE_S = 300.0
BUSY_MAX, GROWTH_MAX = 1.0, 1.5


def transition(number: int, at: float) -> Sample:
    """Invent the rise or the fall of a member."""
    pair, end = divmod(number, 2)
    group, member = pair % GROUPS, pair // GROUPS % MEMBERS
    return Sample(
        id=digest("bench", number),
        kind=SampleKind.TRANSITION,
        ts=format_time(at),
        agent=f"host-{group}",
        seq=number,
        cluster="bench",
        app=f"app-{group // 4}",
        group=f"group-{group}",
        scope=Scope.CONSUMER,
        client_id=f"client-{group}-{member}",
        member_id=f"client-{group}-{member}-4f1c2b7e",
        host=f"host-{group}-{member}",
        from_=0 if not end else 2,
        to=2 if not end else 0,
        status="None" if end else "NewMember",
        reason=None if end else "need to re-join with the given member-id",
        generation=pair // (GROUPS * MEMBERS),
        episode=digest(pair)[:16],
        outcome=Outcome.SYNCED if end else None,
        source="logs",
    )


class Writer:
    """Publishes the records that are due."""

    def __init__(self, spool: Path, rate: float) -> None:
        self.spool, self.rate = spool, rate
        self.written = self.files = 0
        self.began_at = time.time()

    def catch_up(self) -> None:
        """Publish the lines up to now as one file."""
        due = int(self.rate * (time.time() - self.began_at))
        lines = [
            encode(transition(number, self.began_at + number / self.rate))
            for number in range(self.written, due)
        ]
        partial = self.spool / f".{self.files:06}.part"
        partial.write_bytes(b"".join(lines))
        partial.rename(self.spool / f"{self.files:06}.jsonl")
        self.written, self.files = due, self.files + 1


@contextmanager
def ingest(spool: Path, tables: Path, kind: str, page: Path) -> Iterator[psutil.Process]:
    # fmt: off
    command = [
        sys.executable, "-P", "-m", "agent", "ingest", "--from", str(spool),
        "--tables", str(tables), "--table-format", kind, "--metrics-file", str(page),
    ]
    # fmt: on
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            yield psutil.Process(process.pid)
        finally:
            process.terminate()


def read_metric(page: Path, name: str) -> float:
    """Return a value of the ingest's metrics, 0 while there is none."""
    lines = page.read_text().splitlines() if page.exists() else []
    values = [line.rpartition(" ")[2] for line in lines if line.startswith(name)]
    return sum(map(float, values))


def family(process: psutil.Process) -> Iterator[psutil.Process]:
    """Give Python, JVM and workers, as far as they are still there."""
    for member in (process, *process.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess), member.oneshot():
            yield member


def memory_mib(process: psutil.Process) -> float:
    return sum(member.memory_info().rss for member in family(process)) / 2**20


def cpu_s(process: psutil.Process) -> float:
    return sum(sum(member.cpu_times()[:4]) for member in family(process))


def run(minutes: float, rate: float, kind: str, folder: Path) -> bool:
    spool, tables, page = folder / "spool", folder / "tables", folder / "ingest.prom"
    spool.mkdir()
    rows = 'rebalance_ingest_rows_appended_total{table="transitions"}'
    print(f"{'s':>5} {'written':>9} {'behind':>8} {'MiB':>6} {'files':>6}")
    with ingest(spool, tables, kind, page) as process:
        writer = Writer(spool, rate)
        behind: list[float] = []
        warm: tuple[float, float] | None = None
        look_at = time.time() + LOOK_S
        while (now := time.time()) < writer.began_at + minutes * 60:
            time.sleep(max(0.0, writer.began_at + (writer.files + 1) * ROLL_S - now))
            writer.catch_up()
            if now >= look_at:
                look_at += LOOK_S
                if warm is None and read_metric(page, rows):
                    warm = cpu_s(process), read_metric(page, rows)
                behind.append(writer.written - read_metric(page, rows))
                files = len(list(tables.glob("transitions/**/*.parquet")))
                print(
                    f"{now - writer.began_at:5.0f} {writer.written:9} {behind[-1]:8.0f}"
                    f" {memory_mib(process):6.0f} {files:6}",
                    flush=True,
                )
        busy = read_metric(page, "rebalance_ingest_batch_seconds_total") / (minutes * 60)
        deadline = time.time() + SETTLE_S
        while read_metric(page, rows) < writer.written and time.time() < deadline:
            time.sleep(1.0)
        settled_s = time.time() - deadline + SETTLE_S
        before_s, before = warm or (0.0, 0.0)
        cost = (cpu_s(process) - before_s) / max(1.0, read_metric(page, rows) - before) * rate
        lines, known = read_metric(page, "rebalance_ingest_lines_total"), read_metric(page, rows)
    third = max(1, len(behind) // 3)
    early, late = max(behind[third : 2 * third] or behind), max(behind[-third:])
    exact = lines == known == writer.written
    print(
        f"{kind}: {writer.written} written, {known:.0f} in the table, the last after"
        f" {settled_s:.0f} s; {cost:.2f} cores for {rate:.0f}/s; busy {busy:.2f} of the"
        f" time; most behind in the last third / in the middle one: {late / max(early, 1):.2f}"
    )
    return exact and busy < BUSY_MAX and late < GROWTH_MAX * early


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--rate", type=float, default=5000.0, help="transitions a second")
    parser.add_argument("--table-format", default="parquet")
    parser.add_argument("--short", action="store_true", help="one minute at a tenth of the rate")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-ingest-") as folder:
        minutes, rate = (1.0, 500.0) if options.short else (options.minutes, options.rate)
        good = run(minutes, rate, options.table_format, Path(folder))
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
