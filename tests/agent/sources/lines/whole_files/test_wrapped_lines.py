"""Logs that were copied from a terminal, and logs with similar longest lines."""

from pathlib import Path

import pytest

from agent.sources.lines.whole_files.wrapped_lines import find_wrapping, join_wrapped

GOLDEN = Path(__file__).parents[4] / "golden" / "dialects"
RECORDINGS = (
    "aiokafka-0.8-0.14",
    "franz-go-1.7-1.22",
    "java-consumer-3.0-4.3",
    "kafka-connect-2.0-2.2",
    "kafka-streams-2.6-4.3",
    "librdkafka",
)


def lines_of(recording: str) -> list[bytes]:
    return (GOLDEN / recording / "input.log").read_bytes().splitlines()[:200]


def as_log(lines: list[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


@pytest.mark.parametrize("width", [80, 100, 120, 132])
@pytest.mark.parametrize("recording", RECORDINGS)
def test_lines_of_a_terminal_are_joined(recording: str, width: int) -> None:
    """A piece may hold a time or a port, or begin as an entry does."""
    lines = lines_of(recording)
    pieces = [line[at : at + width] for line in lines for at in range(0, len(line), width)]
    wrapping = find_wrapping(as_log(pieces))

    assert wrapping is not None
    assert wrapping.width == width
    for size in (997, 1 << 20):
        wrapped = as_log(pieces)
        blocks = (wrapped[at : at + size] for at in range(0, len(wrapped), size))
        joined = b"".join(data for data, _ in join_wrapped(((b, 0.0) for b in blocks), wrapping))
        assert joined == as_log(lines)


@pytest.mark.parametrize("recording", RECORDINGS)
@pytest.mark.parametrize("digits", [3, 10])
def test_lines_behind_long_names_with_numbers_are_whole(recording: str, digits: int) -> None:
    """As Fluent Bit prints them: the first 80 characters hold no time of day."""
    name = b"kube.var.log.containers.pay-7d9f8b6c5-abcde_shop_app-" + b"0f" * 32
    lines = [
        b'[%d] %s.log: [[%0*d.5, {}], {"log"=>"%s"}]' % (at, name, digits, at, line)
        for at, line in enumerate(lines_of(recording))
    ]
    longest = max(map(len, lines))
    lines = [line.ljust(longest) if at % 9 == 0 else line for at, line in enumerate(lines)]

    assert find_wrapping(as_log(lines)) is None
