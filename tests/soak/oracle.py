"""What a Java consumer's DEBUG log says of its status: KAFKA-12472 once more, by other means.

The client prints every request and answer (NetworkClient at DEBUG, Kafka 3.9 and newer). The agent
reads none of these lines; it has INFO lines and frames. Nothing of the agent is used here. For the
classic protocol with an eager assignor. One INFO line is read too, that of what the soak itself
asks for: a client that is joining already never sends it.
"""

import re
from pathlib import Path

_LINE = re.compile(
    r"(?P<what>Sending|Received) (?P<api>[A-Z_]+) (?:request|response) .*?RequestHeader\(.*?"
    r"correlationId=(?P<correlation>\d+).*?\).*?: (?P<body>\w+Data\(.*\))"
)
_ENFORCED = "Request joining group due to: a new configuration"
_ERROR = re.compile(r"errorCode=(-?\d+)")
_REASON = re.compile(r"reason='([^']*)'")
_RAISED_BY_ERROR = {27: 1, 79: 2, 25: 3, 22: 4, 14: 9, 15: 9, 16: 9}
_RETRIABLE = {14, 15, 16}
_JOINS = {"JOIN_GROUP", "SYNC_GROUP"}
_IN_GROUP = _JOINS | {"HEARTBEAT", "OFFSET_COMMIT"}
_RAISED_BY_REASON = (
    ("cached metadata has changed", 7),
    ("subscription has changed", 8),
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


def codes(log: Path) -> list[int]:
    """Return the codes that a consumer went to, in order, through all its processes."""
    client = _Client()
    for line in log.read_text().splitlines():
        if _ENFORCED in line:
            client.enforce()
        match = _LINE.search(line)
        if match is None or match["api"] not in _IN_GROUP | {"LEAVE_GROUP"}:
            continue
        take = client.ask if match["what"] == "Sending" else client.answer
        take(match["api"], int(match["correlation"]), match["body"])
    return client.told


class _Client:
    """One client id; a process that is started again numbers its requests anew."""

    def __init__(self) -> None:
        self.told: list[int] = []
        self._status = self._last = 0
        self._is_out = False
        self._left_at = -1

    def ask(self, api: str, number: int, body: str) -> None:
        if number < self._last:  # what a killed process had begun has ended with it
            self._left_at, self._status = -1, 0
        self._last = number
        if api == "LEAVE_GROUP":
            self._is_out, self._left_at = True, number
            is_dropped = "poll timeout has expired" in body
            self._raise(5 if is_dropped else 6)
            if not is_dropped:
                self._settle()
        elif api == "JOIN_GROUP":
            self._is_out = False
            self._raise(_by_reason(body))

    def enforce(self) -> None:
        self._raise(6)

    def answer(self, api: str, number: int, body: str) -> None:
        if self._is_out or number <= self._left_at or api == "LEAVE_GROUP":
            return  # to what was asked before it left
        error = _error(body)
        if api == "SYNC_GROUP" and error == 0:
            self._settle()
        elif error not in _RETRIABLE or api in _JOINS:
            self._raise(_RAISED_BY_ERROR.get(error, 0))

    def _raise(self, code: int) -> None:
        if code > self._status:
            self.told.append(code)
            self._status = code

    def _settle(self) -> None:
        if self._status:
            self.told.append(0)
        self._status = 0


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
