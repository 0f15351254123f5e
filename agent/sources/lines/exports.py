"""Exports of log stores as lines in the order of time: arrays of JSON, and newest-first text.

Theory of operation. An export may be one JSON array over many lines, or begin with its newest entry
(gcloud, logcli, Kibana, Datadog). The head of a file shows both. An array is cut into one line an
element; a file that runs backwards is held until its end and reversed entry by entry. Any other
file passes through unchanged, block by block.
"""

import json
from collections.abc import Iterator
from typing import Any

from agent.errors import SourceError
from agent.sources.lines.envelope import Unwrapper
from agent.sources.lines.timestamps import TimestampReader

Blocks = Iterator[tuple[bytes, float]]

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_HEAD_BYTES = 1 << 20
_HEAD_LINES = 40
"""Dated lines that decide the order at the latest; the first step forward decides at once."""
_BACKWARD_STEPS = 3
_BACKWARD_S = 0.5
"""Threads write out of order, by less than this."""
_REVERSED_MAX_BYTES = 512 << 20
"""Longest newest-first file; a longer one is read as it is."""


def normalise(blocks: Blocks, timezone: str | None) -> Blocks:
    """Yield the blocks of a recording as lines in the order of time."""
    order = _Order(timezone)
    head: list[tuple[bytes, float]] = []
    size = 0
    try:
        for data, arrival_at in blocks:
            plain = data if head else data.removeprefix(_BYTE_ORDER_MARK)
            head.append((plain, arrival_at))
            size += len(plain)
            if _is_array(head[0][0]) or size > _HEAD_BYTES:
                break
            if order.feed(plain, arrival_at) is False:
                break
    except SourceError:  # a file that breaks off
        yield from head
        raise
    if head and _is_array(head[0][0]):
        yield from _lines_of_array(head, blocks, timezone)
        return
    if order.is_backward:
        yield from _reverse(head, blocks, timezone)
        return
    yield from head
    yield from blocks


class _Order:
    """Decides whether the first dated lines run backwards."""

    def __init__(self, timezone: str | None) -> None:
        self._reader, self._unwrapper = TimestampReader(timezone), Unwrapper(timezone)
        self._carry = b""
        self._times: list[float] = []
        self._forward = 0

    def feed(self, data: bytes, arrival_at: float) -> bool | None:
        """Take the next bytes; return False once the order is not backwards, None before."""
        *lines, self._carry = (self._carry + data).split(b"\n")
        for line in lines:
            at = _date(line, self._reader, self._unwrapper, arrival_at)
            if at is None:
                continue
            if self._times and at > self._times[-1]:
                self._forward += 1
            self._times.append(at)
            if self._forward and not self.is_backward:
                return False
            if len(self._times) >= _HEAD_LINES:
                return self.is_backward
        return None

    @property
    def is_backward(self) -> bool:
        """Whether most steps lead into the past, and far enough."""
        pairs = zip(self._times, self._times[1:], strict=False)
        backward = sum(later < earlier for earlier, later in pairs)
        return (
            backward >= max(_BACKWARD_STEPS, 3 * self._forward)
            and self._times[0] - self._times[-1] >= _BACKWARD_S
        )


def _date(
    line: bytes, reader: TimestampReader, unwrapper: Unwrapper, arrival_at: float
) -> float | None:
    """Return the time of a line, None without one."""
    for entry in unwrapper.unwrap(line, arrival_at):
        at = entry.at if entry.at is not None else reader.find(entry.text, arrival_at)
        if at is not None:
            return at
    return None


def _reverse(head: list[tuple[bytes, float]], blocks: Blocks, timezone: str | None) -> Blocks:
    """Yield a newest-first file as one block, oldest entry first."""
    pieces, size, arrival_at = [data for data, _ in head], sum(len(d) for d, _ in head), head[-1][1]
    for data, arrival_at in blocks:
        pieces.append(data)
        size += len(data)
        if size > _REVERSED_MAX_BYTES:
            yield b"".join(pieces), arrival_at
            yield from blocks
            return
    reader, unwrapper = TimestampReader(timezone), Unwrapper(timezone)
    entries: list[list[bytes]] = []
    for line in b"".join(pieces).splitlines():
        if _date(line, reader, unwrapper, arrival_at) is not None or not entries:
            entries.append([])
        entries[-1].append(line)
    yield b"".join(b"\n".join(lines) + b"\n" for lines in reversed(entries)), arrival_at


def _is_array(head: bytes) -> bool:
    text = head.lstrip()
    return text.startswith(b"[") and text[1:].lstrip()[:1] in {b"{", b""} and bool(text[1:].strip())


def _lines_of_array(
    head: list[tuple[bytes, float]], blocks: Blocks, timezone: str | None
) -> Blocks:
    """Yield the elements of a JSON array, one a line, in the order of time."""
    text, arrival_at = b"".join(data for data, _ in head), head[-1][1]
    decoder, order = json.JSONDecoder(), _Order(timezone)
    lines: list[bytes] = []
    decoded, rest = _elements(decoder, text.lstrip()[1:])
    lines += decoded
    for data, arrival_at in blocks:  # noqa: B007 - the last one counts
        decoded, rest = _elements(decoder, rest + data)
        lines += decoded
    order.feed(b"".join(lines[:_HEAD_LINES]), arrival_at)
    if order.is_backward:
        lines.reverse()
    yield b"".join(lines), arrival_at


def _elements(decoder: json.JSONDecoder, data: bytes) -> tuple[list[bytes], bytes]:
    """Return the whole elements at the start of the bytes as lines, and the rest."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:  # within a character
        text = data[: error.start].decode("utf-8")
    place, lines = 0, []
    while True:
        while place < len(text) and text[place] in " \t\r\n,":
            place += 1
        try:
            found, end = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            break
        lines.append(_line(found))
        place = end
    return lines, data[len(text[:place].encode()) :]


def _line(found: Any) -> bytes:
    return json.dumps(found, ensure_ascii=False).encode() + b"\n"
