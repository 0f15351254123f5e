"""Records that a tool prints over several lines, as objects.

Theory of operation. `journalctl -o export` and `-o verbose`, the debug exporter of OpenTelemetry's
collector, Logstash's rubydebug, and the XML of java.util.logging and log4j print one field a line.
The head of a file identifies the tool. Each record becomes an object with the keys of the same
tool's JSON, so the reader of that JSON reads the record as well.

Sources: https://systemd.io/JOURNAL_EXPORT_FORMATS/ and the collector's
`exporter/internal/otlptext/logs.go`.
"""

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from html import unescape
from typing import Any

from agent.sources.lines.fields.xml_elements import find_elements

Split = Callable[[bytes], Iterator[Any]]
"""Cuts a document into its entries."""

_LENGTH_BYTES = 8
VERBOSE_HEAD = re.compile(
    rb"(?m)^[A-Z][a-z]{2} (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? \S{1,6}) "
    rb"\[s=[^\n]*\]\n(?=    [_A-Z])"
)
_VERBOSE_FIELD = re.compile(rb"    ([A-Z_][A-Z\d_]*)=(.*)")
_RECORD = re.compile(r"^LogRecord #\d+\s*$", re.MULTILINE)
_RECORD_HEAD = re.compile(rb"(?m)^LogRecord #\d+\s*$")
_ATTRIBUTE = re.compile(r"^[ \t]+-> ([^:\s]{1,255}): \w{2,8}\((.*)\)[ \t\r]*$", re.MULTILINE)
_SCOPE = re.compile(r"^(?:\S{10,40}\t\w{4,8}\t)?ResourceLog #\d+\s*$", re.MULTILINE)
"""A resource; the collector's own time and level stand before the first of a batch."""
_RECORD_TIME = re.compile(r"^(Observed)?Timestamp: (\S+ \S+ [+-]\d{4})", re.MULTILINE)
_BODY_BEGIN = re.compile(r"^Body: (?:Str|Map)\(", re.MULTILINE)
_RECORD_BODY = re.compile(
    r"Body: (?:Str\((.*?)\)|Map\((.*?)\))\s*$(?=\s^(?:Attributes|Trace ID):)",
    re.MULTILINE | re.DOTALL,
)
_RUBY_HEAD = re.compile(rb'\{[ \t\r]*\n\s+"[^"\n]+" => ')
_RUBY_KEY = re.compile(r'^([ \t]*)"([^"\n]+)" => ', re.MULTILINE)
_RUBY_TIME = re.compile(r": (\d{4}-\d\d-\d\dT[\d:.]+Z)(?=,?$)", re.MULTILINE)
_RUBY_NIL = re.compile(r": nil(?=,?$)", re.MULTILINE)
_XML_HEAD = re.compile(rb"<(?:log4j:)?(?:[Ee]vent|record)[ >]")
_XML = re.compile(r"<((?:log4j:)?[Ee]vent|record)\b([^<>]{0,4096})>")
_XML_TEXT = re.compile(r"<((?:log4j:)?message|msg|text)>(?:<!\[CDATA\[)?", re.IGNORECASE)
_CDATA, _CDATA_END = "<![CDATA[", "]]>"
_XML_MARK = re.compile(r"</?[\w:]{1,32}>|<!\[CDATA\[|\]\]>|\s+")
_THROWN_MAX_CHARS = 1_024
_XML_INSTANT = re.compile(r'<Instant epochSecond="(\d{1,18})" nanoOfSecond="(\d{1,9})"')
_XML_MILLIS = re.compile(r'<millis>(\d{1,18})</millis>|(?:timestamp|timeMillis)="(\d{1,18})"')
_XML_TIME = re.compile(
    r"<(time|timestamp|datetime|date|ts)>([^<]{8,40})</\1>"
    r"|\b(?:time|timestamp|datetime|date|ts)=\"([^\"]{8,40})\"",
    re.IGNORECASE,
)
"""Time of a layout of somebody's own."""
_HTML_MESSAGE = re.compile(rb"<td [^<>]{0,256}\b(?:class|title)=\"Message\"[^<>]{0,256}>")
_HTML_ROW = re.compile(r"<tr\b[^<>]{0,256}>")
_HTML_CELL = re.compile(r"<td [^<>]{0,256}?\b(?:class|title)=\"(Date|Level|Message)\"[^<>]{0,256}>")
_WINDOWS_XML = re.compile(rb"<Event xmlns=.http://schemas\.microsoft\.com/win/")
_WINDOWS_HEAD_BYTES = 1_024
_WINDOWS_EVENT = re.compile(rb"Event\[\d+\]:?[ \t\r]*\n\s+Log Name:")
_WINDOWS_LIST = re.compile(rb"TimeCreated\s*: [^\n]*\n[A-Z][A-Za-z]{1,32}\s*:")
WINDOWS_EVENT = re.compile(rb"(?m)^Event\[\d+\]:?\s*$")
WINDOWS_CREATED = re.compile(rb"(?m)^TimeCreated\s*:")
"""Begins of events."""
_WINDOWS_FIELD = re.compile(r"^[ \t]*([A-Z][A-Za-z ]{1,32}?)[ \t]{0,64}: (.*)$", re.MULTILINE)
_WINDOWS_TIME = re.compile(r"<TimeCreated SystemTime=['\"]([^'\"]{10,40})['\"]")
_WINDOWS_HOST = re.compile(r"<Computer>([^<]{1,255})</Computer>")
_WINDOWS_DATA = re.compile(r"<Data(?: [^<>]{0,4096})?>")
_SPLUNK_HEAD = re.compile(rb"<results\b[^>]*>")
_SPLUNK_HEAD_BYTES = 1_024
_SPLUNK_RESULT = re.compile(r"<result\b[^<>]{0,4096}>")
_SPLUNK_FIELD = re.compile(
    r"<field k=['\"]([\w.]{1,64})['\"]>\s{0,64}"
    r"(?:<value[^<>]{0,1024}>\s{0,64}<(text)>|<(v)\b[^<>]{0,1024}>)"
)
_SPLUNK_MARK = re.compile(r"</?sg\b[^<>]{0,1024}>")
"""Marks around the search's matches."""
_XML_LEVEL = re.compile(r'<level>(\w+)</level>|level="(\w+)"')


