"""Incidents in plain words: what goes on now, and one line an incident. Pure.

Source: incidents.md section 6.
"""

from collections.abc import Sequence

from aggregation.incidents.answers import IncidentAnswer, MemberAnswer, WaitAnswer

_NAMES_MAX = 3
_WORDS = {
    "member_joined": "joined",
    "member_left": "left",
    "restart": "restarted",
    "rollout": "rolled out",
    "crash_loop": "crash loop",
    "poll_timeout": "exceeded its poll interval",
    "session_expired": "session expired",
    "stale_member": "acted on an old generation",
    "enforced": "enforced a rebalance",
    "subscription_changed": "changed its subscription",
    "metadata_changed": "topics or partitions changed",
    "removed_by_admin": "removed by an admin",
    "fenced": "fenced: two processes use one instance id",
    "join_failed": "cannot join",
    "coordinator_moved": "the coordinator moved",
    "task_configuration": "connectors or tasks changed",
    "probing": "Streams probed its assignment",
    "version_probing": "Streams agreed on a version",
    "endpoint_update": "Streams updated an endpoint",
    "unknown": "cause not seen",
}


def headline(group: str, incidents: Sequence[IncidentAnswer]) -> str:
    """Return what goes on in a group: ongoing first, else its last incident."""
    going = [incident for incident in incidents if incident.ongoing]
    if going:
        last = going[-1]
        missing = f"; not joined yet: {waiting(last.waiting_for)}" if last.waiting_for else ""
        return f"{group}: ongoing since {_clock(last.started_at)}: {summarize(last)}{missing}."
    if not incidents:
        return f"{group}: nothing happened, as far as was seen."
    last = incidents[-1]
    return f"{group}: nothing is ongoing; last, {_clock(last.started_at)}: {summarize(last)}."


def lines(incidents: Sequence[IncidentAnswer]) -> list[str]:
    """Return one line an incident, the latest first."""
    return ["Incidents (UTC)", *(f"  {_line(each)}" for each in reversed(incidents))]


def _line(incident: IncidentAnswer) -> str:
    parts = [f"{_clock(incident.started_at)}  {_length(incident)}  {summarize(incident)}"]
    if incident.certainty == "inferred":
        parts.append("inferred")
    if incident.waiting_for:
        parts.append(f"waited for {waiting(incident.waiting_for)}")
    unread = incident.cost.unread_partition_seconds
    if unread:
        parts.append(f"{unread:.1f} partition-seconds unread")
    if incident.reason:
        parts.append(f'"{incident.reason}"')
    if incident.kind == "unknown" and incident.missing:
        parts.append(f"would show it: {', '.join(incident.missing)}")
    return "; ".join(parts)


def summarize(incident: IncidentAnswer) -> str:
    """Return who did what, and how many rebalances followed."""
    who, words = names(incident.members), _WORDS[incident.kind]
    count = len(incident.rebalances)
    rebalances = f", {count} rebalances" if count > 1 else ""
    return f"{who} {words}{rebalances}".strip()


def names(members: Sequence[MemberAnswer]) -> str:
    """Return members by name; of many, the first."""
    found = list(dict.fromkeys(_name(members, member) for member in members))
    more = f" and {len(found) - _NAMES_MAX} more" if len(found) > _NAMES_MAX else ""
    return ", ".join(found[:_NAMES_MAX]) + more


def _name(members: Sequence[MemberAnswer], member: MemberAnswer) -> str:
    """Return the client id, with the shortest text that tells equal ones apart."""
    alike = [each for each in members if each.client_id == member.client_id]
    own = member.group_instance_id or member.host
    return f"{member.client_id} ({own})" if len(alike) > 1 and own else member.client_id


def waiting(waits: Sequence[WaitAnswer]) -> str:
    """Return who is waited for, the longest first."""
    longest = sorted(waits, key=lambda wait: -wait.seconds)[:_NAMES_MAX]
    return ", ".join(f"{wait.client_id} ({wait.seconds:.1f} s)" for wait in longest)


def _length(incident: IncidentAnswer) -> str:
    if incident.ongoing:
        return "ongoing"
    return f"{sum(each.seconds for each in incident.rebalances):.1f} s"


def _clock(ts: str) -> str:
    return ts[:19].replace("T", " ")
