"""The rebalances and incidents of one group, day by day: pure.

Theory of operation. A rebalance is *over* when its group has been quiet for longer than any rule of
`aggregation.rebalances.grouping` looks back, an incident when no member's return can join it any
more. Each is counted with the day on which it is over. From day to day the group carries the
records of open rebalances and incidents, of rebalancing members, of the last hour (for causes), of
the last rebalance of each present member (among the last twenty), and each member's last
attributes. So the functions for a whole history explain a day too, and a day costs only its own
events. Older records are dropped. A member that returns after a longer absence is new, and a
scale-down depends on the members shortly after. An incident of more than a day is counted as it is
by then; what follows is another one, and so is an open rebalance. A rebalance that a dropped member
began is over when that member is back, or after a day, too: its time out of the group is part of
the cost.
"""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from itertools import takewhile
from math import inf
from typing import NamedTuple

import msgspec

from aggregation.incidents.incidents import Analysis, analyze, find_touched
from aggregation.incidents.model import Incident
from aggregation.rebalances.clock_steps import ClockStep, ahead_at
from aggregation.rebalances.grouping import SKEW_S
from aggregation.rebalances.known_records import last_heard
from aggregation.rebalances.lost_episodes import end_lost_episodes, find_open
from aggregation.rebalances.rebalances import RETURN_S, ExplainedRebalance
from aggregation.rebalances.silences import NO_SILENCES, Silences
from aggregation.spark.rollups.clock_offsets import (
    NO_OFFSETS,
    Offsets,
    add_offsets,
    by_member,
    correct_times,
    measure_offsets,
    remember_offsets,
    steady_offsets,
)
from aggregation.spark.rollups.group_shape import DAYS, Shape, find_shape
from aggregation.spark.tables.period import ends_at
from metrics.model.sample import Sample, SampleKind, Scope, format_time, parse_time
from metrics.model.status import RebalanceStatus

QUIET_S = SKEW_S + 60.0
"""An event that begins this long after a rebalance does not belong to it."""
INCIDENT_S = 86_400.0
"""A longer incident, or open rebalance, is counted without its end."""
OUT_S = 7 * 86_400.0
"""A dropped member that is out for longer is a new one when it returns."""
ATTRIBUTE_S = 90 * 86_400.0
"""A member's attributes are kept this long: what it owns may not change for weeks."""
_NEVER = "1970-01-01T00:00:00Z"
_ROUNDS_KEPT = 2
_ROUNDS_MOST = 20
"""Rebalances in which a member's last part is looked for."""
_STEPS = 256
"""Steps of clocks that a group carries, of 100 bytes: the latest ones."""
_DROPPED = RebalanceStatus.DROPPED_GROUP
_ZLIB = b"\x78"
"""First byte of compressed data: of a plain state it is that of a map."""


class _Span(NamedTuple):
    started_at: float
    ended_at: float


class Carried(msgspec.Struct, frozen=True):
    """State that a day passes to the next day."""

    records: tuple[Sample, ...] = ()
    counted_to: float = float("-inf")
    """Start of the last counted rebalance, and its id, since several can begin at once."""
    counted_id: str = "~"  # sorts behind every id: older state had counted all of that instant
    incidents_to: float = float("-inf")
    """Start of the last counted incident; those that begin at once are counted at once."""
    in_incidents: tuple[str, ...] = ()
    """Ids of rebalances in ``records`` that belong to counted incidents."""
    offsets: Mapping[str, tuple[float, ...]] = {}
    """The last clock offsets of agents with a large one; the times of ``records`` are corrected."""
    shapes: tuple[Shape, ...] = ()
    """Members, partitions and hosts of the last days that have a rebalance."""
    counted_starts: Mapping[str, float] = {}
    """Starts of counted rebalances and incidents in ``records``, by id: with fewer records around
    it, one may have another start. Much later an equal generation is of another life of a group."""
    day: date | None = None
    """The day itself."""
    clock_steps: tuple[ClockStep, ...] = ()
    """Of each member's clock the one in force, and those that ``records`` still need."""

    def encode(self) -> bytes:
        """Encode and compress the state: records of one group hold mostly the same texts.

        A busy group carries thousands of records, and Spark holds the state of all groups after
        each day of a span.
        """
        return zlib.compress(msgspec.msgpack.encode(self), level=1)

    @classmethod
    def decode(cls, written: bytes | None) -> "Carried":
        """Decode the output of `encode`, or the plain one of 0.1; None means a new group."""
        if written is None:
            return cls()
        is_packed = written[:1] == _ZLIB
        return msgspec.msgpack.decode(zlib.decompress(written) if is_packed else written, type=cls)


