"""Documents with several entries: JSON's arrays and objects, gcloud's YAML, tables, records.

Theory of operation. The head of a text shows the form, and with it the splitter that cuts the text
into entries. Each entry becomes one line. Some forms can be cut while a program still writes them:
`find_growing` returns a function that finds the end of the last whole entry.
"""

import contextlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from agent.sources.lines.fields.decoding import Json, decode
from agent.sources.lines.fields.entry_keys import MESSAGES, TIMES, is_entry
from agent.sources.lines.fields.json_entry import split_export
from agent.sources.lines.fields.record_dumps import (
    VERBOSE_HEAD,
    WINDOWS_CREATED,
    WINDOWS_EVENT,
    Split,
    find_dump,
    find_journal_end,
    split_collector,
    split_html,
    split_journal,
    split_ruby,
    split_splunk,
    split_verbose,
    split_windows_list,
    split_windows_text,
    split_windows_xml,
    split_xml,
)
from agent.sources.lines.fields.yaml_records import read_yaml_record
from agent.sources.lines.whole_files.printed_tables import find_printed_table
from agent.sources.lines.whole_files.tables import find_named_table, find_names, find_table

FindEnd = Callable[[bytes], int]
"""Returns the place behind the last whole entry of a text."""

_IS_OPEN = re.compile(rb"\{\s*\n")
"""An object over several lines."""
_YAML_BEGIN = re.compile(rb"(?m)^---(?:[ \t]*\r?\n|(?=[ \t]))")
_YAML_TIME = re.compile(rb"(?m)^(?:receiveT|t)imestamp: ")
_YAML_ITEMS = re.compile(
    rb"(?:---[ \t]*\r?\n)?(?:\w{1,64}:[ \t]*\r?\n)?(?=- ['\"]?[\w@.-]{1,64}['\"]?: )"
)
_YAML_ITEM, _YAML_DASH = re.compile(rb"(?m)^(?=- )"), re.compile(rb"\A- ")
_YAML_KEY = re.compile(rb"(?m)^(?:- |  )['\"]?([\w@.-]{1,64})['\"]?: ")
_YAML_BYTES = 1 << 14
_AWS_HEAD = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]{8,15}\+00:00 (?:\S{1,512} )?", re.ASCII)
_AWS_OBJECT = re.compile(rb"(?m)^\d{4}-\d\d-\d\dT[\d:.]{8,15}\+00:00 (?:\S{1,512} )?\r?\n\{\r?\n")
"""The time and the stream's name, above an object: `aws logs tail --format json`."""
_AWS_LINE = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}000\+00:00 \S")
"""A line of `aws logs tail`: objects may follow, of other messages."""
_JSON_MARK = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[\]{}]')
_CLOSING = bytes.maketrans(b"[{", b"]}")
_BEFORE_LIST_BYTES = 1 << 14
_BETWEEN = b" \t\r\n,"
_BETWEEN_OBJECTS = re.compile(r"[\s,]{0,64}(?:[\[\]](?=[\s,\]{]|\Z)[\s,]{0,64}){0,4}(?=\{|\Z)")
_IS_OBJECT = re.compile(r"\{\s{0,64}(?:[\"}]|\Z)")
_DECODER, _TEXTS_OF_NUMBERS = json.JSONDecoder(), json.JSONDecoder(parse_int=str)
_WORD_CHARS = 6
_FAULTS_MAX = 200
"""Broken objects; with more of them, the text is read by lines: each costs a search of it all."""
_LEAST_LINES = 2
_RECORD = re.compile(rb"(?m)^LogRecord #\d")
_SCOPE = re.compile(rb"(?m)^(?:\S{10,40}\t\w{4,8}\t)?ResourceLog #\d+\s*$")
_ROW_OF_NAMES = re.compile(rb'(?:"[^"\n]{1,64}"[,;\t]){1,64}"[^"\n]{1,64}"\r?\n')
_VERBOSE_BEGIN = re.compile(
    rb"[A-Z][a-z]{2} \d{4}-[\d: .-]{10,32} \S{1,6} \[s=[^\n]{0,1024}\]\n {0,4}"
)
_ROWS = re.compile(rb'(?:[^"\n]*+(?:"[^"]*+"[^"\n]*+)*+\n)*+')
"""Whole rows. It never goes back: to search the begin of an open cell from behind, line by line,
took seconds for a MiB of short lines."""
_XML_END = re.compile(rb"</(?:(?:log4j:)?[Ee]vent|record)>\s*")
_STRINGS = re.compile(
    rb'(?:\{\s*"\w{1,64}"\s?:\s*)?\[\s*"(?:[^"\\\n]|\\.){0,4096}"\s*,\s*"(?:[^"\\\n]|\\.)*"\s*[,\]]'
)
"""A list of strings, as APIs of containers return a log."""


