"""Names and patterns of groups on the command line: ``payments``, ``payments-*``, ``re:pay.*``."""

import fnmatch
import re
from collections.abc import Callable, Sequence

from agent.config.group_patterns import compile_pattern

_GLOB = re.compile(r"[*?]")
_REGEX = "re:"


def is_pattern(text: str) -> bool:
    """Return whether a text is a pattern rather than a name."""
    return text.startswith(_REGEX) or _GLOB.search(text) is not None


def match_any(patterns: Sequence[str], where: str) -> Callable[[str], bool]:
    """Return a predicate: whether a name matches one of the names and patterns, or there is none.

    Raises:
        ConfigError: the text after ``re:`` is no regular expression.

    """
    compiled = [_compile(text, where) for text in patterns]
    return lambda name: not compiled or any(each.fullmatch(name) for each in compiled)


def _compile(text: str, where: str) -> re.Pattern[str]:
    if text.startswith(_REGEX) or not is_pattern(text):
        return compile_pattern(text, where)
    return re.compile(fnmatch.translate(text))
