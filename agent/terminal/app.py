"""The terminal view of groups, members and incidents (Textual).

Theory of operation. A worker queries the agent in each interval. It keeps the responses in
`Answers`, and each screen draws itself from there. If the agent is lost, the screens show the last
data and a banner. A table keeps its cursor on the same row when the order changes. Colours are the
terminal's own; a status has the colour of its family, with its name beside it.
"""

import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from rich.cells import cell_len
from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.events import Click
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Input, Static

from agent.errors import RebalanceAgentError
from agent.terminal.answers import GroupFields, MemberFields, SourceFields
from agent.terminal.rows import (
    INCIDENTS,
    MEMBERS,
    SORTS,
    Column,
    ListedGroup,
    TableLayout,
    fit,
    fit_table,
    group_rows,
    incident_rows,
    is_of,
    member_rows,
    sort_rows,
    source_notes,
    status_of,
    texts,
)
from aggregation.explain.hanging_lines import hang
from aggregation.explain.incident_words import headline
from aggregation.incidents.answers import IncidentAnswer
from aggregation.live.group_search import contains
from metrics.model.names import printable
from metrics.model.palette import TERMINAL

_LAST = 200
"""Incidents to ask for: the latest of all groups."""
_SCROLL_BAR, _TEXT_MARGINS = 1, 4


@dataclass(slots=True)
class Answers:
    """The last responses of the agent, and the error since then."""

    groups: Sequence[dict[str, Any]] = ()
    incidents: Sequence[IncidentAnswer] = ()
    sources: Sequence[dict[str, Any]] = ()
    """Requested only as long as there is no group."""
    of_group: str | None = None
    """The group that is open: `members` and `own_incidents` are its own."""
    members: Sequence[dict[str, Any]] = ()
    own_incidents: Sequence[IncidentAnswer] = ()
    at: float = 0.0
    """Unix seconds of the last answer; 0 before the first."""
    fault: str = ""


class Banner(Static):
    """One line that shows only when the agent is lost."""

    def show(self, answers: Answers) -> None:
        """Show or hide the fault, with the time of the data on the screen."""
        seen = time.strftime("%H:%M:%S", time.localtime(answers.at)) if answers.at else "never"
        self.display = bool(answers.fault)
        self.update(Text(printable(f"no answer: {answers.fault}; last data: {seen}")))


