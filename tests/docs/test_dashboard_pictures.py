"""A picture has every panel of a dashboard, each kind with its values, names and colours."""

from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from docs.dashboard_pictures.picture import picture
from docs.dashboard_pictures.place import Series, Span
from metrics.model.palette import ON_DARK
from metrics.model.status import RebalanceStatus
from tests.dashboards.written import DASHBOARDS, PANELS

SPAN = Span(1000.0, 1060.0)
KINDS = {panel["type"]: panel for panel in PANELS.values()}


def drawn(panel: Mapping[str, Any], *series: Series) -> tuple[str, str]:
    """Return the texts and the whole of a picture with one panel, which is answered so."""
    dashboard = {"uid": "own", "title": "Own", "panels": [panel]}
    made = picture(dashboard, lambda _target, _least: series, SPAN)
    texts = "\n".join(filter(None, map(str.strip, ET.fromstring(made).itertext())))
    return texts, made


def named(title: str) -> dict[str, Any]:
    return next(panel for name, panel in PANELS.items() if name.endswith(f": {title}"))


def series(*points: tuple[float, float], name: str = "", **labels: str) -> Series:
    return Series(name=name, labels=labels, points=points, step_s=10.0)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_a_picture_has_every_panel_where_nothing_was_answered(name: str) -> None:
    made = picture(DASHBOARDS[name], lambda _target, _least: [], SPAN)
    texts = set(filter(None, map(str.strip, ET.fromstring(made).itertext())))
    assert {panel["title"] for panel in DASHBOARDS[name]["panels"]} <= texts


def test_a_number_has_its_unit() -> None:
    texts, _ = drawn(named("Members' time lost"), series((1060.0, 90.0)))
    assert "90 s" in texts


def test_a_status_has_its_name_and_colour() -> None:
    texts, made = drawn(named("Highest of two minutes"), series((1060.0, 3.0)))
    assert "3 UnknownMember" in texts
    assert ON_DARK[RebalanceStatus.UNKNOWN_MEMBER] in made


def test_a_lane_shows_each_of_its_statuses() -> None:
    lane = series((1000.0, 0.0), (1010.0, 0.0), (1020.0, 1.0), (1050.0, 0.0), name="a on b")
    texts, made = drawn(named("Status of the members"), lane)
    assert "a on b" in texts
    assert all(ON_DARK[RebalanceStatus(code)] in made for code in (0, 1))


@pytest.mark.parametrize("title", ["Stragglers", "Entries into each status"])
def test_lines_and_bars_say_whose_they_are(title: str) -> None:
    texts, made = drawn(named(title), series((1000.0, 1.0), (1050.0, 2.0), name="NewMember"))
    assert "NewMember" in texts
    assert (ON_DARK[RebalanceStatus.NEW_MEMBER] in made) == (title != "Stragglers")


def test_a_ranking_begins_with_the_largest() -> None:
    low, high = series((1060.0, 30.0), name="low"), series((1060.0, 90.0), name="high")
    texts, _ = drawn(named("Slowest members"), low, high)
    assert texts.splitlines()[-4:] == ["high", "90 s", "low", "30 s"]


def test_a_heatmap_counts_between_the_bounds() -> None:
    buckets = [series((1010.0, 1.0), le="0.5"), series((1010.0, 1.0), le="+Inf")]
    texts, _ = drawn(named("Length of the members' rebalances"), *buckets)
    assert {"500 ms", "more"} <= set(texts.splitlines())


def test_a_table_has_the_columns_of_the_panel() -> None:
    row = series((1060.0, 2.0), app="shop", kafka_cluster="prod")
    texts, made = drawn(named("By application"), row)
    assert {"Application", "shop", "2 NewMember"} <= set(texts.splitlines())
    assert ON_DARK[RebalanceStatus.NEW_MEMBER] in made


def test_every_kind_of_panel_is_tested() -> None:
    assert set(KINDS) == {
        "bargauge", "heatmap", "stat", "state-timeline", "table", "timeseries",
    }  # fmt: skip
