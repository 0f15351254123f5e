"""The two rules and the peak, as pure functions.

Theory of operation. A status only rises or falls to NONE (KAFKA-12472). Raising is therefore a join
of a semilattice (``max``): idempotent, commutative, associative. The peak over a window is the
highest status at any instant of it. Its memory is a list of (status, end of that status), strictly
falling in status and rising in time: at most 13 entries however often the status flaps. Reading the
peak changes nothing: two scrapers read the same.
"""

from typing import NamedTuple

from metrics.model.status import RebalanceStatus

NONE = RebalanceStatus.NONE


def transition(current: RebalanceStatus, wanted: RebalanceStatus) -> RebalanceStatus:
    """Return the status after a signal for ``wanted``.

    # KAFKA-12472: a non-zero status moves only to zero or to a higher one
    """
    return NONE if wanted is NONE else max(current, wanted)


def instance_target(
    follow_ups: list[RebalanceStatus], consumers: list[RebalanceStatus]
) -> RebalanceStatus:
    """Return the status of a Streams instance: its follow-up overrides, else the consumers' max.

    The result still goes through the only-upward rule of the instance.
    """
    return max([NONE, *follow_ups]) or max([NONE, *consumers])


class HeldStatus(NamedTuple):
    """A past status and its end, ``left_at`` (Unix seconds)."""

    status: RebalanceStatus
    left_at: float


PeakWindow = tuple[HeldStatus, ...]
"""Peak memory: falling in status, rising in time, 13 entries at most."""


def add_to_window(window: PeakWindow, status: RebalanceStatus, left_at: float) -> PeakWindow:
    """Add a status that has just ended; drop lower ones. Times never run back."""
    if status is NONE:
        return window
    return (*(past for past in window if past.status > status), HeldStatus(status, left_at))


def peak(
    current: RebalanceStatus, window: PeakWindow, now: float, window_s: float
) -> RebalanceStatus:
    """Return the highest status at any instant of [now - window_s, now]."""
    recent = (past.status for past in window if past.left_at >= now - window_s)
    return max([current, *recent])


def stale_at(
    status: RebalanceStatus,
    confirmed_at: float,
    due_at: float | None,
    stale_after_s: float,
) -> float | None:
    """Return the time when a status is lost, None for never.

    0 stays while its source is attached, and so does 5: the member is out of the group until it is
    back (`Track.stale_at` has the case of a muted log). 11 is valid until its scheduled time plus
    ``stale_after_s``.
    """
    match status:
        case RebalanceStatus.NONE | RebalanceStatus.DROPPED_GROUP:
            return None
        case RebalanceStatus.ASSIGNMENT_PROBING if due_at is not None:
            return max(confirmed_at, due_at) + stale_after_s
        case _:
            return confirmed_at + stale_after_s
