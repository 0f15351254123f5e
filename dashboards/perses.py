"""The dashboards in Perses' model, from the same source as Grafana's.

The input is a dashboard as Grafana's JSON has it, so a change of panels or queries reaches both.
Perses differs in four places. A row is a grid of its own. A series has no colour by its name, so a
query for each status has one. A heatmap needs native histograms, so quantiles stand for it. A panel
without data has no text of its own, so its description has it.
"""

import re
from typing import Any

Document = dict[str, Any]

QUANTILES = (0.5, 0.95, 0.99)
"""What is drawn of a histogram."""

_ALL_VALUES = ".*"
_UNITS: dict[str, Document] = {
    "short": {"unit": "decimal", "shortValues": True},
    "s": {"unit": "seconds"},
    "Bps": {"unit": "bytes/sec"},
    "cps": {"unit": "counts/sec"},
    "percentunit": {"unit": "percent-decimal"},
}
_LABEL_VALUES = re.compile(r"label_values\((?P<metric>.+), (?P<label>\w+)\)")
_SELECTOR = re.compile(r"\w+\{[^}]*(?=\})")
_OF_SERIES = re.compile(r"\$\{__(data\.fields|field\.labels)\.")


def perses(dashboard: Document) -> Document:
    """Return a dashboard of Grafana as a dashboard of Perses."""
    panels, layouts = _panels(dashboard["panels"])
    shown = {"name": dashboard["title"], "description": dashboard["description"]}
    annotations = [_annotation(each) for each in dashboard["annotations"].get("list", [])]
    variables = [each for each in dashboard["templating"]["list"] if each["type"] == "query"]
    spec: Document = {
        "display": shown,
        "duration": dashboard["time"]["from"].removeprefix("now-"),
        "refreshInterval": dashboard["refresh"],
        "variables": [_variable(each) for each in variables],
        "panels": panels,
        "layouts": layouts,
    }
    if annotations:
        spec["annotations"] = annotations
    metadata = {"name": dashboard["uid"], "project": ""}
    return {"kind": "Dashboard", "metadata": metadata, "spec": spec}


def _variable(variable: Document) -> Document:
    query = _LABEL_VALUES.fullmatch(variable["query"]["query"])
    if query is None:
        raise ValueError(f"no label's values: {variable['query']['query']}")
    every = bool(variable.get("includeAll"))
    spec: Document = {
        "name": variable["name"],
        "display": {"name": variable["label"]},
        "allowAllValue": every,
        "allowMultiple": bool(variable.get("multi")),
        "sort": "alphabetical-ci-asc",
        "plugin": {
            "kind": "PrometheusLabelValuesVariable",
            "spec": {"labelName": query["label"], "matchers": [query["metric"]]},
        },
    }
    if every:
        spec |= {"customAllValue": _ALL_VALUES, "defaultValue": "$__all"}
    return {"kind": "ListVariable", "spec": spec}


def _annotation(annotation: Document) -> Document:
    return {
        "display": {"name": annotation["name"], "color": annotation["iconColor"]},
        "plugin": {
            "kind": "PrometheusPromQLAnnotation",
            "spec": {"expr": annotation["expr"], "title": annotation["titleFormat"]},
        },
    }


def _panels(panels: list[Document]) -> tuple[Document, list[Document]]:
    """Return the panels by their keys, and a grid for each row."""
    made: Document = {}
    layouts: list[Document] = []
    top = 0
    for panel in panels:
        at = panel["gridPos"]
        if panel["type"] == "row":
            top = at["y"] + at["h"]
            shown = {"title": panel["title"], "collapse": {"open": True}}
            layouts.append({"kind": "Grid", "spec": {"display": shown, "items": []}})
            continue
        key = f"panel{len(made):02}"
        made[key] = _panel(panel)
        layouts[-1]["spec"]["items"].append(
            {
                "x": at["x"],
                "y": at["y"] - top,
                "width": at["w"],
                "height": at["h"],
                "content": {"$ref": f"#/spec/panels/{key}"},
            }
        )
    return made, layouts


def _panel(panel: Document) -> Document:
    defaults = panel["fieldConfig"]["defaults"]
    about = panel["description"]
    if "noValue" in defaults:
        about += f" Without data: {defaults['noValue']}."
    queries = _queries(panel)
    spec: Document = {
        "display": {"name": panel["title"], "description": about},
        "plugin": _PLUGINS[panel["type"]](panel),
        "queries": [
            {
                "kind": "TimeSeriesQuery",
                "spec": {"plugin": {"kind": "PrometheusTimeSeriesQuery", "spec": query}},
            }
            for query in queries
        ],
    }
    links = [_link(link) for link in defaults.get("links", [])]
    return {"kind": "Panel", "spec": spec | ({"links": links} if links else {})}


def _queries(panel: Document) -> list[Document]:
    targets = panel["targets"]
    if panel["type"] == "heatmap":
        return [
            {
                "query": f"histogram_quantile({part}, {targets[0]['expr']})",
                "seriesNameFormat": f"p{part * 100:g}",
                "minStep": panel["interval"],
            }
            for part in QUANTILES
        ]
    causes = _colours(panel)
    if causes and len(targets) == 1:
        return [_query(panel, _of_status(targets[0]["expr"], name), name) for name in causes]
    return [_query(panel, each["expr"], each["legendFormat"]) for each in targets]


