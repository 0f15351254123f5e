"""Every query, asked of a real Prometheus that scraped a real agent: it parses and has data."""

import re
import time
from collections.abc import Iterator
from datetime import timedelta
from math import ceil
from typing import Any

import pytest

from tests.agent.wiring.test_restart import until
from tests.dashboards.promql import asked, metrics_of
from tests.dashboards.scenario import Prometheus, scenario
from tests.dashboards.written import ANNOTATIONS, DASHBOARDS, PANELS, PERSES

VARIABLES = {"$__interval": "5s", "$__rate_interval": "10s", "$__range": "5m", "$group": "g-.*"}
GROUP = "g-classic-4.3.0"
"""Of the recordings' groups the one with most causes."""
NEEDS_A_BROKER = {
    "kafka_group_members",
    "kafka_group_generation",
    "kafka_group_membership_changes_total",
    "kafka_group_state",
}
"""From inspection: here no broker answers; queries of these alone have to parse, no more."""
NEEDS_A_FAILED_JOIN = {"kafka_group_join_failures_total"}
"""No member of the recordings fails to join."""
NEEDS_TEN_MINUTES = {"kafka_group_incidents_total"}
"""Counted ten minutes after an incident's end."""
NEEDS_WHAT_GOES_ON = {"kafka_group_incident_ongoing"}
"""All incidents of the recordings have ended."""

_STEP_S = 5
NO_ROLLOUT = "group:kafka_rebalance_rollout_members:count10m"
"""The recordings' members leave and join again and again."""
NOTHING_GOES_ON = "group_kind:kafka_group_incident_ongoing:max"
"""All incidents of the recordings have ended."""


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Prometheus, float]]:
    """Give a Prometheus, and since when it has data (Unix seconds)."""
    began_at = time.time()
    with scenario(tmp_path_factory.mktemp("live")) as played:
        prometheus = played.prometheus
        played.replay(before=timedelta(minutes=4))
        drop = 'kafka_consumer_rebalance_transitions_total{status="DroppedGroup"}'
        until(lambda: prometheus.has(drop))
        played.reload()
        played.replay(before=timedelta(0))  # what is there already counts up
        until(lambda: prometheus.has('rebalance_agent_config_reloads_total{outcome="success"} > 0'))
        for _ in range(2):  # whole groups are counted half a minute after their end
            try:
                until(lambda: prometheus.has(f'kafka_group_rebalances_total{{group="{GROUP}"}}'))
            except AssertionError:
                continue
            break
        yield prometheus, began_at


def sent(expr: str) -> str:
    """Return the query that Grafana sends: one group where one is chosen, else all."""
    return asked(expr.replace('group="$group"', f'group="{GROUP}"'), VARIABLES)


@pytest.mark.timeout(180)
def test_every_query_of_every_panel_has_data(live: tuple[Prometheus, float]) -> None:
    prometheus, began_at = live
    queries = [(name, target) for name, panel in PANELS.items() for target in panel["targets"]] + [
        ("annotation", {"expr": expr}) for expr in ANNOTATIONS
    ]

    empty = [
        (name, target["expr"])
        for name, target in queries
        if not _answer(prometheus, target, began_at)
        and not metrics_of(target["expr"])
        <= NEEDS_A_BROKER | NEEDS_A_FAILED_JOIN | NEEDS_TEN_MINUTES | NEEDS_WHAT_GOES_ON
    ]

    assert empty == []


def _answer(prometheus: Prometheus, target: dict[str, Any], began_at: float) -> bool:
    expr = sent(target["expr"])
    if target.get("instant"):
        return prometheus.has(expr)
    end = time.time()
    # the last step is now: what has just appeared is new for one step, whenever that was
    start = end - _STEP_S * ceil((end - began_at) / _STEP_S)
    found = prometheus.get("query_range", query=expr, start=start, end=end, step=_STEP_S)
    return bool(found["result"])


@pytest.mark.timeout(180)
def test_every_query_of_perses_parses(live: tuple[Prometheus, float]) -> None:
    prometheus, _ = live
    exprs = [
        sent(query["spec"]["plugin"]["spec"]["query"])
        for dashboard in PERSES.values()
        for panel in dashboard["spec"]["panels"].values()
        for query in panel["spec"]["queries"]
    ]
    assert any(prometheus.has(expr) for expr in exprs if 'status="DroppedGroup"' in expr)
    for expr in exprs:
        prometheus.get("query", query=expr)


@pytest.mark.timeout(180)
def test_every_variable_has_values(live: tuple[Prometheus, float]) -> None:
    prometheus, _ = live
    asked_for = [
        re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
        for dashboard in DASHBOARDS.values()
        for variable in dashboard["templating"]["list"]
        if variable["type"] == "query"
    ]
    for match in asked_for:
        assert match is not None
        selector, label = match.groups()
        assert prometheus.get(f"label/{label}/values", **{"match[]": sent(selector)}), selector


@pytest.mark.timeout(180)
def test_the_rules_are_evaluated_and_a_dropped_member_is_told(
    live: tuple[Prometheus, float],
) -> None:
    prometheus, _ = live
    got = 'alertname="KafkaMemberDroppedByPollInterval",alertstate="firing"'
    until(lambda: prometheus.has(f'ALERTS{{{got},group="{GROUP}"}}'))
    groups = prometheus.get("rules")["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    recorded = {rule["name"] for rule in rules if rule["type"] == "recording"} - {
        NO_ROLLOUT,
        NOTHING_GOES_ON,
    }
    until(lambda: not [name for name in recorded if not prometheus.has(name)])

    assert [rule["lastError"] for rule in rules if rule["health"] != "ok"] == []


@pytest.mark.timeout(180)
@pytest.mark.parametrize("whose", ["group", "consumer"])
def test_durations_lead_to_an_episode(live: tuple[Prometheus, float], whose: str) -> None:
    prometheus, began_at = live
    query = f'kafka_{whose}_rebalance_duration_seconds_bucket{{group="{GROUP}"}}'

    found = prometheus.get("query_exemplars", query=query, start=began_at - 300, end=time.time())

    episodes = {each["labels"]["episode_id"] for row in found for each in row["exemplars"]}
    assert episodes
    assert all(re.fullmatch("[0-9a-f]{16}", each) for each in episodes)
