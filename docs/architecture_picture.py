"""The picture of `docs/architecture.md`: a table of boxes and a table of arrows, written as SVG."""

from dataclasses import dataclass
from enum import Enum
from html import escape
from itertools import pairwise

_WIDTH = 1196
_HEIGHT = 588
_LINE = 16
_HEAD = 19
_STYLE = """
    text { font: 12px system-ui, sans-serif; fill: #212121; }
    .title { font-weight: 600; font-size: 13px; }
    .word { font-style: italic; paint-order: stroke; stroke: #ffffff; stroke-width: 5px; }
    path { fill: none; stroke: #424242; stroke-width: 1.4; marker-end: url(#head); }
"""
_MARKER = (
    '<marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" '
    'orient="auto"><polygon points="0 0, 8 4, 0 8" fill="#424242"/></marker>'
)


class Owner(Enum):
    """The top-level package of a box, with its fill and its border."""

    OUTSIDE = ("#f5f5f5", "#757575")
    AGENT = ("#e3f2fd", "#1565c0")
    AGGREGATION = ("#e8f5e9", "#2e7d32")
    METRICS = ("#fff3e0", "#e65100")


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A package, by its folder, or something outside of the agent. Lengths are pixels."""

    owner: Owner
    title: str
    lines: tuple[str, ...]
    left: int
    top: int
    width: int = 204
    height: int = 54

    @property
    def right(self) -> int:
        """Its right border."""
        return self.left + self.width

    @property
    def bottom(self) -> int:
        """Its lower border."""
        return self.top + self.height


@dataclass(frozen=True, slots=True)
class Arrow:
    """An arrow from one box to another, both by title, with a word for the thing that moves."""

    source: str
    target: str
    word: str = ""


_EVIDENCE = ("client logs", "broker logs", "network traffic", "statistics", "posted events")
_SOURCES = (
    "logs",
    "broker_logs",
    "capture, proxy: agent/wire",
    "librdkafka_stats",
    "http_events",
    "inspection: agent/inspection",
)
BOXES = (
    Box(
        owner=Owner.OUTSIDE,
        title="evidence",
        lines=(*_EVIDENCE, "brokers' responses"),
        left=16,
        top=44,
        width=132,
        height=140,
    ),
    Box(owner=Owner.AGENT, title="agent/sources", lines=_SOURCES, left=180, top=44, height=140),
    Box(
        owner=Owner.METRICS,
        title="metrics/tracking",
        lines=("one status a member:", "only upward, or to 0;", "duplicates removed"),
        left=452,
        top=44,
        height=84,
    ),
    Box(
        owner=Owner.AGENT,
        title="agent/runtime",
        lines=("pipeline: samples first,", "checkpoint second"),
        left=452,
        top=192,
        height=70,
    ),
    Box(
        owner=Owner.AGENT,
        title="agent/outputs",
        lines=(
            "spool: files on this disk",
            "kafka: a topic",
            "hub_push: a hub",
            "otlp: spans, metrics",
        ),
        left=452,
        top=326,
        height=104,
    ),
    Box(
        owner=Owner.AGGREGATION,
        title="aggregation/live",
        lines=("the max over members",),
        left=734,
        top=44,
    ),
    Box(
        owner=Owner.METRICS,
        title="metrics/exporters",
        lines=("Prometheus text, OTLP",),
        left=976,
        top=44,
    ),
    Box(
        owner=Owner.AGENT,
        title="agent/web",
        lines=("/metrics, API, pages",),
        left=976,
        top=140,
    ),
    Box(
        owner=Owner.AGENT,
        title="agent/cli",
        lines=("run, explain, top, replay",),
        left=976,
        top=236,
    ),
    Box(
        owner=Owner.AGGREGATION,
        title="aggregation/explain",
        lines=("the answer in words, advice",),
        left=734,
        top=184,
    ),
    Box(
        owner=Owner.AGGREGATION,
        title="aggregation/rebalances",
        lines=("episodes of members become", "rebalances of groups"),
        left=734,
        top=280,
        height=70,
    ),
    Box(
        owner=Owner.AGENT,
        title="agent/hub",
        lines=("samples of all agents",),
        left=734,
        top=386,
    ),
    Box(
        owner=Owner.AGGREGATION,
        title="aggregation/spark",
        lines=("ingest, tables, rollups",),
        left=734,
        top=468,
    ),
    Box(
        owner=Owner.OUTSIDE,
        title="report",
        lines=("weeks and months, by SQL",),
        left=976,
        top=468,
    ),
    Box(
        owner=Owner.METRICS,
        title="metrics/model",
        lines=("values and pure rules: codes, signals, samples, snapshots",),
        left=16,
        top=326,
        width=368,
    ),
    Box(
        owner=Owner.AGENT,
        title="agent/config",
        lines=("the YAML, read and checked in one place",),
        left=16,
        top=398,
        width=368,
    ),
    Box(
        owner=Owner.AGENT,
        title="agent/wiring",
        lines=("the composition root: builds all of this, and starts it",),
        left=16,
        top=468,
        width=368,
    ),
)
ARROWS = (
    Arrow("evidence", "agent/sources"),
    Arrow("agent/sources", "metrics/tracking", "Signal"),
    Arrow("metrics/tracking", "aggregation/live", "Snapshot"),
    Arrow("aggregation/live", "metrics/exporters"),
    Arrow("metrics/exporters", "agent/web"),
    Arrow("metrics/tracking", "agent/runtime", "Sample"),
    Arrow("agent/runtime", "agent/outputs", "Sample"),
    Arrow("agent/outputs", "agent/hub"),
    Arrow("agent/outputs", "aggregation/spark"),
    Arrow("agent/hub", "aggregation/rebalances"),
    Arrow("aggregation/rebalances", "aggregation/explain"),
    Arrow("aggregation/explain", "agent/web"),
    Arrow("aggregation/explain", "agent/cli"),
    Arrow("aggregation/spark", "report"),
)
_NOTES = ((16, 26, "the way of the data"), (16, 308, "used everywhere"))


def architecture_picture() -> str:
    """Return the SVG."""
    boxes = {box.title: box for box in BOXES}
    arrows = [_draw_arrow(boxes[each.source], boxes[each.target], each.word) for each in ARROWS]
    notes = [
        f'<text class="title" x="{left}" y="{top}">{escape(text)}</text>'
        for left, top, text in _NOTES
    ]
    parts = [*notes, *_draw_legend(), *map(_draw_box, BOXES), *arrows]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}">',
            "  <!-- made from docs/architecture_picture.py by `make docs` -->",
            f"  <style>{_STYLE}  </style>",
            f"  <defs>{_MARKER}</defs>",
            f'  <rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
            *(f"  {part}" for part in parts),
            "</svg>\n",
        ]
    )


def _draw_rectangle(owner: Owner, left: int, top: int, width: int, height: int) -> str:
    fill, border = owner.value
    return (
        f'<rect x="{left}" y="{top}" width="{width}" height="{height}" rx="6" '
        f'fill="{fill}" stroke="{border}"/>'
    )


def _draw_box(box: Box) -> str:
    texts = [
        f'<text{" class=" + chr(34) + "title" + chr(34) if not row else ""} x="{box.left + 12}" '
        f'y="{box.top + _HEAD + 2 + row * (_LINE + 2)}">{escape(line)}</text>'
        for row, line in enumerate((box.title, *box.lines))
    ]
    frame = _draw_rectangle(box.owner, box.left, box.top, box.width, box.height)
    return frame + "".join(texts)


def _draw_arrow(source: Box, target: Box, word: str) -> str:
    points = _route(source, target)
    (first, *others) = points
    line = f"M{first[0]} {first[1]}" + "".join(f" L{x} {y}" for x, y in others)
    if not word:
        return f'<path d="{line}"/>'
    (left, above), (right, below) = max(pairwise(points), key=_length)
    return (
        f'<path d="{line}"/><text class="word" text-anchor="middle" '
        f'x="{(left + right) // 2}" y="{(above + below) // 2 - (6 if above == below else -4)}">'
        f"{escape(word)}</text>"
    )


def _length(piece: tuple[tuple[int, int], tuple[int, int]]) -> int:
    (left, above), (right, below) = piece
    return abs(right - left) + abs(below - above)


def _route(source: Box, target: Box) -> list[tuple[int, int]]:
    """Return the corners of an arrow: to the right where there is room, else up or down."""
    middle = min(max(source.top + source.height // 2, target.top), target.bottom)
    if target.left < source.right:
        x = max(source.left, target.left) + min(source.width, target.width) // 2
        ends = (
            (source.bottom, target.top) if source.top < target.top else (source.top, target.bottom)
        )
        return [(x, y) for y in ends]
    if target.top < middle < target.bottom:
        return [(source.right, middle), (target.left, middle)]
    start, end = source.top + source.height // 2, target.top + target.height // 2
    turn = (source.right + target.left) // 2
    return [(source.right, start), (turn, start), (turn, end), (target.left, end)]


def _draw_legend() -> list[str]:
    names = {
        Owner.AGENT: "agent: I/O, configuration, commands",
        Owner.AGGREGATION: "aggregation: groups, Spark",
        Owner.METRICS: "metrics: the core, without clock and I/O",
        Owner.OUTSIDE: "outside",
    }
    parts: list[str] = []
    for place, (owner, text) in enumerate(names.items()):
        left = 16 + place * 296
        parts.extend(
            (
                _draw_rectangle(owner, left, 556, 22, 18),
                f'<text x="{left + 30}" y="570">{escape(text)}</text>',
            )
        )
    return parts
