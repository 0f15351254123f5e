"""Episodes of one group in plain words: a short answer, the timeline, what to do. Pure."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from textwrap import shorten

from aggregation.explain.incident_words import headline
from aggregation.explain.recommendations import load_recommendations
from aggregation.incidents.answers import IncidentAnswer, answer_of
from aggregation.incidents.model import Incident
from aggregation.rebalances.grouping import GroupRef
from aggregation.rebalances.rebalances import ExplainedRebalance
from aggregation.rebalances.root_cause import Certainty, Trigger
from aggregation.rebalances.segments import MemberRef
from metrics.model.sample import format_time
from metrics.model.snapshot import InspectedGroup, Snapshot
from metrics.model.status import RebalanceStatus

_REASON_CHARS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRebalance:
    """One rebalance, for people. Times are RFC 3339 UTC, durations seconds."""

    episode: str
    ts: str
    seconds: float
    status: str | None
    """Name of the trigger's code; None where it is not known."""
    client_id: str | None
    host: str | None
    reason: str | None
    certainty: str
    straggler: str | None
    waited_seconds: float | None
    departures: tuple[str, ...]
    generations: tuple[int, ...]
    members: int
    member_seconds: float
    """Summed over its members: the time that they were not at 0."""
    partitions_moved: int | None
    """None: not every member's source shows assignments, and nobody inspects the group."""
    lag: int | None
    """Records that the group was behind afterwards; None: nobody has looked."""
    caused_by: str | None
    is_open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The whole answer about one group."""

    cluster: str
    group: str
    answer: str
    rebalances: int
    seconds: float
    member_seconds: float
    partitions_moved: int | None
    happened: tuple[GroupRebalance, ...]
    advice: tuple[str, ...]
    incidents: tuple[IncidentAnswer, ...] = ()


def explain(
    cluster: str,
    group: str,
    episodes: Sequence[ExplainedRebalance],
    until: float | None = None,
    incidents: Sequence[Incident] = (),
) -> Explanation:
    """Explain a group's rebalances, given by their start: all, or the one up to an instant."""
    found = tuple(answer_of(each) for each in incidents)
    return Explanation(
        cluster=cluster,
        group=group,
        answer=_answer(group, episodes, until, found),
        rebalances=len(episodes),
        seconds=sum(each.seconds for each in episodes),
        member_seconds=round(sum(each.member_seconds for each in episodes), 6),
        partitions_moved=_sum_moved(episodes),
        happened=tuple(_summarize(each) for each in episodes),
        advice=_advice(episodes),
        incidents=found,
    )


def choose(
    episodes: Sequence[ExplainedRebalance], last: int, until: float | None
) -> list[ExplainedRebalance]:
    """Return the last episodes, or the one that ran at an instant or ended last before it."""
    if until is None:
        return list(episodes[-last:])
    return [each for each in episodes if each.round.started_at <= until][-1:]


def choose_incidents(
    incidents: Sequence[Incident], last: int, until: float | None
) -> list[Incident]:
    """Return the last incidents, or the one that ran at an instant or ended last before it."""
    if until is None:
        return list(incidents[-last:])
    return [each for each in incidents if each.started_at <= until][-1:]


def explanations(
    episodes: Sequence[ExplainedRebalance],
    last: int,
    until: float | None,
    incidents: Sequence[Incident] = (),
) -> list[Explanation]:
    """Return one explanation a cluster and group."""
    of_group = defaultdict[GroupRef, list[ExplainedRebalance]](list)
    incidents_of = defaultdict[GroupRef, list[Incident]](list)
    for rebalance in episodes:
        of_group[rebalance.round.ref].append(rebalance)
    for incident in incidents:
        incidents_of[incident.ref].append(incident)
    return [
        explain(
            *ref,
            choose(of_group[ref], last, until),
            until,
            choose_incidents(incidents_of[ref], last, until),
        )
        for ref in sorted(of_group.keys() | incidents_of.keys())
    ]


def explain_unobserved(group: str, shown: Snapshot) -> list[Explanation]:
    """Explain a group without a rebalance that was seen: quiet, unwatched, or (empty) unknown."""
    quiet = [explain(key.cluster, group, []) for key in shown.groups if key.group == group]
    return quiet or [_explain_inspected(each) for each in shown.inspected if each.group == group]


def _explain_inspected(told: InspectedGroup) -> Explanation:
    members = "an unknown number of" if told.members is None else told.members
    answer = (
        f"no agent sees a member of {told.group}, so who began what is not known; its coordinator"
        f" says {told.state}, {members} members, {told.changes} changes of membership so far."
    )
    return replace(explain(told.cluster, told.group, []), answer=answer)


def _answer(
    group: str,
    episodes: Sequence[ExplainedRebalance],
    until: float | None,
    incidents: Sequence[IncidentAnswer],
) -> str:
    """Return the incidents in words, then the totals; without incidents, the rebalances."""
    parts = [headline(group, incidents)] if incidents else []
    if episodes:
        parts.append(_totals(group, episodes, with_cause=not incidents))
    if parts:
        return " ".join(parts)
    if until is not None:
        return f"{group} had not rebalanced by {_clock(until)}, as far as was seen."
    return f"{group} did not rebalance, as far as was seen."


