"""Figures as inline SVG that follow the page's colours, light or dark.

Text, rules and gaps are drawn in marker colours that become CSS variables, so one version of a
figure is enough. Labels come from clients: no part of them is read as markup or mathematics.
"""

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from html import escape
from io import StringIO
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import (
    FixedLocator,
    FuncFormatter,
    MaxNLocator,
    MultipleLocator,
    NullLocator,
)


class FigureRoom(NamedTuple):
    """Room of a figure: its text is as large in each."""

    width_in: float
    ticks: int
    """Most ticks along the width."""
    label_chars: int
    """Most characters of a label at its side."""


LABEL_MAX_CHARS = 47
WIDE = FigureRoom(9.2, 7, LABEL_MAX_CHARS)
NARROW = FigureRoom(4.6, 4, 22)
"""Of a telephone's screen, about 340 px beside the margins."""
_shape = ContextVar("shape", default=WIDE)
ROW_IN = 0.34
TOP = 12
"""Limit of groups or members in a plot; the table has them all."""

_MANY_H = 100
_STEPS_S = (
    *(0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800),
    *(3600 * hours for hours in (1, 2, 4, 6, 12, 24, 48, 120, 240, 480, 1000, 2500, 5000, 10000)),
)

_LOG_S = (
    *(0.001, 0.01, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800),
    *(3600 * hours for hours in (1, 2, 5, 12, 24, 72, 240, 1000, 5000)),
)

INK, FAINT, GAP, ACCENT = "#010203", "#010204", "#010205", "#010206"
_VARIABLES = {INK: "--ink", FAINT: "--faint", GAP: "--card", ACCENT: "--accent"}
_CONTROL = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff\ufffe\uffff]+"
)
_STYLE: Any = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "ytick.left": False,
}


@contextmanager
def style(salt: str, shape: FigureRoom = WIDE) -> Iterator[None]:
    """Draw in the report's style; ``salt`` makes the ids of two figures different."""
    before = _shape.set(shape)
    try:
        with warnings.catch_warnings(), mpl.rc_context(_STYLE):
            mpl.rcParams["svg.hashsalt"] = salt
            warnings.simplefilter("ignore", UserWarning)  # glyphs that this machine's font lacks
            yield
    finally:
        _shape.reset(before)


def most_ticks() -> int:
    """Return how many ticks have room along the width of a figure."""
    return _shape.get().ticks


def most_days() -> int:
    """Return the same for labels as short as a day's."""
    return most_ticks() * 10 // 7


def canvas(height_in: float) -> tuple[Figure, Axes]:
    """Return an empty figure of the page's width."""
    figure = Figure(figsize=(_shape.get().width_in, height_in), layout="constrained")
    return figure, figure.add_subplot()


def canvas_of_two(height_in: float) -> tuple[Figure, tuple[Axes, Axes]]:
    """Return an empty figure with two axes above each other and a common x axis below both."""
    figure = Figure(figsize=(_shape.get().width_in, height_in), layout="constrained")
    above = figure.add_subplot(2, 1, 1)
    below = figure.add_subplot(2, 1, 2, sharex=above)
    above.tick_params(labelbottom=False)
    return figure, (above, below)


def bars(labels: Sequence[str]) -> tuple[Figure, Axes]:
    """Return a figure for horizontal bars, the first on top, and a grid along the values."""
    figure, axes = canvas(0.75 + ROW_IN * len(labels))
    axes.set_yticks(
        range(len(labels)), [readable(label, _shape.get().label_chars) for label in labels]
    )
    axes.set_ylim(len(labels) - 0.45, -0.55)
    axes.grid(axis="x")
    return figure, axes


def time_axis(axes: Axes, longest_s: float) -> None:
    """Put the ticks of a linear axis from 0 at round times: at 15 min, not at 16.7."""
    ticks = most_ticks()
    step = next((s for s in _STEPS_S if longest_s / s <= ticks), _STEPS_S[-1])
    axes.xaxis.set_major_locator(MaxNLocator(ticks) if longest_s < 1 else MultipleLocator(step))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_seconds(value)))


def log_time_axis(axes: Axes) -> None:
    """Make a logarithmic axis of seconds with ticks at round times."""
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(_LOG_S))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_seconds(value)))
    axes.xaxis.set_minor_locator(NullLocator())


def count_axis(axis: Axis) -> None:
    """Put ticks at whole numbers, with separated thousands."""
    axis.set_major_locator(MaxNLocator(most_ticks(), integer=True))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def format_seconds(seconds: float) -> str:
    """Write a length of time for people: ``250 ms``, ``3.5 s``, ``12 min``, ``2.1 h``."""
    if seconds == 0:
        return "0"
    for limit, size, unit in ((0.9995, 0.001, "ms"), (120, 1, "s"), (7200, 60, "min")):
        if seconds < limit:
            return f"{seconds / size:.3g} {unit}"
    hours = seconds / 3600
    return f"{hours:,.0f} h" if hours >= _MANY_H else f"{hours:,.1f} h".replace(".0 h", " h")


def readable(text: str, limit: int = LABEL_MAX_CHARS) -> str:
    """Shorten any text to one line without control characters; the middle of a long one goes."""
    line = plain(text)
    if len(line) <= limit:
        return line
    head = limit // 2
    return f"{line[:head]}…{line[head + 1 - limit :]}"


def plain(text: str) -> str:
    """Replace characters that neither XML nor a terminal should get."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def svg(figure: Figure, name: str, alt: str, kind: str = "") -> str:
    """Return the figure as an inline SVG element of class ``kind`` that scales with the page."""
    out = StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'(?<=<svg)([^>]*?) (?:width|height)="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(?<=<svg)([^>]*?) (?:width|height)="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", text)
    for colour, variable in _VARIABLES.items():
        text = text.replace(colour, f"var({variable})")
    return text.replace(
        "<svg", f'<svg class="{kind}" role="img" aria-label="{escape(alt, quote=True)}"', 1
    )
