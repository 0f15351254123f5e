"""Safe YAML files as plain values: bounded size, no tags, no aliases, no duplicate keys."""

import errno
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from agent.errors import ConfigError
from agent.small_files import read_bytes

MAX_BYTES = 1024 * 1024
"""Far above any configuration by hand; stops a log or a device named by mistake."""

_NUMBER_CHARS = 40
"""Of a whole number; PyYAML takes a minute for one of 600 KB in base 60."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_VARIABLE = re.compile(r"\$(?P<escaped>\$)?\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}")


class _Loader(yaml.SafeLoader):
    """SafeLoader, stricter: a duplicate key, an alias and a tag are errors."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        # an alias of aliases grows without bound when it is walked
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem="aliases are not taken", problem_mark=mark)
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if getattr(event, "tag", None) is not None:  # SafeLoader's constructors fail in many ways
            problem = f"the tag {event.tag!r} is not taken"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                mark = key_node.start_mark
                raise yaml.MarkedYAMLError(problem="wanted a plain key", problem_mark=mark)
            if key_node.value in seen:
                problem = f"the key {key_node.value!r} stands here twice"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key_node.start_mark)
            seen.add(key_node.value)
        return super().construct_mapping(node, deep=deep)


def construct_int(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    """Return a whole number.

    Raises:
        yaml.MarkedYAMLError: it is longer than any sensible one.

    """
    if len(node.value) > _NUMBER_CHARS:
        problem = f"a number of {len(node.value)} characters is not taken"
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
    return int(loader.construct_yaml_int(node))


def _read_text(loader: _Loader, node: yaml.ScalarNode) -> str:
    """Return a text; half of a pair of UTF-16, as an escape can write it, cannot be stored."""
    if _SURROGATE.search(node.value):
        problem = f"{node.value[:_NUMBER_CHARS]!r} holds half of a character"
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
    return str(loader.construct_yaml_str(node))


_Loader.add_constructor("tag:yaml.org,2002:int", construct_int)
_Loader.add_constructor("tag:yaml.org,2002:str", _read_text)


def read_yaml(path: Path, environ: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Return the file's mapping with ``${NAME}`` replaced; ``$${NAME}`` stays ``${NAME}``.

    Raises:
        ConfigError: the file cannot be read, is no YAML mapping, or names an unset variable.

    """
    try:
        content = read_bytes(path, MAX_BYTES)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise ConfigError(f"{path}: is larger than 1 MiB, so it is no configuration") from error
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    value = _parse(path, content)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: found {type(value).__name__}, wanted a mapping of sections")
    return {key: _substitute(item, f"{path}: {key}", environ) for key, item in value.items()}


def _parse(path: Path, content: bytes) -> Any:
    try:
        return yaml.load(content, _Loader)  # noqa: S506 - a subclass of SafeLoader
    except yaml.MarkedYAMLError as error:
        mark, problem = error.problem_mark, error.problem or "no YAML"
        where = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
        raise ConfigError(f"{path}: {where}{problem}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"{path}: no YAML: {reason}") from error


def _substitute(value: Any, where: str, environ: Mapping[str, str]) -> Any:
    match value:
        case str():
            return _VARIABLE.sub(lambda match: _variable(match, where, environ), value)
        case list():
            return [_substitute(v, f"{where}[{i}]", environ) for i, v in enumerate(value)]
        case dict():
            return {k: _substitute(v, f"{where}.{k}", environ) for k, v in value.items()}
        case _:
            return value


def _variable(match: re.Match[str], where: str, environ: Mapping[str, str]) -> str:
    name = match["name"]
    if match["escaped"]:
        return f"${{{name}}}"
    if name not in environ:
        raise ConfigError(f"{where}: the environment variable {name!r} is not set")
    try:
        environ[name].encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"{where}: the environment variable {name!r} is no UTF-8") from error
    return environ[name]
