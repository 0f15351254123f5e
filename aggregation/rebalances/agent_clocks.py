"""Clocks of agents that see the same members: their offsets, and records without them. Pure.

Theory of operation. One member may have several agents: beside its log, on its connection, in the
brokers' logs. Member id and generation name one event, however far apart the clocks are. So each
event that two agents report shows their offset. Of a classic join that is the difference of the two
times of its request: a client logs it when it sends it, and a slow poll or a slow broker does not
delay it. One such join is a proof. The other events are an assignment, a target of a new protocol
and a leave; each can be reported late, so two must agree.

Offsets of two agents are read in order of time. A clock that is set shows another offset from the
first event behind the step on, or from the first assignment that fits the other offset alone
(`aggregation.rebalances.unnumbered_syncs`). If they contradict each other, the agent reads logs of
several clocks, and its records keep their times (`aggregation.rebalances.clock_steps` compares
members).

The right time is that of most agents; of as many, that of the wire. Smaller offsets than `MIN_S`
are left alone: networks and polls cause them, too. Ids of records do not depend on it.

Source: decision 0050.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from statistics import median
from typing import Any, NamedTuple

from msgspec.structs import replace

from aggregation.rebalances.segments import JOINED, is_unexplained
from aggregation.rebalances.unnumbered_syncs import NEAR_S, SyncTimes, UnnumberedSyncs
from metrics.model.sample import Outcome, Sample, SampleKind, Scope, format_time, parse_time
from metrics.model.status import RebalanceStatus
from metrics.tracking.source_traits import BROKER_SOURCES, PROTOCOL_SOURCES

MIN_S = 1.0
"""Least offset that is corrected."""
_SPREAD_S = NEAR_S
"""Offsets of one clock differ by less."""
_MOST = 0.75
"""Share of the events of two agents that must fit."""
_PROOFS = 2
"""Events that must agree, if none is a join with the times of its request."""
_KEPT = 8
"""Offsets of two agents that are kept while records arrive one by one."""
_PAIRS_MAX = 20_000
_EVENTS_MAX = 20_000
_AGENTS_MAX = 16
"""Agents of one event: a hostile one may have many names."""
_SAME_S = 0.1
"""Smaller changes of an offset are not followed while records arrive one by one."""
_WIRE, _BROKER = 1, 2
"""Distances from the client."""
_CLASSIC = "classic"
_REQUESTED = RebalanceStatus.COORDINATOR_REQUESTED

_Event = tuple[object, ...]
_Pair = tuple[str, str]


class ClockOffset(NamedTuple):
    """An event that two agents report. ``at`` is Unix seconds by the clock of ``agent``."""

    agent: str
    other: str
    at: float
    seconds: float
    """Seconds that the clock of ``agent`` is ahead of that of ``other``."""
    low: float | None = None
    """They are at least these, as far as cause and effect show it."""
    high: float | None = None
    """They are at most these."""
    is_proof: bool = False
    """One such event proves it."""
    on_wire: tuple[bool, bool] = (False, False)
    """Whether each of the two sees the wire."""
    is_hint: bool = False
    """It shows when a proven offset was in force."""

    @property
    def reverse(self) -> "ClockOffset":
        """The same offset, as the other agent has it."""
        return ClockOffset(
            self.other,
            self.agent,
            self.at - self.seconds,
            -self.seconds,
            None if self.high is None else -self.high,
            None if self.low is None else -self.low,
            self.is_proof,
            self.on_wire[::-1],
        )


class _EventReport(NamedTuple):
    """One agent's times of an event (Unix seconds)."""

    agent: str
    at: float
    joined_at: float | None
    distance: int
    """How far from the client it is seen: 0 in its log, 1 on the wire, 2 in a broker's log."""
    is_leave: bool
    is_of_client: bool
    """The leave of a dynamic classic member that its client has sent: no member id has two."""


