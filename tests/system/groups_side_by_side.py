"""``groups`` and Kafka's newest tools on one cluster with a group of every type, as a table.

Each row is one command of Kafka's tools and our command for the same. The contents are compared
cell by cell: a cell counts as shown if our document has the same value for the same group, member
or partition.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from agent.lab.artifacts import NEWEST_VERSION, default_cache
from tests.system.inspected import (
    CONSUMER_GROUPS,
    GROUPS,
    SHARE_GROUPS,
    STREAMS_GROUPS,
    Group,
    groups_of,
    ours,
    spelled,
    until,
)
from tests.system.zoo import Zoo

_USUAL_FLAGS = (
    *("-Xmx256M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"),
    *("-Djava.awt.headless=true", "-Dcom.sun.management.jmxremote=true"),
    "-Dcom.sun.management.jmxremote.authenticate=false",
    "-Dcom.sun.management.jmxremote.ssl=false",
)
"""Those of kafka-run-class.sh in Kafka 4; the lab's own flags make a lighter JVM."""
_LOGGING = """\
rootLogger.level=WARN
rootLogger.appenderRef.console.ref=console
appender.console.type=Console
appender.console.name=console
appender.console.target=SYSTEM_ERR
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=[%d] %p %m (%c)%n
"""
"""As the tools log by default: warnings, to stderr."""
WALL_MIN, CPU_MIN = 3.0, 4.0
ROUNDS = 3
"""Runs of each command, theirs and ours in turn: the medians count."""
_READING = ("classic", "consumer", "streams")
_ID = re.compile(r"\s+(\(\d+\))")
_HEADS = re.compile(r"\S+(?: \(ID\))?")
_Cells = dict[str, str]
_Key = tuple[str, ...]


class Case(NamedTuple):
    """One comparison. ``rows`` are our document's cells in the tool's columns, by row."""

    name: str
    main: str
    theirs: Sequence[str]
    ours: Sequence[str]
    rows: Callable[[Mapping[str, Group]], dict[_Key, _Cells]]
    key: _Key


class Run(NamedTuple):
    """A command that has ended."""

    code: int
    text: str
    wall_s: float
    cpu_s: float


class Row(NamedTuple):
    """One line of the table."""

    name: str
    cells: int
    shown: int
    missing: tuple[str, ...]
    theirs: Run
    ours: Run

    @property
    def wall_ratio(self) -> float:
        return self.theirs.wall_s / self.ours.wall_s

    @property
    def cpu_ratio(self) -> float:
        return self.theirs.cpu_s / self.ours.cpu_s


class ExitCode(NamedTuple):
    """The exit codes of the same mistake."""

    name: str
    theirs: int
    ours: int


def compare(zoo: Zoo, rounds: int = ROUNDS) -> Iterator[Row]:
    """Run every case, and compare contents, time and CPU."""
    for case in CASES:
        pairs = [(_run(_theirs(zoo, case)), _run(_ours(zoo, case.ours))) for _ in range(rounds)]
        theirs, own = (_median(runs) for runs in zip(*pairs, strict=True))
        assert own.code == theirs.code == 0, (own, theirs)
        document = json.loads(_run(_ours(zoo, [*case.ours, "--output", "json"])).text)
        rows = case.rows({group["group"]: group for group in document["groups"]})
        printed = [(head, value, row) for row in _parse(theirs.text) for head, value in row.items()]
        missing = tuple(
            f"{' '.join(row.get(name, '') for name in case.key)} {head}: {value!r}"
            for head, value, row in printed
            if rows.get(tuple(row.get(name, "") for name in case.key), {}).get(head) != value
        )
        yield Row(case.name, len(printed), len(printed) - len(missing), missing, theirs, own)


