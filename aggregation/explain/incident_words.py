"""Incidents in plain words: the group's present state, and one line an incident. Pure.

Source: incidents.md section 6.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from textwrap import shorten
from typing import Any, TypeVar

from aggregation.incidents.answers import IncidentAnswer, MemberAnswer, WaitAnswer
from aggregation.incidents.member_names import NAMELESS, id_marks, tell_apart
from metrics.model.sample import parse_time
from metrics.model.signals import streams_thread

_OF_EACH_JOIN = re.compile(
    r"\bre-join with the given member-id\b|\bMEMBER_ID_REQUIRED$|^joins with member epoch 0$"
    r"|^transitioned from UNSUBSCRIBED to JOINING$|with unknown member id joins\b"
)
"""Texts of clients and brokers for any new member: a step of the protocol, not a reason."""
_NAMES_MAX = 3
_REASON_CHARS = 100
_SEVERAL = 2
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
    """Return a sentence on the group's ongoing incidents or, without any, on its last one."""
    going = [incident for incident in incidents if incident.ongoing]
    if going:
        last = going[-1]
        text = f"{group}: ongoing since {_clock(last.started_at)}: {summarize(last)}"
        text = "; ".join([text + _so_far(last), *_unread(last)])
        if last.waiting_for:
            text += f"; not joined yet: {waiting(last.waiting_for, last.members)}"
        return text + (f"; {len(going) - 1} more ongoing." if len(going) > 1 else ".")
    if not incidents:
        return f"{group}: nothing happened, as far as was seen."
    last = incidents[-1]
    what = "; ".join([f"{summarize(last)}, {_length(last)}", *_unread(last)])
    return f"{group}: nothing is ongoing; last, {_clock(last.started_at)}: {what}."


def _so_far(incident: IncidentAnswer) -> str:
    """Return the duration so far of an incident with an open rebalance; else an empty text."""
    ends = [
        parse_time(each.started_at) + each.seconds
        for each in incident.rebalances
        if each.ended_at is None
    ]
    return f", {duration(max(ends) - parse_time(incident.started_at))} so far" if ends else ""


def count_by_member(incidents: Sequence[IncidentAnswer]) -> str:
    """Return the number of rebalances that each member began, the highest first.

    The names of all members with a number are shown, so ties are visible.
    """
    counts: Counter[str] = Counter()
    for incident in incidents:
        threads = {each: streams_thread(each.client_id) for each in incident.members}
        instances = {thread.instance for thread in threads.values() if thread is not None}
        others = [each for each, thread in threads.items() if thread is None]
        for name in [*_distinct_names(others), *instances]:
            counts[name] += len(incident.rebalances)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ranked = [(name, count) for name, count in ranked if count]
    shown = ", ".join(f"{name} {count}" for name, count in ranked[:_NAMES_MAX])
    more = len(ranked) - _NAMES_MAX
    return shown + (f" and {more} more member{'' if more == 1 else 's'}" if more > 0 else "")


def costliest(incidents: Sequence[IncidentAnswer]) -> str:
    """Return the costliest incident; an empty text if fewer than two have a cost."""
    priced = [each for each in incidents if _price(each) > (0.0, 0.0)]
    if len(priced) < _SEVERAL:
        return ""
    first = max(priced, key=_price)
    unread = first.cost.unread_partition_seconds
    bound = "at least " if is_at_least(first) else ""
    cost = (
        f"{bound}{partition_seconds(unread)}"
        if unread
        else f"{duration(first.cost.member_seconds)} of its members' time"
    )
    who = f"{_subject(first)} {_words(first)}".strip()
    return f"{who}, {_clock(first.started_at)} ({cost})"


def _price(incident: IncidentAnswer) -> tuple[float, float]:
    return incident.cost.unread_partition_seconds or 0.0, incident.cost.member_seconds


def lines(incidents: Sequence[IncidentAnswer], total: int = 0) -> list[str]:
    """Return one line an incident, the latest first; ``total`` is the number of all."""
    part = f", the last {len(incidents)} of {total}" if total > len(incidents) else ""
    return [f"Incidents (UTC){part}", *(f"  {_line(each)}" for each in reversed(incidents))]