class _OffsetSpan(NamedTuple):
    """An offset up to an instant by the agent's own clock, of the last span without a limit."""

    until: float
    seconds: float
    latest: float
    """The offset of the newest event, the same in all spans: a clock may have been set back."""


_Offsets = Mapping[_Pair, Sequence[ClockOffset]]
"""Offsets by the names of two agents."""


Spans = Mapping[str, Sequence[_OffsetSpan]]
"""Offsets of each agent by its own time."""
NO_SPANS: Spans = {}


class AgentClocks:
    """Offsets of agents, from records that arrive one by one or all at once."""

    def __init__(
        self,
        known: Iterable[ClockOffset] = (),
        kept: int | None = None,
        syncs: Iterable[SyncTimes] = (),
    ) -> None:
        """Start with what older records have shown; ``kept`` offsets are kept of two agents."""
        self._kept = kept
        self._syncs = UnnumberedSyncs(syncs, kept)
        self._offsets: dict[_Pair, deque[ClockOffset]] = {}
        self._events: dict[_Event, dict[str, _EventReport]] = {}
        self._joins: dict[tuple[str, str, str | None], float] = {}
        """Time of the last join request by agent, group and member id."""
        self._spans: dict[_Pair, Sequence[_OffsetSpan]] = {}
        """By the names of two agents, for the first one; in both orders."""
        self._changed = set[_Pair]()
        """Pairs with offsets that are not in their spans yet."""
        self._leads: Spans = NO_SPANS
        for offset in known:
            self._add(offset)

    def state(self) -> list[ClockOffset]:
        """Return the offsets, for a restart."""
        return [offset for found in self._offsets.values() for offset in found]

    def syncs(self) -> list[SyncTimes]:
        """Return the times of assignments without a generation, for a restart."""
        return self._syncs.state()

    def observe(self, record: Sample, agent: str | None = None) -> bool:
        """Take a record; return whether it shows an offset. ``agent`` replaces its own name."""
        name = record.agent if agent is None else agent
        if record.field == JOINED and record.joined_ts is not None:
            self._joins[name, record.group, record.member_id] = parse_time(record.joined_ts)
            _bound(self._joins, _EVENTS_MAX)
        self._changed.update(self._syncs.observe(record, name))
        event = _event_of(record)
        if event is None:
            return False
        own = _report_of(record, name, self._joins.get((name, record.group, record.member_id)))
        others = self._events.setdefault(event, {})
        if name in others or len(others) >= _AGENTS_MAX:
            return False
        for other in others.values():
            self._add(_compare(own, other))
        others[name] = own
        _bound(self._events, _EVENTS_MAX)
        return len(others) > 1

    def spans(self) -> Spans:
        """Return the offsets of all agents by time; a later event makes another value."""
        is_same = True
        for pair in self._changed & self._offsets.keys():
            found, before = self._find_spans(pair), self._spans.get(pair)
            if before is None or not _is_same(found, before):
                self._spans[pair], is_same = found, False
                self._spans[pair[::-1]] = self._find_spans(pair[::-1])
        self._changed.clear()
        if not is_same:
            self._spans = {
                pair: each
                for pair, each in self._spans.items()
                if (min(pair), max(pair)) in self._offsets
            }
            self._leads = _find_leads(self._offsets, self._spans)
        return self._leads

    def leads(self) -> dict[str, float]:
        """Return the present lead of each agent whose clock is wrong, in seconds."""
        found = {agent: spans[-1].latest for agent, spans in self.spans().items()}
        return {agent: seconds for agent, seconds in found.items() if seconds}

    def _find_spans(self, pair: _Pair) -> list[_OffsetSpan]:
        """Return the offsets of an agent to another one, by the first one's time."""
        found: Iterable[ClockOffset] = self._offsets[min(pair), max(pair)]
        if pair[0] > pair[1]:
            found = [offset.reverse for offset in found]
        spans = _find_spans(list(found))
        offsets = [span.seconds for span in spans if abs(span.seconds) >= MIN_S]
        hints = [
            ClockOffset(*pair, hint.at, hint.seconds, is_hint=True)
            for hint in self._syncs.find_hints(*pair, [0.0, *offsets] if offsets else [])
        ]
        return _find_spans([*found, *hints]) if hints else spans

    def _add(self, offset: ClockOffset) -> None:
        if offset.agent > offset.other:
            offset = offset.reverse
        pair = offset.agent, offset.other
        found = self._offsets.get(pair)
        if found is None:
            found = self._offsets[pair] = deque(maxlen=self._kept)
            _bound(self._offsets, _PAIRS_MAX)
        found.append(offset)
        self._changed.add(pair)


