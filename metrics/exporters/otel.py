"""The metrics of ``/metrics`` in OpenTelemetry's data model.

Names and attributes follow the semantic conventions: namespaces by dots, no units in names,
Kafka's group and client under ``messaging``. A state set is a status metric: an UpDownCounter with
a series for every state. https://opentelemetry.io/docs/specs/semconv/how-to-write-conventions/status-metrics/

Counts continue over a restart of the agent (its checkpoint has them), so points have no start time:
zero means "unknown" in the data model.
"""

from collections.abc import Iterable, Mapping

from opentelemetry.sdk.metrics import Exemplar
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from metrics.exporters import catalog
from metrics.exporters.catalog import MetricType
from metrics.exporters.exposition import Exposition
from metrics.exporters.points import Example, HistogramValue, Labels, Point, families
from metrics.model.names import label_text
from metrics.model.snapshot import DURATION_BUCKETS_S

SCOPE = "kafka-rebalance-agent"
_CUMULATIVE = AggregationTemporality.CUMULATIVE
_UNITS = {"seconds": "s", "bytes": "By"}
_NAMESPACES = ("kafka_consumer", "kafka_streams", "kafka_group", "kafka_app", "rebalance_agent")
_STATUS_NAMES = {
    catalog.CONSUMER_STATE.name: "kafka.consumer.status",
    catalog.STREAMS_STATE.name: "kafka.streams.status",
    catalog.GROUP_STATE.name: "kafka.group.status",
    catalog.APP_STATE.name: "kafka.app.status",
    catalog.COORDINATOR_STATE.name: "kafka.group.coordinator.status",
}
"""Status metrics: 1 for the current state, 0 for the others."""
_OTHER_NAMES = {catalog.STATUS_SECONDS.name: "kafka.consumer.rebalance.status_time"}
"""Without its unit it would be the status itself."""
ATTRIBUTES = {
    "group": "messaging.consumer.group.name",
    "client_id": "messaging.client.id",
    "host": "host.name",
    "kafka_cluster": "messaging.kafka.cluster.id",
    "app": "kafka.app.name",
    "application_id": "kafka.streams.application.id",
    "group_type": "kafka.group.type",
    "error": "error.type",
    "external_url": "url.full",
    "kind": "kafka.group.incident.kind",
    "setting": "kafka.group.setting.name",
    "change": "kafka.group.setting.change",
    "status": "kafka.rebalance.status",
    "state": "kafka.group.coordinator.state",
    "topic": "messaging.destination.name",
    "partition": "messaging.destination.partition.id",
    "member_id": "kafka.consumer.member.id",
    "group_instance_id": "kafka.consumer.group.instance.id",
    "protocol": "kafka.group.protocol",
    "assignor": "kafka.consumer.assignor",
    "software": "kafka.consumer.software",
    "source": "rebalance_agent.source.name",
    "sink": "rebalance_agent.sink.name",
    "outcome": "rebalance_agent.outcome",
    "reason": "error.type",
    "version": "service.version",
    "python_version": "process.runtime.version",
}
"""Attribute by label."""
_KAFKA = {"messaging.system": "kafka"}


def metrics_data(
    exposition: Exposition, resource: Resource, at: float, max_series: int, *, state_sets: bool
) -> MetricsData:
    """Return all metrics at ``at`` (Unix seconds)."""
    current = families(exposition, max_series, state_sets=state_sets)
    at_ns = int(at * 1e9)
    metrics = [_metric(row, points, at_ns) for row, points in current]
    scope = ScopeMetrics(InstrumentationScope(SCOPE), metrics, schema_url="")
    return MetricsData([ResourceMetrics(resource, [scope], schema_url="")])


