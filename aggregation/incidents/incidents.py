"""Incidents of all groups, from records: the entry point. Pure.

Theory of operation. Records become group rebalances (`aggregation.rebalances.rebalances`), these
become incidents (`aggregation.incidents.detection`), each with its cost.

Source: incidents.md.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import NamedTuple

from aggregation.cycle_collector import paused_collector
from aggregation.incidents.attributes import Attributes, read_attributes
from aggregation.incidents.cost import count_away, count_moves, count_unread, note_exits
from aggregation.incidents.details import complete
from aggregation.incidents.detection import GroupHistory
from aggregation.incidents.drafts import Draft
from aggregation.incidents.lag_growth import (
    Disturbances,
    LagGrowth,
    measure_growth,
    split_steps,
)
from aggregation.incidents.member_names import read_members
from aggregation.incidents.model import Cost, Incident, IncidentKind, RebalanceSpan
from aggregation.incidents.polls import join_without_poll, measure_polls
from aggregation.incidents.refusals import find_refusals
from aggregation.incidents.restarts import RESTART_S, Stop
from aggregation.incidents.settings import ClientKind, find_client_kind
from aggregation.incidents.topic_growth import find_growth
from aggregation.rebalances.clock_steps import ClockStep, Doubt
from aggregation.rebalances.departures import STOP_S
from aggregation.rebalances.failures import AGAIN_S
from aggregation.rebalances.grouping import GroupRef
from aggregation.rebalances.known_records import Watermark, prepare_records
from aggregation.rebalances.rebalances import ExplainedRebalance, explain_known
from aggregation.rebalances.root_cause import Certainty
from aggregation.rebalances.segments import MemberRef
from aggregation.rebalances.silences import Silences
from metrics.model.sample import Sample, digest, parse_time
from metrics.model.signals import streams_thread
from metrics.model.status import RebalanceStatus


class Analysis(NamedTuple):
    """Rebalances and incidents of all groups, each by start."""

    rebalances: list[ExplainedRebalance]
    incidents: list[Incident]
    clock_steps: Sequence[ClockStep] = ()
    """Steps of clocks that are taken out of all times."""
    doubts: Sequence[Doubt] = ()
    """What later records may show otherwise: steps of clocks, and ends of episodes."""
    leads: Mapping[str, float] = {}
    """Seconds that agents' clocks are ahead; they are taken out of all times, too."""


class GroupIncidents(NamedTuple):
    """Incidents of one group by start, and the end of its last rebalance (Unix seconds)."""

    incidents: list[Incident]
    last_end: float | None


def split_by_group(analysis: Analysis) -> dict[GroupRef, GroupIncidents]:
    """Return the incidents of each group."""
    found = defaultdict[GroupRef, list[Incident]](list)
    for incident in analysis.incidents:
        found[incident.ref].append(incident)
    ends: dict[GroupRef, float] = {}
    for round_ in (each.round for each in analysis.rebalances):
        if not round_.is_open:
            ends[round_.ref] = max(round_.ended_at, ends.get(round_.ref, round_.ended_at))
    refs = dict.fromkeys((*found, *ends))
    return {ref: GroupIncidents(found[ref], ends.get(ref)) for ref in refs}


def _absorb_rejoins(refused: Draft, drafts: list[Draft]) -> None:
    """Add the incidents that follow from a failed join to the failure's own incident.

    A member that has lost a right is dropped or expires, its application is restarted, and its
    topics return together with the right.
    """
    for draft in list(drafts):
        is_joined = draft.kind is IncidentKind.JOIN_FAILED
        is_own = is_joined and not draft.members.keys().isdisjoint(refused.members)
        slack_s = AGAIN_S
        if refused.lost_right and not is_own:
            is_back = refused.lost_right == "topics" and draft.kind is _TOPICS_BACK
            is_own = draft.members.keys() <= refused.members.keys()
            is_own &= is_back or draft.kind in _AFTER_LOSS
            is_expiry = draft.kind is IncidentKind.SESSION_EXPIRED
            slack_s = EXPIRY_S if is_expiry else AGAIN_S if is_back else 0.0
        if is_own and refused.started_at <= draft.started_at <= refused.until + slack_s:
            refused.absorb(draft)
            drafts.remove(draft)


