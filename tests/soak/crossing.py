"""Answers to two threads of one process that were read in another order than they were given.

Each thread has a connection of its own. An answer passes the wire some time between the request
and the client's reading of it: whose answer was first is known only where one was read before the
other was asked for. Else a Streams instance, which is the largest of its threads, may have met them
in either order. What one client has read and asked keeps its order.
"""

import re
from collections.abc import Iterator, Sequence

from tests.soak.debug_log import BEGINNING, Line

_BEATS = {"HEARTBEAT", "OFFSET_COMMIT"}
_IS_ERROR = re.compile(r"errorCode=-?[1-9]")
_NEAR_S = 30.0
"""So far from a difference its cause is looked for: request.timeout.ms."""


def other_orders(lines: Sequence[Line], near: Sequence[float]) -> Iterator[list[Line]]:
    """Yield each order in which one answer was met before others that were read before it.

    Only of answers that may change something and were read about one of the instants ``near``.
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
    """Return the first place where the answer with that number may stand."""
    places = range(number - 1, -1, -1)
    return next((place + 1 for place in places if _holds(lines[place], lines[number])), 0)


def _holds(earlier: Line, answer: Line) -> bool:
    """Tell whether an answer was surely met behind an earlier line."""
    if earlier.client_id != answer.client_id:
        return earlier.what == BEGINNING
    is_beat = earlier.what == "Sending" and earlier.api in _BEATS
    return not is_beat or earlier.number == answer.number
