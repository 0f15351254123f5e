"""Causes and consequences: statuses of a member that can have begun a rebalance. Pure.

Source: semantics.md sections 4a and 6.
"""

import re
from collections.abc import Iterator

from aggregation.rebalances.segments import Segment, Step
from metrics.model.sample import Scope
from metrics.model.status import RebalanceStatus

_CONSEQUENCES = {
    RebalanceStatus.NONE,
    RebalanceStatus.COORDINATOR_REQUESTED,
    RebalanceStatus.RETRY_ON_ERROR,
}
_FOLLOW_UPS = {
    RebalanceStatus.REVOCATION_NEEDED,
    RebalanceStatus.VERSION_PROBING,
    RebalanceStatus.ENDPOINT_UPDATE,
}
_REFUSED_S = 1.0
"""A member that was frozen looks at its metadata, then sends its heartbeat: within one poll."""
SCHEDULED = r"(?i)follow-?up rebalance scheduled for (\S+)"
"""The text of Kafka Streams when it rejoins by itself; group 1 is the time, in several formats."""
AT_ONCE = r"0|1970-01-01.*"
"""What group 1 is when it does so at once: time 0."""

_scheduled = re.compile(SCHEDULED)
_at_once = re.compile(AT_ONCE)


def cause_of(step: Step) -> RebalanceStatus | None:
    """Return the code that a step can have begun a rebalance with; None for a consequence.

    1 and 9 are consequences; so are 10, 12 and 13 within a running episode, and a 6 that Kafka
    Streams raised itself to follow up: at once (time 0) it belongs to what ran, at a set time it is
    the probing rebalance, 11. A Streams instance repeats what its consumers have; its own are 12
    and 13.
    """
    if step.code is RebalanceStatus.USER_REQUESTED:
        scheduled = _scheduled.search(step.reason or "")
        if scheduled is not None:
            return None if _at_once.fullmatch(scheduled[1]) else RebalanceStatus.ASSIGNMENT_PROBING
    is_consequence = (
        step.code in _CONSEQUENCES
        or (step.code in _FOLLOW_UPS and step.before is not RebalanceStatus.NONE)
        or (step.scope is Scope.STREAMS and step.code < RebalanceStatus.VERSION_PROBING)
    )
    return None if is_consequence else step.code


def list_steps(segment: Segment) -> Iterator[Step]:
    """Yield the steps of a segment that may have caused its rebalance.

    Other topics that a member found right before the coordinator refused it as unknown are no
    cause: it had been removed before.
    """
    refused = [step.at for step in segment.steps if step.code is RebalanceStatus.UNKNOWN_MEMBER]
    for step in segment.steps:
        is_news = step.code is RebalanceStatus.METADATA_CHANGED
        if not (is_news and any(0 <= at - step.at <= _REFUSED_S for at in refused)):
            yield step