def _totals(group: str, episodes: Sequence[ExplainedRebalance], *, with_cause: bool) -> str:
    """Return number, time and cost; the cause only where no incident names it."""
    cause = _who(episodes) if with_cause else ""
    parts = [_how_often(group, episodes), cause, _how_long(episodes), _cost(episodes)]
    return "; ".join(part for part in parts if part) + "."


def _how_often(group: str, episodes: Sequence[ExplainedRebalance]) -> str:
    first, last = episodes[0].round.started_at, max(each.round.ended_at for each in episodes)
    if len(episodes) == 1:
        now = ", and still does" if episodes[0].round.is_open else ""
        return f"{group} rebalanced once, at {_clock(first)}{now}"
    return f"{group} rebalanced {len(episodes)} times in {span(last - first)}"


def _who(episodes: Sequence[ExplainedRebalance]) -> str:
    named = [each.trigger for each in episodes if each.trigger.member is not None]
    if not named:
        return "who began it was not seen" if len(episodes) == 1 else "nobody seen began any of it"
    counts = Counter((each.member, each.code) for each in named)
    (member, code), count = counts.most_common(1)[0]
    example = next(t for t in reversed(named) if (t.member, t.code) == (member, code))
    by = f"caused by {_person(member)} ({_cause(example)})"
    if example.certainty is Certainty.INFERRED:
        by += ", as far as can be inferred"
    if len(episodes) == 1:
        return f"it was {by}"
    return f"{count} of them {'was' if count == 1 else 'were'} {by}"


def _how_long(episodes: Sequence[ExplainedRebalance]) -> str:
    total = sum(each.seconds for each in episodes)
    waits: dict[MemberRef, float] = defaultdict(float)
    for each in episodes:
        if each.straggler is not None:
            waits[each.straggler.member] += each.straggler.waited_s
    text = f"the group was rebalancing for {span(total)} in total"
    if waits:
        member = max(waits, key=waits.__getitem__)
        text += f", and waited mostly for {_person(member)}"
    return text


def _cost(episodes: Sequence[ExplainedRebalance]) -> str:
    seconds = sum(each.member_seconds for each in episodes)
    if not seconds:
        return ""
    text, moved = f"it cost {span(seconds)} of its members' time", _sum_moved(episodes)
    text += "" if moved is None else f", and {partitions(moved)} moved"
    lag = max((each.lag for each in episodes if each.lag is not None), default=None)
    worst = "" if len(episodes) == 1 else " at worst"
    return text if lag is None else f"{text}; {records(lag)} waited afterwards{worst}"


def records(count: int) -> str:
    """Return a count with its word."""
    return f"{count:,} record" + ("" if count == 1 else "s")


def partitions(count: int) -> str:
    """Return a count with its word."""
    return f"{count} partition" + ("" if count == 1 else "s")


def _sum_moved(episodes: Sequence[ExplainedRebalance]) -> int | None:
    told = [moved for moved in (each.partitions_moved for each in episodes) if moved is not None]
    return sum(told) if told else None


def _summarize(episode: ExplainedRebalance) -> GroupRebalance:
    trigger, made = episode.trigger, episode.round
    who, slow = trigger.member, episode.straggler
    return GroupRebalance(
        episode=made.id,
        ts=format_time(made.started_at),
        seconds=round(episode.seconds, 6),
        status=None if trigger.code is None else trigger.code.label,
        client_id=None if who is None else who.client_id,
        host=None if who is None else who.host,
        reason=trigger.reason if trigger.missing is None else trigger.missing,
        certainty=trigger.certainty.value,
        straggler=None if slow is None else slow.member.client_id,
        waited_seconds=None if slow is None else round(slow.waited_s, 6),
        departures=tuple(f"{d.member.client_id}: {d.kind}" for d in episode.departures),
        generations=made.generations,
        members=len({piece.member for piece in made.consumers}),
        member_seconds=round(episode.member_seconds, 6),
        partitions_moved=episode.partitions_moved,
        lag=episode.lag,
        caused_by=episode.caused_by,
        is_open=made.is_open,
    )


def _advice(episodes: Sequence[ExplainedRebalance]) -> tuple[str, ...]:
    """Return what to change: the first advice on each cause, by its cost, then the rest."""
    cost: dict[RebalanceStatus, float] = defaultdict(float)
    for each in episodes:
        if each.trigger.code:
            cost[each.trigger.code] += each.member_seconds
    known = load_recommendations()
    ranked = [known.by_status[code] for code in sorted(cost, key=lambda code: -cost[code])]
    texts = [text for row in zip_longest(*ranked) for text in row if text is not None]
    if any(each.straggler is not None for each in episodes):
        texts.insert(1, known.slow_member)
    if any(each.trigger.certainty is Certainty.UNKNOWN for each in episodes):
        texts.append(known.unseen)
    return tuple(dict.fromkeys(texts))


def _person(member: MemberRef | None) -> str:
    if member is None:
        return "nobody seen"
    return f"client {member.client_id}" + (f" on host {member.host}" if member.host else "")


def _cause(trigger: Trigger) -> str:
    name = RebalanceStatus.NONE.label if trigger.code is None else trigger.code.label
    known = "" if trigger.code is None else name
    reason = shorten(trigger.reason or "", _REASON_CHARS, placeholder=" …")  # whole in the timeline
    return ": ".join(part for part in (known, reason) if part) or "no reason told"


def _clock(at: float) -> str:
    return f"{format_time(at)[:19].replace('T', ' ')} UTC"


def span(seconds: float) -> str:
    """Return a time as people say it."""
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