def _event_of(record: Sample) -> _Event | None:
    """Return the name of an event of a member, the same for all agents; None: it has none."""
    is_unseen = record.kind is SampleKind.SIGNAL and is_unexplained(record.reason)
    is_move = record.kind is SampleKind.TRANSITION or is_unseen
    if record.member_id is None or not is_move or record.scope is not Scope.CONSUMER:
        return None
    member = record.group, record.member_id
    if record.outcome is Outcome.LEFT:
        return *member, Outcome.LEFT
    if record.generation is None:
        return None
    if record.outcome is Outcome.SYNCED or is_unseen:
        return *member, Outcome.SYNCED, record.generation
    # a broker changes a target long before its member's next heartbeat
    is_target = record.group_type != _CLASSIC and record.to == _REQUESTED
    is_seen = is_target and record.source not in BROKER_SOURCES
    return (*member, _REQUESTED, record.generation) if is_seen else None


def _report_of(record: Sample, agent: str, joined_at: float | None) -> _EventReport:
    """Return an agent's times of an event; ``joined_at`` is that of the last request before it."""
    source = record.source
    is_dynamic = record.group_type == _CLASSIC and record.group_instance_id is None
    return _EventReport(
        agent=agent,
        at=parse_time(record.ts),
        joined_at=joined_at if record.joined_ts is None else parse_time(record.joined_ts),
        distance=_BROKER if source in BROKER_SOURCES else int(source in PROTOCOL_SOURCES),
        is_leave=record.outcome is Outcome.LEFT,
        is_of_client=is_dynamic and source not in BROKER_SOURCES,
    )


def _compare(own: _EventReport, other: _EventReport) -> ClockOffset:
    """Return the offset of two agents by an event, with the agent that is nearer the client first.

    A client prints its request before it passes the wire, and a response afterwards.
    """
    if other.distance < own.distance:
        own, other = other, own
    apart = own.at - other.at
    join = None
    if own.joined_at is not None and other.joined_at is not None:
        join = own.joined_at - other.joined_at
    offset = ClockOffset(
        own.agent,
        other.agent,
        own.at,
        apart if join is None else join,
        is_proof=join is not None,
        on_wire=(own.distance == _WIRE, other.distance == _WIRE),
    )
    if own.distance == other.distance:
        return offset
    if own.is_leave:
        return offset._replace(low=apart, is_proof=own.is_of_client and other.is_of_client)
    # kafka-python prints a join at its response
    return offset._replace(seconds=min(offset.seconds, apart), low=join, high=apart)


def _find_leads(
    offsets: _Offsets, spans: Mapping[_Pair, Sequence[_OffsetSpan]]
) -> dict[str, Sequence[_OffsetSpan]]:
    """Return the leads of all agents that are compared with others."""
    edges: dict[str, dict[str, Sequence[_OffsetSpan]]] = defaultdict(dict)
    single = _find_single(offsets)
    on_wire: set[str] = set()
    for (agent, other), found in offsets.items():
        own, reverse = spans[agent, other], spans[other, agent]
        on_wire |= {
            name for name, is_wire in zip((agent, other), found[0].on_wire, strict=True) if is_wire
        }
        # events in the order of the other clock may contradict each other
        if own and reverse and _is_proven(found, single):
            edges[agent][other], edges[other][agent] = own, reverse
    leads: dict[str, Sequence[_OffsetSpan]] = {}
    for agent in edges:
        if agent not in leads:
            found_leads = _walk(agent, edges)
            root = _choose_right(found_leads, on_wire)
            leads |= found_leads if root == agent else _walk(root, edges)
    return {agent: [_without_noise(span) for span in spans] for agent, spans in leads.items()}


