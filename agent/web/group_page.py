"""The page of one group: explanation, timeline with a lane per member, recommendations. No script.

The timeline is SVG, drawn from the records that the API explains, in the colours of the codes. Each
bar has a title, and a table holds the same facts, so the page needs neither sight nor a mouse.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

from agent.hub.recent_records import RecentRecords
from agent.web.html import STYLE, cells, page, status_cell, visible
from aggregation.explain.explanation import (
    Explanation,
    GroupRebalance,
    explain,
    explain_unobserved,
    explanations,
    partitions,
    span,
)
from aggregation.explain.explanation import records as counted
from metrics.model.palette import ON_LIGHT
from metrics.model.sample import Sample, SampleKind, Scope, format_time, parse_time
from metrics.model.snapshot import Snapshot
from metrics.model.status import BY_LABEL, RebalanceStatus

DEFAULT_MIN = 15
WINDOWS_MIN = (5, 15, 60, 360, 1440)
LAST = 50
"""Rebalances that the page explains."""
MAX_LANES = 100
"""Lanes of a timeline, for the busiest members; the page shows the number of the others."""

NONE = RebalanceStatus.NONE
_NAME_PX, _WIDTH_PX, _LANE_PX, _HEAD_PX = 260, 1000, 22, 20
_TICKS = 5


def parse_minutes(wanted: str) -> int:
    """Return the requested window if it exists, else the default."""
    return next((each for each in WINDOWS_MIN if str(each) == wanted), DEFAULT_MIN)


class Bar(NamedTuple):
    """A member held a status. Instants are Unix seconds."""

    status: RebalanceStatus
    start_at: float
    end_at: float
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Period of a timeline: ``minutes`` up to ``end_at`` (Unix seconds)."""

    end_at: float
    minutes: int = DEFAULT_MIN

    @property
    def start_at(self) -> float:
        """Unix seconds."""
        return self.end_at - 60 * self.minutes

    def x(self, at: float) -> float:
        """Return the position of an instant on the timeline."""
        share = (at - self.start_at) / (self.end_at - self.start_at)
        return _NAME_PX + min(1.0, max(0.0, share)) * (_WIDTH_PX - _NAME_PX)


def group_page(group: str, history: RecentRecords, shown: Snapshot, minutes: int) -> str:
    """Return the page of a group at the instant of a snapshot, from its records."""
    records = history.records(group)
    told = explanations(history.episodes(records, shown.at), LAST, None)
    told = told or explain_unobserved(group, shown) or [explain("", group, [])]
    return render_group(group, told, records, Window(end_at=shown.at, minutes=minutes))


def render_group(group: str, told: Sequence[Explanation], records: list[Sample], w: Window) -> str:
    """Return the whole page as HTML; all external text is escaped."""
    answers = "".join(f"<p>{escape(visible(each.answer))}</p>" for each in told)
    happened = [each for answer in told for each in answer.happened]
    advice = dict.fromkeys(text for answer in told for text in answer.advice)
    return page(
        f"{visible(group)} · kafka-rebalance-agent",
        STYLE,
        f'<p><a href="/">all groups</a></p><h1>{escape(visible(group))}</h1>{answers}'
        + _windows(w)
        + timeline(lanes(records, w), w)
        + _legend()
        + _table(happened)
        + _advice(list(advice)),
    )


def lanes(records: Sequence[Sample], w: Window) -> dict[str, list[Bar]]:
    """Return each member's bars within the window, by name."""
    moves: dict[str, list[Sample]] = defaultdict(list)
    for record in sorted(records, key=lambda each: (each.ts, each.seq)):
        if record.kind in {SampleKind.TRANSITION, SampleKind.LOST} and _is_lane(record):
            moves[f"{record.client_id} {record.host}".strip()].append(record)
    return {name: _bars(found, w) for name, found in sorted(moves.items())}


def timeline(found: dict[str, list[Bar]], w: Window) -> str:
    """Return the lanes as SVG."""
    busiest = sorted(found, key=lambda name: (-len(found[name]), name))[:MAX_LANES]
    names = sorted(busiest)
    height = _HEAD_PX + _LANE_PX * max(1, len(names))
    drawn = "".join(
        _lane(name, found[name], _HEAD_PX + _LANE_PX * row, w) for row, name in enumerate(names)
    )
    left_out = len(found) - len(names)
    more = f"<p>{left_out} quieter members are not drawn.</p>" if left_out else ""
    title = f"Status of {len(names)} members over the last {w.minutes} minutes"
    return (
        f'<h2>Timeline</h2><div class="scroll" tabindex="0" role="region" aria-label="{title}">'
        f'<svg viewBox="0 0 {_WIDTH_PX} {height}" role="img" aria-label="{title}">'
        f"{_axis(height, w)}{drawn}</svg></div>{more}"
    )


