"""Incidents of one group in plain words: a short answer, the timeline, and advice. Pure."""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from textwrap import shorten

from aggregation.counterfactuals.best_changes import span_of
from aggregation.counterfactuals.change import PastIncidents
from aggregation.counterfactuals.changes import find_changes
from aggregation.counterfactuals.facts import facts_of_incident
from aggregation.counterfactuals.rules import find_declined
from aggregation.counterfactuals.sentences import describe_change
from aggregation.explain.incident_words import (
    costliest,
    count_by_member,
    duration,
    headline,
    is_at_least,
    partition_seconds,
)
from aggregation.explain.recommendations import load_recommendations
from aggregation.incidents.answers import IncidentAnswer, RecommendationAnswer, answer_of
from aggregation.incidents.model import Incident
from aggregation.rebalances.grouping import GroupRef
from aggregation.rebalances.rebalances import ExplainedRebalance
from aggregation.rebalances.root_cause import Certainty, Trigger
from aggregation.rebalances.segments import MemberRef
from metrics.model.sample import format_time, parse_time
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
    """Name of the trigger's code; None: not known."""
    client_id: str | None
    host: str | None
    reason: str | None
    certainty: str
    straggler: str | None
    straggler_member_id: str | None
    """It distinguishes members with one client id; None: not known."""
    waited_seconds: float | None
    departures: tuple[str, ...]
    generations: tuple[int, ...]
    members: int
    member_seconds: float
    """The time above status 0, summed over its members."""
    partitions_moved: int | None
    """None: not every member's source shows assignments, and no agent inspects the group."""
    lag: int | None
    """Lag of the group afterwards, in records; None: no agent inspects it."""
    caused_by: str | None
    is_open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeAnswer:
    """A setting to change, with the savings that it would have had; null: not known."""

    setting: str
    now: str | None
    proposed: str
    because: str
    price: str
    rebalances_avoided: int
    unread_avoided_seconds: float | None
    confidence: str
    text: str
    """The same in one sentence."""


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
    incidents_total: int = 0
    """Number of all known incidents; `incidents` are the last of them."""
    changes: tuple[ChangeAnswer, ...] = ()
    """The changes that would have saved most, over all known incidents."""


def explain(  # noqa: PLR0913 - a group, and all that its explanation shows
    cluster: str,
    group: str,
    episodes: Sequence[ExplainedRebalance],
    until: float | None = None,
    incidents: Sequence[Incident] = (),
    incidents_total: int = 0,
    changes: tuple[ChangeAnswer, ...] = (),
    declined: Collection[str] = frozenset(),
) -> Explanation:
    """Explain a group's rebalances, given by their start: all, or the one up to an instant.

    ``declined`` are settings that would make the group wait longer than they save, over all its
    incidents.
    """
    found = tuple(answer_of(each, declined) for each in incidents)
    total = max(incidents_total, len(found))
    return Explanation(
        cluster=cluster,
        group=group,
        answer=_answer(group, episodes, until, found, total),
        rebalances=len(episodes),
        seconds=sum(each.seconds for each in episodes),
        member_seconds=round(sum(each.member_seconds for each in episodes), 6),
        partitions_moved=_sum_moved(episodes),
        happened=tuple(_summarize(each) for each in episodes),
        advice=_advise(found, changes) if found else _advice(episodes),
        incidents=found,
        incidents_total=total,
        changes=changes,
    )


def choose(
    episodes: Sequence[ExplainedRebalance], last: int, until: float | None
) -> list[ExplainedRebalance]:
    """Return the last rebalances, or the one that ran at an instant or ended last before it."""
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
            0 if until is not None else len(incidents_of[ref]),
            () if until is not None else propose(incidents_of[ref]),
            () if until is not None else decline(incidents_of[ref]),
        )
        for ref in sorted(of_group.keys() | incidents_of.keys())
    ]


def propose(incidents: Sequence[Incident]) -> tuple[ChangeAnswer, ...]:
    """Return the changes that would have saved most, by a group's incidents that are over."""
    facts = [each for one in incidents if (each := facts_of_incident(one))]
    if not facts:
        return ()
    total, span = span_of(facts)
    return tuple(
        ChangeAnswer(
            setting=each.setting,
            now=each.now,
            proposed=each.proposed,
            because=each.because,
            price=each.price,
            rebalances_avoided=each.rebalances_avoided,
            unread_avoided_seconds=_rounded(each.unread_avoided_s),
            confidence=each.confidence.value,
            text=describe_change(each, total, span),
        )
        for each in find_changes(facts)
    )


