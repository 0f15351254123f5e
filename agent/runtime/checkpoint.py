"""The checkpoint of an agent: one JSON file, replaced whole.

Order: samples are fsynced, then the checkpoint is saved. After a crash between the two, part of a
log is read again, and the spool drops the duplicates. The reverse order would lose samples.
"""

import logging
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from agent import VERSION as RELEASE
from agent.errors import OutputError
from agent.files import replace_file, write_error
from agent.outputs.spool.spool import SpoolMark
from agent.runtime.reporter_clocks import ReporterClock
from agent.sources.base import Tick
from metrics.model.sample import MALFORMED
from metrics.model.signals import Signal
from metrics.tracking.tracker import TrackerState

VERSION = 1
"""Version of the format. Fields keep their encoded names and their defaults (these are not
written), so up- and downgrades keep the state."""
LEAST_MAX_BYTES = 64 << 20
"""Longest file that is read whatever the memory limit: 20,000 members and 20,000 files have it.
Beyond, the members would not fit into the limit: they take more memory than their text."""
_MEMBERS_AT_ONCE = 200
"""Members encoded at once."""
_encode = msgspec.json.Encoder().encode
_log = logging.getLogger(__name__)


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The tracker's state, the spool's mark, and each source's position by its name."""

    version: int = VERSION
    release: str = ""
    """The agent's release that wrote it; empty: before releases wrote theirs."""
    spool: SpoolMark = msgspec.field(default_factory=SpoolMark)
    tracker: TrackerState = msgspec.field(default_factory=TrackerState)
    sources: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    """Of a file that was read each value is a `msgspec.Raw`: as objects, the positions of 20,000
    logs take four times their bytes."""
    held: list[Signal | Tick] = msgspec.field(default_factory=list)
    """Signals before the positions that were not applied to the tracker yet."""
    clocks: list[ReporterClock] = msgspec.field(default_factory=list)
    """Clocks that differ from the agent's."""


class _Read(Checkpoint, frozen=True, kw_only=True):
    """A checkpoint as it is read."""

    sources: dict[str, dict[str, msgspec.Raw]] = msgspec.field(default_factory=dict)


class _Version(msgspec.Struct):
    version: int


def load(path: Path, max_bytes: int = LEAST_MAX_BYTES) -> Checkpoint | None:
    """Return the checkpoint, or None if there is none to resume from.

    A file that cannot be used, or is longer than ``max_bytes`` and `LEAST_MAX_BYTES`, is kept as
    ``.corrupt`` with a warning. The agent then starts without a checkpoint and reads its sources
    from their begin; equal events keep their ids.

    Raises:
        OutputError: the file is there and may not be read or moved.

    """
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise OutputError(f"checkpoint {str(path)!r}: is no file")
        max_bytes = max(max_bytes, LEAST_MAX_BYTES)
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            data = file.read(max_bytes) if size <= max_bytes else b""
    except FileNotFoundError:
        return None
    except OSError as error:
        raise write_error(path, error) from error
    try:
        if size > max_bytes:
            raise msgspec.ValidationError(f"has {size:,} bytes, wanted {max_bytes:,} at most")
        return _decode(path, data)
    except MALFORMED as error:
        fault = str(error)
    aside = _aside(path)
    try:
        path.replace(aside)
    except OSError as error:
        raise write_error(path, error) from error
    _warn("checkpoint_unusable: starting afresh", path, fault)
    return None


