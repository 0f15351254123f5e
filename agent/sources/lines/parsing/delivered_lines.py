"""Lines of a stream that are delivered again.

Theory of operation. Shippers deliver at least once: after a failure a part of the log comes again.
Exports overlap, and a logger with two appenders writes each line twice, perhaps with two layouts. A
line that comes again has the time, rule and captures of an earlier one, and no effect.

At a new time no line is one, so only its key is kept. At the latest time, the line that follows its
equal is one: a client may print a line twice within a millisecond, with others in between. At a
time of before, the kept keys are searched. Two clients without names print the same: their lines
count within one second, and at a time of before.
"""

from struct import Struct
from typing import Any
from zlib import crc32

from agent.sources.lines.dialects.dialect import LogEvent

KEPT_LINES = 512
"""So many last lines with an event are compared at least, and twice as many at most."""
_KEPT_IN_STATE = 16
_KEY = Struct("<dI")
"""Time and checksum, the same after a restart."""
_pack = _KEY.pack
_KEY_BYTES = _KEY.size
_MAX_BYTES = 2 * KEPT_LINES * _KEY_BYTES
_NAMES = frozenset(("client_id", "instance_id", "member_id", "member_name", "thread"))
"""Captures that name a client."""
_LAST = "reason"
"""Capture that may end in what a layout writes behind the message."""


class DeliveredLines:
    """Keys of the last lines of one stream."""

    __slots__ = ("_is_run", "_keys", "_last_at", "_moment")

    def __init__(self) -> None:
        self._keys = bytearray()
        self._last_at: float | None = None
        self._moment = 0
        """Place of the first key of the latest time."""
        self._is_run = False
        """The line before was delivered again: this one may be."""

    @property
    def size(self) -> int:
        """Number of lines that are known."""
        return len(self._keys) // _KEY_BYTES

    def is_again(self, event: LogEvent, at: float, *, is_of_several: bool = False) -> bool:
        """Return whether a line with its own stamp ``at`` (Unix seconds) was there before.

        A line without a member id may be another client's where several share their names.
        """
        captures = event.captures
        if is_of_several and not captures.get("member_id"):
            return False
        texts = [event.rule.name, *captures.values()]
        if _LAST in captures:
            texts.remove(captures[_LAST])
        key = _pack(at, crc32("\0".join(texts).encode()))
        last_at = self._last_at
        if last_at is None or at > last_at:
            self._last_at, self._moment, self._is_run = at, len(self._keys), False
        else:
            is_named = not _NAMES.isdisjoint(captures)
            if at == last_at:
                self._is_run = (is_named or not at.is_integer()) and self._is_next(key)
            else:
                self._is_run = is_named and key in self._keys
        if not self._is_run:
            self._keep(key)
        return self._is_run

    def state(self) -> dict[str, Any]:
        """Return the last lines for a checkpoint, in types that JSON can carry."""
        kept = self._keys[-_KEPT_IN_STATE * _KEY_BYTES :]
        moment = max(0, self._moment - len(self._keys) + len(kept))
        return {
            "keys": kept.hex(),
            "last_at": self._last_at,
            "moment": moment,
            "is_run": self._is_run,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `state`."""
        self._keys = bytearray.fromhex(state["keys"])
        self._last_at, self._moment = state["last_at"], state["moment"]
        self._is_run = state["is_run"]

    def _is_next(self, key: bytes) -> bool:
        """Return whether a line of the latest time comes again."""
        return self._keys.endswith(key) or (
            self._is_run and self._keys.find(key, self._moment) >= 0
        )

    def _keep(self, key: bytes) -> None:
        if len(self._keys) >= _MAX_BYTES:
            del self._keys[: _MAX_BYTES // 2]
            self._moment = max(0, self._moment - _MAX_BYTES // 2)
        self._keys += key