_AFTER_LOSS = {
    IncidentKind.MEMBER_JOINED,
    IncidentKind.MEMBER_LEFT,
    IncidentKind.RESTART,
    IncidentKind.ROLLOUT,
    IncidentKind.SESSION_EXPIRED,
}
"""Kinds that follow from a lost right, if they have no other members."""
_TOPICS_BACK = IncidentKind.METADATA_CHANGED
"""Kind that follows shortly after topics may be read again."""
EXPIRY_S = 60.0
"""A member that is refused expires within its session timeout, 45 s as a rule."""


class _KnownGroup(NamedTuple):
    """Attributes, members and lag of one group; ``now`` is Unix seconds."""

    ref: GroupRef
    now: float
    attributes: Attributes
    member_ids: dict[MemberRef, str]
    names: dict[MemberRef, str]
    disturbances: Disturbances
    sources: Mapping[str, float]
    """Time of the first record of each kind of source (Unix seconds)."""


def analyze(
    records: Iterable[Sample],
    watermark: Watermark | None = None,
    now: float | None = None,
    *,
    clocks: Iterable[ClockStep] = (),
    silences: Silences | None = None,
) -> Analysis:
    """Return the rebalances and incidents of all groups.

    All arguments are those of `prepare_records`.
    """
    with paused_collector():  # an analysis makes no cycles
        known = prepare_records(records, watermark, now, clocks=clocks, silences=silences)
        rebalances = explain_known(known)
        incidents = find_incidents(rebalances, known.records, known.now)
        named = _name_clock_steps(incidents, known.clock_steps)
    return Analysis(rebalances, named, known.clock_steps, known.doubts, known.leads)


def _name_clock_steps(incidents: list[Incident], steps: Sequence[ClockStep]) -> list[Incident]:
    """Add each step of a clock to the first incident that it touches."""
    found = find_touched(incidents, steps)
    return [
        replace(each, detail=each.detail | {"clock_steps": [*map(_step_row, found[each.id])]})
        if each.id in found
        else each
        for each in incidents
    ]


def find_touched(
    incidents: Sequence[Incident], steps: Iterable[ClockStep]
) -> dict[str, list[ClockStep]]:
    """Return the steps that are to be named, by the id of the first incident that each touches."""
    found: dict[str, list[ClockStep]] = defaultdict(list)
    for step in steps:
        if step.seconds and not step.is_named:
            touched = (i for i in incidents if i.ref == step.ref and (i.ended_at or inf) >= step.at)
            if (first := next(touched, None)) is not None:
                found[first.id].append(step)
    return found


def _step_row(step: ClockStep) -> dict[str, object]:
    row: dict[str, object] = _names(step.member) | {"seconds": round(step.seconds, 3)}
    return row if step.other is None else row | {"other": _names(step.other)}


def _names(member: MemberRef) -> dict[str, object]:
    return {"client_id": member.client_id, "host": member.host}


def recent(analysis: Analysis, since: float) -> Analysis:
    """Return the incidents and rebalances that are open, or ended at ``since`` or later.

    An incident keeps its earlier rebalances. ``since`` is Unix seconds.
    """
    incidents = [i for i in analysis.incidents if i.ended_at is None or i.ended_at >= since]
    theirs = {span.id for incident in incidents for span in incident.rebalances}
    rounds = [
        each
        for each in analysis.rebalances
        if each.round.id in theirs or each.round.ended_at >= since or each.round.is_open
    ]
    return Analysis(rounds, incidents)


