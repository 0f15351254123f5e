"""Causes and consequences: statuses of a member that can have begun a rebalance. Pure.

Source: semantics.md sections 4a and 6.
"""

import re

from aggregation.rebalances.segments import Step
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
SCHEDULED = r"(?i)follow-?up rebalance scheduled for (\S+)"
"""What Kafka Streams says when it rejoins by itself; group 1 is when, in several formats."""
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
