"""The page for people at ``/``: groups and members with their status by name. No script."""

from collections.abc import Iterable, Sequence
from html import escape

from metrics.exposition import Exposition, SourceStats
from metrics.status import RebalanceStatus

MAX_ROWS = 500
"""A page for people; beyond this the metrics are the better place."""

_REFRESH_S = 5
_BUSY = ' class="busy"'
_STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin-bottom: 2rem; }
th, td { text-align: left; padding: .25rem .75rem; border-bottom: 1px solid #8885; }
td { overflow-wrap: anywhere; }
.busy { font-weight: 600; color: #b54708; }
@media (prefers-color-scheme: dark) { .busy { color: #fdb022; } }
"""


def render_page(exposition: Exposition, telemetry_path: str) -> str:
    """Return the whole page as HTML; every text from outside is escaped."""
    live, agent = exposition.live, exposition.agent
    groups = [((row.group, row.group_type, row.cluster), row.status) for row in live.groups]
    members = [
        ((row.client_id, row.group, row.app, row.host, row.reason or ""), row.status)
        for row in live.instances + live.consumers
    ]
    metrics = escape(telemetry_path)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f'<meta http-equiv="refresh" content="{_REFRESH_S}">'
        f"<title>kafka-rebalance-agent</title><style>{_STYLE}</style></head><body>"
        f"<h1>kafka-rebalance-agent {escape(agent.version)}</h1>"
        f'<p><a href="{metrics}">metrics</a> · <a href="/-/healthy">healthy</a> · '
        f'<a href="/-/ready">ready</a> · <a href="/api/v1/sources">sources</a></p>'
        + _sources(agent.sources)
        + _table("Groups", ("group", "type", "cluster"), groups)
        + _table("Members", ("client id", "group", "app", "host", "reason"), members)
        + "</body></html>\n"
    )


def _sources(sources: Sequence[SourceStats]) -> str:
    """Return how each source fares: what is wrong with one stands out."""
    head = _cells("th", ("source", "", "lag", "members", "read", "signals", "unparsed", "errors"))
    body = "".join(
        f"<tr>{_cells('td', (source.name,))}"
        f"<td{'' if source.up else _BUSY}>{'up' if source.up else 'down'}</td>"
        + _cells("td", _health(source))
        + "</tr>"
        for source in sources
    )
    return f"<h2>Sources</h2><table><tr>{head}</tr>{body}</table>"


def _health(source: SourceStats) -> Iterable[str]:
    errors = (f"{reason}: {count}" for reason, count in sorted(source.errors.items()) if count)
    return (
        f"{source.lag_s:.1f} s",
        f"{source.members:,}",
        f"{source.read_bytes / 2**20:,.1f} MiB",
        f"{source.signals:,}",
        f"{source.unparsed:,}",
        ", ".join(errors),
    )


_Row = tuple[tuple[str, ...], RebalanceStatus]


def _table(title: str, heads: Sequence[str], rows: Sequence[_Row]) -> str:
    """Return the rows, the gravest first; what is left out is said."""
    shown = sorted(rows, key=lambda row: (-row[1], row[0]))[:MAX_ROWS]
    head = _cells("th", ("status", *heads))
    body = "".join(f"<tr>{_status(status)}{_cells('td', cells)}</tr>" for cells, status in shown)
    left_out = len(rows) - len(shown)
    more = f"<p>{left_out} more are in the metrics.</p>" if left_out else ""
    return f"<h2>{title}</h2><table><tr>{head}</tr>{body}</table>{more}"


def _status(status: RebalanceStatus) -> str:
    style = _BUSY if status else ""
    return f'<td{style} title="{escape(status.help)}">{status.value} {status.label}</td>'


def _cells(tag: str, values: Iterable[str]) -> str:
    return "".join(f"<{tag}>{escape(_visible(value))}</{tag}>" for value in values)


def _visible(text: str) -> str:
    """Write what cannot be seen, or turns the text around it, by its number."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
