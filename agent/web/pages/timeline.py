"""The timeline of a group: a lane per member with its statuses, and incidents as brackets. Pure.

Positions are shares of the window's width, in percent, so one drawing fits every screen and zooms
without a new one. A member is *not observed* before its first record, and after its source was
lost. Nothing is drawn once it has left the group.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from aggregation.explain.incident_words import summarize
from aggregation.incidents.answers import IncidentAnswer
from aggregation.rebalances.segments import member_of
from metrics.model.sample import Outcome, Sample, SampleKind, Scope, format_time, parse_time
from metrics.model.snapshot import MemberRow
from metrics.model.status import RebalanceStatus

NONE = RebalanceStatus.NONE
WINDOWS_MIN = (5, 15, 60, 360, 1440)
DEFAULT_MIN = 15
_USED_SHARE = 0.9
"""The shown time takes this part of a window, so that it does not begin at the edge."""
MAX_BARS = 1_200
"""Bars of one page; shorter ones of a busy lane are drawn as one."""
BRACKET_ROWS = 10
_LEAST = 0.15
"""Least width of a bar, in percent: it must be seen."""
_LETTER, _PADDING = 0.7, 1.5
"""Widths of a letter and of a label's margins on a wide screen, in percent."""
NARROW = 8.0
"""Width in percent. A narrower bracket has its label beside it even if there is no room."""
_STEPS_S = (10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600)
_TICKS_MAX = 7


class Piece(NamedTuple):
    """A member's status over a time; None: it was not observed. Instants are Unix seconds."""

    status: RebalanceStatus | None
    start_at: float
    end_at: float
    reason: str | None = None
    is_open: bool = False
    number: int = 1
    """Number of statuses that it stands for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Period of a timeline. Instants are Unix seconds."""

    start_at: float
    end_at: float

    def share(self, at: float) -> float:
        """Return the position of an instant, in percent."""
        share = (at - self.start_at) / (self.end_at - self.start_at)
        return round(100 * min(1.0, max(0.0, share)), 3)

    def width(self, start_at: float, end_at: float) -> float:
        """Return the width of a time, in percent."""
        return round(max(_LEAST, self.share(end_at) - self.share(start_at)), 3)

    def touches(self, start_at: float, end_at: float) -> bool:
        """Check that a time lies in the window, at least in part."""
        return start_at < self.end_at and end_at >= self.start_at


@dataclass(slots=True, kw_only=True)
class Lane:
    """One member. ``row`` is its present state; None: it is not in the group any more."""

    client_id: str
    host: str
    scope: Scope
    pieces: list[Piece] = field(default_factory=list)
    row: MemberRow | None = None

    @property
    def status(self) -> RebalanceStatus:
        """The present status."""
        return NONE if self.row is None else self.row.status

    @property
    def seconds(self) -> float:
        """Time above 0 within the window."""
        return sum(each.end_at - each.start_at for each in self.pieces if each.status)


class Bracket(NamedTuple):
    """An incident in the timeline: its row, its begin and its end."""

    incident: IncidentAnswer
    row: int
    start_at: float
    end_at: float
    is_late: bool
    """Its label ends with it, as there is no room to the right."""
    is_narrow: bool
    """Its label is beside it, as there is no room within."""
    label_at: float
    """Place of its label's begin, or of its end if late."""
    has_label: bool
    """Of too many at once, the last ones have none."""


class TimeMark(NamedTuple):
    """A mark on the axis of time."""

    at: float
    share: float


def parse_minutes(wanted: str) -> int | None:
    """Return the requested window if it exists."""
    return next((each for each in WINDOWS_MIN if str(each) == wanted), None)


def choose_minutes(last_at: float | None, now: float) -> int:
    """Return the shortest window up to now with an instant in it; the default without one."""
    if last_at is None:
        return DEFAULT_MIN
    age_min = (now - last_at) / 60 / _USED_SHARE
    return next((each for each in WINDOWS_MIN if each >= age_min), DEFAULT_MIN)


def find_lanes(
    records: Iterable[Sample],
    rows: Iterable[tuple[Scope, MemberRow]],
    window: Window,
    now: float,
) -> list[Lane]:
    """Return a lane for each member, the busiest first."""
    moves: dict[tuple[Scope, str, str, int], list[Sample]] = defaultdict(list)
    twins: dict[str, int] = {}
    for record in sorted(records, key=lambda each: (each.ts, each.seq)):
        is_member = record.scope in {Scope.CONSUMER, Scope.STREAMS}
        if is_member and record.kind in {SampleKind.TRANSITION, SampleKind.LOST}:
            number = twins[record.member_id or record.episode or ""] = member_of(record).twin
            moves[record.scope, record.client_id or "", record.host, number].append(record)
    present = {
        (scope, row.client_id, row.host, twins.get(row.member_id or "", 0)): row
        for scope, row in rows
    }
    lanes = []
    for key in moves.keys() | present.keys():
        scope, client_id, host, number = key
        row = present.get(key)
        pieces = list(_pieces(moves[key], row, min(now, window.end_at)))
        kept = [_clip(each, window) for each in pieces if _is_in(each, window)]
        if kept or row is not None:
            place = f"{host} ({number + 1})".strip() if number else host
            lanes.append(Lane(client_id=client_id, host=place, scope=scope, pieces=kept, row=row))
    return sorted(lanes, key=lambda lane: (-lane.status, -lane.seconds, lane.client_id, lane.host))


