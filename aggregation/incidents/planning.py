"""Planned and unplanned incidents: whether somebody wanted what happened. Pure.

Theory of operation. Starts, stops, deploys, changed subscriptions, topics, tasks and Streams' own
follow-ups are planned: they have a price, but nothing is broken. A restart is planned where the
member left by itself; a process that was killed and came back is a crash. A rollout is planned
however its members went, since static members and Streams threads go silently.
"""

from aggregation.incidents.model import DepartureMode, Incident, IncidentKind

PLANNED_KINDS = {
    IncidentKind.MEMBER_JOINED,
    IncidentKind.MEMBER_LEFT,
    IncidentKind.ROLLOUT,
    IncidentKind.ENFORCED,
    IncidentKind.SUBSCRIPTION_CHANGED,
    IncidentKind.METADATA_CHANGED,
    IncidentKind.TASK_CONFIGURATION,
    IncidentKind.PROBING,
    IncidentKind.VERSION_PROBING,
    IncidentKind.ENDPOINT_UPDATE,
}
"""Kinds that are always planned; a restart may be."""


def is_planned(incident: Incident) -> bool:
    """Check that somebody wanted what happened."""
    if incident.kind is IncidentKind.RESTART:
        return all(
            departure.how is DepartureMode.LEFT
            or departure.closed_at is not None
            or departure.member.group_instance_id is not None
            for departure in incident.departures
        )
    return incident.kind in PLANNED_KINDS
