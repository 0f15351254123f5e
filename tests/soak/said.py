"""Synthetic DEBUG logs and records, for the tests of the oracle."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from struct import pack

from tests.soak.comparing import Row, compared
from tests.soak.debug_log import BEGINNING

_HEADER = (
    "RequestHeader(apiKey=X, apiVersion=9, clientId={client}, correlationId={n}, headerVersion=2)"
)
_SENT = f"Sending {{api}} request with header {_HEADER} and timeout 1 to node 1: {{body}}"
_RECEIVED = f"Received {{api}} response from node 1 for request with header {_HEADER}: {{body}}"
_ENFORCED = (
    "[Consumer clientId={client}, groupId=g] Request joining group due to: a new configuration"
)
_FOLLOWED_UP = "stream-thread [s1-StreamThread-1] Triggering the followup rebalance scheduled"
_CLEARED = (
    "[Consumer clientId={client}, g] Generation data was cleared by heartbeat thread to x and state"
    " is now UNJOINED before receiving SyncGroup response, marking this rebalance as failed"
)
_HEEDED = (
    "[Consumer clientId={client}, g] Notifying assignor about the new Assignment(partitions=[])"
)
_EXPIRED = "[Consumer clientId={client}, g] consumer poll timeout has expired. This means the time"
_CANCELLED = (
    "[Consumer clientId={client}, g] Cancelled in-flight {api} request with correlation id {n}"
)
_AT = "2026-11-22 01:00"

Said = tuple[str, str, int, str]
"""Kind of line, API, number of the request, and body."""


def log_of(
    folder: Path, *said: Said, client: str = "c1", also: Mapping[int, str] | None = None
) -> Path:
    """Write a client's log, a line a second; ``also`` has other clients by number of line."""
    path, others = folder / f"{client.partition('-')[0]}.log.debug", also or {}
    shapes = {
        "ask": _SENT,
        "answer": _RECEIVED,
        "enforce": _ENFORCED,
        "follow up": _FOLLOWED_UP,
        "cleared": _CLEARED,
        "heeded": _HEEDED,
        "expired": _EXPIRED,
        "begin": BEGINNING,
        "cancel": _CANCELLED,
    }
    lines = [
        shapes[what].format(api=api, n=n, body=body, client=others.get(place, client))
        for place, (what, api, n, body) in enumerate(said)
    ]
    times = ("" if line == BEGINNING else f"[{_AT}:{n:02},000] " for n, line in enumerate(lines))
    path.write_text("".join(f"{time}{line}\n" for time, line in zip(times, lines, strict=True)))
    return path


def join(
    number: int, reason: str = "", owned: Sequence[int] = (), subscribed: Sequence[str] = ()
) -> Said:
    named = b"".join(pack(f">h{len(name)}s", len(name), name.encode()) for name in subscribed)
    metadata = pack(">hi", 3, len(subscribed)) + named + pack(">i", 0)
    topics = pack(">h1si", 1, b"t", len(owned)) + pack(f">{len(owned)}i", *owned)
    metadata += pack(">i", 1) + topics
    protocol = f"JoinGroupRequestProtocol(name='p', metadata={[*metadata]})"
    return (
        "ask",
        "JOIN_GROUP",
        number,
        f"JoinGroupRequestData(memberId='m', [{protocol}], reason='{reason}')",
    )


def answer(api: str, number: int, error: int) -> Said:
    return "answer", api, number, f"SomeResponseData(errorCode={error}, memberId='m')"


def synced(number: int, given: Sequence[int] = (), next_ms: int | None = None) -> Said:
    topics = pack(">ih1si", 1, 1, b"t", len(given)) + pack(f">{len(given)}i", *given)
    data = b"" if next_ms is None else pack(">q", next_ms)
    printed = [
        each - 256 * (each > 127) for each in pack(">h", 3) + topics + pack(">i", len(data)) + data
    ]
    body = f"SomeResponseData(errorCode=0, protocolName='p', assignment={printed})"
    return "answer", "SYNC_GROUP", number, body


def rows_of(found: Sequence[int], kind: str = "transition", source: str = "logs") -> list[Row]:
    row = {"kind": kind, "client_id": "c1", "ts": "2026-11-22T01:00:00Z", "source": source}
    return [{**row, "to": code} for code in found]


def alike(log: Path, rows: Sequence[Row]) -> bool:
    """Return whether the rows are exactly the codes of the oracle for a log."""
    counts = compared([log], rows, "test")
    is_exact: bool = counts["precision"] == counts["recall"] == 1.0
    return is_exact
