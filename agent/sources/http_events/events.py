"""Events that users' own processes post: lines of JSON, read strictly, and their meaning.

``docs/events.md`` is the contract. An event reports a consumer's own callbacks, and they seldom
have the cause: ``revoked`` and ``lost`` are joins without a visible cause, unless a ``code`` names
it, or the cooperative protocol takes partitions away (10).
"""

import re
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

import msgspec

from agent.errors import DecodeError
from metrics.model.sample import clip_reason
from metrics.model.signals import Member, Signal, SignalKind, SourceKind
from metrics.model.status import RebalanceStatus

MAX_AHEAD_S = 86_400.0
"""An event further in the future has a wrong clock or a wrong zone."""
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
_Text = Annotated[str, msgspec.Meta(max_length=4096)]
_Generation = Annotated[int, msgspec.Meta(ge=-1, le=2**31 - 1)]
_FIELD = re.compile(r" - at `\$\.?(?P<field>[^`]*)`")

# Kafka's error names, and librdkafka's own for the poll interval
_CAUSES = {
    "REBALANCE_IN_PROGRESS": RebalanceStatus.COORDINATOR_REQUESTED,
    "MEMBER_ID_REQUIRED": RebalanceStatus.NEW_MEMBER,
    "UNKNOWN_MEMBER_ID": RebalanceStatus.UNKNOWN_MEMBER,
    "ILLEGAL_GENERATION": RebalanceStatus.STALE_MEMBER,
    "FENCED_MEMBER_EPOCH": RebalanceStatus.STALE_MEMBER,
    "STALE_MEMBER_EPOCH": RebalanceStatus.STALE_MEMBER,
    "MAX_POLL_EXCEEDED": RebalanceStatus.DROPPED_GROUP,
}
_FATAL = {
    "FENCED_INSTANCE_ID",
    "GROUP_AUTHORIZATION_FAILED",
    "GROUP_MAX_SIZE_REACHED",
    "INCONSISTENT_GROUP_PROTOCOL",
    "INVALID_SESSION_TIMEOUT",
    "UNSUPPORTED_ASSIGNOR",
}


class EventKind(StrEnum):
    """The kinds of events of a consumer."""

    ASSIGNED = "assigned"
    REVOKED = "revoked"
    LOST = "lost"
    CLOSED = "closed"
    ERROR = "error"
    ALIVE = "alive"


_PLAIN = {
    EventKind.ASSIGNED: SignalKind.SYNC,
    EventKind.CLOSED: SignalKind.LEAVE,
    EventKind.ALIVE: SignalKind.SEEN,
}


class PostedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event; unknown fields are passed over."""

    event: EventKind
    group: _Name
    client_id: _Name
    ts: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    """When it happened; without it, when it arrived."""
    process: _Name | None = None
    """Sets consumers of the same client id apart; without it, the sender's host does."""
    member_id: _Name | None = None
    group_instance_id: _Name | None = None
    generation: _Generation | None = None
    group_type: Literal["classic", "consumer", "share", "streams"] = "classic"
    protocol: Literal["eager", "cooperative"] | None = None
    partitions: list[_Name] | None = None
    code: _Name | None = None
    reason: _Text | None = None
    host: _Name | None = None
    library: _Name | None = None


class EventError(DecodeError):
    """A line that the sender must change: its number, its field, found and wanted."""


_decoder = msgspec.json.Decoder(PostedEvent)


def read_events(body: bytes, arrival_at: float) -> list[PostedEvent]:
    """Return the events of a body, one a line; empty lines do not count.

    Raises:
        EventError: naming the first line that is wrong, and its field.

    """
    lines = enumerate(body.split(b"\n"), start=1)
    return [_read_event(line, number, arrival_at) for number, line in lines if line.strip()]


def build_signal(event: PostedEvent, *, sender: str, cluster: str, arrival_at: float) -> Signal:
    """Return an event's signal. ``sender`` is the host that it came from."""
    member = Member(
        cluster=cluster,
        group=event.group,
        client_id=event.client_id,
        origin=f"http:{event.process or sender}",
        group_instance_id=event.group_instance_id,
        member_id=event.member_id,
        group_type=event.group_type,
        protocol_type="consumer" if event.group_type == "classic" else None,
        host=event.host or sender,
        software=event.library,
    )
    kind, status = _interpret(event)
    return Signal(
        kind=kind,
        at=arrival_at if event.ts is None else event.ts.timestamp(),
        member=member,
        source=SourceKind.HTTP,
        status=status,
        reason=clip_reason(event.reason or event.code),
        generation=event.generation,
    )


def _read_event(line: bytes, number: int, arrival_at: float) -> PostedEvent:
    try:
        event = _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise EventError(f"line {number}: {_format_error(error)}") from error
    if event.ts is not None and event.ts.timestamp() > arrival_at + MAX_AHEAD_S:
        found = event.ts.isoformat()
        raise EventError(f"line {number}: ts: found {found}, wanted a time that has come")
    return event


def _format_error(error: Exception) -> str:
    """Format a message with the field first."""
    text = str(error)
    match = _FIELD.search(text)
    if match is None:
        return text
    return f"{match['field']}: {text[: match.start()]}{text[match.end() :]}"


def _interpret(event: PostedEvent) -> tuple[SignalKind, RebalanceStatus]:
    code = (event.code or "").lstrip("_").upper()
    if event.event in _PLAIN:
        return _PLAIN[event.event], RebalanceStatus.NONE
    if code in _FATAL:
        return SignalKind.FAIL, RebalanceStatus.NONE
    if code in _CAUSES:
        return SignalKind.RAISE, _CAUSES[code]
    if event.event is EventKind.REVOKED and event.protocol == "cooperative" and event.partitions:
        return SignalKind.RAISE, RebalanceStatus.REVOCATION_NEEDED
    unknown = SignalKind.NOTE if event.event is EventKind.ERROR else SignalKind.JOIN
    return unknown, RebalanceStatus.NONE
