"""Groups that lines above name, for clients whose lines name a group now and then.

Theory of operation. librdkafka's MAXPOLL and kafka-python's failed heartbeat name no group. A log
that is read from its begin has named it before; an excerpt, or a log that is followed from its end,
has named it in lines that no rule reads, as those of heartbeats and of the coordinator.
"""

import re

_QUOTED = re.compile(rb'[Gg]roup \\{0,15}"{1,2}([^"\\\n]{1,255})\\{0,15}"')
_PLAIN = re.compile(rb"(?:for|joining|joined) group ([^\s:;,'\"()]{1,255})")


def find_group(handle: str, log: bytes, begin: int, end: int) -> str:
    """Return the group that the last line of a client names; an empty text where none does.

    ``handle`` is the client's name in its lines; an empty one means any line.
    """
    name, found = handle.encode(), b""
    for match in _QUOTED.finditer(log, begin, end):
        line = max(log.rfind(b"\n", begin, match.start()) + 1, begin)
        line_end = log.find(b"\n", match.end(), end)
        # an object may have the name in a field behind the message
        if not name or log.find(name, line, end if line_end < 0 else line_end) >= 0:
            found = match[1]
    if not found and not name:
        for match in _PLAIN.finditer(log, begin, end):
            found = match[1].rstrip(b".")  # the end of a sentence
    return found.decode(errors="replace")
