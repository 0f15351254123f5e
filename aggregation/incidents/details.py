"""Details of an incident: values in the text of its cause, and its member's attributes. Pure.

Clients log the topics of their subscription and the number of partitions of each topic. The texts
differ from version to version. A value that no source shows is left out.

Source: incidents.md sections 2 and 5.
"""

import re
from collections.abc import Callable, Iterable
from itertools import pairwise
from statistics import median

import msgspec

from aggregation.incidents.attributes import Attributes
from aggregation.incidents.causes import NOT_STORED, is_failed_assignment
from aggregation.incidents.drafts import Draft
from aggregation.incidents.model import IncidentKind
from aggregation.incidents.settings import BROKER_SESSION_S
from metrics.model.sample import format_time, is_number
from metrics.model.status import RebalanceStatus

Detail = dict[str, object]
MAX_JOINERS = 10
"""Members in the detail of a join; more members that join together are like the first ones."""

_CHANGE = re.compile(
    r"(?s)\bfrom (?P<before>.*?) (?:at the beginning of the rebalance )?to (?P<after>.*)"
)
# ConsumerCoordinator.rejoinNeededOrPending, all versions
_LIST = re.compile(r"\[([^\]]*)\]")
_SUBSCRIBED = re.compile(r"(?i)subscribed to topic\(?s?\)?:\s*(?P<topics>.+)")
_CURRENT = re.compile(r"the current subscription Subscribe\((?P<topics>[^)]*)\)")
# SubscriptionState.prettyString; since 2.4
_PATTERN = re.compile(r"(?i)(?:regular expression|pattern):?\s+'?(?P<pattern>[^\s']+)")
_TOPIC = re.compile(r"([\w.-]+)=(\d+|\[[^=]*?\](?=[,}]))")
"""A topic with the number of its partitions (to 3.4), or the racks of each (from 3.5)."""
_RACK = re.compile(r"NO_RACKS|racks=")


def complete(draft: Draft, attributes: Attributes) -> Detail:
    """Return an incident's detail together with its members' attributes."""
    return _of_kind(draft, attributes) | _assumed(draft, attributes) | _probing(draft)


def _probing(draft: Draft) -> Detail:
    """Return the number of Streams' probing rebalances, and the median time between two."""
    probing = RebalanceStatus.ASSIGNMENT_PROBING
    starts = [r.round.started_at for r in draft.rebalances if r.trigger.code is probing]
    gaps = [after - before for before, after in pairwise(starts)]
    number = {"probing_rebalances": len(starts)} if starts else {}
    return number | ({"probing_interval_ms": _ms(median(gaps))} if gaps else {})


def _assumed(draft: Draft, attributes: Attributes) -> Detail:
    """Return the session timeout that the cost assumes, or the name of the one that it lacks."""
    departures = [each for each in draft.all_departures if not draft.is_paused(each)]
    if any(map(attributes.assumes_session, departures)):
        return {"assumed_session_timeout_ms": _ms(BROKER_SESSION_S)}
    lacking = filter(None, map(attributes.unknown_timeout_of, departures))
    return {"unknown_timeout": name} if (name := next(lacking, None)) else {}


def _of_kind(draft: Draft, attributes: Attributes) -> Detail:
    kind = draft.kind
    if kind is IncidentKind.MEMBER_JOINED:
        return draft.detail | _joiners(draft, attributes)
    if kind is IncidentKind.POLL_TIMEOUT:
        return draft.detail | _polls(draft, attributes)
    if kind is IncidentKind.SESSION_EXPIRED:
        return draft.detail | _silence(draft, attributes)
    if kind is IncidentKind.REMOVED_BY_ADMIN:
        return draft.detail | _remover(draft, attributes)
    if kind in _RESTARTS:
        return draft.detail | _session(draft, attributes) | _changed_label(draft, attributes)
    return draft.detail


def _joiners(draft: Draft, attributes: Attributes) -> Detail:
    """Return host, software and timeouts of the first new members, as far as sources show them."""
    found: list[Detail] = []
    for member in list(draft.members)[:MAX_JOINERS]:
        own: Detail = {
            "software": attributes.software.get(member.key),
            "session_timeout_ms": _ms(attributes.session_of(member.key, draft.started_at)),
            "max_poll_interval_ms": _ms(attributes.max_poll_interval_s.get(member.key)),
        }
        known = {name: value for name, value in own.items() if value is not None}
        if known:
            found.append({"client_id": member.client_id, "host": member.host, **known})
    return {"joined": found} if found else {}


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else round(1000 * seconds)


def _polls(draft: Draft, attributes: Attributes) -> Detail:
    """Return the interval in force, the last poll, and the time to the next one, if that came."""
    departure = next(iter(draft.departures.values()), None)
    if departure is None or departure.member.key not in attributes.max_poll_interval_s:
        return {}
    interval_s = attributes.max_poll_interval_s[departure.member.key]
    since, back = attributes.stop_of(departure), departure.returned_at
    between = {} if back is None else {"between_polls_ms": round(1000 * (back - since))}
    return {
        "max_poll_interval_ms": round(1000 * interval_s),
        **between,
        "since": format_time(since),
    }


def _silence(draft: Draft, attributes: Attributes) -> Detail:
    """Return the session timeout in force, and the end of a silent member as far as it is known.

    The end has the member's last sign of life, and a flag if it came back as a new member.
    """
    departure = next(iter(draft.departures.values()), None)
    if departure is None:
        return {}
    timeout_s = attributes.session_of(departure.member.key, departure.at)
    known: Detail = {} if timeout_s is None else {"session_timeout_ms": _ms(timeout_s)}
    if any(each.returned_as_new for each in draft.all_departures):
        known |= {"returned_as_new": True}
    stop = attributes.stop_of(departure)
    return known | ({"since": format_time(stop)} if stop < departure.at else {})


