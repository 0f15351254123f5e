"""The page for people at ``/``: groups and members with the name of their status. No script."""

from collections.abc import Iterable, Sequence
from html import escape
from urllib.parse import quote

from agent.web.html import STYLE, cells, page, status_cell, visible
from aggregation.live.group_views import GroupView
from metrics.exporters.exposition import Exposition, SourceStats
from metrics.model.status import RebalanceStatus

MAX_ROWS = 500
"""Beyond this a page does not help people; the metrics hold the rest."""

_BUSY = ' class="busy"'
_GROUP_HEADS = ("group", "type", "coordinator state", "members", "cluster")


def render_page(exposition: Exposition, views: Iterable[GroupView], telemetry_path: str) -> str:
    """Return the whole page as HTML; all external text is escaped."""
    live, agent = exposition.live, exposition.agent
    groups = [(_group(view), view.status) for view in views]
    members = [
        (
            _plains(row.client_id, row.group, row.app, row.host, row.state or "", row.reason or ""),
            row.status,
        )
        for row in live.instances + live.consumers
    ]
    metrics = escape(telemetry_path)
    return page(
        "kafka-rebalance-agent",
        STYLE,
        f"<h1>kafka-rebalance-agent {escape(agent.version)}</h1>"
        f'<p><a href="{metrics}">metrics</a> · <a href="/-/healthy">healthy</a> · '
        f'<a href="/-/ready">ready</a> · <a href="/api/v1/sources">sources</a> · '
        f'<a href="/api/v1/openapi.json">API</a></p>'
        + _table("Groups", _GROUP_HEADS, groups)
        + _table("Members", ("client id", "group", "app", "host", "thread", "reason"), members)
        + _sources(agent.sources),
    )


def _plain(text: str) -> str:
    return escape(visible(text))


def _plains(*texts: str) -> tuple[str, ...]:
    return tuple(map(_plain, texts))


def _group(view: GroupView) -> tuple[str, ...]:
    plain = _plains(view.group_type, view.state or "", str(view.members), view.cluster)
    return _group_link(view.group), *plain


def _group_link(group: str) -> str:
    return f'<a href="/group?group={quote(group, safe="")}">{_plain(group)}</a>'


def _sources(sources: Sequence[SourceStats]) -> str:
    """Return the table of sources; a source that is down stands out."""
    head = cells("th", ("source", "", "lag", "members", "read", "signals", "unparsed", "errors"))
    body = "".join(
        f"<tr>{cells('td', (source.name,))}"
        f"<td{'' if source.up else _BUSY}>{'up' if source.up else 'down'}</td>"
        + cells("td", _health(source))
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


_Row = tuple[tuple[str, ...], RebalanceStatus | None]
"""Cells, as HTML, and the status for the first cell; None: no member was seen."""


def _table(title: str, heads: Sequence[str], rows: Sequence[_Row]) -> str:
    """Return a table, the highest status first, with the number of rows left out."""
    shown = sorted(rows, key=lambda row: (-_status_order(row[1]), row[0]))[:MAX_ROWS]
    head = cells("th", ("status", *heads))
    body = "".join(
        f"<tr>{_status_cell(status)}{''.join(f'<td>{text}</td>' for text in texts)}</tr>"
        for texts, status in shown
    )
    left_out = len(rows) - len(shown)
    more = f"<p>{left_out} more are in the metrics.</p>" if left_out else ""
    return f"<h2>{title}</h2><table><tr>{head}</tr>{body}</table>{more}"


def _status_cell(status: RebalanceStatus | None) -> str:
    return "<td></td>" if status is None else status_cell(status)


def _status_order(status: RebalanceStatus | None) -> int:
    return -1 if status is None else status
