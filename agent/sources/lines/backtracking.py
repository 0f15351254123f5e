"""Search for expressions with exponential cost, in the rules of users.

Theory of operation. `re` tries every way to divide a text among repeats within a repeat, as in
``(a+)+``, or among alternatives under one, as in ``(a|ab)*``: one hostile line would stop the
agent. A repeat within another one costs nothing where a character stands beside it that it cannot
match itself, as the comma of ``([a-z]+,)*``. Possessive repeats and atomic groups never try again.

Source: the parser of CPython, https://github.com/python/cpython/blob/v3.11.9/Lib/re/_parser.py.
"""

import importlib
from collections.abc import Iterator, Sequence
from typing import Any

_MANY = 8
"""Fewer repetitions than this cost little, whatever they hold."""
_SUBPATTERN, _ATOMIC = "SUBPATTERN", "ATOMIC_GROUP"
_REPEATS = ("MAX_REPEAT", "MIN_REPEAT")


def find_costly_part(pattern: str) -> str | None:
    """Return what makes an expression exponential, in words; None: nothing does.

    Raises:
        re.error: the expression is invalid.

    """
    parser: Any = importlib.import_module("re._parser")
    return _find(parser.parse(pattern))


def _find(items: Sequence[Any]) -> str | None:
    for kind, body in _repeats(items):
        if kind == "many":
            if any(str(op) == "BRANCH" for op, _ in _flat(body)):
                return "alternatives under a repeat"
            if _is_ambiguous(list(_flat(body))):
                return "a repeat within a repeat"
        if (found := _find(body)) is not None:
            return found
    return None


def _repeats(items: Sequence[Any]) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield the parts of a sequence, with ``many`` for those of a repeat that may be divided."""
    for op, value in items:
        name = str(op)
        if name in _REPEATS:
            least, most, body = value
            yield "many" if most > least and most >= _MANY else "once", body
        elif name == _SUBPATTERN:
            yield "once", value[-1]
        elif name == "BRANCH":
            yield from (("once", part) for part in value[1])
        elif name in {"ASSERT", "ASSERT_NOT"}:
            yield "once", value[1]


def _flat(items: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Yield the items of a sequence, those of groups in their place."""
    for op, value in items:
        if str(op) == _SUBPATTERN:
            yield from _flat(value[-1])
        else:
            yield op, value


def _is_ambiguous(body: list[tuple[Any, Any]]) -> bool:
    """Return whether a repeated body may divide one text in several ways."""
    for op, value in body:
        if str(op) in _REPEATS and value[1] > value[0]:
            inner = list(_flat(value[2]))
            fixed = [chr(code) for kind, code in body if str(kind) == "LITERAL"]
            if not any(not _may_match(inner, character) for character in fixed):
                return True
    return False


def _may_match(items: list[tuple[Any, Any]], character: str) -> bool:
    return any(_matches(str(op), value, character) for op, value in items)


def _matches(name: str, value: Any, character: str) -> bool:
    match name:
        case "LITERAL":
            return bool(value == ord(character))
        case "NOT_LITERAL":
            return bool(value != ord(character))
        case "RANGE":
            return bool(value[0] <= ord(character) <= value[1])
        case "CATEGORY":
            return _is_of(str(value), character)
        case "IN":
            is_negated = str(value[0][0]) == "NEGATE"
            is_in = any(_matches(str(op), each, character) for op, each in value[is_negated:])
            return is_in is not is_negated
    return True


def _is_of(category: str, character: str) -> bool:
    kind = category.removeprefix("CATEGORY_")
    is_of = {
        "DIGIT": character.isdecimal(),
        "SPACE": character.isspace(),
        "WORD": character.isalnum() or character == "_",
    }.get(kind.removeprefix("NOT_"), True)
    return is_of is not kind.startswith("NOT_")
