"""What a Java client's DEBUG log says of its status: KAFKA-12472 once more, by other means.

The client prints every request and answer (NetworkClient at DEBUG, Kafka 3.9 and newer). The agent
reads none of these lines; it has INFO lines and frames. Nothing of the agent is used here. For the
classic protocol: consumers, and Streams applications of one version, without endpoints (no 12, no
13). Two other lines count: what the soak itself asks for, which a client that is joining already
never sends (nor what another reason has replaced by then); and the soak's own, where a process
begins.

Three things are open, and only they may be decided by what was found. A process that was killed
has not logged how it ended: whether the answer to a SyncGroup that it had sent came, and whether
what it had begun was lost before the next process spoke (a status that nothing confirms is, after
a time). Those are ``fates``. What crosses on its way has no one order: where a cause is masked by
a higher one of seconds before, another source may have met it first. And a request that the client
gave up with its connection may have been answered on the wire. Those are ``Possible``.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from tests.soak.embedded import NOTHING, Partitions, given, owned

BEGINNING = "a process begins"
_LINE = re.compile(
    r"(?P<what>Sending|Received) (?P<api>[A-Z_]+) (?:request|response) .*?RequestHeader\(.*?"
    r"clientId=(?P<client>.+?), correlationId=(?P<number>\d+).*?\).*?: (?P<body>\w+Data\(.*\))"
)
_REQUESTED = re.compile(
    r"clientId=(?P<client>[^,\]]+).*joining group due to:"
    r" (?P<reason>a new configuration|triggered followup|subscription has changed|"
    r"received assignment)"
)
_THREAD = re.compile(r"(?P<instance>.+)-StreamThread-\d+-consumer")
_CANCELLED = re.compile(
    r"clientId=(?P<client>[^,\]]+).*Cancelled in-flight (?P<api>[A-Z_]+) request with correlation"
    r" id (?P<number>\d+)"
)
_ERROR = re.compile(r"errorCode=(-?\d+)")
_REASON = re.compile(r"reason='([^']*)'")
_PROTOCOL = re.compile(r"Protocol\(name='([^']*)', metadata=\[([^\]]*)\]\)")
_ASSIGNED = re.compile(r"protocolName='([^']*)', assignment=\[([^\]]*)\]")
_RAISED_BY_ERROR = {27: 1, 79: 2, 25: 3, 22: 4, 14: 9, 15: 9, 16: 9}
_RETRIABLE = {14, 15, 16}
_JOINS = {"JOIN_GROUP", "SYNC_GROUP"}
_IN_GROUP = _JOINS | {"HEARTBEAT", "OFFSET_COMMIT", "LEAVE_GROUP"}
_REVOKE, _PROBE = 10, 11
_RAISED_BY_REASON = (
    ("cached metadata has changed", 7),
    ("subscription has changed", 8),
    ("received assignment", 8),  # "does not match the current subscription"
    ("need to revoke partitions", _REVOKE),
)
_OWN_REASONS = (
    "",
    "rebalance failed",
    "need to re-join",
    "group is already rebalancing",
    "encountered ",
    "consumer pro-actively leaving",
    "failed when revoking",
)


_ANSWERED_BY = {"SYNC_GROUP": (0, 1, 3, 4, 9), "JOIN_GROUP": (2, 3, 9)}
_ANSWERED_IN_GROUP = (1, 3, 4)
_UNREAD = 50
"""Requests that are in flight at once, and their codes, are fewer."""
_CROSSING_S = 2.0
"""An answer is under way for less, and a log is read within a second."""


class Line(NamedTuple):
    """What counts of one line.

    ``what`` is Sending, Received, Cancelled, Requested, or the soak's own.
    """

    what: str
    at: float = 0.0
    client_id: str = ""
    api: str = ""
    number: int = 0
    body: str = ""


class Possible(NamedTuple):
    """What may have been told before what stands at ``position``, by another source."""

    why: str
    """``crossed``: the code there masks it here; ``unread``: the client gave the request up."""
    name: str
    position: int
    code: int


class Lives:
    """What became of all clients and instances of a log."""

    def __init__(self) -> None:
        self.told = defaultdict[str, list[int]](list)
        self.possible = list[Possible]()
        self.asked = 0
        """How many questions there were."""
        self._raised_at = dict[str, float]()

    def tell(self, name: str, code: int, at: float) -> None:
        self.told[name].append(code)
        self._raised_at[name] = at

    def mask(self, name: str, code: int, at: float) -> None:
        """Take a cause that a higher code hides."""
        if code and at - self._raised_at.get(name, at) <= _CROSSING_S and self.told[name]:
            self.possible.append(Possible("crossed", name, len(self.told[name]) - 1, code))

    def give_up(self, name: str, codes: Iterable[int]) -> None:
        """Take a request that the client does not wait for any more."""
        position = len(self.told[name])
        unread = [Possible("unread", name, position, code) for code in codes]
        self.possible += [each for each in unread if each not in self.possible[-_UNREAD:]]


def read(log: Path) -> list[Line]:
    """Return the lines that count."""
    with log.open() as lines:
        return list(filter(None, map(_read, lines)))


def codes(lines: Sequence[Line], fates: Sequence[bool] = ()) -> Lives:
    """Return the codes that each client and instance went to, through all processes.

    Questions without a fate are answered with yes.
    """
    process = _Process(fates)
    for line in lines:
        process.take(line)
    return process.lives


def _read(line: str) -> Line | None:
    if line.startswith(BEGINNING):
        return Line(BEGINNING)
    if found := _REQUESTED.search(line):
        return Line("Requested", _time(line), found["client"], body=f"reason='{found['reason']}'")
    if found := _CANCELLED.search(line):
        return Line("Cancelled", _time(line), found["client"], found["api"], int(found["number"]))
    found = _LINE.search(line)
    if found is None or found["api"] not in _IN_GROUP:
        return None
    what, number = found["what"], int(found["number"])
    return Line(what, _time(line), found["client"], found["api"], number, found["body"])


def _time(line: str) -> float:
    return datetime.strptime(line[1:24], "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC).timestamp()


class _Process:
    """The clients of one log, and the Streams instance that they may be."""

    def __init__(self, fates: Sequence[bool]) -> None:
        self.lives, self.at = Lives(), 0.0
        self._fates: Iterator[bool] = iter(fates)
        self._clients: dict[str, _Client] = {}
        self._instance = 0

    def take(self, line: Line) -> None:
        if line.what == BEGINNING:
            self._begin()
            return
        if line.client_id not in self._clients:
            self._clients[line.client_id] = _Client(self, line.client_id)
        client, self.at = self._clients[line.client_id], line.at
        match line.what:
            case "Sending":
                client.ask(line.api, line.number, line.body)
            case "Received":
                client.answer(line.api, line.number, line.body)
            case "Cancelled":
                client.give_up(line.api)
            case _:
                client.request(line.body)

    def follow(self, client_id: str, masked: int = 0) -> None:
        """Bring the instance up to date after a thread of it has moved, or been raised in vain."""
        match = _THREAD.fullmatch(client_id)
        if match is None:
            return
        name, threads = match["instance"], self._clients.values()
        demanded = max(each.demand for each in threads)
        status = demanded or max(each.status for each in threads)
        if status > self._instance or status == 0 != self._instance:
            self._instance = status
            self.lives.tell(name, status, self.at)
        elif 0 < (code := masked or status) < self._instance:
            self.lives.mask(name, code, self.at)

    def give_up(self, client_id: str, codes: Iterable[int]) -> None:
        match = _THREAD.fullmatch(client_id)
        if match is not None:
            self.lives.give_up(match["instance"], codes)

    def _begin(self) -> None:
        for client in self._clients.values():
            if client.status and client.waits_for_sync and self._is_so():
                client.settle()
            client.begin_anew()
        is_open = self._instance or any(each.status for each in self._clients.values())
        if is_open and not self._is_so():  # lost, not kept
            self._clients, self._instance = {}, 0

    def _is_so(self) -> bool:
        self.lives.asked += 1
        return next(self._fates, True)


class _Client:
    """One consumer."""

    def __init__(self, process: _Process, client_id: str) -> None:
        self.status = self.demand = 0
        self._process, self._client_id = process, client_id
        self.begin_anew()

    def begin_anew(self) -> None:
        """Take another consumer of that name: its requests are numbered anew."""
        self.waits_for_sync = self._is_out = False
        self._left_at = self._last = -1
        self._owned: dict[str, Partitions] = {}

    def ask(self, api: str, number: int, body: str) -> None:
        if number < self._last:  # a thread that was added has the name of one that was removed
            self.begin_anew()
        self._last = number
        self.waits_for_sync = self.waits_for_sync or api == "SYNC_GROUP"
        if api == "LEAVE_GROUP":
            self._is_out, self._left_at = True, number
            is_dropped = "poll timeout has expired" in body
            self._raise(5 if is_dropped else 6)
            if not is_dropped:
                self.demand = 0
                self.settle()
        elif api == "JOIN_GROUP":
            self._is_out = False
            self._owned = {name: owned(metadata) for name, metadata in _PROTOCOL.findall(body)}
            self._raise(_by_reason(body))

    def give_up(self, api: str) -> None:
        if api in _IN_GROUP:
            codes = _ANSWERED_BY.get(api, _ANSWERED_IN_GROUP)
            self._process.lives.give_up(self._client_id, codes)
            self._process.give_up(self._client_id, codes)

    def request(self, reason: str) -> None:
        self._raise(_by_reason(reason))

    def answer(self, api: str, number: int, body: str) -> None:
        self.waits_for_sync = self.waits_for_sync and api != "SYNC_GROUP"
        if self._is_out or number <= self._left_at or api == "LEAVE_GROUP":
            return  # to what was asked before it left
        error = _error(body)
        if api == "SYNC_GROUP" and error == 0:
            self._sync(body)
        elif error not in _RETRIABLE or api in _JOINS:
            self._raise(_RAISED_BY_ERROR.get(error, 0))

    def _sync(self, body: str) -> None:
        match = _ASSIGNED.search(body)
        name, got = ("", NOTHING) if match is None else (match[1], given(match[2]))
        revokes = bool(self._owned.get(name, frozenset()) - got.partitions)
        if got.demand == _REVOKE:
            self.demand = max(self.demand, _REVOKE)
        elif not revokes:
            self.demand = 0
        if revokes:
            self._raise(_REVOKE)
        else:
            self.settle()
        if got.demand == _PROBE:  # its own rebalance is over; another one is pending
            self.demand = max(self.demand, _PROBE)
            self._process.follow(self._client_id)

    def _raise(self, code: int) -> None:
        if code > self.status:
            self._move(code)
        elif 0 < code < self.status:
            self._process.lives.mask(self._client_id, code, self._process.at)
            self._process.follow(self._client_id, code)

    def settle(self) -> None:
        """Come to rest, or let the instance know that nothing is demanded of it any more."""
        if self.status:
            self._move(0)
        else:
            self._process.follow(self._client_id)

    def _move(self, status: int) -> None:
        self.status = status
        self._process.lives.tell(self._client_id, status, self._process.at)
        self._process.follow(self._client_id)


def _error(body: str) -> int:
    """Return the first error that is none but 0: a commit's stand by partition."""
    return next((int(found) for found in _ERROR.findall(body) if found != "0"), 0)


def _by_reason(body: str) -> int:
    match = _REASON.search(body)
    reason = "" if match is None else match[1]
    for text, code in _RAISED_BY_REASON:
        if text in reason:
            return code
    is_own = not reason or reason.startswith(_OWN_REASONS[1:])
    return 0 if is_own else 6
