"""The colours keep their order and stay apart, for every kind of eye."""

from itertools import pairwise

import pytest

from metrics.model.palette import COLOURS
from metrics.model.status import RebalanceStatus

Rgb = tuple[float, float, float]

# Machado, Oliveira and Fernandes 2009, severity 1.0, on linear RGB
EYES: dict[str, tuple[Rgb, Rgb, Rgb]] = {
    "usual": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
JUST_SEEN = 0.02
"""About the least difference in OKLab that an eye notices."""


def linear(colour: str) -> Rgb:
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return (_linear(red), _linear(green), _linear(blue))


def _linear(value: float) -> float:
    return value / 12.92 if value <= 0.04045 else float(((value + 0.055) / 1.055) ** 2.4)


def times(matrix: tuple[Rgb, Rgb, Rgb], vector: Rgb) -> Rgb:
    a, b, c = (sum(m * v for m, v in zip(row, vector, strict=True)) for row in matrix)
    return (a, b, c)


def oklab(rgb: Rgb) -> Rgb:
    cones = times(
        (
            (0.4122214708, 0.5363325363, 0.0514459929),
            (0.2119034982, 0.6806995451, 0.1073969566),
            (0.0883024619, 0.2817188376, 0.6299787005),
        ),
        rgb,
    )
    red, green, blue = (max(cone, 0.0) ** (1 / 3) for cone in cones)
    return times(
        (
            (0.2104542553, 0.7936177850, -0.0040720468),
            (1.9779984951, -2.4285922050, 0.4505937099),
            (0.0259040371, 0.7827717662, -0.8086757660),
        ),
        (red, green, blue),
    )


def seen(eye: str) -> list[Rgb]:
    return [oklab(times(EYES[eye], linear(COLOURS[code]))) for code in RebalanceStatus]


@pytest.mark.parametrize("eye", EYES)
def test_no_two_codes_look_the_same(eye: str) -> None:
    colours = seen(eye)
    apart = [
        sum((x - y) ** 2 for x, y in zip(one, other, strict=True)) ** 0.5
        for n, one in enumerate(colours)
        for other in colours[:n]
    ]
    assert min(apart) > JUST_SEEN


def test_graver_is_darker() -> None:
    lightness = [colour[0] for colour in seen("usual")][1:]
    assert all(lighter > darker for lighter, darker in pairwise(lightness))
