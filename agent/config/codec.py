"""Configuration of plain values: decoded to dataclasses by type, and encoded; errors name the path.

A key is the field's name, or ``metadata={"key": ...}`` of the field: ``linger`` of ``linger_s``.
A `Duration` takes ``30s`` or ``1h30m``, a `Size` ``512MiB``. ``repr=False`` means a secret.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from agent.errors import ConfigError
from metrics.model.units import Duration, Size

_T = TypeVar("_T")
_EXCERPT_CHARS = 80
"""Of a wrong value: enough to find it by."""
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_DURATION = re.compile(rf"(?:{_DURATION_PART.pattern})+")
_BYTES = {"": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_SIZE = re.compile(r"(\d{1,18}) ?([KMGT]iB|B|)")
_WHOLE = re.compile(r"\d{1,18}")
"""As 64 bits hold; Python takes thousands of digits for an error."""
_LONGEST_S = 10 * 365 * 86_400.0
"""Longer than any sensible setting, and within the limits of every clock and timer."""


def suggest(wrong: object, known: Iterable[str]) -> str:
    """Return "did you mean" for a typing error, else the allowed values."""
    from difflib import get_close_matches  # noqa: PLC0415 - for an error's sake

    known = sorted(known)
    close = get_close_matches(str(wrong), known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"allowed: {', '.join(known)}"


def decode(cls: type[_T], value: object, where: str) -> _T:
    """Return a dataclass of a mapping.

    Raises:
        ConfigError: an unknown or missing key, or a value of the wrong type.

    """
    if not isinstance(value, Mapping):
        raise _type_error(value, where, "a mapping")
    hints = field_types(cls)
    known = {key_of(field): field for field in fields(cls)}  # type: ignore[arg-type]
    for key in value:
        if key not in known:
            raise ConfigError(f"{join(where, key)}: unknown key; {suggest(key, known)}")
    found = {
        field.name: convert(hints[field.name], value[key], join(where, key))
        for key, field in known.items()
        if key in value
    }
    for key, field in known.items():
        required = field.default is MISSING and field.default_factory is MISSING
        if required and field.name not in found:
            raise ConfigError(f"{join(where, key)}: is missing")
    return cls(**found)


def encode(value: object) -> Any:
    """Return plain values as the file would have them, secrets hidden."""
    if is_dataclass(value) and not isinstance(value, type):
        hints = field_types(type(value))
        return {
            key_of(field): _encode_field(field, hints, getattr(value, field.name))
            for field in fields(value)
        }
    if isinstance(value, Mapping):
        return {key: encode(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    return str(value) if isinstance(value, Path) else value


def join(where: str, key: object) -> str:
    """Return the path of a key: ``agent.yaml: web`` and ``web.listen``."""
    return f"{where}{'' if where.endswith(': ') else '.'}{key}"


def field_types(cls: type) -> dict[str, Any]:
    """Return the types of a dataclass's fields, with `Duration` and `Size` as they are."""
    return get_type_hints(cls, include_extras=True)


def key_of(field: Field[Any]) -> str:
    """Return the key of a field in a file."""
    key: str = field.metadata.get("key", field.name)
    return key


def _encode_field(field: Field[Any], hints: Mapping[str, Any], value: object) -> Any:
    if not field.repr and value is not None:
        return "<hidden>"
    if hints[field.name] == Duration and isinstance(value, int | float):
        return format_duration(value)
    if hints[field.name] == Size and isinstance(value, int):
        return format_size(value)
    return encode(value)


