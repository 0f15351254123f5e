"""Causes that go on with the last incident of a group, and begin none of their own. Pure.

Source: incidents.md 1a.2.
"""

from aggregation.incidents.attributes import Attributes
from aggregation.incidents.causes import Cause, is_failed_assignment
from aggregation.incidents.details import is_resized
from aggregation.incidents.drafts import Draft
from aggregation.incidents.model import IncidentKind
from aggregation.incidents.presence import REJOIN_S
from aggregation.incidents.restarts import RESTART_S, RESTARTS
from aggregation.incidents.topic_growth import find_growth
from aggregation.rebalances.grouping import EPOCH_NOTICE_S
from aggregation.rebalances.rebalances import ExplainedRebalance

FOLLOW_S = 60.0
"""A leader notices a changed subscription's topics within this (metadata is asked for at once)."""


def is_follow_up(last: Draft, cause: Cause, until: float, attributes: Attributes) -> bool:
    """Check that a cause goes on with the last incident; its rebalance ends at ``until``."""
    if cause.kind is IncidentKind.METADATA_CHANGED:
        return _is_noticed(last, cause, until, attributes)
    if cause.kind is IncidentKind.TASK_CONFIGURATION:
        return _fails_again(last, cause)
    return cause.kind.is_follow_up and _is_announced(last, cause)


def is_in_loop(last: Draft, rebalance: ExplainedRebalance) -> bool:
    """Check for a round of Connect's workers right after one whose assignment had an error."""
    is_loop = is_failed_assignment(last.reason)
    return is_loop and rebalance.round.started_at <= last.ended_at + REJOIN_S


def _fails_again(last: Draft, cause: Cause) -> bool:
    """Check for one more assignment with an error, of Connect's workers that join again."""
    if not is_failed_assignment(cause.reason) or last.kind is not cause.kind:
        return False
    pause_s = RESTART_S if is_failed_assignment(last.reason) else FOLLOW_S
    return cause.at <= last.ended_at + pause_s


def _is_announced(last: Draft, cause: Cause) -> bool:
    """Check that an incident's assignment demanded a follow-up: at once, or at a set time."""
    is_scheduled = cause.kind is IncidentKind.PROBING
    return is_scheduled or cause.at <= last.ended_at + EPOCH_NOTICE_S


def _is_noticed(last: Draft, cause: Cause, until: float, attributes: Attributes) -> bool:
    """Check that a leader notices the topics of a changed subscription, or of a new member.

    A topic that it has known with another number of partitions has changed by itself: its
    words show that, or what the members read before and ``until`` then.
    """
    changed = last.kind is IncidentKind.SUBSCRIPTION_CHANGED or last.kind in RESTARTS
    if not changed or cause.at > last.ended_at + FOLLOW_S or is_resized(cause.reason):
        return False
    grown = find_growth(attributes, cause.at, until)
    return all(topic.before is None for topic in grown)
