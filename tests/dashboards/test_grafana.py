"""The committed dashboards are those of the code, and every panel says what it shows."""

from typing import Any

import pytest

from dashboards.__main__ import FOLDER, documents
from dashboards.frame import AGENT, GROUP, OVERVIEW, STREAMS
from metrics.model.palette import ON_DARK
from metrics.model.status import RebalanceStatus
from tests.dashboards.written import DASHBOARDS, PANELS

NAMES = {code.label: ON_DARK[code] for code in RebalanceStatus}
EVERY_PANEL = pytest.mark.parametrize("panel", PANELS.values(), ids=PANELS)


def test_nothing_has_drifted_from_the_code() -> None:
    committed = {path.name: path.read_text() for path in FOLDER.glob("*.json")}
    assert documents() == committed, "say: make dashboards"


def test_there_are_four_and_they_link_to_each_other() -> None:
    assert {each["uid"] for each in DASHBOARDS.values()} == {OVERVIEW, GROUP, STREAMS, AGENT}
    for dashboard in DASHBOARDS.values():
        (link,) = dashboard["links"]
        assert set(link["tags"]) <= set(dashboard["tags"])
        assert link["includeVars"]
        assert link["keepTime"]


def test_panels_lead_to_the_group() -> None:
    links = [link for panel in PANELS.values() for link in defaults(panel).get("links", ())]
    assert {link["url"].partition("?")[0] for link in links} == {f"/d/{GROUP}"}


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
    if panel["title"] != "Sources":
        wanted = [(int(code), f"{int(code)} {code.label}", ON_DARK[code]) for code in ON_DARK]
        assert sorted(mapped) in ([], wanted)
    assert by_name == {name: NAMES.get(name, by_name[name]) for name in by_name}


def defaults(panel: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = panel["fieldConfig"]["defaults"]
    return found
