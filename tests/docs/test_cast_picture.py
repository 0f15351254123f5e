"""The cast as SVG: it moves without a script, stands still where preferred, and is light."""

import re
from xml.etree import ElementTree as ET

import pytest
from rich.segment import Segment
from rich.style import Style

from docs.cast_picture import CELL, Frame, draw_cast
from tests.cast import PICTURE, SIZE

SVG = "{http://www.w3.org/2000/svg}"
MAX_BYTES, MIN_FRAMES = 150_000, 20
RED = Segment("5 DroppedGroup", Style(color="red", bold=True))


def frame(*rows: list[Segment], seconds: float = 1.0, title: str = "top", note: str = "") -> Frame:
    return Frame(rows=rows, seconds=seconds, title=title, note=note)


def test_a_row_is_drawn_once_and_in_exactly_its_cells() -> None:
    row = [Segment("  payments  "), RED]

    text = draw_cast([frame(row), frame([], row)], 40, 0)

    picture = ET.fromstring(text)
    (defined,) = picture.findall(f"{SVG}defs/{SVG}g")
    assert len(picture.findall(f".//{SVG}use")) == 2
    name, status = defined.findall(f"{SVG}text")
    assert (name.text, status.text) == ("payments", "5 DroppedGroup")
    assert float(name.attrib["textLength"]) == pytest.approx(8 * CELL, abs=0.1)
    assert float(status.attrib["x"]) - float(name.attrib["x"]) == pytest.approx(10 * CELL, abs=0.1)
    assert "#ff7b72" in status.attrib["style"]


def test_reverse_video_swaps_text_and_background() -> None:
    text = draw_cast([frame([Segment("x", Style(reverse=True))])], 10, 0)

    assert 'fill="#d1d7e0"/><text' in text
    assert 'style="fill:#0d1117">x<' in text


def test_frames_are_shown_one_after_the_other_for_their_time() -> None:
    frames = [frame([Segment(each)], seconds=s) for each, s in (("a", 1.0), ("b", 3.0))]

    text = draw_cast(frames, 10, 1)

    assert "film 4.0s step-end infinite" in text
    (height,) = re.findall(r'viewBox="0 0 \d+ (\d+)"', text)
    assert (
        f"0.000%{{transform:translateY(0px)}}25.000%{{transform:translateY(-{height}px)}}" in text
    )
    still = text.partition("prefers-reduced-motion")[2]
    assert f"animation:none;transform:translateY(-{height}px)" in still


def test_what_a_terminal_shows_is_no_markup() -> None:
    ET.fromstring(draw_cast([frame([Segment('<b>&"')], title="a & b")], 10, 0))


def test_the_cast_of_the_docs_moves_is_light_and_loads_nothing() -> None:
    text = PICTURE.read_text()
    picture = ET.fromstring(text)

    assert len(text) < MAX_BYTES
    assert len(picture.findall(f"{SVG}g[@class='film']/{SVG}g")) >= MIN_FRAMES
    assert "prefers-reduced-motion" in text
    assert not re.search(r"<script|@import|url\(|href=\"(?!#)", text)
    words = "".join(picture.itertext())
    for wanted in ("rebalance-agent demo", "rebalance-agent top", "What to do", "max.poll."):
        assert wanted in words
    assert picture.attrib["viewBox"].split()[2] == str(round(SIZE[0] * CELL) + 24)
