"""Objects over several lines behind the names of streams, as `docker compose logs` prints them.

Theory of operation. Each line of an indented object has the name of its stream, and the lines of
several streams alternate. The lines of each stream are held until its object is whole; the object
is then one line behind its name. Of one stream alone, the name is a margin (copied_margins.py).
"""

from collections.abc import Iterable, Iterator

from agent.sources.lines.envelopes.collector_prefix import CollectorPrefix, match_prefix
from agent.sources.lines.fields.colours import strip_colours
from agent.sources.lines.fields.decoding import decode
from agent.sources.lines.whole_files.short_lines import shorten_lines

Blocks = Iterator[tuple[bytes, float]]

_OPEN, _CLOSE = "{", ("}", "},")
_SIGNS = (b"{\n", b"{\r\n")
_HEAD_LINES = 200
_LEAST_STREAMS = 2
_MAX_LINES = 512
"""Of one object; a longer one is read by lines."""
_MAX_STREAMS = 256
_MAX_CHARS = 8 << 20
"""Of all objects that are not whole; with more they are read by lines."""

Held = dict[str, list[str]]
"""Lines of the object that each stream has begun."""


def has_named_objects(head: bytes) -> bool:
    """Return whether several streams have names, and one of them begins an object on a line."""
    if not any(sign in head for sign in _SIGNS):
        return False
    lines = [_decode(line) for line in head.split(b"\n", _HEAD_LINES)[:_HEAD_LINES]]
    found = [(prefix, line) for line in lines if (prefix := match_prefix(line)) is not None]
    names = {prefix.origin for prefix, _ in found if prefix.origin}
    is_opened = any(line[prefix.end :].strip() == _OPEN for prefix, line in found)
    return is_opened and len(names) >= _LEAST_STREAMS


def join_objects(blocks: Blocks) -> Blocks:
    """Yield the lines, with each object behind a name as one line."""
    held: Held = {}
    arrival_at = 0.0
    for data, arrival_at in shorten_lines(blocks):
        lines = map(_decode, data.removesuffix(b"\n").split(b"\n"))
        yield _write(each for line in lines for each in _read(line, held)), arrival_at
        if sum(len(line) for each in held.values() for line in each) > _MAX_CHARS:
            yield _write(_take_all(held)), arrival_at
    yield _write(_take_all(held)), arrival_at


def _take_all(held: Held) -> list[str]:
    lines = [line for each in held.values() for line in each]
    held.clear()
    return lines


def _read(line: str, held: Held) -> Iterator[str]:
    """Yield the lines that are known to be whole with this one."""
    prefix = match_prefix(line)
    name = "" if prefix is None else prefix.origin
    if prefix is None or not name or (name not in held and line[prefix.end :].strip() != _OPEN):
        yield line
        return
    lines = held.setdefault(name, [])
    lines.append(line)
    is_whole = line[prefix.end :].rstrip() in _CLOSE
    if is_whole or len(lines) > _MAX_LINES or len(held) > _MAX_STREAMS:
        del held[name]
        yield from [_join(lines, prefix)] if is_whole else lines


def _join(lines: list[str], prefix: CollectorPrefix) -> str:
    """Return an object behind its name; the lines as they are, if they are no object."""
    texts = [line[found.end :] for line in lines if (found := match_prefix(line)) is not None]
    text = " ".join(each.strip() for each in texts).rstrip(",")
    return "\n".join(lines) if decode(text) is None else lines[0][: prefix.end] + text


def _decode(line: bytes) -> str:
    return strip_colours(line.decode(errors="replace").rstrip("\r"))


def _write(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
