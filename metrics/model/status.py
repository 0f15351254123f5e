"""The ordered rebalance status and its code table.

Source of the codes and of the only-upward rule: KAFKA-12472
(https://issues.apache.org/jira/browse/KAFKA-12472). Codes 0-10 are a consumer's, 0-13 a Kafka
Streams instance's, a group's and an application's. Codes are ordered by number, so ``max`` over
members, instances and groups is the honest summary.
"""

from enum import IntEnum


class RebalanceStatus(IntEnum):
    """Reason of the current rebalance; ``NONE``: no rebalance."""

    NONE = 0
    COORDINATOR_REQUESTED = 1
    NEW_MEMBER = 2
    UNKNOWN_MEMBER = 3
    STALE_MEMBER = 4
    DROPPED_GROUP = 5
    USER_REQUESTED = 6
    METADATA_CHANGED = 7
    SUBSCRIPTION_CHANGED = 8
    RETRY_ON_ERROR = 9
    REVOCATION_NEEDED = 10
    ASSIGNMENT_PROBING = 11
    VERSION_PROBING = 12
    ENDPOINT_UPDATE = 13

    @property
    def label(self) -> str:
        """The name as KAFKA-12472 writes it, such as ``NewMember``."""
        return _LABELS[self]

    @property
    def help(self) -> str:
        """The condition that sets this code, in one sentence for people."""
        return HELP[self]


_LABELS = {
    code: "".join(word.capitalize() for word in code.name.split("_")) for code in RebalanceStatus
}

BY_LABEL = {label: code for code, label in _LABELS.items()}
"""The code of each name: ``BY_LABEL["NewMember"]``."""

CONSUMER_MAX = RebalanceStatus.REVOCATION_NEEDED
"""The highest code of a consumer; higher codes are a Streams instance's."""

STREAMS_CODES = tuple(code for code in RebalanceStatus if code >= RebalanceStatus.REVOCATION_NEEDED)
"""Codes of a Streams follow-up: 10 to 13."""

HELP = {
    RebalanceStatus.NONE: "no rebalance is going on",
    RebalanceStatus.COORDINATOR_REQUESTED: "the coordinator answered REBALANCE_IN_PROGRESS",
    RebalanceStatus.NEW_MEMBER: "the member joins, with the member id that the coordinator gave it",
    RebalanceStatus.UNKNOWN_MEMBER: "the coordinator no longer knows the member",
    RebalanceStatus.STALE_MEMBER: "the member's generation or epoch is out of date",
    RebalanceStatus.DROPPED_GROUP: "the member left because its poll interval expired",
    RebalanceStatus.USER_REQUESTED: "the user closed, unsubscribed or enforced a rebalance",
    RebalanceStatus.METADATA_CHANGED: "the topic metadata changed",
    RebalanceStatus.SUBSCRIPTION_CHANGED: "the subscription changed",
    RebalanceStatus.RETRY_ON_ERROR: "a join or sync failed with a retriable error",
    RebalanceStatus.REVOCATION_NEEDED: "partitions or tasks must be revoked before they move",
    RebalanceStatus.ASSIGNMENT_PROBING: "a probing rebalance is scheduled",
    RebalanceStatus.VERSION_PROBING: "the instances agree on a subscription version",
    RebalanceStatus.ENDPOINT_UPDATE: "an instance's application.server changed",
}
