"""Consoles of Go and Node whose fields or times stand apart from the message.

Theory of operation. pterm draws a tree of fields below a message, devslog writes one line for each,
and consola writes the time at the right margin of a terminal. Each record becomes one line, with
the time in front and the fields behind as ``name="value"``.

Sources: https://github.com/pterm/pterm/blob/v0.12.84/logger.go,
https://github.com/golang-cz/devslog/blob/v0.0.17/devslog.go,
https://github.com/unjs/consola/blob/v3.4.2/src/reporters/fancy.ts
"""

import re
from collections.abc import Callable, Iterator

from agent.sources.lines.colours import strip_colours

Blocks = Iterator[tuple[bytes, float]]
Change = Callable[[str], str]

_LEVEL = r"(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL)"
_TREE = re.compile(r"\s{8,64}[\u251c\u2514] ([A-Za-z_][\w.-]{0,63})=(.*)")
_OF_TREE = re.compile(r"\s{16,64}\S")
_LISTED = re.compile(r"(?:[#!@*EGDTSMPF=] | {2})([A-Za-z_][\w.-]{0,63})\s{0,64}: (.*)")
_OF_LISTED = re.compile(r"(?:[#!@*EGDTSMPF=] | {2})\S| {4,64}\S")
_ITEM = re.compile(r"\s{0,64}\d{1,3}: ")
"""An error of a chain; the first one is the outermost."""
_EMPTY = "empty"
_LISTED_HEAD = re.compile(
    rf"(?m)^\[?[\d:./ T-]{{4,32}}Z?\]?  {_LEVEL}  \S.*\n(?:[#!@*E] |  )[A-Za-z_][\w.-]{{0,63}}\s*: "
)
_MARGIN_TIME = r"\s{2,256}(?:[\w:@./-]{1,64} )?(\d{1,2}:\d\d:\d\d(?: [AP]M)?)\s{0,8}"
_MARGIN = re.compile(rf"(\s?\S.{{0,8192}}?){_MARGIN_TIME}")
_MARGIN_HEAD = re.compile(rf"(?m)^(?:[^\x00-\x7f]| [A-Z]{{4,5}}) .*{_MARGIN_TIME}$")
_LEAST = 2
_RECORD_LINES = 256


def find_console(head: bytes) -> Callable[[Blocks], Blocks] | None:
    """Return the change that makes a line of each record; None for any other text."""
    text = strip_colours(head.decode(errors="replace"))
    if sum(_TREE.match(line) is not None for line in text.splitlines()) >= _LEAST:
        return lambda blocks: _join(blocks, _OF_TREE, _TREE)
    if len(_LISTED_HEAD.findall(text)) >= _LEAST:
        return lambda blocks: _join(blocks, _OF_LISTED, _LISTED)
    if len(_MARGIN_HEAD.findall(text)) >= _LEAST:
        return _put_times_first
    return None


def _join(blocks: Blocks, below: re.Pattern[str], field: re.Pattern[str]) -> Blocks:
    """Yield a line for each record; a record ends with the next line that is not below it."""
    record: list[str] = []
    for lines, arrival_at in _split(blocks):
        joined: list[str] = []
        for line in lines:
            if record and len(record) < _RECORD_LINES and below.match(line) is not None:
                record.append(line)
                continue
            joined += [_render(record, field)] if record else []
            record = [line]
        yield "".join(f"{line}\n" for line in joined).encode(), arrival_at
    if record:
        yield f"{_render(record, field)}\n".encode(), arrival_at


def _split(blocks: Blocks) -> Iterator[tuple[list[str], float]]:
    """Yield the whole lines of each block, without colours."""
    carry, arrival_at = b"", 0.0
    for data, arrival_at in blocks:
        *lines, carry = (carry + data).split(b"\n")
        yield [_decode(line) for line in lines], arrival_at
    if carry:
        yield [_decode(carry)], arrival_at


def _decode(line: bytes) -> str:
    return strip_colours(line.decode(errors="replace").rstrip("\r"))


def _render(record: list[str], field: re.Pattern[str]) -> str:
    """Return a record as one line: its message, which may be wrapped, and its fields."""
    message, names, values = [record[0]], list[str](), list[str]()
    for line in record[1:]:
        found = field.match(line)
        if found is not None and not _ITEM.fullmatch(f"{found[1]}: "):
            names.append(found[1])
            values.append("" if found[2].strip() == _EMPTY else found[2].strip())
        elif values:
            values[-1] = f"{values[-1]} {_ITEM.sub('', line, count=1).strip()}".strip()
        else:
            message.append(line.strip())
    quoted = (value.replace("\\", "\\\\").replace('"', '\\"') for value in values)
    pairs = (f'{name}="{value}"' for name, value in zip(names, quoted, strict=True))
    return " ".join((*message, *pairs))


def _put_times_first(blocks: Blocks) -> Blocks:
    for lines, arrival_at in _split(blocks):
        found = ((line, _MARGIN.fullmatch(line)) for line in lines)
        texts = (line if hit is None else f"{hit[2]} {hit[1]}" for line, hit in found)
        yield "".join(f"{text}\n" for text in texts).encode(), arrival_at
