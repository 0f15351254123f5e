"""The agent's configuration: the modules' own configurations, composed from one YAML file.

Order of precedence: the YAML file, then the environment (``REBALANCE_AGENT_*``), then flags. The
command line resolves the last two, as they name the same settings; `Overrides` carries them.
"""

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from agent.config.addresses import Address, parse_address
from agent.config.cluster import ClusterConfig
from agent.config.codec import decode, encode, format_duration, format_size, join
from agent.config.group_patterns import GroupsConfig, app_rules, group_filter
from agent.config.hub import HubConfig
from agent.config.kafka import KafkaConfig, check_topics
from agent.config.limits import MEMORY_MIN_BYTES, LimitsConfig
from agent.config.logging_config import LoggingConfig
from agent.config.otlp import OtlpConfig
from agent.config.web import DEFAULT_LISTEN, TELEMETRY_PATH, WebConfig
from agent.config.yaml_loader import read_yaml
from agent.errors import ConfigError
from agent.outputs.spool.spool import SpoolConfig
from agent.sources.registry import REGISTRY
from agent.sources.source_type import SourceConfig
from metrics.model.units import Duration
from metrics.tracking.status_track import StatusConfig

WORKLOAD_VARIABLES = {
    "version": "REBALANCE_AGENT_WORKLOAD_VERSION",
    "image": "REBALANCE_AGENT_WORKLOAD_IMAGE",
}
"""Variables of the environment, by the key of ``workload`` that they set."""
_WORKLOAD_MAX = 255


class Role(StrEnum):
    """Scope of an agent: clients beside it, whole groups, or other agents' records."""

    SIDECAR = "sidecar"
    STANDALONE = "standalone"
    HUB = "hub"


@dataclass(frozen=True, slots=True)
class SamplesConfig:
    """Interval of periodic samples, and outputs of all samples."""

    spool: SpoolConfig
    interval_s: Duration = field(default=15.0, metadata={"key": "interval"})
    kafka: KafkaConfig | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadConfig:
    """The application beside a sidecar; its changes are recorded with its members."""

    version: str = ""
    """Of the application, as in the label ``app.kubernetes.io/version``."""
    image: str = ""
    """Its container's image."""

    @property
    def values(self) -> dict[str, str]:
        """The values that are known, by name; as long as a record's text may be."""
        known = {"version": self.version, "image": self.image}
        return {name: value[:_WORKLOAD_MAX] for name, value in known.items() if value}


def _default_state_dir() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(base).expanduser() / "kafka-rebalance-agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """The whole configuration, checked."""

    cluster: ClusterConfig = field(default_factory=ClusterConfig)
    role: Role = Role.SIDECAR
    host: str = field(default_factory=socket.gethostname)
    timezone: str | None = None
    """Zone of log lines without one; None: the machine's."""
    state_dir: Path = field(default_factory=_default_state_dir)
    workload: WorkloadConfig = field(default_factory=WorkloadConfig)
    apps: dict[str, Any] = field(default_factory=dict)
    groups: GroupsConfig = field(default_factory=GroupsConfig)
    sources: tuple[SourceConfig, ...]
    status: StatusConfig = field(default_factory=StatusConfig)
    samples: SamplesConfig
    hub: HubConfig = field(default_factory=HubConfig)
    web: WebConfig = field(default_factory=WebConfig)
    otlp: OtlpConfig | None = None
    limits: LimitsConfig = field(default_factory=LimitsConfig)
    log: LoggingConfig = field(default_factory=LoggingConfig)

    @property
    def shows_members(self) -> bool:
        """Whether each member's own series are exported."""
        return self.role is not Role.HUB or self.hub.members

    @property
    def app_of(self) -> Callable[[str], str]:
        """Function from group to application."""
        return app_rules(self.apps, "apps")

    @property
    def is_watched(self) -> Callable[[str], bool]:
        """Predicate: whether a group is watched."""
        return group_filter(self.groups, "groups")


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """Settings of the environment and flags; empty or None sets nothing."""

    listen: tuple[str, ...] = ()
    telemetry_path: str | None = None
    web_config_file: str | None = None
    log_level: str | None = None
    log_format: str | None = None

    def apply(self, document: dict[str, Any]) -> None:
        """Set them in a file's content; a section that is no mapping is refused later."""
        for section, key, value in self._settings:
            _set(document, section, key, value)

    def name_origin(self, text: str, where: str) -> str:
        """Return an error's text; it says where a value is from that is not in the file."""
        keys = (join(where, f"{section}.{key}") for section, key, _ in self._settings)
        return f"{text} (set by a flag or the environment)" if text.startswith((*keys,)) else text

    @property
    def _settings(self) -> list[tuple[str, str, object]]:
        found = [
            ("web", "listen", list(self.listen) or None),
            ("web", "telemetry_path", self.telemetry_path),
            ("web", "config_file", self.web_config_file),
            ("log", "level", self.log_level),
            ("log", "format", self.log_format),
        ]
        return [setting for setting in found if setting[2] is not None]


def load(
    path: Path, overrides: Overrides | None = None, environ: Mapping[str, str] = os.environ
) -> AgentConfig:
    """Read and check a configuration file.

    Raises:
        ConfigError: naming the file, the path in it, the found and the allowed values.

    """
    overrides = overrides or Overrides()
    document, where = read_document(path, overrides, environ), f"{path}: "
    try:
        return build(document, where)
    except ConfigError as error:
        raise ConfigError(overrides.name_origin(str(error), where)) from error


def read_document(path: Path, overrides: Overrides, environ: Mapping[str, str]) -> dict[str, Any]:
    """Read a configuration file; flags and the environment replace its values.

    Raises:
        ConfigError: it is no YAML, or names a variable that is not set.

    """
    document = read_yaml(path, environ)
    overrides.apply(document)
    for key, name in WORKLOAD_VARIABLES.items():  # a pod's manifest has them there
        if environ.get(name):
            _set(document, "workload", key, environ[name])
    return document


