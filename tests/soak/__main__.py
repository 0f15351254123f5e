"""A soak: real clients with random faults, and one agent that reads their logs and their traffic.

The clients are consumers and Streams applications. At the end, the agent's transitions of each
client are compared with an oracle: the codes that follow from the client's own DEBUG log. The
transitions of a replay of the INFO logs alone are compared, too. The soak prints precision and
recall of both, and the growth of the agent's memory. The exit code is 1 if the agent's precision or
recall is below 1.0, or if its memory still grows in a soak of ten minutes or more. In these cases,
and if the logs alone are below 1.0, the folder with logs and records is kept.

With --tries 2 a soak with at most one wrong transition in a thousand is printed and followed by
another soak, which must be exact.

With --keep the signals of the agent's sources are recorded, too. Then --again DIR --orders N
applies them to a tracker in N other orders of arrival; each order must give 1.0.
"""

import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import linear_regression
from threading import Event
from typing import Any

import click
import psutil

from agent.lab.lab import fetch_artifacts, open_lab
from agent.processes.errors import ProcessError
from agent.processes.ports import HOST, free_port
from tests.faults.agent_process import AGENT, AgentProcess, spooled, until
from tests.faults.loaded_log import a_round
from tests.soak.comparing import compared, replayed
from tests.soak.members import (
    VERSIONS,
    Fleet,
    Member,
    Population,
    begin,
    make_topics,
)
from tests.soak.nearby import about
from tests.soak.tape import read, retold

_SETTLE_S = 30.0
_READ_S = 5.0
"""Time for the agent to read the members' last log lines."""
_SLOPE_MAX_MIB_PER_H = 20.0
_SLOPE_MINUTES = 10.0
"""In a shorter soak the agent's memory still grows to its normal size."""
_WARM_UP = 0.5
"""Share of the soak's length; memory is measured after it. A departed member stays for 5 min."""
_MEMBERS_A_HAND = 8
"""Members of one worker thread, which gives them their faults one after the other."""
_PAST_ROUNDS, _PAST_PIECE = 12_000, 500
"""Of two records each; the agent keeps 20,000 (agent/hub/recent_records.py)."""
_PAST_CLIENT = f"past-StreamThread-1-consumer-{'0' * 36}"
"""A long name, so that its records are as large as those of the soak."""
_QUIET_LINE = "[2026-01-01 00:00:00,000] INFO nothing that matters (soak)\n"
_QUIET_LINES = 2000
"""The agent keeps 64 KiB of each log, for settings (agent/sources/logs/consumer_config.py)."""
_REBALANCES = "kafka_consumer_rebalances_total"
_LOOK_S = 1.0
_TOLD_ABOUT = 3
_WIDTH = 200
_NEARLY = 0.999
"""A soak above this may have missed one race in thousands of transitions; a bug is worse."""

_RUN, _CLIENTS, _TAPE = "run.json", "clients", "tape.jsonl"
_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)

Found = dict[str, Any]


@click.command(help=__doc__)
@click.option("--minutes", default=60.0, show_default=True)
@click.option("--consumers", default=44, show_default=True)
@click.option("--instances", default=6, show_default=True, help="Of Streams applications.")
@click.option(
    "--version",
    "versions",
    multiple=True,
    default=VERSIONS,
    show_default=True,
    help="Of the clients, which take them in turn; again for more than one, from 3.2 on.",
)
@click.option("--seed", default=12472, show_default=True)
@click.option("--keep", type=click.Path(path_type=Path), help="Keep logs, records and tape there.")
@click.option("--again", type=_FOLDER, help="Only compare anew what --keep has kept there.")
@click.option("--orders", default=0, show_default=True, help="Other orders of arrival to compare.")
@click.option("--tries", default=1, show_default=True, help="At most, as long as each nearly held.")
def main(
    minutes: float,
    consumers: int,
    instances: int,
    versions: tuple[str, ...],
    seed: int,
    keep: Path | None,
    again: Path | None,
    orders: int,
    tries: int,
) -> None:
    if tries > 1 and (keep or again):
        raise click.UsageError("--tries is for soaks that are not kept")
    if orders and not (keep or (again and (again / _TAPE).exists())):
        raise click.UsageError("--orders needs a tape: of --keep, or kept in --again's folder")
    for trial in range(tries):
        with ExitStack() as stack:
            folder = again or keep or _temporary(stack)
            if again is None:
                population = Population(consumers, instances, versions)
                _soak(folder, minutes, population, seed + trial, is_taped=keep is not None)
            found = _found(folder, orders)
            _tell(found, folder, stack)
        if _holds(found):
            return
        if not _holds(found, _NEARLY):
            break
    sys.exit(1)


def _tell(found: Found, folder: Path, stack: ExitStack) -> None:
    """Print the results; if they are not exact, keep the folder and print the differences."""
    click.echo(json.dumps(found, indent=1))
    if not (_holds(found) and _is_exact(found["logs_alone"])):
        stack.pop_all()  # keep the folder for a person to look at
        click.echo(f"kept: python -m tests.soak --again {folder}", err=True)
        _tell_about(found["differences"] or found["logs_alone"]["differences"], folder)


def _tell_about(differing: Sequence[Found], folder: Path) -> None:
    """Print the records and log lines near the first differences, then the differences.

    The differences are last because CI shows the end of the output.
    """
    rows = spooled(folder / "agent" / "state" / "spool")
    for each in differing[:_TOLD_ABOUT]:
        click.echo(f"about {each}", err=True)
        for line in about(each, folder / _CLIENTS / each["log"], rows):
            click.echo(line[:_WIDTH], err=True)
    for each in differing[:_TOLD_ABOUT]:
        click.echo(f"difference: {each}", err=True)