def find_form(head: bytes) -> Split | None:
    """Return the splitter of a document that is more than a line an entry; None for lines."""
    text = head.lstrip()
    if text.startswith(b"[") and text[1:].lstrip()[:1] in {b"{", b""} and text[1:].strip():
        return split_json
    if (dump := _find_strings(text) or find_dump(head)) is not None:
        return dump
    first = text.partition(b"\n")[0].strip()
    if text.startswith(b"{") and (_IS_OPEN.match(text) or b'}{"' in first or _is_export(first)):
        return split_json
    if _AWS_OBJECT.search(head) is not None:
        return split_json
    return _find_yaml(head) or find_table(text) or find_printed_table(text)


def _find_yaml(head: bytes) -> Split | None:
    if head.startswith(b"---\n") and _YAML_TIME.search(head):
        return split_yaml
    return split_yaml_list if _is_yaml_list(head) else None


def _find_strings(text: bytes) -> Split | None:
    return None if _STRINGS.match(text) is None else _split_strings


def _is_export(line: bytes) -> bool:
    """Return whether a line holds several entries, as the response of a store's API does.

    The line may be cut: of a long one, the whole objects in its list count.
    """
    found = decode(line.decode(errors="replace")) if len(line) > 1 else None
    if found is None:
        split, find_end, rest = find_list(line)
        found = next(split(rest[: find_end(rest)]), None)
    return isinstance(found, dict) and split_export(found) != [found]


def _encode(found: Any) -> str:
    return json.dumps(found, ensure_ascii=False, default=str)


def _split_strings(data: bytes) -> Iterator[Any]:
    """Yield the strings of a list, or of the lists in the fields of an object.

    If each line is a list of its own, its strings are the cells of one entry.
    """
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        yield from map(_join_cells, data.decode(errors="replace").splitlines())
        return
    fields = found.values() if isinstance(found, dict) else (found,)
    for each in fields:
        texts = each if isinstance(each, list) else ()
        yield from (text for text in texts if isinstance(text, str))


def _join_cells(line: str) -> str:
    """Return a list of strings as one line; any other line as it is."""
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(line)
        if isinstance(found, list) and all(isinstance(cell, str) for cell in found):
            return " ".join(found)
    return line


def split_json(data: bytes) -> Iterator[Any]:
    """Yield the objects of an array, or a sequence of objects.

    Text between the objects is yielded as lines, such as a log after the configuration that its
    program printed. The head that `aws logs tail` writes above an object is a part of it.
    """
    head = ""
    for found, _ in _read_json(data.decode(errors="replace"), is_whole=True):
        if isinstance(found, str):
            if head:
                yield head
            head = found if _AWS_HEAD.fullmatch(found) else ""
            if not head:
                yield found
            continue
        if head:
            yield head + _encode(found)
            head = ""
            continue
        yield found
    if head:
        yield head


def find_json_end(data: bytes) -> int:
    """Return the place behind the last whole object or line of a sequence; 0 without any."""
    text = data.decode(errors="surrogateescape")
    end = 0
    for found, place in _read_json(text, is_whole=False):
        if not (isinstance(found, str) and _AWS_HEAD.fullmatch(found)):
            end = place
    return len(text[:end].encode(errors="surrogateescape"))


def _read_json(text: str, *, is_whole: bool) -> Iterator[tuple[Any, int]]:
    """Yield each object and each line between objects, with the place behind it.

    ``is_whole`` takes the text as complete: the object that breaks off at its end is yielded as
    lines, or is left out of an array. A broken object is lines up to its fault.
    """
    place, fault, faults = 0, 0, 0
    is_cut = not is_whole or text.lstrip().startswith("[")
    while place < len(text):
        if (between := _BETWEEN_OBJECTS.match(text, place)) is not None:
            place = between.end()
        is_tried = place >= fault and faults < _FAULTS_MAX
        if is_tried and _IS_OBJECT.match(text, place) is not None:
            found, end = _decode_at(text, place)
            if found is not None:
                place = end
                yield found, place
                continue
            if is_cut and end >= len(text):
                return
            fault, faults = end, faults + 1
        line_end = text.find("\n", place) + 1 or (len(text) if is_whole else 0)
        if not line_end:
            return
        if line := text[place:line_end].rstrip("\r\n"):
            yield line, line_end
        place = line_end


def _decode_at(text: str, place: int) -> tuple[Any, int]:
    """Return the object at a place and the place behind it.

    Of a broken one, None and the begin of the line with its fault; the end of the text, if the
    object only lacks its end.
    """
    try:
        return _DECODER.raw_decode(text, place)
    except json.JSONDecodeError as error:
        is_end = _breaks_off(error, text)
        return None, len(text) if is_end else text.rfind("\n", 0, error.pos) + 1
    except RecursionError:
        return None, place
    except ValueError:  # a number of thousands of digits
        return _decode_numbers(text, place)


