"""Figures of the report: one drawing, whatever the width, and no text that is markup."""

import re
from datetime import date, timedelta

import pytest
from markupsafe import Markup

from aggregation.spark.report.plot import (
    LABEL_MAX_CHARS,
    Axis,
    AxisTick,
    Bar,
    Panel,
    bars,
    columns,
    count_axis,
    log_share,
    log_time_axis,
    share_axis,
    time_axis,
)

DAY = date(2026, 3, 1)
EVIL = "</span><script>alert(1)</script>\x1b"


def texts(axis: Axis) -> list[str]:
    return [tick.text for tick in axis.ticks]


def boxes_of(figure: Markup, colour: str) -> list[list[float]]:
    """Left, top, width and height of each rectangle of a colour, in thousandths."""
    (path,) = re.findall(rf'fill="{colour}" d="([^"]*)"', figure)
    numbers = re.compile(r"M([\d.]+) ([\d.]+)h([\d.]+)v([\d.]+)h-[\d.]+z")
    return [[float(number) for number in found] for found in numbers.findall(path)]


@pytest.mark.parametrize(
    ("longest_s", "wanted"),
    [
        (0.05, ["0", "10 ms", "20 ms", "30 ms", "40 ms", "50 ms"]),
        (7, ["0", "1 s", "2 s", "3 s", "4 s", "5 s", "6 s", "7 s"]),
        (1000, ["0", "5 min", "10 min", "15 min"]),
        (100 * 3600, ["0", "24 h", "48 h", "72 h", "96 h"]),
        (1e9, ["0", "50,000 h", "100,000 h", "150,000 h", "200,000 h", "250,000 h"]),
    ],
)
def test_ticks_of_time_are_round(longest_s: float, wanted: list[str]) -> None:
    assert texts(time_axis(longest_s)) == wanted


@pytest.mark.parametrize(
    ("most", "wanted"),
    [
        (0, ["0", "1"]),
        (1, ["0", "1"]),
        (7, ["0", "1", "2", "3", "4", "5", "6", "7"]),
        (23, ["0", "5", "10", "15", "20"]),
        (14_000, ["0", "2,000", "4,000", "6,000", "8,000", "10,000", "12,000", "14,000"]),
    ],
)
def test_ticks_of_counts_are_whole_numbers(most: int, wanted: list[str]) -> None:
    assert texts(count_axis(most)) == wanted


def test_ticks_of_shares_are_round_percentages() -> None:
    assert texts(share_axis(0.0033)) == [
        *("0 %", "0.05 %", "0.1 %", "0.15 %", "0.2 %", "0.25 %", "0.3 %"),
    ]


def test_last_tick_is_at_its_value() -> None:
    axis = count_axis(23)
    assert axis.end == 23
    assert axis.ticks[-1].at == pytest.approx(20 / 23)


@pytest.mark.parametrize(
    ("shortest_s", "longest_s", "begin"),
    [(3.0, 3.0, "2 s"), (0.0, 40.0, "1 ms"), (1.0, 1e12, "500 ms")],
)
def test_logarithmic_axis_has_all_values_between_its_ends(
    shortest_s: float, longest_s: float, begin: str
) -> None:
    first, last, ticks = log_time_axis(shortest_s, longest_s)
    places = [log_share(value, first, last) for value in (shortest_s, longest_s)]
    assert all(0 <= place <= 1 for place in places)
    assert [tick.at for tick in ticks] == sorted({tick.at for tick in ticks})
    assert 2 <= len(ticks) <= 9
    assert ticks[0].text == begin


def test_parts_of_a_bar_follow_each_other() -> None:
    rows = [Bar("a", [("#111111", 2), ("#222222", 1)], "3"), Bar("b", [("#111111", 1)], "1")]
    figure = bars(rows, count_axis(4), "things")
    (first, third), (second,) = boxes_of(figure, "#111111"), boxes_of(figure, "#222222")
    assert [first[0], first[2], second[0], second[2]] == [0, 500, 500, 250]
    assert second[1] == first[1] == pytest.approx(85)
    assert third[1] == pytest.approx(585)
    assert re.findall(r"<span>(\w+)</span>", figure) == ["a", "b", "3", "1"]
    assert "things" in figure


def test_columns_are_stacked_and_marks_cross_all_panels() -> None:
    days = [DAY + timedelta(days=n) for n in range(30)]
    low, high = [1.0] * 30, [0.0] * 29 + [3.0]
    panels = [
        Panel("above", [("#111111", low), ("#222222", high)], 8),
        Panel("below", [("#333333", low)], 8),
    ]
    figure = columns(panels, days, [AxisTick(29, "1")])
    (top,) = boxes_of(figure, "#222222")
    last = boxes_of(figure, "#111111")[-1]
    assert (top[0], top[1], top[3]) == (last[0], 0, 750)
    assert (last[1], last[3]) == (750, 250)
    middle = last[0] + last[2] / 2
    (mark,) = set(re.findall(r'class="mark" stroke-width="1.6" d="M([\d.]+) 0L', figure))
    assert float(mark) == pytest.approx(middle, abs=0.2)
    assert figure.count('class="mark"') == 2
    assert re.findall(r">(\d+ \w+)</span>", figure)[:2] == ["1 Mar", "5 Mar"]


def test_labels_are_text_of_bounded_length() -> None:
    long = "x" * 300
    figure = bars([Bar(EVIL, [], EVIL), Bar(long, [], "")], Axis(1, [AxisTick(0, "0")]))
    assert "<script" not in figure
    assert "\x1b" not in figure
    runs = [len(found) for found in re.findall("[x…]{5,}", figure)]
    assert runs == [LABEL_MAX_CHARS, 25]


def test_both_parts_of_a_label_keep_their_ends_on_a_narrow_screen() -> None:
    bar = Bar("consumer-users-1 · prod-eu/users", [], "")
    figure = bars([bar], Axis(1, [AxisTick(0, "0")]))
    assert '<span class="at-narrow">consu…ers-1 · prod-…users</span>' in figure


@pytest.mark.parametrize(
    ("ticks", "shown"),
    [
        ([0.0], 1),
        ([0.0, 0.5, 1.0], 2),
        ([0.1 * n for n in range(11)], 2),
        ([0.45, 0.53], 1),
        ([0.0, 0.05, 0.1, 0.4, 0.41], 2),
        ([0.0, 0.2], 1),
    ],
)
def test_texts_of_ticks_have_room_on_a_narrow_screen(ticks: list[float], shown: int) -> None:
    axis = [AxisTick(at, f"{at}") for at in ticks]
    figure = bars([Bar("a", [], "")], Axis(1, axis))
    assert figure.count('style="left') - figure.count('class="fine"') == shown