def compare_exit_codes(zoo: Zoo) -> Iterator[ExitCode]:
    """Make the same mistakes with both."""
    describe = ("--describe", "--group")
    for name, main, theirs, same in (
        ("no such group", CONSUMER_GROUPS, (*describe, "nope"), ("describe", "nope")),
        (
            "a group of another type",
            CONSUMER_GROUPS,
            (*describe, "share"),
            ("describe", "share", "--group-type", "consumer"),
        ),
        (
            "one group of two is missing",
            CONSUMER_GROUPS,
            (*describe, "consumer", "--group", "nope"),
            ("describe", "consumer", "nope"),
        ),
        ("an unknown option", GROUPS, ("--list", "--nope"), ("list", "--nope")),
    ):
        found = _run([*zoo.tools.command(main), *theirs])
        yield ExitCode(name, found.code, _run(_ours(zoo, same)).code)


def render(rows: Sequence[Row], codes: Sequence[ExitCode]) -> str:
    """Return the tables, with the missing cells."""
    return "\n".join((HEADER, *map(render_row, rows), render_codes(codes)))


HEADER = f"{'':28} {'cells shown':>12} {'wall':>16} {'ratio':>6} {'CPU':>16} {'ratio':>6}"


def render_row(row: Row) -> str:
    """Return one line of the table, and a line for each missing cell."""
    shown = f"{row.shown} of {row.cells}"
    wall = f"{row.theirs.wall_s:.2f} / {row.ours.wall_s:.2f} s"
    cpu = f"{row.theirs.cpu_s:.2f} / {row.ours.cpu_s:.2f} s"
    line = (
        f"{row.name:28} {shown:>12} {wall:>16} {row.wall_ratio:6.1f} {cpu:>16} {row.cpu_ratio:6.1f}"
    )
    return "\n".join((line, *(f"  missing: {each}" for each in row.missing)))


def render_codes(codes: Sequence[ExitCode]) -> str:
    """Return the table of exit codes."""
    head = f"\n{'exit codes':28} {'theirs':>12} {'ours':>8}"
    return "\n".join((head, *(f"{each.name:28} {each.theirs:12} {each.ours:8}" for each in codes)))


def _theirs(zoo: Zoo, case: Case) -> list[str]:
    """Return the tool's command, started as Kafka's scripts start it."""
    command = list(map(str, zoo.tools.command(case.main)))
    classes, main = command[command.index("-cp") + 1], command.index(case.main)
    log = f"-Dlog4j2.configurationFile={zoo.folder / 'tools-log4j2.properties'}"
    return [command[0], *_USUAL_FLAGS, log, "-cp", classes, *command[main:], *case.theirs]


def _ours(zoo: Zoo, arguments: Sequence[str]) -> list[str]:
    command = [sys.executable, "-P", "-m", "agent", "groups", *arguments]
    return [*command, "--bootstrap-server", zoo.bootstrap]


def _median(runs: Sequence[Run]) -> Run:
    """Return the median time and CPU of several runs, and the first one's text."""
    codes = {run.code for run in runs}
    wall_s, cpu_s = median(run.wall_s for run in runs), median(run.cpu_s for run in runs)
    return Run(max(codes), runs[0].text, wall_s, cpu_s)


