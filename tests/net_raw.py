"""Marks tests that capture packets: skipped where that is not allowed, but never in CI."""

import os

import pytest

from agent.errors import SourceError
from agent.sources.capture.config import ANY
from agent.sources.capture.packet_socket import PacketSocket


def _may_capture() -> bool:
    try:
        PacketSocket(ANY).close()
    except SourceError:
        return False
    return True


needs_net_raw = pytest.mark.skipif(
    os.environ.get("CI") != "true" and not _may_capture(), reason="CAP_NET_RAW is missing"
)