def name_of(row: catalog.Metric) -> str:
    """Return the metric's name after the semantic conventions."""
    fixed = (_STATUS_NAMES | _OTHER_NAMES).get(row.name)
    if fixed is not None:
        return fixed
    namespace = next(space for space in _NAMESPACES if row.name.startswith(f"{space}_"))
    rest = row.name.removeprefix(f"{namespace}_").removesuffix("_total")
    rest = rest.removesuffix(f"_{row.unit}") if row.unit else rest
    dotted = namespace.replace("kafka_", "kafka.")
    return f"{dotted}.{rest.replace('rebalance_', 'rebalance.')}"


def kind_of(row: catalog.Metric) -> str:
    """Return the kind of an instrument: status, histogram, sum or gauge."""
    if row.name in _STATUS_NAMES:
        return "status"
    return "sum" if row.type is MetricType.COUNTER else row.type.value


def exemplar_of(example: Example) -> Exemplar:
    """Return an exemplar that links to its episode's trace."""
    trace_id, span_id = trace_of(example.episode)
    return Exemplar(
        filtered_attributes={"episode_id": example.episode},
        value=example.value,
        time_unix_nano=int(example.at * 1e9),
        span_id=span_id,
        trace_id=trace_id,
    )


def trace_of(episode: str) -> tuple[int, int]:
    """Return an episode's trace and its root span: the id twice, and the id (16 hex digits)."""
    return int(episode * 2, 16), int(episode, 16)


def _metric(row: catalog.Metric, points: Iterable[Point], at_ns: int) -> Metric:
    is_status = row.name in _STATUS_NAMES
    unit = "1" if is_status else _UNITS.get(row.unit, "")
    return Metric(name_of(row), row.help, unit, _data(row, points, at_ns, is_status=is_status))


def _data(
    row: catalog.Metric, points: Iterable[Point], at_ns: int, *, is_status: bool
) -> Gauge | Sum | Histogram:
    names = _attribute_names(row, is_status=is_status)
    if row.type is MetricType.HISTOGRAM:
        return Histogram([_histogram(names, each, at_ns) for each in points], _CUMULATIVE)
    numbers = [
        NumberDataPoint(_attributes(names, labels), 0, at_ns, _number(value))
        for labels, value in points
    ]
    if is_status:
        return Sum(numbers, _CUMULATIVE, is_monotonic=False)
    if row.type is MetricType.COUNTER:
        return Sum(numbers, _CUMULATIVE, is_monotonic=True)
    return Gauge(numbers)


def _attribute_names(row: catalog.Metric, *, is_status: bool) -> tuple[str, ...]:
    names = dict(ATTRIBUTES)
    if is_status and row is not catalog.COORDINATOR_STATE:
        names["status"] = _STATUS_NAMES[row.name].removesuffix("status") + "state"
    return tuple(names[label] for label in row.labels)


def _attributes(names: tuple[str, ...], labels: Labels) -> Mapping[str, str]:
    attributes = {
        name: label_text(value)
        for name, value in zip(names, labels, strict=True)
        if value  # an unknown value is no attribute
    }
    return _KAFKA | attributes if ATTRIBUTES[catalog.CLUSTER] in names else attributes


def _number(value: float | HistogramValue) -> float:
    assert not isinstance(value, HistogramValue)  # noqa: S101 - only histograms have these
    return int(value) if isinstance(value, int) else value  # a bool or a code is an int


def _histogram(names: tuple[str, ...], point: Point, at_ns: int) -> HistogramDataPoint:
    labels, value = point
    assert isinstance(value, HistogramValue)  # noqa: S101
    counts = value.durations.buckets
    return HistogramDataPoint(
        attributes=_attributes(names, labels),
        start_time_unix_nano=0,
        time_unix_nano=at_ns,
        count=sum(counts),
        sum=value.durations.sum_s,
        bucket_counts=counts,
        explicit_bounds=DURATION_BUCKETS_S,
        min=None,  # type: ignore[arg-type]  # optional on the wire, and not known
        max=None,  # type: ignore[arg-type]
        exemplars=[] if value.example is None else [exemplar_of(value.example)],
    )
