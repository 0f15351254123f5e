"""The rules of Grafana's dashboard-linter, checked here: its program is in no registry that builds.

Left out: `template-job-rule`, `template-instance-rule` and the two rules of targets with them. A
member is one series whichever agents report it, so panels choose by cluster and group.
"""

import re
from typing import Any

import pytest

from dashboards.frame import increase_of
from tests.dashboards.written import DASHBOARDS, PANELS

EVERY_DASHBOARD = pytest.mark.parametrize("dashboard", DASHBOARDS.values(), ids=DASHBOARDS)
EVERY_PANEL = pytest.mark.parametrize("panel", PANELS.values(), ids=PANELS)
RATE = re.compile(r"\bi?rate\((?:[^\[\]]*)\[([^\]]*)\]")
COUNTED = re.compile(r"\b(?:rate|irate|increase)\([a-z_]+_total(?:\{[^}]*\})?\[[^\]]*\]\)")
NEW = re.compile(
    r"\(\((?P<series>[a-z_]+_total(?:\{[^}]*\})?)"
    r" - last_over_time\((?P=series)\[1h\] offset [^)]+\) >= 0 or (?P=series)\)"
    r" unless (?P=series) offset [^)]+\)"
)
"""What a new series has counted, which `increase` cannot see: `increase_of` adds it."""
COUNTER = re.compile(r"\b[a-z_]+_total\b")


def bare_counters(expr: str) -> list[str]:
    """Return the counters that no function turns into a rate or an increase."""
    return COUNTER.findall(COUNTED.sub("", NEW.sub("", expr)))


@EVERY_DASHBOARD
def test_template_datasource_rule(dashboard: dict[str, Any]) -> None:
    (source,) = (v for v in dashboard["templating"]["list"] if v["type"] == "datasource")
    assert (source["name"], source["label"]) == ("datasource", "Data source")
    assert source["query"] == "prometheus"


@EVERY_DASHBOARD
def test_template_on_time_change_reload_rule(dashboard: dict[str, Any]) -> None:
    asked = [v for v in dashboard["templating"]["list"] if v["type"] == "query"]
    assert {v["refresh"] for v in asked} <= {2}


@EVERY_DASHBOARD
def test_template_label_promql_rule(dashboard: dict[str, Any]) -> None:
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            query = variable["query"]["query"]
            assert re.fullmatch(r"label_values\([a-z_]+(\{[^{}]+\})?, [a-z_]+\)", query), query


@EVERY_DASHBOARD
def test_uneditable_dashboard(dashboard: dict[str, Any]) -> None:
    assert dashboard["editable"] is False


@EVERY_PANEL
def test_panel_datasource_and_no_targets_and_title_description_rules(panel: dict[str, Any]) -> None:
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert panel["targets"]
    assert panel["title"]
    assert panel["description"]


@EVERY_PANEL
def test_panel_units_rule(panel: dict[str, Any]) -> None:
    assert panel["fieldConfig"]["defaults"]["unit"]


@EVERY_PANEL
def test_target_rate_interval_rule(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        assert set(RATE.findall(target["expr"])) <= {"$__rate_interval"}


@EVERY_PANEL
def test_target_counter_agg_rule(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        assert bare_counters(target["expr"]) == []


def test_a_bare_counter_and_another_window_are_found() -> None:
    assert bare_counters('sum(kafka_group_rebalances_total{group="g"})') != []
    assert bare_counters(increase_of("kafka_group_rebalances_total", "5m")) == []
    assert RATE.findall("sum(rate(a_total[5m]))") == ["5m"]