class GroupDays:
    """The history of one group, advanced day by day."""

    def __init__(self, carried: Carried) -> None:
        """Start from the state of the day before."""
        self.carried = carried
        self._silences: Silences = NO_SILENCES
        self.pending: Sequence[ExplainedRebalance] = ()
        """Rebalances that are not over yet, in their present form."""
        self.pending_incidents: Sequence[Incident] = ()
        self.incident_of: Mapping[str, Incident] = {}
        """The incident of each rebalance, by its id."""
        self.app = ""
        """Of the latest record."""
        self.offsets: Offsets = NO_OFFSETS
        """The clock offsets of agents by which the day's records are corrected."""
        self.clock_steps: Sequence[ClockStep] = ()
        """The steps of clocks by which they are corrected, too."""
        self.corrected: Offsets = NO_OFFSETS
        """The offsets of agents that are not in the day's rebalances, for all reasons."""
        self.shape: Shape | None = None
        """Of the last settled rebalance of the day."""

    def day(
        self,
        day: date,
        events: Iterable[Sample],
        last_seen: Mapping[str, str],
        silences: Silences = NO_SILENCES,
    ) -> Analysis:
        """Return the rebalances and incidents that are over by the end of a day.

        ``last_seen`` has the time of each agent's last record by then (RFC 3339), ``silences`` the
        spans without one. Behind days that nobody recorded, what was open before them is counted
        first: it ends where the day's records show that it had ended, else it lasts to its last
        record. A day on which all agents of an open episode are silent counts as such, for a week.
        """
        before, self._silences = self.carried.day, silences
        of_day = list(events)
        if before is not None and not of_day and self._is_silent(before, day, last_seen):
            return self._wait(before, last_seen)
        if before is None or day <= day_after(before):
            return self._advance(day, of_day, last_seen)
        empty = day_after(before)
        ends = self._find_ends(of_day, last_seen, ends_at(empty))
        over, incident_of = self._advance(empty, ends, {}), self.incident_of
        found = self._advance(day, of_day, last_seen)
        self.incident_of = {**incident_of, **self.incident_of}
        return Analysis([*over.rebalances, *found.rebalances], [*over.incidents, *found.incidents])

    def _is_silent(self, before: date, day: date, last_seen: Mapping[str, str]) -> bool:
        """Check that open episodes may have ended on a day on which their agents were silent."""
        agents = {each.agent for each in find_open(self.carried.records)}
        begin = ends_at(day - timedelta(days=1))
        alive = (agent for agent in agents if parse_time(last_seen.get(agent, _NEVER)) >= begin)
        return bool(agents) and not any(alive) and begin - ends_at(before) < OUT_S

    def _wait(self, before: date, last_seen: Mapping[str, str]) -> Analysis:
        """Keep the state of a day, with what is open: later records may show how it ended."""
        kept = self.carried
        self._advance(before, (), last_seen)
        self.carried, self.shape = kept, None
        return Analysis([], [])

    def _find_ends(
        self, events: Sequence[Sample], last_seen: Mapping[str, str], until: float
    ) -> Sequence[Sample]:
        """Return the ends, before ``until``, of carried episodes whose own end is missing.

        Later ``events`` and the agents' last signs of life show them, as in a whole history.
        """
        records = [
            *self.carried.records,
            *correct_times(events, steady_offsets(self.carried.offsets)),
        ]
        agents = {record.agent for record in records}
        alive = {agent: parse_time(ts) for agent, ts in last_seen.items() if agent in agents}
        heard = last_heard(records, lambda agent: alive.get(agent, 0.0))
        known = end_lost_episodes(records, heard, max(heard.values(), default=0.0)).records
        last = format_time(until)
        return [each for each in known[len(records) :] if each.ts < last]

    def _advance(
        self, day: date, events: Iterable[Sample], last_seen: Mapping[str, str]
    ) -> Analysis:
        carried = self.carried
        records, analysis = self._analyze(list(events), last_seen)
        if records:
            self.app = max(records, key=lambda record: record.ts).app
        ordered = sorted(analysis.rebalances, key=_order)
        found = sorted(analysis.incidents, key=lambda each: (each.started_at, each.id))
        self.incident_of = {span.id: each for each in found for span in each.rebalances}
        midnight = ends_at(day)
        self.clock_steps = analysis.clock_steps
        # what a step of a clock, or an agent that is silent, can change waits for its proof
        settled_to = min((d.since for d in analysis.doubts if d.until > midnight), default=inf)

        counted = carried.counted_to, carried.counted_id
        counted_starts = carried.counted_starts
        new = [
            each
            for each in ordered
            if _order(each) > counted
            and not _is_near(each.round.started_at, counted_starts.get(each.round.id))
        ]
        over = list(
            takewhile(
                lambda each: _over_at(each) <= midnight and each.round.ended_at < settled_to, new
            )
        )
        self.pending = new[len(over) :]

        counted_ids = set(carried.in_incidents)
        leaves = {each.round.started_at: each.round.id for each in ordered}
        begun = [
            each
            for each in found
            if each.started_at > carried.incidents_to
            and each.id not in counted_starts
            # without the records before it, the rest of a counted one looks like another
            and counted_ids.isdisjoint(span.id for span in each.rebalances)
            and (each.rebalances or leaves.get(each.started_at) not in counted_ids)
        ]
        waiting = (
            each.started_at
            for each in begun
            if _incident_over_at(each) > midnight
            or (each.ended_at or each.started_at) >= settled_to
        )
        first = next(waiting, float("inf"))
        past = [each for each in begun if each.started_at < first]
        self.pending_incidents = begun[len(past) :]

        self.shape = find_shape(ordered, records, ends_at(day - timedelta(days=1)))
        shapes = carried.shapes if self.shape is None else (*carried.shapes, self.shape)

        starts = [each.round.started_at for each in self.pending[:1]]
        starts += [each.started_at for each in self.pending_incidents[:1]]
        # who was there before what is open
        older = ordered[: len(ordered) - len(self.pending)]
        begin = min(starts, default=inf)
        starts += _starts_of_known([each for each in older if each.round.started_at < begin])
        spans = [
            _Span(each.round.started_at, each.round.ended_at)
            for each in ordered
            # one that is counted without its end must not hold the records of all that follow
            if not (each.round.is_open and _over_at(each) <= midnight)
        ]
        spans += [span for each in found if (span := _whole_span(each)) is not None]
        cut = _cut(spans, min([midnight - RETURN_S, settled_to, *starts]))
        kept = _retain(records, cut, midnight, analysis.clock_steps)
        counted_ids |= {span.id for each in past for span in each.rebalances}
        own_starts = {each.started_at for each in found}
        counted_ids |= {
            id_
            for at, id_ in leaves.items()
            # the leave of a last member is part of an incident, and none of its rebalances
            if at not in own_starts
            and any(each.started_at < at <= (each.ended_at or at) for each in past)
        }
        counted_starts = {
            **counted_starts,
            **{each.round.id: each.round.started_at for each in over},
            **{each.id: each.started_at for each in past},
        }
        self.carried = Carried(
            tuple(kept),
            *(_order(over[-1]) if over else counted),
            past[-1].started_at if past else carried.incidents_to,
            tuple(
                each.round.id
                for each in ordered
                if each.round.id in counted_ids and each.round.ended_at >= cut
            ),
            remember_offsets(carried.offsets, self._measure(over)),
            shapes[-DAYS:],
            {name: at for name, at in counted_starts.items() if at >= cut},
            day,
            _retain_steps(analysis, past, cut),
        )
        return Analysis(over, past)

    def _analyze(
        self, events: Sequence[Sample], last_seen: Mapping[str, str]
    ) -> tuple[list[Sample], Analysis]:
        """Analyze a day's events; once more, if they show that another agent's clock is wrong."""
        carried = self.carried
        self.offsets = steady_offsets(carried.offsets)
        records = [*carried.records, *correct_times(events, self.offsets)]
        known = carried.clock_steps
        analysis = analyze_records(records, last_seen, known, self._silences)
        self.corrected = add_offsets(self.offsets, analysis.leads)
        counted = carried.counted_to, carried.counted_id
        new = [each for each in analysis.rebalances if _order(each) > counted]
        steady = steady_offsets(remember_offsets(carried.offsets, self._measure(new)))
        if steady.keys() <= self.offsets.keys():
            return records, analysis
        self.offsets = steady
        records = [*carried.records, *correct_times(events, steady)]
        analysis = analyze_records(records, last_seen, known, self._silences)
        self.corrected = add_offsets(steady, analysis.leads)
        return records, analysis

    def _measure(self, rebalances: Iterable[ExplainedRebalance]) -> Mapping[str, Sequence[float]]:
        return measure_offsets((each.round for each in rebalances), self.corrected)


