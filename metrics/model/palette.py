"""One colour for each status code, for reports and dashboards.

0 is green; 1 to 13 run from light yellow over red to dark violet, so that lightness alone
shows the order of the codes, with any kind of colour blindness and in print. The steps are even
in OKLab (lightness 0.88 to 0.45, hue 84 to -75 degrees) and have the largest difference
between neighbours under simulated protanopia, deuteranopia and tritanopia (Machado
2009); each is visible on white and on near-black. Thirteen colours are still many: a page
writes the code's name beside them.
"""

from metrics.model.status import RebalanceStatus

UNKNOWN_COLOUR = "#8a8f98"
"""For rows without a code: an unknown cause, the sum of all others."""

_COLOURS = (
    "#2f9e6b",
    "#fdd071",
    "#ffbd6c",
    "#fcab6c",
    "#f69a72",
    "#ed8b79",
    "#e17d82",
    "#d2718b",
    "#c16893",
    "#ad5f99",
    "#98599d",
    "#81539e",
    "#6a4e9d",
    "#514998",
)

COLOURS = dict(zip(RebalanceStatus, _COLOURS, strict=True))
"""Hex colour of each code."""
