"""The reference: commands, configuration, metrics and records, as the code has them."""

from collections.abc import Iterator, Sequence
from dataclasses import is_dataclass
from enum import StrEnum
from itertools import dropwhile
from pathlib import Path
from typing import cast, get_args, get_type_hints

import click
import msgspec

from agent.cli import main
from aggregation.incidents.records import IncidentRecord
from aggregation.spark.tables.dictionary import TABLES
from docs.architecture_picture import architecture_picture
from docs.configuration_page import attribute_docs, configuration, sentence
from docs.man_page import man_page
from metrics.exporters.catalog import METRICS, Metric
from metrics.exporters.otel import ATTRIBUTES, kind_of, name_of
from metrics.model.change_fields import GROUP_FIELDS, MEMBER_FIELDS
from metrics.model.sample import SCHEMA_VERSION, EpisodeRecord, Outcome, Sample, SampleKind, Scope
from metrics.model.status import RebalanceStatus

_MADE = "<!-- made from the code by `make docs` -->\n"
_WIDTH = 96
_ABOUT = {
    "schema": "The schema's version.",
    "id": "Of what happened, to whom and when: the same event has the same id, whoever saw it.",
    "kind": "What the record reports.",
    "ts": "When it happened; of a group's rebalance, when it began.",
    "agent": "Who recorded it.",
    "seq": "Its number at this agent.",
    "cluster": "`cluster.name`, else the cluster's id, else empty.",
    "app": "The application.",
    "group": "The group; of Streams, the application id.",
    "group_type": "`classic`, `consumer`, `share` or `streams`.",
    "protocol_type": "Of a classic group: `consumer`, `connect`, ...",
    "scope": "Whom the record is about.",
    "client_id": "The member's client id; null for a group's own record.",
    "member_id": "As the coordinator gave it.",
    "group_instance_id": "Of a static member.",
    "host": "Where the member runs.",
    "from": "The status before.",
    "to": "The status since; null where it was lost.",
    "peak": "The highest status of the episode.",
    "status": "The name of `to`.",
    "reason": "In the client's or the coordinator's words, 255 characters at most.",
    "generation": "The generation or epoch, where it was seen.",
    "episode": "What a member's records of one rebalance share.",
    "outcome": "How the episode ended.",
    "field": "On a change: the attribute; the names are below.",
    "before": "On a change: the value before; null where none was known.",
    "after": "On a change: the value since.",
    "source": "The source that reported it.",
    "ended_ts": "When it ended.",
    "seconds": "From its start to its end.",
    "straggler": "The member that the others waited for.",
    "waited_seconds": "How long they did.",
    "departures": "Who left in it.",
    "caused_by": "The episode of this group that it follows from.",
    "members": "How many took part.",
    "partitions_moved": "Where it was seen.",
}
"""What stands in no docstring."""


def pages() -> dict[str, str]:
    """Return each page's text by its file's name, below `docs`."""
    made = {
        "reference/commands.md": _commands(),
        "reference/configuration.md": configuration(),
        "reference/metrics.md": _metrics(),
        "reference/records.md": _records(),
        "reference/tables.md": _tables(),
    }
    others = {
        "opentelemetry.md": _opentelemetry(),
        "man/rebalance-agent.1": man_page(list(_below(_program()))),
        "architecture.svg": architecture_picture(),
    }
    return {name: f"{_MADE}\n{text}" for name, text in made.items()} | others


def _tables() -> str:
    head = (
        "# Tables\n\n"
        "Every column of every table below `--tables`, with the type in Spark. Trino and Athena: "
        "[DDL](../analysts.md#trino-and-athena). Source *agent* is what the agent that wrote the "
        "record knows by itself."
    )
    parts = [head]
    for name, columns in TABLES.items():
        rows = [
            (f"`{column}`", f"`{each.type}`", each.unit, each.text, each.source)
            for column, each in columns.items()
        ]
        text = table(("column", "type", "unit", "content", "source"), rows)
        parts.append(f"## {name}\n\n{text}")
    return "\n\n".join(parts) + "\n"


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |" for row in lines
    )


def _program() -> click.Context:
    return click.Context(main, info_name="rebalance-agent", terminal_width=_WIDTH)


def _commands() -> str:
    program = _program()
    parts = ["# Commands\n", _help(program)]
    for name, context in _below(program):
        parts += [f"{'#' * (name.count(' ') + 2)} {name}\n", _help(context)]
    return "\n".join(parts)


def _below(parent: click.Context) -> Iterator[tuple[str, click.Context]]:
    """Give each command with its name, those of a group after it."""
    group = cast("click.Group", parent.command)
    for name in group.list_commands(parent):
        command = cast("click.Command", group.get_command(parent, name))
        context = click.Context(command, info_name=name, parent=parent, terminal_width=_WIDTH)
        yield context.command_path.partition(" ")[2], context
        if isinstance(command, click.Group):
            yield from _below(context)