def latest_time(records: Iterable[Sample]) -> float:
    """Return the latest time in records (Unix seconds); 0 without any."""
    latest = max((record.ts for record in records), default=None)
    return 0.0 if latest is None else parse_time(latest)


def find_incidents(
    rebalances: Sequence[ExplainedRebalance], records: Sequence[Sample], now: float
) -> list[Incident]:
    """Return the incidents that rebalances, given by their start, belong to."""
    attributes, seen = read_attributes(records), read_members(records)
    ids = {ref: members.list_ids() for ref, members in seen.items()}
    names = {ref: members.name_all() for ref, members in seen.items()}
    sources = _read_sources(records)
    stops = _read_stops(rebalances)
    histories: dict[GroupRef, GroupHistory] = {}
    for rebalance in rebalances:
        ref = rebalance.round.ref
        if ref not in histories:
            histories[ref] = GroupHistory(attributes=attributes[ref], stops=stops[ref])
        histories[ref].add(rebalance)
    drafts = defaultdict[GroupRef, list[Draft]](list)
    for ref, history in histories.items():
        history.end_silently(now)
        drafts[ref] += history.drafts
    for ref, refused in find_refusals(records, attributes, rebalances, now).items():
        for draft in refused:
            _absorb_rejoins(draft, drafts[ref])
        drafts[ref] += refused
    for ref, of_group in drafts.items():
        for draft in of_group:
            _explain_growth(draft, attributes[ref])
        note_exits(of_group, attributes[ref])
    found = [
        _incident(group, draft, unread.get(draft), until)
        for ref, of_group in drafts.items()
        for disturbances in [split_steps(attributes[ref].lag_steps)]
        for group in [
            _KnownGroup(
                ref=ref,
                now=now,
                attributes=attributes[ref],
                member_ids=ids.get(ref, {}),
                names=names.get(ref, {}),
                disturbances=disturbances,
                sources=sources[ref],
            )
        ]
        for unread in [count_unread(of_group, group.attributes, now)]
        for draft, until in _with_next(of_group)
    ]
    return _give_own_ids(sorted(found, key=lambda incident: (incident.started_at, incident.ref)))


def _give_own_ids(incidents: Sequence[Incident]) -> list[Incident]:
    """Give a second incident of the same start and members an id of its own.

    If records are lost, two incidents without members can begin at the same microsecond. The one
    that ended first keeps its id. The id of the other contains the ids of its rebalances.
    """
    in_order = sorted(incidents, key=lambda each: inf if each.ended_at is None else each.ended_at)
    firsts = {each.id: each for each in reversed(in_order)}
    return [
        each
        if firsts[each.id] is each
        else replace(each, id=digest(each.id, *(span.id for span in each.rebalances))[:16])
        for each in incidents
    ]


def _read_stops(rebalances: Iterable[ExplainedRebalance]) -> dict[GroupRef, list[Stop]]:
    """Return the spans in which the last members of each group left: `STOP_S` before the end.

    A stop with another rebalance within `RESTART_S` after it is a restart, and left out.
    """
    found = defaultdict[GroupRef, list[Stop]](list)
    came_at: dict[GroupRef, float] = {}
    for each in rebalances:
        ref, stops = each.round.ref, found[each.round.ref]
        if stops and each.round.started_at <= stops[-1].until + RESTART_S:
            stops.pop()
        came_at[ref] = max([came_at.get(ref, -inf), *(arrival.at for arrival in each.arrivals)])
        if each.is_end:
            until = each.round.ended_at
            stops.append(Stop(max(until - STOP_S, came_at[ref]), until))
    return found