def _is_same(one: Sequence[_OffsetSpan], other: Sequence[_OffsetSpan]) -> bool:
    return len(one) == len(other) and all(
        abs(a.seconds - b.seconds) < _SAME_S and abs(a.latest - b.latest) < _SAME_S
        for a, b in zip(one, other, strict=True)
    )


def _find_single(offsets: _Offsets) -> dict[str, list[float]]:
    """Return the offset of each agent to every other one that has one event in common with it."""
    found: dict[str, list[float]] = defaultdict(list)
    for each in offsets.values():
        if len(each) == 1:
            found[each[0].agent].append(each[0].seconds)
            found[each[0].other].append(-each[0].seconds)
    return found


def _is_proven(found: Sequence[ClockOffset], single: Mapping[str, Iterable[float]]) -> bool:
    """Check that two events agree, or one with another agent's, or one is a proof."""
    if len(found) >= _PROOFS or found[0].is_proof:
        return True
    own = found[0]
    return any(
        sum(abs(seconds - ahead_s) <= _SPREAD_S for seconds in single[agent]) >= _PROOFS
        for agent, ahead_s in ((own.agent, own.seconds), (own.other, -own.seconds))
    )


def _walk(
    root: str, edges: Mapping[str, Mapping[str, Sequence[_OffsetSpan]]]
) -> dict[str, list[_OffsetSpan]]:
    """Return the leads over the clock of ``root`` of all agents that are compared with it."""
    found = {root: [_OffsetSpan(float("inf"), 0.0, 0.0)]}
    waiting = deque([root])
    while waiting:
        known = waiting.popleft()
        for agent in edges[known]:
            if agent not in found:
                found[agent] = [*_add_spans(edges[agent][known], found[known])]
                waiting.append(agent)
    return found


def _add_spans(own: Iterable[_OffsetSpan], others: Sequence[_OffsetSpan]) -> Iterator[_OffsetSpan]:
    """Yield an agent's leads over the root, from those over another agent and that one's."""
    for span in own:
        index = bisect_left(others, span.until - span.seconds, key=lambda each: each.until)
        other = others[min(index, len(others) - 1)]
        yield _OffsetSpan(span.until, span.seconds + other.seconds, span.latest + other.latest)


def _choose_right(leads: Mapping[str, Sequence[_OffsetSpan]], on_wire: Container[str]) -> str:
    """Return an agent with the time of most; of as many, one on the wire."""
    latest = {agent: spans[-1].latest for agent, spans in leads.items()}
    ordered = sorted(latest.values())

    def rank(agent: str) -> tuple[int, bool, str]:
        seconds = latest[agent]
        near = bisect_right(ordered, seconds + MIN_S) - bisect_left(ordered, seconds - MIN_S)
        return -near, agent not in on_wire, agent

    return min(latest, key=rank)


def _without_noise(span: _OffsetSpan) -> _OffsetSpan:
    seconds, latest = (each if abs(each) >= MIN_S else 0.0 for each in (span.seconds, span.latest))
    return _OffsetSpan(span.until, seconds, latest)


