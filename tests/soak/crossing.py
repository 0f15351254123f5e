"""Responses to two threads of one process that may have passed the wire in another order.

Each thread has a connection of its own. A response passes the wire at some time between the
request and the client's reading of it. So the order of two threads' responses is known only if one
was read before the request of the other. Else both orders are possible for the Streams instance,
whose status is the max of its threads. The order of one client's requests and responses is fixed.
"""

import re
from collections.abc import Iterator, Sequence

from tests.soak.debug_log import BEGINNING, Line

_BEATS = {"HEARTBEAT", "OFFSET_COMMIT"}
_IS_ERROR = re.compile(r"errorCode=-?[1-9]")
_NEAR_S = 30.0
"""The cause of a difference is searched within this: request.timeout.ms."""


def other_orders(lines: Sequence[Line], near: Sequence[float]) -> Iterator[list[Line]]:
    """Yield each possible order with one response moved before others that were read before it.

    Only responses that may change a status are moved, and only those read near one of the instants
    ``near`` (Unix seconds).
    """
    for number, line in enumerate(lines):
        if _may_change(line) and any(abs(line.at - at) < _NEAR_S for at in near):
            for place in range(_earliest(lines, number), number):
                if lines[place].client_id != line.client_id:
                    moved = line._replace(at=lines[place].at)
                    yield [*lines[:place], moved, *lines[place:number], *lines[number + 1 :]]


def _may_change(line: Line) -> bool:
    is_answer = line.what in {"Received", "Unheeded"}
    return is_answer and (line.api == "SYNC_GROUP" or _IS_ERROR.search(line.body) is not None)


def _earliest(lines: Sequence[Line], number: int) -> int:
    """Return the earliest possible place of the response with that number."""
    places = range(number - 1, -1, -1)
    return next((place + 1 for place in places if _holds(lines[place], lines[number])), 0)


def _holds(earlier: Line, answer: Line) -> bool:
    """Return whether a response certainly passed the wire after an earlier line."""
    if earlier.client_id != answer.client_id:
        return earlier.what == BEGINNING
    is_beat = earlier.what == "Sending" and earlier.api in _BEATS
    return not is_beat or earlier.number == answer.number