def decline(incidents: Sequence[Incident]) -> frozenset[str]:
    """Return settings that would make a group wait longer than they save, by its past incidents."""
    facts = [each for one in incidents if (each := facts_of_incident(one))]
    return frozenset(find_declined(PastIncidents(facts, facts)) if facts else ())


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)


def explain_unobserved(group: str, shown: Snapshot) -> list[Explanation]:
    """Explain a group without known rebalances, if an agent observes or inspects it; else none."""
    quiet = [explain(key.cluster, group, []) for key in shown.groups if key.group == group]
    return quiet or [_explain_inspected(each) for each in shown.inspected if each.group == group]


def _explain_inspected(inspected: InspectedGroup) -> Explanation:
    members = "an unknown number of" if inspected.members is None else inspected.members
    answer = (
        f"no agent sees a member of {inspected.group}, so who began what is not known;"
        f" its coordinator says {inspected.state}, {members} members,"
        f" {inspected.changes} changes of membership so far."
    )
    return replace(explain(inspected.cluster, inspected.group, []), answer=answer)


def _answer(
    group: str,
    episodes: Sequence[ExplainedRebalance],
    until: float | None,
    incidents: Sequence[IncidentAnswer],
    total: int,
) -> str:
    """Return the incidents in words, then the totals; without incidents, the rebalances."""
    if incidents:
        return f"{headline(group, incidents)} {_totals(incidents, total)}"
    if episodes:
        parts = [_how_often(group, episodes), _who(episodes), _how_long(episodes), _cost(episodes)]
        return "; ".join(part for part in parts if part) + "."
    if until is not None:
        return f"{group} had not rebalanced by {_clock(until)}, as far as was seen."
    return f"{group} did not rebalance, as far as was seen."


def _totals(incidents: Sequence[IncidentAnswer], total: int) -> str:
    """Return numbers, members and cost of all incidents shown."""
    shown = len(incidents)
    rebalances = sum(len(each.rebalances) for each in incidents)
    first = parse_time(incidents[0].started_at)
    last = max(parse_time(each.ended_at or each.started_at) for each in incidents)
    number = (
        f"The last {shown} of {total} incidents" if total > shown else _counted(shown, "incident")
    )
    within = f" in {duration(last - first)}" if shown > 1 else ""
    parts = [f"{number} with {_counted(rebalances, 'rebalance')}{within}"]
    if by_member := count_by_member(incidents):
        parts.append(f"rebalances by member: {by_member}")
    if most := costliest(incidents):
        parts.append(f"the costliest: {most}")
    return "; ".join([*parts, *_costs(incidents)]) + "."


def _costs(incidents: Sequence[IncidentAnswer]) -> list[str]:
    """Return the costs of all incidents together, as far as they are known."""
    costs = [each.cost for each in incidents]
    unread = [c.unread_partition_seconds for c in costs if c.unread_partition_seconds is not None]
    moved = [cost.partitions_moved for cost in costs if cost.partitions_moved is not None]
    lags = [cost.lag for cost in costs if cost.lag is not None]
    seconds = sum(cost.member_seconds for cost in costs)
    parts = [f"they cost {duration(seconds)} of the members' time"]
    if unread:
        bound = "at least " if any(map(is_at_least, incidents)) else ""
        parts[0] += f" and {bound}{partition_seconds(sum(unread))}"
    if moved:
        parts.append(f"{partitions(sum(moved))} moved")
    if max(lags, default=0):
        parts.append(f"{records(max(lags))} waited at worst")
    return parts if len(incidents) > 1 else parts[1:]


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def _how_often(group: str, episodes: Sequence[ExplainedRebalance]) -> str:
    first, last = episodes[0].round.started_at, max(each.round.ended_at for each in episodes)
    if len(episodes) == 1:
        now = ", and still does" if episodes[0].round.is_open else ""
        return f"{group} rebalanced once, at {_clock(first)}{now}"
    return f"{group} rebalanced {len(episodes)} times in {duration(last - first)}"


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
    text = f"the group was rebalancing for {duration(total)} in total"
    if waits:
        member = max(waits, key=waits.__getitem__)
        text += f", and waited mostly for {_person(member)}"
    return text