class RowTable(DataTable[Text]):
    """A table with a cursor on a whole row; the footer shows the action of Enter."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select_cursor", "Open")]

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's name
        """Keep the colours of cells under the cursor."""
        super().__init__(id=id, cursor_type="row", cursor_foreground_priority="renderable")

    def on_click(self, event: Click) -> None:
        """Open the row if it has the cursor; else the click moves the cursor to it."""
        if event.style.meta.get("row") == self.cursor_row:
            event.prevent_default()
            self.action_select_cursor()


class TopScreen(Screen[None]):
    """A screen that draws itself from the answers."""

    group: str | None = None
    """The group that is open."""

    @abstractmethod
    def draw(self) -> None:
        """Draw; called after each answer and when the terminal changes its size."""

    @property
    def view(self) -> "TopApp":
        """The application."""
        return cast("TopApp", self.app)

    def draw_if_composed(self) -> None:
        """Draw, unless the widgets do not exist yet: then `on_mount` draws."""
        if self.query(Banner) and self.is_mounted:
            self.draw()

    def on_mount(self) -> None:
        """Draw at once."""
        self.draw()

    def on_screen_resume(self) -> None:
        """Draw the data that arrived while another screen was shown."""
        self.draw_if_composed()

    def on_resize(self) -> None:
        """Choose the columns that fit."""
        self.draw_if_composed()


class GroupsScreen(TopScreen):
    """All groups: ongoing incidents first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("s", "sort", "Sort"),
        Binding("r", "reverse", "Reverse"),
        Binding("e", "explain", "Explain"),
        Binding("escape", "clear", "Clear filter", show=False),
    ]

    def __init__(self, pattern: str) -> None:
        """Start with a filter; empty shows all."""
        super().__init__()
        self.pattern, self._sort, self._backwards = pattern, 0, True
        self._columns: Sequence[Column] = ()

    def compose(self) -> ComposeResult:
        """Return summary, banner, table, filter and keys."""
        yield Static(id="summary")
        yield Banner(id="banner")
        yield RowTable(id="groups")
        yield Input(placeholder="part of a group's name", id="filter")
        yield Footer()

    def on_mount(self) -> None:
        """Hide the filter's line until it is asked for."""
        self.query_one("#filter", Input).display = bool(self.pattern)
        self.query_one("#filter", Input).value = self.pattern
        self.query_one("#groups").focus()
        self.draw()

    def draw(self) -> None:
        """Draw the table and its summary."""
        answers, now = self.view.answers, self.view.now()
        rows = group_rows(answers.groups, answers.incidents, now)
        shown = [row for row in rows if contains(self.pattern, row.group)]
        shown = sort_rows(shown, SORTS[self._sort], backwards=self._backwards)
        self.query_one(Banner).show(answers)
        self.query_one("#summary", Static).update(self._summary(rows, shown))
        columns = self._columns = fit(self.size.width - _SCROLL_BAR, rows)
        _fill(
            self.query_one(RowTable),
            [(column.head, column.width) for column in columns],
            [(_key(row), _cells(row, columns)) for row in shown],
        )

    def _summary(self, rows: Sequence[ListedGroup], shown: Sequence[ListedGroup]) -> Text:
        ongoing = sum(row.ongoing for row in rows)
        parts = [f"{len(rows)} groups", f"{ongoing} with an ongoing incident"]
        if self.pattern:
            parts.append(f"{len(shown)} with {self.pattern!r}")
        order = "highest first" if self._backwards else "lowest first"
        parts.append(f"by {SORTS[self._sort]}, {order}")
        if not rows and not self.view.answers.fault:
            parts.append("no group seen yet: the agent shows groups as soon as a member is seen")
            parts += source_notes(self.view.answers.sources)
        return Text("  ·  ".join(parts), style="bold" if ongoing else "")

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Open the group."""
        self.app.push_screen(GroupScreen(*_unkey(event.row_key.value or "\n")))

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        """Sort by the column that was clicked; the same again turns the order round."""
        order = self._columns[event.column_index].sort
        if not order:
            return
        chosen = SORTS.index(order)
        self._backwards = not self._backwards if chosen == self._sort else order != "group"
        self._sort = chosen
        self.draw()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while it is typed."""
        self.pattern = event.value
        self.draw()

    def on_input_submitted(self) -> None:
        """Return to the table."""
        self.query_one("#filter").display = bool(self.pattern)
        self.query_one("#groups").focus()

    def action_filter(self) -> None:
        """Open the filter's line."""
        self.query_one("#filter").display = True
        self.query_one("#filter").focus()

    def action_clear(self) -> None:
        """Clear the filter."""
        self.pattern = self.query_one("#filter", Input).value = ""
        self.on_input_submitted()
        self.draw()

    def action_sort(self) -> None:
        """Sort by the next column."""
        self._sort = (self._sort + 1) % len(SORTS)
        self.draw()

    def action_reverse(self) -> None:
        """Turn the order round."""
        self._backwards = not self._backwards
        self.draw()

    def action_explain(self) -> None:
        """Explain the group under the cursor."""
        chosen = _chosen(self.query_one(RowTable))
        if chosen is not None:
            self.app.push_screen(ExplainScreen(*_unkey(chosen)))


