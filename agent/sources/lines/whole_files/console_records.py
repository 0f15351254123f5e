"""Consoles of Go and Node whose fields or times stand apart from the message.

Theory of operation. pterm draws a tree of fields below a message, devslog writes one line for each,
and consola writes the time at the right margin of a terminal. Each record becomes one line, with
the time in front and the fields behind as ``name="value"``.

Sources: https://github.com/pterm/pterm/blob/v0.12.84/logger.go,
https://github.com/golang-cz/devslog/blob/v0.0.17/devslog.go,
https://github.com/unjs/consola/blob/v3.4.2/src/reporters/fancy.ts
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from agent.sources.lines.fields.colours import strip_colours
from agent.sources.lines.whole_files.short_lines import shorten_lines

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
_MAY_BE_LISTED = re.compile(r"[ \[\d]")
_MARGIN_TIME = r"\s{2,256}(?:[\w:@./-]{1,64} )?(\d{1,2}:\d\d:\d\d(?: [AP]M)?)\s{0,8}"
_MARGIN = re.compile(rf"(\s?\S(?:.{{0,8192}}\S)?){_MARGIN_TIME}")
_MARGIN_HEAD = re.compile(rf"(?m)^(?:[^\x00-\x7f]| [A-Z]{{4,5}}) .*\S{_MARGIN_TIME}$")
_LEAST = 2
_RECORD_LINES = 256
_HELD_BYTES = 8 << 20
"""Of a record that may go on; a longer one ends."""


@dataclass(frozen=True, slots=True)
class Console:
    """A console's records: the lines below a message, and the fields in them."""

    name: str
    sign: re.Pattern[str]
    """Found in `_LEAST` places of a console's text."""
    below: re.Pattern[str] | None = None
    """None: a record is one line."""
    field: re.Pattern[str] = _TREE

    def join(self, lines: Sequence[bytes]) -> bytes:
        """Return whole records as one line each."""
        return "".join(f"{line}\n" for line in self._join(map(_decode, lines))).encode()

    def find_last(self, lines: Sequence[bytes]) -> int:
        """Return the place of the last record: the next line may still belong to it."""
        if self.below is None:
            return len(lines)
        last = max(0, len(lines) - 1)
        least = max(0, len(lines) - _RECORD_LINES)
        while last > least and self.below.match(_decode(lines[last])) is not None:
            last -= 1
        return last

    def _join(self, lines: Iterator[str]) -> Iterator[str]:
        record: list[str] = []
        for line in lines:
            if self.below is None:
                yield _put_time_first(line)
            elif record and len(record) < _RECORD_LINES and self.below.match(line) is not None:
                record.append(line)
            else:
                yield from [_render(record, self.field)] if record else []
                record = [line]
        yield from [_render(record, self.field)] if record else []


CONSOLES = (
    Console("tree", re.compile(rf"(?m)^{_TREE.pattern}"), _OF_TREE, _TREE),
    Console("listed", _LISTED_HEAD, _OF_LISTED, _LISTED),
    Console("margin", _MARGIN_HEAD),
)


def count_signs(head: bytes) -> list[int]:
    """Return how often the sign of each of the consoles is found in a text."""
    text = strip_colours(head.decode(errors="replace"))
    if text.isascii() and "\n " not in text and _MAY_BE_LISTED.match(text) is None:
        return [0] * len(CONSOLES)
    return [len(console.sign.findall(text)) for console in CONSOLES]


def choose_console(counts: Sequence[int]) -> Console | None:
    """Return the console that so many signs show; None: another text."""
    found = zip(CONSOLES, counts, strict=True)
    return next((console for console, count in found if count >= _LEAST), None)


def find_console(head: bytes) -> Callable[[Blocks], Blocks] | None:
    """Return the change that makes a line of each record; None for any other text."""
    console = choose_console(count_signs(head))
    return None if console is None else lambda blocks: _join_blocks(blocks, console)


def _join_blocks(blocks: Blocks, console: Console) -> Blocks:
    held, arrival_at = list[bytes](), 0.0
    for data, arrival_at in shorten_lines(blocks):
        held += data.removesuffix(b"\n").split(b"\n")
        last = console.find_last(held)
        if sum(map(len, held[last:])) > _HELD_BYTES:
            last = len(held)
        yield console.join(held[:last]), arrival_at
        del held[:last]
    if held:
        yield console.join(held), arrival_at


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


def _put_time_first(line: str) -> str:
    found = _MARGIN.fullmatch(line)
    return line if found is None else f"{found[2]} {found[1]}"
