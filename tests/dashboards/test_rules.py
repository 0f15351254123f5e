"""The rules parse, their unit tests pass, and every alert has what an operator needs."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "dashboards" / "prometheus"
RULES = [
    rule
    for group in yaml.safe_load((FOLDER / "rules.yaml").read_text())["groups"]
    for rule in group["rules"]
]
ALERTS = {rule["alert"]: rule for rule in RULES if "alert" in rule}
SECTIONS = ["## Meaning", "## Impact", "## Diagnosis", "## Mitigation"]


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{name} is missing: apt-get install prometheus")
        pytest.skip(f"{name} is missing (Debian: apt-get install prometheus)")
    return found


@pytest.mark.parametrize("command", [("check", "rules.yaml"), ("test", "rules.test.yaml")])
def test_promtool_takes_the_rules(command: tuple[str, str]) -> None:
    what, file = command
    done = subprocess.run(
        [tool("promtool"), what, "rules", file],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("alert", ALERTS)
def test_each_alert_is_tested_firing_and_silent(alert: str) -> None:
    tests = yaml.safe_load((FOLDER / "rules.test.yaml").read_text())["tests"]
    looks = [
        bool(look.get("exp_alerts"))
        for test in tests
        for look in test.get("alert_rule_test", [])
        if look["alertname"] == alert
    ]
    assert set(looks) == {True, False}


@pytest.mark.parametrize("rule", ALERTS.values(), ids=ALERTS)
def test_each_alert_has_a_severity_and_does_not_flap(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"warning", "critical"}
    assert rule["keep_firing_for"]
    of_group = {"incident_url", "explain", "incidents", "change"} if _is_of_group(rule) else set()
    assert {"summary", "description", "runbook_url", *of_group} == set(rule["annotations"])


def _is_of_group(rule: dict[str, Any]) -> bool:
    return "$labels.group " in rule["annotations"]["summary"] or any(
        name in rule["expr"] for name in ("kafka_group_", "by (group", ", group")
    )


@pytest.mark.parametrize("rule", ALERTS.values(), ids=ALERTS)
def test_each_alert_has_a_runbook(rule: dict[str, Any]) -> None:
    url = rule["annotations"]["runbook_url"]
    lines = (ROOT / "docs" / "runbooks" / f"{rule['alert']}.md").read_text().splitlines()

    site = yaml.load((ROOT / "mkdocs.yml").read_text(), yaml.BaseLoader)["site_url"]
    assert url == f"{site}runbooks/{rule['alert']}/"

    assert lines[0] == f"# {rule['alert']}"
    assert [line for line in lines if line.startswith("## ")] == SECTIONS


def test_there_is_no_runbook_without_an_alert() -> None:
    assert {path.stem for path in (ROOT / "docs" / "runbooks").glob("*.md")} == set(ALERTS)
