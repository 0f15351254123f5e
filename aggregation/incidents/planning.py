"""Planned and unplanned incidents. Pure.

Theory of operation. A planned incident follows from somebody's action: it has a cost, but nothing
is broken. Starts, stops, deploys, changed subscriptions, topics and tasks, and Streams' own
follow-ups are planned. A restart is planned if the member left by itself; a killed process that
came back is a crash. A rollout is always planned, even if its members expired, because static
members and Streams threads send no LeaveGroup when they close.
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
    """Check that an incident is planned, by its kind and, for a restart, by its departures."""
    if incident.kind is IncidentKind.RESTART:
        return all(
            departure.how is DepartureMode.LEFT
            or departure.closed_at is not None
            or departure.member.group_instance_id is not None
            for departure in incident.departures
        )
    return incident.kind in PLANNED_KINDS