def _session(draft: Draft, attributes: Attributes) -> Detail:
    """Return the longest session timeout of members that went: a restart is within it or not."""
    seen = (attributes.session_of(each.member.key, each.at) for each in draft.all_departures)
    longest = max((seconds for seconds in seen if seconds is not None), default=None)
    return {} if longest is None else {"session_timeout_ms": _ms(longest)}


def _remover(draft: Draft, attributes: Attributes) -> Detail:
    found = (attributes.removed_by.get(member.key) for member in draft.members)
    by = next((text for text in found if text is not None), None)
    return {} if by is None else {"by": msgspec.json.decode(by)}


def _changed_label(draft: Draft, attributes: Attributes) -> Detail:
    """Return a protocol, assignor or version that changed with a restart or rollout."""
    for name in ("group_type", "assignor", "version", "image"):
        change = attributes.change_of(name, draft.started_at, draft.ended_at)
        if change is not None:
            return {"field": name, "before": change[0], "after": change[1]}
    return {}


_RESTARTS = {IncidentKind.RESTART, IncidentKind.ROLLOUT}


def detail_of(kind: IncidentKind, reason: str | None) -> Detail:
    """Return the detail that the text of a cause contains, for an incident of this kind."""
    read = _READERS.get(kind)
    return {} if read is None or reason is None else read(reason)


def _read_subscription(reason: str) -> Detail:
    change = _CHANGE.search(reason)
    lists = change and (_LIST.search(change["before"]), _LIST.search(change["after"]))
    if lists and lists[0] and lists[1]:
        before, after = _names(lists[0][1]), _names(lists[1][1])
        return {"added": sorted(after - before), "removed": sorted(before - after)}
    topics = _SUBSCRIBED.search(reason)
    if topics is not None:
        return {"topics": sorted(_names(topics["topics"].strip("[] ")))}
    pattern = _PATTERN.search(reason)
    return {} if pattern is None else {"pattern": pattern["pattern"]}


def list_dropped_topics(reason: str | None, owned: Iterable[str]) -> set[str]:
    """Return the topics that a member subscribes to no more, by the words of its change.

    ``owned`` are the topics that it read before: some words name the new topics alone.
    """
    before, current = set(owned), _CURRENT.search(reason or "")
    if current is not None:
        named = _names(current["topics"])
        return before - named if before & named else set()  # else it may be a pattern
    found = _read_subscription(reason or "")
    removed, topics = found.get("removed"), found.get("topics")
    if isinstance(topics, list) and topics and "…" not in (reason or ""):
        return before - set(topics)
    return set(removed) if isinstance(removed, list) else set()


def _names(text: str) -> set[str]:
    return {name.strip() for name in text.split(",")} - {""}


def _read_metadata(reason: str) -> Detail:
    change = _CHANGE.search(reason)
    if change is None or "…" in reason:
        return {}
    before, after = _partitions(change["before"]), _partitions(change["after"])
    return {
        "topics": [
            {"topic": topic, "before": before.get(topic), "after": after.get(topic)}
            for topic in sorted(before.keys() | after.keys())
            if before.get(topic) != after.get(topic)
        ]
    }


def is_resized(reason: str | None) -> bool:
    """Check that the words of a leader name a topic with two numbers of partitions."""
    change = _CHANGE.search(reason or "")
    if change is None:
        return False
    before, after = _partitions(change["before"]), _partitions(change["after"])
    return any(before[topic] != after[topic] for topic in before.keys() & after.keys())


def list_lost_topics(reason: str | None) -> list[str] | None:
    """Return the topics that a leader knows no more, if its words name no other change.

    None: its words name no topic at all.
    """
    rows = _read_metadata(reason or "").get("topics")
    if not isinstance(rows, list) or not rows:
        return None
    return [row["topic"] for row in rows] if all(not row["after"] for row in rows) else []


def list_new_topics(reason: str | None) -> list[str]:
    """Return the topics that a leader has not known before, by its words."""
    change = _CHANGE.search(reason or "")
    if change is None:
        return []
    before, after = _partitions(change["before"]), _partitions(change["after"])
    if not after:  # the wire shows the leader's own topics, and no number
        added = _read_subscription(reason or "").get("added")
        return added if isinstance(added, list) else []
    return sorted(after.keys() - before.keys())


def _partitions(text: str) -> dict[str, int]:
    """Return the partitions of each topic that the leader knows; of others it prints none."""
    found = {
        topic: int(value) if is_number(value) else len(_RACK.findall(value))
        for topic, value in _TOPIC.findall(text)
    }
    return {topic: number for topic, number in found.items() if number}


def _read_store_error(reason: str) -> Detail:
    error = NOT_STORED.search(reason)
    return {} if error is None else {"not_stored": error["error"] or "no error named"}


def _read_failed_assignment(reason: str) -> Detail:
    return {"error": "CONFIG_MISMATCH"} if is_failed_assignment(reason) else {}


_READERS: dict[IncidentKind, Callable[[str], Detail]] = {
    IncidentKind.SUBSCRIPTION_CHANGED: _read_subscription,
    IncidentKind.METADATA_CHANGED: _read_metadata,
    IncidentKind.COORDINATOR_MOVED: _read_store_error,
    IncidentKind.TASK_CONFIGURATION: _read_failed_assignment,
}
