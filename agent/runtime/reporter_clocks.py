"""Clocks of live reporters that differ from the agent's own: their bounds, and the correction.

Theory of operation. A log has the times of its client's host, traffic those of the agent. If they
differ, each event of a member has two times, and the tracker takes it for two. Cause and effect
bound the lead of a reporter's clock over the agent's:

- from below: an event is over when it arrives, so the lead is at least its time less the arrival's;
- from above: a client logs a response after it has passed, so the lead is at most the time in the
  log less that of the same response in traffic: a sync of one member id and generation, in a new
  protocol an assignment to reconcile.

The bounds are proofs, not estimates, so a slow reader or a slow client moves nothing. If both allow
the right time, the times stay as they are. Otherwise they are corrected by the upper bound. The
lower one, with a delay of the arrival, counts until there is an upper one, and where that one is
far: a client that polls slowly raises it.

A clock may step. Evidence against an older bound drops that bound.
"""

import logging
from collections.abc import Sequence
from itertools import islice
from typing import Any

import msgspec
from msgspec.structs import replace

from agent.runtime.clock_alignment import shift_signal
from metrics.model.signals import Signal, SignalKind, SourceKind
from metrics.model.status import RebalanceStatus
from metrics.tracking.source_traits import FILE_SOURCES, POLL_SOURCES, PROTOCOL_SOURCES

_MIN_S = 1.0
"""Leads that are left alone: the tracker tolerates twice as much between two sources."""
_DELAY_S = 1.0
"""Delay of an arrival that is assumed where no response shows it. The tracker takes a report that
is late for one of a past rebalance, and one that is early for another rebalance's."""
_BUFFERED_S = 15.0
"""Maximum delay of a writer that buffers: with a larger distance the upper bound is a slow poll."""
_STEP_S = 60.0
"""A live event that is so much older than the lower bound allows shows that the clock was set."""
_MAX_LEAD_S = 26 * 3_600.0
"""Beyond the zones of this world a time is garbage and shows no clock."""
_CLOCKS_MAX = 10_000
_MEMBERS_MAX = 2_000
"""Members with responses that wait for the other source's."""
_RESPONSES_MAX = 8
"""Responses to one member that wait."""
_OWN = PROTOCOL_SOURCES | POLL_SOURCES
"""Sources with the agent's own clock."""

_RESPONSE_SOURCES = PROTOCOL_SOURCES | FILE_SOURCES
"""Traffic, and the logs of clients."""

_log = logging.getLogger(__name__)

CLASSIC = "classic"

_Reporter = tuple[SourceKind, str]
_MemberId = tuple[str, str]
"""Group and member id."""