def _explain_growth(draft: Draft, attributes: Attributes) -> None:
    """Make topics that grew the cause of an incident without another cause.

    If a leader noticed the topics without naming them, they become the incident's detail.
    """
    segments = [s for each in draft.rebalances for s in each.round.consumers]
    is_of_topics = all(
        s.protocol_type in _OF_CONSUMERS and streams_thread(s.member.client_id) is None
        for s in segments
    )
    is_noticed = draft.kind is IncidentKind.METADATA_CHANGED and "topics" not in draft.detail
    is_open_question = is_noticed or (
        draft.kind is IncidentKind.UNKNOWN and any(map(_may_begin, draft.rebalances))
    )
    if not is_open_question or draft.is_ongoing or not is_of_topics:
        return
    grown = find_growth(attributes, draft.started_at, draft.ended_at)
    if not grown:
        return
    draft.detail = draft.detail | {"topics": [each._asdict() for each in grown]}
    if not is_noticed:
        draft.kind, draft.certainty = IncidentKind.METADATA_CHANGED, Certainty.INFERRED


def _may_begin(rebalance: ExplainedRebalance) -> bool:
    """Check that a rebalance may have begun without a member that no source sees.

    In a classic group, CoordinatorRequested (1) is a consequence of another member's join or leave.
    If it is the first code of all members, an unseen member began the rebalance.
    """
    requested = RebalanceStatus.COORDINATOR_REQUESTED
    return rebalance.round.group_type != "classic" or any(
        not s.steps or s.steps[0].code is not requested for s in rebalance.round.consumers
    )


def _with_next(drafts: Iterable[Draft]) -> Iterator[tuple[Draft, float]]:
    """Yield the incidents of a group with the begin of the next one."""
    ordered = sorted(drafts, key=lambda each: each.started_at)
    starts = [each.started_at for each in ordered[1:]]
    yield from zip(ordered, [*starts, inf], strict=True)


def _incident(group: _KnownGroup, draft: Draft, unread: float | None, until: float) -> Incident:
    ref, now = group.ref, group.now
    ongoing = draft.is_ongoing
    departures = tuple(draft.all_departures)
    growth = measure_growth(group.disturbances, draft.started_at, until)
    polls = measure_polls(draft)
    return Incident(
        id=digest(*ref, "incident", f"{draft.started_at:.6f}", *_first(draft))[:16],
        ref=ref,
        kind=draft.kind,
        certainty=draft.certainty,
        started_at=draft.started_at,
        ended_at=None if ongoing else draft.ended_at,
        is_final=not ongoing and now - draft.ended_at >= RESTART_S,
        members=tuple(draft.members),
        member_ids=group.member_ids | _member_ids(draft.rebalances),
        names=group.names,
        reason=draft.reason,
        detail=complete(draft, group.attributes)
        | ({"lost_right": draft.lost_right} if draft.lost_right else {}),
        rebalances=tuple(_span(each, draft.kind) for each in draft.rebalances if not each.is_end),
        waiting_for=tuple(draft.waits),
        departures=departures,
        members_out=tuple(d.member for d in departures if d.returned_at is None),
        also=tuple(draft.also),
        cost=_cost(draft, unread, growth, group.attributes),
        sources=tuple(sorted(draft.sources)),
        missing=_missing(draft, group),
        group_type=_group_type(draft, group.attributes),
        client_kind=_client_kind(draft),
        may_stop_others=_may_stop_others(draft, group.attributes),
        notice_s=polls.notice_s,
        poll_wait_s=polls.wait_s,
        group_size=polls.group_size,
        joins_without_poll=join_without_poll(draft, group.attributes),
    )


def _group_type(draft: Draft, attributes: Attributes) -> str:
    if draft.rebalances:
        return draft.rebalances[-1].round.group_type
    return attributes.label_at("group_type", draft.ended_at) or "classic"


def _client_kind(draft: Draft) -> ClientKind:
    segments = [s for each in draft.rebalances for s in each.round.consumers]
    types = {s.protocol_type for s in segments}
    return find_client_kind(
        "connect" if "connect" in types else None,
        (member.client_id for member in [*draft.members, *(s.member for s in segments)]),
    )


