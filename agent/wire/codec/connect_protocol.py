"""The assignment that the leader of a Connect group gives a worker: ConnectProtocol V0 and later.

Source: ConnectProtocol and IncrementalCooperativeConnectProtocol (KIP-415; KIP-507's V2 is laid out
as V1), read in Kafka 2.8 to 4.3. As there, a higher version is read as the highest known one.
"""

from dataclasses import dataclass

from agent.wire.codec.buffer import Buffer

_CONNECTOR_ITSELF = -1
_ERRORS = {1: "CONFIG_MISMATCH"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectAssignment:
    """Connectors and tasks, named as Connect does: ``sink`` and ``sink-0``."""

    error: int
    leader: str
    """A member id."""
    config_offset: int
    """How far the config topic must have been read, for this to hold."""
    assigned: frozenset[str]
    """The whole assignment; since V1 only its additions."""
    revoked: frozenset[str]
    """To be given up at once, and to join again."""

    @property
    def failure(self) -> str | None:
        """Why the leader could assign nothing; the worker will join again."""
        if not self.error:
            return None
        name = _ERRORS.get(self.error, f"error {self.error}")
        return f"assignment failed: {name} at config offset {self.config_offset} of {self.leader}"


def read_assignment(data: bytes) -> ConnectAssignment:
    """Read a worker's assignment.

    Raises:
        DecodeError: the bytes are something else.

    """
    buffer = Buffer(data)
    version = buffer.int16()
    error, leader = buffer.int16(), buffer.string()
    buffer.string()  # the leader's URL
    return ConnectAssignment(
        error=error,
        leader=leader,
        config_offset=buffer.int64(),
        assigned=_read_names(buffer),
        revoked=_read_names(buffer) if version >= 1 else frozenset(),
    )


def _read_names(buffer: Buffer) -> frozenset[str]:
    rows = buffer.array(_read_row, buffer.int32())
    return frozenset(
        connector if task == _CONNECTOR_ITSELF else f"{connector}-{task}"
        for connector, tasks in rows
        for task in tasks
    )


def _read_row(buffer: Buffer) -> tuple[str, list[int]]:
    return buffer.string(), buffer.int32s(buffer.int32())
