"""The committed dashboards are those of the code, and every panel says what it shows."""

import json
from typing import Any

import pytest

from dashboards.__main__ import ROOT, documents
from dashboards.frame import (
    AGENT,
    GROUP,
    NEEDS_COORDINATORS,
    NEEDS_FINAL_INCIDENTS,
    NEEDS_WHOLE_GROUPS,
    OVERVIEW,
    STREAMS,
)
from dashboards.panels import FULL
from metrics.model.palette import ON_DARK, ON_LIGHT
from metrics.model.status import RebalanceStatus
from tests.dashboards.promql import metrics_of
from tests.dashboards.written import DASHBOARDS, LIGHT, PANELS

NAMES = {code.label: ON_DARK[code] for code in RebalanceStatus}
FINAL_INCIDENTS = {"kafka_group_incidents_total"}
WHOLE_GROUPS = {
    "kafka_group_incident_ongoing",
    "kafka_group_incidents_total",
    "kafka_group_join_failures_total",
    "kafka_group_last_rebalance_timestamp_seconds",
    "kafka_group_rebalance_duration_seconds",
    "kafka_group_rebalances_total",
    "kafka_group_recent_incidents",
    "kafka_group_unread_partition_seconds_total",
}
COORDINATORS = {
    "kafka_group_generation",
    "kafka_group_members",
    "kafka_group_membership_changes_total",
    "kafka_group_state",
}
EVERY_PANEL = pytest.mark.parametrize("panel", PANELS.values(), ids=PANELS)


def test_nothing_has_drifted_from_the_code() -> None:
    committed = {
        path.relative_to(ROOT).as_posix(): path.read_text() for path in ROOT.glob("*/*.json")
    }
    assert documents() == committed, "say: make dashboards"


def test_there_are_four_and_they_link_to_each_other() -> None:
    assert {each["uid"] for each in DASHBOARDS.values()} == {OVERVIEW, GROUP, STREAMS, AGENT}
    for dashboard in DASHBOARDS.values():
        (link,) = dashboard["links"]
        assert set(link["tags"]) <= set(dashboard["tags"])
        assert link["includeVars"]
        assert link["keepTime"]


def test_no_panel_reaches_over_the_right_edge() -> None:
    """Grafana moves one that does, and leaves a hole."""
    for panel in PANELS.values():
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= FULL, panel["title"]


def test_panels_lead_to_the_group() -> None:
    links = [link for panel in PANELS.values() for link in defaults(panel).get("links", ())]
    assert {link["url"].partition("?")[0] for link in links} == {f"/d/{GROUP}", "${agent}/group"}
    for dashboard in DASHBOARDS.values():
        pages = [
            link
            for panel in dashboard["panels"]
            if panel["type"] != "row"
            for link in defaults(panel).get("links", ())
            if "${agent}" in link["url"]
        ]
        names = {variable["name"] for variable in dashboard["templating"]["list"]}
        assert bool(pages) == ("agent" in names)


@EVERY_PANEL
def test_each_panel_has_a_description_and_queries(panel: dict[str, Any]) -> None:
    assert panel["description"].endswith((".", "?"))
    assert all(target["expr"] for target in panel["targets"])
    assert panel["datasource"]["uid"] == "${datasource}"


@EVERY_PANEL
def test_a_status_has_its_name_and_its_one_colour(panel: dict[str, Any]) -> None:
    mapped = [
        (int(value), each["text"], each["color"])
        for mapping in defaults(panel).get("mappings", ())
        for value, each in mapping["options"].items()
    ]
    by_name = {
        override["matcher"]["options"]: each["value"]["fixedColor"]
        for override in panel["fieldConfig"]["overrides"]
        for each in override["properties"]
        if each["id"] == "color"
    }
    if {text for _, text, _ in mapped} not in ({"up", "down"}, {"yes", "no"}):
        wanted = [(int(code), f"{int(code)} {code.label}", ON_DARK[code]) for code in ON_DARK]
        assert sorted(mapped) in ([], wanted)
    assert by_name == {name: NAMES.get(name, by_name[name]) for name in by_name}


@EVERY_PANEL
def test_light_dashboards_have_the_light_shades(panel: dict[str, Any]) -> None:
    """Grafana knows no colour of one's own that depends on its theme."""
    light = {
        f"{dashboard['uid']}: {each['title']}": each
        for dashboard in LIGHT.values()
        for each in dashboard["panels"]
    }
    name = next(name for name, each in PANELS.items() if each is panel)
    shown, twin = (json.dumps(each) for each in (panel, light[name]))
    for code in RebalanceStatus:
        assert shown.count(ON_DARK[code]) == twin.count(ON_LIGHT[code])
        assert ON_DARK[code] not in twin


def defaults(panel: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = panel["fieldConfig"]["defaults"]
    return found


def test_incidents_and_unread_time_come_first() -> None:
    for uid in (OVERVIEW, GROUP):
        panels = DASHBOARDS[f"{uid}.json"]["panels"]
        assert panels[0]["title"] == "Incidents and unread time"
        assert [each["title"] for each in panels[1:3]] == [
            "Incidents that go on",
            "Partitions unread",
        ]


@EVERY_PANEL
def test_what_needs_a_source_says_so_where_it_is_empty(panel: dict[str, Any]) -> None:
    wanted = {
        needs
        for metrics, needs in (
            (WHOLE_GROUPS - FINAL_INCIDENTS, NEEDS_WHOLE_GROUPS),
            (FINAL_INCIDENTS, NEEDS_FINAL_INCIDENTS),
            (COORDINATORS, NEEDS_COORDINATORS),
        )
        for target in panel["targets"]
        if metrics_of(target["expr"]) & metrics
    }
    assert {defaults(panel).get("noValue", "")} - {""} == wanted
    if wanted:
        assert not any("vector(0)" in target["expr"] for target in panel["targets"])


@EVERY_PANEL
def test_whether_something_holds_is_a_lane_and_causes_are_in_code_order(
    panel: dict[str, Any],
) -> None:
    if any(" bool 0" in target["expr"] for target in panel["targets"]):
        assert panel["type"] == "state-timeline"
    names = [each["matcher"]["options"] for each in panel["fieldConfig"]["overrides"]]
    if panel["type"] == "timeseries" and set(names) & set(NAMES):
        (order,) = (
            each["options"]["indexByName"]
            for each in panel["transformations"]
            if each["id"] == "organize"
        )
        codes = [code.label for code in RebalanceStatus if code.label in order]
        ordered = sorted(order, key=order.__getitem__)
        assert [name for name in ordered if name in codes] == codes
