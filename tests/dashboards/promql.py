"""The metrics in an expression, and Grafana's values for its variables."""

import re
from collections.abc import Mapping

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_LABELS = re.compile(r"\b(?:by|on|without|ignoring|group_left|group_right)\s*\([^()]*\)")
_MATCHERS = re.compile(r"\{[^{}]*\}")
_RANGE = re.compile(r"\[[^\]]*\]")
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_WORDS = {"and", "or", "unless", "bool", "offset"}
_DURATION = re.compile(r"\boffset\s+\S+")
_HISTOGRAM = re.compile(r"_(?:bucket|sum|count)$")


def metrics_of(expr: str) -> set[str]:
    """Return the metrics' names; a histogram's series have their family's."""
    for pattern in (_STRING, _LABELS, _MATCHERS, _RANGE, _DURATION):
        expr = pattern.sub(" ", expr)
    names = {
        match[0]
        for match in _NAME.finditer(expr)
        if not expr[match.end() :].lstrip().startswith("(") and match[0] not in _WORDS
    }
    return {family(name) for name in names}


def family(name: str) -> str:
    """Return the histogram's name for one of its series."""
    return _HISTOGRAM.sub("", name) if "_duration_seconds" in name else name


def asked(expr: str, values: Mapping[str, str]) -> str:
    """Return the query that Grafana sends: variables by their values, all if none is given."""
    for name, value in sorted(values.items(), reverse=True):
        expr = expr.replace(name, value)
    return re.sub(r"\$\w+", ".*", expr)
