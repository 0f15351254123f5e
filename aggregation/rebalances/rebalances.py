"""Group rebalances and their root cause, from the records of any number of agents: pure.

`explain_rebalances` is the whole of it: rounds (`aggregation.rebalances.grouping`) in the order of
time, each with its trigger and straggler (`aggregation.rebalances.root_cause`), its departures
(`aggregation.rebalances.departures`), the rebalance that caused it, and its cost. What a group's
members did before shows the missing ones, and joins without a sync
(`aggregation.rebalances.unsynced_joins`) new ones.

Source: semantics.md section 6.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from aggregation.rebalances.departures import (
    STOP_S,
    Arrival,
    Departure,
    DepartureKind,
    Successors,
    arrivals,
    classify,
    departures,
    mark_stopped,
)
from aggregation.rebalances.failures import Failures, find_rejoin, read_failures
from aggregation.rebalances.grouping import (
    LATE_NOTICE_S,
    NOTICE_S,
    GroupRef,
    RebalanceSegments,
    group_segments,
)
from aggregation.rebalances.inspection_findings import (
    Finding,
    assign_findings,
    infer_trigger,
    read_findings,
)
from aggregation.rebalances.known_records import KnownRecords, Watermark, prepare_records
from aggregation.rebalances.root_cause import (
    Before,
    Certainty,
    Straggler,
    Trigger,
    find_awaited,
    find_seen_trigger,
    infer_root_cause,
    is_leave_of_asked,
    straggler,
    unknown_trigger,
)
from aggregation.rebalances.segments import MemberRef, Segment, member_of
from aggregation.rebalances.silences import Silences, Witnesses
from aggregation.rebalances.takeovers import SLACK_S, Takeover, find_takeovers
from aggregation.rebalances.unsynced_joins import Join, Joins, read_joins
from metrics.model.sample import Outcome, Sample, SampleKind, is_number, parse_time
from metrics.model.status import RebalanceStatus
from metrics.tracking.source_traits import FILE_SOURCES

TAKEOVER_S = 1.0
"""A member's partitions may be dated shortly before its status rose."""
_SILENT_S = 3.0
"""No session timeout of a share group is shorter."""
RETURN_S = 3600.0
"""A member that comes back later than this begins something new."""

