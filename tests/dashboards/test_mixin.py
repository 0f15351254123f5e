"""The mixin in jsonnet itself: it has the dashboards, and the rules with their runbooks."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dashboards.__main__ import MIXIN, mixin_text
from tests.dashboards.test_rules import ALERTS, RULES
from tests.dashboards.written import DASHBOARDS, LIGHT
from tests.deploy.go_tools import tool

pytestmark = pytest.mark.process

ASKED = """
local mixin = (import 'mixin.libsonnet') { _config+:: %s };
{
  dashboards: mixin.grafanaDashboards,
  rules: [rule for group in mixin.prometheusRules.groups for rule in group.rules],
  alerts: [rule for group in mixin.prometheusAlerts.groups for rule in group.rules],
}
"""


def evaluated(folder: Path, config: str) -> Any:
    file = folder / "asked.jsonnet"
    file.write_text(ASKED % config)
    command = [str(tool("jsonnet")), "-J", str(MIXIN.parent), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_nothing_has_drifted_from_the_code() -> None:
    assert mixin_text() == MIXIN.read_text(), "say: make dashboards"


@pytest.mark.timeout(600)
def test_it_has_all_dashboards_rules_and_alerts(tmp_path: Path) -> None:
    made = evaluated(tmp_path, "{}")

    assert made["dashboards"] == DASHBOARDS
    assert made["rules"] == [rule for rule in RULES if "record" in rule]
    assert {rule["alert"]: rule for rule in made["alerts"]} == ALERTS


@pytest.mark.timeout(600)
def test_the_light_theme_has_the_light_dashboards(tmp_path: Path) -> None:
    assert evaluated(tmp_path, "{ theme: 'light' }")["dashboards"] == LIGHT


@pytest.mark.timeout(600)
def test_runbooks_are_where_the_setting_says(tmp_path: Path) -> None:
    made = evaluated(tmp_path, "{ runbookUrl: 'https://wiki.example.org' }")

    urls = {rule["alert"]: rule["annotations"]["runbook_url"] for rule in made["alerts"]}
    assert urls == {alert: f"https://wiki.example.org/{alert}/" for alert in ALERTS}
