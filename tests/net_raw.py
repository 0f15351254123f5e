"""Marks tests that capture packets: skipped where that is not allowed, but never in CI."""

import os

import pytest

from agent.errors import SourceError
from agent.sources.capture_config import ANY
from agent.sources.packet_socket import PacketSocket
from tests.system.bad_link import BadLink


def _may_capture() -> bool:
    try:
        PacketSocket(ANY).close()
    except SourceError:
        return False
    return True


def _may_make_networks() -> bool:
    try:
        BadLink(0).close()
    except OSError:
        return False
    return True


HAS_NET_RAW = os.environ.get("CI") == "true" or _may_capture()
needs_net_raw = pytest.mark.skipif(not HAS_NET_RAW, reason="CAP_NET_RAW is missing")
needs_net_admin = pytest.mark.skipif(
    os.environ.get("CI") != "true" and not _may_make_networks(),
    reason="CAP_NET_ADMIN or CAP_SYS_ADMIN is missing",
)
