"""Perses' dashboards keep the rules of Perses' model, and have what Grafana's have.

The rules are those of Perses' Go model (names, references of layouts, lists) and of its plugins'
CUE schemas (closed specs, enumerations, colours), read at plugins 0.58.
"""

import re
from itertools import combinations
from typing import Any

import pytest

from dashboards.perses import QUANTILES
from metrics.model.palette import ON_DARK, ON_LIGHT
from metrics.model.status import RebalanceStatus
from tests.dashboards.promql import metrics_of
from tests.dashboards.written import DASHBOARDS, PANELS, PERSES, PERSES_LIGHT

NAME = re.compile(r"[a-zA-Z0-9_.-]{1,75}")
COLOUR = re.compile(r"#(?:[0-9a-fA-F]{3}){1,2}")
STEP = re.compile(r"(\d+h)?(\d+m)?(\d+s)?")
COLUMNS = 24
UNITS = {"decimal", "seconds", "bytes/sec", "counts/sec", "percent-decimal"}
CALCULATIONS = {"first", "last", "first-number", "last-number", "mean", "sum", "min", "max"}
SPECS = {
    "StatChart": {
        "calculation",
        "metricLabel",
        "format",
        "thresholds",
        "sparkline",
        "valueFontSize",
        "colorMode",
        "legendMode",
        "mappings",
    },
    "TimeSeriesChart": {"legend", "tooltip", "yAxis", "thresholds", "visual", "querySettings"},
    "StatusHistoryChart": {"legend", "mappings", "sorting"},
    "BarChart": {"calculation", "format", "sort", "mode", "orientation", "groupBy", "isStacked"},
    "Table": {
        "density",
        "defaultColumnWidth",
        "defaultColumnHeight",
        "defaultColumnHidden",
        "pagination",
        "enableFiltering",
        "enableSorting",
        "columnSettings",
        "cellSettings",
        "transforms",
    },
    "PrometheusTimeSeriesQuery": {"datasource", "query", "seriesNameFormat", "minStep"},
    "PrometheusLabelValuesVariable": {"datasource", "labelName", "matchers"},
    "PrometheusPromQLAnnotation": {"datasource", "expr", "title", "legend", "tags"},
}
"""The keys that a plugin's closed spec lets in."""
VISUAL = {"display": {"line", "bar"}, "stack": {"all"}}
COLUMN = {"name", "header", "cellSettings", "dataLink"}
KINDS = {
    "stat": "StatChart",
    "state-timeline": "StatusHistoryChart",
    "timeseries": "TimeSeriesChart",
    "heatmap": "TimeSeriesChart",
    "bargauge": "BarChart",
    "table": "Table",
}
EACH = pytest.mark.parametrize("dashboard", PERSES.values(), ids=PERSES)
SHOWN = [
    (f"{dashboard['metadata']['name']}: {panel['spec']['display']['name']}", panel)
    for dashboard in PERSES.values()
    for panel in dashboard["spec"]["panels"].values()
]
EACH_PANEL = pytest.mark.parametrize(
    "panel", [each for _, each in SHOWN], ids=[n for n, _ in SHOWN]
)


def every(value: Any, key: str) -> list[Any]:
    """Return what stands under a key, at any depth."""
    if isinstance(value, list):
        return [found for each in value for found in every(each, key)]
    if not isinstance(value, dict):
        return []
    here = [value[key]] if key in value else []
    return here + [found for each in value.values() for found in every(each, key)]


def queries(panel: dict[str, Any]) -> list[dict[str, Any]]:
    return [query["spec"]["plugin"]["spec"] for query in panel["spec"]["queries"]]


@EACH
def test_a_dashboard_has_its_kind_name_and_grids(dashboard: dict[str, Any]) -> None:
    assert dashboard["kind"] == "Dashboard"
    assert NAME.fullmatch(dashboard["metadata"]["name"])
    spec = dashboard["spec"]
    placed = []
    for layout in spec["layouts"]:
        assert layout["kind"] == "Grid"
        assert layout["spec"]["display"]["title"]
        items = layout["spec"]["items"]
        placed += [item["content"]["$ref"] for item in items]
        for item in items:
            assert item["y"] >= 0
            assert 0 <= item["x"] < item["x"] + item["width"] <= COLUMNS
        for one, other in combinations(items, 2):
            assert not overlap(one, other), (one, other)
    assert sorted(placed) == sorted(f"#/spec/panels/{key}" for key in spec["panels"])


def overlap(one: dict[str, Any], other: dict[str, Any]) -> bool:
    beside = one["x"] < other["x"] + other["width"] and other["x"] < one["x"] + one["width"]
    below = one["y"] < other["y"] + other["height"] and other["y"] < one["y"] + one["height"]
    return bool(beside and below)


