"""matplotlib's style for these pictures, and figures as SVG that follow a page's colours.

Text, rules and gaps are drawn in marker colours that become CSS variables. Labels come from
clients: no part of them is read as markup or mathematics.
"""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from io import StringIO
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

INK, FAINT, GAP, ACCENT = "#010203", "#010204", "#010205", "#010206"
_VARIABLES = {INK: "--ink", FAINT: "--faint", GAP: "--card", ACCENT: "--accent"}
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
def style(salt: str) -> Iterator[None]:
    """Draw in the pictures' style; ``salt`` makes the ids of two figures different."""
    with warnings.catch_warnings(), mpl.rc_context(_STYLE):
        mpl.rcParams["svg.hashsalt"] = salt
        warnings.simplefilter("ignore", UserWarning)  # glyphs that this machine's font lacks
        yield


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
