"""File descriptors of the process: a raised limit, and a reserve for the essential parts.

The kernel gives the lowest free number, so a new descriptor's number shows how many are in use.
Parts that open many files (log files, proxied connections) close a descriptor with a number in the
reserve again. The reserve is for pages, the spool and the checkpoint: these must always work.
"""

import errno
import resource

RESERVE_MAX = 192
"""The server's 128 connections, the spool, the checkpoint, epoll, and files opened at once."""
_RESERVE_SHARE = 4
_LIMIT_MAX = 1 << 20
"""The limit if the hard limit is infinite; more than the log files of a node."""
EXHAUSTED = {errno.EMFILE, errno.ENFILE}


def raise_limit() -> int:
    """Raise the soft limit of open descriptors to the hard one; return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _LIMIT_MAX if hard == resource.RLIM_INFINITY else min(hard, _LIMIT_MAX)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):  # a sandbox forbids it
            return soft
        return wanted
    return soft


def is_reserved(descriptor: int) -> bool:
    """Return whether a descriptor lies in the reserve."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return False
    return descriptor >= soft - min(RESERVE_MAX, soft // _RESERVE_SHARE)
