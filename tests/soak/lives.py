"""What became of the clients and instances of a log, and what may have been told beside it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

_UNREAD = 50
"""Requests that are in flight at once, and their codes, are fewer."""
CROSSING_S = 2.0
"""An answer is under way for less, and a log is read within a second."""


class Question(NamedTuple):
    """What a log does not tell: asked at a line, of a client, or of all of a process."""

    line: int
    client_id: str
    about: str


class Possible(NamedTuple):
    """What may have been told before what stands at ``position``, by another source.

    Or, where it is ``late`` or ``masked``, what stands there and may be a signal.
    """

    why: str
    """``crossed``: the code there masks it here, or was a leave; ``unread``: the client gave the
    request up; ``late``: the round's end came at once; ``masked``: a higher cause did."""
    name: str
    position: int
    codes: tuple[int, ...]


class Left(NamedTuple):
    """A leave: where all were, the client's status, and the leave's own code."""

    position: dict[str, int]
    status: int
    code: int


class Lives:
    """What became of all clients and instances of a log."""

    def __init__(self) -> None:
        self.got = defaultdict[str, list[int]](list)
        self.times = defaultdict[str, list[float]](list)
        """When each of `told` was."""
        self.possible = list[Possible]()
        self.questions = list[Question]()
        """In the order in which they were asked."""

    def tell(self, name: str, code: int, at: float) -> None:
        self.got[name].append(code)
        self.times[name].append(at)

    def mask(self, name: str, code: int, at: float) -> None:
        """Take a cause that a higher code hides."""
        if code and self.got[name] and at - self.times[name][-1] <= CROSSING_S:
            self.possible.append(Possible("crossed", name, len(self.got[name]) - 1, (code,)))

    def cross(self, position: Mapping[str, int], codes: tuple[int, ...]) -> None:
        """Take an answer that crossed what stands there."""
        self.possible += [Possible("crossed", name, at, codes) for name, at in position.items()]

    def delay(self, name: str, why: str = "late") -> None:
        """Take the last cause as one that the end of its round, or a higher one, has overtaken."""
        got = self.got[name]
        self.possible.append(Possible(why, name, len(got) - 1, (got[-1],)))

    def give_up(self, name: str, codes: Iterable[int]) -> None:
        """Take a request that the client does not wait for any more."""
        position = len(self.got[name])
        unread = [Possible("unread", name, position, (code,)) for code in codes]
        self.possible += [each for each in unread if each not in self.possible[-_UNREAD:]]
