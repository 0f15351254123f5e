"""Settings by type of group: what clients set in one protocol, the broker sets in another. Pure.

Groups of the new protocols (consumer, share, streams) have their session timeout and their largest
size on the broker. Their coordinator assigns and notices new partitions by itself, so the settings
of clients for both have no effect.

Source: "Consumer Configs", "Broker Configs" and "Group Configs" of
https://kafka.apache.org/documentation/.
"""

SESSION_TIMEOUT = "session.timeout.ms"
INSTANCE_ID = "group.instance.id"
BROKER_SESSION_S = 45.0
"""Default of group.consumer.session.timeout.ms, and of those of share and streams groups."""
BROKER_SESSION_MAX_S = 60.0
"""Default of group.consumer.max.session.timeout.ms, and of those of share and streams groups."""
WITH_STATIC = {None, "classic", "consumer"}
"""Types of groups that know static members."""

_ON_BROKER = {"consumer", "share", "streams"}
_NAMES = {SESSION_TIMEOUT: "{}.session.timeout.ms", "group.max.size": "group.{}.max.size"}
_OF_CLASSIC = {
    "group.initial.rebalance.delay.ms",
    "internal.leave.group.on.close",
    "metadata.max.age.ms",
    "partition.assignment.strategy",
}


def has_broker_session(group_type: str | None) -> bool:
    """Return whether groups of a type have their session timeout on the broker."""
    return group_type in _ON_BROKER


def setting_of(name: str, group_type: str | None) -> str | None:
    """Return how a setting of classic groups is named for a type of groups; None: it has none."""
    if name == INSTANCE_ID:
        return name if group_type in WITH_STATIC else None
    if group_type not in _ON_BROKER:
        return name
    return None if name in _OF_CLASSIC else _NAMES.get(name, name).format(group_type)
