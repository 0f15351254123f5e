"""Live view of the agent's ``/metrics``, on a terminal or line by line.

On a terminal a table is redrawn in place. With ``NO_COLOR`` or without a terminal each change of a
status is a separate line. It runs in a thread beside the demo.
"""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread
from types import TracebackType
from typing import NamedTuple, Self, TextIO

from prometheus_client.parser import text_string_to_metric_families

from metrics.model.palette import TERMINAL
from metrics.model.status import RebalanceStatus

_STEP_S = 0.5
_FAMILIES = {
    "kafka_consumer_rebalance_status": ("group", "client_id"),
    "kafka_streams_rebalance_status": ("application_id", "client_id"),
    "kafka_group_rebalance_status": ("group", ""),
}
"""The metrics shown, and the labels that name a row."""
_PEAK = "_peak"
_SGR = {"red": 31, "green": 32, "yellow": 33, "blue": 34, "magenta": 35, "cyan": 36}


class Row(NamedTuple):
    """One gauge and its peak."""

    family: str
    group: str
    client_id: str
    status: RebalanceStatus
    peak: RebalanceStatus


def rows(page: str) -> list[Row]:
    """Return the rows that a metrics page holds, groups with their members below."""
    values = dict[tuple[str, str, str, bool], float]()
    for family in text_string_to_metric_families(page):
        name = family.name.removesuffix(_PEAK)
        if name not in _FAMILIES:
            continue
        group, client_id = _FAMILIES[name]
        for sample in family.samples:
            who = (sample.labels[group], sample.labels.get(client_id, ""))
            values[name, *who, family.name.endswith(_PEAK)] = sample.value
    found = [
        Row(name, group, client, RebalanceStatus(int(value)), _peak(values, name, group, client))
        for (name, group, client, is_peak), value in values.items()
        if not is_peak
    ]
    return sorted(found, key=lambda row: (row.group, row.client_id, row.family))


def _peak(
    values: dict[tuple[str, str, str, bool], float], name: str, group: str, client_id: str
) -> RebalanceStatus:
    return RebalanceStatus(int(values.get((name, group, client_id, True), 0)))


class LiveView:
    """Shows the page until it is closed; ``caption`` names the present scene."""

    def __init__(self, get_page: Callable[[], str], out: TextIO, heading: str) -> None:
        """Start nothing yet; after an OSError of ``get_page`` the last page stays."""
        self._get_page, self._out, self._heading = get_page, out, heading
        self._redraws = out.isatty() and not os.environ.get("NO_COLOR")
        self._caption, self._lines = "", 0
        self._shown: dict[tuple[str, str, str], RebalanceStatus] = {}
        self._begun_s = time.monotonic()
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="live view", daemon=True)

    def caption(self, text: str) -> None:
        """Show the caption of the next scene."""
        self._caption = text
        if not self._redraws:
            self._write(f"{self._format_elapsed()}  {text}")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            last = self._stopping.wait(_STEP_S)
            with suppress(OSError):
                self._show(rows(self._get_page()))
            if last:
                return

    def _show(self, found: list[Row]) -> None:
        if self._redraws:
            self._redraw(found)
            return
        for row in found:
            key = (row.family, row.group, row.client_id)
            if row.client_id and self._shown.get(key, RebalanceStatus.NONE) is not row.status:
                text = f"{row.group}/{row.client_id}: {row.status:d} {row.status.label}"
                self._write(f"{self._format_elapsed()}      {text}")
            self._shown[key] = row.status

    def _redraw(self, found: list[Row]) -> None:
        lines = [
            f"{self._heading}  {self._format_elapsed()}",
            f"> {self._caption}",
            "",
            *table(found, paint),
        ]
        back = f"\x1b[{self._lines}A" if self._lines else ""
        self._lines = len(lines)
        self._out.write(back + "\x1b[J" + "\n".join(lines) + "\n")
        self._out.flush()

    def _write(self, line: str) -> None:
        self._out.write(line + "\n")
        self._out.flush()

    def _format_elapsed(self) -> str:
        return f"{time.monotonic() - self._begun_s:5.1f} s"


def paint(status: RebalanceStatus, text: str) -> str:
    """Return a text in the terminal's own colour of a status."""
    colour = TERMINAL.get(status)
    return text if colour is None else f"\x1b[{_SGR[colour]}m{text}\x1b[m"


def table(
    found: list[Row], paint: Callable[[RebalanceStatus, str], str] = lambda _, text: text
) -> list[str]:
    """Return a table of the rows: a group's line, then its members'."""
    width = max([len(row.client_id) + 2 for row in found if row.client_id], default=10)
    lines = [f"{'':{width}}  {'now':<24}highest of late"]
    for row in found:
        name = f"  {row.client_id}" if row.client_id else row.group
        now, peak = (
            paint(code, f"{f'{code:>2} {code.label}':<{cells}}")
            for code, cells in ((row.status, 24), (row.peak, 0))
        )
        lines.append(f"{name:{width}}  {now}{peak}")
    return lines
