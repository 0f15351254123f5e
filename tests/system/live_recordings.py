"""`make live-recordings`: recorded logs, written again in real time to an agent that is killed.

Theory of operation. A replay reads a recording at once, and so do all tests of recordings. Here its
lines are written at their pace, with stamps of now, and the agent is killed at random moments.
Afterwards its incidents must be the same in three places: on its page, in its spool by `explain`,
and in a replay of the files as they were written. All three are asked at the same time of the
group, because the session of a member that closed without a LeaveGroup ends after its log.

It needs the recordings of clients (`*/client.log`) and brokers (`broker-*/server.log`).
"""

import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Lock, Thread
from typing import Any, NamedTuple

import click

from metrics.model.sample import format_time
from tests.faults.agent_process import AgentProcess

_CLI = str(Path(sys.executable).with_name("rebalance-agent"))
_CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
_FILES = {"logs": "*/client.log", "broker_log": "broker-*/server.log"}
_TIME = re.compile(rb"(\d{4})([-/])(\d\d)[-/](\d\d)([ T])(\d\d):(\d\d):(\d\d)([.,]\d{1,9})?")
_EPOCH = re.compile(rb"(?<![\d.])1[678]\d{8}(?:\.\d{3,6}|\d{3})?(?!\d)")
"""Seconds with decimals, or milliseconds: librdkafka's stamp, and times of follow-ups."""
_HEAD_BYTES = 200
"""A line's stamp is in its first bytes."""
_LINES_A_S = 4_000
"""Lines that are given new stamps in a second."""
_AFTER_S = 3.0
"""A kill may come so long after the last line."""
_READ_S = 8.0
"""Time to read the last lines."""
_PREPARING = Lock()
"""One recording at a time is given new stamps, so that no line of another is written late."""


class _Line(NamedTuple):
    at: float
    file: int
    number: int
    text: bytes


@dataclass(frozen=True, slots=True)
class _Answers:
    """Incidents by place, each as kind, members, rebalances and whether it goes on."""

    live: list[str]
    spool: list[str]
    replay: list[str]


def _read_time(found: re.Match[bytes]) -> datetime:
    year, _, month, day, _, hour, minute, second, decimals = found.groups()
    date = datetime(int(year), int(month), int(day), tzinfo=UTC)
    micros = int((decimals or b".")[1:].ljust(6, b"0")[:6])
    return date + timedelta(
        hours=int(hour), minutes=int(minute), seconds=int(second), microseconds=micros
    )


def _find_time(line: bytes) -> float:
    """Return a line's time (Unix seconds); 0 without one."""
    found = _TIME.search(line, 0, _HEAD_BYTES)
    if found is not None:
        return _read_time(found).timestamp()
    epoch = _EPOCH.search(line, 0, _HEAD_BYTES)
    if epoch is None:
        return 0.0
    return float(epoch[0]) if b"." in epoch[0] else int(epoch[0].ljust(13, b"0")) / 1000


def _move(line: bytes, by_s: float) -> bytes:
    """Return a line whose times are later."""

    def move_time(found: re.Match[bytes]) -> bytes:
        moved = _read_time(found) + timedelta(seconds=by_s)
        date, day = found[2].decode(), found[5].decode()
        text = moved.strftime(f"%Y{date}%m{date}%d{day}%H:%M:%S").encode()
        decimals = found[9] or b""
        digits = b"%06d000" % moved.microsecond
        return text + decimals[:1] + digits[: max(0, len(decimals) - 1)]

    def move_epoch(found: re.Match[bytes]) -> bytes:
        whole, point, decimals = found[0].partition(b".")
        if point:
            return f"{float(found[0]) + by_s:.{len(decimals)}f}".encode()
        unit = 1000 if len(whole) > len("1700000000") else 1
        return str(int(whole) + round(by_s * unit)).encode()

    return _EPOCH.sub(move_epoch, _TIME.sub(move_time, line))


def _read_lines(files: Sequence[Path]) -> list[_Line]:
    """Return the lines of all files in the order of their times."""
    lines: list[_Line] = []
    for number, path in enumerate(files):
        at = 0.0
        for count, text in enumerate(path.read_bytes().splitlines(keepends=True)):
            at = max(at, _find_time(text))
            lines.append(_Line(at, number, count, text))
    first = min((line.at for line in lines if line.at), default=0.0)
    return sorted(line._replace(at=max(line.at, first)) for line in lines)


def _explain(group: str, source: str, data: bytes = b"") -> list[str]:
    command = [_CLI, "explain", group, "--from", source, "--last", "1000", "--output", "json"]
    done = subprocess.run(command, input=data, capture_output=True, check=False)
    return _list_incidents(json.loads(done.stdout)["incidents"]) if done.stdout else []


def _list_incidents(incidents: Iterable[dict[str, Any]]) -> list[str]:
    """Return one text an incident, without what depends on the place."""
    return sorted(
        f"{each['kind']} of {', '.join(sorted(m['client_id'] or '' for m in each['members']))}"
        f" with {len(each['rebalances'])} rebalances{', ongoing' * each['ongoing']}"
        for each in incidents
    )


