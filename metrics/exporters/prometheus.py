"""The ``/metrics`` page: Prometheus text or OpenMetrics, as the scraper requests.

No global registry and no timestamps: the page is the state at the scrape. The library chooses the
format. The text is our own: the library needs 0.1 s of CPU for a page of 10,000 series. Names and
labels do not change from scrape to scrape and are formatted once.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import NamedTuple

from prometheus_client.exposition import choose_encoder
from prometheus_client.utils import floatToGoString

from metrics.exporters.catalog import Metric, MetricType
from metrics.exporters.exposition import Exposition
from metrics.exporters.points import (
    Example,
    HistogramValue,
    Labels,
    Point,
    SeriesLimit,
    agent_families,
    live_families,
)
from metrics.model.names import label_text
from metrics.model.snapshot import DURATION_BUCKETS_S

_go: Callable[[float], str] = floatToGoString
_BOUNDS = (*map(_go, DURATION_BUCKETS_S), "+Inf")
_BOUND = "le"
_OPENMETRICS = "application/openmetrics-text"
_POINTS = 1000
"""Points of a piece."""
_STATUS_LAST = {("status",), ("state",)}
"""Last labels that sort behind all others of their metrics, too."""
_EXPONENT = 1e6
"""Go writes larger numbers with an exponent."""


class PageWriter:
    """Writer of pages. For one thread.

    A page of 20,000 members has some 10 MiB. So it is made in pieces, one for each metric. The
    cache for the next page has one text for each row of labels, not for each series.
    """

    def __init__(self) -> None:
        """Start with an empty cache."""
        self._texts: dict[_TextShape, _LabelTexts] = {}

    def write(
        self, exposition: Exposition, accept: str, max_series: int, *, state_sets: bool = False
    ) -> tuple[list[bytes], str]:
        """Return the page's pieces and its content type, negotiated by the ``Accept`` header."""
        content_type = negotiate(accept)
        is_openmetrics = content_type.startswith(_OPENMETRICS)
        last, self._texts = self._texts, {}  # what this page does not show is forgotten with it
        limit, live = SeriesLimit(max_series), list[bytes]()
        for row, points in live_families(exposition.live, limit, state_sets=state_sets):
            live += self._pieces(row, points, last, is_openmetrics=is_openmetrics)
            del points  # the next metric's are made now
        page = list[bytes]()
        for row, points in agent_families(exposition.agent, limit):
            page += self._pieces(row, points, last, is_openmetrics=is_openmetrics)
        page += live
        if is_openmetrics:
            page.append(b"# EOF\n")
        for texts in self._texts.values():
            texts.forget_last_page()
        return page, content_type

    def _pieces(
        self,
        row: Metric,
        points: list[Point],
        last: "dict[_TextShape, _LabelTexts]",
        *,
        is_openmetrics: bool,
    ) -> Iterator[bytes]:
        """Yield a metric's lines, some at a time: a list of lines is larger than its text."""
        shape = _shape(row)
        texts = self._texts.get(shape)
        if texts is None:
            texts = self._texts[shape] = _LabelTexts(shape, last.get(shape, {}))
        yield "".join(_write_header(row, is_openmetrics=is_openmetrics)).encode()
        for begin in range(0, len(points), _POINTS):
            some = points[begin : begin + _POINTS]
            yield "".join(_lines(row, texts, some, with_examples=is_openmetrics)).encode()


def render(
    exposition: Exposition, accept: str, max_series: int, *, state_sets: bool = False
) -> tuple[bytes, str]:
    """Return one page and its content type."""
    pieces, content_type = PageWriter().write(exposition, accept, max_series, state_sets=state_sets)
    return b"".join(pieces), content_type


class _TextShape(NamedTuple):
    """The labels that one text has, and whether it is of a histogram."""

    names: tuple[str, ...]
    is_histogram: bool


def _shape(row: Metric) -> _TextShape:
    is_histogram = row.type is MetricType.HISTOGRAM
    return _TextShape(row.labels[:-1] if _has_end(row) else row.labels, is_histogram)


def _has_end(row: Metric) -> bool:
    """Return whether the last label is a status: on the page, it follows the row's own text.

    A row has up to 30 such series.
    """
    return row.type is not MetricType.HISTOGRAM and row.labels[-1:] in _STATUS_LAST


class _LabelTexts(dict[Labels, str]):
    """Text of labels, without braces, by labels; formatted at first use.

    All metrics with these labels share it. In a histogram the bound is between the labels: the text
    has the labels before the bound, a line end, and the labels after it. All lines of a histogram
    share it, because a text for each line of 5,000 groups took 30 MiB.
    """

    def __init__(self, shape: _TextShape, last: dict[Labels, str]) -> None:
        """``last`` are the texts of the last page: this page reuses those that it still shows."""
        super().__init__()
        self._shape, self._last = shape, last

    def forget_last_page(self) -> None:
        """Release the texts that this page does not show."""
        self._last = {}

    def __missing__(self, labels: Labels) -> str:
        """Take the last page's text, or format the labels in the order of their names."""
        self[labels] = text = self._last.pop(labels, None) or self._format(labels)
        return text

    def _format(self, labels: Labels) -> str:
        named = sorted(zip(self._shape.names, labels, strict=True))
        if not self._shape.is_histogram:
            return ",".join(map(_label, named))
        before = "".join(f"{_label(pair)}," for pair in named if pair[0] < _BOUND)
        behind = "".join(f",{_label(pair)}" for pair in named if pair[0] > _BOUND)
        return f"{before}\n{behind}"


class _StatusEnds(dict[str, str]):
    """Text of the last label with its punctuation, by its value."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def __missing__(self, value: str) -> str:
        self[value] = text = f",{_label((self._name, value))}}} "
        return text


def _label(named: tuple[str, str]) -> str:
    name, value = named
    return f'{name}="{_escape(value)}"'


def _escape(value: str) -> str:
    text = label_text(value)
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def negotiate(accept: str) -> str:
    """Return the content type for an ``Accept`` header: one of a few."""
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


def _lines(
    row: Metric, texts: _LabelTexts, points: list[Point], *, with_examples: bool
) -> Iterable[str]:
    if row.type is MetricType.HISTOGRAM:
        return _histograms(row.name, texts, points, with_examples=with_examples)
    return _numbers(row, texts, points)


def _numbers(row: Metric, texts: _LabelTexts, points: list[Point]) -> list[str]:
    name = row.name
    if not row.labels:
        return [f"{name} {_number(value)}\n" for _, value in points]
    if not _has_end(row):
        return [f"{name}{{{texts[labels]}}} {_number(value)}\n" for labels, value in points]
    ends = _StatusEnds(row.labels[-1])
    return [
        f"{name}{{{texts[labels[:-1]]}{ends[labels[-1]]}{_number(value)}\n"
        for labels, value in points
    ]


def _number(value: float | HistogramValue) -> str:
    number = float(value)  # type: ignore[arg-type]  # no histogram
    return repr(number) if number < _EXPONENT else _go(number)


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