def _help(context: click.Context) -> str:
    return f"```text\n{context.command.get_help(context)}\n```\n"


def _kafka_first() -> list[Metric]:
    """Return the metrics: those on Kafka's groups and members, then the agent's own."""
    return sorted(METRICS, key=lambda metric: not metric.name.startswith("kafka_"))


def _metrics() -> str:
    rows = [
        (f"`{m.name}`", m.type.value, ", ".join(f"`{label}`" for label in m.labels), m.help)
        for m in _kafka_first()
    ]
    about = (
        "Where there are more than `limits.series`, the agent's own are given out first, then\n"
        "these in this order.\n"
        "Members' own series come from `role: sidecar` and `standalone`, and from a hub with "
        "`hub: {members: true}`.\n"
    )
    return f"# Metrics\n\n{about}\n{table(('name', 'type', 'labels', 'what'), rows)}\n"


def _opentelemetry() -> str:
    """Return the page on OpenTelemetry with its two tables generated."""
    text = (Path(__file__).parent / "opentelemetry.md").read_text(encoding="utf-8")
    names = [(f"`{m.name}`", f"`{name_of(m)}`", kind_of(m)) for m in _kafka_first()]
    labels = [(f"`{label}`", f"`{attribute}`") for label, attribute in ATTRIBUTES.items()]
    text = _with_table(text, table(("on `/metrics`", "by OTLP", "as"), names))
    return _with_table(text, table(("label", "attribute"), labels))


def _with_table(text: str, new: str) -> str:
    """Return a page with the rows below the head of a table replaced."""
    head, *_ = new.partition("\n")
    before, _, after = text.partition(f"{head}\n")
    rest = after.splitlines(keepends=True)
    return before + new + "\n" + "".join(dropwhile(lambda line: line.startswith("|"), rest))


def _records() -> str:
    """Return the schema of records; an episode's record has all of a sample's fields, too."""
    about = (
        f"Schema version {SCHEMA_VERSION}: one JSON object a line, UTF-8, in the spool "
        "(`samples.spool`), in the topic (`samples.kafka`) and in Spark's tables. Readers keep "
        "fields that they do not know, and drop a record whose `id` they have seen.\n"
    )
    kinds = [_values("kind", SampleKind), _values("scope", Scope), _values("outcome", Outcome)]
    codes = "\n".join(f"- `{code.value}` {code.name}" for code in RebalanceStatus)
    own = [f for f in msgspec.structs.fields(EpisodeRecord) if f.name not in Sample.__annotations__]
    incident = [
        f for f in msgspec.structs.fields(IncidentRecord) if f.name not in Sample.__annotations__
    ]
    parts = [
        "# Records\n",
        about,
        *kinds,
        "## Every record\n",
        _fields(Sample, list(msgspec.structs.fields(Sample))),
        "\n## Fields of a change (`kind` `change`)\n",
        "Recorded when the value is not that of the last record.\n",
        _changes(),
        "\n## A group's rebalance (`kind` `episode`), too\n",
        f"{sentence(EpisodeRecord)}\n",
        _fields(EpisodeRecord, own),
        "\n## A group's incident (`kind` `incident`), too\n",
        f"{sentence(IncidentRecord)}\n",
        _fields(IncidentRecord, incident),
        "\n## Codes\n",
        codes,
    ]
    return "\n".join(parts) + "\n"


def _changes() -> str:
    """Return the attributes that changes report."""
    fields = {"member": MEMBER_FIELDS, "group": GROUP_FIELDS}
    rows = [
        (f"`{subject}`", f"`{name}`", what)
        for subject, whats in fields.items()
        for name, what in whats.items()
    ]
    return table(("subject", "field", "values"), rows)


def _values(name: str, kinds: type[StrEnum]) -> str:
    return f"`{name}`: {', '.join(f'`{kind.value}`' for kind in kinds)}. {sentence(kinds)}\n"


def _fields(cls: type[msgspec.Struct], fields: list[msgspec.structs.FieldInfo]) -> str:
    docs, hints = attribute_docs(cls), get_type_hints(cls)
    rows = [
        (
            f"`{field.encode_name}`",
            _json_type(hints[field.name]),
            "yes" if field.required else "",
            docs.get(field.name) or _ABOUT.get(field.encode_name, ""),
        )
        for field in fields
    ]
    return table(("field", "type", "required", "what"), rows)


def _json_type(hint: object) -> str:
    names = {int: "number", float: "number", str: "text", type(None): "null"}
    members = get_args(hint) or (hint,)
    if is_dataclass(hint):
        return "object"
    if hint == list[str]:
        return "list of text"
    return " or ".join(names.get(member, "text") for member in members)
