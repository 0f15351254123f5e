"""Text of a followed file, with the changes that a recording's text has.

Theory of operation. Some forms need a change of each line before it is read (copied_text.py), or
have a record over several lines (console_records.py). The first bytes of a file show that, and the
change then applies to all that follows, also after a restart. Meanwhile whole lines are passed on
alone. A text without such a form is passed on unchanged.
"""

from typing import Any

from agent.sources.lines.parsing.line_parser import LINE_LIMIT
from agent.sources.lines.whole_files.console_records import (
    CONSOLES,
    Console,
    choose_console,
    count_signs,
)
from agent.sources.lines.whole_files.copied_text import (
    COPIES,
    Copy,
    has_tail_header,
    is_ended_by_returns,
    name_by_header,
)

WATCHED_BYTES = 1 << 14
"""First bytes that may show a form: to search them takes some 0.2 ms a file."""


_NO_SIGNS = (0,) * len(CONSOLES)


class LiveText:
    """Text of one followed file: bytes in any pieces to bytes."""

    __slots__ = (
        "_console",
        "_copies",
        "_has_returns",
        "_held",
        "_is_plain",
        "_name",
        "_seen",
        "_signs",
    )

    def __init__(self) -> None:
        self._held, self._seen = b"", 0
        self._is_plain = self._has_returns = False
        self._copies: tuple[Copy, ...] = ()
        self._console: Console | None = None
        self._signs = _NO_SIGNS
        self._name: bytes | None = None
        """The file of the next lines, as `tail -f` names it; None: one file."""

    @property
    def held(self) -> int:
        """Bytes that are held: half a line, or a record that may go on."""
        return len(self._held)

    @property
    def half(self) -> bytes:
        """Return the begin of the line that is held last."""
        return self._held.rpartition(b"\n")[2]

    @property
    def holds_record(self) -> bool:
        """Whether whole lines are held, which `settle` releases."""
        return self._console is not None and b"\n" in self._held

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes; return those that can be read."""
        if self._is_plain:
            return data
        if not self._seen and is_ended_by_returns(data[:WATCHED_BYTES]):
            self._has_returns = True
        if self._has_returns:
            data = data.replace(b"\r", b"\n")
        text = self._held + data if self._held else data
        if b"\n" not in data:
            return self._hold(b"", text)
        whole, newline, half = text.rpartition(b"\n")
        whole += newline
        self._watch(whole)
        if self._is_plain:
            self._held = b""
            return text
        last = len(whole)
        if self._console is not None:
            lines = whole.split(b"\n")[:-1]
            begin = self._console.find_last(lines)
            last -= sum(len(line) + 1 for line in lines[begin:])
        return self._hold(self._change(whole[:last]), whole[last:] + half)

    def settle(self) -> bytes:
        """Return the records that are held, as nothing was added for a while."""
        whole, newline, self._held = self._held.rpartition(b"\n")
        return self._change(whole + newline)

    def end(self) -> bytes:
        """Return all that is held."""
        held, self._held = self._held, b""
        return held if self._is_plain else self._change(held)

    def state(self) -> list[Any]:
        """Return the changes for a checkpoint; an empty list without any."""
        if not (self._is_changed or any(self._signs)) or self._is_plain:
            return []
        name = None if self._name is None else self._name.decode(errors="surrogateescape")
        console = None if self._console is None else self._console.name
        copies = [copy.name for copy in self._copies]
        return [copies, console, name, self._has_returns, self._signs, self._seen]

    def restore(self, state: list[Any]) -> None:
        """Restore a `state`."""
        if not state:
            return
        copies, console, name, self._has_returns, signs, self._seen = state
        self._signs = tuple(signs)
        self._copies = tuple(copy for copy in COPIES if copy.name in copies)
        self._console = next((each for each in CONSOLES if each.name == console), None)
        self._name = None if name is None else name.encode(errors="surrogateescape")

    @property
    def _is_changed(self) -> bool:
        is_whole = self._copies or self._console is not None
        return bool(is_whole) or self._has_returns or self._name is not None

    def _hold(self, out: bytes, rest: bytes) -> bytes:
        """Hold the rest, unless it is longer than any line that is read."""
        if len(rest) > LINE_LIMIT:
            out, rest = out + rest, b""
        self._held = rest
        return out

    def _watch(self, whole: bytes) -> None:
        """Search the first bytes of the text for the signs of a form."""
        if self._seen < WATCHED_BYTES:
            head = whole[: WATCHED_BYTES - self._seen]
            known = self._copies
            self._copies = tuple(
                copy for copy in COPIES if copy in known or (copy.is_followed and copy.shows(head))
            )
            counts = zip(self._signs, count_signs(head), strict=True)
            self._signs = tuple(before + found for before, found in counts)
            self._console = self._console or choose_console(self._signs)
            if self._name is None and has_tail_header(head):
                self._name = b""
        elif not self._is_changed:
            self._is_plain = True
        self._seen += len(whole)

    def _change(self, whole: bytes) -> bytes:
        """Return whole lines as they are read."""
        if not whole:
            return b""
        end = b"\n" * whole.endswith(b"\n")
        whole = whole.removesuffix(b"\n")
        for copy in self._copies:
            whole = copy.change(whole)
        if self._console is not None:
            whole = self._console.join(whole.split(b"\n")).removesuffix(b"\n")
        if self._name is not None:
            named, self._name = name_by_header(whole.split(b"\n"), self._name)
            whole = named.removesuffix(b"\n")
            end = end if whole else b""
        return whole + end