def _decode_numbers(text: str, place: int) -> tuple[Any, int]:
    """Return the same of an object whose numbers are read as texts."""
    try:
        return _TEXTS_OF_NUMBERS.raw_decode(text, place)
    except (ValueError, RecursionError):
        return None, place


def _breaks_off(error: json.JSONDecodeError, text: str) -> bool:
    """Return whether an object only lacks its end; it may be within a word, as ``null``."""
    is_in_text = error.msg.startswith("Unterminated string")
    return is_in_text or error.pos >= len(text.rstrip()) - _WORD_CHARS


def find_list(text: bytes) -> tuple[Split, FindEnd, bytes]:
    """Return how an object is cut within its first list of objects, and the text within that.

    A store's API returns such an object, as of CloudWatch and Elasticsearch. What stands before and
    around the list is read again with each piece.
    """
    open_brackets = bytearray()
    for found in _JSON_MARK.finditer(text, 0, _BEFORE_LIST_BYTES):
        mark = found[0]
        if mark in {b"[", b"{"}:
            if mark == b"{" and open_brackets[-1:] == b"[":
                begin = text[: found.start()]
                ends = bytes(open_brackets[::-1].translate(_CLOSING))
                return partial(_split_within, begin, ends), find_json_end, text[found.start() :]
            open_brackets += mark
        elif mark in {b"]", b"}"}:
            del open_brackets[-1:]
    return split_json, find_none, text


def _split_within(begin: bytes, ends: bytes, data: bytes) -> Iterator[Any]:
    """Yield the objects of a document that has these entries of its list; the last has its end."""
    whole = begin + data.strip(_BETWEEN)
    try:
        json.loads(whole)
    except (ValueError, RecursionError):
        whole += ends
    return split_json(whole)


def find_none(_text: bytes) -> int:
    """Return 0, as of a form without a known end."""
    return 0


def split_yaml(data: bytes) -> Iterator[Any]:
    """Yield the documents of gcloud's default format; a broken one as lines."""
    for text in _YAML_BEGIN.split(data):
        found = read_yaml_record(text)
        if found is not None:
            yield found
        else:
            yield from text.decode(errors="replace").splitlines()


def _is_yaml_list(head: bytes) -> bool:
    """Return whether a text is a list of objects with times and messages, as of Azure's and AWS's.

    A list may stand below one name, as ``events:``.
    """
    begin = _YAML_ITEMS.match(head)
    if begin is None:
        return False
    keys = {key.decode() for key in _YAML_KEY.findall(head, begin.end(), _YAML_BYTES)}
    return not (keys.isdisjoint(TIMES) or keys.isdisjoint(MESSAGES))


def split_yaml_list(data: bytes) -> Iterator[Any]:
    """Yield the objects of a list in YAML; a broken one, and what stands around it, as lines."""
    for text in _YAML_ITEM.split(data):
        found = read_yaml_record(_YAML_DASH.sub(b"  ", text, count=1))
        if found is not None and not found.keys().isdisjoint(MESSAGES):
            yield found
        else:
            yield from text.decode(errors="replace").splitlines()


def to_lines(split: Split, data: bytes) -> list[bytes]:
    """Return the entries of a document, one a line, in the order of the document."""
    return list(iterate_lines(split, data))


def iterate_lines(split: Split, data: bytes) -> Iterator[bytes]:
    """Yield the entries of a document, one a line, in the order of the document.

    A short document may have long lines together, as names of columns are in each of its rows.
    """
    for found in split(data):
        for each in _split_object(found) if isinstance(found, dict) else [found]:
            text = each if isinstance(each, str) else _encode(each)
            yield text.encode(errors="replace") + b"\n"


def _split_object(found: Json) -> Sequence[Json | str]:
    """Return the entries of an object; of one that is none, the lines that a field of it lists.

    Ansible's result of a command has its ``stdout_lines`` so.
    """
    entries = split_export(found)
    if entries != [found] or is_entry(found):
        return entries
    lists = (each for each in found.values() if isinstance(each, list))
    texts = [each for each in lists if each and all(isinstance(line, str) for line in each)]
    lines = max(texts, key=len, default=[])
    return lines if len(lines) >= _LEAST_LINES else entries


def _find_verbose_end(data: bytes) -> int:
    return _last_start(VERBOSE_HEAD, data)


def _find_yaml_end(data: bytes) -> int:
    return data.rfind(b"\n---\n") + 1


def _find_yaml_item(data: bytes) -> int:
    return data.rfind(b"\n- ") + 1


def _find_scope_end(data: bytes) -> int:
    return _last_start(_SCOPE, data)


def _find_ruby_end(data: bytes) -> int:
    return data.rfind(b"\n}\n") + 3 if b"\n}\n" in data else 0


