"""The relevant lines of a Java client's DEBUG log, in their order.

The client prints every request and response (NetworkClient at DEBUG, Kafka 3.9 and newer). Three
other kinds of lines are relevant: a reason to join, a request that the client gave up, and a
response that it did not apply. The soak writes a line of its own at the begin of a process.
"""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from tests.soak.causes import EXPIRED, error_of

BEGINNING = "a process begins"
_LINE = re.compile(
    r"(?P<what>Sending|Received) (?P<api>[A-Z_]+) (?:request|response) .*?RequestHeader\(.*?"
    r"clientId=(?P<client>.+?), correlationId=(?P<number>\d+).*?\).*?: (?P<body>\w+Data\(.*\))"
)
_REQUESTED = re.compile(
    r"clientId=(?P<client>[^,\]]+).*joining group due to:"
    r" (?P<reason>a new configuration|triggered followup|cached metadata has changed|"
    r"subscription has changed|received assignment)"
)
_EXPIRED = re.compile(rf"clientId=(?P<client>[^,\]]+).*{EXPIRED}\. This means")
_FOLLOWED_UP = re.compile(r"stream-thread \[(?P<thread>[^\]]+)\] Triggering the followup rebalance")
_NOT_TAKEN = re.compile(
    r"clientId=(?P<client>[^,\]]+).*Generation data was cleared by heartbeat thread .*"
    r"before receiving SyncGroup response"
)
_HEEDED = re.compile(r"clientId=(?P<client>[^,\]]+).*Notifying assignor about the new Assignment")
_CANCELLED = re.compile(
    r"clientId=(?P<client>[^,\]]+).*Cancelled in-flight (?P<api>[A-Z_]+) request with correlation"
    r" id (?P<number>\d+)"
)
_OTHERS = {
    "Requested": _REQUESTED,
    "Followed up": _FOLLOWED_UP,
    "Expired": _EXPIRED,
    "Not taken": _NOT_TAKEN,
    "Heeded": _HEEDED,
    "Cancelled": _CANCELLED,
}
_REASONS = {"Followed up": "triggered followup", "Expired": EXPIRED}
JOINS = {"JOIN_GROUP", "SYNC_GROUP"}
IN_GROUP = JOINS | {"HEARTBEAT", "OFFSET_COMMIT", "LEAVE_GROUP"}
_NEAR = 100
"""A limit on the lines between a response and the line that it was not applied."""


class Line(NamedTuple):
    """The relevant part of one line.

    ``what`` is Sending, Received, Unheeded (received, but never applied), a name among `_OTHERS`,
    or `BEGINNING`.
    """

    what: str
    at: float = 0.0
    client_id: str = ""
    api: str = ""
    number: int = 0
    body: str = ""

    @property
    def is_quiet(self) -> bool:
        """Whether it changes no status: a heartbeat or commit, or its response without error."""
        is_routine = self.api in IN_GROUP - JOINS - {"LEAVE_GROUP"}
        return is_routine and self.what in {"Sending", "Received"} and not error_of(self.body)

    def without_assignment(self) -> "Line":
        """Return a SyncGroup response without its assignment."""
        return self._replace(body=self.body.partition(", assignment=")[0])


def read(log: Path, *, of_log: bool = False) -> list[Line]:
    """Return the relevant lines; assignments that the client never applied are "Unheeded".

    The client had stopped polling, or had another subscription by then. Its INFO log does not show
    such assignments, so ``of_log`` removes them.
    """
    out = list[Line]()
    with log.open() as lines:
        for line in filter(None, map(_read, lines)):
            if line.what == "Not taken":
                _mark(out, line.client_id)
            else:
                if line.api == "LEAVE_GROUP":
                    _forget_expiry(out, line.client_id)
                out.append(line)
    found = _marked(out)
    if of_log:
        found = [line.without_assignment() if line.what == "Unheeded" else line for line in found]
    return [line for line in found if line.what != "Heeded"]


def _marked(lines: list[Line]) -> list[Line]:
    out, heeds = list[Line](), set[str]()
    for line in reversed(lines):
        is_sync = (line.what, line.api) == ("Received", "SYNC_GROUP")
        if line.what == "Heeded":
            heeds.add(line.client_id)
        elif line.what == "Sending" and line.api in {"JOIN_GROUP", "LEAVE_GROUP"}:
            heeds.discard(line.client_id)
        if is_sync and line.client_id not in heeds:
            out.append(line._replace(what="Unheeded"))
        else:
            out.append(line)
    return out[::-1]


def _forget_expiry(lines: list[Line], client_id: str) -> None:
    """Remove the line of an expired poll timeout: the leave after it has the same reason."""
    for number in range(len(lines) - 1, max(-1, len(lines) - _NEAR), -1):
        if lines[number].client_id == client_id:
            if lines[number].what == "Expired":
                del lines[number]
            return


def _mark(lines: list[Line], client_id: str) -> None:
    """Mark a client's last SyncGroup response: the heartbeat thread had left the group before."""
    for number in range(len(lines) - 1, max(-1, len(lines) - _NEAR), -1):
        line = lines[number]
        if (line.what, line.api, line.client_id) == ("Received", "SYNC_GROUP", client_id):
            lines[number] = line._replace(what="Not taken")
            return


def _read(line: str) -> Line | None:
    if line.startswith(BEGINNING):
        return Line(BEGINNING)
    found = _LINE.search(line)
    if found is None:
        return _read_other(line)
    if found["api"] not in IN_GROUP:
        return None
    what, number = found["what"], int(found["number"])
    return Line(what, _time(line), found["client"], found["api"], number, found["body"])


def _read_other(line: str) -> Line | None:
    for what, pattern in _OTHERS.items():
        if found := pattern.search(line):
            got = found.groupdict()
            client_id = got.get("client") or f"{got['thread']}-consumer"
            reason = got.get("reason") or _REASONS.get(what)
            body = "" if reason is None else f"reason='{reason}'"
            number = int(got.get("number", 0))
            return Line(what, _time(line), client_id, got.get("api", ""), number, body)
    return None


def _time(line: str) -> float:
    return datetime.strptime(line[1:24], "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC).timestamp()
