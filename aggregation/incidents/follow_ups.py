"""Causes that belong to the last incident of a group and begin none of their own. Pure.

Source: incidents.md 1a.2.
"""

import re

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
from metrics.model.sample import REBALANCE_DELAY

TASKS_S = 5.0
"""A connector starts, and its tasks are configured, within this after its assignment."""
_DELAY = re.compile(rf"{REBALANCE_DELAY} (\d{{1,10}})")
FOLLOW_S = 60.0
"""A leader notices a changed subscription's topics within this (it requests metadata at once)."""


def is_follow_up(last: Draft, cause: Cause, until: float, attributes: Attributes) -> bool:
    """Check that a cause belongs to the last incident; its rebalance ends at ``until``."""
    if cause.kind is IncidentKind.METADATA_CHANGED:
        return _is_noticed(last, cause, until, attributes)
    if cause.kind is IncidentKind.TASK_CONFIGURATION:
        return _fails_again(last, cause) or _configures_tasks(last, cause)
    return cause.kind.is_follow_up and _is_announced(last, cause)


def is_in_loop(last: Draft, rebalance: ExplainedRebalance) -> bool:
    """Check for a round of Connect's workers right after one with an error as its assignment."""
    is_loop = is_failed_assignment(last.reason)
    return is_loop and rebalance.round.started_at <= last.ended_at + REJOIN_S


def is_delayed(last: Draft, rebalance: ExplainedRebalance) -> bool:
    """Check for the rebalance that the last one of Connect's workers has announced.

    Tasks of a worker that left wait for its return for `scheduled.rebalance.max.delay.ms`. Then all
    workers join again by themselves (KIP-415).
    """
    pieces = last.rebalances[-1].round.segments if last.rebalances else ()
    due = [
        piece.ended_at + int(found[1]) / 1000
        for piece in pieces
        if (found := _DELAY.search(piece.shown or "")) is not None
    ]
    return any(abs(rebalance.round.started_at - at) <= REJOIN_S for at in due)


def is_rejoin_of_changed(
    last: Draft, rebalance: ExplainedRebalance, attributes: Attributes
) -> bool:
    """Check that a leader joins again for the topics of its own changed subscription.

    Java's clients below 2.4 print no reason, and no request has one below 3.2. A topic that has
    grown is another reason.
    """
    trigger, round_ = rebalance.trigger, rebalance.round
    is_own = trigger.member in last.members and trigger.code is None
    is_soon = round_.started_at <= last.ended_at + FOLLOW_S
    if not (last.kind is IncidentKind.SUBSCRIPTION_CHANGED and is_own and is_soon):
        return False
    return not _has_grown(attributes, round_.started_at, round_.ended_at)


def _fails_again(last: Draft, cause: Cause) -> bool:
    """Check for one more assignment with an error, of Connect's workers that join again."""
    if not is_failed_assignment(cause.reason) or last.kind is not cause.kind:
        return False
    pause_s = RESTART_S if is_failed_assignment(last.reason) else FOLLOW_S
    return cause.at <= last.ended_at + pause_s


def _configures_tasks(last: Draft, cause: Cause) -> bool:
    """Check for the tasks of a connector that was configured right before.

    Once a connector has started, its worker writes the configurations of its tasks, and all workers
    join again (`DistributedHerder.reconfigureConnectorTasksWithRetry`).
    """
    is_soon = last.is_ongoing or cause.at <= last.ended_at + TASKS_S
    return last.kind is cause.kind and is_soon


def _is_announced(last: Draft, cause: Cause) -> bool:
    """Check that an incident's assignment required a follow-up: at once, or at a set time."""
    is_scheduled = cause.kind is IncidentKind.PROBING
    return is_scheduled or cause.at <= last.ended_at + EPOCH_NOTICE_S


def _is_noticed(last: Draft, cause: Cause, until: float, attributes: Attributes) -> bool:
    """Check that a leader notices the topics of a changed subscription, or of a new member.

    If the leader has known a topic with another number of partitions, the topic itself has
    changed, and the cause is independent. The leader's text shows that, or the partitions that the
    members read before the cause and at ``until`` (Unix seconds).
    """
    changed = last.kind is IncidentKind.SUBSCRIPTION_CHANGED or last.kind in RESTARTS
    if not changed or cause.at > last.ended_at + FOLLOW_S or is_resized(cause.reason):
        return False
    return not _has_grown(attributes, cause.at, until)


def _has_grown(attributes: Attributes, since: float, until: float) -> bool:
    """Check that a topic that was read before has more partitions after a rebalance."""
    return any(topic.before is not None for topic in find_growth(attributes, since, until))
