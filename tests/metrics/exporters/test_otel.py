"""The OTLP export has the same values as the page, under the semantic conventions' names."""

import re
from itertools import pairwise
from pathlib import Path

from opentelemetry.sdk.metrics.export import Gauge, Histogram, HistogramDataPoint, Metric, Sum
from opentelemetry.sdk.resources import Resource

from metrics.exporters.catalog import METRICS, MetricType
from metrics.exporters.exposition import Exposition
from metrics.exporters.otel import ATTRIBUTES, kind_of, metrics_data, name_of, trace_of
from metrics.exporters.points import families
from tests.metrics.exporters.test_prometheus import exposition

DOCUMENT = Path(__file__).parents[3] / "docs" / "opentelemetry.md"
AT = 1010.0
EVERYTHING = 100_000


def sent(shown: Exposition | None = None, *, state_sets: bool = True) -> dict[str, Metric]:
    data = metrics_data(shown or exposition(), Resource({}), AT, EVERYTHING, state_sets=state_sets)
    (resource,) = data.resource_metrics
    (scope,) = resource.scope_metrics
    return {metric.name: metric for metric in scope.metrics}


def test_every_point_of_the_page_goes_out() -> None:
    found = sent()
    shown = {
        name_of(row): len(points)
        for row, points in families(exposition(), EVERYTHING, state_sets=True)
    }
    assert {name: len(metric.data.data_points) for name, metric in found.items()} == shown


def test_a_status_has_its_code_and_its_conventional_names() -> None:
    points = sent()["kafka.consumer.rebalance.status"].data.data_points
    (busy,) = [p for p in points if (p.attributes or {})["messaging.client.id"] == "consumer-2"]

    assert isinstance(sent()["kafka.consumer.rebalance.status"].data, Gauge)
    assert not isinstance(busy, HistogramDataPoint)
    assert getattr(busy, "value", None) == 4
    assert busy.attributes == {
        "messaging.system": "kafka",
        "messaging.consumer.group.name": "payments-in",
        "messaging.client.id": "consumer-2",
        "messaging.kafka.cluster.id": "prod",
        "host.name": "node-1",
        "kafka.app.name": "payments",
    }
    assert busy.time_unix_nano == 1_010_000_000_000


def test_a_status_metric_has_every_state_and_one_that_holds() -> None:
    metric = sent()["kafka.consumer.status"]
    states = {
        (point.attributes or {})["kafka.consumer.state"]: getattr(point, "value", None)
        for point in metric.data.data_points
        if (point.attributes or {})["messaging.client.id"] == "consumer-2"
    }

    assert isinstance(metric.data, Sum)
    assert not metric.data.is_monotonic
    assert metric.unit == "1"
    assert len(states) == 11
    assert {state for state, value in states.items() if value} == {"StaleMember"}


def test_status_metrics_can_be_left_out() -> None:
    left_out = set(sent()) - set(sent(state_sets=False))
    assert left_out == {f"kafka.{each}.status" for each in ("consumer", "streams", "group", "app")}


def test_counters_are_sums_that_only_rise_and_have_their_unit_apart() -> None:
    metric = sent()["kafka.consumer.rebalance.status_time"]

    assert isinstance(metric.data, Sum)
    assert metric.data.is_monotonic
    assert metric.unit == "s"
    assert sent()["rebalance_agent.source_read"].unit == "By"


def test_a_histogram_leads_to_the_trace_of_its_last_episode() -> None:
    metric = sent()["kafka.group.rebalance.duration"]
    assert isinstance(metric.data, Histogram)
    (point,) = metric.data.data_points
    (exemplar,) = point.exemplars

    assert (point.count, point.sum) == (2, 2000.5)
    assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
    assert exemplar.filtered_attributes == {"episode_id": "3fa9"}
    assert (exemplar.trace_id, exemplar.span_id) == trace_of("3fa9") == (0x3FA93FA9, 0x3FA9)
    assert (exemplar.value, exemplar.time_unix_nano) == (0.5, 1_000_500_000_000)


def test_no_two_metrics_share_a_name_and_no_name_is_anothers_namespace() -> None:
    names = sorted(name_of(row) for row in METRICS)

    assert not [pair for pair in pairwise(names) if pair[0] == pair[1]]
    assert not [pair for pair in pairwise(names) if pair[1].startswith(f"{pair[0]}.")]


def test_every_label_has_an_attribute() -> None:
    assert {label for row in METRICS for label in row.labels} <= set(ATTRIBUTES)


def test_the_document_has_every_name() -> None:
    text = DOCUMENT.read_text()
    rows = re.findall(r"^\| `([a-z_]+)` \| `([a-z_.]+)` \| ([a-z]+) \|$", text, re.MULTILINE)

    groups_first = sorted(METRICS, key=lambda row: not row.name.startswith("kafka_"))
    assert rows == [(row.name, name_of(row), kind_of(row)) for row in groups_first]
    assert {row.type for row in METRICS} == set(MetricType)