def _cost(episodes: Sequence[ExplainedRebalance]) -> str:
    seconds = sum(each.member_seconds for each in episodes)
    if not seconds:
        return ""
    text, moved = f"it cost {duration(seconds)} of its members' time", _sum_moved(episodes)
    text += "" if moved is None else f", and {partitions(moved)} moved"
    lag = max((each.lag for each in episodes if each.lag is not None), default=None)
    worst = "" if len(episodes) == 1 else " at worst"
    return text if lag is None else f"{text}; {records(lag)} waited afterwards{worst}"


def records(count: int) -> str:
    """Return a count of records with its noun."""
    return f"{count:,} record" + ("" if count == 1 else "s")


def partitions(count: int) -> str:
    """Return a count of partitions with its noun."""
    return f"{count} partition" + ("" if count == 1 else "s")


def _sum_moved(episodes: Sequence[ExplainedRebalance]) -> int | None:
    counts = [moved for moved in (each.partitions_moved for each in episodes) if moved is not None]
    return sum(counts) if counts else None


def _summarize(episode: ExplainedRebalance) -> GroupRebalance:
    trigger, round_ = episode.trigger, episode.round
    who, slow = trigger.member, episode.straggler
    return GroupRebalance(
        episode=round_.id,
        ts=format_time(round_.started_at),
        seconds=round(episode.seconds, 6),
        status=None if trigger.code is None else trigger.code.label,
        client_id=None if who is None else who.client_id,
        host=None if who is None else who.host,
        reason=trigger.reason if trigger.missing is None else trigger.missing,
        certainty=trigger.certainty.value,
        straggler=None if slow is None else slow.member.client_id,
        straggler_member_id=None if slow is None else slow.member_id,
        waited_seconds=None if slow is None else round(slow.waited_s, 6),
        departures=tuple(f"{d.member.client_id}: {d.kind}" for d in episode.departures),
        generations=round_.generations,
        members=len({piece.member for piece in round_.consumers}),
        member_seconds=round(episode.member_seconds, 6),
        partitions_moved=episode.partitions_moved,
        lag=episode.lag,
        caused_by=episode.caused_by,
        is_open=round_.is_open,
    )


def _advise(
    incidents: Sequence[IncidentAnswer], changes: Sequence[ChangeAnswer]
) -> tuple[str, ...]:
    """Return the advice: each setting once, with the largest proposed number.

    Advice that ends an ongoing incident comes first, then the changes that would have saved most,
    then the other advice, that for the costliest incident first.
    """
    proposed = {each.setting for each in changes}
    texts = [f"{each.text}; the price: {each.price}." for each in changes]
    ranked = sorted(incidents, key=_price, reverse=True)
    rows = zip_longest(*(each.recommendations for each in ranked))
    found = [each for row in rows for each in row if each and each.setting not in proposed]
    unique: dict[str, RecommendationAnswer] = {}
    for each in found:
        known = unique.get(_subject(each))
        if known is None or _proposed(known) < _proposed(each):
            unique[_subject(each)] = each
    first = [each.recommendations[:1] for each in ranked if each.ongoing]
    urgent = dict.fromkeys(_subject(each) for row in first for each in row)
    now = [unique.pop(key) for key in urgent if key in unique]
    return (*map(_sentence, now), *texts, *map(_sentence, unique.values()))


def _subject(each: RecommendationAnswer) -> str:
    return each.setting or each.because


def _proposed(each: RecommendationAnswer) -> int:
    number = each.proposed or ""
    return int(number) if number.isdecimal() else 0


def advise_incident(incident: IncidentAnswer) -> tuple[str, ...]:
    """Return the advice for one incident."""
    return tuple(_sentence(each) for each in incident.recommendations)


def _price(incident: IncidentAnswer) -> tuple[float, float]:
    return incident.cost.unread_partition_seconds or 0.0, incident.cost.member_seconds


def _sentence(each: RecommendationAnswer) -> str:
    """Return a recommendation as one sentence: setting, numbers, reason and price."""
    setting = each.setting or ""
    if each.now is not None:
        setting += f" {each.now}"
    if each.proposed is not None:
        setting += f" to {each.proposed}"
    text = f"{setting}: {each.because}" if setting else each.because
    return text if each.price is None else f"{text.removesuffix('.')}; the price: {each.price}."


def _advice(episodes: Sequence[ExplainedRebalance]) -> tuple[str, ...]:
    """Return the advice: the first on each cause, the costliest cause first, then the others."""
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
    return ": ".join(part for part in (known, reason) if part) or "no reason given"


def _clock(at: float) -> str:
    return f"{format_time(at)[:19].replace('T', ' ')} UTC"