def _starts_of_known(rebalances: Sequence[ExplainedRebalance]) -> list[float]:
    """Return the starts of the last rebalances that show who is there.

    They are the last two, and before them those that have the last part of a member that has not
    departed since: not all members take part in each rebalance of a new protocol.
    """
    found: list[float] = []
    known: set[tuple[str, ...]] = set()
    for number, each in enumerate(reversed(rebalances[-_ROUNDS_MOST:])):
        parts = {segment.member.key for segment in each.round.consumers}
        if number < _ROUNDS_KEPT or not parts <= known:
            found.append(each.round.started_at)
        known |= parts | {departure.member.key for departure in each.departures}
    return found


def analyze_records(
    records: Iterable[Sample],
    last_seen: Mapping[str, str],
    clocks: Iterable[ClockStep] = (),
    silences: Silences = NO_SILENCES,
) -> Analysis:
    """Return the rebalances and incidents of one group; its records may come in any order.

    ``last_seen`` has the time of each agent's last record (RFC 3339), ``clocks`` the steps of
    clocks that older records have shown, ``silences`` those of agents.
    """
    in_order = sorted(records, key=_place)
    agents = {record.agent for record in in_order}
    alive = [_presence_record(agent, last_seen[agent]) for agent in agents if agent in last_seen]
    return analyze([*in_order, *alive], clocks=clocks, silences=silences)