def _is_lane(record: Sample) -> bool:
    return record.scope in {Scope.CONSUMER, Scope.STREAMS}


def _bars(moves: Sequence[Sample], w: Window) -> list[Bar]:
    bars, held, since_at, reason = list[Bar](), NONE, w.start_at, None
    for move in moves:
        at = parse_time(move.ts)
        bars += [Bar(held, since_at, at, reason)] if held and at > w.start_at else []
        held, since_at, reason = RebalanceStatus(move.to or 0), at, move.reason
    bars += [Bar(held, since_at, w.end_at, reason)] if held else []
    return [bar for bar in bars if bar.start_at < w.end_at]


def _lane(name: str, bars: Sequence[Bar], y: int, w: Window) -> str:
    middle = y + _LANE_PX / 2
    label = escape(visible(name if len(name) <= 36 else f"{name[:35]}…"))
    return (
        f'<text x="{_NAME_PX - 8}" y="{middle + 4}" text-anchor="end">{label}'
        f"<title>{escape(visible(name))}</title></text>"
        f'<line x1="{_NAME_PX}" x2="{_WIDTH_PX}" y1="{middle}" y2="{middle}"/>'
        + "".join(_bar(bar, y, w) for bar in bars)
    )


def _bar(bar: Bar, y: int, w: Window) -> str:
    left, right = w.x(bar.start_at), w.x(bar.end_at)
    told = f"{bar.status.value} {bar.status.label}, {bar.end_at - bar.start_at:.1f} s"
    words = visible(f"{told}: {bar.reason}" if bar.reason else told)
    return (
        f'<rect x="{left:.1f}" y="{y + 3}" width="{max(2.0, right - left):.1f}"'
        f' height="{_LANE_PX - 6}" fill="{ON_LIGHT[bar.status]}">'
        f"<title>{escape(words)}</title></rect>"
    )


def _axis(height: int, w: Window) -> str:
    ticks = (w.start_at + n * (w.end_at - w.start_at) / _TICKS for n in range(_TICKS + 1))
    return "".join(
        f'<line x1="{w.x(at):.1f}" x2="{w.x(at):.1f}" y1="{_HEAD_PX - 4}" y2="{height}"/>'
        f'<text x="{w.x(at):.1f}" y="12" text-anchor="{_anchor(number)}">'
        f"{format_time(at)[11:19]}</text>"
        for number, at in enumerate(ticks)
    )


def _anchor(number: int) -> str:
    return {0: "start", _TICKS: "end"}.get(number, "middle")


def _windows(w: Window) -> str:
    links = (
        f"<b>{minutes} min</b>"
        if minutes == w.minutes
        else f'<a href="?minutes={minutes}">{minutes} min</a>'
        for minutes in WINDOWS_MIN
    )
    return f'<nav aria-label="Window of the timeline"><p>{" · ".join(links)} (UTC)</p></nav>'


def _legend() -> str:
    items = "".join(
        f'<li><span style="background:{ON_LIGHT[code]}"></span>{code.value} {code.label}</li>'
        for code in RebalanceStatus
        if code
    )
    return f'<ul class="legend">{items}</ul>'


def _table(happened: Sequence[GroupRebalance]) -> str:
    heads = ("cause", "start (UTC)", "duration", "member", "reason", "waited for", "cost", "left")
    body = "".join(f"<tr>{_row(each)}</tr>" for each in reversed(happened))
    head = cells("th", heads)
    return f"<h2>Rebalances, the latest first</h2><table><tr>{head}</tr>{body}</table>"


def _row(each: GroupRebalance) -> str:
    who = " on ".join(part for part in (each.client_id, each.host) if part) or "not seen"
    inferred = " (inferred)" if each.certainty == "inferred" else ""
    slow = "" if each.straggler is None else f"{each.straggler}, {each.waited_seconds:.1f} s"
    took = f"{each.seconds:.1f} s" + (" so far" if each.is_open else "")
    began = cells("td", ("unknown",)) if each.status is None else status_cell(BY_LABEL[each.status])
    at = each.ts[:19].replace("T", " ")
    departed = ", ".join(each.departures)
    why = each.reason or ""
    return began + cells("td", (at, took, f"{who}{inferred}", why, slow, _cost(each), departed))


def _cost(each: GroupRebalance) -> str:
    cost = f"{span(each.member_seconds)} of its members' time"
    if each.partitions_moved is not None:
        cost += f", {partitions(each.partitions_moved)} moved"
    return cost if each.lag is None else f"{cost}, {counted(each.lag)} behind"


def _advice(texts: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(text)}</li>" for text in texts)
    return f"<h2>What to do</h2><ul>{items}</ul>" if items else ""
