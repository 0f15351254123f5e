"""The recorded sample and its versioned JSON codec: sample schema, version 1.

One JSON object a line, UTF-8. Readers keep fields that they do not know. The id of an event is a
digest of the event, its member and its time, never of the source or the order of arrival. The same
event read twice has the same id, and readers remove duplicates by it.
"""

import hashlib
import re
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache

import msgspec

from metrics.model.status import RebalanceStatus
from metrics.model.units import Int64

SCHEMA_VERSION = 1
REASON_MAX_CHARS = 255
RECORD_MAX_BYTES = 2 << 20
"""Limit of a record as JSON: its longest values are two lists of 256 Ki characters."""
_ID_HEX_DIGITS = 32
_TIME_CHARS = len("2026-11-21T06:33:44.209000")
_TIME_MAX_CHARS = 64
"""Python reads any number of decimals."""
_CANONICAL = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)
"""Times as `format_time` writes them: the order of the texts is that of the instants."""
RFC_3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
"""Python reads more: weeks, times without colons, a space for the T."""
_LAST_AT = datetime(9999, 12, 31, tzinfo=UTC).timestamp()

UNEXPLAINED = "joined without a visible cause"
"""Reason of such a join; the evidence of its assignment follows after a colon."""
"""Reason of the ``signal`` that records such a join."""
CONFIGURED = "newer Connect configuration"
"""First words of such evidence on the wire: a worker joins by itself when it has read it."""
REBALANCE_DELAY = "rebalance delay:"
"""Words of a Connect worker's log; milliseconds follow, after which the workers join again."""
FETCHERS_PAUSED = "clearing group assignment"
"""librdkafka's words: its application takes the revoke callback later."""
NO_REASON_BACK = "no reason given, back"
"""First words of the signal of a return from a leave without a reason; the seconds follow."""
DUPLICATE = "another source reports it too"
"""Reason of the ``lost`` that ends the duplicate of another source's episode."""
REMOVED_AND_ENDED = "no member any more, and its source has ended"
"""Reason of the end of a member that its coordinator has removed, and that is dead since."""
NOT_CONFIRMED = "not confirmed"
"""Reason of the ``lost`` that ends a status that no source has confirmed in time."""
NOT_WATCHED = "not confirmed since its source began again"
"""The same, where the source may have missed the confirmations."""


class SampleKind(StrEnum):
    """Kind of a record; ``sample`` is the periodic one."""

    TRANSITION = "transition"
    SAMPLE = "sample"
    SIGNAL = "signal"
    LOST = "lost"
    EPISODE = "episode"
    CHANGE = "change"
    """An attribute of a member or group changed: ``subject``, ``field``, ``before``, ``after``."""
    INCIDENT = "incident"
    ANNOTATION = "annotation"
    """A marker that a user or a deploy posted."""
    AGENT = "agent"
    """Life of an agent: its start, its stop, and how far it has read (``ts``)."""


class Scope(StrEnum):
    """Subject of a record."""

    CONSUMER = "consumer"
    STREAMS = "streams"
    GROUP = "group"
    APP = "app"


class Outcome(StrEnum):
    """End of an episode: on a transition to 0. FAILED too on the signal of a refused request."""

    SYNCED = "synced"
    LEFT = "left"
    FAILED = "failed"


class Sample(msgspec.Struct, frozen=True, kw_only=True, gc=False, rename={"from_": "from"}):
    """One row of the schema. Times are RFC 3339 UTC with microseconds."""

    schema: Int64 = SCHEMA_VERSION
    id: str
    kind: SampleKind
    ts: str
    agent: str = ""
    seq: Int64 = 0
    cluster: str
    app: str
    group: str
    group_type: str = "classic"
    protocol_type: str | None = None
    scope: Scope
    client_id: str | None = None
    member_id: str | None = None
    group_instance_id: str | None = None
    host: str = ""
    log_file: str | None = None
    """The member's own log file: it distinguishes members of one client id and host."""
    from_: int | None = None
    to: int | None = None
    peak: int | None = None
    status: str | None = None
    reason: str | None = None
    generation: Int64 | None = None
    episode: str | None = None
    outcome: Outcome | None = None
    joined_ts: str | None = None
    """On a transition by a sync, and on the change that reports it: time of the join request."""
    gained: Int64 | None = None
    """On the same transition: number of partitions or tasks that moved to it; None: not known.
    On a group's signal, from inspection: number of those that another member has now.
    """
    lag: Int64 | None = None
    """On a group's signal, from inspection, and on its episode: records it is behind."""
    subject: str | None = None
    """On a change: what changed, ``member`` or ``group``."""
    field: str | None = None
    before: str | None = None
    after: str | None = None
    source: str


class EpisodeRecord(Sample, frozen=True, kw_only=True):
    """A rebalance of a whole group, from hub and standalone.

    The row's own columns describe the trigger: ``ts`` is the start of the rebalance, ``to`` the
    trigger's code, or 0 if it is unknown.
    """

    ended_ts: str
    seconds: float
    member_seconds: float
    """Cost: the sum over the members."""
    partitions_moved: Int64 | None = None
    certainty: str
    """Of the trigger: seen, inferred or unknown."""
    straggler: str | None = None
    waited_seconds: float | None = None
    departures: list[str] = []
    caused_by: str | None = None
    members: Int64 = 0


