"""First characters of the parts of a regular expression.

Theory of operation. Two successive repeats can match the same text only if both can begin with the
same character. The sets hold the characters of Latin-1, and one number for all others. So two parts
may seem to share a character that they do not share, but never the reverse.
"""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

Items = Sequence[Any]
"""A part of the tree that CPython's parser of expressions makes."""
Follow = frozenset[int]

NONE: Follow = frozenset()
_OTHER = 256
"""Stands for each character beyond Latin-1."""
_ALL = frozenset(range(_OTHER + 1))
_BEHIND_END = frozenset(map(ord, " \t\n\r\f\v\"'<>|\\)}];,#`*^~\x1b"))
"""Characters that may follow the end of a message: layouts append to it."""
_ATOMS = ("LITERAL", "NOT_LITERAL", "ANY", "IN", "CATEGORY", "RANGE")
_REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")
_ENDS = ("AT", "ASSERT", "ASSERT_NOT")
"""Items that match no character."""
_END_MARKS = ("AT_END", "AT_END_STRING")


def first_of_all(items: Items) -> tuple[Follow, bool]:
    """Return the possible first characters of a sequence, and whether it may be empty."""
    found = NONE
    for item in items:
        first, is_empty = first_of(item)
        found |= first
        if not is_empty:
            return found, False
    return found, True


def first_of(item: Any) -> tuple[Follow, bool]:
    name, value = str(item[0]), item[1]
    found = _ALL, True  # a back reference, for example: the text of another group
    if name in _ATOMS:
        found = _characters(name, _frozen(value)), False
    elif name in {"SUBPATTERN", "ATOMIC_GROUP"}:
        found = first_of_all(value[-1] if name == "SUBPATTERN" else value)
    elif name in _REPEATS:
        first, is_empty = first_of_all(value[2])
        found = first, is_empty or value[0] == 0
    elif name == "BRANCH":
        firsts = [first_of_all(part) for part in value[1]]
        every = frozenset[int]().union(*(first for first, _ in firsts))
        found = every, any(is_empty for _, is_empty in firsts)
    elif name in _ENDS:
        found = (_BEHIND_END, False) if str(value) in _END_MARKS else (NONE, True)
    return found


def _frozen(value: Any) -> Any:
    """Return a value of the tree that can be a key."""
    if isinstance(value, list | tuple):
        return tuple(map(_frozen, value))
    return value if isinstance(value, int) and type(value) is int else str(value)


@cache
def _characters(name: str, value: Any) -> Follow:
    """Return the characters that an item matches, with `_OTHER` for all beyond Latin-1."""
    match name:
        case "LITERAL":
            return frozenset({min(value, _OTHER)})
        case "NOT_LITERAL":
            return _ALL - {value}
        case "RANGE":
            least, most = value
            return frozenset(range(min(least, _OTHER), min(most, _OTHER) + 1))
        case "CATEGORY":
            return _characters_of(value)
        case "IN":
            is_negated = str(value[0][0]) == "NEGATE"
            parts = (_characters(each[0], each[1]) for each in value[is_negated:])
            found = frozenset[int]().union(*parts)
            return _ALL - found | {_OTHER} if is_negated else found
    return _ALL - {ord("\n")}


def _characters_of(category: str) -> Follow:
    kind = category.removeprefix("CATEGORY_")
    text = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}.get(kind.removeprefix("NOT_"))
    if text is None:
        return _ALL
    found = frozenset(code for code in range(_OTHER) if re.match(text, chr(code)))
    return (_ALL - found if kind.startswith("NOT_") else found) | {_OTHER}