def _line(incident: IncidentAnswer) -> str:
    parts = [f"{_clock(incident.started_at)}  {_length(incident)}  {summarize(incident)}"]
    if incident.certainty == "inferred":
        parts.append("inferred")
    if incident.waiting_for:
        verb = "waits" if incident.ongoing else "waited"
        parts.append(f"{verb} for {waiting(incident.waiting_for, incident.members)}")
    parts += _unread(incident)
    parts += lag_growth(incident)
    parts += clock_steps(incident)
    if (reason := reason_of(incident)) is not None:
        parts.append(f'"{shorten(reason, _REASON_CHARS, placeholder=" …")}"')
    if incident.kind == "unknown" and incident.missing:
        parts.append(f"would show it: {', '.join(incident.missing)}")
    return "; ".join(parts)


def lag_growth(incident: IncidentAnswer) -> list[str]:
    """Return the growth of the group's lag and its end, if inspection has seen it."""
    cost = incident.cost
    if cost.lag_before is None or cost.lag is None:
        return []
    end = f"caught up at {_clock(cost.caught_up_at)}" if cost.caught_up_at else "not caught up yet"
    return [f"lag from {cost.lag_before:,} to {cost.lag:,} records, {end}"]


def reason_of(incident: IncidentAnswer) -> str | None:
    """Return the text of the cause; None if the summary contains it or each join has the same."""
    reason = incident.reason
    if not reason or incident.kind in _WITHOUT_REASON or _OF_EACH_JOIN.search(reason):
        return None
    return None if reason in summarize(incident) else reason


def clock_steps(incident: IncidentAnswer) -> list[str]:
    """Return the members with a clock that stepped, and the correction of their times."""
    rows = incident.detail.get("clock_steps")
    return [_clock_step(row) for row in (rows if isinstance(rows, list) else [])]


def _clock_step(row: Mapping[str, Any]) -> str:
    own, apart, other = f"{row['client_id']} on {row['host']}", row["seconds"], row.get("other")
    if other is not None:
        names = f"{own} and of {other['client_id']} on {other['host']}"
        return (
            f"the clocks of {names} were {duration(abs(apart))} apart from then on, and either can "
            f"be wrong: the times of {row['client_id']} are corrected"
        )
    side = "ahead" if apart > 0 else "behind"
    length = duration(abs(apart))
    return f"the clock of {own} was {length} {side} from then on: its times are corrected"


def summarize(incident: IncidentAnswer) -> str:
    """Return the cause, its members and the number of rebalances that followed."""
    who, words = _subject(incident), _words(incident)
    count = len(incident.rebalances)
    rebalances = f", {count} rebalances" if count > 1 else ""
    return f"{who} {words}{_detail(incident)}{rebalances}".strip()


def _is_mismatch(incident: IncidentAnswer) -> bool:
    """Check for Connect's workers that join repeatedly: logs do not show each join's length."""
    return incident.kind == "task_configuration" and "error" in incident.detail


def _words(incident: IncidentAnswer) -> str:
    if _is_mismatch(incident):
        return f"a worker's configuration is behind, or another one ({incident.detail['error']})"
    if right := incident.detail.get("lost_right"):
        return f"lost the right to the {right}"
    # a newer hub may have a kind that this version does not know
    return _WORDS.get(incident.kind) or incident.kind.replace("_", " ")


def _subject(incident: IncidentAnswer) -> str:
    """Return the names of the members; "a member" for a change of a subscription without a name."""
    is_somebodys = incident.kind == "subscription_changed"
    return names(incident.members) or ("a member" if is_somebodys else "")


def _detail(incident: IncidentAnswer) -> str:
    """Return the text of an incident's detail; empty if its kind has none."""
    read = _DETAILS.get(incident.kind)
    return "" if read is None else read(incident)


def _polls(incident: IncidentAnswer) -> str:
    between, interval = (
        incident.detail.get(key) for key in ("between_polls_ms", "max_poll_interval_ms")
    )
    if not isinstance(interval, int):
        return ""
    if not isinstance(between, int):
        return f" of {duration(interval / 1000)}"
    return f" ({duration(between / 1000)} between two polls, {duration(interval / 1000)} allowed)"


def _words_of_the_caller(incident: IncidentAnswer) -> str:
    return f': "{incident.reason}"' if incident.reason else ""


def _subscription(incident: IncidentAnswer) -> str:
    detail = incident.detail
    parts = [
        f"{word} {', '.join(topics)}"
        for word, key in (("added", "added"), ("removed", "removed"), ("to", "topics"))
        if isinstance(topics := detail.get(key), list) and topics
    ]
    return f" ({'; '.join(parts)})" if parts else ""


