"""Records that tools print as YAML: gcloud's entries, and layouts of loggers.

Theory of operation. Nothing is made of a record's texts, because a date that is none, or a number
of thousands of digits, would be an error. An alias is refused, since aliases of aliases grow
without bound, and one of a record within itself has no end.
"""

import re
from typing import Any

_WHOLE = re.compile(r"[0-9]{1,18}", re.ASCII)


def read_yaml_record(data: bytes) -> dict[str, Any] | None:
    """Return a record with its texts and whole numbers; None for anything else."""
    import yaml  # noqa: PLC0415 - for these layouts alone

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        events = yaml.parse(data, loader) if b"*" in data else ()
        if any(isinstance(event, yaml.AliasEvent) for event in events):
            return None
        found: Any = yaml.load(data, loader)  # noqa: S506 - safer than SafeLoader
    except (yaml.YAMLError, RecursionError, ValueError):
        return None
    return _read_numbers(found) if isinstance(found, dict) else None


def _read_numbers(found: dict[str, Any]) -> dict[str, Any]:
    """Return an object with its numbers, and those of the objects in it."""
    inner = {key: value for key, value in found.items() if isinstance(value, dict)}
    return {
        **{key: _read_number(value) for key, value in found.items()},
        **{key: {k: _read_number(v) for k, v in value.items()} for key, value in inner.items()},
    }


def _read_number(value: Any) -> Any:
    is_number = isinstance(value, str) and _WHOLE.fullmatch(value) is not None
    return int(value) if is_number else value