def _replay(files: Iterable[Path]) -> bytes:
    command = [_CLI, "replay", "--signals", "--timezone", "UTC", *map(str, files)]
    return subprocess.run(command, capture_output=True, check=False).stdout


def _until(records: bytes, at: float) -> bytes:
    """Return records that are known up to a later time (Unix seconds)."""
    lines = records.splitlines()
    known = next(row for line in reversed(lines) if (row := json.loads(line))["kind"] == "agent")
    last = known | {"ts": format_time(at), "id": "0" * 32}
    return records + json.dumps(last).encode() + b"\n"


class _Scene:
    """One recording that is written to one agent."""

    def __init__(self, folder: Path, recording: Path, sources: Sequence[str]) -> None:
        found = [(kind, path) for kind in sources for path in sorted(recording.glob(_FILES[kind]))]
        self.lines = _read_lines([path for _, path in found])
        self.files = [folder / f"{kind}-{n}" / "app.log" for n, (kind, _) in enumerate(found)]
        for path in self.files:
            path.parent.mkdir()
            path.touch()
        configured = "".join(
            f"  - {{type: {kind}, paths: ['{folder}/{kind}-*/app.log'], timezone: UTC}}\n"
            for kind in sources
        )
        self.agent = AgentProcess(folder / "agent", f"sources:\n{configured}")

    def play(self, kills: int, chance: random.Random) -> _Answers | None:
        """Write all lines and kill the agent; return what it answers, or None without a group."""
        with self.agent:
            self.agent.start_ready()
            with _PREPARING:
                first, last = self.lines[0].at, self.lines[-1].at
                by_s = time.time() + 1.0 + len(self.lines) / _LINES_A_S - first
                moved = [
                    line._replace(at=line.at + by_s, text=_move(line.text, by_s))
                    for line in self.lines
                ]
            writer = Thread(target=self._write, args=(moved,), daemon=True)
            writer.start()
            for at in sorted(chance.uniform(first, last + _AFTER_S) for _ in range(kills)):
                time.sleep(max(0.0, at + by_s - time.time()))
                self.agent.kill()
                time.sleep(chance.uniform(0.0, 2.0))
                self.agent.start_ready()
            writer.join()
            time.sleep(_READ_S)
            return self._ask()

    def _write(self, lines: Iterable[_Line]) -> None:
        files = [path.open("ab", buffering=0) for path in self.files]
        for line in lines:
            time.sleep(max(0.0, line.at - time.time()))
            files[line.file].write(line.text)
        for file in files:
            file.close()

    def _ask(self) -> _Answers | None:
        replayed = _replay(self.files)
        rows = map(json.loads, replayed.splitlines())
        group = next((row["group"] for row in rows if row["group"]), None)
        if group is None:
            return None
        at = time.time()
        live = json.loads(self.agent.get(f"/api/v1/incidents?group={group}&last=1000"))
        self.agent.drain()
        spool = b"".join(path.read_bytes() for path in sorted(self.agent.spool.glob("*.jsonl")))
        known = replayed.splitlines(keepends=True)[-1]
        return _Answers(
            live=_list_incidents(live),
            spool=_explain(group, "-", _until(spool + known, at)),
            replay=_explain(group, "-", _until(replayed, at)),
        )


@click.command(help=__doc__)
@click.option("--corpus", type=click.Path(path_type=Path, exists=True), default=_CORPUS)
@click.option("--source", "sources", multiple=True, type=click.Choice([*_FILES]), default=["logs"])
@click.option("--kills", default=2, help="Of each recording's agent.")
@click.option("--seed", default=12472)
@click.option("--parallel", default=5, help="Recordings at a time; they wait more than they work.")
@click.argument("names", nargs=-1, metavar="[VERSION/SCENE]...")
def main(
    corpus: Path, sources: Sequence[str], kills: int, seed: int, parallel: int, names: Sequence[str]
) -> None:
    found = [path for path in sorted(corpus.glob("*/*")) if path.is_dir()]
    chosen = [path for path in found if not names or str(path.relative_to(corpus)) in names]

    def play(recording: Path) -> bool:
        name = str(recording.relative_to(corpus))
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            scene = _Scene(Path(folder), recording, sources)
            answers = scene.play(kills, random.Random(f"{seed} {name}")) if scene.lines else None
        if answers is None:
            click.echo(f"{name}: no group")
            return True
        is_same = answers.live == answers.spool == answers.replay
        click.echo(f"{name}: {len(answers.live)} incidents, {'same' if is_same else 'DIFFERENT'}")
        if not is_same:
            click.echo(f"  live   {answers.live}\n  spool  {answers.spool}")
            click.echo(f"  replay {answers.replay}")
        return is_same

    with ThreadPoolExecutor(parallel) as pool:
        results = list(pool.map(play, chosen))
    click.echo(f"{sum(results)} of {len(results)} recordings: incidents are the same everywhere")
    sys.exit(0 if results and all(results) else 1)


if __name__ == "__main__":
    main()
