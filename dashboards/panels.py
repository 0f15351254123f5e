"""The kinds of panels in the dashboards: one look, one scale of colours.

A panel has a title, a description and its queries. Its position follows from its width.
"""

from dataclasses import dataclass, field
from typing import TypeVar

from grafana_foundation_sdk.builders import (
    bargauge,
    common,
    heatmap,
    prometheus,
    stat,
    statetimeline,
    table,
    timeseries,
)
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import common as common_model
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models import heatmap as heatmap_model
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from metrics.model.palette import ON_DARK, UNKNOWN
from metrics.model.status import RebalanceStatus

DATASOURCE = model.DataSourceRef(type_val="prometheus", uid="${datasource}")
FULL, HALF, THIRD, QUARTER = 24, 12, 8, 6
"""Widths, in Grafana's columns."""

Panel = TypeVar(
    "Panel",
    bargauge.Panel,
    heatmap.Panel,
    stat.Panel,
    statetimeline.Panel,
    table.Panel,
    timeseries.Panel,
)


@dataclass(frozen=True, slots=True)
class Query:
    """PromQL, and how its series are named."""

    expr: str
    legend: str = ""
    exemplars: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """The common properties of panels.

    ``url`` is a link from their series to a dashboard, ``page`` one to an agent's page. ``needs``
    is what a panel without data shows: the source that has it.
    """

    title: str
    description: str
    queries: tuple[Query, ...]
    width: int = HALF
    height: int = 8
    url: str = ""
    page: str = ""
    needs: str = ""
    unit: str = "short"
    colours: dict[str, str] = field(default_factory=dict)
    """By the name of a series."""


CAUSES = {code.label: ON_DARK[code] for code in RebalanceStatus} | {"Unknown": UNKNOWN.dark}
STATUSES: list[model.ValueMapping] = [
    model.ValueMap(
        {
            str(int(code)): model.ValueMappingResult(
                text=f"{int(code)} {code.label}", color=ON_DARK[code], index=int(code)
            )
            for code in RebalanceStatus
        }
    )
]
UP: list[model.ValueMapping] = [
    model.ValueMap(
        {
            "0": model.ValueMappingResult(
                text="down", color=ON_DARK[max(RebalanceStatus)], index=0
            ),
            "1": model.ValueMappingResult(text="up", color=ON_DARK[RebalanceStatus.NONE], index=1),
        }
    )
]
HOLDS: list[model.ValueMapping] = [
    model.ValueMap(
        {
            "0": model.ValueMappingResult(text="no", color=ON_DARK[RebalanceStatus.NONE], index=0),
            "1": model.ValueMappingResult(
                text="yes", color=ON_DARK[RebalanceStatus.COORDINATOR_REQUESTED], index=1
            ),
        }
    )
]
"""Of lanes that show whether something holds."""
_BY_VALUE = build.FieldColor().mode(model.FieldColorModeId.THRESHOLDS)
"""What state timelines do not do by themselves: a value has the colour of its mapping."""
_GREEN = build.ThresholdsConfig().steps(
    [model.Threshold(value=None, color=ON_DARK[RebalanceStatus.NONE])]
)
"""Grafana paints values that have no colour of their own by thresholds, red above 80 by default."""


def number(about: About) -> stat.Panel:
    """Show one number as of now."""
    return _dress(stat.Panel(), about, instant=True).color_mode(common_model.BigValueColorMode.NONE)


def status_now(about: About) -> stat.Panel:
    """Show a status as of now in its colour."""
    panel = _dress(stat.Panel(), about, instant=True)
    return panel.color_mode(common_model.BigValueColorMode.BACKGROUND).mappings(STATUSES)


def lanes(about: About, values: list[model.ValueMapping] = STATUSES) -> statetimeline.Panel:
    """Show a lane for each series, in the colours of its values."""
    panel = _dress(statetimeline.Panel(), about).mappings(values).color_scheme(_BY_VALUE)
    panel.merge_values(merge_values=True)
    return panel.show_value(common_model.VisibilityMode.AUTO).row_height(0.85).fill_opacity(85)


def lines(about: About) -> timeseries.Panel:
    """Show a line for each series."""
    return _in_order(_dress(timeseries.Panel(), about), about).fill_opacity(10).min(0)


