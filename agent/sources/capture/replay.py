"""Replay of recorded captures; all of them are one stream."""

from collections import Counter
from collections.abc import Sequence

from agent.errors import SourceError
from agent.sources.capture.capture_faults import CaptureFaults
from agent.sources.capture.pcap_file import signals
from agent.sources.source_type import ReplayOptions, ReplayStream


def read(paths: Sequence[str], options: ReplayOptions) -> list[ReplayStream]:
    """Return the signals of the captures, if there are any."""
    return [_read_captures(paths, options)] if paths else []


def _read_captures(paths: Sequence[str], options: ReplayOptions) -> ReplayStream:
    """Yield the signals; note the parts of the captures that were not read."""
    counts, failed, faults = Counter[str](), list[SourceError](), CaptureFaults()
    requests = yield from signals(paths, options.cluster, counts, failed.append, faults)
    for error in failed:
        options.on_unreadable(error)
    if not requests and len(failed) < len(paths):
        options.on_note("found no request of a Kafka client in the captures")
    for fault in faults.describe(requests, counts["gap"]):
        options.on_note(fault)
    if unread := [f"{what} {count}" for what, count in sorted(counts.items()) if count]:
        options.on_note(f"not read: {', '.join(unread)}")
