"""The path from a log file to signals beside mtail and grep: MB/s of one core, and the ratios.

There are two logs: an application's with 0.1 % Kafka client lines, and one of Kafka client lines
alone (a recorded session of a Kafka 4.3 consumer, repeated). The agent's part is the whole path of
`LogSource`: file, tail, parser, interpreter, signals. Its start (imports, dialects) is not counted.
The peers' start is counted and takes milliseconds. Rounds are interleaved, so that other load
affects all alike.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

MIB = 1 << 20
LITERAL = "clientId="
"""grep's best literal of a client's lines: no other line begins as it does."""
START_AT = datetime(2026, 11, 21, 6, 33, 44, tzinfo=UTC)
SESSION = Path(__file__).with_name("client_session.log")
OTHER = [
    "INFO Order {n} of group {k} moved to topic orders-{k} (com.example.orders.OrderService)",
    "DEBUG consumer offset {n} of partition {k} is stored, lag {m} (com.example.cache.OffsetStore)",
    'INFO 10.1.{k}.7 "GET /api/v1/topics/{n} HTTP/1.1" 200 {m} (com.example.web.AccessLog)',
    "WARN Slow query took {k} ms: select id from partition where offset = {m} (com.example.Pool)",
    "INFO Handed batch {n} of {k} records to the consumer, offset {m} (com.example.etl.Writer)",
    "INFO The rebalance of shelf {k} is over: {n} items a group (com.example.shelf.Rebalancer)",
]
"""Everyday words: group, topic, partition, consumer, offset, rebalance."""
MTAIL_PATTERNS = [
    "Request joining group due to: group is already rebalancing",
    "Request joining group due to: need to re-join with the given member-id",
    "Request joining group due to: encountered UNKNOWN_MEMBER_ID",
    "Request joining group due to: encountered ILLEGAL_GENERATION",
    "Request joining group due to: rebalance failed due to",
    "Request joining group due to: cached metadata has changed",
    "Request joining group due to: subscription has changed",
    "Request joining group due to: need to revoke partitions",
    "Request joining group due to: consumer pro-actively leaving",
    "Member .* sending LeaveGroup request to coordinator .* due to the consumer is being closed",
    "Member .* sending LeaveGroup request to coordinator .* due to the consumer unsubscribed",
    "consumer poll timeout has expired",
    "\\(Re-\\)joining group",
    "Successfully joined group with generation",
    "Successfully synced group in generation",
    "Adding newly assigned partitions",
    "Revoke previously assigned partitions",
    "Attempt to heartbeat failed since group is rebalancing",
    "Requested to schedule immediate rebalance",
    "Triggering the followup rebalance scheduled for",
]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The least ratio of our MB/s to a peer's."""

    log: str
    peer: str
    ratio: float


OTHERS, CLIENTS = "mostly other lines", "client lines only"
WANTED = [
    Wanted(OTHERS, "mtail, counting", 95),
    Wanted(OTHERS, "grep -F", 0.6),
    Wanted(CLIENTS, "mtail, counting", 6),
    Wanted(CLIENTS, "mtail, by client", 6),
]
Tool = Callable[[Path], float]
"""Reads a log and returns the CPU seconds that it took."""


class CaughtUp(Exception):  # noqa: N818 - no error
    """Everything has been read."""


def with_time(number: int, text: str) -> str:
    at = START_AT + timedelta(milliseconds=number)
    return f"[{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03d}] {text}"


def client_lines() -> Iterator[str]:
    """Yield the recorded session without end; stamps, member ids and generations go on."""
    session, number = SESSION.read_text("utf-8").splitlines(True), 0
    for cycle in itertools.count():
        for line in session:
            text = re.sub(r"[0-9a-f]{8}(?=-[0-9a-f]{4}-)", f"{cycle:08x}", line)
            text = re.sub(r"(?<=generationId=)(\d+)", rf"{cycle}\1", text)
            number += 1
            yield with_time(number, text.partition("] ")[2]) if text.startswith("[2") else text


def other_lines() -> Iterator[str]:
    clients = (line for line in client_lines() if LITERAL in line)
    for number in itertools.count(1):
        text = OTHER[number % len(OTHER)].format(n=number, m=number * 7919 % 99991, k=number % 251)
        yield with_time(number, text + "\n") if number % 1000 else next(clients)


def write_log(path: Path, size: int, lines: Iterator[str]) -> None:
    with path.open("w", encoding="utf-8", buffering=MIB) as file:
        written = 0
        while written < size:
            written += file.write(next(lines))


