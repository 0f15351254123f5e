"""Settings by type of group and kind of client. Pure.

Some settings of clients in one protocol are settings of the broker in another.

Groups of the new protocols (consumer, share, streams) have their session timeout and their largest
size on the broker. Their coordinator assigns partitions and notices new ones by itself, so the
clients' settings for assignors and metadata have no effect.

Kafka Streams has an assignor of its own. Connect's workers are no consumers: they have neither
records to poll nor instance ids, and call the interval of their polls differently.

Source: "Consumer Configs", "Kafka Streams Configs", "Kafka Connect Configs", "Broker Configs" and
"Group Configs" of https://kafka.apache.org/documentation/.
"""

from collections.abc import Iterable
from enum import StrEnum

from metrics.model.signals import streams_thread

SESSION_TIMEOUT = "session.timeout.ms"
INSTANCE_ID = "group.instance.id"
BROKER_SESSION_S = 45.0
"""Default of group.consumer.session.timeout.ms, and of those of share and streams groups."""
BROKER_SESSION_MAX_S = 60.0
"""Default of group.consumer.max.session.timeout.ms, and of those of share and streams groups."""
LONGEST_PAUSE_S = 300.0
"""A session timeout should not be raised for a longer silence."""
LONGEST_INTERVAL_S = 600.0
"""Longer work between two polls needs fewer records a poll, not a longer interval."""
_WITH_STATIC = {None, "classic", "consumer"}
"""Types of groups that know static members."""


class ClientKind(StrEnum):
    """The program that reads the settings of a group's members."""

    CONSUMER = "consumer"
    STREAMS = "streams"
    CONNECT = "connect"


_ON_BROKER = {"consumer", "share", "streams"}
_NAMES = {SESSION_TIMEOUT: "{}.session.timeout.ms", "group.max.size": "group.{}.max.size"}
_OF_CLASSIC = {
    "acceptable.recovery.lag",
    "group.initial.rebalance.delay.ms",
    "internal.leave.group.on.close",
    "metadata.max.age.ms",
    "partition.assignment.strategy",
    "upgrade.from",
}
_LACKS = {
    ClientKind.CONSUMER: set[str](),
    ClientKind.STREAMS: {"partition.assignment.strategy"},
    ClientKind.CONNECT: {INSTANCE_ID, "max.poll.records", "partition.assignment.strategy"},
}
_OF_CONNECT = {"max.poll.interval.ms": "rebalance.timeout.ms"}


def find_client_kind(protocol_type: str | None, client_ids: Iterable[str]) -> ClientKind:
    """Return the kind of a group's clients."""
    if protocol_type == ClientKind.CONNECT:
        return ClientKind.CONNECT
    is_streams = any(streams_thread(each) is not None for each in client_ids)
    return ClientKind.STREAMS if is_streams else ClientKind.CONSUMER


def has_broker_session(group_type: str | None) -> bool:
    """Return whether groups of a type have their session timeout on the broker."""
    return group_type in _ON_BROKER


def setting_of(
    name: str, group_type: str | None, kind: ClientKind = ClientKind.CONSUMER
) -> str | None:
    """Return the name that a setting of classic consumers has in a group; None: no such setting."""
    if name in _LACKS[kind]:
        return None
    if kind is ClientKind.CONNECT:
        return _OF_CONNECT.get(name, name)
    if name == INSTANCE_ID:
        return name if group_type in _WITH_STATIC else None
    if group_type not in _ON_BROKER:
        return name
    return None if name in _OF_CLASSIC else _NAMES.get(name, name).format(group_type)