class GroupScreen(TopScreen):
    """One group: its members and its incidents."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "app.pop_screen", "Groups"),
        Binding("e", "explain", "Explain"),
        Binding("tab", "app.focus_next", "Other table", show=False),
    ]

    def __init__(self, cluster: str, group: str) -> None:
        """Show one group of a cluster."""
        super().__init__()
        self._cluster, self._group = cluster, group
        self.group = group

    def compose(self) -> ComposeResult:
        """Return headline, banner and both tables."""
        yield Static(id="summary")
        yield Banner(id="banner")
        yield RowTable(id="incidents")
        yield RowTable(id="members")
        yield Footer()

    def on_mount(self) -> None:
        """Ask for the group's members at once."""
        self.draw()
        self.view.ask_now()

    def draw(self) -> None:
        """Draw the tables."""
        answers, now = self.view.answers, self.view.now()
        known = answers.of_group == self.group
        of = {"cluster": self._cluster, "group": self.group}
        incidents = [
            each
            for each in (answers.own_incidents if known else answers.incidents)
            if is_of(of, each)
        ]
        members = answers.members if known else ()
        self.query_one(Banner).show(answers)
        title = headline(self._group, list(reversed(incidents)))
        self.query_one("#summary", Static).update(Text(printable(title), style="bold"))
        self._fill_table(
            "#incidents",
            INCIDENTS,
            [(each.id, "bold" if each.ongoing else "") for each in incidents],
            incident_rows(incidents, now),
        )
        self._fill_table(
            "#members",
            MEMBERS,
            [(f"{number}", _style(each["status"])) for number, each in enumerate(members)],
            member_rows(members, now),
        )

    def _fill_table(
        self,
        name: str,
        table: TableLayout,
        keys: Sequence[tuple[str, str]],
        rows: Sequence[Sequence[str]],
    ) -> None:
        """Fill a table with rows; each has a key and a style."""
        columns = fit_table(table, rows, self.size.width - _SCROLL_BAR)
        _fill(
            self.query_one(name, RowTable),
            [(table.heads[number], width) for number, width in columns],
            [
                (key, [_one_line(cells[number], style) for number, _ in columns])
                for (key, style), cells in zip(keys, rows, strict=True)
            ],
        )

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Explain the incident; from a member, the group."""
        of = event.row_key.value or "" if event.data_table.id == "incidents" else ""
        self.app.push_screen(ExplainScreen(self._cluster, self._group, of))

    def action_explain(self) -> None:
        """Explain the group."""
        self.app.push_screen(ExplainScreen(self._cluster, self._group))


class ExplainScreen(TopScreen):
    """The text of `explain` for a group, or for one of its incidents."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "app.pop_screen", "Back")]

    def __init__(self, cluster: str, group: str, incident: str = "") -> None:
        """Explain a group; ``incident`` is the id of one."""
        super().__init__()
        self._cluster, self._group, self._incident = cluster, group, incident

    def compose(self) -> ComposeResult:
        """Return the text in a scrolling area."""
        yield Banner(id="banner")
        with VerticalScroll():
            yield Static("...", id="explanation")
        yield Footer()

    def draw(self) -> None:
        """Ask in a worker: an explanation takes a while."""
        self.query_one(Banner).show(self.view.answers)
        self._explain()

    @work(thread=True, exclusive=True)
    def _explain(self) -> None:
        try:
            text = self.view.explain(self._cluster, self._group, self._incident)
        except RebalanceAgentError as error:
            text = "\n".join(map(printable, str(error).split("\n")))
        lines = Text(hang(text, self.size.width - _TEXT_MARGINS))
        self.app.call_from_thread(self.query_one("#explanation", Static).update, lines)


