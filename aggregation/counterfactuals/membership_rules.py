"""Rules of who is in a group, and of Streams: instance ids, programs, leaves, probing. Pure."""

import re
from collections import defaultdict
from collections.abc import Iterable
from statistics import median

from aggregation.counterfactuals.change import (
    Change,
    Confidence,
    PastIncidents,
    rate_confidence,
)
from aggregation.counterfactuals.facts import IncidentFacts
from aggregation.counterfactuals.lines import (
    GROUP_ID,
    LEAVE_ON_CLOSE,
    PROBING_INTERVAL,
    STATIC_ID,
    group_lines,
    instance_lines,
    leave_lines,
    probing_lines,
)
from aggregation.counterfactuals.savings import Saving
from aggregation.counterfactuals.sentences import how_often
from aggregation.counterfactuals.shape_rules import CLIENT_HEARTBEAT_S
from aggregation.incidents.model import DepartureMode, IncidentKind

STREAM_THREAD = "-StreamThread-"
"""Part of the client ids that Streams gives its consumers."""
FEWEST_PROBES = 3
"""Fewer show no interval."""
SHORTEST_PROBING_S = 60.0
"""Kafka Streams allows no shorter interval."""
LONGEST_PROBING_S = 3600.0
"""Probes farther apart are of different assignments."""
FEWEST_LETTERS = 3
_FIRST_WORD = re.compile(r"[A-Za-z]+")


def propose_unique_instance_ids(history: PastIncidents) -> Change | None:
    """Propose an instance id for each process where two used one: they fence each other.

    With an id each, none of these incidents happens. Most of them cost no time: the other process
    gets the partitions at once. But one of the two never works for long.
    """
    found = [each for each in history.uncounted if each.kind is IncidentKind.FENCED]
    savings = tuple(
        Saving(incident=each, rebalances=each.rebalances, unread_s=each.unread_s) for each in found
    )
    if not savings:
        return None
    return Change(
        setting=STATIC_ID,
        now="one id of several processes",
        proposed="one id for each process",
        because=f"{how_often(len(found))} two processes used one id",
        price="none",
        confidence=Confidence.HIGH,
        savings=savings,
        lines=instance_lines(),
        mends_fault=True,
    )


def propose_separate_groups(history: PastIncidents) -> Change | None:
    """Propose a group for each program where client ids show several programs in one.

    Programs are distinguished by the first word of their client ids. The rebalances of one program
    stay; those of the others read on. What moves, or waits for a member that is away, is its own.
    The others' share of the rest is taken as their share of the members, so the confidence is low.
    Members that are seen in no incident are not counted.
    """
    programs: dict[str, set[str]] = defaultdict(set)
    for name in _names(history.all):
        programs[_program(name)].add(name)
    if len(programs) < 2 or not all(len(word) >= FEWEST_LETTERS for word in programs):
        return None
    total = sum(map(len, programs.values()))
    savings = []
    for each in history.uncounted:
        begun_by = {_program(name) for name in each.members}
        if len(begun_by) != 1 or not each.unread_s:
            continue
        others = total - len(programs[next(iter(begun_by))])
        own_s = each.moved_s or each.away_s or 0.0
        left_s = max(0.0, each.unread_s - own_s)
        savings.append(Saving(incident=each, rebalances=0, unread_s=left_s * others / total))
    beginners = {_program(name) for each in savings for name in each.incident.members}
    if len(beginners) < 2:
        return None
    return Change(
        setting=GROUP_ID,
        now=history.all[0].group,
        proposed="one group for each program",
        because=f"client ids show {len(programs)} programs: {', '.join(sorted(programs))}",
        price="each program begins with offsets of its own: copy them before it starts; programs "
        "that read the same topics would each get all records",
        confidence=Confidence.LOW,
        savings=tuple(savings),
        lines=group_lines(history.all[0].group, sorted(programs)),
    )


def _names(facts: Iterable[IncidentFacts]) -> set[str]:
    return {
        name
        for each in facts
        for name in (*each.members, *(absence.member for absence in each.absences))
        if name
    }


def _program(client_id: str) -> str:
    """Return the first word of a client id, in lower case; empty where it begins with none."""
    word = _FIRST_WORD.match(client_id)
    return "" if word is None else word[0].lower()


def propose_leave_on_close(
    history: PastIncidents, heartbeat_s: float = CLIENT_HEARTBEAT_S
) -> Change | None:
    """Propose that Streams instances which close for good leave their group.

    By default they do not, so the others wait for the session timeout. With it they learn of the
    leave by their next heartbeat, after half of its interval on average: what moves to them is
    unread until then, and for its rebalance. An instance that comes back in time loses its sticky
    tasks.
    """
    savings = [
        Saving(incident=each, rebalances=0, unread_s=saved)
        for each in history.uncounted
        if each.kind is IncidentKind.MEMBER_LEFT
        and not each.is_static
        and each.group_type in {None, "classic"}
        and any(STREAM_THREAD in absence.member for absence in each.absences)
        and all(absence.how is DepartureMode.EXPIRED for absence in each.absences)
        and each.unread_s is not None
        and (saved := each.unread_s - _handover_s(each, heartbeat_s)) > 0.0
    ]
    if not savings:
        return None
    return Change(
        setting=LEAVE_ON_CLOSE,
        now="false",
        proposed="true",
        because=f"{how_often(len(savings))} an instance closed, and the others waited "
        "for its session",
        price="a restart moves its tasks, and an internal setting may change with any release",
        confidence=Confidence.MEDIUM,
        savings=tuple(savings),
        lines=leave_lines(),
    )


def _handover_s(incident: IncidentFacts, heartbeat_s: float) -> float:
    """Return the unread seconds of partitions that others take over at once."""
    return (incident.moved_s or 0.0) + (incident.moved or 0) * heartbeat_s / 2


def propose_probing_interval(history: PastIncidents) -> Change | None:
    """Propose a probing interval twice as long: every second idle probing rebalance is saved.

    They are parts of the incident that made them necessary. One that moves a task is necessary at
    any interval: max.warmup.replicas limits how many are warmed up at once. Tasks that are warmed
    up move later.
    """
    found = [each for each in history.uncounted if each.probes]
    probes = sum(each.probes for each in found)
    intervals = [each.probing_interval_s for each in found if each.probing_interval_s is not None]
    near = [interval for interval in intervals if 0.0 < interval <= LONGEST_PROBING_S]
    savings = tuple(
        Saving(incident=each, rebalances=idle // 2, unread_s=None)
        for each in found
        if (idle := each.probes - (each.moved or 0)) > 1
    )
    if probes < FEWEST_PROBES or not near or not savings:
        return None
    now_s = max(SHORTEST_PROBING_S, median(near) // 10.0 * 10.0)  # each is a little late
    return Change(
        setting=PROBING_INTERVAL,
        now=f"{1000 * now_s:.0f}",
        proposed=f"{2000 * now_s:.0f}",
        because=f"{probes} rebalances probed for tasks that were warmed up",
        price=f"such tasks move up to {now_s:g} s later",
        confidence=rate_confidence(all(each.incident.moved is not None for each in savings), False),
        savings=savings,
        lines=probing_lines(f"{2000 * now_s:.0f}"),
    )