def _run(command: Sequence[object]) -> Run:
    """Run a command, and measure it with all that it starts."""
    with tempfile.TemporaryFile("w+") as out:
        began_s = time.monotonic()
        process = subprocess.Popen(list(map(str, command)), stdout=out, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.monotonic() - began_s
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        return Run(process.returncode, out.read(), wall_s, usage.ru_utime + usage.ru_stime)


def _parse(printed: str) -> Iterator[_Cells]:
    """Yield the rows of a tool's tables; rows with an empty cell are cut at the header's places."""
    heads: list[str] = []
    starts: list[int] = []
    for line in printed.splitlines():
        if line.startswith("GROUP "):
            heads = _HEADS.findall(line)
            starts = [match.start() for match in _HEADS.finditer(line)]
        elif heads and line.strip():
            joined = _ID.sub(r"\1", line.strip())
            words = joined.split(maxsplit=len(heads) - 1)
            if len(words) < len(heads):  # an empty cell: by place
                ends = [*starts[1:], len(line)]
                words = [line[a:b].strip() for a, b in zip(starts, ends, strict=True)]
            yield {head: word.strip() for head, word in zip(heads, words, strict=True)}


def _shown(value: object) -> str:
    return "-" if value is None else str(value)


def _listed(groups: Mapping[str, Group]) -> dict[_Key, _Cells]:
    return {
        (name,): {
            "GROUP": name,
            "TYPE": group["type"] or "",
            "PROTOCOL": group["protocol"],
            "STATE": group["state"],
        }
        for name, group in groups.items()
    }


def _states(groups: Mapping[str, Group]) -> dict[_Key, _Cells]:
    found: dict[_Key, _Cells] = {}
    for name, group in groups.items():
        node, target = group["coordinator"], _shown(group["target_epoch"])
        found[(name,)] = {
            "GROUP": name,
            "COORDINATOR (ID)": f"{node['host']}:{node['port']}({node['node_id']})",
            "ASSIGNMENT-STRATEGY": _shown(group["assignor"]),
            "ASSIGNOR": _shown(group["assignor"]),
            "STATE": group["state"],
            "GROUP-EPOCH": _shown(group["epoch"]),
            "TARGET-ASSIGNMENT-EPOCH": target,
            "ASSIGNMENT-EPOCH": target,
            "#MEMBERS": str(len(group["members"])),
        }
    return found


def _members(groups: Mapping[str, Group]) -> dict[_Key, _Cells]:
    return {
        (name, member["member_id"]): _member(name, group, member)
        for name, group in groups.items()
        for member in group["members"]
    }


def _member(name: str, group: Group, member: dict[str, Any]) -> _Cells:
    is_streams = group["type"] == "Streams"
    owned = {} if is_streams else member["owned"] or {}
    target = {} if is_streams else member["target"] or {}
    epoch = _shown(member["epoch"])
    return {
        "GROUP": name,
        "CONSUMER-ID": member["member_id"],
        "MEMBER": member["member_id"],
        "GROUP-INSTANCE-ID": member["instance_id"] or "",
        "HOST": member["host"],
        "CLIENT-ID": member["client_id"],
        "#PARTITIONS": str(sum(map(len, owned.values()))),
        "CURRENT-EPOCH": epoch,
        "MEMBER-EPOCH": epoch,
        "CURRENT-ASSIGNMENT": spelled(owned) or "-",
        "ASSIGNMENT": spelled(owned) or "-",
        "TARGET-EPOCH": _shown(group["target_epoch"]),
        "TARGET-ASSIGNMENT-EPOCH": _shown(group["target_epoch"]),
        "TARGET-ASSIGNMENT": spelled(target) or "-",
        "TOPOLOGY-EPOCH": _shown(member["topology_epoch"]),
        "MEMBER-PROTOCOL": _shown(member["protocol"]),
        "UPGRADED": "true" if member["protocol"] == "consumer" else "false",
        "PROCESS": _shown(member["process_id"]),
        "ASSIGNMENTS": _spell_tasks(member) if is_streams else "",
    }


def _spell_tasks(member: dict[str, Any]) -> str:
    """Return tasks as kafka-streams-groups.sh writes them."""
    parts = [
        f"{prefix}{kind.upper()}: "
        + " ".join(
            f"{subtopology}:[{','.join(map(str, numbers))}];"
            for subtopology, numbers in tasks[kind].items()
        )
        for prefix, tasks in (("", member["owned"]), ("TARGET-", member["target"]))
        for kind in ("active", "standby", "warmup")
        if tasks[kind]
    ]
    return " ".join(parts)


def _offsets(groups: Mapping[str, Group]) -> dict[_Key, _Cells]:
    return {
        (name, row["topic"], str(row["partition"])): {
            "GROUP": name,
            "TOPIC": row["topic"],
            "PARTITION": str(row["partition"]),
            "LEADER-EPOCH": _shown(row["leader_epoch"]),
            "CURRENT-OFFSET": _shown(row["current_offset"]),
            "START-OFFSET": _shown(row["current_offset"]),
            "LOG-END-OFFSET": _shown(row["end_offset"]),
            "LAG": _shown(row["lag"]),
            "OFFSET-LAG": _shown(row["lag"]),
            "CONSUMER-ID": _shown(row["member_id"]),
            "HOST": _shown(row["host"]),
            "CLIENT-ID": _shown(row["client_id"]),
        }
        for name, group in groups.items()
        for row in group["offsets"]
    }


def _cases(name: str, main: str, chosen: Sequence[str], member: str) -> Iterator[Case]:
    """Return the three descriptions of a type's groups."""
    describe, theirs = ("describe", *chosen, "--verbose"), ("--describe", "--all-groups")
    yield Case(
        f"{name}: state", main, (*theirs, "--state", "--verbose"), describe, _states, ("GROUP",)
    )
    yield Case(
        f"{name}: members",
        main,
        (*theirs, "--members", "--verbose"),
        (*describe, "--members"),
        _members,
        ("GROUP", member),
    )
    yield Case(
        f"{name}: offsets",
        main,
        (*theirs, "--offsets", "--verbose"),
        (*describe, "--offsets"),
        _offsets,
        ("GROUP", "TOPIC", "PARTITION"),
    )


CASES = (
    Case("groups: list", GROUPS, ("--list",), ("list",), _listed, ("GROUP",)),
    Case(
        "consumer groups: list",
        CONSUMER_GROUPS,
        ("--list", "--state", "--type"),
        ("list", "--consumer"),
        _listed,
        ("GROUP",),
    ),
    *_cases("consumer groups", CONSUMER_GROUPS, ("--consumer",), "CONSUMER-ID"),
    *_cases("share groups", SHARE_GROUPS, ("--all", "--group-type", "share"), "CONSUMER-ID"),
    *_cases("streams groups", STREAMS_GROUPS, ("--all", "--group-type", "streams"), "MEMBER"),
)


def open_zoo(folder: Path, stack: ExitStack, cache: Path) -> Zoo:
    """Start the cluster, with records that some groups have read and others have not."""
    zoo = Zoo(folder, cache, stack, brokers=1, version=NEWEST_VERSION)
    zoo.settle()
    (folder / "tools-log4j2.properties").write_text(_LOGGING)
    for topic in ("orders", "views"):
        zoo.admin.do(f"produce {topic} 40")
    assert until(lambda: _is_caught_up(zoo), wanted=True)
    return zoo


def _is_caught_up(zoo: Zoo) -> bool:
    """Return whether the groups with members have committed all that there is."""
    found = ours(zoo.bootstrap, "describe", *_READING, "--offsets", "--output", "json")
    groups = groups_of(found)
    return all(row["lag"] == 0 for name in _READING for row in groups[name]["offsets"])


def main() -> int:
    """Print the tables; end with 1 if a cell is missing or a figure is not as wanted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="runs of each command")
    rounds = parser.parse_args().rounds
    rows = list[Row]()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:  # brokers end first
        zoo = open_zoo(Path(folder), stack, default_cache())
        print(HEADER, flush=True)  # noqa: T201 - a row as soon as it is known
        for row in compare(zoo, rounds):
            rows.append(row)
            print(render_row(row), flush=True)  # noqa: T201
        codes = list(compare_exit_codes(zoo))
        print(render_codes(codes), flush=True)  # noqa: T201
    is_slow = any(row.wall_ratio < WALL_MIN or row.cpu_ratio < CPU_MIN for row in rows)
    is_incomplete = any(row.missing for row in rows) or not all(each.ours for each in codes)
    return int(is_slow or is_incomplete)


if __name__ == "__main__":
    raise SystemExit(main())
