"""Comparison of the agent's transitions with the oracle's, in numbers."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from tests.soak.aligning import differences, in_common
from tests.soak.crossing import other_orders
from tests.soak.debug_log import Line, read
from tests.soak.lives import Lives, Possible, Question
from tests.soak.nearby import seconds
from tests.soak.oracle import codes

_AHEAD = 2
"""Questions that the kill of one client leaves open."""
_SHOWN = 4
_AS_SIGNAL = {"late", "masked"}

Row = dict[str, Any]
Codes = dict[str, list[int]]
Fates = dict[Question, bool]


def compared(debug_logs: Sequence[Path], rows: Sequence[Row], of: str) -> Row:
    """Return the numbers of wanted and found transitions, precision, recall, and differences.

    The differences are printed, too. The other numbers are those of cases that the oracle leaves
    open:

    - ``asked``: questions about the ends of killed processes.
    - ``crossed``: causes that the wire reported before the higher code that masks them in the
      client's own log, or before another thread's cause that was logged first.
    - ``unread``: transitions by responses to requests that the client had given up.
    - ``late``: causes that are a record of kind ``signal``, because the wire had already reported
      the end of their rebalance or a higher cause.
    """
    counts, differing = Counter[str](), list[Row]()
    got = [row for row in rows if row["kind"] == "transition"]
    has_wire = any(row["source"] == "wire" for row in got)
    signals = Counter(
        (row["client_id"], row["to"]) for row in rows if row["kind"] == "signal" and has_wire
    )
    for log in debug_logs:
        found: Codes = {}
        times: dict[str, list[float]] = {}
        for row in got:
            if is_of(row["client_id"], log):
                found.setdefault(row["client_id"], []).append(row["to"])
                times.setdefault(row["client_id"], []).append(seconds(row))
        lines, crossed = read(log, of_log=not has_wire), 0
        if has_wire:
            lines, crossed = _as_met(lines, found)
        lives = codes(lines, _fates(lines, found))
        wanted, taken = _with_possible(lives, found, signals, has_wire=has_wire)
        counts["asked"] += len(lives.questions)
        counts["crossed"] += crossed
        counts += taken
        for client_id in sorted({*wanted, *found}):
            pair = wanted.get(client_id, []), found.get(client_id, [])
            counts["right"] += in_common(*pair)
            counts["wanted"] += len(pair[0])
            counts["found"] += len(pair[1])
            for each in _differing(*pair, times.get(client_id, [])):
                differing.append({"client_id": client_id, "log": log.name, **each})
                click.echo(f"{of}: {client_id}: {each}", err=True)
    return {
        "wanted": counts["wanted"],
        "found": counts["found"],
        "asked": counts["asked"],
        "crossed": counts["crossed"],
        "unread": counts["unread"],
        "late": counts["late"] + counts["masked"],
        "precision": counts["right"] / max(1, counts["found"]),
        "recall": counts["right"] / max(1, counts["wanted"]),
        "differences": differing,
    }


def replayed(folder: Path) -> list[Row]:
    """Return the records of a replay of the INFO logs alone."""
    command = [sys.executable, "-P", "-m", "agent", "replay", "--source", "logs"]
    done = subprocess.run(
        [*command, *sorted(folder.glob("*.log"))], capture_output=True, text=True, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def _as_met(lines: list[Line], found: Codes) -> tuple[list[Line], int]:
    """Return the lines in the wire's order, and the number of responses that were moved for it.

    A response is moved only if no other change explains a difference.
    """
    moved = 0
    while True:
        fates = _fates(lines, found)
        lives = codes(lines, fates)
        wrong, best = _mistakes(lives.got, found), lines
        for order in other_orders(lines, _differences(lives, found)):
            if (now := _mistakes(codes(order, fates).got, found)) < wrong:
                wrong, best = now, order
        if best is lines:
            return lines, moved
        lines, moved = best, moved + 1


def _differences(lives: Lives, found: Codes) -> list[float]:
    """Return the times of the differences and of their neighbours (Unix seconds)."""
    times = list[float]()
    for name, wanted in lives.got.items():
        for part, _ in differences(wanted, found.get(name, [])):
            times += lives.times[name][max(0, part.start - 1) : part.stop + 1]
    return times


def _fates(lines: Sequence[Line], found: Codes) -> Fates:
    """Return the answers to the open questions that give the fewest mistakes.

    The search is greedy: it changes the answers to `_AHEAD` questions at a time.
    """
    fates: Fates = {}
    wrong = _mistakes(codes(lines, fates).got, found)
    is_better = True
    while is_better and wrong:
        is_better, number = False, 0
        while wrong and number < len(codes(lines, fates).questions):
            best = min(
                (_mistakes(codes(lines, other).got, found), turn, other)
                for turn, other in enumerate(_others(lines, fates, number, _AHEAD))
            )
            if best[0] < wrong:
                (wrong, _, fates), is_better = best, True
            number += 1
    return fates


def _others(lines: Sequence[Line], fates: Fates, number: int, ahead: int) -> Iterator[Fates]:
    """Yield all combinations of answers to the next ``ahead`` questions from ``number`` on.

    An answer may lead to further questions; these count as well.
    """
    questions = codes(lines, fates).questions
    if ahead == 0 or number >= len(questions):
        yield fates
        return
    for answer in (True, False):
        yield from _others(lines, fates | {questions[number]: answer}, number + 1, ahead - 1)


def _with_possible(
    lives: Lives, found: Codes, signals: Counter[tuple[str, int]], *, has_wire: bool
) -> tuple[Codes, Counter[str]]:
    """Return the wanted codes, changed by each possible case that was found; and their numbers.

    A late cause must be one of the ``signals``, or have an end of its own.
    """
    wanted: Codes = {name: list(got) for name, got in lives.got.items()}
    taken, added = Counter[str](), Counter[str]()
    for each in sorted(lives.possible, key=lambda each: each.position):
        name, signal = each.name, (each.name, each.codes[0])
        got, there = wanted.get(name, []), found.get(name, [])
        others = _instead(each, got, each.position + added[name])
        if each.why in _AS_SIGNAL:
            others = others[not signals[signal] :] if has_wire else []
        best = min([got, *others], key=lambda instead: _wrong(instead, there))
        if best is not got:
            wanted[name] = best
            added[name] += len(best) - len(got)
            signals[signal] -= each.why in _AS_SIGNAL and len(best) < len(got)
            taken[each.why] += 1
    return wanted, taken


def _instead(possible: Possible, got: list[int], place: int) -> list[list[int]]:
    """Return the alternatives to ``got``; for a late or masked cause first that of a signal."""
    if possible.why in _AS_SIGNAL:
        instead = [[*got[:place], *got[place + 1 :]]]
        if possible.why == "late":  # or it began and ended behind the end
            instead.append([*got[:place], 0, *got[place:]])
        return instead
    highest, behind = max(possible.codes), place
    while behind < len(got) and 0 < got[behind] <= highest:
        behind += 1  # masked by a code that the client has not read, or has read later
    return [[*got[:place], *possible.codes, *got[end:]] for end in {place, behind}]


def _mistakes(wanted: Mapping[str, list[int]], found: Codes) -> int:
    pairs = [(wanted.get(name, []), found.get(name, [])) for name in {*wanted, *found}]
    return sum(_wrong(one, other) for one, other in pairs)


def _wrong(wanted: Sequence[int], found: Sequence[int]) -> int:
    return len(wanted) + len(found) - 2 * in_common(wanted, found)


def _differing(wanted: Sequence[int], found: Sequence[int], times: list[float]) -> Iterator[Row]:
    """Yield the differences; ``from`` and ``to`` are the times of the found codes beside each."""
    for part, there in differences(wanted, found):
        beside = times[max(0, there.start - 1) : there.stop + 1]
        yield {
            "at": part.start,
            "after": [*wanted[max(0, part.start - _SHOWN) : part.start]],
            "wanted": [*wanted[part]],
            "found": [*found[there]],
            "from": min(beside, default=0.0),
            "to": max(beside, default=0.0),
        }


def is_of(client_id: str, log: Path) -> bool:
    """Return whether a client, a thread or an instance is of the process that wrote a log."""
    name = log.name.removesuffix(".log.debug")
    return client_id == name or client_id.startswith(f"{name}-StreamThread-")