def find_brackets(incidents: Iterable[IncidentAnswer], window: Window, now: float) -> list[Bracket]:
    """Return the incidents in the window, in rows without overlap."""
    brackets: list[Bracket] = []
    taken: list[list[tuple[float, float]]] = []
    for incident in sorted(incidents, key=lambda each: each.started_at):
        start_at = parse_time(incident.started_at)
        end_at = now if incident.ended_at is None else parse_time(incident.ended_at)
        if not window.touches(start_at, end_at):
            continue
        left, right = window.share(start_at), window.share(end_at)
        room = _LETTER * len(summarize(incident)) + _PADDING
        is_narrow = not incident.ongoing and _is_too_narrow(left, right, room)
        from_share, until_share = (right, left) if is_narrow else (left, right)
        is_late = from_share + room > 100
        ends = (min(left, until_share - room), right), (left, max(right, from_share + room))
        span = ends[0] if is_late else ends[1]
        row = next((n for n, spans in enumerate(taken) if _is_free(spans, span)), len(taken))
        has_label = row < BRACKET_ROWS
        if row == len(taken) and has_label:
            taken.append([])
        row = min(row, BRACKET_ROWS - 1)
        taken[row].append(span)
        label_at = end_at if is_narrow != is_late else start_at
        brackets.append(
            Bracket(incident, row, start_at, end_at, is_late, is_narrow, label_at, has_label)
        )
    return brackets


def _is_too_narrow(left: float, right: float, room: float) -> bool:
    """Check that a label is better beside its bracket: it would cross the border."""
    has_room_beside = right + room <= 100 or left - room >= 0
    return right - left < (room if has_room_beside else NARROW)


def _is_free(spans: Iterable[tuple[float, float]], wanted: tuple[float, float]) -> bool:
    return all(end <= wanted[0] or start >= wanted[1] for start, end in spans)


def find_time_marks(window: Window) -> list[TimeMark]:
    """Return round instants, few enough for their labels."""
    length = window.end_at - window.start_at
    step = next((each for each in _STEPS_S if length / each <= _TICKS_MAX), _STEPS_S[-1])
    first = int(window.start_at // step + 1) * step
    instants = (float(first + n * step) for n in range(_TICKS_MAX + 1))
    return [TimeMark(at, window.share(at)) for at in instants if at < window.end_at]


def join_short(pieces: Sequence[Piece], limit: int) -> list[Piece]:
    """Return at most about ``limit`` pieces: across the smallest gaps neighbours become one."""
    bars = [each for each in pieces if each.status]
    others = [each for each in pieces if not each.status]
    if len(bars) <= limit:
        return list(pieces)
    gaps = sorted((b.start_at - a.end_at, n) for n, (a, b) in enumerate(pairwise(bars), 1))
    joined = {n for _, n in gaps[: len(bars) - limit]}
    out: list[Piece] = []
    for n, bar in enumerate(bars):
        out.append(_join(out.pop(), bar) if n in joined else bar)
    return [*others, *out]


def describe(piece: Piece) -> str:
    """Return a piece in words: status, begin, length, reason."""
    length = f"{piece.end_at - piece.start_at:.1f} s"
    at = format_time(piece.start_at)[11:19]
    if piece.status is None:
        return f"not observed, {at} UTC, {length}"
    name = f"{piece.status.value} {piece.status.label}"
    if piece.number > 1:
        return f"{piece.number} statuses, the highest {name}, {at} UTC, within {length}"
    so_far = " so far" if piece.is_open else ""
    return f"{name}, {at} UTC, {length}{so_far}" + (f": {piece.reason}" if piece.reason else "")


def _pieces(moves: Sequence[Sample], row: MemberRow | None, now: float) -> Iterator[Piece]:
    """Yield a member's pieces up to now, one after the other."""
    if not moves:
        yield Piece(None, float("-inf"), now if row is None else row.since_at)
        if row is not None:
            yield Piece(row.status, row.since_at, now, row.reason, is_open=True)
        return
    held: RebalanceStatus | None = None
    since_at, reason, is_gone = float("-inf"), None, False
    for move in moves:
        at = parse_time(move.ts)
        if at > since_at and not is_gone:
            yield Piece(held, since_at, min(at, now), reason)
        is_lost = move.kind is SampleKind.LOST
        held = None if is_lost else RebalanceStatus(move.to or 0)
        since_at, reason, is_gone = at, move.reason, move.outcome is Outcome.LEFT
    if now > since_at and not is_gone and (row is not None or held is None):
        yield Piece(held, since_at, now, reason, is_open=True)


def _is_in(piece: Piece, window: Window) -> bool:
    return window.touches(piece.start_at, piece.end_at)


def _clip(piece: Piece, window: Window) -> Piece:
    """Cut the unbounded begin of a time without a rebalance."""
    if piece.status or piece.start_at >= window.start_at:
        return piece
    return Piece(piece.status, window.start_at, *piece[2:])


def _join(one: Piece, other: Piece) -> Piece:
    highest = max(one, other, key=lambda each: each.status or NONE)
    return highest._replace(
        start_at=one.start_at,
        end_at=max(one.end_at, other.end_at),
        number=one.number + other.number,
        is_open=other.is_open,
    )
