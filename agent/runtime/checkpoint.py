"""The checkpoint of an agent: one JSON file, replaced whole.

Order: samples are fsynced, then the checkpoint is saved. After a crash between the two, part of a
log is read again, and the spool drops the duplicates. The reverse order would lose samples.
"""

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from agent.files import replace_file, write_error
from agent.outputs.spool.spool import SpoolMark
from metrics.model.sample import MALFORMED
from metrics.tracking.tracker import TrackerState

VERSION = 1
_MEMBERS_AT_ONCE = 200
"""Members encoded at once."""
_encode = msgspec.json.Encoder().encode
_log = logging.getLogger(__name__)


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The tracker's state, the spool's mark, and each source's position by its name."""

    version: int = VERSION
    spool: SpoolMark = msgspec.field(default_factory=SpoolMark)
    tracker: TrackerState = msgspec.field(default_factory=TrackerState)
    sources: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)


class _Version(msgspec.Struct):
    version: int


def load(path: Path) -> Checkpoint | None:
    """Return the checkpoint, or None if there is none to resume from.

    A file that cannot be used is kept aside as ``.corrupt`` with a warning: the agent then starts
    afresh, reads what its sources still have, and equal events keep their ids.

    Raises:
        OutputError: the file is there and may not be read or moved.

    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise write_error(path, error) from error
    try:
        version = msgspec.json.decode(data, type=_Version).version
        if version == VERSION:
            return msgspec.json.decode(data, type=Checkpoint)
        fault = f"version is {version}, this agent knows {VERSION}"
    except MALFORMED as error:
        fault = str(error)
    aside = path.with_name(path.name + ".corrupt")
    try:
        path.replace(aside)
    except OSError as error:
        raise write_error(path, error) from error
    _log.warning(
        "checkpoint_unusable: starting afresh",
        extra={"path": str(path), "fault": fault, "kept_as": str(aside)},
    )
    return None


def save(path: Path, checkpoint: Checkpoint) -> None:
    """Replace the file; after a crash it is whole, old or new.

    Raises:
        OutputError: it cannot be written; the old one stays.

    """
    replace_file(path, encode_parts(checkpoint))


def encode_parts(checkpoint: Checkpoint) -> Iterator[bytes]:
    """Yield the file's text in parts: in one piece, 20,000 members take 40 MiB at every save."""
    tracker = checkpoint.tracker
    yield b'{"version":%d,"spool":%b,' % (checkpoint.version, _encode(checkpoint.spool))
    yield b'"tracker":{"consumers":'
    yield from _encode_list(tracker.consumers)
    yield b',"instances":'
    yield from _encode_list(tracker.instances)
    yield b',"groups":'
    yield from _encode_list(tracker.groups)
    yield b',"counts":%b},"sources":{' % _encode(tracker.counts)
    for number, (name, position) in enumerate(checkpoint.sources.items()):
        yield b"%b%b:%b" % (b"," if number else b"", _encode(name), _encode(position))
    yield b"}}"


def _encode_list(items: Sequence[object]) -> Iterator[bytes]:
    yield b"["
    for begin in range(0, len(items), _MEMBERS_AT_ONCE):
        text = _encode(items[begin : begin + _MEMBERS_AT_ONCE])[1:-1]
        yield b"," + text if begin else text
    yield b"]"
