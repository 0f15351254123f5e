"""A dashboard as a picture (SVG): its panels in Grafana's places, with Prometheus' responses.

It reads the JSON that Grafana reads: places, titles, units, names and colours are the dashboard's.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from docs.dashboard_pictures.lists import ranking, stat, table
from docs.dashboard_pictures.place import Place, Series, Span
from docs.dashboard_pictures.style import style, svg
from docs.dashboard_pictures.times import heatmap, state_timeline, timeseries

Ask = Callable[[Mapping[str, Any], str], Sequence[Series]]
"""(one of a panel's targets, the panel's own smallest interval) -> Prometheus' response."""

_WIDTH_IN = 12.0
_COLUMNS = 24
_ROW_IN = 0.28
_GAP_IN = 0.07
_FONT: Any = {
    "font.size": 7.5,
    "font.sans-serif": ["DejaVu Sans"],
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
}
_SPARE = re.compile(
    r"""<!--.*?--> | (?<=\n)[ ]+ | (?<=<g)[ ]id="[^"]*" | (?<=\.\d)\d+(?=[^<]*>)""",
    re.DOTALL | re.VERBOSE,
)
"""Invisible text: comments, indents, groups' names, and digits below a tenth of a point."""
_COLOURS = "--ink:#1f2328;--faint:#d0d7de;--card:#fff;background:#fff"
_KINDS = {
    "bargauge": ranking,
    "heatmap": heatmap,
    "stat": stat,
    "state-timeline": state_timeline,
    "table": table,
    "timeseries": timeseries,
}


def picture(dashboard: Mapping[str, Any], ask: Ask, span: Span) -> str:
    """Return the whole dashboard as one document, with one query for each target."""
    panels = dashboard["panels"]
    rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels)
    size = (_WIDTH_IN, rows * _ROW_IN + _GAP_IN)
    with style(dashboard["uid"]), mpl.rc_context(_FONT):
        figure = Figure(figsize=size)
        for panel in panels:
            place = _place(figure, panel["gridPos"], span)
            if panel["type"] == "row":
                place.say(0.02, 0.17, panel["title"], size=10, weight="bold")
                continue
            place.frame(panel["title"])
            least = panel.get("interval", "")
            found = [ask(each, least) for each in panel["targets"]]
            needs = panel["fieldConfig"]["defaults"].get("noValue", "")
            if needs and not any(found):
                place.say(0.1, 0.5, needs)
            else:
                _KINDS[panel["type"]](place, panel, found)
        text = svg(figure, dashboard["uid"], dashboard["title"])
    text = _SPARE.sub("", text).replace("<svg", f'<svg style="{_COLOURS}"', 1)
    return text.strip() + "\n"


def _place(figure: Figure, grid: Mapping[str, int], span: Span) -> Place:
    column_in = (_WIDTH_IN - _GAP_IN) / _COLUMNS
    return Place(
        figure=figure,
        left_in=_GAP_IN + grid["x"] * column_in,
        top_in=_GAP_IN + grid["y"] * _ROW_IN,
        width_in=grid["w"] * column_in - _GAP_IN,
        height_in=grid["h"] * _ROW_IN - _GAP_IN,
        span=span,
    )
