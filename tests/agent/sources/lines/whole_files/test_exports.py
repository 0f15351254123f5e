import json
from collections.abc import Iterator

import pytest

from agent.errors import SourceError
from agent.sources.lines.whole_files.exports import normalise

ARRIVAL_AT = 1795243000.0
LINES = [f"2026-11-21 06:33:4{second}.000 INFO line {second}\n".encode() for second in range(8)]


def run(*pieces: bytes) -> list[bytes]:
    blocks = normalise(((piece, ARRIVAL_AT) for piece in pieces), "UTC")
    return b"".join(data for data, _ in blocks).splitlines(keepends=True)


def test_log_in_order_passes_unchanged() -> None:
    assert run(*LINES) == LINES


def test_first_step_forward_lets_a_growing_stream_pass() -> None:
    fed: list[bytes] = []

    def pieces() -> Iterator[tuple[bytes, float]]:
        for line in LINES:
            fed.append(line)
            yield line, ARRIVAL_AT

    first = next(normalise(pieces(), "UTC"))

    assert first[0] == LINES[0]
    assert len(fed) == 2


def test_newest_first_is_reversed_entry_by_entry() -> None:
    newest_first = [line + b"\tat a trace\n" for line in reversed(LINES)]

    assert b"".join(run(*newest_first)) == b"".join(line + b"\tat a trace\n" for line in LINES)


def test_threads_out_of_order_by_milliseconds_are_not_newest_first() -> None:
    lines = [f"2026-11-21 06:33:44.00{9 - ms} INFO\n".encode() for ms in range(9)]

    assert run(*lines) == lines


def stamped(*seconds: float) -> list[bytes]:
    return [f"2026-11-21 06:33:{second:06.3f} INFO line\n".encode() for second in seconds]


@pytest.mark.parametrize("ahead_ms", [1, 300])
def test_replicas_and_continuations_step_forward_in_a_newest_first_export(ahead_ms: int) -> None:
    """A store sorts by its own stamps; a line without one has the store's, to the second."""
    lines = stamped(*(second + ahead_ms / 1000 * (second % 2) for second in range(40, 4, -1)))
    lines[:0] = stamped(41.0, 41.0 + ahead_ms / 1000, 41.0)

    assert run(*lines) == lines[::-1]


def test_long_burst_at_the_end_of_a_newest_first_export_decides_nothing() -> None:
    """A client's settings are some 200 lines of a few milliseconds."""
    lines = stamped(*(50 - number / 1000 for number in range(200)), 40, 30, 20)

    assert run(*lines) == lines[::-1]


def test_two_lines_that_are_newest_first_are_reversed() -> None:
    assert run(*stamped(44, 28)) == stamped(28, 44)


def test_burst_in_order_lets_a_growing_stream_pass() -> None:
    fed: list[bytes] = []

    def pieces() -> Iterator[tuple[bytes, float]]:
        for line in stamped(*(44 + number / 1000 for number in range(30))):
            fed.append(line)
            yield line, ARRIVAL_AT

    next(normalise(pieces(), "UTC"))

    assert len(fed) < 10


def entries(*, newest_first: bool) -> list[dict[str, str]]:
    found = [{"timestamp": f"2026-11-21T06:33:4{s}Z", "message": "ü" * s} for s in range(8)]
    return found[::-1] if newest_first else found


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("size", [7, 1_000_000])
@pytest.mark.parametrize("indent", [None, 2])
def test_array_becomes_lines_in_order(size: int, indent: int | None, *, newest_first: bool) -> None:
    found = entries(newest_first=newest_first)
    data = json.dumps(found, indent=indent, ensure_ascii=False).encode()
    pieces = [data[start : start + size] for start in range(0, len(data), size)]

    assert [json.loads(line) for line in run(*pieces)] == entries(newest_first=False)


def test_byte_order_mark_is_cut_off() -> None:
    assert run(b"\xef\xbb\xbf" + LINES[0], LINES[1]) == LINES[:2]


def test_head_is_not_lost_where_a_file_breaks_off() -> None:
    def pieces() -> Iterator[tuple[bytes, float]]:
        yield LINES[0], ARRIVAL_AT
        raise SourceError("broken")

    blocks = normalise(pieces(), "UTC")

    assert next(blocks) == (LINES[0], ARRIVAL_AT)
    with pytest.raises(SourceError):
        next(blocks)


def test_newest_first_with_whole_seconds_before_the_lines_own_times_is_reversed() -> None:
    """A line without an own time has the store's time, and that is up to a second early."""
    texts = ["2026-11-21 06:33:{:02}.771 INFO a", "\tat b", "2026-11-21 06:33:{:02}.900 INFO c"]
    lines = [
        f'2026-11-21T06:33:{second:02}Z {{pod="p"}} {text.format(second)}\n'.encode()
        for second in range(10, 30)
        for text in texts
    ]

    assert run(*lines[-2::-1]) == lines[:-1]
    assert run(*lines) == lines


def test_burst_within_a_moment_that_runs_backwards_is_reversed() -> None:
    """A worker that rejoins without a pause writes 120 lines in 0.2 s."""
    lines = [f"2026-11-21 06:33:44.{ms:03} INFO\n".encode() for ms in range(200, 0, -2)]

    assert run(*lines) == lines[::-1]
