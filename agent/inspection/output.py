"""Output of `groups`: tables for people, JSON and YAML with every field for programs."""

import json
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

import msgspec

from agent.errors import ConfigError
from agent.inspection.model import (
    Assignment,
    AssignorVote,
    Description,
    DownBroker,
    Failure,
    Listing,
    MemberDescription,
    PartitionOffset,
)
from metrics.model.names import printable

_Row = tuple[str, ...]
_Table = tuple[_Row, Sequence[_Row]]


class OutputFormat(StrEnum):
    """The values of ``--output``."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


@dataclass(frozen=True, slots=True)
class Selection:
    """Choice and order of a table's columns and rows."""

    sort: str = ""
    is_descending: bool = False
    columns: tuple[str, ...] = ()

    @classmethod
    def parse(cls, sort: str | None, columns: str | None) -> Self:
        """Return the selection of ``--sort`` and ``--columns``."""
        key = (sort or "").upper()
        names = tuple(name.strip().upper() for name in (columns or "").split(",") if name.strip())
        return cls(key.removeprefix("-"), key.startswith("-"), names)

    @property
    def names(self) -> frozenset[str]:
        """The columns that a user names; they are shown even if they have no value."""
        return frozenset(filter(None, (*self.columns, self.sort)))

    def apply(self, tables: Sequence[_Table]) -> list[_Table]:
        """Return the tables with the chosen columns, in the chosen order.

        Raises:
            ConfigError: no table has a column of this name.

        """
        known = list(dict.fromkeys(name for header, _ in tables for name in header))
        for name in (*self.columns, *filter(None, [self.sort])):
            if name not in known:
                raise ConfigError(f"found column {name!r}, wanted one of {', '.join(known)}")
        return [self._apply(header, rows) for header, rows in tables]

    def _apply(self, header: _Row, rows: Sequence[_Row]) -> _Table:
        if self.sort in header:
            at = header.index(self.sort)
            rows = sorted(rows, key=lambda row: _sort_key(row[at]), reverse=self.is_descending)
        places = [header.index(name) for name in self.columns if name in header]
        if not places:
            return header, rows
        return tuple(header[i] for i in places), [tuple(row[i] for i in places) for row in rows]


def _sort_key(cell: str) -> tuple[bool, int, str]:
    """Return a key that puts numbers in their order, before texts."""
    return (False, int(cell), "") if cell.isdecimal() else (True, 0, cell)


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """The optional tables and columns of `groups describe`."""

    members: bool = False
    offsets: bool = False
    time_lag: bool = False
    verbose: bool = False
    operations: bool = False
    selection: Selection = Selection()


def render_listings(
    listings: Sequence[Listing],
    down: Sequence[DownBroker],
    output: OutputFormat,
    selection: Selection = Selection(),
) -> str:
    """Return the groups with the columns of kafka-groups.sh, then state and coordinator."""
    if output is not OutputFormat.TABLE:
        return _document(listings, (), down, output)
    header = ("GROUP", "TYPE", "PROTOCOL", "STATE", "COORDINATOR")
    rows = [
        tuple(map(_cell, (each.group, each.type, each.protocol, each.state, each.coordinator)))
        for each in listings
    ]
    return _render_tables([(header, rows)], selection)


def render_descriptions(
    descriptions: Sequence[Description],
    failures: Sequence[Failure],
    output: OutputFormat,
    details: Details,
) -> str:
    """Return a table of groups and, with ``members``, a table of their members."""
    if output is not OutputFormat.TABLE:
        return _document(descriptions, failures, (), output)
    verbose, named = details.verbose, details.selection.names
    has_generation = verbose or any(each.generation is not None for each in descriptions)
    has_generation = has_generation or not named.isdisjoint(_GENERATION)
    has_leader_url = verbose and any(each.leader_url for each in descriptions)
    has_leader_url = has_leader_url or not named.isdisjoint(_LEADER_URL)
    groups = _GROUP | (_GENERATION if has_generation else {}) | (_GROUP_VERBOSE if verbose else {})
    groups |= _LEADER_URL if has_leader_url else {}
    groups |= _OPERATIONS if details.operations or verbose else {}
    tables = [_fill_rows(groups, descriptions)]
    if details.members and descriptions:
        columns = _MEMBER | (_MEMBER_VERBOSE if verbose else {})
        pairs = [(each, member) for each in descriptions for member in each.members]
        if verbose:
            columns |= {
                name: read
                for name, read in _MEMBER_OPTIONAL.items()
                if name in named or any(map(_cell, map(read, pairs)))
            }
        tables.append(_fill_rows(columns, pairs))
    votes = [(each, vote) for each in descriptions for vote in each.assignor_votes or ()]
    if votes and verbose:
        tables.append(_fill_rows(_VOTE, votes))
    if details.offsets and descriptions:
        rows = [(group, each) for group in descriptions for each in group.offsets or ()]
        has_tasks = "TASK" in named or any(each.task is not None for _, each in rows)
        offsets = _OFFSET | (_TASK if has_tasks else {}) | (_OFFSET_VERBOSE if verbose else {})
        offsets |= _TIME_LAG if details.time_lag else {}
        tables.append(_fill_rows(offsets, rows))
    return _render_tables(tables, details.selection)


