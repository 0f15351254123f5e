"""Kafka Streams' user data for tests, as its writers lay it out in each version."""

import struct
from uuid import UUID

NEVER = (1 << 63) - 1


def subscription_info(
    version: int, *, process: int = 1, endpoint: str = "", latest: int | None = None
) -> bytes:
    """Return a SubscriptionInfo."""
    out = struct.pack(">i", version)
    out += struct.pack(">i", latest or version) if version >= 3 else b""
    out += UUID(int=process).bytes
    if version < 7:
        out += struct.pack(">iii", 1, 0, 3) + struct.pack(">i", 0)
    if version >= 2:
        out += struct.pack(">i", len(endpoint)) + endpoint.encode()
    return out + b"\0\0\0\0what follows is not read"


def assignment_info(
    version: int,
    *,
    common: int | None = None,
    hosts: tuple[tuple[str, int], ...] = (),
    error: int = 0,
    next_ms: int = NEVER,
    named: str = "",
) -> bytes:
    """Return an AssignmentInfo with an active and a standby task."""
    out = struct.pack(">i", version)
    out += struct.pack(">i", common or version) if version >= 3 else b""
    task = struct.pack(">ii", 0, 1)
    if version >= 10:
        task += struct.pack(">i", len(named)) + named.encode("utf-16-be")
    out += struct.pack(">i", 1) + task
    out += struct.pack(">i", 1) + task + _topic_partitions()
    out += _hosts(version, hosts)
    out += struct.pack(">i", error) if version >= 4 else b""
    return out + (struct.pack(">q", next_ms) if version >= 7 else b"")


def _hosts(version: int, hosts: tuple[tuple[str, int], ...]) -> bytes:
    if version < 2:
        return b""
    count = struct.pack(">i", len(hosts))
    if version < 5:
        return count + b"".join(_host(*host) + _topic_partitions() for host in hosts)
    dictionary = struct.pack(">ii", 1, 0) + _utf("t")
    indexed = struct.pack(">iii", 1, 0, 0)
    active = count + b"".join(_host(*host) + indexed for host in hosts)
    return dictionary + active + (struct.pack(">i", 0) if version >= 6 else b"")


def _topic_partitions() -> bytes:
    return struct.pack(">i", 1) + _utf("t") + struct.pack(">i", 1)


def _host(name: str, port: int) -> bytes:
    return _utf(name) + struct.pack(">i", port)


def _utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()
