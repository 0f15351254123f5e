"""A source type, as the registry lists it: one row with everything the agent needs to know of it.

A source is its folder: configuration, source, interpreter, and ``registration.py`` with its row.
`agent.sources.registry` lists the rows. A row imports only the configuration: the source itself is
imported by its factory, so that an agent loads no source that it does not run.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from agent.config.cluster import ClusterConfig
from agent.config.limits import LimitsConfig
from agent.errors import SourceError
from agent.sources.base import Source, Tick
from agent.sources.coverage import SourceCoverage
from metrics.model.signals import Signal, SourceKind


class Capability(IntEnum):
    """Linux capabilities that an agent can use."""

    DAC_OVERRIDE = 1
    """To write in a folder of another user."""
    DAC_READ_SEARCH = 2
    """To read other users' logs, also those that appear later."""
    NET_BIND_SERVICE = 10
    """For a proxy's port below 1024, also after a reload."""
    NET_RAW = 13
    """To capture, also after a reload, or when an interface returns."""


class SourceConfig(Protocol):
    """The configuration of one source."""

    @property
    def name(self) -> str:
        """The name of the source in metrics and in the checkpoint."""


class Mount(NamedTuple):
    """Files that a source shares with the application, as a glob."""

    glob: str
    is_read_only: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceContext:
    """The agent's settings and the source's position, for its factory."""

    cluster: ClusterConfig
    host: str
    timezone: str | None
    is_watched: Callable[[str], bool]
    app_of: Callable[[str], str]
    limits: LimitsConfig
    position: dict[str, Any] | None = None
    orphans: dict[str, Any] = field(default_factory=dict)
    """Positions of streams without a configured source any more; a source removes its own."""
    readers: dict[str, object] = field(default_factory=dict)
    """By real path, the reader of each file that sources of this type read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """Options of a replay that sources read."""

    cluster: str
    host: str
    timezone: str | None = None
    group: str | None = None
    dialects: Any = None
    """`agent.sources.lines.dialects.dialect_matcher.Dialects` of clients."""
    on_unreadable: Callable[[SourceError], None]
    on_note: Callable[[str], None]
    """Takes a sentence on input that was not read."""
    on_progress: Callable[[str, int], None]
    """Takes a stream and the bytes read of it."""


ReplayStream = Iterator[Signal | Tick]
Config = TypeVar("Config", bound=SourceConfig)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Replay of recorded files of one source type."""

    kind: str
    """Its name in ``replay --source`` and in ``KIND:PATH``."""
    read: Callable[[Sequence[str], ReplayOptions], list[ReplayStream]]
    line_parsers: Callable[[Sequence[str], ReplayOptions], dict[Any, Any]] | None = None
    """Returns the parser of each recording, for ``--explain-line``; None: not read by lines."""
    marks: bytes | None = None
    """Expression that the head of a file of lines shows for this type; None: no text does."""
    is_recording: Callable[[str], bool] | None = None
    """Whether a file is of this type, by its content; None: content does not show it."""


EVERYTHING = object()
"""What a source reads that overlaps with every other one of its type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceType(Generic[Config]):
    """One row of the registry."""

    name: str
    """Its name in ``sources[].type``."""
    config: type[Config]
    create: Callable[[Config, SourceContext], Source]
    check: Callable[[Config], None] = lambda _: None
    """Raises ConfigError for rules that the configuration class does not check."""
    reads: Callable[[Config], Hashable] = lambda config: config.name
    """What a source reads, or `EVERYTHING`. Two that read the same would count it twice."""
    overlap: str = "reads the same"
    """Description of the second one."""
    capabilities: Callable[[Config], frozenset[Capability]] = lambda _: frozenset()
    """Capabilities beside those that its mounts need."""
    mounts: Callable[[Config], tuple[Mount, ...]] = lambda _: ()
    reports: tuple[SourceKind, ...] = ()
    """Kinds of its signals; none: it reports no member."""
    reads_brokers: bool = False
    """Whether it reads whole groups from `cluster.bootstrap_servers`: not in a sidecar."""
    origin_of: Callable[[str], str] | None = None
    """Maps a stream of its positions to its members' origin; None: positions hold no streams."""
    coverage: tuple[SourceCoverage, ...] = ()
    """Its codes, without those of log dialects."""
    replay: Replay | None = None
