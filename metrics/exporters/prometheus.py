"""The ``/metrics`` page: Prometheus text or OpenMetrics, as the scraper requests.

No global registry and no timestamps: the page is the state at the scrape. The library chooses the
format. The text is our own: the library needs 0.1 s of CPU for a page of 10,000 series. Names and
labels do not change from scrape to scrape and are formatted once.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from itertools import accumulate

from prometheus_client.exposition import choose_encoder
from prometheus_client.utils import floatToGoString

from metrics.exporters.catalog import Metric, MetricType
from metrics.exporters.exposition import Exposition
from metrics.exporters.points import Example, HistogramValue, Labels, Point, families
from metrics.model.names import printable
from metrics.model.snapshot import DURATION_BUCKETS_S

_go: Callable[[float], str] = floatToGoString
_BOUNDS = (*map(_go, DURATION_BUCKETS_S), "+Inf")
_BOUND = "le"
_OPENMETRICS = "application/openmetrics-text"
_POINTS = 1000
"""Lines per write: a list of lines takes more memory than its text."""
_EXPONENT = 1e6
"""Go writes larger numbers with an exponent."""


class PageWriter:
    """Writer of pages. For one thread."""

    def __init__(self) -> None:
        """Start with an empty cache."""
        self._texts: dict[_Shape, _LabelTexts] = {}

    def write(
        self, exposition: Exposition, accept: str, max_series: int, *, state_sets: bool = False
    ) -> tuple[bytes, str]:
        """Return the page and its content type, negotiated by the ``Accept`` header."""
        content_type = _content_type(accept)
        is_openmetrics = content_type.startswith(_OPENMETRICS)
        current = families(exposition, max_series, state_sets=state_sets)
        alike = defaultdict[_Shape, list[list[Point]]](list)
        for row, points in current:
            alike[_shape(row)].append(points)
        # shapes without series leave the cache
        self._texts = {shape: self._texts.get(shape) or _LabelTexts(*shape) for shape in alike}
        out = BytesIO()  # returns the page without a copy: a list of parts needs a join
        for row, points in current:
            out.write("".join(_write_header(row, is_openmetrics=is_openmetrics)).encode())
            shape = _shape(row)
            for begin in range(0, len(points), _POINTS):
                some = points[begin : begin + _POINTS]
                out.write("".join(self._lines(row, some, is_openmetrics)).encode())
                self._texts[shape].prune(alike[shape])
        if is_openmetrics:
            out.write(b"# EOF\n")
        return out.getvalue(), content_type

    def _lines(self, row: Metric, points: list[Point], with_examples: bool) -> Iterable[str]:
        name, texts = row.name, self._texts[_shape(row)]
        if row.type is MetricType.HISTOGRAM:
            return _histograms(name, texts, points, with_examples=with_examples)
        return [
            f"{name}{texts[labels]}{number!r}\n"
            if (number := float(value)) < _EXPONENT  # type: ignore[arg-type]  # no histogram
            else f"{name}{texts[labels]}{_go(number)}\n"
            for labels, value in points
        ]


def render(
    exposition: Exposition, accept: str, max_series: int, *, state_sets: bool = False
) -> tuple[bytes, str]:
    """Return one page and its content type."""
    return PageWriter().write(exposition, accept, max_series, state_sets=state_sets)


_Shape = tuple[tuple[str, ...], bool]
"""The names of a metric's labels, and whether it is a histogram."""


def _shape(row: Metric) -> _Shape:
    return row.labels, row.type is MetricType.HISTOGRAM


class _LabelTexts(dict[Labels, str]):
    """Text between a metric's name and its value, by labels; formatted at first use.

    All metrics with these labels share it. In a histogram the bound stands between the labels: the
    text has the labels before it, a line end, and the labels behind it. All lines of a histogram
    share it: a text for each line of 5,000 groups took 30 MiB.
    """

    def __init__(self, names: tuple[str, ...], is_histogram: bool) -> None:
        super().__init__()
        self._names, self._is_histogram = names, is_histogram
        self._capacity = 0

    def __missing__(self, labels: Labels) -> str:
        """Format the labels in the order of their names."""
        named = sorted(zip(self._names, labels, strict=True))
        if self._is_histogram:
            before = "".join(f"{_label(pair)}," for pair in named if pair[0] < _BOUND)
            behind = "".join(f",{_label(pair)}" for pair in named if pair[0] > _BOUND)
            self[labels] = text = f"{before}\n{behind}"
            return text
        text = ",".join(map(_label, named))
        self[labels] = text = f"{{{text}}} " if text else " "
        return text

    def prune(self, shown: list[list[Point]]) -> None:
        """Drop series that the page no longer has, once they may be a quarter of all."""
        if self._capacity // 2 <= sum(map(len, shown)) and len(self) <= self._capacity:
            return
        series = {labels for points in shown for labels, _ in points}
        for gone in self.keys() - series:
            del self[gone]
        self._capacity = len(series) * 5 // 4


def _label(named: tuple[str, str]) -> str:
    name, value = named
    return f'{name}="{_escape(value)}"'


def _escape(value: str) -> str:
    text = printable(value)
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _content_type(accept: str) -> str:
    try:
        # our names need no escaping; escaping by dots would escape their underscores
        _, content_type = choose_encoder(accept.replace("escaping=dots", "escaping=underscores"))
    except (TypeError, ValueError):  # the library fails if a version is no number
        _, content_type = choose_encoder("")
    return content_type


def _write_header(row: Metric, *, is_openmetrics: bool) -> Iterator[str]:
    is_counter = row.type is MetricType.COUNTER and is_openmetrics
    name = row.name.removesuffix("_total") if is_counter else row.name
    yield f"# HELP {name} {row.help}\n"
    yield f"# TYPE {name} {row.type.value}\n"
    if row.unit and is_openmetrics:  # the unit must be last in the family's name
        yield f"# UNIT {name} {row.unit}\n"


def _histograms(
    name: str, texts: _LabelTexts, points: list[Point], *, with_examples: bool
) -> Iterator[str]:
    for labels, value in points:
        assert isinstance(value, HistogramValue)  # noqa: S101 - the metric's type implies it
        before, _, behind = texts[labels].partition("\n")
        both = before + behind[1:] if behind else before[:-1]
        counts = list(accumulate(value.durations.buckets))
        example = value.example if with_examples else None
        held_by = None if example is None else bisect_left(DURATION_BUCKETS_S, example.value)
        for position, (bound, count) in enumerate(zip(_BOUNDS, counts, strict=True)):
            shown = _exemplar(example) if position == held_by and example is not None else ""
            yield f'{name}_bucket{{{before}le="{bound}"{behind}}} {_go(count)}{shown}\n'
        yield f"{name}_sum{{{both}}} {_go(value.durations.sum_s)}\n"
        yield f"{name}_count{{{both}}} {_go(counts[-1])}\n"


def _exemplar(example: Example) -> str:
    """Format an exemplar: only OpenMetrics has them."""
    value = _go(example.value)
    return f' # {{episode_id="{example.episode}"}} {value} {example.at:.9f}'
