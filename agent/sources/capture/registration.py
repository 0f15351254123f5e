"""Registry row of the source type ``capture``."""

from collections.abc import Hashable, Sequence

from agent.extras import require_extra
from agent.sources.base import Source
from agent.sources.capture.config import ANY, CaptureConfig
from agent.sources.capture.magic_numbers import is_capture
from agent.sources.coverage import WIRE
from agent.sources.source_type import (
    EVERYTHING,
    Capability,
    Replay,
    ReplayOptions,
    ReplayStream,
    SourceContext,
    SourceType,
)
from metrics.model.signals import SourceKind


def _create(config: CaptureConfig, context: SourceContext) -> Source:
    with require_extra("wire", "source capture"):
        from agent.sources.capture.source import CaptureSource  # noqa: PLC0415 - an extra
    return CaptureSource(config, cluster=context.cluster.name)


def _reads(config: CaptureConfig) -> Hashable:
    """Ports are no difference: a capture follows the brokers to all of theirs."""
    return EVERYTHING if config.interface == ANY else config.interface


def _replay(paths: Sequence[str], options: ReplayOptions) -> list[ReplayStream]:
    with require_extra("wire", "replay of captures"):
        from agent.sources.capture.replay import read  # noqa: PLC0415 - an extra
    return read(paths, options)


CAPTURE = SourceType(
    name="capture",
    config=CaptureConfig,
    create=_create,
    reads=_reads,
    overlap="captures the same packets (one source takes several ports)",
    reports=(SourceKind.WIRE,),
    capabilities=lambda _: frozenset({Capability.NET_RAW}),
    coverage=WIRE,
    replay=Replay(kind="pcap", read=_replay, is_recording=is_capture),
)
