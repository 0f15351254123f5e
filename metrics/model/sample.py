"""The recorded sample and its versioned JSON codec: sample schema, version 1.

One JSON object a line, UTF-8. Readers keep fields that they do not know. The id of an event is made
of what happened, to whom and when, never of who saw it or in which order it arrived, so the same
event read twice has the same id and readers remove duplicates by it.
"""

import hashlib
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache

import msgspec

from metrics.model.status import RebalanceStatus

SCHEMA_VERSION = 1
REASON_MAX_CHARS = 255
_ID_HEX_DIGITS = 32
_LAST_AT = datetime(9999, 12, 31, tzinfo=UTC).timestamp()

UNEXPLAINED = "joined without a visible cause"
"""Reason of the ``signal`` that records such a join."""


class SampleKind(StrEnum):
    """What a record tells; ``sample`` is the periodic one."""

    TRANSITION = "transition"
    SAMPLE = "sample"
    SIGNAL = "signal"
    LOST = "lost"
    EPISODE = "episode"


class Scope(StrEnum):
    """What the record is about."""

    CONSUMER = "consumer"
    STREAMS = "streams"
    GROUP = "group"
    APP = "app"


class Outcome(StrEnum):
    """How an episode ended; only on a transition to 0."""

    SYNCED = "synced"
    LEFT = "left"
    FAILED = "failed"


class Sample(msgspec.Struct, frozen=True, kw_only=True, rename={"from_": "from"}):
    """One row of the schema. Times are RFC 3339 UTC with microseconds."""

    schema: int = SCHEMA_VERSION
    id: str
    kind: SampleKind
    ts: str
    agent: str = ""
    seq: int = 0
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
    from_: int | None = None
    to: int | None = None
    peak: int | None = None
    status: str | None = None
    reason: str | None = None
    generation: int | None = None
    episode: str | None = None
    outcome: Outcome | None = None
    joined_ts: str | None = None
    """On the transition that a sync ends: when the member last asked to join, where it was seen."""
    gained: int | None = None
    """On the same transition: how many partitions or tasks moved to the member; None: not seen. On
    a group's signal, from inspection: how many of them another member has now.
    """
    lag: int | None = None
    """On a group's signal, from inspection, and on its episode: how many records it is behind."""
    source: str


class EpisodeRecord(Sample, frozen=True, kw_only=True):
    """A rebalance of a whole group, from hub and standalone.

    The row's own columns tell the trigger: ``ts`` is the start of the rebalance, ``to`` the
    trigger's code or 0 where nobody saw it.
    """

    ended_ts: str
    seconds: float
    member_seconds: float
    """Summed over the members: what it cost."""
    partitions_moved: int | None = None
    certainty: str
    """Of the trigger: seen, inferred or unknown."""
    straggler: str | None = None
    waited_seconds: float | None = None
    departures: list[str] = []
    caused_by: str | None = None
    members: int = 0


MALFORMED = (ValueError, RecursionError)
"""What msgspec raises of a line that is no record: its own errors, and that of bytes which are no
UTF-8, are ValueErrors; of nesting without end it is the other."""
_CODES = {None, *range(len(RebalanceStatus))}
_encoder, _decoder = msgspec.json.Encoder(), msgspec.json.Decoder(Sample)


def encode(sample: Sample) -> bytes:
    """Return the sample as one line of JSON, its newline included."""
    return _encoder.encode(sample) + b"\n"


def decode(line: bytes) -> Sample:
    """Return the record of a line, whoever wrote it.

    Raises:
        ValueError: it is none; the text says why.

    """
    try:
        sample = _decoder.decode(line)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    codes = (sample.from_, sample.to, sample.peak)
    if not _CODES.issuperset(codes):
        (wrong, *_) = (code for code in codes if code not in _CODES)
        raise ValueError(f"{wrong} is no status code (0 to {max(RebalanceStatus):d})")
    parse_time(sample.ts)
    if sample.joined_ts is not None:
        parse_time(sample.joined_ts)
    return sample


@lru_cache(maxsize=8)  # a record has its instant in its columns and its ids
def format_time(at: float) -> str:
    """Write Unix seconds as RFC 3339 UTC with microseconds.

    What lies outside 1970 to 9999 is its nearest end: no record is lost for a clock that is wrong.
    """
    time = datetime.fromtimestamp(min(max(at, 0.0), _LAST_AT), UTC)
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_time(ts: str) -> float:
    """Read RFC 3339 as Unix seconds.

    Raises:
        ValueError: the text is no RFC 3339 time, or has no zone.

    """
    time = datetime.fromisoformat(ts)
    if time.tzinfo is None:
        raise ValueError(f"no zone in {ts!r}")
    return time.timestamp()


def digest(*parts: object) -> str:
    """Return the first 32 hex digits of a SHA-256 over the parts, unambiguous in their bounds."""
    text = msgspec.json.encode([None if part is None else str(part) for part in parts])
    return hashlib.sha256(text).hexdigest()[:_ID_HEX_DIGITS]


_TRUNCATED = "…"


def clip_reason(reason: str | None) -> str | None:
    """Cut a reason to the schema's 255 characters."""
    if reason is None or len(reason) <= REASON_MAX_CHARS:
        return reason
    return reason[: REASON_MAX_CHARS - 1] + _TRUNCATED