def failure_texts(failures: Sequence[Failure]) -> list[str]:
    """Return a line a fault: one for a group, and one for all groups of one unreachable broker."""
    by_text: dict[str, list[Failure]] = {}
    for each in failures:
        key = each.error if each.is_of_broker else f"{each.group}\0{each.error}"
        by_text.setdefault(key, []).append(each)
    return [f"{_subject(same)}: {same[0].error}" for same in by_text.values()]


def _subject(failures: Sequence[Failure]) -> str:
    """Return the name of a failed group with its type and state, or the names of several."""
    first, *others = failures
    if others:
        names = ", ".join(repr(each.group) for each in failures[:_NAMES])
        more = len(failures) - _NAMES
        return f"groups {names}" + (f" and {more} more" if more > 0 else "")
    known = ", ".join(each for each in (first.type, first.state) if each)
    return f"group {first.group!r}" + (f" ({known})" if known else "")


_NAMES = 3
"""Groups that one error names; a broker may coordinate thousands."""
_Pair = tuple[Description, MemberDescription]
_GROUP: dict[str, Callable[[Description], object]] = {
    "GROUP": lambda d: d.group,
    "TYPE": lambda d: d.type,
    "PROTOCOL": lambda d: d.protocol,
    "STATE": lambda d: d.state,
    "COORDINATOR": lambda d: d.coordinator,
    "ASSIGNOR": lambda d: d.assignor,
    "EPOCH": lambda d: d.epoch,
    "TARGET-EPOCH": lambda d: d.target_epoch,
    "MEMBERS": lambda d: len(d.members),
}
_GENERATION: dict[str, Callable[[Description], object]] = {
    "GENERATION": lambda d: d.generation,
    "LEADER": lambda d: d.leader,
}
_LEADER_URL: dict[str, Callable[[Description], object]] = {
    "LEADER-URL": lambda d: d.leader_url,
}
_GROUP_VERBOSE: dict[str, Callable[[Description], object]] = {
    "TOPOLOGY-EPOCH": lambda d: d.topology_epoch,
    "SIMPLE": lambda d: "yes" if d.simple else "no",
}
_OPERATIONS: dict[str, Callable[[Description], object]] = {
    "AUTHORIZED-OPERATIONS": lambda d: ",".join(d.authorized_operations or ()),
}
_MEMBER: dict[str, Callable[[_Pair], object]] = {
    "GROUP": lambda p: p[0].group,
    "MEMBER-ID": lambda p: p[1].member_id,
    "INSTANCE-ID": lambda p: p[1].instance_id,
    "CLIENT-ID": lambda p: p[1].client_id,
    "HOST": lambda p: p[1].host,
    "EPOCH": lambda p: p[1].epoch,
    "OWNED": lambda p: _count(p[1].owned),
    "TARGET": lambda p: _count(p[1].target),
}
_MEMBER_VERBOSE: dict[str, Callable[[_Pair], object]] = {
    "MEMBER-PROTOCOL": lambda p: p[1].protocol,
    "RACK": lambda p: p[1].rack,
    "SUBSCRIPTION": lambda p: p[1].subscription_regex or ",".join(p[1].subscription or ()),
    "USER-DATA": lambda p: p[1].user_data,
    "OWNED": lambda p: _spell(p[1].owned),
    "TARGET": lambda p: _spell(p[1].target),
}


