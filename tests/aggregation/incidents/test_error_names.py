"""Names of join errors, in the words of each client and version."""

import pytest

from aggregation.incidents.error_names import name_error

_INCOMPATIBLE = (
    "The group member's supported protocols are incompatible with those of existing members or "
    "first group member tried to join with empty protocol type or empty protocol list."
)
_REASONS = {
    # the wire
    "JoinGroup answered INCONSISTENT_GROUP_PROTOCOL": "INCONSISTENT_GROUP_PROTOCOL",
    "heartbeat answered INCORRECTLY_PARTITIONED_TOPICS: topic t has 4 partitions":
        "INCORRECTLY_PARTITIONED_TOPICS",
    "Membership is in the following statuses: (5) delayed, (2) topic t has 4 partitions":
        "INCORRECTLY_PARTITIONED_TOPICS",
    "Membership is in the following statuses: (1) Source topics t are missing.":
        "MISSING_SOURCE_TOPICS",
    # Java, since 3.2 with the exception
    "rebalance failed due to 'x' (InconsistentGroupProtocolException)":
        "INCONSISTENT_GROUP_PROTOCOL",
    "rebalance failed due to 'x' (GroupAuthorizationException)": "GROUP_AUTHORIZATION_FAILED",
    "rebalance failed due to 'x' (GroupMaxSizeReachedException)": "GROUP_MAX_SIZE_REACHED",
    f"JoinGroup failed due to fatal error: {_INCOMPATIBLE}": "INCONSISTENT_GROUP_PROTOCOL",
    "JoinGroup failed due to fatal error: Group authorization failed.":
        "GROUP_AUTHORIZATION_FAILED",
    "JoinGroup failed due to fatal error: The consumer group has reached its max size.":
        "GROUP_MAX_SIZE_REACHED",
    "Attempt to join group failed due to fatal error: The session timeout is not within the range "
    "allowed by the broker (as configured by group.min.session.timeout.ms and "
    "group.max.session.timeout.ms).": "INVALID_SESSION_TIMEOUT",
    "JoinGroup failed due to fatal error: The configured groupId is invalid.": "INVALID_GROUP_ID",
    "Received fatal exception: group.instance.id gets fenced": "FENCED_INSTANCE_ID",
    "JoinGroup failed: The group instance id i1 has been fenced by another instance.":
        "FENCED_INSTANCE_ID",
    "rebalance failed due to 'Unexpected error from SyncGroup: The server experienced an "
    "unexpected error when processing the request.' (KafkaException)": "UNKNOWN_SERVER_ERROR",
    # Java, KIP-848
    "ConsumerGroupHeartbeatRequest failed due to group authorization failure: Not authorized to "
    "access group: g": "GROUP_AUTHORIZATION_FAILED",
    "GroupHeartbeatRequest failed due to unreleased instance id i2: Static member a with instance "
    "id i2 cannot join the group because the instance id is owned by b member.":
        "UNRELEASED_INSTANCE_ID",
    "ConsumerGroupHeartbeatRequest failed due to UNSUPPORTED_ASSIGNOR: ServerAssignor x is not "
    "supported. Supported assignors: uniform, range.": "UNSUPPORTED_ASSIGNOR",
    # names in capitals, and names with an error's words, are of groups and clients
    "rebalance failed due to 'Not authorized to access group: PAYMENTS_PROD' "
    "(GroupAuthorizationException)": "GROUP_AUTHORIZATION_FAILED",
    "Failed to join group MY_GROUP: [81] x": "GROUP_MAX_SIZE_REACHED",
    "rebalance failed due to 'Consumer group g-fenced by 2 already has the configured maximum "
    "number of members.' (GroupMaxSizeReachedException)": "GROUP_MAX_SIZE_REACHED",
    # brokers
    "Request memberId=a for static member with groupInstanceId=i is fenced by existing memberId=b":
        "FENCED_INSTANCE_ID",
    "member.id a is identified as a known static member i, but not matching the expected "
    "member.id b": "FENCED_INSTANCE_ID",
    # librdkafka
    "JoinGroup response: Broker: Group authorization failed (0 members)":
        "GROUP_AUTHORIZATION_FAILED",
    "JoinGroup response: Broker: Inconsistent group protocol": "INCONSISTENT_GROUP_PROTOCOL",
    "JoinGroup response: Broker: Invalid session timeout": "INVALID_SESSION_TIMEOUT",
    "JoinGroup response: Broker: Consumer group has reached maximum size": "GROUP_MAX_SIZE_REACHED",
    "heartbeat error response in state up: Broker: Static consumer fenced by other consumer with "
    "same group.instance.id": "FENCED_INSTANCE_ID",
    # Python, Go, Node
    "Attempt to join group failed due to fatal error: [Error 26] InvalidSessionTimeoutError":
        "INVALID_SESSION_TIMEOUT",
    "Attempt to join group g failed due to group authorization error": "GROUP_AUTHORIZATION_FAILED",
    "SyncGroup for group g failed due to fenced id error": "FENCED_INSTANCE_ID",
    "Failed to join group g: [30] Group Authorization Failed: the client is not authorized":
        "GROUP_AUTHORIZATION_FAILED",
    f"Crash: KafkaJSProtocolError: {_INCOMPATIBLE[:76]}": "INCONSISTENT_GROUP_PROTOCOL",
}  # fmt: skip


@pytest.mark.parametrize("reason", _REASONS)
def test_error_has_the_name_that_the_protocol_gives_it(reason: str) -> None:
    assert name_error(reason) == _REASONS[reason]


@pytest.mark.parametrize("reason", ["", "transitioned from JOINING to FATAL", "retried [7] times"])
def test_other_words_name_no_error(reason: str) -> None:
    assert name_error(reason) is None
