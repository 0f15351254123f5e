"""Changes that restore a log that was copied, or that a tool has encoded, line by line.

Theory of operation. A page, a chat, a terminal or a store's format adds marks to each line, or
encodes its message. The first bytes of a text show such a change; then it applies to all lines. A
recording and a followed file use the same changes.
"""

import base64
import json
import quopri
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import unescape

_HEADER_NAME = rb"(?=[a-z\d.]{1,128}-)[a-z\d.-]{3,253}(?:(?<=\d)|(?<=-[a-z\d]{5}))"
_TAIL_HEADER = re.compile(
    rb"(?m)^(?:==> (?P<file>[\w./-]{1,255}\.(?:log|out|txt|err|json)) <=="
    rb"|(?P<rule>[=#*-]{3,32}) ?(?:pods?/)?(?P<pod>" + _HEADER_NAME + rb") ?(?P=rule)?"
    rb"|>{3,8} ?(?:pods?/)?(?P<angle>" + _HEADER_NAME + rb") ?<{3,8}"
    rb"|(?P<ansible>[\w.-]{1,253}) \| (?:CHANGED|SUCCESS|FAILED) \| rc=\d{1,3} >>"
    rb"|\[\d{1,5}\] \d\d:\d\d:\d\d \[(?:SUCCESS|FAILURE)\] (?P<pssh>[\w.@-]{1,253}))\r?$"
)
"""Header of `tail -f`, of a loop over pods (``=== pay-7d9f8b6c5-x7k2p ===``), Ansible's, pssh's."""
_HEADER_MARKS = (
    b"==> ",
    b"===",
    b"---",
    b"###",
    b"***",
    b">>>",
    b" >>",
    b"[SUCCESS] ",
    b"[FAILURE] ",
)
_ENTITY = re.compile(rb"&(?:#39|#x27|quot|apos|gt|lt);")
_BREAK = re.compile(rb"<br ?/?>\r?\n?", re.IGNORECASE)
_TAG = re.compile(
    rb"</?(?:br|pre|code|p|div|span|body|html|table|thead|tbody|tr|t[dh])(?: [^<>\n]{0,256})?/?>",
    re.IGNORECASE,
)
"""Tags of a page around a log, its lines and its cells."""
_CELLS = re.compile(
    rb"</t[dh]>\s{0,64}<t[dh](?: [^<>\n]{0,256})?>|(</tr>)\s{0,64}(?=<tr\b)", re.IGNORECASE
)
_OF_LAYOUT = re.compile(rb"<td [^<>]{0,256}\b(?:class|title)=\"Message\"", re.IGNORECASE)
"""A cell of a logger's HTML layout, which has a reader of its own."""
_XML = re.compile(
    rb"\s{0,64}<(?!(?:!DOCTYPE html|html|body|pre|div|span|p|table|thead|tbody|tr|t[dh])\b)",
    re.IGNORECASE,
)
"""An XML layout: its reader decodes its entities. The entities of a page are replaced here."""
_MARKED = re.compile(rb"(?m)^(?:`{1,3}|\*\*|\| ?)(?=\[?(?:19|20)\d\d-\d\d-)")
_MARKS = re.compile(
    rb"(?m)^(?:`{1,3}|\*\*|\| ?)(?=[\[\d])|(?<![ \t])[ \t]*(?:`{1,3}|\*\*| \|)[ \t\r]*$"
)
"""Marks of a chat and of Markdown around a line."""
_PRINTED_COLOURS = re.compile(
    rb"\x1b\[01;31m\x1b\[K|(?:\^\[|ESC)\[|(?<!\x1b)(?<!\\u001[bB])\[0(?:;39)?m(?!\])"
)
"""Colours within the text, as grep sets them, also with a printed or lost escape character."""
_PRINTED_COLOUR = re.compile(
    rb"(?:\x1b|\\u001[bB]|\^\[|ESC)\[(?:\d{0,3}(?:;\d{1,3}){0,5}m|K)"
    rb"|\[(?:\d{1,3}(?:;\d{1,3}){0,5}m(?!\])|m(?=\[K)|K)"
)
_MARK_BEGINS = (b"\n`", b"\n**", b"\n|")
_COLOUR_TEXTS = (b"\x1b[01;31m\x1b[K", b"^[[", b"ESC[", b"[0m", b"[0;39m")
"""Texts without which the expressions above find nothing: they take a hundred times as long."""
_ESCAPED_END = re.compile(rb"\\n(?:\[?(?:19|20)\d\d-\d\d-\d\d[T ]|\[?\d\d:\d\d:\d\d)")
_ESCAPED_LINES = 3
"""Dated lines within a string; an application's own entry may quote fewer."""
# the Common Event Format: seven fields, then keys and values, in which a backslash is before =
_CEF = re.compile(
    rb"(?m)^(?=[^\n]{0,384}CEF:\d\|)"
    rb"(?:(?P<head>[^\n|]{0,128}?)(?P<host>[\w.-]{1,253}) )?CEF:\d\|(?:[^|\\\n]|\\.){0,1024}"
    rb"(?:\|(?:[^|\\\n]|\\.){0,1024}){5}\|(?P<fields>[^\n]*)"
)
_CEF_VALUE = rb"=((?:[^\\\n=]|\\[^\n])*)(?=\s[\w.\[\]-]{1,64}=|\r?$)"
_CEF_TIME = re.compile(rb"(?<!\S)rt" + _CEF_VALUE)
_CEF_MESSAGE = re.compile(rb"(?<!\S)msg" + _CEF_VALUE)
_CEF_ESCAPE = re.compile(rb"\\([\\=|])")
_PAYLOAD = re.compile(rb'"log":\s?\{\s?"payload":\s?"([A-Za-z\d+/]{4,}={0,2})"')
"""A line in base64, as Cloud Foundry's log cache returns it."""
_DATA = re.compile(rb'"(?:[dD]ata|value|body|record|message)":\s?"([A-Za-z\d+/]{40,}={0,2})"')
"""The same of a record of Pub/Sub, Kinesis or CloudWatch's subscriptions, which pack it."""
_GZIP_MAGIC, _UNPACKED_MAX_BYTES = b"\x1f\x8b", 1 << 20
_JIRA = re.compile(
    rb"(?<!\\)\\[\[{](?=(?:(?:Share)?Consumer|Worker|GroupCoordinator|generationId|thrd:)\b)"
)
_JIRA_MARK = re.compile(rb"(?<!\\)\\([\[\]{}])")
"""Brackets and braces as Jira's editor escapes them."""
_PERCENT = re.compile(
    rb"%5B(?:(?:Share)?Consumer|Worker)(?: |%20|\+)clientId(?:=|%3D)"
    rb"|\[(?:(?:Share)?Consumer|Worker)(?:(?:%20|\+)clientId(?:=|%3D)| clientId%3D)",
    re.IGNORECASE,
)
_PERCENT_MARK = re.compile(rb"%([2-7][\da-fA-F])")
_PLUS = re.compile(rb"(?:Consumer|Worker)\+clientId", re.IGNORECASE)
"""Characters that a URL or a form has encoded."""
_SOFT_BREAK, _LEAST_BREAKS = re.compile(rb"=\r?\n"), 2
_QUOTED_PRINTABLE = re.compile(
    rb"(?im)^Content-Transfer-Encoding: quoted-printable\b|clientId=3D|groupId=3D"
)
"""A mail as it is sent: ``=`` is encoded, and a line is cut behind one."""
_TYPOGRAPHY = (
    (b"\xc2\xa0", b" "),
    *((quote.encode(), b"'") for quote in "\u2018\u2019"),
    *((quote.encode(), b'"') for quote in "\u201c\u201d"),
)
"""Spaces and quotes of a document or a chat."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A change of whole lines, and its sign in the first bytes of a text."""

    name: str
    shows: Callable[[bytes], bool]
    change: Callable[[bytes], bytes]
    is_followed: bool = True
    """Whether it is made in a followed file: one line there may have the sign by chance."""