_DROPPED = RebalanceStatus.DROPPED_GROUP
_RETURNS = {
    RebalanceStatus.NEW_MEMBER,
    RebalanceStatus.UNKNOWN_MEMBER,
    RebalanceStatus.STALE_MEMBER,
    _DROPPED,
}
_FOLLOWS = {
    RebalanceStatus.ASSIGNMENT_PROBING,
    RebalanceStatus.VERSION_PROBING,
    RebalanceStatus.ENDPOINT_UPDATE,
}
_GONE_FOR_A_WHILE = {DepartureKind.DROPPED, DepartureKind.EXPIRED, DepartureKind.REMOVED}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedRebalance:
    """One rebalance of one group, explained."""

    round: RebalanceSegments
    trigger: Trigger
    straggler: Straggler | None
    departures: tuple[Departure, ...]
    arrivals: tuple[Arrival, ...] = ()
    absent: tuple[MemberRef, ...] = ()
    """Members that were there before and took no part, though their agents live."""
    is_rebalance: bool = True
    """False: a member only got its generation again, which others do not notice."""
    is_end: bool = False
    """The last members left, and nobody is there who could rebalance because of it."""
    caused_by: str | None = None
    """The id of the rebalance that this one follows from."""
    is_after_failure: bool = False
    """The trigger's member joined again, as its join or sync had failed."""
    findings: tuple[Finding, ...] = ()
    """What inspection found at its polls."""

    @property
    def seconds(self) -> float:
        """From the first member's start to the last member's end."""
        return self.round.ended_at - self.round.started_at

    @property
    def member_seconds(self) -> float:
        """What it cost: the seconds of all its members that were not at 0, status 5 included."""
        spans: dict[MemberRef, list[Segment]] = defaultdict(list)
        for piece in self.round.consumers:
            spans[piece.member].append(piece)
        return sum((_union_seconds(found) for found in spans.values()), start=0.0)

    @property
    def partitions_moved(self) -> int | None:
        """How many another member has now; None: neither all seen members nor polls show it."""
        polled = [finding.moved for finding in self.findings if finding.moved is not None]
        if polled:  # a poll knows all members
            return sum(polled)
        synced = [p for p in self.round.consumers if p.outcome is Outcome.SYNCED and p.steps]
        counts: dict[MemberRef, dict[str, list[int | None]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for piece in synced:
            counts[piece.member][piece.agent].append(piece.gained)
        moved = [_count_moved(by_agent.values()) for by_agent in counts.values()]
        known = [count for count in moved if count is not None]
        return sum(known) if known and len(known) == len(moved) else None

    @property
    def lag(self) -> int | None:
        """How many records the group was behind afterwards; None: nobody has looked."""
        return max(
            (finding.lag for finding in self.findings if finding.lag is not None), default=None
        )

    @property
    def highest(self) -> RebalanceStatus:
        """The highest code that was held."""
        held = (s.code for p in self.round.segments for s in p.steps if not s.masked)
        return max(held, default=RebalanceStatus.NONE)


class _Gone(NamedTuple):
    """A departure: its time (Unix seconds) and its rebalance."""

    at: float
    rebalance: str
    kind: DepartureKind


_SESSION_TIMEOUT = "session.timeout.ms"
"""Among the settings that a log shows; the records of one start have one time."""


@dataclass(slots=True)
class _Group:
    """What is known of one group between two of its rebalances."""

    present: dict[tuple[str, ...], tuple[MemberRef, str]] = field(default_factory=dict)
    """Members that took part last, and the agent that sees each."""
    took_part_at: dict[tuple[str, ...], float] = field(default_factory=dict)
    """End of the last rebalance of each of them (Unix seconds)."""
    away: dict[tuple[str, ...], _Gone] = field(default_factory=dict)
    """Members that did not go by their own will."""
    came: list[Arrival] = field(default_factory=list)
    never_gone: set[tuple[str, MemberRef]] = field(default_factory=set)
    """Members that took no part in a rebalance, and were still known to the coordinator."""
    came_back: set[tuple[str, MemberRef]] = field(default_factory=set)
    """Members that went in a rebalance, and were back themselves: nobody took their place."""
    staying: dict[str, list[MemberRef]] = field(default_factory=dict)
    """Members that were there after each rebalance with departures."""
    last: str | None = None
    generation: int = -1
    """The highest that was synced."""
    failures: Failures = field(default_factory=dict)
    takeovers: Sequence[Takeover] = ()
    joins: Mapping[tuple[str, ...], Sequence[float]] = field(default_factory=dict)
    """When each member asked to join (Unix seconds)."""
    loose_joins: Joins = field(default_factory=Joins)
    """The joins outside of any rebalance that their members knew of."""
    starts: Mapping[tuple[str, ...], float] = field(default_factory=dict)
    """When members asked to join first (Unix seconds), of those whose client was seen to start."""
    silences: Mapping[tuple[str, ...], Sequence[tuple[float, float]]] = field(default_factory=dict)
    """Spans without a request at the end of each member (Unix seconds)."""


def _count_moved(counts: Iterable[Sequence[int | None]]) -> int | None:
    """Return how many partitions moved to a member, by the agent that counted most.

    A log may have no number where the traffic has one. None: no agent counted in all its rounds.
    """
    totals = [sum(each or 0 for each in found) for found in counts if None not in found]
    return max(totals, default=None)


def explain_rebalances(
    records: Iterable[Sample],
    watermark: Watermark | None = None,
    now: float | None = None,
    *,
    silences: Silences | None = None,
) -> list[ExplainedRebalance]:
    """Return the rebalances of all groups, explained, by their start.

    Records that appear twice count once; their order is all one. The arguments are those of
    `prepare_records`. A member is missed only where its agent had reported all of it: what it saw
    may still be on its way.
    """
    return explain_known(prepare_records(records, watermark, now, silences=silences))


def explain_known(known: KnownRecords) -> list[ExplainedRebalance]:
    """Return the same of records that are prepared."""
    records = known.records
    witnesses = Witnesses(records, known.silences)
    groups: dict[GroupRef, _Group] = defaultdict(_Group)
    for ref, failures in read_failures(records).items():
        groups[ref].failures = failures
    for ref, takeovers in find_takeovers(records).items():
        groups[ref].takeovers = takeovers
    for ref, joins in _read_joins(records).items():
        groups[ref].joins = joins
    for ref, loose_joins in read_joins(records).items():
        groups[ref].loose_joins = loose_joins
    for ref, silences in _read_silences(records).items():
        groups[ref].silences = silences
    for ref, starts in _read_starts(records).items():
        groups[ref].starts = starts
    found = [
        _explain(round_, groups[round_.ref], known.heard, witnesses)
        for round_ in group_segments(records, known.now)
    ]
    rebalances = [each for each in found if each.is_rebalance]
    came = {ref: Successors(group.came) for ref, group in groups.items()}
    explained = [
        _in_hindsight(each, groups[each.round.ref], came[each.round.ref]) for each in rebalances
    ]
    return _add_findings(_mark_stops(explained), read_findings(records))


def _mark_stops(episodes: Sequence[ExplainedRebalance]) -> list[ExplainedRebalance]:
    """Mark the members that left in the stop of their group, the latest rebalance first."""
    ended_at: dict[GroupRef, float] = {}
    found: list[ExplainedRebalance] = []
    for each in reversed(episodes):
        ref, went = each.round.ref, each.departures
        if each.is_end:
            ended_at[ref] = max((departure.at for departure in went), default=each.round.ended_at)
        if ref in ended_at:
            came_at = max((arrival.at for arrival in each.arrivals), default=float("-inf"))
            went = mark_stopped(went, max(came_at, ended_at[ref] - STOP_S), ended_at[ref])
        if each.arrivals:
            ended_at.pop(ref, None)
        found.append(replace(each, departures=went))
    return found[::-1]


def _add_findings(
    episodes: list[ExplainedRebalance], findings: Mapping[str, Sequence[Finding]]
) -> list[ExplainedRebalance]:
    if not findings:
        return episodes
    by_ref: dict[GroupRef, list[RebalanceSegments]] = defaultdict(list)
    for each in episodes:
        by_ref[each.round.ref].append(each.round)
    found = {
        ref: assign_findings(round_, findings.get(ref.group, ())) for ref, round_ in by_ref.items()
    }
    return [_add_finding(each, next(found[each.round.ref])) for each in episodes]


def _add_finding(episode: ExplainedRebalance, findings: tuple[Finding, ...]) -> ExplainedRebalance:
    return replace(episode, trigger=infer_trigger(episode.trigger, findings), findings=findings)


def _explain(
    round_: RebalanceSegments,
    group: _Group,
    heard: Mapping[str, float],
    witnesses: Witnesses,
) -> ExplainedRebalance:
    is_rebalance, is_end = _is_rebalance(round_, group), _is_end_of_group(round_, group)
    rejoin = find_rejoin(round_, group.failures) if group.failures else None
    seen = find_seen_trigger(round_) or rejoin
    absent = _find_absent(round_, group, heard) if is_rebalance else []
    is_next = _is_next(round_, group, absent)
    absent = _leave_out_unseen(absent, round_, group, witnesses, is_next=is_next)
    if is_rebalance and seen is None and round_.group_type == "share":
        absent = _find_silent(round_, group)
    unsynced = _find_unsynced(round_, group) if seen is None and is_next else []
    inferred = infer_root_cause(
        round_,
        absent,
        Before(frozenset(group.present), group.starts, is_next),
        unsynced,
    )
    is_later = seen is not None and is_leave_of_asked(seen, round_)
    trigger = inferred if seen is None or (is_later and inferred.member is not None) else seen
    went = [d for d in departures(round_, absent) if not _is_told(d, group)]
    episode = ExplainedRebalance(
        round=round_,
        trigger=trigger,
        straggler=straggler(round_, [each for each in absent if each != trigger.member]),
        departures=tuple(went),
        arrivals=tuple(arrivals(round_)),
        absent=tuple(absent),
        is_rebalance=is_rebalance,
        is_end=is_end,
        caused_by=_find_origin(trigger, group),
        is_after_failure=trigger is rejoin is not None,
    )
    _remember(episode, group)
    for join in unsynced:
        group.present[join.member.key] = join.member, join.agent
    if episode.departures:
        group.staying[round_.id] = [member for member, _ in group.present.values()]
    return episode


def _is_next(round_: RebalanceSegments, group: _Group, absent: Sequence[MemberRef]) -> bool:
    """Check that the generation before is known.

    A classic group whose members are all gone has counted a generation for that, too:
    https://github.com/apache/kafka/blob/4.1.0/group-coordinator/src/main/java/org/apache/kafka/coordinator/group/classic/ClassicGroup.java
    """
    first = min(round_.generations, default=0)
    was_empty = {member.key for member in absent} >= group.present.keys()
    return first in {1, group.generation + 1} or (was_empty and first == group.generation + 2)


def _find_unsynced(round_: RebalanceSegments, group: _Group) -> list[Join]:
    """Return the joins of new members that were in this generation, and never synced."""
    known = group.present.keys() | {piece.member.key for piece in round_.segments}
    joins = group.loose_joins.list_unsynced(round_, known)
    return [join for join in joins if not _has_failed(join, round_, group)]


def _has_failed(join: Join, round_: RebalanceSegments, group: _Group) -> bool:
    failures = group.failures.get(join.member.key, ())
    return any(join.at <= failure.at <= round_.ended_at + NOTICE_S for failure in failures)


def _is_rebalance(round_: RebalanceSegments, group: _Group) -> bool:
    """Check that the group rebalanced: a member's status rose, or a generation is new."""
    if group.present and all(
        piece.is_unassigned and piece.member.key not in group.present for piece in round_.consumers
    ):
        return False
    if round_.has_cause:
        return not _is_repeat(round_, group.generation)
    return round_.group_type == "classic" and max(round_.generations, default=-1) > group.generation


def _is_repeat(round_: RebalanceSegments, generation: int) -> bool:
    """Check that its members only got the generation again that they had: no other was asked.

    A join whose cause another source shows later is known by its generation.
    """
    return all(
        piece.is_repeat
        or (not piece.steps and piece.generations and max(piece.generations) <= generation)
        for piece in round_.consumers
    )


def _is_end_of_group(round_: RebalanceSegments, group: _Group) -> bool:
    """Check that members left and nobody is there who could rebalance because of it."""
    if not all(piece.is_exit and piece.outcome is Outcome.LEFT for piece in round_.consumers):
        return False
    return {piece.member.key for piece in round_.consumers} >= group.present.keys()


def _find_absent(
    round_: RebalanceSegments, group: _Group, heard: Mapping[str, float]
) -> list[MemberRef]:
    """Return members that were there before and took no part, though their agents live.

    Only the classic protocol makes every member take part. In the new ones another member takes
    the partitions of one that was removed.
    """
    took_part = {piece.member.key for piece in round_.segments}
    if round_.group_type != "classic":
        took_part |= group.present.keys() - _list_former_owners(round_, group)
    elif (round_.is_open and not _is_long_known(round_)) or _asks_nobody(round_, group):
        return []
    return [
        member
        for key, (member, agent) in group.present.items()
        if key not in took_part
        and heard.get(agent, 0.0) >= _known_until(round_)
        and not any(round_.started_at <= at <= round_.ended_at for at in group.joins.get(key, ()))
    ]


def _list_former_owners(round_: RebalanceSegments, group: _Group) -> set[tuple[str, ...]]:
    """Return the keys of the members whose partitions others took in a rebalance.

    While it is open, an owner may still give up what was taken right before now.
    """
    since, end = round_.started_at - TAKEOVER_S, round_.ended_at
    until = end - SLACK_S if round_.is_open else end + TAKEOVER_S
    return {taken.owner for taken in group.takeovers if since <= taken.at <= until}


def _is_long_known(round_: RebalanceSegments) -> bool:
    """Check for an open rebalance that every member knows of, and that waits for one of them."""
    is_classic = round_.group_type == "classic"
    return is_classic and round_.ended_at >= _known_until(round_) and bool(find_awaited(round_))


def _known_until(round_: RebalanceSegments) -> float:
    """Return the instant (Unix seconds) up to which a member that takes part shows it."""
    return round_.started_at + LATE_NOTICE_S if round_.is_open else round_.ended_at


def _asks_nobody(round_: RebalanceSegments, group: _Group) -> bool:
    """Check for one member that leaves, or that joins again and has its generation repeated."""
    members = {piece.member.key for piece in round_.consumers}
    if len(members) > 1 or not {*round_.generations} <= {group.generation}:
        return False
    steps = [step.code for piece in round_.consumers for step in piece.steps]
    was_asked = RebalanceStatus.COORDINATOR_REQUESTED in steps
    return bool(round_.generations) or not was_asked


def _leave_out_unseen(
    absent: list[MemberRef],
    round_: RebalanceSegments,
    group: _Group,
    witnesses: Witnesses,
    *,
    is_next: bool,
) -> list[MemberRef]:
    """Return the absent members without those that their agents did not see in an outage.

    If rebalances were missed, too, a member that is not there behind the outage may have left in
    it: it is forgotten.
    """
    missed: list[MemberRef] = []
    for member in absent:
        agent, since = group.present[member.key][1], group.took_part_at.get(member.key, 0.0)
        if witnesses.was_there(round_.ref, member, agent, round_.ended_at):
            continue
        if not is_next and witnesses.went_unseen(
            round_.ref, member, agent, since, round_.started_at
        ):
            del group.present[member.key]
            continue
        missed.append(member)
    return missed


def _find_silent(round_: RebalanceSegments, group: _Group) -> list[MemberRef]:
    """Return the members of a share group that have sent nothing for long, and never again.

    Its partitions have no owners, so nothing else shows a removal.
    """
    at = round_.started_at
    return [
        member
        for key, (member, _) in group.present.items()
        if any(since + _SILENT_S <= at <= until for since, until in group.silences.get(key, ()))
    ]


def _read_silences(
    records: Iterable[Sample],
) -> dict[GroupRef, dict[tuple[str, ...], list[tuple[float, float]]]]:
    """Return the silences of members at their ends."""
    found: dict[GroupRef, dict[tuple[str, ...], list[tuple[float, float]]]]
    found = defaultdict(lambda: defaultdict(list))
    for record in records:
        silent_ms = record.after or ""
        if record.field == "silent.ms" and is_number(silent_ms):
            until = parse_time(record.ts)
            silence = until - int(silent_ms) / 1000, until
            found[GroupRef(record.cluster, record.group)][member_of(record).key].append(silence)
    return found


def _read_joins(
    records: Iterable[Sample],
) -> dict[GroupRef, dict[tuple[str, ...], list[float]]]:
    """Return when members asked to join: one that joins again at once has no sync between."""
    found: dict[GroupRef, dict[tuple[str, ...], list[float]]] = defaultdict(dict)
    for record in records:
        if record.kind is SampleKind.CHANGE and record.field == "joined" and record.joined_ts:
            joins = found[GroupRef(record.cluster, record.group)]
            joins.setdefault(member_of(record).key, []).append(parse_time(record.joined_ts))
    return found


def _read_starts(records: Iterable[Sample]) -> dict[GroupRef, dict[tuple[str, ...], float]]:
    """Return when members asked to join first, of those whose log begins with their client.

    A log shows the settings that a client prints at its start with its first join. A log that
    begins later shows none.
    """
    first: dict[tuple[object, ...], str] = {}
    found: dict[GroupRef, dict[tuple[str, ...], float]] = defaultdict(dict)
    for record in records:
        ref, key = GroupRef(record.cluster, record.group), member_of(record).key
        is_first = first.setdefault((ref, key), record.ts) == record.ts
        if is_first and record.field == _SESSION_TIMEOUT and record.source in FILE_SOURCES:
            found[ref][key] = parse_time(record.ts)
    return found


def _is_told(departure: Departure, group: _Group) -> bool:
    """Check whether a member's absence was noticed before the member reported it."""
    return departure.kind is DepartureKind.EXPIRED and departure.member.key in group.away


def _find_origin(trigger: Trigger, group: _Group) -> str | None:
    if trigger.code in _FOLLOWS:
        return group.last
    if trigger.member is None or trigger.code not in _RETURNS:
        return None
    gone = group.away.get(trigger.member.key)
    if gone is None or trigger.at - gone.at > RETURN_S:
        return None
    is_next_drop = gone.kind is DepartureKind.DROPPED and trigger.code is _DROPPED
    return None if is_next_drop else gone.rebalance


def _note_the_stale(round_: RebalanceSegments, group: _Group) -> None:
    """A static member that gets ILLEGAL_GENERATION had not been removed."""
    for piece in round_.consumers:
        if any(step.code is RebalanceStatus.STALE_MEMBER for step in piece.steps):
            gone = group.away.get(piece.member.key)
            group.never_gone.add(("" if gone is None else gone.rebalance, piece.member))


def _remember(episode: ExplainedRebalance, group: _Group) -> None:
    round_ = episode.round
    _note_the_stale(round_, group)
    group.came += [a for a in episode.arrivals if a.member.key not in group.away]
    if episode.is_rebalance:
        group.last = round_.id
    group.generation = max(group.generation, *round_.generations, -1)
    for departure in episode.departures:
        group.present.pop(departure.member.key, None)
        if departure.kind in _GONE_FOR_A_WHILE:
            group.away[departure.member.key] = _Gone(departure.at, round_.id, departure.kind)
    for piece in round_.consumers:
        key = piece.member.key
        if _stays(piece):
            group.present[key] = (piece.member, piece.agent)
            group.took_part_at[key] = piece.ended_at
            if key in group.away:
                group.came_back.add((group.away.pop(key).rebalance, piece.member))
        else:
            group.present.pop(key, None)


def _union_seconds(pieces: list[Segment]) -> float:
    """Return the seconds that pieces cover, what two agents saw once only."""
    seconds, until = 0.0, float("-inf")
    for piece in sorted(pieces, key=lambda piece: piece.started_at):
        seconds += max(0.0, piece.status_until - max(piece.started_at, until))
        until = max(until, piece.status_until)
    return seconds


def _stays(piece: Segment) -> bool:
    return not piece.is_exit and (piece.is_open or piece.outcome is Outcome.SYNCED)


def _in_hindsight(
    episode: ExplainedRebalance, group: _Group, successors: Successors
) -> ExplainedRebalance:
    """Separate rollouts, scale-downs and who was never gone, which only later rebalances show."""
    this = episode.round.id
    staying = group.staying.get(this, [])
    left = [each for each in episode.departures if (this, each.member) not in group.never_gone]
    back = {each.member for each in left if (this, each.member) in group.came_back}
    others = iter(classify((d for d in left if d.member not in back), successors, staying))
    departures_ = tuple(each if each.member in back else next(others) for each in left)
    return replace(episode, trigger=_correct_trigger(episode, group), departures=departures_)


def _correct_trigger(episode: ExplainedRebalance, group: _Group) -> Trigger:
    """Take a name back that only an absence had given, of a member that was not gone at all."""
    trigger = episode.trigger
    if trigger.certainty is not Certainty.INFERRED or trigger.member is None:
        return trigger
    if (episode.round.id, trigger.member) not in group.never_gone:
        return trigger
    return unknown_trigger(episode.round, ())
