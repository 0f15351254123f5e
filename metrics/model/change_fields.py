"""Names of the attributes in records of kind ``change``, with the meaning of their values.

They are part of the record's schema: a reader selects by ``subject`` and ``field``.
"""

from types import MappingProxyType

MEMBER_FIELDS = MappingProxyType(
    {
        "partitions": "Partitions or tasks that it reads, as `orders:0-3,7 payments:1`.",
        "joined": "It sent a join request; the time is in `joined_ts`. No values.",
        "closed": "Its consumer was closed without a leave, as static members and Streams threads "
        "do: the others learn of it when its session expires. No values.",
        "session.timeout.ms": "Session timeout of its join or of its printed configuration.",
        "max.poll.interval.ms": "The interval that a dropped member exceeded, or of a new member.",
        "assignors": "Assignors that it supports, in its order.",
        "assignor": "Assignor that its group uses.",
        "leader": "Member id of the group's leader; recorded by the new one.",
        "software": "Name and version of its client.",
        "version": "Version of its application, from the agent's `workload`.",
        "image": "Image of its container, from the agent's `workload`.",
        "removed_by": "Who removed it from the group, other than itself.",
        "silent.ms": "Time between the last request that was seen of it and this record: of a "
        "member whose client has ended its connections, that another process follows, or that a "
        "new protocol has fenced; or that leaves in one after missed heartbeats. Nothing else "
        "shows when it stopped, if the broker has its session timeout or nobody else is in the "
        "group.",
    }
)
"""Of a member (``subject`` is ``member``): each field and its values."""

GROUP_FIELDS = MappingProxyType(
    {
        "protocol": "Protocol type: `consumer`, `connect`, ...",
        "assignor": "Assignor that the group uses.",
        "leader": "Client id of the leader, where members name it.",
        "subscription": "Topics and patterns of all members.",
        "consumer.session.timeout.ms": "Session timeout that the broker has for the group.",
        "share.session.timeout.ms": "The same for a share group.",
        "streams.session.timeout.ms": "The same for a streams group.",
        "lag": "Records that the group is behind, since a disturbance: before it, and now.",
    }
)
"""Of a group (``subject`` is ``group``), from inspection: each field and its values."""