def _topics(incident: IncidentAnswer) -> str:
    unseen = incident.detail.get("unseen_topics")
    if isinstance(unseen, list):
        return f" for a moment only: the leader saw no {', '.join(unseen)}, as when a broker starts"
    rows = incident.detail.get("topics")
    changes = (
        [_topic(row) for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    )
    return f": {', '.join(changes)}" if changes else ""


def _topic(row: dict[str, object]) -> str:
    name, before, after = row["topic"], row["before"], row["after"]
    if before is None:
        return f"{name} came with {after}"
    return f"{name} went" if after is None else f"{name} from {before} to {after} partitions"


def _remover(incident: IncidentAnswer) -> str:
    by = incident.detail.get("by")
    return f" ({by['client_id']} on {by['host']})" if isinstance(by, dict) else ""


def _changed_field(incident: IncidentAnswer) -> str:
    detail = incident.detail
    return (
        f" ({detail['field']}: {detail['before']} to {detail['after']})"
        if "field" in detail
        else ""
    )


def _error(incident: IncidentAnswer) -> str:
    error = incident.detail.get("error")
    return f" ({error})" if error else ""


def _processes(incident: IncidentAnswer) -> str:
    """Return the two processes that share an instance id, each with a name of its own."""
    rows = incident.detail.get("processes")
    rows = rows if isinstance(rows, list) else []
    found = [MemberAnswer(**row, group_instance_id=None) for row in rows]
    return (f": {names(found)}" if found else "") + _error(incident)


def _software(incident: IncidentAnswer) -> str:
    joined = incident.detail.get("joined")
    rows = [row for row in joined if isinstance(row, dict)] if isinstance(joined, list) else []
    found = sorted({str(row["software"]) for row in rows if row.get("software")})
    return f" ({', '.join(found)})" if found else ""


def _what_moved(incident: IncidentAnswer) -> str:
    error = incident.detail.get("not_stored")
    return f", and could not store the assignment ({error})" if error else ""


_DETAILS: dict[str, Callable[[IncidentAnswer], str]] = {
    "poll_timeout": _polls,
    "enforced": _words_of_the_caller,
    "subscription_changed": _subscription,
    "metadata_changed": _topics,
    "removed_by_admin": _remover,
    "restart": _changed_field,
    "rollout": _changed_field,
    "join_failed": _error,
    "fenced": _processes,
    "member_joined": _software,
    "coordinator_moved": _what_moved,
}
_WITHOUT_REASON = {
    "enforced",
    "member_joined",
    "subscription_changed",
    "metadata_changed",
    "crash_loop",
}
"""Kinds whose cause has its text in the summary, or the same text in all incidents."""


def _unread(incident: IncidentAnswer) -> list[str]:
    """Return the unread time, with the timeout that it assumes or lacks, if no source shows it."""
    unread = incident.cost.unread_partition_seconds
    if not unread:
        return []
    assumed = incident.detail.get("assumed_session_timeout_ms")
    text = partition_seconds(unread)
    if isinstance(assumed, int | float):
        text += f", if the broker's session timeout is {assumed / 1000:g} s"
    elif lacking := incident.detail.get("unknown_timeout"):
        text = f"at least {text} ({lacking} is not known)"
    return [text]


def is_at_least(incident: IncidentAnswer) -> bool:
    """Check that an incident's unread time is a lower bound: no source shows a timeout."""
    return "unknown_timeout" in incident.detail


def partition_seconds(unread: float) -> str:
    """Return an unread time; below a second to the millisecond, because 0.0 would mean none."""
    text = f"{unread:.1f}" if unread >= 1 else f"{round(unread, 3):g}"
    return f"{text} partition-seconds unread"


def duration(seconds: float) -> str:
    """Return a duration with the unit that suits its length."""
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def names(members: Sequence[MemberAnswer]) -> str:
    """Return the names of members; of many, the first `_NAMES_MAX` and the number of the others."""
    found = _distinct_names(members)
    more = f" and {len(found) - _NAMES_MAX} more" if len(found) > _NAMES_MAX else ""
    return ", ".join(found[:_NAMES_MAX]) + more


def _distinct_names(members: Sequence[MemberAnswer]) -> list[str]:
    """Return the members' names in their order, each once.

    Each member is processed once, because an incident may have as many members as its group, and
    a page has many incidents. Several threads of one Streams instance have the instance's name.
    """
    by_client: dict[str, dict[MemberAnswer, None]] = {}
    for member in members:
        if not _has_own_name(member):
            by_client.setdefault(member.client_id, {})[member] = None
    named = {member: member.name for member in members}
    for alike in by_client.values():
        named |= zip(alike, _name_apart([*alike]), strict=True)
    named |= _name_instances(members)
    return list(dict.fromkeys(named[member] for member in members))


_Of = TypeVar("_Of", MemberAnswer, WaitAnswer)


def _name_instances(threads: Iterable[_Of]) -> dict[_Of, str]:
    """Return the name of its Streams instance for each of several threads."""
    found: dict[tuple[str, str], dict[_Of, int]] = {}
    for each in threads:
        thread = streams_thread(each.client_id)
        if thread is not None:
            found.setdefault((thread.instance, each.host), {})[each] = thread.thread
    hosts = Counter(instance for instance, _ in found)
    named: dict[_Of, str] = {}
    for (instance, host), own in found.items():
        count = len(set(own.values()))
        is_shared = hosts[instance] > 1 or any(map(_has_own_name, own))
        where = f"{host}, " if is_shared else ""
        if count > 1:
            named |= dict.fromkeys(own, f"{instance} ({where}{count} threads)")
    return named


def _has_own_name(member: _Of) -> bool:
    """Check for a name that no other member of its group has among those with its client id."""
    return member.name not in {"", member.client_id}


def _name_apart(alike: Sequence[MemberAnswer]) -> list[str]:
    """Return for each member the shared client id and the shortest text that distinguishes it."""
    if len(alike) == 1:
        return [alike[0].client_id or NAMELESS]
    texts = tell_apart([_marks(member) for member in alike])
    return [_name(member, text) for member, text in zip(alike, texts, strict=True)]


def _name(member: MemberAnswer, text: str) -> str:
    """Return the client id with the text that distinguishes the member, if there is one."""
    own = text or member.group_instance_id or member.host
    name = member.client_id or NAMELESS
    return f"{name} ({own})" if own else name


def _marks(member: MemberAnswer) -> tuple[str, ...]:
    """Return the texts that may distinguish a member from its namesakes, the shortest first."""
    ids = id_marks(member.client_id, member.member_id)
    return member.group_instance_id or "", member.host, *ids


def waiting(waits: Sequence[WaitAnswer], members: Sequence[MemberAnswer] = ()) -> str:
    """Return the members that the group waits for, the longest wait first.

    ``members`` are those of the same incident: they may share a client id.
    """
    ids = {(each.client_id, each.member_id) for each in waits}
    ids |= {(each.client_id, each.member_id) for each in members}
    alike = Counter(client_id for client_id, _ in ids)
    instances = _name_instances(waits)
    seconds: dict[str, float] = {}
    for wait in sorted(waits, key=lambda wait: -wait.seconds):
        seconds.setdefault(instances.get(wait) or _waited(wait, alike), wait.seconds)
    longest = list(seconds.items())[:_NAMES_MAX]
    text = ", ".join(f"{name} ({waited_s:.1f} s)" for name, waited_s in longest)
    text += f" and {len(seconds) - _NAMES_MAX} more" if len(seconds) > _NAMES_MAX else ""
    is_one = len(seconds) > 1 and all(wait.certainty == "inferred" for wait in waits)
    return f"one of {text}" if is_one else text


def _waited(wait: WaitAnswer, alike: Counter[str]) -> str:
    """Return the name, or the member id if several members have the client id."""
    if _has_own_name(wait):
        return wait.name
    is_clear = alike[wait.client_id] == 1
    return wait.client_id if is_clear else wait.member_id or wait.client_id


def _length(incident: IncidentAnswer) -> str:
    if incident.ongoing:
        return "ongoing"
    seconds = sum(each.seconds for each in incident.rebalances)
    is_whole = not incident.rebalances or _is_mismatch(incident)  # joins that failed
    if is_whole and incident.ended_at is not None:
        seconds = parse_time(incident.ended_at) - parse_time(incident.started_at)
    return f"{seconds:.1f} s"


def _clock(ts: str) -> str:
    return ts[:19].replace("T", " ")
