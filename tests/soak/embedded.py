"""Subscriptions and assignments in JoinGroup and SyncGroup, from the numbers that Java prints.

Layouts: ConsumerProtocolSubscription.json, ConsumerProtocolAssignment.json, and the end of
Streams' AssignmentInfo.java: since version 7 it is the time of the next rebalance.
"""

import re
from functools import lru_cache
from typing import NamedTuple

Partitions = frozenset[tuple[str, int]]

_PROTOCOL = re.compile(r"Protocol\(name='([^']*)', metadata=\[([^\]]*)\]\)")
_MEMBER_ID = re.compile(r"memberId='([^']+)'")
_ASSIGNED = re.compile(r"protocolName='([^']*)', assignment=\[([^\]]*)\]")
_NEXT_REBALANCE_BYTES = 8
_NEVER_MS = (1 << 63) - 1
_REVOKE, _PROBE = 10, 11


class Assignment(NamedTuple):
    """A member's assignment. ``demand`` is 10 or 11 if Streams needs another rebalance, else 0."""

    partitions: Partitions
    demand: int
    due: float = 0.0
    """Time of that rebalance in Unix seconds; 0: at once, or never."""


_NOTHING = Assignment(frozenset(), 0)


class _Reader:
    def __init__(self, printed: str) -> None:
        self._data = bytes(int(each) % 256 for each in printed.split(",") if each.strip())
        self._at = 0

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), signed=True)

    def take(self, size: int) -> bytes:
        begun, self._at = self._at, self._at + max(0, size)
        return self._data[begun : self._at]

    def text(self) -> str:
        return self.take(self.number(2)).decode()

    def partitions(self) -> Partitions:
        return frozenset(
            (topic, self.number(4))
            for topic in (self.text() for _ in range(self.number(4)))
            for _ in range(self.number(4))
        )


def owned(body: str) -> dict[str, Partitions]:
    """Return the partitions that a member owns at its join, by protocol."""
    return {name: _owned(metadata) for name, metadata in _PROTOCOL.findall(body)}


def subscribed(body: str) -> tuple[str, frozenset[str]] | None:
    """Return the id of a member that joins again, and its topics; None for a first join."""
    member, protocol = _MEMBER_ID.search(body), _PROTOCOL.search(body)
    return None if member is None or protocol is None else (member[1], _topics(protocol[2]))


def assigned(body: str) -> tuple[str, Assignment]:
    """Return the protocol and the assignment in a SyncGroup response."""
    match = _ASSIGNED.search(body)
    return ("", _NOTHING) if match is None else (match[1], _given(match[2]))


@lru_cache(1000)
def _topics(metadata: str) -> frozenset[str]:
    reader = _Reader(metadata)
    reader.number(2)  # the version
    return frozenset(reader.text() for _ in range(reader.number(4)))


@lru_cache(1000)
def _owned(metadata: str) -> Partitions:
    reader = _Reader(metadata)
    version = reader.number(2)
    for _ in range(reader.number(4)):
        reader.text()  # a topic
    reader.take(reader.number(4))  # the assignor's own
    return reader.partitions() if version >= 1 else frozenset()


@lru_cache(1000)
def _given(assignment: str) -> Assignment:
    reader = _Reader(assignment)
    reader.number(2)  # the version
    partitions = reader.partitions()
    of_streams = reader.take(reader.number(4))
    if not of_streams:
        return Assignment(partitions, 0)
    next_ms = int.from_bytes(of_streams[-_NEXT_REBALANCE_BYTES:])
    if next_ms == _NEVER_MS:
        return Assignment(partitions, 0)
    return Assignment(partitions, _PROBE if next_ms else _REVOKE, next_ms / 1000)