def _may_stop_others(draft: Draft, attributes: Attributes) -> bool:
    """Check for other members with an assignor that the client sets and that may be eager."""
    assignor = attributes.label_at("assignor", draft.started_at) or ""
    if "cooperative" in assignor:
        return False
    return any(
        segment.member not in draft.members
        and segment.protocol_type in _OF_CONSUMERS
        and streams_thread(segment.member.client_id) is None
        for rebalance in draft.rebalances
        if rebalance.round.group_type == "classic"
        for segment in rebalance.round.consumers
    )


_OF_CONSUMERS = {None, "", "consumer"}


def _read_sources(records: Iterable[Sample]) -> dict[GroupRef, dict[str, float]]:
    """Return the time of each group's first record by each kind of source (Unix seconds)."""
    found: dict[GroupRef, dict[str, str]] = defaultdict(dict)
    for record in records:
        if record.client_id:
            of_group = found[GroupRef(record.cluster, record.group)]
            of_group[record.source] = min(record.ts, of_group.get(record.source, record.ts))
    return defaultdict(
        dict, {ref: {n: parse_time(ts) for n, ts in of.items()} for ref, of in found.items()}
    )


def _member_ids(rebalances: Iterable[ExplainedRebalance]) -> dict[MemberRef, str]:
    """Return the last member id of each member within some rebalances.

    If several members share all names, it is the id of the one that began a rebalance last.
    """
    named = [
        (segment.member, rebalance.trigger.at in {step.at for step in segment.steps}, segment)
        for rebalance in rebalances
        for segment in rebalance.round.consumers
    ]
    triggers = {member: s.member_id for member, is_trigger, s in named if is_trigger}
    last = {member: s.member_id for member, _, s in named}
    return {member: name for member, name in (last | triggers).items() if name}


def _first(draft: Draft) -> list[str]:
    member = next(iter(draft.members), None)
    return [] if member is None else list(member._replace(twin=0).key)


def _span(rebalance: ExplainedRebalance, kind: IncidentKind) -> RebalanceSpan:
    """Return a rebalance of an incident; without a status of its own it has the root cause's."""
    round_, code = rebalance.round, rebalance.trigger.code
    return RebalanceSpan(
        id=round_.id,
        started_at=round_.started_at,
        ended_at=round_.ended_at,
        is_open=round_.is_open,
        generations=round_.generations,
        status=kind.status if code is None else code,
    )


def _cost(
    draft: Draft, unread: float | None, growth: LagGrowth | None, attributes: Attributes
) -> Cost:
    moved = [each.partitions_moved for each in draft.rebalances]
    known = [each for each in moved if each is not None]
    lags = [each.lag for each in draft.rebalances if each.lag is not None]
    lags += [] if growth is None else [growth.highest]
    needed = None if unread is None else count_moves(draft, attributes)
    return Cost(
        unread_partition_seconds=unread,
        member_seconds=draft.refused_seconds + sum(r.member_seconds for r in draft.rebalances),
        partitions_moved=sum(known) if known else None,
        lag=max(lags, default=None),
        lag_before=None if growth is None else growth.before,
        caught_up_at=None if growth is None else growth.caught_up_at,
        away_partition_seconds=None if unread is None else count_away(draft, attributes),
        partitions_to_move=None if needed is None else needed.number,
        moved_partition_seconds=None if needed is None else needed.seconds,
        partitions_handed_over=None if needed is None else needed.handed_over,
    )


def _missing(draft: Draft, group: _KnownGroup) -> tuple[str, ...]:
    """Return the kinds of sources that might show the cause, and that the group did not have.

    A source that confirms another one's reports has no records of its own until the next cause.
    """
    if draft.kind is not IncidentKind.UNKNOWN and draft.certainty is Certainty.SEEN:
        return ()
    until = group.now if draft.is_ongoing else draft.ended_at + RESTART_S
    known = draft.sources | {name for name, since in group.sources.items() if since <= until}
    return tuple(source for source in ("logs", "wire", "broker_log") if source not in known)
