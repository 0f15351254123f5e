"""The registry of source types: one row each, and everything that is derived from the rows.

A new type is its folder with its ``registration.py``, and one line in `SOURCE_TYPES`.
"""

from collections.abc import Hashable, Sequence
from typing import Any

from agent.config.codec import decode, encode, suggest
from agent.errors import ConfigError
from agent.sources.base import Source
from agent.sources.broker_logs.registration import BROKER_LOG
from agent.sources.capture.registration import CAPTURE
from agent.sources.coverage import SourceCoverage
from agent.sources.http_events.registration import HTTP
from agent.sources.inspection.registration import GROUPS
from agent.sources.librdkafka_stats.registration import LIBRDKAFKA_STATS
from agent.sources.logs.registration import LOGS
from agent.sources.proxy.registration import PROXY
from agent.sources.source_type import (
    EVERYTHING,
    Capability,
    Mount,
    Replay,
    SourceConfig,
    SourceContext,
    SourceType,
)

Row = SourceType[Any]
SOURCE_TYPES: tuple[Row, ...] = (
    LOGS,
    BROKER_LOG,
    CAPTURE,
    PROXY,
    LIBRDKAFKA_STATS,
    HTTP,
    GROUPS,
)


class SourceRegistry:
    """Finds the row of a configuration, by its type's name or its class."""

    def __init__(self, rows: tuple[Row, ...] = SOURCE_TYPES) -> None:
        """``rows`` have different names and configuration classes."""
        self.by_name: dict[str, Row] = {row.name: row for row in rows}
        self._by_config = {row.config: row for row in rows}

    def type_of(self, config: SourceConfig) -> Row:
        """Return the row of a configuration."""
        return self._by_config[type(config)]

    def create(self, config: SourceConfig, context: SourceContext) -> Source:
        """Return a source.

        Raises:
            RebalanceAgentError: a rule or a path in its configuration is wrong.

        """
        return self.type_of(config).create(config, context)

    def decode_all(self, entries: object, where: str) -> list[SourceConfig]:
        """Return the sources of a configuration file.

        Raises:
            ConfigError: naming the path in the file, the found and the allowed values.

        """
        if not isinstance(entries, list) or not entries:
            found = type(entries).__name__ if entries else "none"
            example = '[{type: logs, paths: ["/var/log/app/*.log"]}]'
            wanted = f"wanted a list of at least one source, such as {example}"
            raise ConfigError(f"{where}: found {found}, {wanted}")
        sources = [self._decode(entry, f"{where}[{i}]") for i, entry in enumerate(entries)]
        self._check_overlaps(sources, where)
        return sources

    def _check_overlaps(self, sources: Sequence[SourceConfig], where: str) -> None:
        numbers: dict[str, dict[Hashable, int]] = {}
        for i, source in enumerate(sources):
            row = self.type_of(source)
            known, read = numbers.setdefault(row.name, {}), row.reads(source)
            first = next(iter(known.values()), None)
            j = first if read is EVERYTHING else known.get(read, known.get(EVERYTHING))
            if j is not None:
                raise ConfigError(f"{where}[{i}]: {row.overlap} as sources[{j}]")
            known[read] = i

    def encode(self, config: SourceConfig) -> dict[str, Any]:
        """Return a source as in a configuration file."""
        return {"type": self.type_of(config).name, **encode(config)}

    def capabilities(self, config: SourceConfig) -> frozenset[Capability]:
        """Return the capabilities that a source can use; files of other users need one."""
        own = self.type_of(config).capabilities(config)
        return own | {Capability.DAC_READ_SEARCH} if self.mounts(config) else own

    def mounts(self, config: SourceConfig) -> tuple[Mount, ...]:
        """Return the files that a source shares with the application."""
        return self.type_of(config).mounts(config)

    def coverage(self) -> list[tuple[SourceCoverage, list[str]]]:
        """Return each row of coverage, and the source types that share it."""
        types: dict[SourceCoverage, list[str]] = {}
        for row in self.by_name.values():
            for shown in row.coverage:
                types.setdefault(shown, []).append(row.name)
        return list(types.items())

    def replays(self) -> dict[str, Replay]:
        """Return the types that `replay` reads, by their names there."""
        found = (row.replay for row in self.by_name.values())
        return {replay.kind: replay for replay in found if replay is not None}

    def _decode(self, entry: object, where: str) -> SourceConfig:
        if not isinstance(entry, dict) or "type" not in entry:
            raise ConfigError(f"{where}: wanted a mapping with the key 'type'")
        name = entry["type"]
        if not isinstance(name, str):
            raise ConfigError(f"{where}.type: wanted one of: {', '.join(self.by_name)}")
        if name not in self.by_name:
            known = suggest(name, self.by_name)
            raise ConfigError(f"{where}.type: unknown source {name!r}; {known}")
        row = self.by_name[name]
        rest = {key: value for key, value in entry.items() if key != "type"}
        try:
            config: SourceConfig = decode(row.config, rest, where)
            row.check(config)
        except ConfigError as error:  # a source's own check does not know its place in the file
            if str(error).startswith(where):
                raise
            raise ConfigError(f"{where}.{error}") from error
        return config


REGISTRY = SourceRegistry()
