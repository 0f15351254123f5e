"""A line that is delivered twice, as by a logger with two appenders, has one effect."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from agent.cli import main
from agent.sources.lines.dialects.dialect import LogEvent
from agent.sources.lines.parsing.delivered_lines import KEPT_LINES, DeliveredLines
from tests.agent.sources.lines.spoken import (
    ARRIVAL_AT,
    ASSIGNED,
    CLOSED,
    JOINING,
    REBALANCING,
    got,
    parser,
    says,
    synced,
)

REVOKED = "Revoke previously assigned partitions t-0"
STORY = (
    JOINING,
    synced(1),
    ASSIGNED,
    REBALANCING,
    REVOKED,
    JOINING,
    synced(2),
    ASSIGNED,
    CLOSED,
)


def _lines(*, is_whole: bool = False) -> list[str]:
    """Return the story, with milliseconds or in whole seconds."""
    stamps = [f"2026-11-21 06:33:{44 + i}{'' if is_whole else f',{i + 1:03}'}" for i in range(20)]
    return [
        f"[{stamp}] INFO {says(message)}\n" for stamp, message in zip(stamps, STORY, strict=False)
    ]


def _read(lines: list[str]) -> list[str]:
    reader = parser()
    return got(reader.feed("".join(lines).encode(), ARRIVAL_AT) + reader.flush())


def _other_layout(line: str) -> str:
    stamp, text = line.removeprefix("[").split("] INFO ", 1)
    return f"{stamp} [main] INFO o.a.k.c.c.i.ConsumerCoordinator -- {text}"


def _container(line: str, nanosecond: int) -> str:
    return f"2026-11-21T06:34:00.{nanosecond:09}Z stdout F {line}"


@pytest.mark.parametrize("is_whole", [False, True])
def test_each_line_twice(*, is_whole: bool) -> None:
    lines = _lines(is_whole=is_whole)

    assert _read([line for line in lines for _ in range(2)]) == _read(lines)


def test_two_appenders_with_layouts_of_their_own() -> None:
    lines = _lines()

    assert _read([each for line in lines for each in (line, _other_layout(line))]) == _read(lines)


def test_a_container_writes_each_line_twice() -> None:
    plain = _lines()
    lines = [_container(line, 2 * i) for i, line in enumerate(plain)]
    twice = [_container(line, 2 * i + j) for i, line in enumerate(plain) for j in range(2)]

    assert _read(twice) == _read(lines)


@pytest.mark.parametrize("is_whole", [False, True])
@pytest.mark.parametrize("end", [6, 7, 8, 9])
def test_a_part_is_delivered_again(end: int, *, is_whole: bool) -> None:
    lines = _lines(is_whole=is_whole)

    assert _read([*lines[:end], *lines[end - 6 : end], *lines[end:]]) == _read(lines)


def test_two_joins_of_one_second_stay_two() -> None:
    """A first join is refused, and the member joins with the id that it was given."""
    refused = "Request joining group due to: need to re-join with the given member-id: c-1"
    lines = [
        f"[2026-11-21 06:33:44] INFO {says(message)}\n" for message in (JOINING, refused, JOINING)
    ]

    assert _read(lines).count("join") == 2


def test_a_line_of_another_moment_is_another_line() -> None:
    lines = [f"[2026-11-21 06:33:{44 + i},000] INFO {says(JOINING)}\n" for i in range(3)]

    assert _read(lines).count("join") == 3


def test_they_are_counted() -> None:
    reader = parser()

    reader.feed("".join(line for line in _lines() for _ in range(2)).encode(), ARRIVAL_AT)

    assert reader.counts.repeated == len(STORY)
    assert reader.counts.ran_back == 0


def _event(number: int) -> LogEvent:
    (line,) = parser().lines(f"[2026-11-21 06:33:44,001] INFO {says(synced(number))}\n".encode(), 0)
    assert line.event is not None
    return line.event


def test_its_memory_is_bounded() -> None:
    known = DeliveredLines()
    event = _event(1)

    for number in range(10 * KEPT_LINES):
        assert not known.is_again(event, number + 0.5)

    assert known.size <= 2 * KEPT_LINES
    assert known.is_again(event, 10 * KEPT_LINES - 0.5)
    assert known.is_again(event, 9 * KEPT_LINES + 0.5)


def test_its_memory_is_bounded_at_one_time() -> None:
    known = DeliveredLines()

    for number in range(3 * KEPT_LINES):
        assert not known.is_again(_event(number % 100), 0.5)

    assert known.size <= 2 * KEPT_LINES


def test_replay_names_them(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_text("".join(line for line in _lines() for _ in range(2)))

    done = CliRunner().invoke(main, ["replay", "--source", "logs", str(path)])
    lines = CliRunner().invoke(main, ["replay", "--source", "logs", "--explain-line", str(path)])

    assert f"{len(STORY)} lines of a client are there twice, and count once" in done.stderr
    assert f"{len(STORY)} that were there before" in lines.stdout
    assert lines.stdout.count("no effect (the same line was there before)") == len(STORY)


@pytest.mark.parametrize("cut", range(1, 2 * len(STORY)))
def test_a_restart_between_a_line_and_its_copy(cut: int) -> None:
    twice = [line.encode() for line in _lines() for _ in range(2)]
    first, second = parser(), parser()
    found = first.feed(b"".join(twice[:cut]), ARRIVAL_AT)

    second.restore(json.loads(json.dumps(first.state())))

    found += second.feed(b"".join(twice[cut:]), ARRIVAL_AT) + second.flush()
    assert got(found) == _read(_lines())


def test_replay_says_nothing_of_the_few_lines_that_a_client_prints_twice(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    lines = [line.replace("06:33", f"06:{34 + k}") for k in range(9) for line in _lines()]
    path.write_text("".join([*lines[:9], lines[8], *lines[9:]] + [lines[-1]] * 10))

    done = CliRunner().invoke(main, ["replay", "--source", "logs", str(path)])

    assert done.stderr == ""