async def read_ours(path: Path) -> dict[str, float]:
    """Read a file to its end as the agent does; return the cost."""
    from agent.sources.logs.config import LogConfig  # noqa: PLC0415 - not counted
    from agent.sources.logs.source import LogSource  # noqa: PLC0415

    async def pause(seconds: float) -> None:
        if seconds:
            raise CaughtUp
        await asyncio.sleep(0)

    async def read(log: Path) -> dict[str, float]:
        source = LogSource(LogConfig(paths=(str(log),)), timezone="UTC", pause=pause)
        started = time.process_time()
        with contextlib.suppress(CaughtUp):
            await source.run(lambda _signals: None, lambda _stream, _at: None)
        health = source.health
        cpu_s = time.process_time() - started
        return {"cpu_s": cpu_s, "signals": health.signals, "bytes": health.read_bytes}

    for _ in range(2):  # expressions are compiled at their first use, some by a repeated line
        await read(SESSION)
    return await read(path)


def cpu_of(command: list[str]) -> tuple[float, bytes]:
    """Run a command; return its CPU seconds and its output."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=os.environ | {"LC_ALL": "C"}
    ) as process:
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{command[0]} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, output


def ours(path: Path) -> float:
    _, output = cpu_of([sys.executable, str(Path(__file__).absolute()), "--ours", str(path)])
    found = json.loads(output)
    assert found["bytes"] == path.stat().st_size
    assert found["signals"] > 0
    return float(found["cpu_s"])


def counting() -> str:
    """Return mtail's program that counts lines by pattern, without clients."""
    counters = "".join(f"counter c{i}\n" for i in range(len(MTAIL_PATTERNS)))
    return counters + "".join(
        f"/{text}/ {{\n  c{i}++\n}}\n" for i, text in enumerate(MTAIL_PATTERNS)
    )


def by_client() -> str:
    """Return mtail's program that counts by pattern, client and group, as a status needs it."""
    who = r"\[Consumer clientId=(?P<client>[^,]+), groupId=(?P<group>[^\]]+)\] "
    counters = "".join(f"counter c{i} by client, group\n" for i in range(len(MTAIL_PATTERNS)))
    return counters + "".join(
        f"/{who}{text}/ {{\n  c{i}[$client][$group]++\n}}\n"
        for i, text in enumerate(MTAIL_PATTERNS)
    )


def mtail(programs: Path, program: str) -> Tool:
    programs.mkdir()
    (programs / "rebalance.mtail").write_text(program)
    options = [
        "--one_shot",
        "--one_shot_format",
        "prometheus",
        "--port",
        "0",
        "--address",
        "127.0.0.1",
        "--log_dir",
        str(programs),
        "--progs",
        str(programs),
    ]

    def run(path: Path) -> float:
        seconds, output = cpu_of(["mtail", *options, "--logs", str(path)])
        found = re.findall(rb"^c\d+{.*} (\d+)", output, re.MULTILINE)
        assert any(map(int, found)), "mtail has counted nothing"
        return seconds

    return run


def grep(path: Path) -> float:
    # -c: with its output in /dev/null, grep would stop at the first match.
    return cpu_of(["grep", "-F", "-c", LITERAL, str(path)])[0]


def measure(path: Path, tools: dict[str, Tool], rounds: int) -> dict[str, list[float]]:
    """Return each tool's MB/s of a core, a value a round."""
    megabytes = path.stat().st_size / 1e6
    grep(path)  # the file is in the page cache from here on
    speeds: dict[str, list[float]] = {name: [] for name in tools}
    for _ in range(rounds):
        for name, run in tools.items():
            speeds[name].append(megabytes / max(run(path), 1e-3))
    return speeds


def spread(values: Sequence[float]) -> str:
    return f"{min(values):9.2f} {statistics.median(values):9.2f} {max(values):9.2f}"


def tell(log: str, speeds: dict[str, list[float]]) -> bool:
    """Print one log's figures; return whether the median of every ratio is as wanted."""
    print(f"\n{log}: MB/s of a core (min, median, max)")
    for name, values in speeds.items():
        print(f"  {name:24}{spread(values)}")
    met = True
    for wanted in WANTED:
        if wanted.log != log:
            continue
        ratios = [a / b for a, b in zip(speeds["ours"], speeds[wanted.peer], strict=True)]
        ok = statistics.median(ratios) >= wanted.ratio
        print(
            f"  ours / {wanted.peer:17}{spread(ratios)}   wanted {wanted.ratio}:",
            "met" if ok else "MISSED",
        )
        met = met and ok
    return met


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="logs of a hundredth, three rounds")
    parser.add_argument("--ours", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.ours:
        json.dump(asyncio.run(read_ours(chosen.ours)), sys.stdout)
        return 0
    if shutil.which("mtail") is None:
        sys.exit("mtail is missing; it is a Debian package: apt-get install mtail")
    size, rounds = (4 * MIB, 3) if chosen.short else (400 * MIB, 5)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "app.log"
        tools = {
            "ours": ours,
            "grep -F": grep,
            "mtail, counting": mtail(Path(name) / "counting", counting()),
            "mtail, by client": mtail(Path(name) / "by_client", by_client()),
        }
        write_log(path, size, other_lines())
        met = [tell(OTHERS, measure(path, tools, rounds))]
        write_log(path, size // 4, client_lines())
        met += [tell(CLIENTS, measure(path, tools, rounds))]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