def _temporary(stack: ExitStack) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _holds(found: Found, least: float = 1.0) -> bool:
    is_long = found["minutes"] >= _SLOPE_MINUTES
    is_flat = not is_long or found["rss_mib_per_h"] <= _SLOPE_MAX_MIB_PER_H
    return is_flat and all(_is_exact(each, least) for each in [found, *found["orders"]])


def _is_exact(found: Found, least: float = 1.0) -> bool:
    exact: bool = min(found["precision"], found["recall"]) >= least
    return exact


def _soak(
    folder: Path, minutes: float, population: Population, seed: int, *, is_taped: bool
) -> None:
    cache, logs, past = fetch_artifacts(), folder / _CLIENTS, folder / "past.log"
    logs.mkdir(parents=True)
    with ExitStack() as stack:
        lab = stack.enter_context(open_lab(folder / "lab", cache))
        make_topics(lab, population)
        port = free_port()
        upstream = json.dumps(lab.cluster.bootstrap.split(","))
        agent = stack.enter_context(
            AgentProcess(
                folder / "agent",
                f"sources:\n  - {{type: logs, paths: ['{logs}/*.log', '{past}']}}\n"
                f"  - {{type: proxy, listen: '{HOST}:{port}', upstream: {upstream}}}\n",
                program=_taped(folder / _TAPE) if is_taped else AGENT,
            )
        )
        agent.start_ready()
        is_filled = minutes >= _SLOPE_MINUTES
        if is_filled:
            _fill(agent, past)
        fleet = stack.enter_context(
            Fleet(
                f"{HOST}:{port}",
                logs,
                cache,
                _QUIET_LINE * (_QUIET_LINES * is_filled),
                population.versions,
            )
        )
        members = begin(fleet, population)
        memory, faults = _live(members, agent, minutes, seed)
        Event().wait(_SETTLE_S)
        for member in members:
            member.driver.pause()
        Event().wait(_READ_S)
        agent.drain()
        for member in members:
            member.driver.kill()
    run = {"minutes": minutes, "faults": faults, "memory": memory}
    (folder / _RUN).write_text(json.dumps(run))


def _taped(tape: Path) -> list[str]:
    return [sys.executable, "-m", "tests.soak.taped_agent", str(tape)]


def _found(folder: Path, orders: int) -> Found:
    run, clients = json.loads((folder / _RUN).read_text()), folder / _CLIENTS
    debug_logs, memory = sorted(clients.glob("*.log.debug")), run["memory"]
    rows = spooled(folder / "agent" / "state" / "spool")
    return {
        **compared(debug_logs, rows, "logs and wire"),
        "logs_alone": compared(debug_logs, replayed(clients), "logs alone"),
        "orders": _in_other_orders(folder, debug_logs, orders),
        "minutes": run["minutes"],
        "faults": run["faults"],
        "rss_mib_per_h": _slope(memory),
        "rss_mib": round(memory[-1][1], 1),
    }


def _in_other_orders(folder: Path, debug_logs: list[Path], orders: int) -> list[Found]:
    tape = read(folder / _TAPE, but_of=_PAST_CLIENT) if orders else []
    return [
        {"order": seed, **compared(debug_logs, retold(tape, seed), f"order {seed}")}
        for seed in range(1, orders + 1)
    ]


def _fill(agent: AgentProcess, past: Path) -> None:
    """Give the agent as many records as it keeps, so that its memory has its full size."""
    for end in range(_PAST_PIECE, _PAST_ROUNDS + 1, _PAST_PIECE):
        with past.open("ab") as log:
            for generation in range(end - _PAST_PIECE, end):
                log.write(a_round(_PAST_CLIENT, generation))
        until(partial(_has_told, agent, end), f"{end} rounds of the past")


def _has_told(agent: AgentProcess, rounds: int) -> bool:
    return agent.total(_REBALANCES) == rounds


def _live(
    members: Sequence[Member], agent: AgentProcess, minutes: float, seed: int
) -> tuple[list[tuple[float, float]], int]:
    """Cause faults until the time is over, in several threads with members of their own."""
    process, begun_s = psutil.Process(agent.process.pid), time.monotonic()
    ended, memory = Event(), list[tuple[float, float]]()
    hands = -(-len(members) // _MEMBERS_A_HAND)
    with ThreadPoolExecutor(hands) as pool:
        harmed = [
            pool.submit(_harm, members[hand::hands], random.Random(seed + hand), ended)
            for hand in range(hands)
        ]
        try:
            while (at_s := time.monotonic() - begun_s) < minutes * 60:
                memory.append((at_s / 3600, process.memory_info().rss / (1 << 20)))
                ended.wait(_LOOK_S)
                for hand in harmed:
                    if hand.done():
                        hand.result()  # only an error ends it so early
        finally:
            ended.set()
        return memory, sum(hand.result() for hand in harmed)


def _harm(members: Sequence[Member], chance: random.Random, ended: Event) -> int:
    faults = 0
    while not ended.is_set():
        member = chance.choice(members)
        what = chance.choice(member.BEARS)
        click.echo(f"{time.strftime('%H:%M:%S')} {what} {member.client_id}", err=True)
        member.suffer(what, chance)
        faults += 1
        ended.wait(chance.uniform(0.0, 3.0))
    return faults


def _slope(memory: list[tuple[float, float]]) -> float:
    """Return the growth after the warm-up in MiB an hour; 0 if there are too few samples."""
    behind = memory[int(len(memory) * _WARM_UP) :]
    if len(behind) < 3:
        return 0.0
    return round(linear_regression(*zip(*behind, strict=True)).slope, 2)


if __name__ == "__main__":
    try:
        main()
    except ProcessError as error:
        sys.exit(f"Error: {error}")
