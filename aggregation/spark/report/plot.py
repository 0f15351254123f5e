"""Figures of HTML and SVG that fit every width: one drawing for a wide and for a narrow screen.

Text is HTML, as large everywhere. Bars, dots and grids are paths in an SVG that is stretched to
the room between the texts. All places are in shares of that room, from 0 (left, top) to 1. Colours
that are CSS variables follow the page, light or dark. Labels come from clients: none is markup.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from math import floor, log, log10
from typing import NamedTuple

from markupsafe import Markup

LABEL_MAX_CHARS = 47
_NARROW_CHARS = 25
"""Most characters of a label on a narrow screen."""
PARTS = " · "
"""Between the parts of a label: each is shortened by itself."""
TOP = 12
"""Limit of groups or members in a plot; the table has them all."""
_TICKS = 7
"""Most ticks of an axis."""
_NARROW_ROOM = 0.3
"""Least distance of their texts on a narrow screen."""
_MARKS_ROOM = 0.08
"""Marks that are nearer to each other have one text: two digits and a dash on a narrow screen."""
_DAY_TICKS = 10
"""The same for labels as short as a day's."""
_SLOTS = 12
"""Columns of fewer days are not drawn wider than columns of this many days."""
_BAR = 0.66
"""Height of a bar in its lane's, and below, width of a column in its slot's."""
_COLUMN = 0.8
_LANE_REM = 1.6
_MANY_H = 100
_STEPS_S = (
    *(0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800),
    *(3600 * hours for hours in (1, 2, 4, 6, 12, 24, 48, 120, 240, 480, 1000, 2500, 5000, 10000)),
)
_LOG_S = (
    *(0.001, 0.01, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800),
    *(3600 * hours for hours in (1, 2, 5, 12, 24, 72, 240, 1000, 5000, 20000, 100000)),
)
ACCENT = "var(--accent)"
_CONTROL = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff\ufffe\uffff]+"
)


class AxisTick(NamedTuple):
    """A text at a place of an axis."""

    at: float
    text: str


class Axis(NamedTuple):
    """An axis of values from 0."""

    end: float
    """Its highest value."""
    ticks: Sequence[AxisTick]


class Bar(NamedTuple):
    """A horizontal bar of one or several parts."""

    label: str
    parts: Sequence[tuple[str, float]]
    """Colours and lengths, in the unit of the axis."""
    value: str
    """Text behind the bar."""


class Panel(NamedTuple):
    """Stacked columns above a common axis of days."""

    title: str
    layers: Sequence[tuple[str, Sequence[float]]]
    """Colours and a height for each day, the lowest layer first."""
    height_rem: float


class Box(NamedTuple):
    """A rectangle: its corner at the left and top, width and height."""

    left: float
    top: float
    width: float
    height: float


def time_axis(longest_s: float) -> Axis:
    """Return an axis with ticks at round times: at 15 min, not at 16.7."""
    longest_h = longest_s / 3600
    fitting = (step for step in _STEPS_S if longest_s / step <= _TICKS)
    step = _round_step(longest_s) if longest_s < 1 else next(fitting, 3600 * _round_step(longest_h))
    return _axis(longest_s, step, format_seconds)


def count_axis(most: float) -> Axis:
    """Return an axis with ticks at whole numbers, with separated thousands."""
    return _axis(max(most, 1), max(_round_step(most), 1), lambda value: f"{value:,.0f}")


def share_axis(most: float) -> Axis:
    """Return an axis of shares with ticks at round percentages."""
    return _axis(most, _round_step(most), lambda value: f"{100 * value:.3g} %")


def log_time_axis(shortest_s: float, longest_s: float) -> tuple[float, float, Sequence[AxisTick]]:
    """Return the ends of a logarithmic axis, both at round times, and its ticks."""
    first = max((s for s in _LOG_S if s < shortest_s), default=_LOG_S[0])
    last = min((s for s in _LOG_S if s > longest_s), default=max(longest_s, _LOG_S[-1]))
    times = [s for s in _LOG_S if first <= s <= last]
    shown = times[:: len(times) // (_TICKS + 1) + 1]
    return first, last, [AxisTick(log_share(s, first, last), format_seconds(s)) for s in shown]


def log_share(value: float, first: float, last: float) -> float:
    """Return the place of a value on a logarithmic axis; one beyond an end is at that end."""
    return log(min(max(value, first), last) / first) / log(last / first)


def _round_step(most: float) -> float:
    """Return the smallest of 1, 2 or 5 times a power of ten that makes no more ticks than fit."""
    least = (most or 1) / _TICKS
    power = 10.0 ** floor(log10(least))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= least * (1 - 1e-9))