def has_tail_header(data: bytes) -> bool:
    """Return whether a text has a header of `tail -f` over several files."""
    has_mark = any(mark in data for mark in _HEADER_MARKS)
    return has_mark and _TAIL_HEADER.search(data) is not None


def name_by_header(lines: Sequence[bytes], name: bytes) -> tuple[bytes, bytes]:
    """Return the lines with their file's name before each, and the name for the next lines."""
    named: list[bytes] = []
    for line in lines:
        header = _TAIL_HEADER.fullmatch(line)
        name = name if header is None else _name_stream(header)
        if header is None and line:
            named.append(name + line + b"\n")
    return b"".join(named), name


def _name_stream(header: re.Match[bytes]) -> bytes:
    """Return the name in a header as grep or compose writes it before a line."""
    if header["file"] is not None:
        return header["file"] + b":"
    names = (header[name] for name in ("pod", "angle", "ansible", "pssh"))
    return next((name + b" | " for name in names if name is not None), b"")


def is_ended_by_returns(data: bytes) -> bool:
    """Return whether carriage returns alone end the lines."""
    alone = data.count(b"\r") - data.count(b"\r\n")
    return alone > max(1, data.count(b"\n"))


def _has_entities(data: bytes) -> bool:
    return _ENTITY.search(data) is not None and _XML.match(data) is None


def _replace_entities(data: bytes) -> bytes:
    return unescape(data.decode(errors="replace")).encode()


def _has_tags(data: bytes) -> bool:
    is_page = _TAG.search(data) is not None and _XML.match(data) is None
    return is_page and _OF_LAYOUT.search(data) is None


def _has_marks(data: bytes) -> bool:
    is_marked = data[:1] in {b"`", b"*", b"|"} or any(mark in data for mark in _MARK_BEGINS)
    return is_marked and _MARKED.search(data) is not None


