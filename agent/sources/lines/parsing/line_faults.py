"""Faults of a log's lines that make its signals wrong: their times, order and width."""

import re
from collections.abc import Iterator

from agent.sources.lines.parsing.line_parser import ParserCounts

_RAN_BACK_S = 30.0
"""Threads of a process write out of order by less than this."""
_LEAST_REPEATED, _REPEATED_SHARE = 8, 0.25
"""A client prints a few of its lines twice, as Java's before 3.0 a change of the metadata."""
_FIRST_LINE_CHARS = 80
_DIGIT = re.compile(rb"\d")
_CAPTURE = re.compile(rb"\A(?:\xd4\xc3\xb2\xa1|\xa1\xb2\xc3\xd4|\x4d\x3c\xb2\xa1|\x0a\x0d\x0d\x0a)")
_PACKED = re.compile(
    rb"\A(?:BZh\d1AY|\xfd7zXZ|PK\x03\x04|\x28\xb5\x2f\xfd|\x04\x22\x4d\x18|7z\xbc\xaf)"
)
_ENCRYPTED = re.compile(rb"\A(?:Salted__|-----BEGIN PGP MESSAGE|age-encryption\.org/)")
_PACKED_TWICE = b"\x1f\x8b"
"""First bytes of the content of a gzip file that was compressed twice."""
_TAR_AT, _TAR = 257, b"ustar"
_BINARY_BYTES = 1_024
_TEXT_CONTROLS = b"\t\n\r\x1b\f\b"
_BINARY_SHARE = 0.05
_RICH = re.compile(
    rb"^[ \[][ \d:/.APM-]{7,40}\]? (?:DEBUG|INFO|WARNING|ERROR|CRITICAL) +"
    rb"\S[^\n]{0,200}\.py:\d{1,6}\n {12}",
    re.MULTILINE,
)
"""The first of two lines of a record: the path stands at the right margin, and the text goes on."""
_RICH_END = re.compile(rb"\.py:\d{1,6}\s*\Z")
"""Text of Rich's handler at the right margin of a line that it did not wrap."""
_MIN_WIDTH, _MIN_ENDS, _END_BYTES = 60, 4, 12
"""Lines of one length by chance end alike: they are one message again."""


def find_time_faults(counts: ParserCounts) -> Iterator[str]:
    """Yield the faults of the times of a log."""
    if counts.untimed:
        yield (
            f"{counts.untimed} of {counts.events} lines have no time that is understood: the time "
            "of the file's last change stands for theirs, and durations mean nothing"
        )
    if counts.ahead:
        yield f"{counts.ahead} lines have a time more than a day ahead of the file: see --timezone"
    if counts.repeated >= max(_LEAST_REPEATED, _REPEATED_SHARE * counts.events):
        yield (
            f"{counts.repeated} lines of a client are there twice, and count once: a shipper that "
            "delivers at least once, exports that overlap, or a logger with two appenders"
        )
    if counts.ran_back_s >= _RAN_BACK_S and not counts.untimed:
        yield (
            f"times run back by up to {counts.ran_back_s:.0f} s: later lines have the time of the "
            "line before; logs that stand one after the other belong into files of their own"
        )


def find_width_faults(sample: bytes) -> Iterator[str]:
    """Yield the fault of lines cut at a width: the longest have one length and various ends."""
    if _RICH.search(sample):
        yield (
            "Rich's handler has wrapped the lines, so most are not read: set COLUMNS=1000 where "
            "the program runs, or log with a plain StreamHandler"
        )
        return
    lines = sample.splitlines()[:-1]
    width = max(map(len, lines), default=0)
    longest = (line for line in lines if len(line) == width and not _RICH_END.search(line))
    ends = {_DIGIT.sub(b"0", line[-_END_BYTES:]) for line in longest}
    if width >= _MIN_WIDTH and len(ends) >= _MIN_ENDS:
        yield f"lines are cut at {width} characters: what stood behind is lost, and may be a cause"


def find_archive_faults(sample: bytes) -> Iterator[str]:
    """Yield the fault of an archive: the end of one file would join the begin of the next."""
    if sample.startswith(_TAR, _TAR_AT):
        yield "a tar archive, of which all files are read as one log: unpack it"


def describe_bytes(sample: bytes) -> str | None:
    """Describe a file that holds no text, with the remedy; None for a text."""
    if _CAPTURE.match(sample):
        return "a capture: use --source pcap"
    if _PACKED.match(sample):
        return "a compressed file: unpack it; of compressed ones, gzip alone is read"
    if sample.startswith(_PACKED_TWICE):
        return "a file that was compressed twice: unpack it once"
    if _ENCRYPTED.match(sample):
        return "an encrypted file: decrypt it"
    head = sample[:_BINARY_BYTES]
    controls = sum(byte < ord(" ") and byte not in _TEXT_CONTROLS for byte in head)
    if controls > _BINARY_SHARE * len(head):
        return "a binary file, or an encrypted one: a log is text, or text that gzip has packed"
    return None


def read_first_line(sample: bytes) -> str:
    """Return the first line that is not empty, clipped; an empty text for an empty file."""
    first = next((line for line in sample.splitlines() if line.strip()), b"")
    return first.decode(errors="replace").strip()[:_FIRST_LINE_CHARS]
