"""ConsumerProtocolSubscription and ConsumerProtocolAssignment, versions 0 to 3 and beyond.

As Kafka's own reader does (ConsumerProtocol.deserializeSubscription), a higher version is read as
the highest known one: fields are only ever added at the end.
"""

from dataclasses import dataclass

from agent.wire.codec.buffer import Buffer
from agent.wire.codec.messages import Partitions

_GENERATION_FROM, _RACK_FROM = 2, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """The metadata in the join of a member of a "consumer" group."""

    topics: frozenset[str]
    user_data: bytes
    owned: Partitions
    generation: int | None = None
    """The generation of the owned partitions (version 2 and above)."""
    rack: str | None = None
    """Version 3 and above."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A member's assignment by its leader."""

    partitions: Partitions
    user_data: bytes


def read_subscription(data: bytes) -> Subscription:
    """Read a member's metadata.

    Raises:
        DecodeError: the bytes are something else.

    """
    buffer = Buffer(data)
    version = buffer.int16()
    topics = buffer.array(Buffer.string, buffer.int32())
    user_data = b"" if buffer.is_at_end else buffer.nullable_bytes()
    # kafka-go 0.4 writes version 1 without owned partitions
    owned = frozenset() if version < 1 or buffer.is_at_end else _read_partitions(buffer)
    generation = None if version < _GENERATION_FROM or buffer.is_at_end else buffer.int32()
    rack = None if version < _RACK_FROM or buffer.is_at_end else buffer.nullable_string()
    return Subscription(
        topics=frozenset(topics),
        user_data=user_data,
        owned=owned,
        generation=None if generation is None or generation < 0 else generation,
        rack=rack or None,
    )


def read_assignment(data: bytes) -> Assignment:
    """Read a member's assignment; empty bytes are no partitions.

    Raises:
        DecodeError: the bytes are something else.

    """
    if not data:
        return Assignment(partitions=frozenset(), user_data=b"")
    buffer = Buffer(data)
    buffer.int16()  # the version: no field was ever added
    partitions = _read_partitions(buffer)
    return Assignment(partitions=partitions, user_data=buffer.nullable_bytes())


def _read_partitions(buffer: Buffer) -> Partitions:
    topics = buffer.array(_read_topic, buffer.int32())
    return frozenset((name, number) for name, numbers in topics for number in numbers)


def _read_topic(buffer: Buffer) -> tuple[str, list[int]]:
    return buffer.string(), buffer.array(Buffer.int32, buffer.int32())
