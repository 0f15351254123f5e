"""Kafka's ``config.providers``: ``${provider:path:key}`` in values, from environment and files.

Kafka leaves a variable that no provider resolves as it is, and sends it as the password. Here it is
an error that names the variable.
"""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from agent.errors import ConfigError
from agent.small_files import read_text

_VARIABLE = re.compile(r"\$\{([^}:]*):(?:([^}]*):)?([^}]*)\}")
_PREFIX = "config.providers"
Properties = Mapping[str, str]


def resolve_providers(
    properties: Properties,
    where: str,
    read: Callable[[Path], Properties],
    environ: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the properties with variables resolved; ``read`` reads a properties file.

    Raises:
        ConfigError: a variable has no value, or its provider is not supported.

    """
    names = [name.strip() for name in properties.get(_PREFIX, "").split(",") if name.strip()]
    providers = {
        name: _Provider(name, properties, where, read, os.environ if environ is None else environ)
        for name in names
    }

    def replace(key: str, value: str) -> str:
        def substitute(match: re.Match[str]) -> str:
            provider = providers.get(match[1])
            if provider is None:
                known = ", ".join(providers) or "none"
                raise ConfigError(
                    f"{where}: {key}: found {match[0]}, wanted one of {_PREFIX}: {known}"
                )
            found = provider.get(match[2] or "", match[3])
            if found is None:
                raise ConfigError(f"{where}: {key}: {match[0]} has no value")
            return found

        return _VARIABLE.sub(substitute, value)

    return {
        key: value if key.startswith(_PREFIX) else replace(key, value)
        for key, value in properties.items()
    }


class _Provider:
    """One provider by the simple name of Kafka's class."""

    def __init__(
        self,
        name: str,
        properties: Properties,
        where: str,
        read: Callable[[Path], Properties],
        environ: Mapping[str, str],
    ) -> None:
        self._where, self._read, self._environ = where, read, environ
        self._key = f"{_PREFIX}.{name}"
        self._class = properties.get(f"{self._key}.class", "").rpartition(".")[2]
        self._allowed = properties.get(f"{self._key}.param.allowlist.pattern")
        paths = properties.get(f"{self._key}.param.allowed.paths", "")
        self._paths = [Path(path.strip()).resolve() for path in paths.split(",") if path.strip()]

    def get(self, path: str, key: str) -> str | None:
        """Return the value of a variable, or None."""
        match self._class:
            case "EnvVarConfigProvider":
                if self._allowed is not None and not re.fullmatch(self._allowed, key):
                    return None
                return self._environ.get(key)
            case "FileConfigProvider":
                return self._read(self._check(Path(path))).get(key)
            case "DirectoryConfigProvider":
                file = self._check(Path(path, key))
                return read_text(file) if file.is_file() else None
            case other:
                known = "EnvVarConfigProvider, FileConfigProvider, DirectoryConfigProvider"
                raise ConfigError(
                    f"{self._where}: {self._key}.class: found {other!r}, wanted one of {known}"
                )

    def _check(self, path: Path) -> Path:
        resolved = path.resolve()
        if self._paths and not any(resolved.is_relative_to(each) for each in self._paths):
            raise ConfigError(f"{self._where}: {self._key}: {path} is outside of allowed.paths")
        return resolved
