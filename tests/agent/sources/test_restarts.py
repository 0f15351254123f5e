"""An agent that restarts anywhere in a log reports what one that never stops reports.

Recordings of real clients and brokers are read up to a cut; then all is created again from the
checkpoint, as JSON carries it, and the rest is read. Cuts are behind lines, within lines, within
records of several lines and within lists of settings; a file may be rotated at the cut. Each test
takes some cuts, and all of them with `make field`.
"""

import gzip
import os
import random
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent.sources.broker_logs.config import BrokerLogConfig
from agent.sources.broker_logs.coordinator_interpreter import CoordinatorInterpreter
from agent.sources.broker_logs.membership import GroupTable
from agent.sources.broker_logs.source import BrokerLogSource, create_broker_dialects
from agent.sources.lines.dialects.dialect_loader import choose_dialects
from agent.sources.lines.following.live_documents import LiveDocuments
from agent.sources.lines.following.tail import SCAN_S, FileTail
from agent.sources.lines.parsing.line_parser import LineParser
from agent.sources.logs.client_interpreter import ClientInterpreter
from agent.sources.logs.client_parser import create_parser
from agent.sources.logs.config import LogConfig
from agent.sources.logs.source import LogSource
from metrics.model.signals import Signal

GOLDEN = Path(__file__).parents[2] / "golden"
CLIENTS = sorted(
    (
        *GOLDEN.glob("dialects/*/input.log"),
        *GOLDEN.glob("client_settings/*.log"),
        *GOLDEN.glob("truth/[j-k]*/m*.log"),
    )
)
BROKERS = sorted(GOLDEN.glob("*/*/server*.log*"))
LOGS = {str(path.relative_to(GOLDEN)): path for path in (*CLIENTS, *BROKERS)}
ARRIVAL_AT = 1_900_000_000.0
CUTS = 15
"""Of one log, unless all are taken."""
_ALL = 1 << 30
_SETTLED_S = 400.0
"""Longer than anything is held."""


def data_of(name: str) -> bytes:
    path = LOGS[name]
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def is_brokers(name: str) -> bool:
    return LOGS[name] in BROKERS


def create(name: str) -> LiveDocuments:
    """Create a parser as the source of the log does."""
    if is_brokers(name):
        interpreter = CoordinatorInterpreter("", lambda _stream, _at: None, GroupTable())
        return LiveDocuments(LineParser(create_broker_dialects(), interpreter, "UTC"), "s", "UTC")
    parser = create_parser(choose_dialects("auto"), ClientInterpreter(stream="s"), "UTC")
    return LiveDocuments(parser, "s", "UTC")


def read(name: str, data: bytes, cuts: Sequence[int] = ()) -> list[Signal]:
    """Read a log with a restart at each cut."""
    live, found, begin = create(name), list[Signal](), 0
    for cut in cuts:
        found += live.feed(data[begin:cut], ARRIVAL_AT)
        begin, state = cut - live.pending, msgspec.json.encode(live.state())
        live = create(name)
        live.restore(msgspec.json.decode(state))
    return found + live.feed(data[begin:], ARRIVAL_AT) + live.settle() + live.flush()


def line_ends(data: bytes) -> list[int]:
    return [place + 1 for place, byte in enumerate(data) if byte == ord("\n")]


def some(places: Sequence[int], count: int) -> list[int]:
    """Return some places, the same ones in each run."""
    return sorted(random.Random(len(places)).sample(places, min(count, len(places))))


