"""Construction of the configured sources: the composition root's part for the edge."""

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from agent.config.hub import read_token
from agent.runtime.pipeline import Positions
from agent.sources.base import Source
from agent.sources.registry import REGISTRY, Row
from agent.sources.source_type import SourceConfig, SourceContext
from agent.wiring.agent_config import AgentConfig, Role
from metrics.model.signals import SourceKind
from metrics.tracking.source_traits import TRAITS

UNREAD_MAX, UNREAD_BYTES_MAX = 1_000, 4 << 20
"""Files without a source whose positions are kept, and the bytes of all these positions."""

_log = logging.getLogger(__name__)


def make_sources(config: AgentConfig, positions: Positions) -> list[Source]:
    """Return the configured sources, each at its position.

    Raises:
        RebalanceAgentError: a rule or a path in the configuration is wrong.

    """
    orphans = _find_orphans(config, positions)
    readers: dict[str, dict[str, object]] = {}
    sources = [
        REGISTRY.create(source, _context(config, positions, source, orphans, readers))
        for source in config.sources
    ]
    if config.role is Role.HUB:
        sources.append(_make_receiver(config, positions))
    return sources


class ConfiguredOrigins:
    """The origins of members that the configured sources can report."""

    def __init__(
        self, config: AgentConfig, positions: Positions, sources: Sequence[Source]
    ) -> None:
        """``positions`` are those of a checkpoint, and ``sources`` have resumed from them."""
        rows = [REGISTRY.type_of(source) for source in config.sources]
        self._kinds = {kind for row in rows for kind in row.reports}
        unread = [*_list_unread(positions, sources)]
        self._departed = {
            row.origin_of(stream)
            for row, position in unread
            if row.origin_of is not None
            for stream in position
        }
        self.unread = _keep_newest(unread)
        """Positions in files that no source reads any more, for a source that will again. They
        stand by type, under a name that no source has; files that were read last are the last."""
        self._resumed = {
            row.origin_of(stream)
            for source in sources
            if (row := REGISTRY.by_name.get(source.kind)) is not None
            if row.origin_of is not None and any(map(_reports_often, row.reports))
            for stream in source.checkpoint()
        }

    def is_departed(self, kind: SourceKind, origin: str) -> bool:
        """Return True if no source reads the origin any more."""
        return kind not in self._kinds or origin.partition("#")[0] in self._departed

    def is_awaited(self, kind: SourceKind, origin: str) -> bool:
        """Return True if a source will report the origin soon: its records, or its end."""
        return _reports_often(kind) and origin.partition("#")[0] not in self._resumed


def _reports_often(kind: SourceKind) -> bool:
    return TRAITS[kind].reports_often


def _keep_newest(positions: Iterable[tuple[Row, dict[str, Any]]]) -> Positions:
    """Return at most `UNREAD_MAX` positions, of at most `UNREAD_BYTES_MAX` together."""
    found: dict[tuple[str, str], msgspec.Raw] = {}
    for row, position in positions:
        for stream, place in position.items():
            found[row.name, stream] = msgspec.Raw(msgspec.json.encode(place))
    size, count = sum(map(len, found.values())), len(found)
    while len(found) > UNREAD_MAX or size > UNREAD_BYTES_MAX:
        size -= len(found.pop(next(iter(found))))
    if len(found) < count:
        hint = "a source that names these files again reads them from their begin"
        _log.warning("positions_forgotten", extra={"files": count - len(found), "hint": hint})
    unread: Positions = {}
    for (kind, stream), place in found.items():
        unread.setdefault(f"{kind}:", {})[stream] = place
    return unread


def _list_unread(
    positions: Positions, sources: Sequence[Source]
) -> Iterator[tuple[Row, dict[str, Any]]]:
    """Yield positions in files that no source reads any more, by the source that did."""
    current, claimed = set[str](), defaultdict[str, set[str]](set)
    for source in sources:
        current.add(source.name)
        claimed[source.kind].update(source.checkpoint())
    for name, position in positions.items():
        row = _row_of(name)
        if name in current or row is None or row.origin_of is None:
            continue
        read = claimed[row.name]
        yield row, {stream: place for stream, place in position.items() if stream not in read}


def _find_orphans(config: AgentConfig, positions: Positions) -> dict[str, dict[str, Any]]:
    """Return, by type, the streams of sources that are no longer configured under their name."""
    names = {source.name for source in config.sources}
    orphans: dict[str, dict[str, Any]] = {}
    for name, position in positions.items():
        row = _row_of(name)
        if name not in names and row is not None and row.origin_of is not None:
            orphans.setdefault(row.name, {}).update(position)
    return orphans


def _row_of(name: str) -> Row | None:
    """Return the registry's row for a source: its name begins with its type."""
    return REGISTRY.by_name.get(name.partition(":")[0])


def _context(
    config: AgentConfig,
    positions: Positions,
    source: SourceConfig,
    orphans: dict[str, dict[str, Any]],
    readers: dict[str, dict[str, object]],
) -> SourceContext:
    row = REGISTRY.type_of(source)
    position = positions.get(source.name)
    return SourceContext(
        cluster=config.cluster,
        host=config.host,
        timezone=config.timezone,
        is_watched=config.is_watched,
        app_of=config.app_of,
        limits=config.limits,
        position=position if row.origin_of is not None else decode_position(position),
        orphans=orphans.get(row.name, {}),
        readers=readers.setdefault(row.name, {}),
    )


def _make_receiver(config: AgentConfig, positions: Positions) -> Source:
    from agent.hub.push_receiver import PushReceiver  # noqa: PLC0415 - a hub's alone
    from agent.hub.topic_intake import TopicReceiver  # noqa: PLC0415

    if config.hub.topic:
        return TopicReceiver(config.status, decode_position(positions.get(TopicReceiver.name)))
    token = read_token(config.hub.token_file)
    return PushReceiver(token, config.status, decode_position(positions.get(PushReceiver.name)))


def decode_position(position: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return a position as objects; streams of files are decoded one by one, by their tail."""
    if position is None:
        return None
    return {
        name: msgspec.json.decode(value) if isinstance(value, msgspec.Raw) else value
        for name, value in position.items()
    }