def _find_spans(found: Sequence[ClockOffset]) -> list[_OffsetSpan]:
    """Return the offsets of two agents in order of time; none if they contradict each other."""
    proofs = [each for each in found if each.is_proof]
    shown = proofs or [each for each in found if not each.is_hint]
    hints = [each for each in found if each.is_hint]
    each_of = sorted([*shown, *hints], key=lambda each: each.at)
    spans: list[list[ClockOffset]] = []
    waiting: list[ClockOffset] = []
    fits = 0
    for offset in each_of:
        if spans and _is_near(offset, spans[-1]):
            spans[-1].append(offset)
            waiting, fits = [], fits + 1
            continue
        waiting = [*waiting, offset] if waiting and _is_near(offset, waiting) else [offset]
        if len(waiting) >= min(_PROOFS, len(shown)):
            spans.append(waiting)
            waiting, fits = [], fits + len(spans[-1])
    if fits < _MOST * len(each_of):
        return []
    seconds = [_estimate(each) for each in spans]
    ends = [
        _find_end(each[-1].at, following[0].at, after_s - before_s)
        for (each, following), (before_s, after_s) in zip(
            pairwise(spans), pairwise(seconds), strict=True
        )
    ]
    newest = max(range(len(spans)), key=lambda number: max(map(_reported_at, spans[number])))
    return [
        _OffsetSpan(until, own, seconds[newest])
        for until, own in zip([*ends, float("inf")], seconds, strict=True)
    ]


def _reported_at(offset: ClockOffset) -> float:
    """Return the later time of both agents: it rises although one of the clocks is set back."""
    return max(offset.at, offset.at - offset.seconds)


def _find_end(last_at: float, next_at: float, step_s: float) -> float:
    """Return the end of a span: a clock that is set ahead has no time within the step."""
    return last_at + max(0.0, min(step_s, (next_at - last_at) / 2))


def _estimate(found: Sequence[ClockOffset]) -> float:
    """Return the seconds of a span: the median, within the bounds if these agree.

    So the events of a member keep their order.
    """
    middle = median(each.seconds for each in found)
    near = [each for each in found if abs(each.seconds - middle) <= _SPREAD_S]
    low = max((each.low for each in near if each.low is not None), default=middle)
    high = min((each.high for each in near if each.high is not None), default=max(low, middle))
    return min(max(middle, low), high) if low <= high else middle


def _is_near(offset: ClockOffset, others: Sequence[ClockOffset]) -> bool:
    middle = median(each.seconds for each in others[-_KEPT:])
    return abs(offset.seconds - middle) <= _SPREAD_S


def _bound(entries: dict[Any, Any], limit: int) -> None:
    for key in list(islice(entries, max(0, len(entries) - limit))):
        del entries[key]


class AlignedRecords(NamedTuple):
    """Records with the time of one clock, and the leads of agents that are taken out of them."""

    records: Sequence[Sample]
    leads: Mapping[str, float]
    """The latest of each agent with a wrong clock, in seconds."""


def align_agents(records: Iterable[Sample]) -> AlignedRecords:
    """Return the records with the times of a right clock."""
    found = list(records)
    agents = {record.agent for record in found}
    if len(agents) == 1:
        return AlignedRecords(found, {})
    clocks = AgentClocks()
    for record in found:
        clocks.observe(record)
    return AlignedRecords(
        correct_records(found, clocks.spans()),
        {agent: lead for agent, lead in clocks.leads().items() if agent in agents},
    )


def correct_records(records: Sequence[Sample], spans: Spans) -> Sequence[Sample]:
    """Return the records with the times of a right clock."""
    if not any(span.seconds for own in spans.values() for span in own):
        return records
    return [correct_record(record, spans, record.agent) for record in records]


def correct_record(record: Sample, spans: Spans, agent: str) -> Sample:
    """Return a record of an agent with the times of a right clock."""
    own = spans.get(agent)
    if not own:
        return record
    at = parse_time(record.ts)
    lead_s = own[min(bisect_left(own, at, key=_until), len(own) - 1)].seconds
    if not lead_s:
        return record
    joined = record.joined_ts
    return replace(
        record,
        ts=format_time(at - lead_s),
        joined_ts=None if joined is None else format_time(parse_time(joined) - lead_s),
    )


def _until(span: _OffsetSpan) -> float:
    return span.until
