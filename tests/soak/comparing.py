"""What was found beside what the oracle wants, as numbers."""

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
"""Of one client a kill leaves so many questions open."""
_SHOWN = 4
_AS_SIGNAL = {"late", "masked"}

Row = dict[str, Any]
Codes = dict[str, list[int]]
Fates = dict[Question, bool]


def compared(debug_logs: Sequence[Path], rows: Sequence[Row], of: str) -> Row:
    """Return how many transitions are wanted and found, with precision and recall.

    And what differs, which it prints too. Of what the oracle leaves open: ``asked`` is how many
    questions of killed processes, ``crossed`` how many causes were met before what masks them in
    the client's own log, or before those of another thread that was read first, ``unread`` how many
    were told of answers to requests that the client had given up, ``late`` how many are a signal,
    because the wire had told the end of their round, or a higher cause.
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
    """Return what the INFO logs alone tell."""
    command = [sys.executable, "-P", "-m", "agent", "replay", "--source", "logs"]
    done = subprocess.run(
        [*command, *sorted(folder.glob("*.log"))], capture_output=True, text=True, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def _as_met(lines: list[Line], found: Codes) -> tuple[list[Line], int]:
    """Return the lines, and how many answers had to be moved to where the wire may have met them.

    An answer is moved where that alone explains a difference of what was found.
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
    """Return when there was something else than was found, or beside it."""
    times = list[float]()
    for name, wanted in lives.got.items():
        for part, _ in differences(wanted, found.get(name, [])):
            times += lives.times[name][max(0, part.start - 1) : part.stop + 1]
    return times


def _fates(lines: Sequence[Line], found: Codes) -> Fates:
    """Return the answers with which the lines fit best, as far as changing some at once tells."""
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
    """Yield all other answers to some questions, from that number on, and to what they lead to."""
    questions = codes(lines, fates).questions
    if ahead == 0 or number >= len(questions):
        yield fates
        return
    for answer in (True, False):
        yield from _others(lines, fates | {questions[number]: answer}, number + 1, ahead - 1)


def _with_possible(
    lives: Lives, found: Codes, signals: Counter[tuple[str, int]], *, has_wire: bool
) -> tuple[Codes, Counter[str]]:
    """Return what is wanted, with what may have been told and was; and how much that is.

    What is late is one of the ``signals``, or has an end of its own.
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
    """Return what may have been told instead; of what is late or masked, as a signal first."""
    if possible.why in _AS_SIGNAL:
        instead = [[*got[:place], *got[place + 1 :]]]
        if possible.why == "late":  # or it began and ended behind the end
            instead.append([*got[:place], 0, *got[place:]])
        return instead
    highest, behind = max(possible.codes), place
    while behind < len(got) and 0 < got[behind] <= highest:
        behind += 1  # masked by what the client has not read, or has read later
    return [[*got[:place], *possible.codes, *got[end:]] for end in {place, behind}]


def _mistakes(wanted: Mapping[str, list[int]], found: Codes) -> int:
    pairs = [(wanted.get(name, []), found.get(name, [])) for name in {*wanted, *found}]
    return sum(_wrong(one, other) for one, other in pairs)


def _wrong(wanted: Sequence[int], found: Sequence[int]) -> int:
    return len(wanted) + len(found) - 2 * in_common(wanted, found)


def _differing(wanted: Sequence[int], found: Sequence[int], times: list[float]) -> Iterator[Row]:
    """Yield what differs and where; ``from`` and ``to`` are of what was found next to it."""
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
    """Tell whether a client, a thread or an instance is of the process that has written a log."""
    name = log.name.removesuffix(".log.debug")
    return client_id == name or client_id.startswith(f"{name}-StreamThread-")