_MEMBER_OPTIONAL: dict[str, Callable[[_Pair], object]] = {
    "TARGET-EPOCH": lambda p: p[0].target_epoch,
    "PROCESS": lambda p: p[1].process_id,
    "ENDPOINT": lambda p: p[1].endpoint,
    "TOPOLOGY-EPOCH": lambda p: p[1].topology_epoch,
    "TAGS": lambda p: _spell_tags(p[1].client_tags),
    "URL": lambda p: p[1].url,
    "CONNECTORS": lambda p: ",".join(p[1].connectors or ()),
    "ASSIGNORS": lambda p: ",".join(p[1].assignors or ()),
}
"""Columns of some types of groups; shown if a member has a value."""
_VOTE: dict[str, Callable[[tuple[Description, AssignorVote]], object]] = {
    "GROUP": lambda p: p[0].group,
    "ASSIGNOR": lambda p: p[1].assignor,
    "CHOSEN": lambda p: "yes" if p[1].is_chosen else "no",
    "SUPPORTED-BY": lambda p: p[1].supported_by,
    "VOTES": lambda p: p[1].votes,
    "REASON": lambda p: p[1].reason,
}
_OFFSET: dict[str, Callable[[tuple[Description, PartitionOffset]], object]] = {
    "GROUP": lambda p: p[0].group,
    "TOPIC": lambda p: p[1].topic,
    "PARTITION": lambda p: p[1].partition,
    "CURRENT-OFFSET": lambda p: p[1].current_offset,
    "LOG-END-OFFSET": lambda p: p[1].end_offset,
    "LAG": lambda p: p[1].lag,
    "CONSUMER-ID": lambda p: p[1].member_id,
    "HOST": lambda p: p[1].host,
    "CLIENT-ID": lambda p: p[1].client_id,
}
_TASK: dict[str, Callable[[tuple[Description, PartitionOffset]], object]] = {
    "TASK": lambda p: p[1].task,
}
_TIME_LAG: dict[str, Callable[[tuple[Description, PartitionOffset]], object]] = {
    "TIME-LAG-S": lambda p: None if p[1].time_lag_s is None else round(p[1].time_lag_s),
}
_OFFSET_VERBOSE: dict[str, Callable[[tuple[Description, PartitionOffset]], object]] = {
    "LEADER-EPOCH": lambda p: p[1].leader_epoch,
}


def _fill_rows(
    columns: Mapping[str, Callable[[Any], object]], things: Iterable[object]
) -> tuple[_Row, list[_Row]]:
    rows = [tuple(_cell(read(thing)) for read in columns.values()) for thing in things]
    return tuple(columns), rows


def _cell(value: object) -> str:
    return "" if value is None else printable(str(value))


def _flat(assigned: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return a Streams member's tasks by ``active/0`` and so on, partitions as they are."""
    flat: Assignment = {}
    for name, value in assigned.items():
        if isinstance(value, Mapping):
            flat |= {f"{name}/{key}": numbers for key, numbers in value.items()}
        else:
            flat[name] = value
    return flat


def _count(assigned: Mapping[str, Any] | None) -> int | None:
    return None if assigned is None else sum(map(len, _flat(assigned).values()))


def _spell_tags(tags: Mapping[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((tags or {}).items()))


def _spell(assigned: Mapping[str, Any] | None) -> str:
    flat = _flat(assigned or {})
    return " ".join(f"{name}:{','.join(map(str, flat[name]))}" for name in sorted(flat))


def _render_tables(tables: Sequence[_Table], selection: Selection) -> str:
    return "\n".join(_table(header, rows) for header, rows in selection.apply(tables))


def _table(header: _Row, rows: Sequence[_Row]) -> str:
    """Return aligned columns; an empty cell is a dash, so that tools can split at blanks."""
    lines = [header, *(tuple(cell or "-" for cell in row) for row in rows)]
    widths = [max(map(_width, column)) for column in zip(*lines, strict=True)]
    return "".join(
        " ".join(
            cell + " " * (width - _width(cell)) for cell, width in zip(line, widths, strict=True)
        ).rstrip()
        + "\n"
        for line in lines
    )


def _width(text: str) -> int:
    """Return the columns of a terminal that a text takes: two for wide characters."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def _document(
    groups: Sequence[object],
    failures: Sequence[object],
    down: Sequence[DownBroker],
    output: OutputFormat,
) -> str:
    document = {
        "groups": [_plain(each) for each in groups],
        "errors": [_plain(each) for each in failures],
        "partial": bool(down),
        "down": [_plain(each._asdict()) for each in down],
    }
    if output is OutputFormat.JSON:
        return json.dumps(document, indent=2) + "\n"
    import yaml  # noqa: PLC0415 - not for a table

    return yaml.safe_dump(document, sort_keys=False)


def _plain(value: object) -> Any:
    """Return types that JSON and YAML have; a node as a mapping."""
    return msgspec.to_builtins(value, enc_hook=str, str_keys=True)