class ReporterClock(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Bounds of the lead of one reporter's clock over the agent's, in seconds."""

    source: SourceKind
    origin: str
    low: float | None = None
    high: float | None = None

    @property
    def lead_s(self) -> float:
        """The lead that is corrected; 0: the clock may be right."""
        low, high = self.low, self.high
        if high is not None and high < -_MIN_S:
            return high
        if low is None or low <= _MIN_S:
            return 0.0
        return low + _DELAY_S if high is None or high > low + _BUFFERED_S else high

    def raise_low(self, lead_s: float, *, is_live: bool) -> None:
        """Take the lead that an arrival shows; ``is_live``: it was written a moment ago."""
        if self.high is not None and lead_s > self.high + _MIN_S:
            self.high = None
        is_set = is_live and self.low is not None and lead_s < self.low - _STEP_S
        if self.low is None or lead_s > self.low or is_set:
            self.low = lead_s

    def lower_high(self, lead_s: float) -> None:
        """Take the lead that a response shows."""
        if self.low is not None and lead_s < self.low - _MIN_S:
            self.low = None
        if self.high is None or lead_s < self.high:
            self.high = lead_s


class _ReportedResponse(msgspec.Struct, frozen=True):
    """A response that waits for the other source's report of it."""

    at: float
    generation: int | None
    reporter: _Reporter


class ReporterClocks:
    """Signals of all reporters get the agent's time."""

    def __init__(self) -> None:
        self.is_active = False
        """Whether there are sources to compare; a single one keeps its times."""
        self._clocks: dict[_Reporter, ReporterClock] = {}
        self._traffic: dict[_MemberId, list[_ReportedResponse]] = {}
        self._logged: dict[_MemberId, list[_ReportedResponse]] = {}

    def state(self) -> list[ReporterClock]:
        """Return the clocks that differ, for a checkpoint."""
        return [clock for clock in self._clocks.values() if clock.lead_s]

    def restore(self, state: Sequence[ReporterClock]) -> None:
        """Restore a `state`."""
        self._clocks = {(clock.source, clock.origin): clock for clock in state}

    def correct(self, signals: Sequence[Signal], now: float, *, is_live: bool) -> list[Signal]:
        """Return the signals in the agent's time. ``now`` is their arrival, in Unix seconds.

        ``is_live`` is false while a source reads a backlog.
        """
        if not self.is_active:
            return [*signals]
        for signal in signals:
            if signal.source not in _OWN:
                self._observe_arrival(signal, now, is_live=is_live)
            if _shows_response(signal):
                self._observe_response(signal)
        return [self._shift(signal) for signal in signals]

    def _shift(self, signal: Signal) -> Signal:
        clock = self._clocks.get((signal.source, signal.member.origin))
        lead_s = 0.0 if clock is None else clock.lead_s
        if not lead_s:
            return signal
        return replace(shift_signal(signal, lead_s), shift_s=signal.shift_s + lead_s)

    def _observe_arrival(self, signal: Signal, now: float, *, is_live: bool) -> None:
        lead_s = signal.at - now
        if lead_s > _MAX_LEAD_S:
            return
        reporter = (signal.source, signal.member.origin)
        clock = self._clocks.get(reporter)
        if clock is None and lead_s <= _MIN_S:
            return
        clock = clock or self._add(reporter)
        before = clock.lead_s
        clock.raise_low(lead_s, is_live=is_live)
        _report(clock, before)

    def _observe_response(self, signal: Signal) -> None:
        """Compare a response with the other source's report of it, or let it wait for that."""
        member = (signal.member.group, signal.member.member_id or "")
        reporter = (signal.source, signal.member.origin)
        response = _ReportedResponse(signal.at, signal.generation, reporter)
        is_traffic = signal.source in PROTOCOL_SOURCES
        own, others = self._traffic, self._logged
        if not is_traffic:
            own, others = others, own
        other = _take_same(others.get(member, []), response)
        if other is not None:
            self._compare(*((other, response) if is_traffic else (response, other)))
        elif is_traffic or _has_generation(signal):
            own.setdefault(member, []).append(response)
            del own[member][:-_RESPONSES_MAX]
            _bound(own, _MEMBERS_MAX)

    def _compare(self, logged: _ReportedResponse, traffic: _ReportedResponse) -> None:
        lead_s = logged.at - traffic.at
        clock = self._clocks.get(logged.reporter)
        if abs(lead_s) > _MAX_LEAD_S or (clock is None and lead_s >= -_MIN_S):
            return
        clock = clock or self._add(logged.reporter)
        before = clock.lead_s
        clock.lower_high(lead_s)
        _report(clock, before)

    def _add(self, reporter: _Reporter) -> ReporterClock:
        clock = self._clocks[reporter] = ReporterClock(source=reporter[0], origin=reporter[1])
        _bound(self._clocks, _CLOCKS_MAX)
        return clock


def _shows_response(signal: Signal) -> bool:
    """Return whether a client reads a response that traffic and its log show."""
    if not signal.member.member_id or signal.source not in _RESPONSE_SOURCES:
        return False
    if signal.member.group_type == CLASSIC:
        return signal.kind is SignalKind.SYNC
    return signal.status is RebalanceStatus.COORDINATOR_REQUESTED


def _has_generation(signal: Signal) -> bool:
    """Return whether member id and generation are one event; an epoch may have several."""
    return signal.member.group_type == CLASSIC and signal.generation is not None


def _take_same(
    responses: list[_ReportedResponse], response: _ReportedResponse
) -> _ReportedResponse | None:
    """Remove and return the report of the same response; the ones before it have no other report.

    If there are several, it is the oldest one: a bound that is too high is one.
    """
    for number, other in enumerate(responses):
        if None in {other.generation, response.generation} or (
            other.generation == response.generation
        ):
            del responses[: number + 1]
            return other
    return None


def _bound(entries: dict[Any, Any], limit: int) -> None:
    for key in list(islice(entries, max(0, len(entries) - limit))):
        del entries[key]


def _report(clock: ReporterClock, before: float) -> None:
    """Log a correction that begins, ends or changes by more than its noise."""
    after = clock.lead_s
    if abs(after - before) > _MIN_S:
        keys = {"source": clock.source, "origin": clock.origin, "ahead_s": round(after, 1)}
        hint = "its times are corrected to this agent's; set the clock of its host"
        _log.warning("clock_differs", extra=keys | {"hint": hint})
