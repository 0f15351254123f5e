"""Linux capabilities: those that the process keeps once its port is open.

Capabilities that the configuration does not need are dropped for good: from all sets of the
process, and from those that a child program could gain. Later threads inherit the rest.
"""

import ctypes
import logging
import os
import sys
from pathlib import Path

from agent.sources.registry import REGISTRY
from agent.sources.source_type import Capability
from agent.wiring.agent_config import AgentConfig

log = logging.getLogger(__name__)

_LAST = 63
# linux/prctl.h, linux/capability.h
_PR_CAPBSET_READ, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 23, 24, 38, 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_VERSION_3 = 0x20080522


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    _fields_ = (
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    )


def capabilities_for(config: AgentConfig) -> frozenset[Capability]:
    """Return the capabilities that a configuration can use after its port is open."""
    found: set[Capability] = set()
    written = [config.state_dir, config.samples.spool.dir]
    for source in config.sources:
        found |= REGISTRY.capabilities(source)
        mounts = REGISTRY.mounts(source)
        written += [Path(mount.glob).parent for mount in mounts if not mount.is_read_only]
    if not all(map(_is_own, written)):
        found.add(Capability.DAC_OVERRIDE)
    return frozenset(found)


def drop_unneeded(config: AgentConfig) -> None:
    """Drop and log unneeded capabilities. Call it in the main thread, before others start."""
    if sys.platform != "linux" or not (held := _read_permitted()):
        return
    kept = held & set(capabilities_for(config))
    _drop_all_but(kept)
    shown = [Capability(each).name for each in sorted(kept)]
    keys = {"kept": ",".join(shown) or "none", "dropped": len(held - kept)}
    log.info("capabilities", extra=keys)


def _read_permitted() -> set[int]:
    """Return the numbers of the permitted capabilities."""
    status = Path("/proc/thread-self/status").read_text(encoding="ascii", errors="replace")
    (line,) = (each for each in status.splitlines() if each.startswith("CapPrm:"))
    bits = int(line.split()[1], 16)
    return {number for number in range(_LAST + 1) if bits >> number & 1}


def _drop_all_but(kept: set[int]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    for number in range(_LAST + 1):
        if number not in kept and libc.prctl(_PR_CAPBSET_READ, number, 0, 0, 0) == 1:
            libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)  # fails without CAP_SETPCAP
    libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    bits = sum(1 << number for number in kept)
    halves = (bits & 0xFFFFFFFF, bits >> 32)
    sets = (_Sets * 2)(*(_Sets(half, half, 0) for half in halves))
    if libc.capset(ctypes.byref(_Header(_VERSION_3, 0)), sets):
        error = os.strerror(ctypes.get_errno())
        log.warning("capabilities_not_dropped", extra={"error": error})


def _is_own(folder: Path) -> bool:
    """Whether a folder, or its nearest existing parent, belongs to this user."""
    nearest = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    return nearest.stat().st_uid == os.geteuid()