_NUMBER_MAX_CHARS = 18
"""A 64-bit integer, in milliseconds."""
MALFORMED = (ValueError, RecursionError)
"""Errors of msgspec for a line that is no record. Its own errors and that of bytes that are no
UTF-8 are ValueErrors; nesting without end is a RecursionError."""
_CODES = {None, *range(len(RebalanceStatus))}
_encoder, _decoder = msgspec.json.Encoder(), msgspec.json.Decoder(Sample)


def encode(sample: Sample) -> bytes:
    """Return the sample as one line of JSON, its newline included."""
    return _encoder.encode(sample) + b"\n"


def decode(line: bytes) -> Sample:
    """Return the record of a line from any writer; its times are those of `format_time`.

    Raises:
        ValueError: the line is no record; the text names the reason.

    """
    try:
        line.decode()  # msgspec passes over the text of fields that it does not know
        sample = _decoder.decode(line)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    check_values(sample)
    if parse_time(sample.ts) < 0:
        raise ValueError(f"{sample.ts!r} is before 1970")
    ts, joined_ts = normalize_time(sample.ts), sample.joined_ts
    if joined_ts is not None:
        joined_ts = normalize_time(joined_ts)
    if (ts, joined_ts) == (sample.ts, sample.joined_ts):
        return sample
    return msgspec.structs.replace(sample, ts=ts, joined_ts=joined_ts)


def check_values(sample: Sample) -> None:
    """Check the values that every reader of records refuses: hub, `explain` and ingest.

    Raises:
        ValueError: the schema is no version, the id is empty, or a code is no status.

    """
    if sample.schema < SCHEMA_VERSION:
        raise ValueError(f"schema {sample.schema} is older than {SCHEMA_VERSION}")
    if not sample.id:
        raise ValueError("id is empty")
    codes = {"from": sample.from_, "to": sample.to, "peak": sample.peak}
    if not _CODES.issuperset(codes.values()):
        wrong = next(name for name, code in codes.items() if code not in _CODES)
        last = max(RebalanceStatus)
        raise ValueError(f"{wrong} {codes[wrong]} is no status code (0 to {last:d})")


def normalize_time(ts: str) -> str:
    """Return a time of any writer in the form of `format_time`: records are compared as texts.

    Raises:
        ValueError: the text is no RFC 3339 time, or has no zone.

    """
    at = parse_time(ts)
    if _CANONICAL.fullmatch(ts):
        return ts
    if RFC_3339.fullmatch(ts) is None:
        raise ValueError(f"{ts!r} is no RFC 3339 time")
    return format_time(at)


@lru_cache(maxsize=8)  # a record has its instant in its columns and its ids
def format_time(at: float) -> str:
    """Write Unix seconds as RFC 3339 UTC with microseconds.

    A time outside 1970 to 9999 becomes the nearest end: a wrong clock loses no record.
    """
    time = datetime.fromtimestamp(min(max(at, 0.0), _LAST_AT), UTC)
    return time.isoformat(timespec="microseconds")[:_TIME_CHARS] + "Z"  # faster than strftime()


@lru_cache(maxsize=32)  # an episode's first and last record are asked for twice
def parse_time(ts: str) -> float:
    """Read RFC 3339 as Unix seconds.

    Raises:
        ValueError: the text is no RFC 3339 time, or has no zone.

    """
    if len(ts) > _TIME_MAX_CHARS:
        raise ValueError(f"{len(ts)} characters are no time")
    try:
        time = datetime.fromisoformat(ts.upper())  # RFC 3339 allows lower case
    except ValueError:
        raise ValueError(f"{ts!r} is no time, as 2026-11-20T06:30:00Z is") from None
    if time.tzinfo is None:
        raise ValueError(f"no zone in {ts!r}")
    return time.timestamp()


def is_number(text: str) -> bool:
    """Check that a text of another agent is a whole number; int() refuses 5,000 digits, and "²"."""
    return text.isascii() and text.isdigit() and len(text) <= _NUMBER_MAX_CHARS


def digest(*parts: object) -> str:
    """Return the first 32 hex digits of a SHA-256 over the parts, unambiguous in their bounds."""
    text = msgspec.json.encode([None if part is None else str(part) for part in parts])
    return hashlib.sha256(text).hexdigest()[:_ID_HEX_DIGITS]


_TRUNCATED = "…"
_REPEATED = re.compile(r"\[(\w+)(?:, \1)*\]")
"""A list of one text only, such as the racks of a topic's partitions: `[NO_RACKS, NO_RACKS]`."""


def clip_reason(reason: str | None) -> str | None:
    """Cut a reason to the schema's 255 characters; before, lists of one text become its count."""
    if reason is None or len(reason) <= REASON_MAX_CHARS:
        return reason
    short = _REPEATED.sub(lambda match: str(match[0].count(",") + 1), reason)
    return short if len(short) <= REASON_MAX_CHARS else short[: REASON_MAX_CHARS - 1] + _TRUNCATED
