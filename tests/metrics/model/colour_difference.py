"""CIEDE2000: the difference of two colours, as the standard of the CIE computes it.

Source: Sharma, Wu and Dalal, "The CIEDE2000 Color-Difference Formula", 2005.
"""

from math import atan2, cos, degrees, exp, hypot, radians, sin, sqrt

Triple = tuple[float, float, float]
_XYZ = (
    (0.4124564, 0.3575761, 0.1804375),
    (0.2126729, 0.7151522, 0.0721750),
    (0.0193339, 0.1191920, 0.9503041),
)


def linear(colour: str) -> Triple:
    """Return linear RGB of a hex colour."""
    red, green, blue = (_linear(int(colour[at : at + 2], 16) / 255) for at in (1, 3, 5))
    return (red, green, blue)


def luminance(colour: str) -> float:
    """Return the relative luminance of a hex colour, as WCAG defines it."""
    return sum(weight * part for weight, part in zip(_XYZ[1], linear(colour), strict=True))


def lab(rgb: Triple) -> Triple:
    """Return CIELAB (D65) of linear RGB."""
    shown = [min(1.0, max(0.0, part)) for part in rgb]
    x, y, z = (
        _root(sum(w * part for w, part in zip(row, shown, strict=True)) / sum(row)) for row in _XYZ
    )
    return (116 * y - 16, 500 * (x - y), 200 * (y - z))


def delta_e_2000(one: Triple, other: Triple) -> float:
    """Return the difference of two CIELAB colours."""
    (l1, a1, b1), (l2, a2, b2) = one, other
    g = 0.5 * (1 - _saturation((hypot(a1, b1) + hypot(a2, b2)) / 2))
    a1, a2 = (1 + g) * a1, (1 + g) * a2
    c1, c2 = hypot(a1, b1), hypot(a2, b2)
    h1, h2 = degrees(atan2(b1, a1)) % 360, degrees(atan2(b2, a2)) % 360
    turn = 0.0 if c1 * c2 == 0 else (h2 - h1 + 180) % 360 - 180
    hue_difference = 2 * sqrt(c1 * c2) * sin(radians(turn / 2))
    hue = h1 + h2 if c1 * c2 == 0 else (h1 + turn / 2) % 360
    lightness, chroma = (l1 + l2) / 2, (c1 + c2) / 2
    t = (
        1
        - 0.17 * cos(radians(hue - 30))
        + 0.24 * cos(radians(2 * hue))
        + 0.32 * cos(radians(3 * hue + 6))
        - 0.20 * cos(radians(4 * hue - 63))
    )
    s_l = 1 + 0.015 * (lightness - 50) ** 2 / sqrt(20 + (lightness - 50) ** 2)
    s_c, s_h = 1 + 0.045 * chroma, 1 + 0.015 * chroma * t
    turned = 30 * exp(-(((hue - 275) / 25) ** 2))
    r_t = -sin(radians(2 * turned)) * 2 * _saturation(chroma)
    by_l, by_c, by_h = (l2 - l1) / s_l, (c2 - c1) / s_c, hue_difference / s_h
    return sqrt(by_l**2 + by_c**2 + by_h**2 + r_t * by_c * by_h)


def _linear(value: float) -> float:
    return value / 12.92 if value <= 0.04045 else float(((value + 0.055) / 1.055) ** 2.4)


def _root(share: float) -> float:
    return float(share ** (1 / 3)) if share > 216 / 24389 else (24389 / 27 * share + 16) / 116


def _saturation(chroma: float) -> float:
    return sqrt(chroma**7 / (chroma**7 + 25.0**7))
