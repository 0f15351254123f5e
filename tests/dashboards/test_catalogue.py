"""All metrics that dashboards, rules and documents name exist, and all metrics are used."""

import re
from pathlib import Path

import pytest
import yaml

from metrics.exporters.catalog import METRICS
from tests.dashboards.promql import family, metrics_of
from tests.dashboards.test_rules import RULES
from tests.dashboards.written import ANNOTATIONS, DASHBOARDS, PANELS

ROOT = Path(__file__).parent.parent.parent
CATALOGUE = {metric.name for metric in METRICS}
PROMETHEUS_OWN = {"up", "ALERTS", "scrape_duration_seconds", "scrape_samples_scraped"}
RECORDED = {rule["record"] for rule in RULES if "record" in rule}
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
DOCUMENTS += sorted((ROOT / "dashboards").rglob("*.md"))
LISTS = {ROOT / "docs" / "opentelemetry.md", ROOT / "docs" / "reference" / "metrics.md"}
"""They name every metric, whether or not it is of use."""
NAMED = re.compile(r"\b(?:kafka_(?:consumer|streams|group|app)|rebalance_agent)_[a-z_]*[a-z]\b")


def in_panels() -> set[str]:
    exprs = [target["expr"] for panel in PANELS.values() for target in panel["targets"]]
    return {name for expr in (*exprs, *ANNOTATIONS) for name in metrics_of(expr)}


def in_rules() -> set[str]:
    return {name for rule in RULES for name in metrics_of(rule["expr"])}


def in_document(path: Path) -> set[str]:
    return {family(name) for name in NAMED.findall(path.read_text())}


def test_every_metric_of_the_panels_exists() -> None:
    assert in_panels() - CATALOGUE <= PROMETHEUS_OWN


def test_every_variable_asks_for_a_metric_that_exists() -> None:
    asked = [
        variable["query"]["query"]
        for dashboard in DASHBOARDS.values()
        for variable in dashboard["templating"]["list"]
        if variable["type"] == "query"
    ]
    metrics = {re.sub(r"label_values\(([a-z_]+).*", r"\1", query) for query in asked}
    assert metrics <= CATALOGUE


def test_every_metric_of_the_rules_exists() -> None:
    assert in_rules() - CATALOGUE - RECORDED <= PROMETHEUS_OWN


def test_every_series_of_the_rules_tests_exists() -> None:
    tests = yaml.safe_load((ROOT / "dashboards" / "prometheus" / "rules.test.yaml").read_text())
    given = {
        family(each["series"].partition("{")[0])
        for test in tests["tests"]
        for each in test["input_series"]
    }
    assert given - CATALOGUE - RECORDED <= PROMETHEUS_OWN


def test_every_recorded_series_is_used() -> None:
    text = (ROOT / "dashboards" / "prometheus" / "rules.yaml").read_text()
    readme = (ROOT / "dashboards" / "README.md").read_text()
    assert {name for name in RECORDED if text.count(name) < 2 and name not in readme} == set()


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_metric_of_the_documents_exists(path: Path) -> None:
    assert in_document(path) <= CATALOGUE


def test_every_metric_is_used() -> None:
    written = {name for path in DOCUMENTS if path not in LISTS for name in in_document(path)}
    assert CATALOGUE - in_panels() - in_rules() - written == set()
