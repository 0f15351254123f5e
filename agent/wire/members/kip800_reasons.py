"""Causes in the Reason of a JoinGroup or LeaveGroup (KIP-800).

The texts are the clients' own: the Java client's, read in its sources from 3.2 to 4.3
(AbstractCoordinator, ConsumerCoordinator, ClassicKafkaConsumer, Kafka Streams' StreamThread,
Connect's WorkerCoordinator), and franz-go's from 1.5 to 1.20 (pkg/kgo/consumer_group.go);
librdkafka, kafka-python and aiokafka give none. Any other text was typed by a user.
"""

import re
from dataclasses import dataclass

from metrics.model.status import RebalanceStatus

NONE = RebalanceStatus.NONE


@dataclass(frozen=True, slots=True)
class JoinCause:
    """A join's cause in its reason."""

    status: RebalanceStatus
    due_ms: int | None = None
    """When Streams had scheduled this follow-up (Unix milliseconds; 0 is at once)."""


_FOLLOW_UP = re.compile(r"triggered followup rebalance scheduled for (?P<due_ms>\d{1,18})")
_FIXED = [
    (re.compile(pattern), status)
    for pattern, status in (
        (
            "(offset commit failed since )?group is already rebalancing",
            RebalanceStatus.COORDINATOR_REQUESTED,
        ),
        ("need to re-join with the given member-id.*", RebalanceStatus.NEW_MEMBER),
        (r"encountered UNKNOWN_MEMBER_ID from \w+ response", RebalanceStatus.UNKNOWN_MEMBER),
        (r"encountered ILLEGAL_GENERATION from \w+ response", RebalanceStatus.STALE_MEMBER),
        (r"encountered \w+ from \w+ response", NONE),  # fenced: the client dies
        ("rebalance failed due to .*RebalanceInProgress.*", RebalanceStatus.COORDINATOR_REQUESTED),
        ("rebalance failed due to .*MemberIdRequired.*", RebalanceStatus.NEW_MEMBER),
        ("rebalance failed due to .*UnknownMemberId.*", RebalanceStatus.UNKNOWN_MEMBER),
        (
            "rebalance failed due to .*(CoordinatorLoadInProgress|NotCoordinator).*",
            RebalanceStatus.RETRY_ON_ERROR,
        ),
        ("rebalance failed (due to|since) .*", NONE),  # the connection, or seen before
        ("cached metadata has changed", RebalanceStatus.METADATA_CHANGED),
        ("subscription has changed", RebalanceStatus.SUBSCRIPTION_CHANGED),
        (
            "received assignment does not match the current subscription",
            RebalanceStatus.SUBSCRIPTION_CHANGED,
        ),
        ("need to revoke partitions and re-join", RebalanceStatus.REVOCATION_NEEDED),
        ("consumer pro-actively leaving the group", NONE),  # 5 or 6 came just before
        ("beginning to manage the group lifecycle", NONE),
        ("rejoining from normal rebalance", RebalanceStatus.COORDINATOR_REQUESTED),
        ("rejoining after we previously errored and backed off", NONE),
        (
            "(cooperative rejoin )?after revoking what we lost from a rebalance",
            RebalanceStatus.REVOCATION_NEEDED,
        ),
        (
            "rejoining because we are the leader and noticed .*|leader detected that partitions .*",
            RebalanceStatus.METADATA_CHANGED,
        ),
        ("rejoining because there are more topics .*", RebalanceStatus.SUBSCRIPTION_CHANGED),
        ("instance group leader restarted and .*", RebalanceStatus.SUBSCRIPTION_CHANGED),
        ("rejoin from PurgeFetchTopics", RebalanceStatus.SUBSCRIPTION_CHANGED),
    )
]
CODES = frozenset(status for _, status in _FIXED if status) | {
    RebalanceStatus.USER_REQUESTED,
    RebalanceStatus.ASSIGNMENT_PROBING,
}
"""The codes that a join's reason can set."""
OF_TOPICS = {RebalanceStatus.METADATA_CHANGED, RebalanceStatus.SUBSCRIPTION_CHANGED}
"""Codes of changed topics: no reason names the topics."""
_DROPPED = {"consumer poll timeout has expired.", "worker poll timeout has expired."}


def parse_join_reason(reason: str) -> JoinCause:
    """Return the cause in a JoinGroup's reason; `NONE` for a text of a consequence."""
    if match := _FOLLOW_UP.fullmatch(reason):
        return JoinCause(RebalanceStatus.USER_REQUESTED, int(match["due_ms"]))
    for pattern, status in _FIXED:
        if pattern.fullmatch(reason):
            return JoinCause(status)
    return JoinCause(RebalanceStatus.USER_REQUESTED)


def is_poll_timeout(reason: str | None) -> bool:
    """Return whether the heartbeat thread left the group, not the user."""
    return reason in _DROPPED
