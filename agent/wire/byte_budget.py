"""A bound in bytes that all connections of one source share."""

from dataclasses import dataclass

_LONG_BYTES = 64 << 10
SHORT_BYTES = 4 << 10
"""So much each connection may hold whatever the others do."""


@dataclass(slots=True)
class ByteBudget:
    """Bytes that wait, of all connections: segments out of order, or responses to rewrite.

    Beyond the limit those of a connection with more than 64 KiB are given up, and beyond one and a
    half times the limit those of each one with more than 4 KiB.
    """

    limit_bytes: int = 32 << 20
    used_bytes: int = 0

    def has_room_for(self, size_bytes: int) -> bool:
        """Return whether a connection may hold so many bytes; the caller counts them."""
        if self.used_bytes <= self.limit_bytes:
            return True
        is_far = self.used_bytes > self.limit_bytes * 3 // 2
        return size_bytes <= (SHORT_BYTES if is_far else _LONG_BYTES)