def build(document: dict[str, Any], where: str) -> AgentConfig:
    """Check a file's content, and complete it; ``where`` begins each error.

    Raises:
        ConfigError: as `load`.

    """
    limits = decode(LimitsConfig, document.get("limits", {}), join(where, "limits"))
    sources = document.get("sources")
    if document.get("role") != Role.HUB or sources:  # a hub's source is what agents push
        sources = REGISTRY.decode_all(sources, join(where, "sources"))
    document["sources"] = sources or []
    document["status"] = _status(document.get("status", {}), limits, join(where, "status"))
    _default_spool(document)
    try:
        config = decode(AgentConfig, document, where)
    except ConfigError as error:  # a section that checks itself does not know the file
        raise error if str(error).startswith(where) else ConfigError(f"{where}{error}") from error
    _check(config, where)
    return config


def effective(config: AgentConfig) -> dict[str, Any]:
    """Return the configuration in the form of its file, secrets hidden."""
    document: dict[str, Any] = encode(config)
    document["sources"] = [REGISTRY.encode(source) for source in config.sources]
    for name in ("members", "groups"):
        del document["status"][name]
    return document


def _set(document: dict[str, Any], section: str, key: str, value: object) -> None:
    found = document.setdefault(section, {})
    if isinstance(found, dict):
        found[key] = value


def _default_spool(document: dict[str, Any]) -> None:
    state_dir = document.get("state_dir", str(_default_state_dir()))
    samples = document.setdefault("samples", {})
    spool = samples.setdefault("spool", {}) if isinstance(samples, dict) else None
    if isinstance(spool, dict) and isinstance(state_dir, str):
        spool.setdefault("dir", str(Path(state_dir) / "spool"))


def _status(value: object, limits: LimitsConfig, where: str) -> StatusConfig:
    for name in ("members", "groups"):
        if isinstance(value, dict) and name in value:
            raise ConfigError(f"{where}.{name}: unknown key; did you mean 'limits.{name}'?")
    config = decode(StatusConfig, value, where)
    return replace(config, members=limits.members, groups=limits.groups)


def _check(config: AgentConfig, where: str) -> None:
    """Check rules beyond types."""
    app_rules(config.apps, join(where, "apps"))
    group_filter(config.groups, join(where, "groups"))
    if config.timezone is not None:
        _check_zone(config.timezone, join(where, "timezone"))
    if not config.web.listen:
        raise ConfigError(f"{join(where, 'web.listen')}: wanted at least one address")
    _check_listen(config.web.listen, join(where, "web.listen"))
    if config.samples.spool.dir == config.state_dir:  # each has a lock of that name
        wanted = "wanted a folder of its own, such as one in state_dir"
        raise ConfigError(f"{join(where, 'samples.spool.dir')}: found state_dir, {wanted}")
    if not TELEMETRY_PATH.fullmatch(config.web.telemetry_path):
        found = f"found {config.web.telemetry_path!r}"
        wanted = "wanted a path such as /metrics that is not below /- or /api"
        raise ConfigError(f"{join(where, 'web.telemetry_path')}: {found}, {wanted}")
    if config.samples.interval_s < 1:
        found = f"found {format_duration(config.samples.interval_s)!r}"
        raise ConfigError(f"{join(where, 'samples.interval')}: {found}, wanted 1s or more")
    if config.otlp is not None and config.otlp.traces and config.role is Role.SIDECAR:
        wanted = "a sidecar sees no whole groups; wanted role: hub or standalone"
        raise ConfigError(f"{join(where, 'otlp.traces')}: {wanted}")
    if config.limits.memory < MEMORY_MIN_BYTES:
        found = f"found {format_size(config.limits.memory)}, wanted 64MiB or more"
        raise ConfigError(f"{join(where, 'limits.memory')}: {found}: the agent alone needs some 45")
    _check_inspection(config, where)
    ours, is_hub = (config.samples.kafka, config.hub.topic), config.role is Role.HUB
    check_topics(*ours, config.cluster.bootstrap_servers, is_hub=is_hub, where=where)


def _check_listen(addresses: Sequence[str], where: str) -> None:
    seen = set[Address]()
    for i, text in enumerate(addresses):
        address = parse_address(text, f"{where}[{i}]", DEFAULT_LISTEN)
        if address in seen and address.port:
            raise ConfigError(f"{where}[{i}]: found {text!r} twice")
        seen.add(address)


def _check_inspection(config: AgentConfig, where: str) -> None:
    for i, address in enumerate(config.cluster.bootstrap_servers):
        parse_address(address, join(where, f"cluster.bootstrap_servers[{i}]"))
    for i, source in enumerate(config.sources):
        row = REGISTRY.type_of(source)
        if not row.reads_brokers:
            continue
        if config.role is Role.SIDECAR:  # two sidecars would count every group twice
            found = f"found {row.name!r} with role {config.role.value!r}"
            raise ConfigError(f"{join(where, f'sources[{i}].type')}: {found}, wanted 'standalone'")
        if not config.cluster.bootstrap_servers:
            wanted = f"is missing; sources[{i}] ({row.name!r}) wants it"
            raise ConfigError(f"{join(where, 'cluster.bootstrap_servers')}: {wanted}")


def _check_zone(name: str, where: str) -> None:
    if name == "UTC":  # needs no time zone database
        return
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # noqa: PLC0415 - for whom it is set

    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        wanted = "UTC or an IANA name such as Europe/Berlin"
        raise ConfigError(f"{where}: found {name!r}, wanted {wanted}") from error
