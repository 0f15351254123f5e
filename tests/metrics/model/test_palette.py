"""The colours stay apart for every kind of eye, and stand out from their background."""

import math
from itertools import combinations

import pytest

from metrics.model.palette import (
    BACKGROUNDS,
    ON_DARK,
    ON_LIGHT,
    UNKNOWN,
    css_variables,
    light_for_dark,
)
from metrics.model.status import RebalanceStatus
from tests.metrics.model.colour_difference import delta_e_2000, lab, linear, luminance

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
APART = 12.0
CONTRAST = 3.0
"""WCAG 2.2, 1.4.11: graphics beside their background."""
THEMES = {
    "light": ([*ON_LIGHT.values(), UNKNOWN.light], ("#ffffff", BACKGROUNDS.light)),
    "dark": ([*ON_DARK.values(), UNKNOWN.dark], (BACKGROUNDS.dark, "#181b1f")),
}
"""Colours by code with the unknown cause last, and their backgrounds; #181b1f is Grafana's."""


def seen(colour: str, eye: str) -> Rgb:
    rgb = linear(colour)
    a, b, c = (sum(m * v for m, v in zip(row, rgb, strict=True)) for row in EYES[eye])
    return lab((a, b, c))


def test_the_difference_is_that_of_the_standard() -> None:
    # Sharma, Wu and Dalal 2005, table 1: pairs 1, 7, 17 and 31
    pairs = (
        ((50.0, 2.6772, -79.7751), (50.0, 0.0, -82.7485), 2.0425),
        ((50.0, 0.0, 0.0), (50.0, -1.0, 2.0), 2.3669),
        ((50.0, 2.5, 0.0), (73.0, 25.0, -18.0), 27.1492),
        ((90.9257, -0.5406, -0.9208), (88.6381, -0.8985, -0.7239), 1.5381),
    )
    for one, other, wanted in pairs:
        assert math.isclose(delta_e_2000(one, other), wanted, abs_tol=1e-4)


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("theme", THEMES)
def test_no_two_statuses_look_the_same(theme: str, eye: str) -> None:
    colours, _ = THEMES[theme]
    close = {
        (one, other): delta_e_2000(seen(colours[one], eye), seen(colours[other], eye))
        for one, other in combinations(range(len(colours)), 2)
    }
    assert {pair: apart for pair, apart in close.items() if apart < APART} == {}


@pytest.mark.parametrize("theme", THEMES)
def test_each_stands_out_from_its_background(theme: str) -> None:
    colours, backgrounds = THEMES[theme]
    for background in backgrounds:
        for colour in colours:
            lighter, darker = sorted((luminance(colour), luminance(background)), reverse=True)
            assert (lighter + 0.05) / (darker + 0.05) >= CONTRAST, (colour, background)


@pytest.mark.parametrize("colours", [ON_LIGHT, ON_DARK], ids=["light", "dark"])
def test_no_rebalance_is_a_quiet_grey(colours: dict[RebalanceStatus, str]) -> None:
    _, a, b = lab(linear(colours[RebalanceStatus.NONE]))
    assert math.hypot(a, b) < 8


def test_pages_have_both_shades_of_each_status() -> None:
    text = css_variables()
    light, _, dark = text.partition("@media (prefers-color-scheme: dark)")
    for code in RebalanceStatus:
        assert f"--status-{code.value}: {ON_LIGHT[code]};" in light
        assert f"--status-{code.value}: {ON_DARK[code]};" in dark


def test_a_text_for_dark_themes_has_each_light_shade_in_its_place() -> None:
    dark = "; ".join([*ON_DARK.values(), UNKNOWN.dark, "#123456"])

    assert light_for_dark(dark) == "; ".join([*ON_LIGHT.values(), UNKNOWN.light, "#123456"])