def _has_printed_colours(data: bytes) -> bool:
    is_coloured = any(text in data for text in _COLOUR_TEXTS)
    return is_coloured and _PRINTED_COLOURS.search(data) is not None


def _replace_tags(data: bytes) -> bytes:
    data = _CELLS.sub(lambda found: b"\n" if found[1] else b"\t", data)
    return _TAG.sub(b"", _BREAK.sub(b"\n", data))


def _has_escaped_ends(data: bytes) -> bool:
    """Return whether a text is one string with the ends of its lines escaped."""
    ends = data.count(b"\\n")
    return ends > 3 * data.count(b"\n") and _ESCAPED_END.search(data) is not None


def has_log_in_string(data: bytes) -> bool:
    """Return whether a text is a whole log in one string, and no entry of several lines."""
    is_log = len(_ESCAPED_END.findall(data)) >= _ESCAPED_LINES
    return is_log and _has_escaped_ends(data)


def _replace_escapes(data: bytes) -> bytes:
    return data.replace(b"\\n", b"\n").replace(b'\\"', b'"').replace(b"\\t", b"\t")


def _is_cef(data: bytes) -> bool:
    return b"CEF:" in data and _CEF.search(data) is not None


def _replace_cef(data: bytes) -> bytes:
    return _CEF.sub(_read_cef, data)


def _read_cef(found: re.Match[bytes]) -> bytes:
    """Return a line of the Common Event Format as its host, its time and its message."""
    message, time = _CEF_MESSAGE.search(found["fields"]), _CEF_TIME.search(found["fields"])
    if message is None:
        return found[0]
    text = _CEF_ESCAPE.sub(rb"\1", message[1])
    host = found["host"] or b""
    if time is None:
        return b"%b%b cef: %b" % (found["head"] or b"", host, text)
    return b"%b%b %b" % (host + b" | " if host else b"", time[1], text)


def _has_payloads(data: bytes) -> bool:
    return _PAYLOAD.search(data) is not None


def _replace_payloads(data: bytes) -> bytes:
    return _PAYLOAD.sub(_read_payload, data)


def _read_payload(found: re.Match[bytes]) -> bytes:
    try:
        text = base64.b64decode(found[1], validate=True).decode(errors="replace")
    except ValueError:  # no base64
        return found[0]
    return b'"log":{"message":' + json.dumps(text).encode()


def _has_data(data: bytes) -> bool:
    found = _DATA.search(data)
    return found is not None and _decode_data(found[1]) is not None


def _replace_data(data: bytes) -> bytes:
    return _DATA.sub(_read_data, data)


def _read_data(found: re.Match[bytes]) -> bytes:
    text = _decode_data(found[1])
    return found[0] if text is None else b'"data":' + json.dumps(text).encode()


def _decode_data(encoded: bytes) -> str | None:
    """Return the text in base64, also of one in gzip; None for anything else."""
    try:
        data = base64.b64decode(encoded, validate=True)
        if data.startswith(_GZIP_MAGIC):
            unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
            data = unpacker.decompress(data, _UNPACKED_MAX_BYTES)
        return data.decode()
    except (ValueError, zlib.error):
        return None


def _has_percents(data: bytes) -> bool:
    return b"%" in data and _PERCENT.search(data) is not None


def _replace_percents(data: bytes) -> bytes:
    data = data.replace(b"+", b" ") if _PLUS.search(data) is not None else data
    return _PERCENT_MARK.sub(lambda found: bytes.fromhex(found[1].decode()), data)


def _is_quoted_printable(data: bytes) -> bool:
    is_cut = len(_SOFT_BREAK.findall(data)) >= _LEAST_BREAKS
    return is_cut and _QUOTED_PRINTABLE.search(data) is not None


def _replace_typography(data: bytes) -> bytes:
    for found, plain in _TYPOGRAPHY:
        data = data.replace(found, plain)
    return data


COPIES = (
    Copy("mail", _is_quoted_printable, quopri.decodestring, is_followed=False),
    Copy("tags", _has_tags, _replace_tags),
    Copy("entities", _has_entities, _replace_entities),
    Copy("marks", _has_marks, lambda data: _MARKS.sub(b"", data)),
    Copy("colours", _has_printed_colours, lambda data: _PRINTED_COLOUR.sub(b"", data)),
    Copy(
        "typography",
        lambda data: any(found in data for found, _ in _TYPOGRAPHY),
        _replace_typography,
    ),
    Copy("percents", _has_percents, _replace_percents),
    Copy(
        "jira",
        lambda data: b"\\" in data and _JIRA.search(data) is not None,
        lambda data: _JIRA_MARK.sub(rb"\1", data),
        is_followed=False,
    ),
    Copy("cef", _is_cef, _replace_cef),
    Copy("payloads", _has_payloads, _replace_payloads),
    Copy("data", _has_data, _replace_data),
    Copy("escapes", _has_escaped_ends, _replace_escapes, is_followed=False),
)
"""Signs of a copied log, and the changes that restore it, in the order in which they are made."""
