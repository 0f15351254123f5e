"""Metadata and assignments of Connect's workers: ConnectProtocol V0 and later.

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
    delay_ms: int = 0
    """After this, the workers join again: tasks of a worker that left wait for its return."""

    @property
    def failure(self) -> str | None:
        """Why the leader could assign nothing; the worker will join again."""
        if not self.error:
            return None
        name = _ERRORS.get(self.error, f"error {self.error}")
        return f"assignment failed: {name} at config offset {self.config_offset} of {self.leader}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectWorker:
    """A worker as its coordinator describes it."""

    url: str
    leader: str | None
    """A member id."""
    leader_url: str | None
    connectors: tuple[str, ...]
    tasks: dict[str, tuple[int, ...]]
    """Task numbers by connector."""


_Rows = frozenset[tuple[str, int]]
"""Connector and task; `_CONNECTOR_ITSELF` is no task."""


def read_worker(metadata: bytes, assignment: bytes) -> ConnectWorker:
    """Read a worker's metadata of its join, and its assignment.

    Since V1 an assignment has only additions and revocations. The rest is in the metadata.

    Raises:
        DecodeError: the bytes are something else.

    """
    buffer = Buffer(metadata)
    version, url = buffer.int16(), buffer.string()
    buffer.int64()  # how far it has read the config topic
    before = b"" if version < 1 or buffer.is_at_end else buffer.nullable_bytes()
    rows, leader, leader_url = _read_owned(before), None, None
    if assignment:
        buffer = Buffer(assignment)
        version = buffer.int16()
        buffer.int16()  # an error
        leader, leader_url = buffer.string(), buffer.string()
        buffer.int64()
        added = _read_rows(buffer)
        revoked = _Rows() if version < 1 or buffer.is_at_end else _read_rows(buffer)
        rows = rows - revoked | added
    tasks: dict[str, list[int]] = {}
    for connector, task in sorted(rows):
        if task != _CONNECTOR_ITSELF:
            tasks.setdefault(connector, []).append(task)
    return ConnectWorker(
        url=url,
        leader=leader or None,
        leader_url=leader_url or None,
        connectors=tuple(sorted(name for name, task in rows if task == _CONNECTOR_ITSELF)),
        tasks={name: tuple(numbers) for name, numbers in tasks.items()},
    )


def _read_owned(assignment: bytes) -> _Rows:
    """Read the connectors and tasks of an assignment, without its revocations."""
    if not assignment:
        return _Rows()
    buffer = Buffer(assignment)
    buffer.int16()
    buffer.int16()
    buffer.string()
    buffer.string()
    buffer.int64()
    return _read_rows(buffer)


def _read_rows(buffer: Buffer) -> _Rows:
    rows = buffer.array(_read_row, buffer.int32())
    return frozenset((connector, task) for connector, tasks in rows for task in tasks)


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
        delay_ms=buffer.int32() if version >= 1 else 0,
    )


def _read_names(buffer: Buffer) -> frozenset[str]:
    return frozenset(
        connector if task == _CONNECTOR_ITSELF else f"{connector}-{task}"
        for connector, task in _read_rows(buffer)
    )


def _read_row(buffer: Buffer) -> tuple[str, list[int]]:
    return buffer.string(), buffer.int32s(buffer.int32())