def find_dump(head: bytes) -> Split | None:
    """Return the splitter for the tool that the head of a text shows; None for other texts."""
    text = head.lstrip()
    if (windows := _find_windows(text)) is not None:
        return windows
    if text.startswith(b"__CURSOR="):
        return split_journal
    if VERBOSE_HEAD.match(text) is not None:
        return split_verbose
    if _RUBY_HEAD.match(text) is not None:
        return split_ruby
    if text.startswith(b"<") and (xml := _find_xml(text)) is not None:
        return xml
    return split_collector if _RECORD_HEAD.search(head) is not None else None


def _find_xml(text: bytes) -> Split | None:
    """Return the splitter of Splunk's export, or of a layout in XML."""
    if _SPLUNK_HEAD.search(text, 0, _SPLUNK_HEAD_BYTES) is not None:
        return split_splunk
    if _HTML_MESSAGE.search(text) is not None:
        return split_html
    return None if _XML_HEAD.search(text) is None else split_xml


def split_splunk(data: bytes) -> Iterator[Any]:
    """Yield the events of Splunk's export as XML."""
    text = data.decode(errors="replace")
    for _, result in find_elements(text, _SPLUNK_RESULT, lambda _: "</result>"):
        fields = find_elements(result, _SPLUNK_FIELD, lambda found: f"</{found[2] or found[3]}>")
        yield {found[1]: unescape(_SPLUNK_MARK.sub("", value)) for found, value in fields}


def _find_windows(text: bytes) -> Split | None:
    """Return the splitter of an export of Windows' event log."""
    if _WINDOWS_XML.search(text, 0, _WINDOWS_HEAD_BYTES) is not None:
        return split_windows_xml
    if _WINDOWS_EVENT.match(text) is not None:
        return split_windows_text
    return split_windows_list if _WINDOWS_LIST.match(text) is not None else None


def split_windows_xml(data: bytes) -> Iterator[Any]:
    """Yield the events of `wevtutil qe` and of Event Viewer."""
    for _, body in _find_entries(data):
        at, host = _WINDOWS_TIME.search(body), _WINDOWS_HOST.search(body)
        texts = find_elements(body, _WINDOWS_DATA, lambda _: "</Data>")
        yield {
            "timestamp": at and at[1],
            "host": host and host[1],
            "message": unescape("\n".join(text for _, text in texts)),
        }


def split_windows_text(data: bytes) -> Iterator[Any]:
    """Yield the events of `wevtutil qe /f:text`."""
    for event in re.split(r"(?m)^Event\[\d+\]:?\s*$", data.decode(errors="replace")):
        head, found, message = event.partition("Description:")
        if found:
            fields = _read_windows_fields(head)
            at, host = fields.get("Date"), fields.get("Computer")
            yield {"timestamp": at, "host": host, "message": message.strip()}


def _read_windows_fields(head: str) -> dict[str, str]:
    return {name: value.strip() for name, value in _WINDOWS_FIELD.findall(head)}


def split_windows_list(data: bytes) -> Iterator[Any]:
    """Yield the events of PowerShell's Format-List."""
    for event in re.split(r"(?m)^(?=TimeCreated\s*:)", data.decode(errors="replace")):
        head, found, message = event.partition("\nMessage")
        if found:
            fields = _read_windows_fields(head)
            text = re.sub(r"\n\s+", "", message.partition(":")[2]).strip()
            yield {"timestamp": fields.get("TimeCreated"), "message": text}


def split_journal(data: bytes) -> Iterator[Any]:
    """Yield journald's entries; a field that is no plain text has its length before it."""
    rest: dict[str, str] = {}
    for found, _ in _read_journal(data, rest):
        yield found
    if rest:
        yield rest


def find_journal_end(data: bytes) -> int:
    """Return the place behind the last whole entry of journald; 0 without any."""
    return max((place for _, place in _read_journal(data, {})), default=0)


