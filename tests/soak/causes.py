"""The codes of KAFKA-12472 for a response's error and for a reason to join."""

import re

_ERROR = re.compile(r"errorCode=(-?\d+)")
_REASON = re.compile(r"reason='([^']*)'")
RAISED_BY_ERROR = {27: 1, 79: 2, 25: 3, 22: 4, 14: 9, 15: 9, 16: 9}
REVOKE = 10
EXPIRED = "consumer poll timeout has expired"
_RAISED_BY_REASON = (
    ("cached metadata has changed", 7),
    ("subscription has changed", 8),
    ("received assignment", 8),  # "does not match the current subscription"
    ("need to revoke partitions", REVOKE),
    (EXPIRED, 5),
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


def error_of(body: str) -> int:
    """Return the first error other than 0, else 0: a commit's response has one by partition."""
    return next((int(found) for found in _ERROR.findall(body) if found != "0"), 0)


def code_of(body: str) -> int:
    """Return the code that the reason in a body raises; 0 for a reason without a cause."""
    match = _REASON.search(body)
    reason = "" if match is None else match[1]
    for text, code in _RAISED_BY_REASON:
        if text in reason:
            return code
    is_own = not reason or reason.startswith(_OWN_REASONS[1:])
    return 0 if is_own else 6
