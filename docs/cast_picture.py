"""A recorded terminal session as one SVG that moves: no script, no font and no image beside it.

Theory of operation. Each different row is drawn once, and a frame refers to its rows. The frames
stand below each other, and a CSS animation moves one after the other into view. A reader who
prefers reduced motion gets one frame that stands still.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate

from rich.cells import cell_len
from rich.color import Color
from rich.segment import Segment
from rich.style import Style

CELL = 8.4
_LINE, _PAD, _HEAD = 18, 12, 32
"""Pixels: a row's height, the border, and the head with the command. `CELL` is a cell's width."""
_INK, _PAPER, _FRAME, _NOTE = "#d1d7e0", "#0d1117", "#21262d", "#e3b341"
_ANSI = (
    "#6e7681", "#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff", "#39c5cf", "#b1bac4",
    "#8b949e", "#ffa198", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#f0f6fc",
)  # fmt: skip
"""The sixteen colours of a dark terminal."""
_STYLE = """
text{{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;\
fill:{ink};white-space:pre}}
.b{{font-weight:700}}.i{{font-style:italic}}.u{{text-decoration:underline}}.d{{opacity:.7}}
.film{{animation:film {seconds:.1f}s step-end infinite}}
@keyframes film{{{steps}}}
@media(prefers-reduced-motion:reduce){{.film{{animation:none;transform:translateY({still}px)}}}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One look at the screen. ``title`` is the command, ``note`` the key that was pressed."""

    rows: Sequence[Sequence[Segment]]
    seconds: float
    title: str
    note: str = ""


def draw_cast(frames: Sequence[Frame], columns: int, still: int) -> str:
    """Return the session as SVG; ``still`` is the number of the frame without motion."""
    width = round(columns * CELL) + 2 * _PAD
    height = _HEAD + max(len(frame.rows) for frame in frames) * _LINE + _PAD
    known: dict[str, int] = {}
    film = "".join(
        f'<g transform="translate(0,{number * height})">{_draw_frame(frame, width, known)}</g>'
        for number, frame in enumerate(frames)
    )
    rows = "".join(f'<g id="r{number}">{row}</g>' for row, number in known.items())
    seconds = [frame.seconds for frame in frames]
    style = _STYLE.format(
        ink=_INK, seconds=sum(seconds), steps=_steps(seconds, height), still=-still * height
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'width="{width}" height="{height}" aria-label="{escape(frames[still].title)}">'
        f"<style>{style}</style><defs>{rows}</defs>"
        f'<rect width="{width}" height="{height}" rx="8" fill="{_PAPER}"/>'
        f'<path d="M0 {_HEAD - 4}V8a8 8 0 0 1 8-8h{width - 16}a8 8 0 0 1 8 8v{_HEAD - 12}z" '
        f'fill="{_FRAME}"/><g class="film">{film}</g></svg>\n'
    )


def _steps(seconds: Sequence[float], height: int) -> str:
    total = sum(seconds)
    starts = [0.0, *accumulate(seconds)][: len(seconds)]
    return "".join(
        f"{100 * start / total:.3f}%{{transform:translateY({-number * height}px)}}"
        for number, start in enumerate(starts)
    )


def _draw_frame(frame: Frame, width: int, known: dict[str, int]) -> str:
    """Draw a frame; its rows get numbers in ``known``."""
    parts = [f'<text x="{_PAD}" y="19" class="b">$ {escape(frame.title)}</text>']
    if frame.note:
        note = escape(frame.note)
        end = f'x="{width - _PAD}" y="19" text-anchor="end"'
        parts.append(f'<text {end} style="fill:{_NOTE}">{note}</text>')
    for number, row in enumerate(frame.rows):
        drawn = "".join(_draw_row(row))
        if drawn:
            place = known.setdefault(drawn, len(known))
            parts.append(f'<use href="#r{place}" y="{_HEAD + number * _LINE}"/>')
    return "".join(parts)


def _draw_row(row: Sequence[Segment]) -> Iterator[str]:
    """Yield each run of a row: its background, then its text in exactly its cells."""
    at = 0
    for text, style, _ in row:
        left, cells = _PAD + at * CELL, cell_len(text)
        at += cells
        ink, paper = _colours(style or Style())
        if paper:
            size = f'width="{cells * CELL:.1f}" height="{_LINE}"'
            yield f'<rect x="{left:.1f}" {size} fill="{paper}"/>'
        if text.strip():
            before = cell_len(text) - cell_len(text.lstrip())
            kept = text.strip()
            place = f'x="{left + before * CELL:.1f}" y="13"'
            length = f'textLength="{cell_len(kept) * CELL:.1f}"'
            yield f"<text {place} {length}{_attributes(style, ink)}>{escape(kept)}</text>"


def _attributes(style: Style | None, ink: str) -> str:
    fill = f' style="fill:{ink}"' if ink else ""
    if style is None:
        return fill
    marks = (
        ("b", style.bold),
        ("d", style.dim),
        ("i", style.italic),
        ("u", style.underline),
    )
    names = " ".join(name for name, has in marks if has)
    return f' class="{names}"{fill}' if names else fill


def _colours(style: Style) -> tuple[str, str]:
    """Return text and background as colours; empty for the terminal's own."""
    ink, paper = _colour(style.color), _colour(style.bgcolor)
    return (paper or _PAPER, ink or _INK) if style.reverse else (ink, paper)


def _colour(colour: Color | None) -> str:
    if colour is None or colour.is_default:
        return ""
    if colour.number is not None and colour.number < len(_ANSI):
        return _ANSI[colour.number]
    return colour.get_truecolor().hex