def _read_journal(data: bytes, found: dict[str, str]) -> Iterator[tuple[dict[str, str], int]]:
    """Yield whole entries with the place behind each; ``found`` has the last one's fields."""
    place = 0
    while place < len(data):
        end = data.find(b"\n", place)
        end = len(data) if end < 0 else end
        line, place = data[place:end], end + 1
        name, is_plain, value = line.partition(b"=")
        if not line:
            if found:
                yield dict(found), place
            found.clear()
            continue
        if not is_plain:
            begin = place + _LENGTH_BYTES
            size = int.from_bytes(data[place:begin], "little")
            value, place = data[begin : begin + size], begin + size + 1
        found[name.decode(errors="replace")] = value.decode(errors="replace")


def split_verbose(data: bytes) -> Iterator[Any]:
    """Yield the entries of `journalctl -o verbose`."""
    pieces = VERBOSE_HEAD.split(data)
    for time, body in zip(pieces[1::2], pieces[2::2], strict=True):
        fields = {name.decode(): value.decode(errors="replace") for name, value in _fields(body)}
        yield {"timestamp": time.decode(errors="replace"), **fields}


def _fields(body: bytes) -> Iterator[tuple[bytes, bytes]]:
    for line in body.splitlines():
        if (match := _VERBOSE_FIELD.fullmatch(line)) is not None:
            yield match[1], match[2]


def split_collector(data: bytes) -> Iterator[Any]:
    """Yield the records of the collector's debug exporter, with the attributes of their resource.

    Lines between them are the collector's own.
    """
    for resource in _SCOPE.split(data.decode(errors="replace")):
        outer, *records = _RECORD.split(resource)
        attributes = dict(_ATTRIBUTE.findall(outer))
        for record in records:
            begin = _BODY_BEGIN.search(record)
            body = begin and _RECORD_BODY.match(record, begin.start())
            if body is None:
                continue
            yield {
                "timestamp": find_collector_time(record),
                "body": body[1] if body[2] is None else body[2],
                "resource": attributes,
                **dict(_ATTRIBUTE.findall(record)),
            }


def find_collector_time(record: str) -> str | None:
    """Return the time of a collector's record, else that of its reading."""
    times = {bool(observed): at for observed, at in _RECORD_TIME.findall(record)}
    at: str | None = times.get(False, times.get(True))
    return times.get(True) if at is None or at.startswith("1970-") else at


def split_ruby(data: bytes) -> Iterator[Any]:
    """Yield the objects that Logstash prints with arrows between keys and values."""
    text = _RUBY_KEY.sub(r'\1"\2": ', data.decode(errors="replace"))
    text = _RUBY_NIL.sub(": null", _RUBY_TIME.sub(r': "\1"', text))
    for piece in re.split(r"(?m)(?<=^\})\s*$", text):
        with contextlib.suppress(ValueError, RecursionError):  # one that breaks off
            yield json.loads(piece, strict=False)


def _find_entries(data: bytes) -> Iterator[tuple[str, str]]:
    """Yield the attributes and the inner text of each entry in XML."""
    entries = find_elements(data.decode(errors="replace"), _XML, lambda found: f"</{found[1]}>")
    return ((found[2], body) for found, body in entries)


def _find_xml_message(body: str) -> tuple[str, int] | None:
    """Return the message of an entry, and the place behind it."""
    found = _XML_TEXT.search(body)
    if found is None:
        return None
    end = f"</{found[1]}>"
    if found[0].endswith(_CDATA) and (at := body.find(_CDATA_END + end, found.end())) >= 0:
        return body[found.end() : at], at + len(_CDATA_END + end)
    begin = found.end(1) + 1
    at = body.find(end, begin)
    return None if at < 0 else (unescape(body[begin:at]), at + len(end))


def split_html(data: bytes) -> Iterator[Any]:
    """Yield the rows of a table that Logback's or log4j's layout writes in HTML."""
    text = data.decode(errors="replace")
    for _, row in find_elements(text, _HTML_ROW, lambda _: "</tr>"):
        cells = {
            found[1].lower(): unescape(cell).strip()
            for found, cell in find_elements(row, _HTML_CELL, lambda _: "</td>")
        }
        if "message" in cells:
            yield cells


def split_xml(data: bytes) -> Iterator[Any]:
    """Yield the entries of log4j's XML layouts and of java.util.logging's files."""
    for head, body in _find_entries(data):
        message = _find_xml_message(body)
        if message is None:
            continue
        instant, millis = _XML_INSTANT.search(body), _XML_MILLIS.search(head + body)
        level = _XML_LEVEL.search(head + body)
        thrown = _XML_MARK.sub(" ", body[message[1] :])
        time = None if instant or millis else _XML_TIME.search(head + body)
        yield {
            "time": time and (time[2] or time[3]),
            "timestamp": instant and f"{instant[1]}{int(instant[2]):09}",
            "timeMillis": millis and (millis[1] or millis[2]),
            "level": level and (level[1] or level[2]),
            "message": message[0],
            "thrown": unescape(thrown)[:_THROWN_MAX_CHARS].strip(),
        }