class TopApp(App[None]):
    """The application: asks the agent, and shows one screen."""

    TITLE = "rebalance-agent top"
    CSS = """
    #banner { background: ansi_red; color: ansi_bright_white; padding: 0 1; }
    #summary { padding: 0 1; }
    DataTable { height: 1fr; }
    DataTable > .datatable--header {
        background: ansi_default; color: ansi_cyan; text-style: bold;
    }
    DataTable:focus > .datatable--cursor {
        background: ansi_default; color: ansi_default; text-style: reverse;
    }
    DataTable > .datatable--cursor {
        background: ansi_default; color: ansi_default; text-style: bold;
    }
    #filter { height: 3; }
    #explanation { padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("question_mark", "help", "Help", key_display="?"),
    ]
    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self,
        request: Callable[..., Any],
        explain: Callable[[str, str, str], str],
        interval: float,
        pattern: str = "",
        now: Callable[[], float] = time.time,
    ) -> None:
        """Prepare; ``interval`` in seconds.

        ``request`` asks the agent as `api_client.ask` does, without its address. ``explain``
        returns the text for cluster, group, and the id of an incident or "".
        """
        super().__init__(ansi_color=True)
        self.request, self.explain, self.now = request, explain, now
        self.answers = Answers()
        self._interval, self._pattern = interval, pattern

    def on_mount(self) -> None:
        """Show groups, and ask from now on."""
        self.theme = "ansi-dark"
        self.push_screen(GroupsScreen(self._pattern))
        self.ask_now()
        self.set_interval(self._interval, self.ask_now)

    def ask_now(self) -> None:
        """Query the agent for the data of the screen."""
        self._ask(self.screen.group if isinstance(self.screen, TopScreen) else None)

    @work(thread=True, exclusive=True)
    def _ask(self, group: str | None) -> None:
        incidents = list[IncidentAnswer]
        try:
            answers = Answers(
                groups=self.request("groups", list[GroupFields]),
                incidents=self.request("incidents", incidents, last=_LAST),
            )
            if group is not None:
                answers.members = self.request("members", list[MemberFields], group=group)
                answers.own_incidents = self.request(
                    "incidents", incidents, group=group, last=_LAST
                )
                answers.of_group = group
            if not answers.groups:
                answers.sources = self.request("sources", list[SourceFields])
            answers.at = self.now()
        except RebalanceAgentError as error:
            self.answers.fault = str(error)
        else:
            self.answers = answers
        self.call_from_thread(self._draw)

    def _draw(self) -> None:
        if not self.screen_stack:  # the user has quit meanwhile
            return
        if isinstance(self.screen, TopScreen) and not isinstance(self.screen, ExplainScreen):
            self.screen.draw_if_composed()

    def action_help(self) -> None:
        """Show or hide the keys."""
        if self.screen.query("HelpPanel"):
            self.action_hide_help_panel()
        else:
            self.action_show_help_panel()


def run(
    request: Callable[..., Any],
    explain: Callable[[str, str, str], str],
    interval: float,
    pattern: str,
) -> None:
    """Show the groups of an agent or hub until the user quits."""
    TopApp(request, explain, interval, pattern).run()


def _fill(
    table: RowTable,
    columns: Sequence[tuple[str, int]],
    rows: Sequence[tuple[str, Sequence[Text]]],
) -> None:
    """Write all rows again; cursor and scroll stay on the row that they are on."""
    chosen, scroll = _chosen(table), table.scroll_y
    table.clear(columns=True)
    for number, (head, width) in enumerate(columns):
        # the table would measure cells only after it has drawn them once, too narrow
        widest = max([cell_len(head), *(cells[number].cell_len for _, cells in rows)])
        table.add_column(head, width=width or widest)
    for key, cells in rows:
        table.add_row(*cells, key=key)
    keys = [key for key, _ in rows]
    if chosen in keys:
        table.move_cursor(row=keys.index(chosen), animate=False, scroll=False)
        table.scroll_to(y=scroll, animate=False)


def _chosen(table: RowTable) -> str | None:
    if not table.row_count:
        return None
    return table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value


def _cells(row: ListedGroup, columns: Sequence[Column]) -> list[Text]:
    styles = {"status": _style(row.status)}
    plain = "bold" if row.ongoing else ""
    return [
        _one_line(text, styles.get(column.key, plain))
        for column, text in zip(columns, texts(row, columns), strict=True)
    ]


def _one_line(text: str, style: str) -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def _style(status: int | None) -> str:
    found = status_of(status)
    return "" if found is None else TERMINAL.get(found, "")


def _key(row: ListedGroup) -> str:
    return f"{row.cluster}\n{row.group}"


def _unkey(key: str) -> tuple[str, str]:
    cluster, _, group = key.partition("\n")
    return cluster, group