@EACH
def test_variables_are_lists_of_label_values(dashboard: dict[str, Any]) -> None:
    for variable in dashboard["spec"]["variables"]:
        assert variable["kind"] == "ListVariable"
        spec = variable["spec"]
        assert NAME.fullmatch(spec["name"])
        assert spec["allowAllValue"] or "customAllValue" not in spec
        assert spec["sort"] == "alphabetical-ci-asc"
        assert spec["plugin"]["spec"]["labelName"]


@EACH
def test_a_plugin_has_only_what_its_schema_lets_in(dashboard: dict[str, Any]) -> None:
    for plugin in every(dashboard, "plugin"):
        assert set(plugin["spec"]) <= SPECS[plugin["kind"]], plugin


@EACH
def test_formats_and_colours_are_those_of_the_schemas(dashboard: dict[str, Any]) -> None:
    for form in every(dashboard, "format"):
        assert form["unit"] in UNITS
        assert set(form) <= {"unit", "decimalPlaces", "shortValues"}
        assert "shortValues" not in form or form["unit"] == "decimal"
    assert set(every(dashboard, "calculation")) <= CALCULATIONS
    for mapping in every(dashboard, "mappings"):
        for each in mapping:
            assert each["kind"] == "Value"
            assert each["spec"]["value"]
            assert COLOUR.fullmatch(each["spec"]["result"]["color"])


@EACH
def test_charts_and_tables_are_set_as_the_schemas_let(dashboard: dict[str, Any]) -> None:
    for visual in every(dashboard, "visual"):
        for key, values in VISUAL.items():
            assert visual.get(key, min(values)) in values
    for settings in every(dashboard, "querySettings"):
        assert [each["queryIndex"] for each in settings] == list(range(len(settings)))
        assert all(COLOUR.fullmatch(each["colorValue"]) for each in settings)
    for columns in every(dashboard, "columnSettings"):
        assert all(set(column) <= COLUMN and column["name"] for column in columns)
    assert all(STEP.fullmatch(step) for step in every(dashboard, "minStep"))


@EACH_PANEL
def test_a_panel_has_queries_and_the_colours_of_them(panel: dict[str, Any]) -> None:
    assert panel["kind"] == "Panel"
    for query in queries(panel):
        assert query["query"]
        assert "${" not in query["query"], "Grafana's own forms of variables"
    for settings in every(panel, "querySettings"):
        assert len(settings) == len(queries(panel))


@EACH_PANEL
def test_links_keep_to_the_variables_that_perses_has(panel: dict[str, Any]) -> None:
    for link in panel["spec"].get("links", []):
        assert link["renderVariables"]
        assert "__field" not in link["url"]
        assert "__data" not in link["url"]
        assert link["url"].startswith(("$agent/", "/projects/$__project/dashboards/"))


def test_all_panels_of_grafana_are_there_with_their_metrics() -> None:
    assert [name for name, _ in SHOWN] == list(PANELS)
    for (_, panel), original in zip(SHOWN, PANELS.values(), strict=True):
        assert panel["spec"]["plugin"]["kind"] == KINDS[original["type"]]
        named = {name for query in queries(panel) for name in metrics_of(query["query"])}
        assert named == {
            name for target in original["targets"] for name in metrics_of(target["expr"])
        }
        if original["type"] == "heatmap":
            assert len(queries(panel)) == len(QUANTILES)


def test_a_series_of_a_status_has_the_colour_of_the_palette() -> None:
    coloured = [panel for _, panel in SHOWN if every(panel, "querySettings")]
    assert coloured
    for panel in coloured:
        (settings,) = every(panel, "querySettings")
        names = [query["seriesNameFormat"] for query in queries(panel)]
        for name, setting, query in zip(names, settings, queries(panel), strict=True):
            if name in {code.label for code in RebalanceStatus}:
                code = next(code for code in RebalanceStatus if code.label == name)
                assert setting["colorValue"] == ON_DARK[code]
            assert f'status="{name}"' in query["query"] or "== bool" in query["query"]


@pytest.mark.parametrize("name", PERSES)
def test_light_dashboards_differ_in_colours_only(name: str) -> None:
    light_of = {ON_DARK[code]: ON_LIGHT[code] for code in RebalanceStatus}

    def pairs(dark: Any, light: Any) -> None:
        if isinstance(dark, dict):
            assert dark.keys() == light.keys()
            for key in dark:
                pairs(dark[key], light[key])
        elif isinstance(dark, list):
            for one, other in zip(dark, light, strict=True):
                pairs(one, other)
        elif isinstance(dark, str) and dark in light_of:
            assert light == light_of[dark]
        elif not (isinstance(dark, str) and COLOUR.fullmatch(dark)):
            assert light == dark

    pairs(PERSES[name], PERSES_LIGHT[name])


def test_every_dashboard_of_grafana_has_its_twin() -> None:
    assert set(PERSES) == set(PERSES_LIGHT) == set(DASHBOARDS)
