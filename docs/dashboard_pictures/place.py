"""Tools to draw panels: series, the time shown, a rectangle, and values as text."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from math import isfinite
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, MultipleLocator

from aggregation.spark.report.plot import format_seconds, plain, readable
from docs.dashboard_pictures.style import FAINT, INK

CHAR_IN = 0.062
"""Width of a character, about, at the size of labels."""

TITLE_IN = 0.28
_THOUSAND = 1000.0
_LIGHT = 140.0
_TICKS = 6
_STEPS_S = (10, 30, 60, 120, 300, 600, 1800, 3600)


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One series of a response; points are (Unix seconds, value), ``step_s`` apart."""

    name: str
    labels: Mapping[str, str]
    points: Sequence[tuple[float, float]]
    step_s: float = 1.0

    @property
    def last(self) -> float:
        """The newest value."""
        return self.points[-1][1]


Found = Sequence[Sequence[Series]]
"""Of each of a panel's targets."""


@dataclass(frozen=True, slots=True)
class Span:
    """The time shown, in Unix seconds."""

    start_at: float
    end_at: float

    @property
    def seconds(self) -> float:
        """How long it is."""
        return self.end_at - self.start_at

    def axis(self, axes: Axes) -> None:
        """Put the time of day below."""
        axes.set_xlim(self.start_at, self.end_at)
        step = next((s for s in _STEPS_S if self.seconds / s <= _TICKS), _STEPS_S[-1])
        axes.xaxis.set_major_locator(MultipleLocator(step))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: f"{_time(at):%H:%M:%S}"))


def _time(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A panel's rectangle; its measures are inches, from its own left and top."""

    figure: Figure
    left_in: float
    top_in: float
    width_in: float
    height_in: float
    span: Span

    def frame(self, title: str) -> None:
        """Draw the panel's border and title."""
        self.fill(0, 0, self.width_in, self.height_in, "none", edgecolor=FAINT, linewidth=0.8)
        self.say(0.1, 0.15, title, size=8, weight="bold")

    def fill(
        self, x: float, y: float, width: float, height: float, colour: str, **line: Any
    ) -> None:
        """Draw a rectangle behind the text."""
        left, bottom, wide, tall = self._share(x, y, width, height)
        box = Rectangle((left, bottom), wide, tall, facecolor=colour, linewidth=0)
        box.set(transform=self.figure.transFigure, zorder=-1, **line)
        self.figure.add_artist(box)

    def axes(self, left: float, bottom: float, top: float = TITLE_IN, right: float = 0.1) -> Axes:
        """Return axes that leave these margins."""
        width, height = self.width_in - left - right, self.height_in - top - bottom
        return self.figure.add_axes(self._share(left, top, width, height))

    def say(self, x: float, y: float, text: str, **font: Any) -> None:
        """Write text, its middle line so far below the top."""
        at_x, at_y, _, _ = self._share(x, y, 0, 0)
        self.figure.text(at_x, at_y, plain(text), **{"va": "center", "color": INK} | font)

    def _share(
        self, x: float, y: float, width: float, height: float
    ) -> tuple[float, float, float, float]:
        whole_in, tall_in = self.figure.get_size_inches()
        bottom_in = tall_in - self.top_in - y - height
        left_in = self.left_in + x
        return (left_in / whole_in, bottom_in / tall_in, width / whole_in, height / tall_in)


def runs(series: Series) -> Iterator[tuple[float, float, float]]:
    """Return (from, to, value) for each run of one value, with gaps between distant points."""
    number = 0
    keyed = list[tuple[tuple[int, float], float]]()
    for position, (at, value) in enumerate(series.points):
        number += position > 0 and at - series.points[position - 1][0] > 1.5 * series.step_s
        keyed.append(((number, value), at))
    for (_, value), points in groupby(keyed, key=lambda each: each[0]):
        ats = [at for _, at in points]
        yield ats[0], ats[-1] + series.step_s, value


def format_value(value: float, unit: str) -> str:
    """Write a value as Grafana does, about."""
    if not isfinite(value):
        return "no data"
    match unit:
        case "s":
            return format_seconds(value)
        case "percentunit":
            return f"{value:.0%}"
        case "Bps":
            return f"{value / _THOUSAND:.3g} kB/s"
        case "cps":
            return f"{value:.3g}/s"
        case _:
            return f"{value:,.0f}" if value == round(value) else f"{value:,.3g}"


def value_mappings(panel: Mapping[str, Any]) -> dict[float, tuple[str, str]]:
    """Return text and colour of each value that a panel names."""
    return {
        float(value): (each["text"], each["color"])
        for mapping in panel["fieldConfig"]["defaults"].get("mappings", [])
        for value, each in mapping["options"].items()
    }


def label_margin(names: Sequence[str], most_in: float) -> tuple[float, list[str]]:
    """Return the room that labels need, and the labels cut to the available room."""
    cut = [readable(name, max(8, int(most_in / CHAR_IN))) for name in names]
    return 0.15 + CHAR_IN * max(map(len, cut), default=0), cut


def on(colour: str) -> str:
    """Return the text colour that is readable on a colour: white, or dark."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "#1f2328" if 0.299 * red + 0.587 * green + 0.114 * blue > _LIGHT else "#ffffff"