def _find_row_end(data: bytes) -> int:
    """Return the place behind the last row of a table; a cell in quotes may hold line ends."""
    end = data.rfind(b"\n") + 1
    if data.count(b'"', 0, end) % 2 == 0:
        return end
    rows = _ROWS.match(data)
    return 0 if rows is None else rows.end()


def _last_start(pattern: re.Pattern[bytes], data: bytes) -> int:
    """Return the begin of the last entry: the entries above it are whole."""
    return max((found.start() for found in pattern.finditer(data)), default=0)


def _find_xml_end(data: bytes) -> int:
    """Return the place behind the last whole entry of a layout in XML."""
    return max((found.end() for found in _XML_END.finditer(data)), default=0)


def _find_last(end: bytes, data: bytes) -> int:
    """Return the place behind the last end of an entry."""
    at = data.rfind(end)
    return 0 if at < 0 else at + len(end)


TABLE = "table"
_GROWING: dict[str, tuple[Split, FindEnd]] = {
    "json": (split_json, find_json_end),
    "journal": (split_journal, find_journal_end),
    "verbose": (split_verbose, _find_verbose_end),
    "yaml": (split_yaml, _find_yaml_end),
    "yaml list": (split_yaml_list, _find_yaml_item),
    "collector": (split_collector, _find_scope_end),
    "ruby": (split_ruby, _find_ruby_end),
    "xml": (split_xml, _find_xml_end),
}
_FINISHED: tuple[tuple[Split, FindEnd], ...] = (
    (split_splunk, partial(_find_last, b"</result>")),
    (split_html, partial(_find_last, b"</tr>")),
    (split_windows_xml, _find_xml_end),
    (split_windows_text, partial(_last_start, WINDOWS_EVENT)),
    (split_windows_list, partial(_last_start, WINDOWS_CREATED)),
)
"""Exports that a program writes at once, and that can be cut."""


def find_cut(split: Split) -> FindEnd | None:
    """Return the finder of the end of the last whole entry, by the splitter; None without one.

    A table is cut by `find_growing`.
    """
    known = (*_GROWING.values(), *_FINISHED)
    return next((find_end for each, find_end in known if each is split), None)


def find_growing(name: str, head: bytes) -> tuple[Split, FindEnd]:
    """Return the splitter of a form that can be cut while it grows, and its finder of ends.

    ``head`` is the row of names of a table, which counts for all of its rows.

    Raises:
        KeyError: an unknown name.

    """
    if name != TABLE:
        return _GROWING[name]
    split = find_named_table(head + head)
    if split is None:
        raise KeyError(name)
    return (lambda data: split(head + data)), _find_row_end


def name_growing(head: bytes) -> str | None:
    """Return the name of a form that can be cut while it grows; None for any other text."""
    split = split_json if _AWS_LINE.match(head) is not None else find_form(head)
    if split is None:  # the last row may be cut
        rows = head.lstrip()
        split = find_table(rows[: _find_row_end(rows)])
    named = (name for name, (each, _) in _GROWING.items() if each is split)
    return next(named, TABLE if isinstance(split, partial) else None)


def find_table_names(head: bytes) -> tuple[bytes, bytes] | None:
    """Return the row of names of a table, and its other rows; None for any other text.

    Where no row has names that are known, the cells show them.
    """
    if find_named_table(head) is None:
        last = _find_row_end(head)
        found = find_names(head[:last])
        return None if found is None else (found[0], found[1] + head[last:])
    end = _find_first_row_end(head)
    return None if find_named_table(head[:end] * 2) is None else (head[:end], head[end:])


def _find_first_row_end(head: bytes) -> int:
    """Return the place behind the first row; a name in quotes may hold line ends."""
    end, quotes = 0, 0
    while line_end := head.find(b"\n", end) + 1:
        quotes += head.count(b'"', end, line_end)
        end = line_end
        if quotes % 2 == 0:
            break
    return end


def is_begun(head: bytes) -> bool:
    """Return whether a text may be a document of which too little is written yet."""
    first = head[: _find_first_row_end(head)]
    is_one = _find_row_end(head) <= len(first)
    return (
        (head.startswith(b"---\n") and head.count(b"\n---\n") == 0)
        or _VERBOSE_BEGIN.fullmatch(head) is not None
        or (_SCOPE.search(head) is not None and _RECORD.search(head) is None)
        or (head.startswith(b'"') and first.count(b'"') % 2 == 1)
        or find_named_table(first * 2) is not None
        or (is_one and find_names(first * 2) is not None)
        or (is_one and _ROW_OF_NAMES.fullmatch(first) is not None)
    )


def find_finished(head: bytes) -> Split | None:
    """Return the splitter of an export that a program writes at once; None for any other text."""
    split = find_form(head)
    return None if isinstance(split, partial) else split
