"""Panels along the time: lanes of states, lines and bars, and a histogram's buckets."""

from collections.abc import Mapping, Sequence
from itertools import chain, cycle, pairwise
from math import ceil, isinf, nan
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from aggregation.spark.report.plot import LABEL_MAX_CHARS, format_seconds, readable
from docs.dashboard_pictures.place import (
    CHAR_IN,
    TITLE_IN,
    Found,
    Place,
    Series,
    format_value,
    label_margin,
    on,
    runs,
    value_mappings,
)
from docs.dashboard_pictures.style import GAP

_CYCLE = ("#3b76af", "#c88d2b", "#4f9d9d", "#8c6bb1", "#7a8b3c", "#b5577e", "#5c6670", "#a0714f")
_LANE = 0.8
_VALUES_IN, _TICKS_IN, _LEGEND_IN = 0.55, 0.26, 0.15
_LEGEND_ROWS = 3
_LEGEND: dict[str, Any] = {
    "loc": "upper left",
    "frameon": False,
    "fontsize": 6.5,
    "handlelength": 1.2,
    "borderpad": 0,
    "borderaxespad": 0,
    "labelspacing": 0.3,
}


def state_timeline(place: Place, panel: Mapping[str, Any], found: Found) -> None:
    """Draw a lane for each series, the first on top."""
    lanes = sorted(chain(*found), key=lambda series: series.name)
    left, names = label_margin([lane.name for lane in lanes], place.width_in / 3)
    axes, values = place.axes(left, _TICKS_IN), value_mappings(panel)
    in_a_char = CHAR_IN * place.span.seconds / (place.width_in - left)
    for row, lane in enumerate(lanes):
        for start, end, value in runs(lane):
            text, colour = values.get(value, (f"{value:g}", _CYCLE[0]))
            axes.barh(row, end - start, _LANE, start, color=colour, edgecolor=GAP, linewidth=0.3)
            if len(text) * in_a_char < end - start:
                middle = (start + end) / 2
                axes.text(middle, row, text, size=6, ha="center", va="center", color=on(colour))
    axes.set_yticks(range(len(lanes)), names)
    axes.set_ylim(len(lanes) - 0.5, -0.5)
    place.span.axis(axes)


def timeseries(place: Place, panel: Mapping[str, Any], found: Found) -> None:
    """Draw lines or stacked bars, with their legend below."""
    defaults, order = panel["fieldConfig"]["defaults"], _order(panel)
    series = sorted(chain(*found), key=lambda each: order.get(each.name, len(order)))
    longest = max((len(each.name) for each in series), default=0)
    columns = max(1, int(place.width_in / (0.45 + CHAR_IN * min(longest, LABEL_MAX_CHARS))))
    rows = min(_LEGEND_ROWS, ceil(len(series) / columns))
    below = _TICKS_IN + 0.06 + rows * _LEGEND_IN
    axes = place.axes(_VALUES_IN, below)
    are_bars = defaults.get("custom", {}).get("drawStyle") == "bars"
    (_bars if are_bars else _lines)(axes, series, _colours(panel, series))
    highest = max((value for each in series for _, value in each.points), default=0.0)
    axes.set_ylim(0, None if highest > 0 else 1)
    axes.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5]))
    unit = defaults["unit"]
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_value(value, unit)))
    axes.grid(axis="y")
    place.span.axis(axes)
    if rows:
        drop = -_TICKS_IN / (place.height_in - below - TITLE_IN)
        lines, names = axes.get_legend_handles_labels()
        lines, names = lines[: columns * rows], names[: columns * rows]
        axes.legend(lines, names, bbox_to_anchor=(0, drop), ncols=columns, **_LEGEND)


def _order(panel: Mapping[str, Any]) -> Mapping[str, int]:
    """Return the positions of series in the legend, by name; the others keep Prometheus' order."""
    organized = (
        each["options"] for each in panel.get("transformations", ()) if each["id"] == "organize"
    )
    order: Mapping[str, int] = next((each["indexByName"] for each in organized), {})
    return order


def _colours(panel: Mapping[str, Any], series: Sequence[Series]) -> list[str]:
    own = {
        each["matcher"]["options"]: each["properties"][0]["value"]["fixedColor"]
        for each in panel["fieldConfig"]["overrides"]
    }
    free = cycle(_CYCLE)
    return [own[each.name] if each.name in own else next(free) for each in series]


def _lines(axes: Axes, series: Sequence[Series], colours: Sequence[str]) -> None:
    for each, colour in zip(series, colours, strict=True):
        points = list(each.points[:1])
        for (before, _), point in pairwise(each.points):
            points += [(before, nan), point] if point[0] - before > 1.5 * each.step_s else [point]
        times, values = zip(*points, strict=True)
        axes.plot(times, values, color=colour, linewidth=1.2, label=readable(each.name))


def _bars(axes: Axes, series: Sequence[Series], colours: Sequence[str]) -> None:
    below: dict[float, float] = {}
    for each, colour in zip(series, colours, strict=True):
        # one of zero height at least: the legend takes its colour
        points = [point for point in each.points if point[1]] or each.points[:1]
        times, values = [at for at, _ in points], [value for _, value in points]
        floor = [below.get(at, 0.0) for at in times]
        wide = 0.85 * each.step_s
        axes.bar(times, values, wide, floor, color=colour, label=readable(each.name), linewidth=0)
        below |= {at: low + value for at, low, value in zip(times, floor, values, strict=True)}


def heatmap(place: Place, panel: Mapping[str, Any], found: Found) -> None:
    """Draw how many fell between a bound and the one below, by time."""
    del panel
    bounds = sorted(chain(*found), key=lambda series: float(series.labels["le"]))
    times = sorted({at for series in bounds for at, _ in series.points})
    within: list[list[float]] = []
    lower = dict.fromkeys(times, 0.0)
    for series in bounds:
        counts = lower | dict(series.points)
        within.append([counts[at] - lower[at] or nan for at in times])
        lower = counts
    axes = place.axes(_VALUES_IN, _TICKS_IN, top=TITLE_IN + 0.05)
    if times:
        edges = [*times, times[-1] + bounds[0].step_s]
        axes.pcolormesh(edges, range(len(bounds) + 1), within, cmap="Oranges", vmin=0)
    axes.set_yticks(
        [row + 1 for row in range(len(bounds))],
        [_bound(float(series.labels["le"])) for series in bounds],
    )
    axes.grid(axis="y")
    place.span.axis(axes)


def _bound(seconds: float) -> str:
    return "more" if isinf(seconds) else format_seconds(seconds)
