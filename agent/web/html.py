"""Shared parts of the pages for people: frame, style, cells that escape all external text."""

from collections.abc import Iterable
from html import escape

from metrics.exporters.points import printable
from metrics.model.palette import ON_LIGHT
from metrics.model.status import RebalanceStatus

REFRESH_S = 5
visible = printable
"""Pages show names as labels do."""
STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin-bottom: 2rem; }
th, td { text-align: left; padding: .25rem .75rem; border-bottom: 1px solid #8885; }
td { overflow-wrap: anywhere; }
td:has(.dot) { white-space: nowrap; }
a { color: inherit; }
a:focus-visible, .scroll:focus-visible { outline: 3px solid #2e90fa; outline-offset: 2px; }
.busy { font-weight: 600; }
.dot { display: inline-block; width: .7em; height: .7em; border-radius: 50%; margin-right: .4em;
  border: 1px solid #8888; }
.scroll { overflow-x: auto; }
svg { width: 100%; min-width: 48rem; font-size: 12px; fill: currentColor; }
svg line { stroke: #8885; }
.legend { display: flex; flex-wrap: wrap; gap: .25rem 1rem; padding: 0; list-style: none; }
.legend span { display: inline-block; width: 1em; height: 1em; margin-right: .35em;
  vertical-align: -.1em; }
"""


def page(title: str, style: str, body: str) -> str:
    """Return a whole page that refreshes itself."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f'<meta http-equiv="refresh" content="{REFRESH_S}">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body><main>{body}"
        "</main></body></html>\n"
    )


def status_cell(status: RebalanceStatus) -> str:
    """Return a status by number, name and colour."""
    busy = ' class="busy"' if status else ""
    dot = f'<span class="dot" style="background:{ON_LIGHT[status]}"></span>'
    return f'<td{busy} title="{escape(status.help)}">{dot}{status.value} {status.label}</td>'


def cells(tag: str, values: Iterable[str]) -> str:
    """Return cells of plain text."""
    return "".join(f"<{tag}>{escape(visible(value))}</{tag}>" for value in values)