def assert_restarts_change_nothing(name: str, count: int) -> None:
    data = data_of(name)
    whole, ends = read(name, data), line_ends(data)
    places = range(1, len(data))
    for cuts in (some(ends, count), some(places, count)):
        assert read(name, data, cuts) == whole
    for cut in (*some(ends, count // 5), *some(places, min(count // 5, len(ends)))):
        assert read(name, data, [cut]) == whole, f"behind {data[max(0, cut - 80) : cut]!r}"


@pytest.mark.parametrize("name", LOGS)
def test_restarts_change_nothing(name: str) -> None:
    assert_restarts_change_nothing(name, CUTS)


@pytest.mark.field
@pytest.mark.parametrize("name", LOGS)
def test_restart_at_each_line_changes_nothing(name: str) -> None:
    assert_restarts_change_nothing(name, _ALL)


class Follower:
    """An agent's source on one file, which a test rotates."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.path, self.now = name, folder / "app.log", ARRIVAL_AT
        self.signals: list[Signal] = []
        self.tail = self._create(None)

    def _create(self, position: dict[str, Any] | None) -> FileTail:
        paths, clock = (str(self.path),), lambda: self.now
        if not is_brokers(self.name):
            config = LogConfig(paths=paths)
            return LogSource(config, timezone="UTC", position=position, clock=clock, host="h")
        brokers = BrokerLogConfig(paths=paths)
        return BrokerLogSource(brokers, timezone="UTC", position=position, clock=clock)._log

    def append(self, data: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(data)

    def read(self) -> None:
        for _ in range(3):
            while self.tail.step(self.signals.extend, lambda _stream, _at: None):
                pass

    def restart(self) -> None:
        position = msgspec.json.encode(self.tail.checkpoint())
        self.close()
        self.tail = self._create(msgspec.json.decode(position))

    def rename(self) -> None:
        self.path.rename(self.path.with_name("app.log.1"))

    def copytruncate(self) -> None:
        self.path.with_name("app.log.1").write_bytes(self.path.read_bytes())
        os.truncate(self.path, 0)

    def close(self) -> None:
        for tail in self.tail._tails.values():
            tail.follower.close()

    def finish(self) -> list[Signal]:
        """Read the rest, and return all signals."""
        for wait_s in (SCAN_S, SCAN_S, _SETTLED_S, _SETTLED_S):
            self.read()
            self.now += wait_s
        for tail in self.tail._tails.values():
            self.signals += tail.parser.flush()
        self.close()
        return self.signals


Rotate = Callable[[Follower], None]
ROTATIONS: dict[str, Rotate] = {
    "none": lambda _agent: None,
    "rename": Follower.rename,
    "copytruncate": Follower.copytruncate,
}


def rotate_while_it_runs(agent: Follower, rotate: Rotate, late: bytes) -> None:
    agent.append(late)
    agent.read()
    rotate(agent)
    agent.read()
    agent.restart()


def rotate_between(agent: Follower, rotate: Rotate, late: bytes) -> None:
    agent.restart()
    agent.append(late)
    rotate(agent)


Steps = Callable[[Follower, Rotate, bytes], None]
STEPS: dict[str, Steps] = {"while it runs": rotate_while_it_runs, "between": rotate_between}


def follow(
    name: str, folder: Path, pieces: Sequence[bytes], rotate: Rotate, steps: Steps
) -> list[Signal]:
    """Read the first piece, take the steps, and read the last piece; the second is between."""
    folder.mkdir()
    agent = Follower(name, folder)
    first, late, rest = pieces
    agent.append(first)
    agent.read()
    steps(agent, rotate, late)
    agent.append(rest)
    found = agent.finish()
    return [msgspec.structs.replace(each, member=_without_path(each)) for each in found]


def _without_path(signal: Signal) -> Any:
    origin = signal.member.origin.rpartition("/")[2]
    return msgspec.structs.replace(signal.member, origin=origin, log_file=origin)


def rotated(name: str, count: int) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Yield a log in three pieces: up to a cut, some lines behind it, and the rest.

    Before its first line is whole, a position has no bytes by which the copy of a file is known.
    """
    data = data_of(name)
    ends = line_ends(data)
    for cut in (*some(ends, count), *some(range(ends[0], len(data)), count)):
        late = data.find(b"\n", cut + 500) + 1 or len(data)
        yield data[:cut], b"", data[cut:]
        yield data[:cut], data[cut:late], data[late:]


def assert_rotations_lose_nothing(name: str, folder: Path, cuts: int, cases: int) -> None:
    at_once = (data_of(name), b"", b"")
    whole = follow(name, folder / "whole", at_once, ROTATIONS["none"], rotate_between)
    found = list(product(rotated(name, cuts), ROTATIONS, STEPS))
    for number in some(range(len(found)), cases):
        pieces, rotation, steps = found[number]
        assert (
            follow(name, folder / str(number), pieces, ROTATIONS[rotation], STEPS[steps]) == whole
        ), f"{rotation}, {steps}, behind {pieces[0][-80:]!r}"


@pytest.mark.parametrize("name", LOGS)
def test_restart_at_a_rotation_loses_nothing(name: str, tmp_path: Path) -> None:
    assert_rotations_lose_nothing(name, tmp_path, 2, 6)


@pytest.mark.field
@pytest.mark.parametrize("name", LOGS)
def test_restart_at_many_rotations_loses_nothing(name: str, tmp_path: Path) -> None:
    assert_rotations_lose_nothing(name, tmp_path, 25, _ALL)
