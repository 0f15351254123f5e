"""Premises of recommendations: what a text assumes about its incident. Pure.

Advice is left out where its premise does not hold: a single leave has no steps to save, and a
member that is static already needs no instance id.
"""

from collections.abc import Callable, Mapping

from aggregation.incidents.model import Incident

FEWEST_PACED = 3
"""A smaller rollout has no larger steps."""
STEPS_OF_TWO = 2
"""Rebalances of a rollout in its largest steps, of which there are two."""


def _stops_others(incident: Incident) -> bool:
    return incident.may_stop_others and incident.cost.unread_partition_seconds != 0.0


def _has_several_members(incident: Incident) -> bool:
    return len(incident.members) > 1


def _has_several_rebalances(incident: Incident) -> bool:
    return len(incident.rebalances) > 1


def _was_empty(incident: Incident) -> bool:
    """Check that no source shows other members: brokers delay the start of an empty group alone."""
    return incident.group_size is None or incident.group_size <= len(incident.members)


def _is_dynamic(incident: Incident) -> bool:
    return not any(member.group_instance_id for member in incident.members)


def _has_poll_size(incident: Incident) -> bool:
    """Check for clients with a number of records a poll: librdkafka returns them one by one.

    Source: librdkafka's CONFIGURATION.md, which lacks max.poll.records.
    """
    return incident.joins_without_poll is not True


def _has_small_steps(incident: Incident) -> bool:
    """Check for a rollout in more than two steps: some members were back before others went."""
    returns = [each.returned_at for each in incident.departures if each.returned_at is not None]
    went = [each.at for each in incident.departures]
    has_stopped = bool(returns) and len(went) >= len(incident.members) and max(went) < min(returns)
    is_large = len(incident.members) >= FEWEST_PACED and len(incident.rebalances) > STEPS_OF_TWO
    return is_large and not has_stopped


def _lacks_topics(incident: Incident) -> bool:
    """Check that no source shows which topics changed."""
    return not any(incident.detail.get(name) for name in ("topics", "unseen_topics"))


PREMISES: Mapping[str, Callable[[Incident], bool]] = {
    "has_poll_size": _has_poll_size,
    "has_small_steps": _has_small_steps,
    "is_dynamic": _is_dynamic,
    "lacks_topics": _lacks_topics,
    "several_members": _has_several_members,
    "several_rebalances": _has_several_rebalances,
    "stops_others": _stops_others,
    "was_empty": _was_empty,
}
"""Checks by the names that the texts' data has."""