def _axis(end: float, step: float, text: Callable[[float], str]) -> Axis:
    values = [n * step for n in range(floor(end / step * (1 + 1e-9)) + 1)]
    return Axis(end, [AxisTick(value / end, text(value)) for value in values])


def boxes(colour: str, places: Iterable[Box]) -> Markup:
    """Draw rectangles of a colour; those without width or height are left out."""
    path = "".join(
        f"M{_at(p.left)} {_at(p.top)}h{_at(p.width)}v{_at(p.height)}h-{_at(p.width)}z"
        for p in places
        if p.width > 0 and p.height > 0
    )
    return Markup('<path class="box" fill="{}" d="{}"/>').format(colour, path)


def strokes(
    kind: str, width_px: float, lines: Iterable[tuple[float, float, float, float]]
) -> Markup:
    """Draw lines of a class, each from x, y to x, y; one of no length is a dot."""
    path = "".join(f"M{_at(x)} {_at(y)}L{_at(to_x)} {_at(to_y)}" for x, y, to_x, to_y in lines)
    return Markup('<path class="{}" stroke-width="{}" d="{}"/>').format(kind, width_px, path)


def _at(share: float) -> str:
    return f"{1000 * share:.4g}"


def bars(rows: Sequence[Bar], axis: Axis, title: str = "") -> Markup:
    """Return horizontal bars, the first on top, and a grid along the values."""
    places: dict[str, list[Box]] = {}
    for lane, row in enumerate(rows):
        left = 0.0
        for colour, length in row.parts:
            width = length / axis.end
            top, height = (lane + (1 - _BAR) / 2) / len(rows), _BAR / len(rows)
            places.setdefault(colour, []).append(Box(left, top, width, height))
            left += width
    shapes = [boxes(colour, own) for colour, own in places.items()]
    labels, values = [row.label for row in rows], [row.value for row in rows]
    return lanes(labels, shapes, axis.ticks, values=values, title=title)


def lanes(
    labels: Sequence[str],
    shapes: Sequence[Markup],
    ticks: Sequence[AxisTick],
    *,
    values: Sequence[str] = (),
    title: str = "",
) -> Markup:
    """Return a lane for each label with shapes over all lanes, and texts behind them."""
    texts = Markup().join(map(_label, labels))
    # values beside the bars, and their labels, leave a narrow screen room for two texts
    room = 1.0 if values else _NARROW_ROOM
    grid = strokes("grid", 1, ((tick.at, 0, tick.at, 1) for tick in ticks))
    behind = Markup().join(Markup("<span>{}</span>").format(plain(text)) for text in values)
    return Markup(
        '<div class="plot"><div class="lanes">{}</div>{}<div class="lanes">{}</div>{}</div>'
    ).format(
        texts, _area(len(labels) * _LANE_REM, [grid, *shapes]), behind, _below(ticks, title, room)
    )


def _label(text: str) -> Markup:
    parts = readable(text).split(PARTS)
    each = (_NARROW_CHARS - len(PARTS) * (len(parts) - 1)) // len(parts)
    wide, narrow = readable(text), PARTS.join(readable(part, each) for part in parts)
    if wide == narrow:
        return Markup("<span>{}</span>").format(wide)
    return Markup('<span class="at-wide">{}</span><span class="at-narrow">{}</span>').format(
        wide, narrow
    )


