"""`rebalance-agent top`: rebalancing groups, live in a terminal."""

import curses
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import click

from agent.client.api_client import DEFAULT_URL, ask
from agent.errors import RebalanceAgentError
from metrics.model.sample import parse_time

_EXAMPLES = """\b
Examples:
  rebalance-agent top
  rebalance-agent top --from http://hub:12472 --filter payments
  rebalance-agent top --once

\b
Keys: q quits, s sorts by the next column, r turns the order round, / filters by name
(Enter ends, Escape clears), arrows and page keys scroll.
"""

_HEADS = ("GROUP", "TYPE", "STATUS", "STATE", "MEMBERS", "CAUSED BY", "SINCE", "PEAK", "REASON")
_WIDTHS = (28, 9, 22, 19, 7, 28, 8, 22, 0)
"""Columns of a terminal; the last takes the rest of the line."""
_STATUS, _SINCE = 2, 5
_ESCAPE, _BACKSPACE, _ENTER = 27, (curses.KEY_BACKSPACE, 127, 8), (curses.KEY_ENTER, 10, 13)


@dataclass(frozen=True, slots=True)
class TopView:
    """The settings that keys change."""

    sort: int = _STATUS
    backwards: bool = True
    pattern: str = ""
    typing: bool = False
    top: int = 0


@click.command(epilog=_EXAMPLES)
@click.option("--from", "url", default=DEFAULT_URL, show_default=True, metavar="URL")
@click.option("--filter", "pattern", default="", help="Show groups whose name contains this.")
@click.option(
    "--interval", type=click.FloatRange(min=0.2), default=2.0, show_default=True, help="Seconds."
)
@click.option("--once", is_flag=True, help="Print once and end; so does output to no terminal.")
def top(url: str, pattern: str, interval: float, once: bool) -> None:
    """Show groups, their status, the member that caused it, since when, and the peak."""
    view = TopView(pattern=pattern)
    if once or not (sys.stdout.isatty() and sys.stdin.isatty()):
        for line in screen(ask(url, "groups"), view, now=time.time(), width=200):
            click.echo(line.rstrip())
        return
    ask(url, "groups")  # a wrong address is an error before the screen changes
    curses.wrapper(lambda window: _live(window, url, view, interval))


def screen(groups: Sequence[dict[str, Any]], view: TopView, *, now: float, width: int) -> list[str]:
    """Return the table's lines, the head first."""
    rows = [_cells(group, now) for group in _sort(groups, view) if view.pattern in group["group"]]
    return [_line(cells, width) for cells in (_HEADS, *rows)]


def press_key(view: TopView, key: int) -> TopView:
    """Return the view after a key."""
    if view.typing:
        return _edit_pattern(view, key)
    moves = {curses.KEY_DOWN: 1, curses.KEY_UP: -1, curses.KEY_NPAGE: 10, curses.KEY_PPAGE: -10}
    if key in moves:
        return replace(view, top=max(0, view.top + moves[key]))
    match chr(key) if 0 <= key < 256 else "":
        case "s":
            return replace(view, sort=(view.sort + 1) % len(_HEADS), top=0)
        case "r":
            return replace(view, backwards=not view.backwards, top=0)
        case "/":
            return replace(view, typing=True, pattern="", top=0)
        case _:
            return view


def _edit_pattern(view: TopView, key: int) -> TopView:
    if key in _ENTER:
        return replace(view, typing=False)
    if key == _ESCAPE:
        return replace(view, typing=False, pattern="")
    if key in _BACKSPACE:
        return replace(view, pattern=view.pattern[:-1])
    return replace(view, pattern=view.pattern + chr(key)) if 32 <= key < 256 else view


def _sort(groups: Sequence[dict[str, Any]], view: TopView) -> list[dict[str, Any]]:
    by: Callable[[dict[str, Any]], Any] = (
        lambda group: group["group"],
        lambda group: group["group_type"],
        lambda group: _number(group["status"]),
        lambda group: group.get("state") or "",  # an older agent has none
        lambda group: group["members"],
        lambda group: group["client_id"] or "",
        lambda group: group["since"] or "",
        lambda group: _number(group["peak"]),
        lambda group: group["reason"] or "",
    )[view.sort]
    by_name = sorted(groups, key=lambda group: (group["group"], group["cluster"]))
    return sorted(by_name, key=by, reverse=view.backwards)


def _cells(group: dict[str, Any], now: float) -> tuple[str, ...]:
    since = group["since"]
    return (
        group["group"],
        group["group_type"],
        _status_text(group["status"], group["name"]),
        group.get("state") or "",
        str(group["members"]),
        group["client_id"] or "",
        "" if since is None else _age(now - parse_time(since)),
        _status_text(group["peak"], group["peak_name"]),
        group["reason"] or "",
    )


def _number(status: int | None) -> int:
    """Sort a group that only inspection knows, without a status, below 0."""
    return -1 if status is None else status


def _status_text(status: int | None, name: str | None) -> str:
    return "" if status is None else f"{status} {name}"


def _age(seconds: float) -> str:
    if seconds < 120:
        return f"{max(0.0, seconds):.0f}s"
    return f"{seconds / 60:.0f}m" if seconds < 7200 else f"{seconds / 3600:.0f}h"


def _line(cells: Sequence[str], width: int) -> str:
    shown = (
        _printable(cell) if size == 0 else f"{_clip(_printable(cell), size):<{size}}"
        for cell, size in zip(cells, _WIDTHS, strict=True)
    )
    return "  ".join(shown)[:width]


def _clip(text: str, size: int) -> str:
    return text if len(text) <= size else f"{text[: size - 1]}…"


def _printable(text: str) -> str:
    """Replace control characters: names come from outside and must not reach the terminal raw."""
    return "".join(char if char.isprintable() else "�" for char in text)


def _live(window: Any, url: str, view: TopView, interval: float) -> None:
    curses.curs_set(0)
    window.timeout(100)
    groups: list[dict[str, Any]] = []
    fault, asked_at = "", float("-inf")
    while True:
        if time.monotonic() - asked_at >= interval:
            asked_at = time.monotonic()
            try:
                groups, fault = ask(url, "groups"), ""
            except RebalanceAgentError as error:
                fault = str(error)  # the last groups stay on the screen
        _draw(window, groups, view, fault)
        key = window.getch()
        if key == ord("q") and not view.typing:
            return
        view = press_key(view, key) if key != curses.ERR else view


def _draw(window: Any, groups: Sequence[dict[str, Any]], view: TopView, fault: str) -> None:
    height, width = window.getmaxyx()
    head, *rows = screen(groups, view, now=time.time(), width=width - 1)
    rows = rows[min(view.top, max(0, len(rows) - 1)) :]
    filtered = f"  filter: {view.pattern}{'_' if view.typing else ''}"
    sort = f"  sort: {_HEADS[view.sort].lower()}"
    window.erase()
    _put(window, 0, f"{time.strftime('%H:%M:%S')}  {len(groups)} groups{sort}{filtered}", width)
    _put(window, 1, fault, width, curses.A_BOLD)
    _put(window, 2, head, width, curses.A_REVERSE)
    for number, line in enumerate(rows[: max(0, height - 4)], 3):
        _put(window, number, line, width, curses.A_NORMAL)
    window.refresh()


def _put(window: Any, row: int, text: str, width: int, style: int = curses.A_NORMAL) -> None:
    if row < window.getmaxyx()[0] and text:
        window.addnstr(row, 0, text, width - 1, style)
