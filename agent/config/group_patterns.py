"""Patterns of groups: the watched ones, and the application of each.

A pattern is a group's name, or a regular expression after ``re:`` that must match the whole name.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from agent.errors import ConfigError

_REGEX = "re:"
_REFERENCE = re.compile(r"\$(\d)")


@dataclass(frozen=True, slots=True)
class GroupsConfig:
    """Patterns of groups; ``exclude`` wins."""

    include: tuple[str, ...] = ("re:.*",)
    exclude: tuple[str, ...] = ()


class _AppRule(NamedTuple):
    pattern: re.Pattern[str]
    template: str
    """In the syntax of `re.Match.expand`."""


def compile_pattern(text: str, where: str) -> re.Pattern[str]:
    """Return a regular expression that matches a whole group name.

    Raises:
        ConfigError: the text after ``re:`` is no regular expression.

    """
    if not text.startswith(_REGEX):
        return re.compile(re.escape(text))
    try:
        return re.compile(text.removeprefix(_REGEX), re.DOTALL)
    except (re.error, RecursionError, OverflowError) as error:
        raise ConfigError(f"{where}: {text!r} is no regular expression: {error}") from error


def group_filter(config: GroupsConfig, where: str) -> Callable[[str], bool]:
    """Return a predicate: whether a group is watched."""
    include = [compile_pattern(text, f"{where}.include") for text in config.include]
    exclude = [compile_pattern(text, f"{where}.exclude") for text in config.exclude]

    def is_watched(group: str) -> bool:
        return any(p.fullmatch(group) for p in include) and not any(
            p.fullmatch(group) for p in exclude
        )

    return is_watched


def app_rules(apps: Mapping[str, object], where: str) -> Callable[[str], str]:
    """Return a function from group to application; without a rule it is the group itself.

    Raises:
        ConfigError: a rule is neither ``app: [group, ...]`` nor ``"re:...": "template"``.

    """
    rules = [rule for name, value in apps.items() for rule in _rules(name, value, where)]

    def app_of(group: str) -> str:
        for pattern, template in rules:
            if match := pattern.fullmatch(group):
                return match.expand(template)
        return group

    return app_of


def _rules(name: str, value: object, where: str) -> Sequence[_AppRule]:
    where = f"{where}.{name}"
    if name.startswith(_REGEX) and isinstance(value, str):
        return [_template_rule(compile_pattern(name, where), value, where)]
    if isinstance(value, list) and all(isinstance(group, str) for group in value):
        literal = name.replace("\\", r"\\")
        return [_AppRule(compile_pattern(group, where), literal) for group in value]
    wanted = """a list of groups, or "re:^etl-(.+)$": "etl-$1\""""
    raise ConfigError(f"{where}: found {value!r}, wanted {wanted}")


def _template_rule(pattern: re.Pattern[str], text: str, where: str) -> _AppRule:
    for number in _REFERENCE.findall(text):
        if int(number) > pattern.groups:
            raise ConfigError(f"{where}: ${number} is wanted, the pattern has {pattern.groups}")
    return _AppRule(pattern, _REFERENCE.sub(r"\\g<\1>", text.replace("\\", r"\\")))
