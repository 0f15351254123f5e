"""Reads choices out of fuzzed bytes; at their end there are zeros, so every input is one."""


class Cursor:
    """A position in some bytes."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def __bool__(self) -> bool:
        return self._at < len(self._data)

    def number(self, size: int = 1) -> int:
        """Return an unsigned number of ``size`` bytes."""
        return int.from_bytes(self.take(size).ljust(size, b"\0"), "big")

    def take(self, size: int) -> bytes:
        """Return the next bytes, fewer at the end."""
        self._at += size
        return self._data[self._at - size : self._at]

    def rest(self) -> bytes:
        return self.take(len(self._data))