def _is_near(started_at: float, counted_at: float | None) -> bool:
    return counted_at is not None and abs(started_at - counted_at) <= SKEW_S


def _order(episode: ExplainedRebalance) -> tuple[float, str]:
    return episode.round.started_at, episode.round.id


def _over_at(episode: ExplainedRebalance) -> float:
    round_ = episode.round
    if round_.is_open:
        return round_.started_at + INCIDENT_S
    over_at = round_.ended_at + QUIET_S
    if any(segment.is_out for segment in round_.consumers):
        return max(over_at, round_.started_at + INCIDENT_S)
    return over_at


def _incident_over_at(incident: Incident) -> float:
    latest = incident.started_at + INCIDENT_S
    if incident.ended_at is None:
        return latest
    return min(incident.ended_at + RETURN_S, latest)


def _whole_span(incident: Incident) -> _Span | None:
    """Return begin and end of an incident that must not be cut; a longer one may be."""
    end = incident.ended_at
    if end is None or end - incident.started_at > INCIDENT_S:
        return None
    return _Span(incident.started_at, end)


def _cut(spans: Sequence[_Span], since: float) -> float:
    """Return the latest time before ``since`` that cuts nothing; spans can overlap."""
    for span in sorted(spans, key=lambda span: span.ended_at, reverse=True):
        if span.ended_at < since:
            break
        since = min(since, span.started_at)
    return since