def _query(panel: Document, expr: str, legend: str) -> Document:
    query = {"query": expr}
    if legend != "__auto":
        query["seriesNameFormat"] = legend
    if "interval" in panel:
        query["minStep"] = panel["interval"]
    return query


def _of_status(expr: str, status: str) -> str:
    """Return an expression of the series with one status only."""
    return _SELECTOR.sub(lambda found: f'{found[0]},status="{status}"', expr)


def _colours(panel: Document) -> dict[str, str]:
    """Return the fixed colours of a panel's series, by their names."""
    return {
        override["matcher"]["options"]: each["value"]["fixedColor"]
        for override in panel["fieldConfig"]["overrides"]
        for each in override["properties"]
        if each["id"] == "color"
    }


def _link(link: Document) -> Document:
    """Return a link of a panel; Perses' links know variables, but no series.

    A link that wants the group of a series leads to the first page, and to the dashboard without
    its group.
    """
    url = link["url"]
    if url.startswith("${agent}"):
        page = "/" if _OF_SERIES.search(url) else "/group?group=${group:percentencode}"
        made = f"$agent{page}"
    else:
        uid = url.removeprefix("/d/").partition("?")[0]
        made = f"/projects/$__project/dashboards/{uid}"
    return {"name": link["title"], "url": made, "renderVariables": True, "targetBlank": False}


def _format(panel: Document) -> Document:
    defaults = panel["fieldConfig"]["defaults"]
    decimals = {"decimalPlaces": defaults["decimals"]} if "decimals" in defaults else {}
    return {**_UNITS[defaults["unit"]], **decimals}


def _mappings(panel: Document) -> list[Document]:
    return [
        {
            "kind": "Value",
            "spec": {"value": value, "result": {"value": each["text"], "color": each["color"]}},
        }
        for mapping in panel["fieldConfig"]["defaults"].get("mappings", [])
        for value, each in mapping["options"].items()
    ]


def _number(panel: Document) -> Document:
    spec: Document = {"calculation": "last-number", "format": _format(panel)}
    if len(panel["targets"]) == 1 and panel["targets"][0]["legendFormat"] != "__auto":
        spec["legendMode"] = "on"
    mappings = _mappings(panel)
    if mappings:
        spec |= {"mappings": mappings, "colorMode": "background_solid"}
    return {"kind": "StatChart", "spec": spec}


def _lanes(panel: Document) -> Document:
    return {
        "kind": "StatusHistoryChart",
        "spec": {"legend": {"position": "bottom"}, "mappings": _mappings(panel)},
    }


def _lines(panel: Document) -> Document:
    visual: Document = {"display": "line", "areaOpacity": 0.1}
    if panel["fieldConfig"]["defaults"].get("custom", {}).get("drawStyle") == "bars":
        visual = {"display": "bar", "stack": "all"}
    spec: Document = {
        "legend": {"position": "bottom"},
        "yAxis": {"format": _format(panel), "min": 0},
        "visual": visual,
    }
    colours = _colours(panel)
    if colours:
        spec["querySettings"] = [
            {"queryIndex": index, "colorMode": "fixed-single", "colorValue": colour}
            for index, colour in enumerate(colours.values())
        ]
    return {"kind": "TimeSeriesChart", "spec": spec}


def _quantiles(panel: Document) -> Document:
    spec = {
        "legend": {"position": "bottom"},
        "yAxis": {"format": _UNITS[panel["options"]["yAxis"]["unit"]], "min": 0},
    }
    return {"kind": "TimeSeriesChart", "spec": spec}


def _ranking(panel: Document) -> Document:
    spec = {"calculation": "last-number", "format": _format(panel), "sort": "desc", "mode": "value"}
    return {"kind": "BarChart", "spec": {**spec, "orientation": "horizontal"}}


def _rows(panel: Document) -> Document:
    """Return a table; its columns are labels, and a value for each query."""
    names = next(
        each["options"]["renameByName"]
        for each in panel["transformations"]
        if each["id"] == "organize"
    )
    columns = []
    many = len(panel["targets"]) > 1
    cells = [
        {
            "condition": {"kind": "Value", "spec": {"value": each["spec"]["value"]}},
            "text": each["spec"]["result"]["value"],
            "backgroundColor": each["spec"]["result"]["color"],
        }
        for each in _mappings(panel)
    ]
    for name, header in names.items():
        value = name.startswith("Value")
        column: Document = {"name": _value_column(name) if value and many else name.lower()}
        column["header"] = header
        if value and cells:
            column["cellSettings"] = cells
        if name == "group":
            column["dataLink"] = {
                "url": '$agent/group?group=${__data.fields["group"]:percentencode}',
                "title": "The agent's page",
                "openNewTab": False,
            }
        columns.append(column)
    spec: Document = {
        "defaultColumnHidden": True,
        "enableSorting": True,
        "columnSettings": columns,
    }
    if many:
        spec["transforms"] = [{"kind": "MergeSeries", "spec": {}}]
    return {"kind": "Table", "spec": spec}


def _value_column(name: str) -> str:
    """Return Perses' name of a query's values: ``Value #A`` of Grafana is ``value #1``."""
    return f"value #{ord(name.rpartition('#')[2]) - ord('A') + 1}"


_PLUGINS = {
    "stat": _number,
    "state-timeline": _lanes,
    "timeseries": _lines,
    "heatmap": _quantiles,
    "bargauge": _ranking,
    "table": _rows,
}