def convert(hint: Any, value: object, where: str) -> Any:  # noqa: C901, PLR0911 - a case a type
    """Return the value as the type hint wants it."""
    if is_dataclass(value):  # a section that its owner has decoded already
        return value
    if hint == Duration:
        return parse_duration(value, where)
    if hint == Size:
        return parse_size(value, where)
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        if value is None and NoneType in args:
            return value
        return convert(next(arg for arg in args if arg is not NoneType), value, where)
    if origin is tuple:
        if not isinstance(value, list):
            raise _type_error(value, where, "a list")
        return tuple(convert(args[0], item, f"{where}[{i}]") for i, item in enumerate(value))
    if origin is dict:
        if not isinstance(value, Mapping):
            raise _type_error(value, where, "a mapping")
        return {str(k): convert(args[1], item, join(where, k)) for k, item in value.items()}
    if hint is Any:
        return value
    if isinstance(hint, type) and is_dataclass(hint):
        return decode(hint, value, where)
    if issubclass(hint, Enum):
        return _member(hint, value, where)
    return _scalar(hint, value, where)


def _member(hint: type[Enum], value: object, where: str) -> Enum:
    known = {str(member.value): member for member in hint}
    if not isinstance(value, str) or value not in known:
        raise ConfigError(f"{where}: unknown {_excerpt(value)}; {suggest(value, known)}")
    return known[value]


def _scalar(hint: type, value: object, where: str) -> Any:
    if hint is bool and isinstance(value, bool):
        return value
    if hint is int and not isinstance(value, bool) and _WHOLE.fullmatch(str(value)):
        return int(str(value))  # text, too: ${NAME} gives text
    if hint is str and isinstance(value, str | int | float) and not isinstance(value, bool):
        return str(value)
    if hint is Path and isinstance(value, str) and value:
        return _path(value, where)
    wanted = {bool: "true or false", int: "a whole number, 0 or more", str: "text", Path: "a path"}
    raise _type_error(value, where, wanted[hint])


def _path(value: str, where: str) -> Path:
    if "\0" in value:  # which no file's name holds
        raise _type_error(value, where, "a path")
    try:
        return Path(value).expanduser()
    except RuntimeError as error:  # of a user that is not known here
        raise ConfigError(f"{where}: found {_excerpt(value)}, which has no home here") from error


def _type_error(value: object, where: str, wanted: str) -> ConfigError:
    return ConfigError(f"{where}: found {_excerpt(value)}, wanted {wanted}")


def _excerpt(value: object) -> str:
    found = repr(value) if isinstance(value, str | int | float | None) else type(value).__name__
    return found if len(found) <= _EXCERPT_CHARS else f"{found[:_EXCERPT_CHARS]}…"


def parse_duration(value: object, where: str) -> float:
    """Return seconds of ``30s``, ``1h30m`` or 0.

    Raises:
        ConfigError: anything else, a bare number too: its unit would be a guess; above ten years.

    """
    if value in (0, "0"):
        return 0.0
    if not isinstance(value, str) or not _DURATION.fullmatch(value):
        raise _type_error(value, where, "a duration such as 30s, 5m or 1h30m")
    seconds = sum(float(n) * _SECONDS[unit] for n, unit in _DURATION_PART.findall(value))
    if seconds > _LONGEST_S:
        raise _type_error(value, where, "at most ten years")
    return seconds


def parse_size(value: object, where: str) -> int:
    """Return bytes of ``512MiB`` or of a plain number.

    Raises:
        ConfigError: anything else.

    """
    match = None if isinstance(value, bool) else _SIZE.fullmatch(str(value))
    if match is None:
        raise _type_error(value, where, "a size such as 64KiB or 512MiB")
    return int(match[1]) * _BYTES[match[2]]


def format_duration(seconds: float) -> str:
    """Write seconds as `parse_duration` reads them."""
    milliseconds, text = round(seconds * 1000), ""
    for unit in ("h", "m", "s", "ms"):
        size = round(_SECONDS[unit] * 1000)
        count, milliseconds = divmod(milliseconds, size)
        text += f"{count}{unit}" if count else ""
    return text or "0s"


def format_size(size_bytes: int) -> str:
    """Write bytes as `parse_size` reads them."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if size_bytes and size_bytes % _BYTES[unit] == 0:
            return f"{size_bytes // _BYTES[unit]}{unit}"
    return str(size_bytes)