def columns(
    panels: Sequence[Panel], days: Sequence[date], marks: Sequence[AxisTick] = ()
) -> Markup:
    """Return panels above each other, each with a scale of its own and a column for each day.

    The places of marks are in days from the first one. Their lines cross all panels, and their
    texts stand above the first.
    """
    margin = max(0.6, (_SLOTS - len(days)) / 2)
    slots = len(days) - 1 + 2 * margin
    lines = [AxisTick((mark.at + margin) / slots, mark.text) for mark in marks]
    marked = strokes("mark", 1.6, ((line.at, 0, line.at, 1) for line in lines))
    parts = [Markup('<div class="marked">{}</div>').format(_texts(_join(lines)))] if lines else []
    for panel in panels:
        axis = count_axis(
            max(map(sum, zip(*(heights for _, heights in panel.layers), strict=True)))
        )
        grid = strokes("grid", 1, ((0, 1 - tick.at, 1, 1 - tick.at) for tick in axis.ticks))
        shapes = [grid, *_columns(panel, axis.end, margin, slots), marked]
        scale = Markup().join(
            Markup('<span style="top:{:.4g}%">{}</span>').format(100 * (1 - tick.at), tick.text)
            for tick in axis.ticks
        )
        parts.append(
            Markup('<b>{}</b><div class="scale">{}</div>{}').format(
                panel.title, scale, _area(panel.height_rem, shapes)
            )
        )
    shown = range(0, len(days), len(days) // _DAY_TICKS + 1)
    ticks = [AxisTick((n + margin) / slots, f"{days[n]:%-d %b}") for n in shown]
    return Markup('<div class="plot">{}{}</div>').format(Markup().join(parts), _below(ticks))


def _columns(panel: Panel, end: float, margin: float, slots: float) -> list[Markup]:
    below = [0.0] * len(panel.layers[0][1])
    shapes = []
    for colour, heights in panel.layers:
        places = []
        for n, height in enumerate(heights):
            below[n] += height
            left = (n + margin - _COLUMN / 2) / slots
            places.append(Box(left, 1 - below[n] / end, _COLUMN / slots, height / end))
        shapes.append(boxes(colour, places))
    return shapes


def _area(height_rem: float, shapes: Sequence[Markup]) -> Markup:
    return Markup(
        '<svg viewBox="0 0 1000 1000" preserveAspectRatio="none" style="height:{:.4g}rem">{}</svg>'
    ).format(height_rem, Markup().join(shapes))


def _join(marks: Sequence[AxisTick]) -> list[AxisTick]:
    """Return one text for marks that are near each other, such as ``2-4``, in their middle."""
    near: list[list[AxisTick]] = []
    for mark in marks:
        if near and mark.at - near[-1][-1].at < _MARKS_ROOM:
            near[-1].append(mark)
        else:
            near.append([mark])
    return [
        AxisTick(
            (own[0].at + own[-1].at) / 2,
            own[0].text if len(own) == 1 else f"{own[0].text}\N{EN DASH}{own[-1].text}",
        )
        for own in near
    ]


def _below(ticks: Sequence[AxisTick], title: str = "", room: float = _NARROW_ROOM) -> Markup:
    name = Markup('<div class="axis-title">{}</div>').format(title) if title else Markup()
    return Markup('<div class="axis">{}</div>{}').format(_texts(ticks, room), name)


def _texts(ticks: Sequence[AxisTick], room: float = _NARROW_ROOM) -> Markup:
    """Return the texts of ticks; those that are too near on a narrow screen are of class fine.

    ``room`` is the least distance there; with 1 only the first and the last text are shown.
    """
    texts, free = [], 0.0
    for number, tick in enumerate(ticks, start=1):
        is_last = number == len(ticks) and tick.at - ticks[0].at >= _NARROW_ROOM
        is_fine = tick.at < free and not (is_last and room == 1.0)
        free = free if is_fine else tick.at + room
        kind = Markup(' class="fine"') if is_fine else ""
        text = Markup('<span{} style="left:{:.4g}%">{}</span>')
        texts.append(text.format(kind, 100 * tick.at, tick.text))
    return Markup().join(texts)


def format_seconds(seconds: float) -> str:
    """Write a length of time for people: ``250 ms``, ``3.5 s``, ``12 min``, ``2.1 h``."""
    if seconds == 0:
        return "0"
    for limit, size, unit in ((0.9995, 0.001, "ms"), (120, 1, "s"), (7200, 60, "min")):
        if seconds < limit:
            return f"{seconds / size:.3g} {unit}"
    hours = seconds / 3600
    return f"{hours:,.0f} h" if hours >= _MANY_H else f"{hours:,.1f} h".replace(".0 h", " h")


def readable(text: str, limit: int = LABEL_MAX_CHARS) -> str:
    """Shorten any text to one line without control characters; the middle of a long one goes."""
    line = plain(text)
    if len(line) <= limit:
        return line
    head = limit // 2
    return f"{line[:head]}…{line[head + 1 - limit :]}"


def plain(text: str) -> str:
    """Replace characters that neither XML nor a terminal should get."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)
