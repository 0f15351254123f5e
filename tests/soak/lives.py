"""The codes of the clients and instances of a log, and the possible deviations from them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

_UNREAD = 50
"""More than the requests in flight at once, times their codes."""
CROSSING_S = 2.0
"""A response takes less time than this, and a log is read within a second."""


class Question(NamedTuple):
    """A fact that a log does not show, at one line: about a client, or about the whole process."""

    line: int
    client_id: str
    about: str


class Possible(NamedTuple):
    """Codes that another source may have reported before the code at ``position``.

    If ``why`` is ``late`` or ``masked``, it is the code at ``position``, and it may be recorded as
    a ``signal`` instead.
    """

    why: str
    """``crossed``: the code at ``position`` masks it in the log, or is a leave. ``unread``: the
    client gave up the request. ``late``: the end of the rebalance followed at once. ``masked``: a
    higher cause followed at once."""
    name: str
    position: int
    codes: tuple[int, ...]


class Left(NamedTuple):
    """A leave: the positions of client and instance, the client's status, and the leave's code."""

    position: dict[str, int]
    status: int
    code: int


class Lives:
    """The codes of all clients and instances of a log."""

    def __init__(self) -> None:
        self.got = defaultdict[str, list[int]](list)
        self.times = defaultdict[str, list[float]](list)
        """Time of each code in `got` (Unix seconds)."""
        self.possible = list[Possible]()
        self.questions = list[Question]()
        """In the order in which they were asked."""

    def tell(self, name: str, code: int, at: float) -> None:
        self.got[name].append(code)
        self.times[name].append(at)

    def mask(self, name: str, code: int, at: float) -> None:
        """Note a cause that a higher code hides."""
        if code and self.got[name] and at - self.times[name][-1] <= CROSSING_S:
            self.possible.append(Possible("crossed", name, len(self.got[name]) - 1, (code,)))

    def cross(self, position: Mapping[str, int], codes: tuple[int, ...]) -> None:
        """Note a response that another source may have reported before the codes at a position."""
        self.possible += [Possible("crossed", name, at, codes) for name, at in position.items()]

    def delay(self, name: str, why: str = "late") -> None:
        """Note that the wire may have reported an end or a higher cause before the last cause."""
        got = self.got[name]
        self.possible.append(Possible(why, name, len(got) - 1, (got[-1],)))

    def give_up(self, name: str, codes: Iterable[int]) -> None:
        """Note a request that the client does not wait for any more."""
        position = len(self.got[name])
        unread = [Possible("unread", name, position, (code,)) for code in codes]
        self.possible += [each for each in unread if each not in self.possible[-_UNREAD:]]
