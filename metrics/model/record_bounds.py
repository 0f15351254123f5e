"""Bounds of a record's texts: an agent may be hostile, or of a version without them."""

import msgspec

from metrics.model.names import NAME_MAX_CHARS, clip_name
from metrics.model.partitions import clip_partitions
from metrics.model.sample import REASON_MAX_CHARS, Sample, clip_reason

_NAMES = (
    "id",
    "agent",
    "cluster",
    "app",
    "group",
    "group_type",
    "protocol_type",
    "client_id",
    "member_id",
    "group_instance_id",
    "host",
    "log_file",
    "status",
    "episode",
    "source",
    "subject",
    "field",
)
_CHANGES = ("before", "after")
"""Values of a change; those of partitions are long."""


def clip_record(record: Sample) -> tuple[Sample, int]:
    """Return a record with its texts clipped, and the number of clipped ones."""
    long = {
        name: clip_name(text)
        for name in _NAMES
        if (text := getattr(record, name)) is not None and len(text) > NAME_MAX_CHARS
    }
    if record.reason is not None and len(record.reason) > REASON_MAX_CHARS:
        long["reason"] = clip_reason(record.reason) or ""
    for name in _CHANGES:
        text = getattr(record, name)
        if text is not None and (short := clip_partitions(text)) is not text:
            long[name] = short
    if not long:
        return record, 0
    return msgspec.structs.replace(record, **long), len(long)
