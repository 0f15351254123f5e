"""The page on the configuration: every key with its type, default and description."""

import ast
import inspect
import itertools
import textwrap
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import NoneType
from typing import Any, cast, get_args, get_origin

import yaml

from agent.config.codec import encode, field_types, format_duration, format_size, key_of
from agent.sources.registry import SOURCE_TYPES
from agent.wiring.agent_config import AgentConfig
from metrics.model.units import Duration, Size

_INTRODUCTION = """\
One YAML file; `${NAME}` takes a variable of the environment, `$${NAME}` stays as it is. Durations
are `500ms`, `30s`, `1h30m`, sizes `64KiB`, `512MiB`. An unknown key is an error.
`rebalance-agent check-config -c FILE` prints what a file comes to, with all defaults. Flags win
over the environment (`REBALANCE_AGENT_*`), and that over the file.
"""
_ELSEWHERE = {
    "samples": "",
    "host": "the machine's name",
    "state_dir": "`~/.local/state/kafka-rebalance-agent`",
    "samples.spool.dir": "`spool` in `state_dir`",
}
"""Defaults that a machine decides, and a section that need not be there."""
_ABOUT = {
    "cluster": "The cluster's name, and how it is reached.",
    "role": "What is seen: clients beside it, whole groups by itself, or what agents push.",
    "host": "The label `host` of members without one of their own.",
    "state_dir": "For the checkpoint and the spool.",
    "workload": "Version and image of the application, where one agent has one application.",
    "apps": "Groups' applications: a name, and the groups or `re:` expressions that it has.",
    "groups": "Which groups are watched.",
    "status": "How long what is shown.",
    "samples": "Records: how often, and where they go.",
    "hub": "Where an agent pushes its records, and what a hub asks for.",
    "web": "Where it listens.",
    "otlp": "Where OpenTelemetry gets the same.",
    "limits": "Bounds of memory.",
    "log": "The agent's own log.",
    "cluster.name": "The label `kafka_cluster`.",
    "cluster.bootstrap_servers": "For the source `groups`, and for topics.",
    "status.peak_window": "How far back the peak looks.",
    "samples.interval": "Between two periodic samples of a member.",
    "samples.kafka": "A topic that records go to, too.",
    "web.listen": "Addresses; no host is all of them, port 0 a free one.",
    "web.telemetry_path": "Path of the metrics.",
    "web.state_sets": "Whether there is a series for each state, too.",
    "limits.members": "Consumers and Streams instances.",
    "limits.series": "On the metrics page.",
}
"""What stands in no docstring."""
_LIMITS = {"status.members", "status.groups"}
"""They are set by `limits`."""
_NAMES = {bool: "true or false", int: "number", str: "text", Path: "path", float: "number"}


def configuration() -> str:
    """Return the page."""
    parts = [
        "# Configuration\n",
        _INTRODUCTION,
        *_section(AgentConfig, "", "The whole file"),
        "# Sources\n",
        "Each entry of `sources` has a `type`, and the keys of that type.\n",
    ]
    for row in SOURCE_TYPES:
        parts += _section(row.config, f"sources[{row.name}]", f"type: {row.name}", prefix="")
    return "\n".join(parts)


def sentence(cls: type) -> str:
    """Return the first paragraph of a class's docstring."""
    return plain((inspect.getdoc(cls) or "").partition("\n\n")[0])


def plain(text: str) -> str:
    """Return a docstring as one line of Markdown."""
    return " ".join(text.split()).replace("``", "`")


def attribute_docs(cls: type) -> dict[str, str]:
    """Return the strings that stand below attributes, the bases' too."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        try:
            source = textwrap.dedent(inspect.getsource(base))
        except (OSError, TypeError):  # not of Python
            continue
        body = ast.parse(source).body[0]
        if isinstance(body, ast.ClassDef):
            found |= _strings_below(body.body)
    return found


def _strings_below(body: list[ast.stmt]) -> dict[str, str]:
    found = {}
    for before, after in itertools.pairwise(body):
        if not isinstance(before, ast.AnnAssign) or not isinstance(before.target, ast.Name):
            continue
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            found[before.target.id] = plain(str(after.value.value))
    return found


def _section(cls: type, path: str, title: str, prefix: str | None = None) -> list[str]:
    """Return a table of a class's keys, and the sections below it."""
    prefix = path if prefix is None else prefix
    rows, below = [], []
    docs, hints = attribute_docs(cls), field_types(cls)
    for field in fields(cls):
        hint, key = hints[field.name], key_of(field)
        where = f"{prefix}.{key}".lstrip(".")
        inner = _inner(hint)
        if where in _LIMITS or where == "sources":
            continue
        if inner is not None:
            below += _section(inner, where, f"`{where}`")
        kind, default = _type(hint), _default(field, hint, where)
        rows.append((f"`{key}`", kind, default, docs.get(field.name) or _ABOUT.get(where, "")))
    head = [f"## {title}\n", f"{sentence(cls)}\n"]
    lines = [("key", "type", "default", "what"), ("---",) * 4, *rows]
    return [*head, *(f"| {' | '.join(row)} |" for row in lines), "", *below]


def _inner(hint: Any) -> type | None:
    """Return the class of a section, which may be absent."""
    kinds = [kind for kind in (get_args(hint) or (hint,)) if kind is not NoneType]
    is_section = len(kinds) == 1 and isinstance(kinds[0], type) and is_dataclass(kinds[0])
    return kinds[0] if is_section and get_origin(hint) is not tuple else None


def _type(hint: Any) -> str:
    if hint == Duration:
        return "duration"
    if hint == Size:
        return "size"
    return _named(hint)


def _named(hint: Any) -> str:
    origin, args = get_origin(hint), get_args(hint)
    if origin is tuple:
        return f"list of {_named(args[0])}"
    if origin is dict or hint is Any:
        return "mapping" if origin is dict else "any"
    if args:
        return _named(next(arg for arg in args if arg is not NoneType))
    if is_dataclass(hint):
        return "section"
    if issubclass(hint, Enum):
        return ", ".join(f"`{member.value}`" for member in hint)
    return _NAMES[hint]


def _default(field: Field[Any], hint: Any, where: str) -> str:
    if where in _ELSEWHERE:
        return _ELSEWHERE[where]
    if field.default is MISSING and field.default_factory is MISSING:
        return "**required**"
    if field.default is MISSING:
        return ""
    value = _encoded(field, hint)
    if value is None or value in ("", [], {}):
        return ""
    text = (
        yaml.safe_dump(value, default_flow_style=True, width=1000).removesuffix("\n...\n").strip()
    )
    return f"`{text}`"


def _encoded(field: Field[Any], hint: Any) -> Any:
    if hint == Duration:
        return format_duration(cast("float", field.default))
    if hint == Size:
        return format_size(cast("int", field.default))
    return encode(field.default)