def bars(about: About) -> timeseries.Panel:
    """Show counts of a minute or more each, stacked."""
    panel = _in_order(_dress(timeseries.Panel(), about), about)
    panel.interval("1m").min(0).fill_opacity(90)
    stacked = common.StackingConfig().mode(common_model.StackingMode.NORMAL)
    return panel.draw_style(common_model.GraphDrawStyle.BARS).stacking(stacked).line_width(0)


def _in_order(panel: timeseries.Panel, about: About) -> timeseries.Panel:
    """Let the legend list causes by code; Prometheus sends series by name."""
    if about.colours:
        order = {"Time": 0} | {name: number for number, name in enumerate(about.colours, 1)}
        for id_val, options in (
            ("joinByField", {"byField": "Time", "mode": "outer"}),
            ("organize", {"indexByName": order}),
        ):
            panel.with_transformation(model.DataTransformerConfig(id_val=id_val, options=options))
    return panel


def ranking(about: About) -> bargauge.Panel:
    """Show the largest series as bars, as of now."""
    panel = _dress(bargauge.Panel(), about, instant=True).min(0).decimals(0)
    return panel.orientation(common_model.VizOrientation.HORIZONTAL).display_mode(
        common_model.BarGaugeDisplayMode.BASIC
    )


def durations(about: About) -> heatmap.Panel:
    """Show a histogram's buckets over time."""
    panel = _dress(heatmap.Panel(), about, format_val=PromQueryFormat.HEATMAP).interval("1m")
    colour = heatmap.HeatmapColorOptions().mode(heatmap_model.HeatmapColorMode.SCHEME)
    return panel.color(colour.scheme("Oranges")).y_axis(heatmap.YAxisConfig().unit("s"))


def rows(about: About, names: dict[str, str]) -> table.Panel:
    """Show series as rows; ``names`` are the columns that are shown, and how they are called.

    The columns that hold a status (``Value``, or ``Value #A``) are shown in its colour.
    """
    panel = _dress(table.Panel(), about, instant=True, format_val=PromQueryFormat.TABLE)
    if len(about.queries) > 1:
        panel.with_transformation(model.DataTransformerConfig(id_val="merge", options={}))
    order = {name: number for number, name in enumerate(names)}
    shown = {"include": {"names": list(names)}}
    panel.with_transformation(
        model.DataTransformerConfig(id_val="filterFieldsByName", options=shown)
    )
    panel.with_transformation(
        model.DataTransformerConfig(
            id_val="organize", options={"indexByName": order, "renameByName": names}
        )
    )
    return panel


def colour_columns(panel: table.Panel, *columns: str) -> table.Panel:
    """Show a table's columns as statuses."""
    cell = common_model.TableColoredBackgroundCellOptions(
        mode=common_model.TableCellBackgroundDisplayMode.BASIC
    )
    for column in columns:
        panel.override_by_name(column, [model.DynamicConfigValue("custom.cellOptions", cell)])
    panel.sort_by([common.TableSortByFieldState().display_name(columns[0]).desc(desc=True)])
    return panel.mappings(STATUSES).color_scheme(_BY_VALUE)


def _dress(
    panel: Panel,
    about: About,
    *,
    instant: bool = False,
    format_val: PromQueryFormat = PromQueryFormat.TIME_SERIES,
) -> Panel:
    panel.title(about.title).description(about.description).datasource(DATASOURCE)
    panel.span(about.width).height(about.height).unit(about.unit).thresholds(_GREEN)
    for ref, query in zip("ABCDEFGH", about.queries, strict=False):
        target = prometheus.Dataquery().expr(query.expr).ref_id(ref).datasource(DATASOURCE)
        target.legend_format(query.legend or "__auto").format(format_val).exemplar(query.exemplars)
        panel.with_target(target.instant() if instant else target.range())
    links = (("Show", about.url), ("The agent's page", about.page))
    panel.data_links([build.DashboardLink(name).url(url) for name, url in links if url])
    if about.needs:
        panel.no_value(about.needs)
    for name, colour in about.colours.items():
        fixed = {"mode": "fixed", "fixedColor": colour}
        panel.override_by_name(name, [model.DynamicConfigValue("color", fixed)])
    return panel
