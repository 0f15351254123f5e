"""Invented histories of `tests/golden/incidents/invented`: read, replayed, and compared."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from aggregation.incidents.answers import IncidentAnswer, answer_of
from aggregation.incidents.incidents import analyze
from metrics.model.sample import Sample, parse_time
from metrics.model.signals import Member, Signal, SignalKind, SourceKind
from metrics.model.status import RebalanceStatus
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker

FOLDER = Path(__file__).parents[2] / "golden" / "incidents" / "invented"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
_TIMES = {"started_at", "ended_at", "at", "returned_at", "joined_at"}
_SOURCE = "source:"


@cache
def read(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return document


def records(name: str) -> list[Sample]:
    """Return the tracker's records of a history."""
    document, tracker, found = read(name), Tracker(StatusConfig()), list[Sample]()
    members = {
        key: Member(**{"group": "g", "cluster": "k", "origin": f"{m['client_id']}@{m['host']}"} | m)
        for key, m in document["members"].items()
    }
    signals = [_signal(line, members) for line in document["signals"]]
    for each in sorted(signals, key=lambda signal: signal.at):
        found += tracker.apply(each)
    return found


def answers(name: str) -> list[IncidentAnswer]:
    return [answer_of(each) for each in analyze(records(name), now=read(name)["now"]).incidents]


def shown(name: str) -> list[Any]:
    """Return the code's answer, reduced to the fields of the expected answer."""
    found = [json.loads(msgspec.json.encode(each)) for each in answers(name)]
    return [_like(a, e) for a, e in _pairs(found, read(name)["incidents"])]


def _pairs(found: list[Any], expected: list[Any]) -> list[tuple[Any, Any]]:
    blanks: list[Any] = [{}] * (len(found) - len(expected))
    return list(zip(found, [*expected, *blanks], strict=False))


def _like(found: Any, expected: Any, key: str = "") -> Any:
    if isinstance(found, dict) and isinstance(expected, dict):
        return {k: _like(found.get(k), expected[k], k) for k in expected} or found
    if isinstance(found, list) and isinstance(expected, list):
        return [_like(f, e) for f, e in _pairs(found, expected)]
    return round(parse_time(found), 3) if key in _TIMES and isinstance(found, str) else found


def _signal(line: str, members: dict[str, Member]) -> Signal:
    at, name, kind, *words = line.split()
    source = SourceKind.LOGS
    if kind.startswith(_SOURCE):
        source, (kind, *words) = SourceKind(kind.removeprefix(_SOURCE)), words
    blank = Signal(kind=SignalKind(kind), at=float(at), member=members[name], source=source)
    match blank.kind:
        case SignalKind.RAISE:
            status = RebalanceStatus(int(words[0]))
            return msgspec.structs.replace(blank, status=status, reason=_text(words[1:]))
        case SignalKind.SYNC:
            return msgspec.structs.replace(blank, generation=int(words[0]))
        case SignalKind.SEEN if words == ["closes"]:
            return msgspec.structs.replace(blank, closes=True)
        case SignalKind.SEEN:
            return msgspec.structs.replace(blank, assigned=tuple(words))
        case _:
            return msgspec.structs.replace(blank, reason=_text(words))


def _text(words: list[str]) -> str | None:
    return " ".join(words) or None
