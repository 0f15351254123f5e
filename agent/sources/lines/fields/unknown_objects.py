"""Objects of stores that have no shape of their own here: what their names and texts show.

Theory of operation. Each store puts an entry into an object of its own, and names the same few
things: a pod, a container, a host, an instance. A name is compared without its case and separators,
with the names around it: ``fields.k8s.pod.name`` and ``resource.PodName`` are both of a pod. The
message of such an object is an object within, or else its longest text of several words.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice

from agent.sources.lines.fields.decoding import Json

PODS, CONTAINERS, HOSTS, INSTANCES = range(4)
"""Kinds of names, the most specific first."""
_AROUND = r"(?:resources?|attributes?|labels?|fields?|tags?|string|customdimensions){0,3}"
_KINDS = (
    re.compile(rf"{_AROUND}(?:k8s|kubernetes|kube)?pod(?:name)?"),
    re.compile(rf"{_AROUND}(?:k8s|kubernetes|docker)?container(?:name|id)"),
    re.compile(rf"{_AROUND}(?:(?:host|computer|machine)(?:name|id)|server(?:name|host)|agentname)"),
    re.compile(
        rf"{_AROUND}(?:service|component|app(?:lication)?|cloud|server)instance(?:id|index)?"
    ),
)
_OF_APPLICATIONS = frozenset(
    ("mdc", "contextMap", "context", "properties", "Properties", "http", "request", "req", "span")
)
"""Objects that hold an application's own values, as those of a request."""
_NAMES, _DEPTH, _KEY_CHARS, _VALUE_CHARS = 64, 3, 64, 256
_MIN_BLANKS = 2
"""Of a message; a name of a person or a client's software has one."""


def find_names(found: Json) -> dict[int, str]:
    """Return the first name of each kind in an object."""
    names: dict[int, str] = {}
    _add_names(names, found, "", _DEPTH)
    return names


def _add_names(names: dict[int, str], found: Json, around: str, depth: int) -> None:
    for key in islice(found, _NAMES):
        value = found[key]
        if type(value) is str:
            kind = _find_kind(around, key)
            if kind is not None and 0 < len(value) <= _VALUE_CHARS:
                names.setdefault(kind, value)
        elif type(value) is dict and depth and key not in _OF_APPLICATIONS:
            _add_names(names, value, key, depth - 1)


@lru_cache(maxsize=4096)
def _find_kind(around: str, key: str) -> int | None:
    """Return the kind of a name by its key, with the key of the object around it or without."""
    if len(key) + len(around) > _KEY_CHARS:
        return None
    own, whole = _normalise(key), _normalise(around + key)
    for kind, each in enumerate(_KINDS):
        if each.fullmatch(own) or each.fullmatch(whole):
            return kind
    return None


def _normalise(key: str) -> str:
    return "".join(filter(str.isalnum, key)).lower()


def find_inner(found: Json) -> Iterator[Json | str]:
    """Yield the values of an object that may be an entry: objects, and texts of objects."""
    for value in islice(found.values(), _NAMES):
        if isinstance(value, dict) or (isinstance(value, str) and value.startswith("{")):
            yield value


def find_longest(found: Json) -> str | None:
    """Return the longest text of several words among the values of an object."""
    texts = (value for value in islice(found.values(), _NAMES) if isinstance(value, str))
    messages = [text for text in texts if text.count(" ") >= _MIN_BLANKS]
    return max(messages, key=len, default=None)
