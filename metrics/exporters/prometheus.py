"""The ``/metrics`` page: Prometheus text or OpenMetrics, as the scraper asks.

No global registry and no timestamps: the page is what holds at the scrape. Escaping is the
library's.
"""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar, Timestamp
from prometheus_client.utils import floatToGoString

from metrics.catalog import MetricType
from metrics.exporters.points import Example, Family, Point, families, printable
from metrics.exposition import Exposition
from metrics.snapshot import DURATION_BUCKETS_S, Durations

_BOUNDS = (*map(floatToGoString, DURATION_BUCKETS_S), "+Inf")


class ExpositionCollector(Collector):
    """One exposition as the families of the client library."""

    def __init__(self, exposition: Exposition, max_series: int, *, state_sets: bool) -> None:
        self._exposition = exposition
        self._max_series = max_series
        self._state_sets = state_sets

    def collect(self) -> Iterator[Metric]:
        """Return every family that has samples."""
        all_families = families(self._exposition, self._max_series, state_sets=self._state_sets)
        return map(_metric, all_families)


def render(
    exposition: Exposition, accept: str, max_series: int, *, state_sets: bool = False
) -> tuple[bytes, str]:
    """Return the page and its content type, negotiated by the ``Accept`` header."""
    try:
        encode, content_type = choose_encoder(accept)
    except (TypeError, ValueError):  # the library fails on a version that is no number
        encode, content_type = choose_encoder("")
    collector = ExpositionCollector(exposition, max_series, state_sets=state_sets)
    return encode(collector), content_type


def _metric(family: Family) -> Metric:
    row, points = family
    name = row.name.removesuffix("_total") if row.type is MetricType.COUNTER else row.name
    # the plain text format has no units, and OpenMetrics wants the unit last in the family's name
    metric = Metric(name, row.help, row.type, row.unit)
    for point in points:
        labels = dict(zip(row.labels, map(printable, point.labels), strict=True))
        _add(metric, row.name, labels, point)
    return metric


def _add(metric: Metric, name: str, labels: dict[str, str], point: Point) -> None:
    if not isinstance(point.value, Durations):
        metric.add_sample(name, labels, point.value)
        return
    counts = list(accumulate(point.value.buckets))
    example = point.example
    held_by = None if example is None else bisect_left(DURATION_BUCKETS_S, example.value)
    for number, (bound, count) in enumerate(zip(_BOUNDS, counts, strict=True)):
        shown = _exemplar(example) if number == held_by and example is not None else None
        metric.add_sample(f"{name}_bucket", labels | {"le": bound}, count, exemplar=shown)
    metric.add_sample(f"{name}_sum", labels, point.value.sum_s)
    metric.add_sample(f"{name}_count", labels, counts[-1])


def _exemplar(example: Example) -> Exemplar:
    """OpenMetrics alone shows it; the plain text format has none."""
    seconds, part = divmod(example.at, 1)
    at = Timestamp(int(seconds), int(part * 1e9))
    return Exemplar({"episode_id": example.episode}, example.value, at)
