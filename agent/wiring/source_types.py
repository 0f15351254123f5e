"""Types of ``sources``: each type's own configuration, from plain values and back."""

from typing import Any

from agent.config.codec import decode, encode, join, suggest
from agent.errors import ConfigError, DialectError
from agent.sources.broker_logs.config import BrokerLogConfig
from agent.sources.capture.config import CaptureConfig
from agent.sources.http_events.source import HttpConfig
from agent.sources.inspection.config import GroupsSourceConfig
from agent.sources.librdkafka_stats.config import StatsConfig
from agent.sources.logs.config import LogConfig
from agent.sources.proxy.config import ProxyConfig

SourceConfig = (
    LogConfig
    | CaptureConfig
    | ProxyConfig
    | GroupsSourceConfig
    | BrokerLogConfig
    | StatsConfig
    | HttpConfig
)
SOURCES: dict[str, type[SourceConfig]] = {
    "logs": LogConfig,
    "capture": CaptureConfig,
    "proxy": ProxyConfig,
    "groups": GroupsSourceConfig,
    "broker_log": BrokerLogConfig,
    "librdkafka_stats": StatsConfig,
    "http": HttpConfig,
}
"""Configuration class of each ``sources[].type``."""


def decode_sources(entries: object, where: str) -> list[SourceConfig]:
    """Return the sources of a configuration.

    Raises:
        ConfigError: naming the path in the file, the found and the allowed values.

    """
    if not isinstance(entries, list) or not entries:
        found = type(entries).__name__ if entries else "none"
        example = '[{type: logs, paths: ["/var/log/app/*.log"]}]'
        wanted = f"wanted a list of at least one source, such as {example}"
        raise ConfigError(f"{where}: found {found}, {wanted}")
    sources = [_source(entry, f"{where}[{i}]") for i, entry in enumerate(entries)]
    names = [source.name for source in sources]
    for i, name in enumerate(names):
        if name in names[:i]:
            raise ConfigError(f"{where}[{i}]: reads the same as sources[{names.index(name)}]")
    return sources


def encode_source(source: SourceConfig) -> dict[str, Any]:
    """Return a source as in a configuration file."""
    kinds = {cls: name for name, cls in SOURCES.items()}
    return {"type": kinds[type(source)], **encode(source)}


def _source(entry: object, where: str) -> SourceConfig:
    if not isinstance(entry, dict) or "type" not in entry:
        raise ConfigError(f"{where}: wanted a mapping with the key 'type'")
    kind = entry["type"]
    if not isinstance(kind, str):
        raise ConfigError(f"{where}.type: wanted one of: {', '.join(SOURCES)}")
    if kind not in SOURCES:
        raise ConfigError(f"{where}.type: unknown source {kind!r}; {suggest(kind, SOURCES)}")
    rest = {key: value for key, value in entry.items() if key != "type"}
    try:
        source = decode(SOURCES[kind], rest, where)
    except ConfigError as error:  # a source's own check does not know its place in the file
        raise error if str(error).startswith(where) else ConfigError(f"{where}.{error}") from error
    if isinstance(source, LogConfig):
        _check_rules(source, where)
    return source


def _check_rules(source: LogConfig, where: str) -> None:
    from agent.sources.lines.dialect_loader import choose_dialects  # noqa: PLC0415 - 1 MiB that other sources do not need

    try:
        choose_dialects(source.dialects, source.rules)
    except DialectError as error:
        text = str(error)
        place = text if text.startswith("rules[") else f"dialects: {text}"
        raise ConfigError(join(where, place)) from error