def _retain(
    records: Sequence[Sample], since: float, midnight: float, steps: Sequence[ClockStep]
) -> list[Sample]:
    """Return the records since a time, whole episodes, open episodes, and the attributes by then.

    A member of which an open episode stays keeps its last periodic sample, which may end that.
    Records have the times of their own clocks, which ``steps`` put right.
    """
    cut = format_time(since)
    cuts = {
        (member.client_id, member.host): format_time(since + ahead_at(own, since))
        for member, own in by_member(steps).items()
    }

    def is_young(record: Sample) -> bool:
        return record.ts >= cuts.get((record.client_id or "", record.host), cut)

    latest: dict[str | None, Sample] = {}
    shown: dict[tuple[object, ...], Sample] = {}
    attributes: dict[tuple[object, ...], Sample] = {}
    # at one instant the fall to 0 comes last: numbers of two agents do not compare
    for record in sorted(records, key=lambda record: (record.ts, not record.to, record.seq)):
        if record.kind is SampleKind.CHANGE:
            if not is_young(record):  # what the members had when the first of the young ones came
                attributes[_attribute(record)] = record
        elif record.kind is SampleKind.SAMPLE:
            shown[_witness(record)] = record
        elif record.kind is not SampleKind.SIGNAL:
            latest[record.episode] = record
    out_since = format_time(midnight - OUT_S)
    open_since = format_time(midnight - INCIDENT_S)
    whole = {
        episode
        for episode, last in latest.items()
        if is_young(last)
        or (last.to and last.ts >= (out_since if last.to == _DROPPED else open_since))
    }
    open_ones = {_witness(last) for name, last in latest.items() if name in whole and last.to}
    older = format_time(midnight - ATTRIBUTE_S)
    known = {each.id for each in attributes.values() if each.after and each.ts >= older}
    known |= {each.id for witness, each in shown.items() if witness in open_ones}
    kept = (
        record
        for record in records
        if (record.ts >= open_since if record.kind is SampleKind.SAMPLE else is_young(record))
        or (record.id in known if record.kind in _BY_ID else record.episode in whole)
    )
    return sorted(kept, key=_place)


_BY_ID = {SampleKind.CHANGE, SampleKind.SAMPLE}


def _retain_steps(
    found: Analysis, counted: Iterable[Incident], cut: float
) -> tuple[ClockStep, ...]:
    """Return the steps that the next days need: those since ``cut``, and what is in force there."""
    ids = {each.id for each in counted}
    kept: list[ClockStep] = []
    for own in by_member(found.clock_steps).values():
        older = sum(step.since < cut for step in own[1:])
        kept += [step for step in own[older:] if step.seconds or step.since >= cut]
    touched = find_touched(found.incidents, found.clock_steps)
    named = {step for id_, steps in touched.items() if id_ in ids for step in steps}
    kept.sort(key=lambda step: (step.since, step.member))
    return tuple(step._replace(is_named=step.is_named or step in named) for step in kept[-_STEPS:])


def _witness(record: Sample) -> tuple[object, ...]:
    """Return the agent and the member of a record."""
    return record.agent, record.scope, record.client_id, record.host, record.group_instance_id


def _attribute(record: Sample) -> tuple[object, ...]:
    """Return what a change is of: one field of a member, or of the group."""
    member = (record.client_id, record.host, record.group_instance_id)
    return record.scope, record.subject, record.field, *member


def _place(record: Sample) -> tuple[str, int, str]:
    return record.ts, record.seq, record.id


def _presence_record(agent: str, ts: str) -> Sample:
    return Sample(
        id=agent,
        kind=SampleKind.SAMPLE,
        ts=ts,
        agent=agent,
        cluster="",
        app="",
        group="",
        scope=Scope.CONSUMER,
        source="",
    )


def last_seen_by(day: date, last_seen: Mapping[str, Sequence[tuple[date, str]]]) -> dict[str, str]:
    """Return the time of each agent's last record by the end of a day."""
    found: dict[str, str] = {}
    for agent, days in last_seen.items():
        known = [ts for seen, ts in days if seen <= day]
        if known:
            found[agent] = max(known)
    return found


def day_after(day: date) -> date:
    """Return the batch of rebalances that are not over on the last day."""
    return day + timedelta(days=1)
