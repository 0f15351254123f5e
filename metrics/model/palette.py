"""One colour for each status, in two shades: for light and for dark backgrounds.

Pages, terminal, dashboards and report take their colours from here. 0 is a quiet grey. The hue
names the family: blue for joins (1, 2), red for members that were lost (3 to 5), mauve for the user
(6), green for metadata (7, 8), yellow for retries (9), violet for follow-ups of Streams (10 to 13).
The statuses of a family differ in lightness.

Any two statuses differ by a CIEDE2000 of 12 at least, in usual vision and under simulated
protanopia, deuteranopia and tritanopia (Machado 2009), and each has a contrast of 3:1 with its
background. No set of fourteen colours has that on both backgrounds at once: the lightness that
both allow is too narrow. So there are two shades. Fourteen colours are still many: if there is
room, a screen shows the code and its name beside the colour.
"""

import re
from typing import NamedTuple

from metrics.model.status import RebalanceStatus


class Shades(NamedTuple):
    """A colour, on a light and on a dark background, as hex."""

    light: str
    dark: str


BACKGROUNDS = Shades("#f6f8fa", "#0f141a")
"""Backgrounds of the pages."""
UNKNOWN = Shades("#464a41", "#f9ece3")
"""For rows without a code: an unknown cause, the sum of all others."""

_SHADES = (
    Shades("#848b94", "#6c747f"),
    Shades("#23535f", "#e7e7ff"),
    Shades("#3d62e9", "#6ea9fe"),
    Shades("#480811", "#a76d64"),
    Shades("#852800", "#de946f"),
    Shades("#af4f39", "#ea0834"),
    Shades("#8b5e92", "#ac919c"),
    Shades("#0ea376", "#abf4a3"),
    Shades("#3f7b68", "#1d7905"),
    Shades("#b7801c", "#bed22c"),
    Shades("#2d1f30", "#acb4d0"),
    Shades("#9d84c1", "#5162ab"),
    Shades("#25125d", "#9284b3"),
    Shades("#3a2daf", "#6873fc"),
)

SHADES = dict(zip(RebalanceStatus, _SHADES, strict=True))
"""Both shades of each status."""
ON_LIGHT = {status: shades.light for status, shades in SHADES.items()}
"""Hex colour of each status on white, such as paper."""
ON_DARK = {status: shades.dark for status, shades in SHADES.items()}
"""Hex colour of each status on black, such as Grafana's usual theme."""
_CODES = {
    "blue": (1, 2),
    "red": (3, 4, 5),
    "magenta": (6,),
    "green": (7, 8),
    "yellow": (9,),
    "cyan": (10, 11, 12, 13),
}
TERMINAL = {RebalanceStatus(code): hue for hue, codes in _CODES.items() for code in codes}
"""The terminal's own colours, by family; 0 has none."""
_LIGHT_OF = {shades.dark: shades.light for shades in (*_SHADES, UNKNOWN)}
_DARK = re.compile("|".join(_LIGHT_OF))
AMOUNTS = ("#fdd071", "#ed8b79", "#ad5f99", "#514998")
"""A ramp for amounts, from few to many: no status."""

_DARK_FROM = 0.179
"""Luminance from which black has more contrast than white."""


def ink_on(colour: str) -> str:
    """Return black or white, whichever is easier to read on a hex colour."""
    return "#000000" if _luminance(colour) >= _DARK_FROM else "#ffffff"


def light_for_dark(text: str) -> str:
    """Return a text with the light shade of each colour in place of its dark one."""
    return _DARK.sub(lambda found: _LIGHT_OF[found[0]], text)


def css_variables() -> str:
    """Return ``--status-0`` to ``--status-13`` and ``--status-unknown``, with ``-ink`` each.

    The light shades are the default; the dark ones apply if the browser prefers dark pages.
    """
    light, dark = (_variables(n) for n in range(2))
    return f":root {{\n{light}}}\n@media (prefers-color-scheme: dark) {{\n:root {{\n{dark}}}\n}}\n"


def _variables(shade: int) -> str:
    named = {str(status.value): shades for status, shades in SHADES.items()}
    return "".join(
        f"--status-{name}: {shades[shade]}; --status-{name}-ink: {ink_on(shades[shade])};\n"
        for name, shades in {**named, "unknown": UNKNOWN}.items()
    )


def _luminance(colour: str) -> float:
    red, green, blue = (_linear(int(colour[at : at + 2], 16) / 255) for at in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(value: float) -> float:
    return value / 12.92 if value <= 0.04045 else float(((value + 0.055) / 1.055) ** 2.4)