def keep_copy(path: Path, fault: str) -> None:
    """Copy a checkpoint with a damaged part to ``.corrupt``, and log the fault.

    Raises:
        OutputError: the copy cannot be written.

    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise write_error(path, error) from error
    replace_file(_aside(path), [data])
    _warn("checkpoint_damaged", path, fault)


def _aside(path: Path) -> Path:
    return path.with_name(path.name + ".corrupt")


def _warn(event: str, path: Path, fault: str) -> None:
    keys = {"path": str(path), "fault": fault, "kept_as": str(_aside(path))}
    _log.warning(event, extra=keys)


def _decode(path: Path, data: bytes) -> Checkpoint:
    version = msgspec.json.decode(data, type=_Version).version
    if version != VERSION:
        raise msgspec.ValidationError(f"version is {version}, this agent knows {VERSION}")
    data.decode()  # msgspec.Raw does not check it
    read = msgspec.json.decode(data, type=_Read)
    copies = {  # which let go of the file's bytes
        name: {stream: raw.copy() for stream, raw in position.items()}
        for name, position in read.sources.items()
    }
    checkpoint = Checkpoint(**msgspec.structs.asdict(read) | {"sources": copies})
    if checkpoint.release != RELEASE:
        members = len(checkpoint.tracker.consumers)
        keys = {
            "path": str(path),
            "written_by": checkpoint.release or "unknown",
            "members": members,
        }
        _log.info("checkpoint_of_other_release", extra=keys)
    return checkpoint


def forget_origins(state: TrackerState, origins: Collection[str]) -> TrackerState:
    """Return the state without members that only these origins report, and their groups.

    Their sources read everything again, and the events keep their ids: the tracker must not know
    them already.
    """

    def is_lost(origin: str) -> bool:
        return _file_of(origin) in origins

    consumers = [
        consumer
        for consumer in state.consumers
        if not all(is_lost(view.member.origin) for view in consumer.views)
    ]
    kept = {consumer.track.member.group for consumer in consumers}
    lost = {consumer.track.member.group for consumer in state.consumers} - kept
    return TrackerState(
        consumers=consumers,
        instances=[track for track in state.instances if not is_lost(track.origin)],
        groups=[entry for entry in state.groups if entry.key.group not in lost],
        counts=state.counts,
    )


def is_of(event: Signal | Tick, origins: Collection[str]) -> bool:
    """Return whether one of these origins has reported an event."""
    found = [event.member.origin] if isinstance(event, Signal) else (*event.ended, *event.cut)
    return any(_file_of(origin) in origins for origin in found)


def _file_of(origin: str) -> str:
    return origin.partition("#")[0]


def save(path: Path, checkpoint: Checkpoint) -> None:
    """Replace the file; after a crash it is whole, old or new.

    Raises:
        OutputError: it cannot be written; the old one stays.

    """
    replace_file(path, encode_parts(checkpoint))


def encode_parts(checkpoint: Checkpoint) -> Iterator[bytes]:
    """Yield the file's text in parts: in one piece, 20,000 members take 40 MiB at every save."""
    tracker = checkpoint.tracker
    head = {"version": checkpoint.version, "release": checkpoint.release, "spool": checkpoint.spool}
    yield _encode(head)[:-1] + b","
    yield b'"tracker":{"consumers":'
    yield from _encode_list(tracker.consumers)
    yield b',"instances":'
    yield from _encode_list(tracker.instances)
    yield b',"groups":'
    yield from _encode_list(tracker.groups)
    yield b',"counts":%b},"sources":{' % _encode(tracker.counts)
    for number, (name, position) in enumerate(checkpoint.sources.items()):
        yield b"%b%b:{" % (b"," if number else b"", _encode(name))
        yield from _encode_fields(position)
        yield b"}"
    yield b'},"held":'
    yield from _encode_list(checkpoint.held)
    yield b',"clocks":%b}' % _encode(checkpoint.clocks)


def _encode_fields(fields: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield the fields of an object in parts: 20,000 log files have 25 MiB of positions."""
    items = list(fields.items())
    for begin in range(0, len(items), _MEMBERS_AT_ONCE):
        text = _encode(dict(items[begin : begin + _MEMBERS_AT_ONCE]))[1:-1]
        yield b"," + text if begin else text


def _encode_list(items: Sequence[object]) -> Iterator[bytes]:
    yield b"["
    for begin in range(0, len(items), _MEMBERS_AT_ONCE):
        text = _encode(items[begin : begin + _MEMBERS_AT_ONCE])[1:-1]
        yield b"," + text if begin else text
    yield b"]"
