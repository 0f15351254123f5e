"""Joins that a coordinator refuses for good, in the words of each client and version.

The lines are written from the clients' sources at the tags that their dialects name; those of the
KIP-848 consumer with the id of another process are recorded.
"""

import pytest

from agent.sources.lines.dialects.dialect_loader import choose_dialects
from agent.sources.logs.client_interpreter import ClientInterpreter
from agent.sources.logs.client_parser import create_parser
from aggregation.incidents.error_names import name_error
from metrics.model.signals import Signal, SignalKind

_JAVA = "[2026-11-25 13:34:54,750] ERROR [Consumer clientId=m1, groupId=g] {} (org.apache.kafka.x)"
_INCOMPATIBLE = "The group member's supported protocols are incompatible with those of existing"

_LINES = {
    "java-2.3": _JAVA.format("Attempt to join group failed due to fatal error: Group authorization "
                             "failed."),
    "java-2.6": _JAVA.format("SyncGroup with Generation{generationId=3, memberId='m1-1', "
                             "protocol='range'} failed because the group instance id Optional[i1] "
                             "has been fenced by another instance"),
    "java-2.6-heartbeat": _JAVA.format("Attempt to heartbeat with Generation{generationId=3, "
                                       "memberId='m1-1', protocol='range'} and group instance id "
                                       "Optional[i1] failed due to FENCED_INSTANCE_ID, resetting "
                                       "generation"),
    "java-2.8-commit": _JAVA.format("OffsetCommit failed with Generation{generationId=2, memberId="
                                    "'i2-1', protocol='range'} due to group instance id "
                                    "Optional[i2] fenced"),
    "java-2.8": _JAVA.format("JoinGroup failed due to fatal error: The consumer group has reached "
                             "its max size."),
    "java-3.1": _JAVA.format(f"JoinGroup failed due to fatal error: {_INCOMPATIBLE} members."),
    "kip848-3.9": _JAVA.format("GroupHeartbeatRequest failed due to unreleased instance id i2: "
                               "Static member x with instance id i2 cannot join the group"),
    "kip848-4.0": _JAVA.format("ConsumerGroupHeartbeatRequest failed due to group authorization "
                               "failure: Not authorized to access group: g"),
    "kip1071-4.1": _JAVA.replace("m1", "s1-StreamThread-1-consumer").format(
        "StreamsGroupHeartbeatRequest failed due to STREAMS_INVALID_TOPOLOGY: Topology is invalid"
    ),
    "share-4.1": _JAVA.replace("[Consumer", "[ShareConsumer").format(
        "ShareGroupHeartbeatRequest failed due to GROUP_MAX_SIZE_REACHED: The share group is full"
    ),
    "kafkajs": '{"level":"ERROR","timestamp":"2026-11-25T13:34:54.750Z","logger":"kafkajs",'
    f'"message":"[Consumer] Crash: KafkaJSProtocolError: {_INCOMPATIBLE} members",'
    '"groupId":"g","stack":"KafkaJSProtocolError: The group"}',
    "kafka-go": "2026/11/25 13:34:54 Failed to join group g: [23] Inconsistent Group Protocol: "
    "a member joined with other protocols",
}  # fmt: skip

_ERRORS = {
    "java-2.3": "GROUP_AUTHORIZATION_FAILED",
    "java-2.6": "FENCED_INSTANCE_ID",
    "java-2.6-heartbeat": "FENCED_INSTANCE_ID",
    "java-2.8-commit": "FENCED_INSTANCE_ID",
    "java-2.8": "GROUP_MAX_SIZE_REACHED",
    "java-3.1": "INCONSISTENT_GROUP_PROTOCOL",
    "kip848-3.9": "UNRELEASED_INSTANCE_ID",
    "kip848-4.0": "GROUP_AUTHORIZATION_FAILED",
    "kip1071-4.1": "STREAMS_INVALID_TOPOLOGY",
    "share-4.1": "GROUP_MAX_SIZE_REACHED",
    "kafkajs": "INCONSISTENT_GROUP_PROTOCOL",
    "kafka-go": "INCONSISTENT_GROUP_PROTOCOL",
}


def _read(line: str) -> list[Signal]:
    parser = create_parser(choose_dialects("auto"), ClientInterpreter(stream="app.log"), "UTC")
    return [*parser.feed(f"{line}\n".encode(), 1_900_000_000.0), *parser.flush()]


@pytest.mark.parametrize("client", _LINES)
def test_refused_join_is_read_with_its_group_and_words(client: str) -> None:
    (found,) = _read(_LINES[client])

    assert (found.kind, found.member.group) == (SignalKind.FAIL, "g")
    assert found.reason is not None
    assert name_error(found.reason) == _ERRORS[client]
    assert found.reason.split(":")[0] in _LINES[client]


def test_kafkajs_crash_of_another_kind_is_none() -> None:
    line = _LINES["kafkajs"].replace(_INCOMPATIBLE, "The broker is not available to")

    assert _read(line) == []


_REFUSED = {
    "commit": "Offset commit failed on partition t-0 at offset 7: Group authorization failed.",
    "metadata": "Topic authorization failed for topics [t]",
    "authentication": "Connection to node 2147483646 (localhost/127.0.0.1:45513) failed "
    "authentication due to: Authentication failed during re-authentication due to invalid "
    "credentials with SASL mechanism SCRAM-SHA-256",
    "fetch": "Not authorized to read from partition t-0.",
    "kip848-commit": "OffsetCommit failed due to not authorized to commit to topics [t]",
    "kip848-heartbeat": "ConsumerGroupHeartbeatRequest failed for member 0d2W9OoSSfGFhwna6TR40g "
    "with state STABLE due to TOPIC_AUTHORIZATION_FAILED: null",
}


@pytest.mark.parametrize("request_", _REFUSED)
def test_refused_request_of_a_member_moves_no_status(request_: str) -> None:
    """The lines are recorded, of a member that stays in its group."""
    synced = "Successfully synced group in generation Generation{generationId=1, memberId='m1-1', "
    member = _JAVA.format(synced + "protocol='range'}")
    if request_.startswith("kip848"):
        states = "Member x with epoch 1 transitioned from ACKNOWLEDGING to STABLE."
        member = _JAVA.format(states)

    *_, found = _read(f"{member}\n{_JAVA.format(_REFUSED[request_])}")

    assert (found.kind, found.member.group) == (SignalKind.REFUSE, "g")
    names = {"commit": "GROUP_AUTHORIZATION_FAILED", "authentication": "SASL_AUTHENTICATION_FAILED"}
    name = names.get(request_, "TOPIC_AUTHORIZATION_FAILED")
    assert name_error(found.reason or "") == name


@pytest.mark.parametrize(
    ("words", "is_refused"),
    [
        ("(2) Existing topic t has different number of partitions: expected 6, found 4", True),
        ("(5) Assignment delayed, (1) Source topics t are missing.", True),
        ("(5) Assignment delayed due to the configured assignment interval.", False),
        ("(3) Internal topics are missing: [t]", False),
    ],
)
def test_topology_that_ends_a_streams_application(words: str, is_refused: bool) -> None:
    line = _JAVA.replace("m1", "s1-StreamThread-1-consumer").format(
        f"Membership is in the following statuses: {words}"
    )

    assert [each.kind for each in _read(line)] == [SignalKind.REFUSE] * is_refused
