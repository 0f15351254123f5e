"""The ordered rebalance status, its code table and what each code says.

Source of the codes and of the only-upward rule: KAFKA-12472
(https://issues.apache.org/jira/browse/KAFKA-12472). Codes 0-10 are a consumer's, 0-13 a Kafka
Streams instance's, a group's and an application's. A code is grave in the order of its number, so
that ``max`` over members, instances and groups is the honest summary.
"""

from enum import IntEnum


class RebalanceStatus(IntEnum):
    """Why a rebalance is going on; ``NONE`` says that none is."""

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
        """One sentence for people: what sets this code."""
        return HELP[self]


_LABELS = {
    code: "".join(word.capitalize() for word in code.name.split("_")) for code in RebalanceStatus
}

BY_LABEL = {label: code for code, label in _LABELS.items()}
"""The code of each name: ``BY_LABEL["NewMember"]``."""

CONSUMER_MAX = RebalanceStatus.REVOCATION_NEEDED
"""The highest code that a consumer takes; what lies above belongs to the streams layer."""

STREAMS_CODES = tuple(code for code in RebalanceStatus if code >= RebalanceStatus.REVOCATION_NEEDED)
"""What a streams layer of its own can hold: 10 to 13."""

HELP = {
    RebalanceStatus.NONE: "no rebalance is going on",
    RebalanceStatus.COORDINATOR_REQUESTED: "the coordinator answered REBALANCE_IN_PROGRESS",
    RebalanceStatus.NEW_MEMBER: "the member joins and was told to use a member id",
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
